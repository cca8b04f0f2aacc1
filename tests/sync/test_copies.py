"""Conflicted copies that programs which sync folders leave: found by doctor, and merged into their notes on request."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mdrecall.life.curate import list_deleted
from mdrecall.sync.copies import find_copies
from tests.cli.conftest import Ran, run_in_this_process


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Facts\n\n- Ana drinks tea.\n- Bo has a dog.\n")
    return folder


@pytest.fixture
def run(notes: Path) -> Callable[..., Ran]:
    env = {"HOME": str(notes.parent), "PATH": os.environ["PATH"]}
    return lambda *arguments: run_in_this_process(arguments, env, notes)


@pytest.mark.parametrize(
    "name",
    [
        "note (conflicted copy 2026-01-12).md",
        "note (Ana's conflicted copy 2026-01-12).md",
        "note (Ana's conflicted copy 2026-01-12 (1)).md",
        "note (conflicted copy 2026-01-12 101112).md",
        "note (In Konflikt stehende Kopie von Ana 2026-01-12).md",
        "note (Copie en conflit de Ana 2026-01-12).md",
        "note.sync-conflict-20260112-101112-ABCDEFG.md",
        "note_conflict-20260112-101112.md",
    ],
)
def test_a_copy_is_known_by_its_name_and_the_note_beside_it(name: str) -> None:
    assert find_copies({f"memory/{name}", "memory/note.md"}) == {f"memory/{name}": "memory/note.md"}
    assert find_copies({f"memory/{name}", "note.md", "memory/Note.md"}) == {}


@pytest.mark.parametrize(
    ("copy", "note"),
    [
        ("note 2.md", "note.md"),
        ("note (1).md", "note.md"),
        ("note (the conflict of 2026).md", "note.md"),
        ("note (conflict 2026-01-12) end.md", "note.md"),
        ("a (conflict 2026-01-12/b).md", "a.md"),
        # A remote or a shared folder may hold them, and agents would take what they say for instructions.
        ("CLAUDE (conflicted copy 2026-01-12).md", "CLAUDE.md"),
        ("x/AGENTS.sync-conflict-20260112-101112-ABCDEFG.md", "x/AGENTS.md"),
    ],
)
def test_what_may_be_a_note_of_its_own_or_an_instruction_is_left_alone(copy: str, note: str) -> None:
    assert find_copies({copy, note}) == {}


def test_copies_are_merged_once_and_lie_in_the_trash(notes: Path, run: Callable[..., Ran]) -> None:
    one = "# Facts\n\n- Ana drinks tea.\n- Bo has a dog.\n- Cy is tall.\n"
    two = "# Facts\n\n- Ana drinks tea, green.\n- Cy is tall.\n"
    first = notes / "MEMORY (Ana's conflicted copy 2026-01-12).md"
    second = notes / "MEMORY.sync-conflict-20260113-101112-ABCDEFG.md"
    first.write_text(one)
    second.write_text(two)
    before = (notes / "MEMORY.md").read_text()
    shown = run("sync", "merge-copies")
    assert (shown.code, (notes / "MEMORY.md").read_text()) == (0, before)
    assert f"{first.name}: 1 new entry\n" in shown.out
    assert f"{second.name}: 2 new entries\n" in shown.out
    assert "--apply" in shown.err
    doctor = run("doctor")
    assert f"{first.name}, {second.name}" in doctor.out
    assert "Run `mdrecall sync merge-copies`" in doctor.out
    assert run("sync", "merge-copies", "--apply").code == 0
    merged = (notes / "MEMORY.md").read_text()
    wanted = ["- Ana drinks tea, green.", "- Ana drinks tea.", "- Bo has a dog.", "- Cy is tall."]
    assert sorted(merged.splitlines()[2:]) == wanted
    assert sorted(path.name for path in notes.glob("*.md")) == ["MEMORY.md"]
    kept = {deleted.path: (notes / deleted.inside).read_text() for deleted in list_deleted(str(notes))}
    assert kept == {first.name: one, second.name: two}
    assert run("sync", "merge-copies").code == 1
    assert "conflicted" not in run("doctor").out


def test_a_copy_of_a_copy_reaches_the_note(notes: Path, run: Callable[..., Ran]) -> None:
    copy = "memory/a.sync-conflict-20260112-101112-ABCDEFG"
    (notes / "memory/a.md").write_text("- one\n")
    (notes / f"{copy}.md").write_text("- one\n- two\n")
    (notes / f"{copy}.sync-conflict-20260113-101112-ABCDEFG.md").write_text("- one\n- three\n")
    assert run("sync", "merge-copies", "--apply", "--json").code == 0
    assert sorted((notes / "memory/a.md").read_text().split("\n")) == ["", "- one", "- three", "- two"]
    assert os.listdir(notes / "memory") == ["a.md"]


def test_a_copy_brings_nothing_back_that_was_forgotten(notes: Path, run: Callable[..., Ran]) -> None:
    assert run("forget", "zanzibar", "--apply").code == 0
    copy = notes / "MEMORY (conflicted copy 2026-01-12).md"
    copy.write_text("# Facts\n\n- The safe opens with zanzibar.\n- Cy is tall.\n")
    assert run("sync", "merge-copies", "--apply").code == 0
    assert "Cy is tall" in (notes / "MEMORY.md").read_text()
    held = [path for path in notes.rglob("*") if path.is_file() and b"zanzibar" in path.read_bytes()]
    assert held == []


def test_a_note_that_would_grow_too_large_is_named_and_stays(notes: Path, run: Callable[..., Ran]) -> None:
    (notes.parent / "mdrecall.json").write_text('{"mdrecall": {"maxFileBytes": 60}}')
    copy = notes / "MEMORY (conflicted copy 2026-01-12).md"
    copy.write_text("- " + "x" * 50 + "\n")
    before = (notes / "MEMORY.md").read_text()
    ran = run("sync", "merge-copies", "--apply", "--config", str(notes.parent / "mdrecall.json"))
    assert ran.code == 2
    assert "MEMORY.md would be too large" in ran.out + ran.err
    assert copy.exists()
    assert (notes / "MEMORY.md").read_text() == before
