"""A server finds the conversations and entries of the project that its client works in, and no others."""

import json
from pathlib import Path
from typing import Any

import pytest

from mdrecall.sessions.host_conversations import HostState
from mdrecall.sessions.host_formats import About
from mdrecall.types.transcripts import TranscriptRecord
from tests.conftest import Workspace
from tests.doors.mcp import McpServer


@pytest.fixture
def projects(workspace: Workspace, tmp_path: Path) -> tuple[Path, Path]:
    """Two repositories, in each of which a walrus was talked about."""
    workspace.write(
        "MEMORY.md",
        "- A walrus is a mammal.\n- The walrus of the house is grey. <!-- project: house -->\n"
        "- The walrus of the shop is pink. <!-- project: shop -->\n",
    )
    workspace.configure('{memorySearch: {sources: ["memory", "sessions"]}}')
    state = HostState(workspace.memory().settings.agent_folder)
    folders = (tmp_path / "projects/shop", tmp_path / "projects/house")
    for folder in folders:
        (folder / ".git").mkdir(parents=True)
        said = TranscriptRecord(1, None, 0, "User", f"The walrus eats {folder.name} clams.", "2026-02-10")
        state.keep_words("claude-code", folder.name, About(str(folder)), [said])
    workspace.memory().sync()
    return folders


def ask(workspace: Workspace, cwd: Path, *calls: tuple[str, dict[str, Any]], more: tuple[str, ...] = ()) -> list[str]:
    """What a server that is started in a folder answers, in the order of the calls."""
    with McpServer(str(workspace.path), workspace.env, cwd, *more) as server:
        return [json.dumps(server.call(tool, arguments)[0]) for tool, arguments in calls]


def test_a_project_finds_its_own(workspace: Workspace, projects: tuple[Path, Path]) -> None:
    shop, house = projects
    (shop / "src").mkdir()
    calls = (("memory_search", {"query": "walrus"}), ("sessions_search", {"query": "walrus"}))
    for folder in (shop, shop / "src"):
        found, said = ask(workspace, folder, *calls)
        assert "is a mammal" in found
        assert "of the shop is pink" in found
        assert "eats shop clams" in found
        assert "eats shop clams" in said
        assert "of the house" not in found
        assert "house clams" not in found + said
    found, said = ask(workspace, house, *calls)
    assert "eats house clams" in found
    assert "shop clams" not in found + said


def test_a_conversation_of_another_project_cannot_be_opened(workspace: Workspace, projects: tuple[Path, Path]) -> None:
    path = "sessions/claude-code/house.jsonl"
    calls = (("session_get", {"path": path}), ("sessions_history", {"sessionKey": "house"}))
    assert not any("clams" in answer for answer in ask(workspace, projects[0], *calls))
    assert all("eats house clams" in answer for answer in ask(workspace, projects[1], *calls))


def test_where_no_setting_names_conversations_only_two_tools_find_and_read_them(
    workspace: Workspace, projects: tuple[Path, Path]
) -> None:
    workspace.configure("{}")
    with McpServer(str(workspace.path), workspace.env, projects[0]) as server:
        names = [tool["name"] for tool in server.request("tools/list", {})["tools"]]
        found, _ = server.call("memory_search", {"query": "walrus"})
    assert [name for name in names if "session" in name] == ["session_get"]
    assert "eats shop clams" in json.dumps(found)


def test_in_the_folder_of_the_notes_everything_is_found_and_outside_of_every_project_what_is_for_all(
    workspace: Workspace, projects: tuple[Path, Path]
) -> None:
    of_projects = ("shop clams", "house clams", "shop is pink", "house is grey")
    for folder, is_found in ((workspace.path, True), (Path("/"), False)):
        (found,) = ask(workspace, folder, ("memory_search", {"query": "walrus", "maxResults": 20}))
        assert "is a mammal" in found
        assert [text in found for text in of_projects] == [is_found] * 4


def test_a_search_of_several_memories_keeps_to_the_project(
    workspace: Workspace, projects: tuple[Path, Path], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "MEMORY.md").write_text("The walrus of the zoo sings.\n")
    search = ("memory_search", {"query": "walrus", "workspaces": ["*"], "maxResults": 20})
    (found,) = ask(workspace, projects[0], search, more=("--workspace", f"zoo={other}"))
    assert "of the zoo sings" in found
    assert "shop clams" in found
    assert "house clams" not in found
