"""``mdrecall note``: write something down in five seconds, and find it again."""

import io
import sys

import pytest

from mdrecall.cli.notes import _read_stdin
from tests.cli.conftest import Run
from tests.conftest import Workspace


def test_what_a_note_says_already_is_skipped_and_named(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/a.md", "## One\n\nx\n")
    skipped = "Skipped, because it is already there: ## One\n"
    assert run("note", "--file", "a", "## One\n\nx\n## Two\n\ny") == (0, "Added to memory/a.md#L5-L7.\n", skipped)
    assert run("note", "--file", "a", "## One\n\nx\n") == (0, "memory/a.md already says that.\n", "")


def test_a_text_comes_from_standard_input(workspace: Workspace, run: Run) -> None:
    ran = run("note", "-", "--file", "a", stdin="\ufeffTee für Änne\n".encode())
    assert ran == (0, "Added to memory/a.md#L1.\n", "")
    assert (workspace.path / "memory/a.md").read_text() == "Tee für Änne\n"
    ran = run("note", "-", "--file", "b", stdin="Änne".encode("latin-1"))
    assert (ran.code, "not UTF-8 text" in ran.err) == (2, True)
    assert not (workspace.path / "memory/b.md").exists()


def test_in_a_plain_folder_the_note_stands_beside_the_others_which_are_still_found(
    workspace: Workspace, run: Run
) -> None:
    workspace.write("walrus.md", "the walrus sleeps")
    assert run("note", "Ana prefers tea", "--file", "2026-02-10").out == "Added to 2026-02-10.md#L1.\n"
    assert run("note", "Ana lives in Bern", "--file", "MEMORY.md").out == "Added to MEMORY.md#L1.\n"
    assert run("note", "Ana moved", "--file", "2026-02-11").out == "Added to memory/2026-02-11.md#L1.\n"
    assert [run("search", word).code for word in ("walrus", "tea", "Bern", "moved")] == [0, 0, 0, 0]


def test_a_person_at_a_terminal_is_told_how_to_end_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_terminal, told in (True, "Type the note, then press Ctrl-D on a new line.\n"), (False, ""):
        stream = io.TextIOWrapper(io.BytesIO(b"tea\n"))
        monkeypatch.setattr(stream, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr(sys, "stdin", stream)
        assert (_read_stdin(), capsys.readouterr().err) == ("tea\n", told)
    monkeypatch.setattr(sys, "stdin", None)
    assert _read_stdin() == ""
