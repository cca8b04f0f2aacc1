"""Which memories a server answers for, by what was asked for."""

import json
import os
from pathlib import Path
from typing import Any

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


def folder(env: dict[str, str], name: str) -> str:
    return os.path.join(env["HOME"], ".openclaw", name)


MAIN, WORK = ("main", "main", ""), ("work", "work", "")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"agents": ["work"]}, [WORK]),
        ({"agents": ["work", "main", "work"]}, [WORK, MAIN]),
        ({"all_agents": True}, [MAIN, WORK]),
        ({"workspaces": ["{0}/notes"]}, [("main", "main", "{0}/notes")]),
        ({"workspaces": ["~/.openclaw/notes"]}, [("main", "main", "{0}/notes")]),
        ({"workspaces": ["mine={0}/notes"]}, [("mine", "main", "{0}/notes")]),
        (
            {"workspaces": ["Mine={0}/notes", "{0}/workspace-work"]},
            [("mine", "main", "{0}/notes"), ("workspace-work", "main", "{0}/workspace-work")],
        ),
        (
            {"agents": ["work"], "workspaces": ["a={0}/notes", "b={0}/other/notes"]},
            [("a", "work", "{0}/notes"), ("b", "work", "{0}/other/notes")],
        ),
    ],
)
def test_memories_are_chosen_by_agents_and_folders(
    env: dict[str, str], asked: dict[str, Any], found: list[tuple[str, str, str]]
) -> None:
    state = folder(env, "")[:-1]
    asked["workspaces"] = tuple(text.format(state) for text in asked.get("workspaces", ()))
    served = select_memories(Selection(**asked), env)
    shown = [(each.name, each.loaded.settings.agent_id, each.workspace or "") for each in served]
    assert shown == [(name, agent, path.format(state)) for name, agent, path in found]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"agents": ["quiet"]}, "switched off"),
        ({"all_agents": True, "agents": ["main"]}, "cannot be combined"),
        ({"agents": ["main", "work"], "workspaces": ["~/.openclaw/notes"]}, "cannot be matched"),
        ({"workspaces": ["mine=/nowhere"]}, "There is no workspace folder"),
        ({"workspaces": ["~/.openclaw/notes", "~/.openclaw/other/notes"]}, "Two workspaces are called 'notes'"),
    ],
)
def test_what_cannot_be_served_is_refused(env: dict[str, str], asked: dict[str, Any], said: str) -> None:
    with pytest.raises(RecallError, match=said):
        select_memories(Selection(**asked), env)


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
    assert [each.name for each in select_memories(Selection(all_agents=True), env)] == ["main"]
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
