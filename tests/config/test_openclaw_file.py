"""OpenClaw's own file never stops mdrecall; mdrecall's own file, overrides and flags stay strict."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.declare import each_setting
from mdrecall.config.load import list_agent_ids, load
from mdrecall.config.settings import SECTIONS
from mdrecall.errors import ConfigError, RecallError
from tests.config import folder, loaded, nested, openclaw_home, write
from tests.config.conftest import Reach, models, revealed

FILE = "~/.openclaw/openclaw.json"


@pytest.mark.parametrize(
    ("path", "given", "warning"),
    [
        ("memory.search.query.maxResult", 3, "is not a known setting; did you mean maxResults?"),
        ("memory.search.query.maxResults", "many", 'is "many", but must be a whole number of at least 1.'),
        ("memory.search.query", 3, "must be an object with"),
        ("memory.search.sources", ["memory", "mail"], '[1] is "mail", but must be one of memory, sessions.'),
        ("memory", 5, "must be an object."),
        ("agents.list", {}, "must be a list."),
        ("agents.entries.main", "x", "must be an object."),
        ("agents.entries.main.memory.search.cache.size", 1, "is not a known setting; known here: enabled"),
        ("agents.entries.main.workspace", ["~/x"], "must be a string."),
    ],
)
def test_what_is_not_understood_is_ignored_with_one_warning(
    tmp_path: Path, path: str, given: object, warning: str
) -> None:
    result = loaded(tmp_path, nested(path, given))
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith(f"{FILE}: {path.split('.')[0]}")
    assert warning in result.warnings[0]
    assert result.warnings[0].endswith("It is ignored.")
    assert result.settings == loaded(tmp_path, {}).settings
    assert not result.unused  # named once: as a warning


def test_an_ill_typed_value_of_an_agent_falls_back_to_that_of_all(tmp_path: Path) -> None:
    config = {
        "memory": {"search": {"query": {"maxResults": 4}}},
        "agents": {"entries": {"main": {"memory": {"search": {"query": {"maxResults": "x"}}}}}},
    }
    assert loaded(tmp_path, config).settings.memory_search.query.max_results == 4


FAULTY: dict[str, str | bytes | None] = {
    "half": '{"agents": {"defaults": {"workspace": "~/x"',
    "text": '"x"',
    "utf16": '{"memory": {}}'.encode("utf-16"),
    "not-utf8": b'{"a": "\xff"}',
    "include-itself": '{"memory": {"$include": "openclaw.json"}}',
    "include-pipe": '{"memory": {"$include": "pipe"}}',
    "include-list": '{"$include": "list.json"}',
    "nested": "[" * 100_000,
    "deep": '{"a": ' + "[" * 900 + "]" * 900 + "}",
    "digits": '{"a": ' + "9" * 5000 + "}",
    "folder": None,
}


def make_faulty(home: Path, name: str) -> Path:
    """Write one of OpenClaw's files that cannot be read as OpenClaw means it, and everything that it includes."""
    claw = folder(home / ".openclaw")
    write(claw / "list.json", "[]")
    os.mkfifo(claw / "pipe")
    file, content = claw / "openclaw.json", FAULTY[name]
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize("name", FAULTY)
def test_a_file_that_cannot_be_read_stops_nothing_and_sends_nothing(tmp_path: Path, name: str) -> None:
    file = make_faulty(tmp_path, name)
    notes = folder(tmp_path / "notes")
    env = {"HOME": str(tmp_path), "OPENCLAW_CONFIG_PATH": str(file), "OPENAI_API_KEY": "sk-1"}
    result = load(env=env, cwd=str(tmp_path), workspace=str(notes))
    assert list_agent_ids(env=env, cwd=str(tmp_path)) == ["main"]
    assert result.warnings[:1] == (result.problem,)
    assert str(tmp_path) in result.problem
    assert result.problem.endswith("It is ignored until this is fixed.")
    assert result.files == (FILE,)
    settings = result.settings
    assert (settings.memory_search.provider, settings.session.dm_scope) == ("offline", "per-account-channel-peer")
    if name != "include-itself":
        with pytest.raises(ConfigError):
            load(env=env, cwd=str(tmp_path), workspace=str(notes), config=str(file))
    own = {"HOME": str(tmp_path), "MDRECALL_CONFIG": str(file)}
    with pytest.raises(ConfigError):
        load(env=own, cwd=str(tmp_path), workspace=str(notes))


@pytest.mark.parametrize("more", [{"agent": "ops"}, {}])
def test_what_only_the_file_could_have_named_is_missed_with_the_reason(tmp_path: Path, more: dict[str, Any]) -> None:
    make_faulty(tmp_path, "half")
    with pytest.raises(RecallError) as caught:
        load(env={"HOME": str(tmp_path)}, cwd=str(tmp_path), **more)
    assert "openclaw.json is not JSON5" in caught.value.hint


