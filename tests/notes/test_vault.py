"""A vault of Obsidian and a repository: the note of the day, names of notes, and folders without notes."""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mdrecall.errors import PathOutside
from mdrecall.memory import Memory
from mdrecall.notes.files import MemoryFiles, find_daily_note, find_left_out
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset
from tests.conftest import Workspace

NOW = datetime.fromisoformat("2026-03-07T12:00:00+00:00")


def put(workspace: Workspace, name: str, content: Any) -> None:
    """Write a file that is no note: text as it is, anything else as JSON."""
    path = workspace.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def listed(memory: Memory) -> list[str]:
    return sorted(note.path for note in memory.notes())


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({}, "2026-03-07"),
        ({"folder": "Journal"}, "Journal/2026-03-07"),
        ({"folder": "/Journal/2026/", "format": "DD.MM.YYYY"}, "Journal/2026/07.03.2026"),
        ({"folder": "J", "format": "YYYY/MM/[Day] D-M-YY"}, "J/2026/03/Day 7-3-26"),
        ({"format": "YYYYMMDD"}, "20260307"),
        ({"folder": "J", "format": "dddd, MMMM Do"}, "J/2026-03-07"),
        ({"format": "[open"}, "2026-03-07"),
        ({"folder": 7, "format": None}, "2026-03-07"),
        ([], ""),
        ("{", ""),
    ],
)
def test_the_note_of_the_day_is_where_obsidian_has_it(workspace: Workspace, settings: Any, path: str) -> None:
    put(workspace, ".obsidian/daily-notes.json", settings)
    assert find_daily_note(str(workspace.path), "2026-03-07") == path


def test_a_note_without_a_name_goes_to_the_note_of_the_day(workspace: Workspace) -> None:
    workspace.write("Journal/2026-03-07.md", "written in Obsidian\n")
    put(workspace, ".obsidian/daily-notes.json", {"folder": "Journal"})
    with workspace.memory() as memory:
        assert memory.append("tea", now=NOW).citation == "Journal/2026-03-07.md#L3"
        assert memory.append("rain", file="2026-03-06", now=NOW).path == "Journal/2026-03-06.md"
        assert memory.append("milk", now=NOW, session_key="agent:main:discord:group:1").path == "Journal/2026-03-07.md"


@pytest.mark.parametrize("folder", ["../outside", ".hidden", "node_modules", "a\\b", "build"])
def test_a_folder_for_the_day_that_is_not_searched_is_not_written_to(workspace: Workspace, folder: str) -> None:
    workspace.write("memory/a.md", "a")
    put(workspace, ".gitignore", "build/\n")
    put(workspace, ".obsidian/daily-notes.json", {"folder": folder})
    with workspace.memory() as memory:
        assert memory.append("tea", now=NOW).path == "memory/2026-03-07.md"


