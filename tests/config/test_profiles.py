import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.load import load
from tests.config import folder, openclaw_home, write
from tests.config.conftest import FUTURE, NOW, PAST, Reach, remote, revealed, stored


@pytest.mark.parametrize(("kind", "field"), [("api_key", "key"), ("token", "token"), ("oauth", "access")])
def test_every_type_has_its_key(reach: Reach, kind: str, field: str) -> None:
    access = reach("openai", profiles=stored({"type": kind, field: " the-key\n", "expires": FUTURE}))
    assert (revealed(access), access.key_origin) == (["the-key"], "auth-profiles.json: a")


def test_the_file_orders_them_else_the_configuration_else_they_stand_as_they_are(reach: Reach) -> None:
    keys = [{"key": "a"}, {"key": "b"}, {"key": "c"}]
    config: dict[str, Any] = {
        "auth": {
            "order": {"OpenAI": ["b", "a"]},
            "profiles": {"x": {"provider": "voyage"}, "a": {"provider": "voyage"}, "c": {"provider": "openai"}},
        }
    }
    assert revealed(reach("openai", config, profiles=stored(*keys, order={"openai": ["gone", 1, "c"]}))) == ["c"]
    assert revealed(reach("openai", config, profiles=stored(*keys, order={"openai": "c"}))) == ["b"]
    assert revealed(reach("openai", config, profiles=stored(*keys))) == ["b"]
    del config["auth"]["order"]
    assert revealed(reach("openai", config, profiles=stored(*keys))) == ["c"]
    assert revealed(reach("openai", profiles=stored(*keys))) == ["a"]


def test_an_empty_order_means_none(reach: Reach) -> None:
    assert reach("openai", profiles=stored({"key": "a"}, order={"openai": []})).key is None


@pytest.mark.parametrize("expires", [PAST, NOW * 1000, "soon", True])
def test_expired_ones_are_dropped_and_said_to_be(reach: Reach, expires: object) -> None:
    first = {"key": "a", "expires": expires}
    assert revealed(reach("openai", profiles=stored(first, {"key": "b"}))) == ["b"]
    assert "auth-profiles.json: a has expired." in reach("openai", profiles=stored(first)).problem


@pytest.mark.parametrize("limit", ["cooldownUntil", "disabledUntil"])
def test_those_that_cool_down_come_last(reach: Reach, limit: str) -> None:
    keys = [{"key": "a"}, {"key": "b"}]
    assert revealed(reach("openai", profiles=stored(*keys, usageStats={"a": {limit: FUTURE}}))) == ["b"]
    assert revealed(reach("openai", profiles=stored(*keys, usageStats={"a": {limit: PAST}}))) == ["a"]
    assert revealed(reach("openai", profiles=stored(keys[0], usageStats={"a": {limit: FUTURE}}))) == ["a"]
    assert revealed(reach("openai", profiles=stored(*keys, usageStats={"a": {limit: "x"}}))) == ["a"]
    both = {"a": {limit: FUTURE + 1}, "b": {limit: FUTURE}}
    assert revealed(reach("openai", profiles=stored(*keys, usageStats=both))) == ["b"]


def test_those_of_codex_are_not_openais(reach: Reach) -> None:
    codex = {"type": "oauth", "provider": "openai-codex", "access": "hush", "expires": FUTURE}
    access = reach("openai", {"auth": {"order": {"openai": ["a"]}}}, profiles=stored(codex))
    assert access.key is None
    assert "hush" not in access.problem


def test_one_that_gives_no_key_is_skipped(reach: Reach) -> None:
    useless: list[dict[str, Any]] = [
        {},
        {"key": ""},
        {"key": 5},
        {"type": "magic", "key": "x"},
        {"keyRef": {"source": "env", "id": "GONE"}, "key": "stale"},
    ]
    for one in useless:
        assert revealed(reach("openai", profiles=stored(one, {"key": "good"}))) == ["good"]
    problem = reach("openai", profiles=stored(*useless)).problem
    assert "auth-profiles.json: a has no key." in problem
    assert "auth-profiles.json: c must be a string." in problem
    assert "auth-profiles.json: e refers to GONE, which is not set." in problem


def test_a_reference_is_followed(reach: Reach) -> None:
    by_name = {"keyRef": {"source": "env", "provider": "default", "id": "MINE"}}
    assert revealed(reach("openai", env={"MINE": "mine"}, profiles=stored(by_name))) == ["mine"]
    token = {"type": "token", "tokenRef": {"source": "env", "id": "MINE"}}
    assert revealed(reach("openai", env={"MINE": "mine"}, profiles=stored(token))) == ["mine"]
    assert revealed(reach("openai", env={"MINE": "mine"}, profiles=stored({"key": "${MINE}"}))) == ["mine"]