@pytest.mark.parametrize("name", ["mdrecall.json", "mine.json"])
def test_a_file_that_is_not_openclaws_is_strict(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, {"memory": {"search": {"query": {"maxResult": 3}}}})
    with pytest.raises(ConfigError):
        load(env={"HOME": str(tmp_path)}, cwd=str(tmp_path), config=str(file))


@pytest.mark.parametrize("name", ["openclaw.json.bak", "clawdbot.json"])
def test_a_file_of_openclaw_that_the_caller_names_is_not(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, {"memory": {"search": {"query": {"maxResult": 3}}}})
    assert load(env={"HOME": str(tmp_path)}, cwd=str(tmp_path), config=str(file)).warnings


def test_keys_without_a_use_are_listed_once_at_their_outermost(tmp_path: Path) -> None:
    search = {"multimodal": {"enabled": True, "maxFileBytes": 1}, "store": {"fts": {"tokenizer": "trigram"}}}
    agent = {
        "memory": {"search": {"multimodal": {"enabled": False}}},
        "identity": {"name": "A"},
        "bootstrapMaxChars": 9,
    }
    config = {
        "$schema": "x",
        "gateway": {"port": 1, "auth": {"mode": "token"}},
        "channels": {"telegram": {"botToken": "1:secret"}},
        "memory": {"citations": "on", "search": search},
        "agents": {"defaults": {"model": {"primary": "m"}, "userTimezone": "UTC"}, "entries": {"main": agent}},
        "models": {"providers": {"x": {"baseUrl": "http://x", "models": []}}},
        "env": {"vars": {"A": "1"}, "shellEnv": {"enabled": True}},
        "plugins": {
            "entries": {
                "active-memory": {"enabled": True, "config": {"mode": "always"}},
                "memory-lancedb": {"config": {"storageOptions": {"region": "x"}, "autoRecall": False}},
                "other": {"enabled": True, "config": {"a": 1}},
            }
        },
        "session": {"dmScope": "per-peer", "reset": {"mode": "daily"}},
        "tools": {"profile": "coding", "sessions": {"visibility": "self"}},
    }  # fmt: skip
    result = loaded(tmp_path, config)
    assert result.warnings == ()
    assert list(result.unused) == [
        "gateway",
        "channels",
        "memory.search.multimodal",
        "memory.search.store.fts",
        "agents.defaults.model",
        "agents.entries.main.memory.search.multimodal",
        "agents.entries.main.identity",
        "models.providers.x.models",
        "env.shellEnv",
        "plugins.entries.active-memory",
        "plugins.entries.memory-lancedb.config.storageOptions",
        "session.reset",
        "tools.profile",
    ]


@pytest.mark.parametrize(
    ("name", "providers", "expected"),
    [
        ("gpu", {"gpu": {"api": "ollama", "baseUrl": "http://gpu:11435"}}, "ollama"),
        ("mine", {"mine": {"api": "openai-completions", "baseUrl": "http://m/v1"}}, "openai-compatible"),
        ("mine", {"mine": {"baseUrl": "http://m/v1"}}, "openai-compatible"),
        ("lmstudio", {}, "openai-compatible"),
        ("auto", {}, "auto"),
        ("mistral", {}, "mistral"),
    ],
)
def test_a_provider_with_a_known_wire_is_used(
    tmp_path: Path, name: str, providers: dict[str, Any], expected: str
) -> None:
    config = {"models": {"providers": providers}, "memory": {"search": {"provider": name, "model": f"{name}/bge"}}}
    result = loaded(tmp_path, config)
    assert result.settings.memory_search.provider == expected
    assert result.warnings == ()
    is_alias = name not in ("none", "auto", "mistral")
    assert result.settings.memory_search.model == ("bge" if is_alias else f"{name}/bge")


@pytest.mark.parametrize(
    ("name", "providers"),
    [
        ("bedrock", {}),
        ("claude", {"claude": {"api": "anthropic-messages", "baseUrl": "https://a"}}),
    ],
)
def test_notes_are_sent_to_nobody_instead_of_a_provider_that_cannot_be_used(
    tmp_path: Path, name: str, providers: dict[str, Any]
) -> None:
    search = {"provider": name, "fallback": name}
    result = loaded(tmp_path, {"models": {"providers": providers}, "memory": {"search": search}})
    assert (result.settings.memory_search.provider, result.settings.memory_search.fallback) == ("offline", "none")
    assert result.warnings == (
        f"{FILE}: memory.search.provider is {name!r}, which mdrecall cannot use; it uses 'offline' instead.",
        f"{FILE}: memory.search.fallback is {name!r}, which mdrecall cannot use; it uses 'none' instead.",
    )


