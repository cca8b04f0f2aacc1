"""Which memories a server answers for, by what was asked for."""

import json
import os
from pathlib import Path

import pytest

from mdrecall.errors import RecallError
from mdrecall.mcp_server.memories import Selection, select_memories


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home with an OpenClaw of two agents, one of which has its memory switched off."""
    state = tmp_path / ".openclaw"
    for name in ("workspace", "workspace-work", "workspace-quiet", "notes", "other/notes"):
        (state / name).mkdir(parents=True)
    config = {"agents": {"list": [{"id": "main", "default": True}, {"id": "work"},
              {"id": "quiet", "memorySearch": {"enabled": False}}]}}  # fmt: skip
    (state / "openclaw.json").write_text(json.dumps(config))
    return {"HOME": str(tmp_path), "MDRECALL_STATE_DIR": str(tmp_path / "own")}


def found(env: dict[str, str], **asked: object) -> list[tuple[str, str, str | None]]:
    places = select_memories(Selection(**asked), env)  # type: ignore[arg-type]
    return [(place.name, place.loaded.settings.agent_id, place.workspace) for place in places]


def folder(env: dict[str, str], name: str) -> str:
    return os.path.join(env["HOME"], ".openclaw", name)


def test_agents_are_named_by_their_ids(env: dict[str, str]) -> None:
    assert found(env, agents=("work",)) == [("work", "work", None)]
    assert found(env, agents=("work", "main")) == [("work", "work", None), ("main", "main", None)]
    assert found(env, agents=("work", "main", "work")) == [("work", "work", None), ("main", "main", None)]


def test_all_agents_are_those_whose_memory_is_on(env: dict[str, str]) -> None:
    assert found(env, all_agents=True) == [("main", "main", None), ("work", "work", None)]


def test_an_agent_whose_memory_is_off_cannot_be_asked_for(env: dict[str, str]) -> None:
    with pytest.raises(RecallError, match="switched off"):
        select_memories(Selection(agents=("quiet",)), env)


def test_one_workspace_is_the_memory_of_the_default_agent_there(env: dict[str, str]) -> None:
    notes = folder(env, "notes")
    assert found(env, workspaces=(notes,)) == [("main", "main", notes)]
    assert found(env, workspaces=("~/.openclaw/notes",)) == [("main", "main", notes)]


def test_several_workspaces_have_names_of_their_own(env: dict[str, str]) -> None:
    notes, work = folder(env, "notes"), folder(env, "workspace-work")
    assert found(env, workspaces=(f"Mine={notes}", work)) == [("mine", "main", notes), ("workspace-work", "main", work)]
    assert found(env, workspaces=(f"mine={notes}",)) == [("mine", "main", notes)]


def test_two_workspaces_of_one_name_are_refused(env: dict[str, str]) -> None:
    with pytest.raises(RecallError, match="Two workspaces are called 'notes'"):
        select_memories(Selection(workspaces=(folder(env, "notes"), folder(env, "other/notes"))), env)


def test_what_cannot_be_matched_is_refused(env: dict[str, str]) -> None:
    notes = folder(env, "notes")
    with pytest.raises(RecallError, match="cannot be combined"):
        select_memories(Selection(all_agents=True, agents=("main",)), env)
    with pytest.raises(RecallError, match="cannot be matched"):
        select_memories(Selection(agents=("main", "work"), workspaces=(notes,)), env)
    with pytest.raises(RecallError, match="There is no workspace folder"):
        select_memories(Selection(workspaces=("mine=/nowhere",)), env)


def test_several_workspaces_can_be_those_of_one_agent(env: dict[str, str]) -> None:
    workspaces = (f"a={folder(env, 'notes')}", f"b={folder(env, 'other/notes')}")
    assert found(env, agents=("work",), workspaces=workspaces) == [
        ("a", "work", folder(env, "notes")),
        ("b", "work", folder(env, "other/notes")),
    ]


@pytest.mark.parametrize(
    ("plugins", "plugin"),
    [
        ({}, "memory-core"),
        ({"slots": {"memory": "memory-lancedb"}}, "memory-lancedb"),
        ({"slots": {"memory": "none"}}, "memory-core"),  # says that OpenClaw has none, not that a server has none
        ({"enabled": False}, ""),
    ],
)
def test_a_memory_knows_the_plugin_in_its_memory_slot(
    env: dict[str, str], plugins: dict[str, object], plugin: str
) -> None:
    path = Path(folder(env, "openclaw.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"plugins": plugins}))
    (memory,) = select_memories(Selection(), env)
    assert memory.plugin == plugin


def test_an_agent_that_openclaw_has_not_used_yet_is_left_out_of_all_agents(env: dict[str, str]) -> None:
    os.rmdir(folder(env, "workspace-work"))
    assert found(env, all_agents=True) == [("main", "main", None)]
    with pytest.raises(RecallError, match="There is no workspace folder"):
        select_memories(Selection(agents=("main", "work")), env)
    os.rmdir(folder(env, "workspace"))
    with pytest.raises(RecallError, match="There is no workspace folder"):
        select_memories(Selection(all_agents=True), env)


def test_two_folders_with_one_name_in_a_database_are_refused(env: dict[str, str]) -> None:
    shared = {**env, "MDRECALL_STORE_DSN": "host=/nowhere dbname=memory"}
    same = os.path.join(folder(env, "notes"), "notes")
    os.mkdir(same)
    two = Selection(workspaces=(folder(env, "notes"), f"other={same}"))
    with pytest.raises(RecallError, match="same name 'main/notes' in the database"):
        select_memories(two, shared)
    assert len(select_memories(two, env)) == 2
    assert len(select_memories(Selection(workspaces=(same, folder(env, "workspace"))), shared)) == 2
    # Agents have names of their own, and one folder may have two names here.
    assert len(select_memories(Selection(all_agents=True), shared)) == 2
    notes = folder(env, "notes")
    assert len(select_memories(Selection(workspaces=(f"one={notes}", f"two={notes}")), shared)) == 2
