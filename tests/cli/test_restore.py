"""What is printed of an archive that is restored, and which of its long-term memories are read."""

import argparse
import json
from typing import Any

import pytest

from mdrecall.cli.imports import show_restored
from mdrecall.extras.lancedb.plugin import read_backup
from mdrecall.life.backup import Restored

ID = "3f2a9c1d-1111-4222-8333-444455556666"


def options(*, apply: bool = False, overwrite: bool = False) -> argparse.Namespace:
    return argparse.Namespace(json=False, apply=apply, overwrite=overwrite)


def restored(action: Any, count: int = 1, problem: str = "") -> list[Restored]:
    return [Restored(f"notes/{number}.md", f"/n/{number}.md", action, problem) for number in range(count)]


def report(
    capsys: pytest.CaptureFixture[str], files: list[Restored], memories: int = 0, **more: Any
) -> tuple[str, str]:
    problem = more.pop("problem", "")
    show_restored(options(**more), "/tmp/backup.zip", files, memories, problem)
    said = capsys.readouterr()
    return said.out, said.err


def test_a_preview_lists_what_is_new_or_different_and_counts_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    files = restored("new", 2) + restored("differs") + restored("same", 3) + restored("forgotten") + restored("refused")
    out, err = report(capsys, files, 2)
    assert out.splitlines() == [
        "backup: /tmp/backup.zip",
        "  new             /n/0.md",
        "  new             /n/1.md",
        "  different here  /n/0.md",
        "2 new, 1 different here, 3 the same here, 1 forgotten, 1 left in the archive, 2 long-term memories.",
        "Kept 1 different local file; use --overwrite to replace.",
        "Nothing is written yet. To restore, add --apply.",
    ]
    assert err == ""


@pytest.mark.parametrize(("count", "last"), [(20, "  new             /n/19.md"), (21, "  … and 1 more file")])
def test_at_most_twenty_files_are_listed(capsys: pytest.CaptureFixture[str], count: int, last: str) -> None:
    out, _ = report(capsys, restored("new", count))
    assert out.splitlines()[-3] == last


@pytest.mark.parametrize(
    ("actions", "memories", "overwrite", "said"),
    [
        (["new"], 0, False, "Restored. The next search finds it."),
        (["same"], 0, False, "Nothing was written."),
        (["same"], 1, False, "Restored. The next search finds it."),
        (["differs"], 0, False, "Nothing was written."),
        (["differs"], 0, True, "Restored. The next search finds it."),
        ([], 0, True, "Nothing was written."),
    ],
)
def test_the_last_line_says_whether_something_was_written(
    capsys: pytest.CaptureFixture[str], actions: list[str], memories: int, overwrite: bool, said: str
) -> None:
    files = [one for action in actions for one in restored(action)]
    out, _ = report(capsys, files, memories, apply=True, overwrite=overwrite)
    assert out.splitlines()[-1] == said
    assert ("use --overwrite" in out) is ("differs" in actions and not overwrite)


def test_an_archive_with_nothing_new_asks_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(capsys, restored("same"))[0].splitlines()[1:] == ["1 the same here."]
    assert report(capsys, [])[0].splitlines()[1:] == ["Nothing to restore."]


def test_problems_are_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = report(capsys, restored("failed", problem="no space"), problem="No plugin.")
    assert err.splitlines() == ["! notes/0.md: no space", "! No plugin."]
    shown = argparse.Namespace(json=True, apply=False, overwrite=False)
    assert show_restored(shown, "/tmp/backup.zip", restored("failed", problem="no space"), 0, "No plugin.") == 2
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