def test_a_custom_provider_is_reached_with_its_own_address_and_key(reach: Reach) -> None:
    config = {
        **models("gpu", api="openai-completions", baseUrl="http://gpu/v1", apiKey="k-gpu", headers={"X-A": "b"}),
        "memory": {"search": {"provider": "gpu"}},
    }
    access = reach("openai-compatible", config, env={"OPENAI_API_KEY": "sk-other"})
    assert (access.base_url, revealed(access)) == ("http://gpu/v1", ["k-gpu"])
    assert access.headers["X-A"].reveal() == "b"


@pytest.mark.parametrize(
    ("name", "env", "url", "keys"),
    [
        ("lmstudio", {}, "http://127.0.0.1:1234/v1", []),
        ("deepinfra", {"DEEPINFRA_API_KEY": "di"}, "https://api.deepinfra.com/v1/openai", ["di"]),
    ],
)
def test_openclaws_providers_have_their_addresses(
    reach: Reach, name: str, env: dict[str, str], url: str, keys: list[str]
) -> None:
    access = reach("openai-compatible", {"memory": {"search": {"provider": name}}}, env=env)
    assert (access.base_url, revealed(access)) == (url, keys)


def test_two_custom_providers_with_one_wire_do_not_mix(tmp_path: Path) -> None:
    providers = {name: {"api": "openai-completions", "baseUrl": f"http://{name}/v1"} for name in ("a", "b")}
    config = {"models": {"providers": providers}, "memory": {"search": {"provider": "a", "fallback": "b"}}}
    result = loaded(tmp_path, config)
    assert result.settings.memory_search.fallback == "none"
    assert result.warnings == (f"{FILE}: memory.search.fallback: 'b' is not used besides 'a'.",)


BOTH = ["memory", "sessions"]
APART = {"session": {"dmScope": "per-peer"}}


@pytest.mark.parametrize(
    ("config", "sources", "remembers"),
    [
        ({}, ["memory"], True),
        ({"memory": {"search": {"sources": BOTH}}}, BOTH, True),
        ({"memorySearch": {"sources": BOTH}}, ["memory"], True),
        ({"memory": {"search": {"sources": ["sessions"], "rememberAcrossConversations": False}}}, ["memory"], False),
        ({"memory": {"search": {"rememberAcrossConversations": False}}}, ["memory"], False),
        ({"memorySearch": {"sources": BOTH, "rememberAcrossConversations": True}}, BOTH, True),
        ({"memory": {"search": {"rememberAcrossConversations": True}}}, BOTH, True),
        ({"memorySearch": {"rememberAcrossConversations": True}}, BOTH, True),
        (APART, ["memory"], False),
        (APART | {"memory": {"search": {"rememberAcrossConversations": True}}}, BOTH, True),
        ({"bindings": [{"agentId": "a"}, APART], "memory": {"search": {"sources": BOTH}}}, ["memory"], False),
    ],
)
def test_conversations_are_remembered_and_found_unless_senders_are_kept_apart(
    tmp_path: Path, config: dict[str, Any], sources: list[str], remembers: bool
) -> None:
    found = loaded(tmp_path, config).settings.memory_search
    assert (list(found.sources), found.remember_across_conversations) == (sources, remembers)


def test_the_agent_that_owns_everything_else_is_the_default_one(tmp_path: Path) -> None:
    config = {
        "agents": {
            "ownership": "explicit",
            "defaults": {"systemAgent": {"agentId": "ops"}},
            "entries": {"main": {"default": True}, "ops": {}},
        }
    }
    assert loaded(tmp_path, config).settings.agent_id == "ops"


def test_the_workspaces_of_a_newer_openclaw(tmp_path: Path) -> None:
    root, state = folder(tmp_path / "root"), folder(tmp_path / "state")
    own = folder(root / "work")
    config = {"agents": {"defaults": {"workspace": str(root)}, "entries": {"main": {}, "work": {}}}}
    assert loaded(tmp_path, config, "work").settings.workspace == str(own)
    write(state / "openclaw.json", {})
    env = {"HOME": str(tmp_path / "home"), "OPENCLAW_STATE_DIR": str(state)}
    folder(state / "workspace")
    assert load(env=env, cwd="/").settings.workspace == str(state / "workspace")
    named = {**env, "OPENCLAW_WORKSPACE_DIR": str(root)}
    assert load(env=named, cwd="/").settings.workspace == str(root)


@pytest.mark.parametrize(("slot", "count"), [("memory-lancedb", 2), ("memory-core", 0), ("none", 0)])
def test_the_settings_of_lancedb_are_checked_only_in_its_slot(tmp_path: Path, slot: str, count: int) -> None:
    lancedb = {"config": {"captureMaxChars": "long", "newer": 1}}
    config = {"plugins": {"slots": {"memory": slot}, "entries": {"memory-lancedb": lancedb}}}
    assert len(loaded(tmp_path, config).warnings) == count


