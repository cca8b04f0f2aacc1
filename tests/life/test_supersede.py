"""A line that a newer one replaces is kept and marked, whole or not at all; contradictions are listed, not decided."""

from datetime import UTC, datetime

import pytest

from mdrecall.errors import ArgumentError, FileUnwritable
from mdrecall.life import supersede
from mdrecall.life.supersede import add_replacement, find_line, find_replaced, keep_line, list_conflicts, mark_line
from mdrecall.text.annotations import read_annotations
from tests.conftest import Workspace

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
OLD = "memory/2026-02-10.md"
TEXT = "# Tuesday\n\n- Maria lives in Porto.\n- Anna's phone is 1234\n"


@pytest.fixture(name="notes")
def _notes(workspace: Workspace) -> Workspace:
    workspace.write(OLD, TEXT)
    return workspace


def read(workspace: Workspace, path: str) -> str:
    return (workspace.path / path).read_bytes().decode()


@pytest.mark.parametrize("wanted", [f"{OLD}#L3", "Maria lives in Porto", "- maria lives in porto.", f"{OLD}#L1-L4"])
def test_the_old_line_is_kept_and_marked(notes: Workspace, wanted: str) -> None:
    added, old = add_replacement(notes.memory(), "Maria moved to Lisbon", wanted, now=NOW)
    assert (added.citation, old.citation) == ("memory/2026-11-16.md#L1", f"{OLD}#L3")
    mark = "<!-- status: superseded | by: memory/2026-11-16.md#L1 | on: 2026-11-16 -->"
    assert read(notes, OLD) == TEXT.replace("Porto.", f"Porto. {mark}")
    clean, marks = read_annotations(read(notes, OLD).split("\n")[2])
    assert (clean, marks.is_superseded, marks.superseded_by, marks.superseded_on) == (
        "- Maria lives in Porto.",
        True,
        "memory/2026-11-16.md#L1",
        "2026-11-16",
    )


