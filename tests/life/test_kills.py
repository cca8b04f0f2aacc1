"""A process that is killed at any point leaves notes that are whole, and the next run finishes or cleans up."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.load import load
from mdrecall.life.backup import write_backup
from tests.conftest import Workspace
from tests.life.conftest import NOW
from tests.life.test_imports import said

OLD = "# People\n- Maria lives in Porto.\n- Ben lives in Graz.\n"
ADDED = "- Maria moved to Lisbon\n- she likes it\n"
MARK = "<!-- status: superseded | by: memory/2026-11-16.md#L1-L2 | on: "

pytestmark = pytest.mark.slow


def kill_everywhere(workspace: Workspace, call: str) -> list[dict[str, Any]]:
    """Return what each kill left, and what the run after it made of that; the last one was not killed."""
    command = [sys.executable, "-m", "tests.life.killed", call, str(workspace.state), str(workspace.path)]
    env = {**workspace.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr
    kills = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [kill["killed"] for kill in kills] == [True] * (len(kills) - 1) + [False]
    return kills


def hidden(tree: dict[str, dict[str, str]]) -> list[str]:
    names = [name for part in tree.values() for name in part]
    return [name for name in names if name.endswith(".tmp")]


def test_a_killed_replacement_marks_no_line_without_the_note_that_replaces_it(workspace: Workspace) -> None:
    workspace.write("memory/old.md", OLD)
    kills = kill_everywhere(workspace, "supersede")
    assert len(kills) > 10
    for kill in kills:
        left = kill["left"]["workspace"]
        added = left.get("memory/2026-11-16.md", "")
        assert added in ("", ADDED)
        assert left["memory/old.md"] == OLD or (added and MARK in left["memory/old.md"])
        assert left["memory/old.md"].count("<!--") <= 1
        assert left["memory/old.md"].startswith("# People\n- Maria lives in Porto.")
        assert left["memory/old.md"].endswith("\n- Ben lives in Graz.\n")
    assert MARK in kills[-1]["left"]["workspace"]["memory/old.md"]


def test_a_killed_export_leaves_no_half_archive_and_the_next_one_cleans_up(workspace: Workspace) -> None:
    for number in range(3):
        workspace.write(f"memory/{number}.md", f"The code of shelf {number} is {number * 7}.\n" * 200)
    kills = kill_everywhere(workspace, "export")
    assert any(hidden(kill["left"]) for kill in kills)
    for kill in kills:
        assert not hidden(kill["after"])
        for tree in (kill["left"], kill["after"]):
            if archive := tree["workspace"].get("saved.zip"):
                with zipfile.ZipFile(io.BytesIO(archive.encode("latin-1"))) as opened:
                    assert opened.testzip() is None
                    assert len(opened.namelist()) == 4
        assert "saved.zip" in kill["after"]["workspace"]


def list_notes(tree: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: text for name, text in tree["workspace"].items() if name.endswith(".md")}


def test_a_killed_restoration_is_completed_by_the_next_one(workspace: Workspace) -> None:
    whole = {f"memory/{number}.md": f"Note {number}\n" * 2000 for number in range(3)}
    for name, text in whole.items():
        workspace.write(name, text)
    loaded = load(env=workspace.env, workspace=str(workspace.path))
    write_backup(f"{workspace.path}.zip", loaded.settings, loaded.home, (), NOW)
    shutil.rmtree(workspace.path / "memory")
    kills = kill_everywhere(workspace, "restore")
    assert len(kills) > 10
    for kill in kills:
        assert list_notes(kill["left"]).items() <= whole.items()
        assert list_notes(kill["after"]) == whole


def test_a_killed_import_is_completed_by_the_next_one(workspace: Workspace) -> None:
    talks = [said(f"Talk number {number}", f"c-{number}", f"Talk {number}") for number in range(3)]
    Path(f"{workspace.path}.chatgpt.json").write_text(json.dumps(talks))
    memories = [{"id": str(number), "memory": f"Fact {number}", "user_id": "ada"} for number in range(60)]
    Path(f"{workspace.path}.mem0.json").write_text(json.dumps(memories))
    kills = kill_everywhere(workspace, "import")
    assert len(kills) > 10
    whole = list_notes(kills[-1]["left"])
    assert len(whole) == 4
    for kill in kills:
        assert list_notes(kill["after"]) == whole