def test_variables_are_replaced_in_any_text_of_openclaws_file(tmp_path: Path) -> None:
    notes = folder(tmp_path / "notes")
    config = {
        "env": {"vars": {"NOTES": str(notes)}},
        "agents": {"defaults": {"workspace": "${NOTES}"}},
        "memory": {"search": {"extraPaths": ["${MORE}/x", "$${NOTES}/y"]}},
        "gateway": {"auth": {"token": "${TOKEN}"}},
    }
    env = openclaw_home(tmp_path, config)
    write(tmp_path / ".config/openclaw/gateway.env", "TOKEN=hush\n")
    result = load(env=env, cwd=str(tmp_path))
    assert result.settings.workspace == str(notes)
    assert [extra.path for extra in result.settings.memory_search.extra_paths] == ["${MORE}/x", "${NOTES}/y"]
    assert result.warnings == ()


def test_variables_in_mdrecalls_own_file_are_left_alone(tmp_path: Path) -> None:
    env = {**openclaw_home(tmp_path, {}), "A": "b"}
    write(tmp_path / "own/mdrecall.json", {"logging": {"redactPatterns": ["x${A}y"]}})
    assert load(env=env, cwd=str(tmp_path)).settings.logging.redact_patterns == ("x${A}y",)


def test_a_secret_in_openclaws_store_is_taken_from_the_variable_of_its_name(reach: Reach) -> None:
    reference = {"source": "store", "provider": "default", "id": "MY_KEY"}
    config = {"memory": {"search": {"provider": "openai", "remote": {"apiKey": reference}}}}
    access = reach("openai", config, env={"OPENAI_API_KEY": "sk-other"})
    assert access.key is None
    assert access.problem == (
        "memorySearch.remote.apiKey refers to MY_KEY in OpenClaw's encrypted store, which mdrecall cannot open."
        " Set the variable MY_KEY."
    )
    assert revealed(reach("openai", config, env={"MY_KEY": "k"})) == ["k"]


@pytest.mark.parametrize("given", [{"source": "cloud", "id": "X"}, 5, ["sk-hush"]])
def test_a_key_that_cannot_be_read_is_not_replaced_by_another(reach: Reach, given: object) -> None:
    config = {"memory": {"search": {"provider": "openai", "remote": {"apiKey": given}}}}
    access = reach("openai", config, env={"OPENAI_API_KEY": "sk-other"})
    assert access.key is None
    assert "apiKey must be a string or a reference" in access.problem


def test_options_of_an_object_store_are_not_kept_because_they_hold_secrets(tmp_path: Path) -> None:
    config = {"storageOptions": {"secret_key": "hush"}}
    slot = {"slots": {"memory": "memory-lancedb"}, "entries": {"memory-lancedb": {"config": config}}}
    result = loaded(tmp_path, {"plugins": slot})
    assert "hush" not in repr(result.settings)
    assert result.unused == ("plugins.entries.memory-lancedb.config.storageOptions",)


JUNK: tuple[Any, ...] = (None, True, 5, -1, 1e300, "x", "", [], [{}], [None], {}, {"a": 1}, {"source": "x"})


@pytest.mark.parametrize(("number", "junk"), list(enumerate(JUNK)), ids=repr)
def test_no_value_of_any_key_stops_mdrecall(tmp_path: Path, number: int, junk: object) -> None:
    env = openclaw_home(tmp_path, {})
    paths = [f"{prefix}.{name}" for prefix, section in SECTIONS.items() for name, _ in each_setting(section)]
    paths += ["agents", "agents.entries", "agents.entries.main", "agents.list", "agents.defaults.workspace", "bindings"]
    paths += ["auth", "auth.order", "env", "env.vars", "models", "models.providers", "models.providers.openai"]
    paths += ["secrets"]
    paths += ["agents.entries.main.memory.search.provider", "agents.defaults.systemAgent", "plugins.entries.x.config"]
    places = dict.fromkeys(".".join(path.split(".")[:depth]) for path in paths for depth in range(1, 9))
    # Values of a type are treated alike: each place meets every fourth of them, and all in a soak.
    step = 1 if os.environ.get("MDRECALL_EXAMPLES") else 4
    for path in list(places)[number % step :: step]:
        (tmp_path / ".openclaw/openclaw.json").write_text(json.dumps(nested(path, junk)))
        result = load(env=env, cwd=str(tmp_path), workspace=str(tmp_path / ".openclaw/workspace"))
        assert len(set(result.warnings)) == len(result.warnings), path
        result.credentials.access("openai", uses_remote=False)
