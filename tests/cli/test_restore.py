"""What is printed of an archive that is restored, and which of its long-term memories are read."""

import argparse
import json
from typing import Any

import pytest

from mdrecall.cli.imports import show_restored
from mdrecall.extras.lancedb.plugin import read_backup
from mdrecall.life.backup import Restored

ID = "3f2a9c1d-1111-4222-8333-444455556666"


def restored(action: Any, count: int = 1, problem: str = "") -> list[Restored]:
    return [Restored(f"notes/{number}.md", f"/n/{number}.md", action, problem) for number in range(count)]


def show(files: list[Restored], memories: int = 0, problem: str = "", **more: bool) -> int:
    """Print what was restored; only a preview, if the options say nothing else."""
    options = {"json": False, "apply": False, "overwrite": False} | more
    return show_restored(argparse.Namespace(**options), "/tmp/backup.zip", files, memories, problem)


@pytest.mark.parametrize(
    ("files", "memories", "lines"),
    [
        (restored("new", 20), 0, ["  new             /n/19.md", "20 new."]),
        (restored("new", 21), 0, ["  … and 1 more file", "21 new."]),
        (restored("same", 3) + restored("forgotten") + restored("refused"), 2,
         ["backup: /tmp/backup.zip",
          "3 the same here, 1 forgotten, 1 left in the archive, 2 long-term memories."]),
    ],
)  # fmt: skip
def test_a_preview_lists_what_is_new_and_counts_the_rest(
    capsys: pytest.CaptureFixture[str], files: list[Restored], memories: int, lines: list[str]
) -> None:
    show(files, memories)
    told = capsys.readouterr().out.splitlines()
    assert told[-3:] == [*lines, "Nothing is written yet. To restore, add --apply."]


@pytest.mark.parametrize(
    ("action", "memories", "overwrite", "said"),
    [
        ("new", 0, False, "Restored. The next search finds it."),
        ("same", 0, True, "Nothing was written."),
        ("same", 1, False, "Restored. The next search finds it."),
        ("differs", 0, False, "Nothing was written."),
        ("differs", 0, True, "Restored. The next search finds it."),
    ],
)
def test_the_last_line_says_whether_something_was_written(
    capsys: pytest.CaptureFixture[str], action: str, memories: int, overwrite: bool, said: str
) -> None:
    show(restored(action), memories, apply=True, overwrite=overwrite)
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == said
    assert ("Kept 1 different local file; use --overwrite" in out) is (action == "differs" and not overwrite)


def test_problems_are_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    failed = restored("failed", problem="no space")
    assert show(failed, problem="No plugin.") == 2
    assert capsys.readouterr().err.splitlines() == ["! notes/0.md: no space", "! No plugin."]
    assert show(failed, problem="No plugin.", json=True) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["applied"], found["problems"], found["files"][0]["action"]) == (False, ["No plugin."], "failed")


def test_a_memory_keeps_what_can_be_read_of_it() -> None:
    row = read_backup({"id": ID, "text": "tea", "importance": 1, "created_ms": 5, "updated_ms": "x", "expires_ms": 7.5})
    assert row
    assert (row.id, row.text, row.importance, row.category) == (ID, "tea", 1.0, "other")
    assert (row.created_ms, row.updated_ms, row.expires_ms) == (5.0, None, 7.5)
    plain = read_backup({"id": ID, "text": 3, "importance": "high", "category": "fact"})
    assert plain
    assert (plain.text, plain.importance, plain.category, plain.created_ms) == ("", 0.7, "fact", 0.0)
    assert read_backup({"id": "../x", "text": "tea"}) is None
    assert read_backup({"text": "tea"}) is None
