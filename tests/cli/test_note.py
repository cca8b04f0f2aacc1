"""``mdrecall note``: write something down in five seconds, and find it again."""

import io
import subprocess
import sys

import pytest

from mdrecall.cli.notes import _read_stdin
from tests.cli.conftest import Run
from tests.conftest import Workspace


def test_what_is_noted_is_found(workspace: Workspace, run: Run) -> None:
    ran = run("note", "Ana", "prefers", "tea", TZ="UTC")
    assert (ran.code, ran.err) == (0, "")
    path = next((workspace.path / "memory").iterdir())
    assert ran.out == f"Added to memory/{path.name}#L1.\n"
    assert run("search", "tea").code == 0


def test_what_a_note_says_already_is_skipped_and_named(workspace: Workspace, run: Run) -> None:
    workspace.write("memory/a.md", "## One\n\nx\n")
    ran = run("note", "--file", "a", "## One\n\nx\n## Two\n\ny")
    assert (ran.code, ran.out) == (0, "Added to memory/a.md#L5-L7.\n")
    assert ran.err == "Skipped, because it is already there: ## One\n"
    ran = run("note", "--file", "a", "## One\n\nx\n")
    assert (ran.code, ran.out, ran.err) == (0, "memory/a.md already says that.\n", "")


def test_a_text_comes_from_standard_input(workspace: Workspace) -> None:
    command = [sys.executable, "-m", "mdrecall", "note", "-", "--file", "a"]
    env = {**workspace.env, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        command, input="\ufeffTee für Änne\n".encode(), cwd=workspace.path, env=env, capture_output=True, check=True
    )
    assert done.stdout == b"Added to memory/a.md#L1.\n"
    assert (workspace.path / "memory/a.md").read_text() == "Tee für Änne\n"


def test_standard_input_that_is_no_text_is_refused_and_nothing_written(workspace: Workspace) -> None:
    command = [sys.executable, "-m", "mdrecall", "note", "-"]
    env = {**workspace.env, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        command, input="Änne".encode("latin-1"), cwd=workspace.path, env=env, capture_output=True, check=False
    )
    assert (done.returncode, b"not UTF-8 text" in done.stderr) == (2, True)
    assert not (workspace.path / "memory").exists()


def test_in_a_plain_folder_the_note_stands_beside_the_others_which_are_still_found(
    workspace: Workspace, run: Run
) -> None:
    workspace.write("walrus.md", "the walrus sleeps")
    assert run("note", "Ana prefers tea", "--file", "2026-02-10").out == "Added to 2026-02-10.md#L1.\n"
    assert run("search", "walrus").code == 0
    assert run("search", "tea").code == 0
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