def test_other_bytes_of_the_note_stay_as_they_are(notes: Workspace) -> None:
    text = "\ufeff- one\r\n- Maria lives in Porto.  \r\n- caf\u00e9 \u2028 end"
    (notes.path / OLD).write_bytes(text.encode())
    add_replacement(notes.memory(), "Maria moved to Lisbon", f"{OLD}#L2", now=NOW)
    mark = "<!-- status: superseded | by: memory/2026-11-16.md#L1 | on: 2026-11-16 -->"
    assert read(notes, OLD) == text.replace("Porto.  ", f"Porto. {mark}")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("memory/2026-02-10.md#L99", "no line of text"),
        ("memory/2026-02-10.md#L1", "no line of text"),
        ("memory/2020-01-01.md#L1", "memory/2020-01-01.md"),
        ("../outside.md#L1", "outside"),
        ("nobody has written this", "No note has the line"),
        ("   ", "blank"),
        ("Maria moved to Lisbon", "No note has the line"),
    ],
)
def test_without_the_old_line_nothing_is_written(notes: Workspace, wanted: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as error:
        add_replacement(notes.memory(), "Maria moved to Lisbon", wanted, now=NOW)
    assert error.value.hint
    assert read(notes, OLD) == TEXT
    assert not (notes.path / "memory/2026-11-16.md").exists()


def test_a_text_that_several_lines_have_must_be_cited(notes: Workspace) -> None:
    notes.write("MEMORY.md", "- Maria lives in Porto.\n")
    with pytest.raises(ArgumentError, match="2 lines say that") as error:
        find_line(notes.memory(), "Maria lives in Porto")
    assert f"{OLD}#L3" in error.value.hint
    assert "MEMORY.md#L1" in error.value.hint


def test_code_headings_and_front_matter_are_not_marked(notes: Workspace) -> None:
    notes.write("memory/code.md", "---\ntitle: x\n---\n# Head\n\n```\nport = 1\n```\n| a | b |\n")
    for line in range(1, 10):
        with pytest.raises(ArgumentError):
            find_line(notes.memory(), f"memory/code.md#L{line}")


def test_a_note_cannot_replace_itself(notes: Workspace) -> None:
    with pytest.raises(ArgumentError, match="already says that"):
        add_replacement(notes.memory(), "Maria lives in Porto.", f"{OLD}#L3", now=NOW)
    assert read(notes, OLD) == TEXT


@pytest.mark.parametrize("before", [None, "- something else\n"])
def test_if_the_old_line_cannot_be_marked_the_new_one_is_taken_back(
    notes: Workspace, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    if before:
        notes.write("memory/2026-11-16.md", before)

    def fail(*_: object) -> str:
        raise FileUnwritable("The disk is full.", path=OLD)

    monkeypatch.setattr(supersede, "replace_lines", fail)
    with pytest.raises(FileUnwritable):
        add_replacement(notes.memory(), "Maria moved to Lisbon", f"{OLD}#L3", now=NOW)
    assert read(notes, OLD) == TEXT
    today = notes.path / "memory/2026-11-16.md"
    assert (today.read_text() if today.exists() else None) == before


def test_a_line_is_marked_once_and_only_while_it_is_the_same(notes: Workspace) -> None:
    memory = notes.memory()
    old = find_line(memory, f"{OLD}#L3")
    assert mark_line(memory, old, by="MEMORY.md", now=NOW)
    assert not mark_line(memory, find_line(memory, f"{OLD}#L3"), by="MEMORY.md", now=NOW)
    marked = read(notes, OLD)
    with pytest.raises(ArgumentError, match="no longer the line"):
        mark_line(memory, old, by="MEMORY.md", now=NOW)
    assert read(notes, OLD) == marked


def test_a_path_that_would_end_the_comment_is_left_out(notes: Workspace) -> None:
    memory = notes.memory()
    mark_line(memory, find_line(memory, f"{OLD}#L3"), by="memory/a --> b.md", now=NOW)
    assert read(notes, OLD).count("-->") == 1


def test_a_new_note_is_told_what_it_may_replace_and_marks_nothing(notes: Workspace) -> None:
    memory = notes.memory()
    memory.sync()
    appended = memory.append("Maria moved to Lisbon", now=NOW)
    assert [line.citation for line in find_replaced(memory, "Maria moved to Lisbon", appended)] == [f"{OLD}#L3"]
    assert not find_replaced(memory, "Ben's phone is 5678", appended)
    assert read(notes, OLD) == TEXT


def test_contradictions_are_listed_with_both_sources_until_one_is_marked(notes: Workspace) -> None:
    notes.write("memory/2026-06-01.md", "- Ben's phone is 5678\n- Maria moved to Lisbon in May.\n")
    memory = notes.memory()
    (conflict,) = list_conflicts(memory).found
    assert (conflict.old.path, conflict.old.line) == (OLD, 3)
    assert (conflict.new.path, conflict.new.line) == ("memory/2026-06-01.md", 2)
    assert conflict.is_ordered
    assert [line.citation for line in keep_line(memory, "memory/2026-06-01.md#L2", now=NOW)] == [f"{OLD}#L3"]
    assert not list_conflicts(memory).found
    assert not keep_line(memory, "memory/2026-06-01.md#L2", now=NOW)


def test_a_digest_of_a_session_contradicts_nothing(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "- The pool has 12 connections.\n")
    said = "## Session 09:00 shop (claude-code a1)\n- The pool has 20 connections.\n"
    workspace.write("memory/2026-11-02.md", said)
    assert list_conflicts(workspace.memory()).found
    mark = "<!-- mdrecall:digest host=claude-code session=a1 lines=1-9 -->\n"
    workspace.write("memory/2026-11-02.md", said + mark)
    assert list_conflicts(workspace.memory()).found == []


def test_what_people_say_to_each_other_contradicts_nothing(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "- The pool has 12 connections.\n")
    for one, other, count in (("Ana", "Ben", 0), ("User", "Assistant", 1)):
        said = f"{one}: The pool has 20 connections.\n{other}: Sounds great!\n{one}: Thanks!\n{other}: Looks great!\n"
        workspace.write("memory/2026-11-02.md", said)
        assert len(list_conflicts(workspace.memory()).found) == count


def test_a_log_of_one_thing_is_no_contradiction(workspace: Workspace) -> None:
    days = [f"- The weight of the parcel is {80 + day} kg" for day in range(8)]
    workspace.write("memory/2026-06-01.md", "\n".join(days))
    assert not list_conflicts(workspace.memory()).found


def test_a_large_workspace_is_compared_in_part_and_that_is_told(notes: Workspace) -> None:
    notes.write("memory/2026-06-01.md", "- Maria moved to Lisbon in May.\n")
    conflicts, _, read, left_out = list_conflicts(notes.memory(), 1)
    assert (read, left_out, conflicts) == (1, 1, [])