def test_a_day_of_obsidian_through_a_link_is_not_read(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "daily-notes.json").write_text('{"folder": "Journal"}')
    (workspace.path / ".obsidian").symlink_to(tmp_path / "elsewhere")
    assert find_daily_note(str(workspace.path), "2026-03-07") == ""


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Projekte/Website Relaunch", "Projekte/Website Relaunch.md"),
        ("projekte/website relaunch.md", "Projekte/Website Relaunch.md"),
        ("Website Relaunch", "Projekte/Website Relaunch.md"),
        ("the big one", "Projekte/Website Relaunch.md"),
        ("people/priya", "memory/people/priya.md"),
        ("2026-03-01", "Archiv/2026-03-01.md"),
        ("agents", "memory/agents.md"),
        ("outside", "memory/outside.md"),
        ("Projekte/Neu", "memory/Projekte/Neu.md"),
        ("MEMORY.md", "MEMORY.md"),
    ],
)
def test_a_name_means_the_note_that_has_it(workspace: Workspace, tmp_path: Path, name: str, path: str) -> None:
    workspace.write("Projekte/Website Relaunch.md", "---\naliases: [the big one]\n---\nIn May.\n")
    workspace.write("Team/people/priya.md", "Priya of the team\n")
    workspace.write("memory/people/priya.md", "Priya\n")
    workspace.write("Archiv/2026-03-01.md", "rain\n")
    workspace.write("AGENTS.md", "Obey.\n")
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "outside.md").write_text("not ours\n")
    workspace.configure(json.dumps({"memorySearch": {"extraPaths": [str(tmp_path / "extra")]}}))
    with workspace.memory() as memory:
        assert memory.append("tea", file=name, now=NOW).path == path
        answer = Toolset(memory_tools(memory, can_append=True)).call("memory_append", {"text": "milk", "file": name})
    assert answer.details["path"] == path
    assert (workspace.path / "AGENTS.md").read_text() == "Obey.\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("build/\n/dist/\na/b/\n", {"build", "/dist", "/a/b"}),
        ("*.log\nbuild\n*/\n**/x/\na?/\n[ab]/\n# y/\n\\!z/\n", set()),
        ("build/\n!build/\n  out/  \r\n", {"out"}),
        ("x" * 70_000 + "\nbuild/\n", set()),
    ],
)
def test_folders_that_git_ignores_are_read_from_plain_lines(workspace: Workspace, text: str, found: set[str]) -> None:
    put(workspace, ".gitignore", text)
    assert find_left_out(str(workspace.path)) == found


def test_folders_without_notes_are_left_out_and_told_by_status(workspace: Workspace) -> None:
    kept = ["a.md", "app/dist/d.md", "memory/build/m.md", "memory/m.md"]
    for name in (*kept, "Vorlagen/t.md", "Templates/t.md", "app/build/b.md", "dist/d.md"):
        workspace.write(name, "walrus")
    put(workspace, ".gitignore", "build/\n/dist/\nmemory/\nMEMORY.md\n")
    put(workspace, ".obsidian/app.json", {})
    with workspace.memory() as memory:
        assert listed(memory) == sorted([*kept, "Vorlagen/t.md"])
        assert sorted(memory.status().custom["leftOut"]) == ["Templates", "app/build", "dist"]
        with pytest.raises(PathOutside):
            memory.read("dist/d.md")
        put(workspace, ".obsidian/templates.json", {"folder": "Vorlagen"})
        assert listed(memory) == sorted([*kept, "Templates/t.md"])
    workspace.configure(json.dumps({"memorySearch": {"extraPaths": ["dist"]}}))
    with workspace.memory() as memory:
        assert "dist/d.md" in listed(memory)
        assert sorted(memory.status().custom["leftOut"]) == ["Vorlagen", "app/build"]
        assert memory.read("dist/d.md").text == "walrus"


def test_a_process_that_stays_alive_notices_what_git_ignores_from_now_on(workspace: Workspace) -> None:
    workspace.write("build/b.md", "walrus")
    with workspace.memory() as memory:
        assert len(memory.search("walrus")) == 1
        put(workspace, ".gitignore", "build/\n")
        assert len(memory.search("walrus")) == 0
        os.unlink(workspace.path / ".gitignore")
        assert len(memory.search("walrus")) == 1


def test_in_openclaws_workspace_only_its_own_folders_decide(workspace: Workspace) -> None:
    claw = workspace.home / ".openclaw"
    claw.mkdir()
    (claw / "openclaw.json").write_text(json.dumps({"agents": {"defaults": {"workspace": str(workspace.path)}}}))
    workspace.write("memory/m.md", "walrus")
    put(workspace, ".gitignore", "memory/\n")
    put(workspace, ".obsidian/daily-notes.json", {"folder": "Journal"})
    with workspace.memory() as memory:
        assert listed(memory) == ["memory/m.md"]
        assert memory.append("tea", now=NOW).path == "memory/2026-03-07.md"
        assert MemoryFiles(memory.settings, str(workspace.home)).left_out == ()