@pytest.mark.parametrize("broken", ['{"profiles": {"a": "sk-hush"', "[]", "sk-hush", "{" * 10_000])
def test_a_broken_file_matters_only_when_there_is_no_other_key(reach: Reach, broken: str) -> None:
    access = reach("openai", profiles=broken)
    assert access.key is None
    assert access.problem.startswith("There is no API key for openai.")
    assert "auth-profiles.json" in access.problem.split("Set OPENAI_API_KEY.")[1]
    assert "hush" not in access.problem
    access = reach("openai", env={"OPENAI_API_KEY": "key"}, profiles=broken)
    assert (revealed(access), access.problem) == (["key"], "")


@pytest.mark.parametrize("name", ["profiles", "order", "usageStats"])
@pytest.mark.parametrize("wrong", [1, [], None, {"openai": 1}])
def test_parts_of_the_wrong_type_are_passed_over(reach: Reach, name: str, wrong: object) -> None:
    access = reach("openai", env={"OPENAI_API_KEY": "key"}, profiles={**stored({"key": "a"}), name: wrong})
    assert revealed(access) == (["key"] if name == "profiles" else ["a"])


def test_the_file_is_read_only_when_it_is_needed_and_then_anew(tmp_path: Path) -> None:
    env = openclaw_home(tmp_path, remote(apiKey="mine"))
    credentials = load(env=env, cwd=str(tmp_path)).credentials
    assert revealed(credentials.access("openai", uses_remote=False)) == []
    write(tmp_path / ".openclaw" / "agents" / "main" / "agent" / "auth-profiles.json", stored({"key": "new"}))
    assert revealed(credentials.access("openai", uses_remote=False)) == ["new"]
    assert revealed(credentials.access("openai", uses_remote=True)) == ["mine"]


@pytest.mark.parametrize("named", ["~/keys", "../keys", "{home}/keys"])
def test_an_agent_may_keep_them_elsewhere(tmp_path: Path, named: str) -> None:
    write(tmp_path / "keys" / "auth-profiles.json", stored({"key": "elsewhere"}))
    entry = {"id": "ops", "agentDir": named.format(home=tmp_path), "workspace": str(tmp_path)}
    env = openclaw_home(tmp_path, {"agents": {"list": [entry]}})
    credentials = load(env=env, cwd=str(tmp_path)).credentials
    assert revealed(credentials.access("openai", uses_remote=True)) == ["elsewhere"]


@pytest.mark.parametrize("named", [None, 1, " ", []])
def test_every_agent_has_its_own(tmp_path: Path, named: object) -> None:
    write(tmp_path / ".openclaw" / "agents" / "ops" / "agent" / "auth-profiles.json", stored({"key": "ops"}))
    agents = [{"id": "main"}, {"id": "ops", "agentDir": named, "workspace": str(tmp_path)}]
    env = openclaw_home(tmp_path, {"agents": {"list": agents}})
    for agent, keys in (("ops", ["ops"]), ("main", [])):
        credentials = load(env=env, cwd=str(tmp_path), agent=agent).credentials
        assert revealed(credentials.access("openai", uses_remote=True)) == keys


def store_in_database(home: Path, store: object, state: object = None) -> Path:
    """OpenClaw's database of an agent with these profiles."""
    path = folder(home / ".openclaw/agents/main/agent") / "openclaw-agent.sqlite"
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    for kind, content in (("store", store), ("state", state or {})):
        database.execute(
            f"CREATE TABLE auth_profile_{kind} ({kind}_key TEXT PRIMARY KEY, {kind}_json TEXT, updated_at)"
        )
        database.execute(f"INSERT INTO auth_profile_{kind} VALUES ('primary', ?, 1)", (json.dumps(content),))
    database.commit()
    database.close()
    return path


def test_openclaws_database_has_them_before_the_older_file(reach: Reach, tmp_path: Path) -> None:
    path = store_in_database(tmp_path, stored({"key": "from-database"}))
    before = path.read_bytes()
    access = reach("openai", profiles=stored({"key": "from-file"}))
    assert (revealed(access), access.key_origin) == (["from-database"], "openclaw-agent.sqlite: a")
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["auth-profiles.json", "openclaw-agent.sqlite"]
    assert "from-database" not in repr(access)


def test_the_state_in_the_database_orders_them(reach: Reach, tmp_path: Path) -> None:
    keys = stored({"key": "a"}, {"key": "b"})
    store_in_database(tmp_path, keys, {"order": {"openai": ["b", "a"]}, "usageStats": {"b": {"cooldownUntil": PAST}}})
    assert revealed(reach("openai")) == ["b"]


@pytest.mark.parametrize("content", [b"not a database at all", b""])
def test_a_database_that_cannot_be_read_leaves_the_other_sources(reach: Reach, tmp_path: Path, content: bytes) -> None:
    path = folder(tmp_path / ".openclaw/agents/main/agent") / "openclaw-agent.sqlite"
    path.write_bytes(content)
    access = reach("openai", env={"OPENAI_API_KEY": "sk-env"})
    assert revealed(access) == ["sk-env"]
