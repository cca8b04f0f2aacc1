"""Annotations: what they say, what of them is text, and how they are stored."""

import pytest

from mdrecall.text.annotations import (
    BROKEN_PROJECT,
    least_trusted,
    merge_marks,
    pack_values,
    read_annotated,
    read_annotations,
    unpack_marks,
)
from mdrecall.text.notes import iter_note_chunks
from mdrecall.types.documents import NO_MARKS, Marks


@pytest.mark.parametrize(
    ("line", "clean", "marks"),
    [
        ("- The van is red", "- The van is red", NO_MARKS),
        ("- Red <!-- trigger: van, the car; bus -->", "- Red", Marks(triggers=("van", "the car", "bus"))),
        ("- Red <!--IMPORTANCE:7--> ", "- Red", Marks(importance=7)),
        ("- Red <!-- importance: 3 --> <!-- importance: 9 -->", "- Red", Marks(importance=9)),
        ("- Red <!-- importance: 0 -->", "- Red", NO_MARKS),
        ("- Red <!-- importance: 11 -->", "- Red", NO_MARKS),
        ("- Red <!-- importance: high -->", "- Red", NO_MARKS),
        ("- Red <!-- importance: 5 --> and blue", "- Red  and blue", NO_MARKS),
        ("- Red <!-- trigger: , ; -->", "- Red", NO_MARKS),
        ("- Red <!-- project: GitHub.com/Ana/App -->", "- Red", Marks(project="github.com/Ana/App")),
        ("- Red <!-- project: a.b/c; path:/W/x --> here", "- Red  here", Marks(project="a.b/c; path:/W/x")),
        ("- Red <!-- project: -->", "- Red", Marks(project=BROKEN_PROJECT)),
        ("- Red <!-- project: a.b/c; -->", "- Red", Marks(project=BROKEN_PROJECT)),
        ("- Red <!-- project: a<b -->", "- Red", Marks(project=BROKEN_PROJECT)),
        ("- Red <!-- project: a.b/c", "- Red <!-- project: a.b/c", Marks(project=BROKEN_PROJECT)),
        ("- Red <!-- trigger: van", "- Red <!-- trigger: van", NO_MARKS),
        ("- Red <!-- by Claude -->", "- Red <!-- by Claude -->", NO_MARKS),
        (
            "- Red <!-- status: superseded | by: MEMORY.md#L4 | on: 2026-11-16 -->",
            "- Red",
            Marks(superseded_by="MEMORY.md#L4", is_superseded=True, superseded_on="2026-11-16"),
        ),
        ("<!-- observed: 2026-11-01 | status: superseded -->", "", Marks(is_superseded=True)),
        ("<!-- observed: 2026-11-01 | status: active -->", "", NO_MARKS),
    ],
)
def test_a_line_is_read_without_its_annotations(line: str, clean: str, marks: Marks) -> None:
    assert read_annotations(line) == (clean, marks)


def test_lines_stay_lines_and_code_keeps_its_comments() -> None:
    text = "# A\n- one <!-- importance: 8 -->\n```\n<!-- importance: 2 -->\n```\n- two"
    plain, marked = read_annotated(text, is_curated=True)
    assert plain == "# A\n- one\n```\n<!-- importance: 2 -->\n```\n- two"
    assert marked == {2: Marks(importance=8)}


def test_a_status_on_a_line_of_its_own_is_about_the_next_line_of_text() -> None:
    old, new = (f"<!-- observed: 2026-11-01 | status: {status} -->" for status in ("superseded", "active"))
    text = f"- before\n{old}\n\n- old\n{new}\n- new"
    plain, marked = read_annotated(text, is_curated=True)
    assert plain.split("\n") == ["- before", "", "", "- old", "", "- new"]
    assert marked == {4: Marks(is_superseded=True)}


def test_triggers_and_importance_count_only_in_curated_files_and_are_never_text() -> None:
    text = "- one <!-- importance: 8 --> <!-- trigger: a --> <!-- project: a.b/c -->"
    (chunk,) = iter_note_chunks("memory/x.md", text, tokens=400, overlap=80)
    assert (chunk.text, chunk.marks) == ("- one", Marks(project="a.b/c"))
    (chunk,) = iter_note_chunks("USER.md", text, tokens=400, overlap=80)
    assert chunk.marks == Marks(("a",), 8, "a.b/c")
    (chunk,) = iter_note_chunks("memory/MEMORY.md", text, tokens=400, overlap=80)
    assert chunk.marks.importance is None


def test_marks_of_several_lines_are_joined_and_the_least_trusted_origin_counts() -> None:
    joined = merge_marks(
        (
            Marks(("a",), 3, "x/y", origin="owner"),
            NO_MARKS,
            Marks(("b", "a"), 5, "z/w", is_superseded=True, origin="flush"),
        )
    )
    assert joined == Marks(("a", "b"), 5, "x/y; z/w", is_superseded=True, origin="flush")
    assert merge_marks((Marks(project="x/y"), Marks(project=BROKEN_PROJECT))).project == BROKEN_PROJECT
    assert merge_marks(()) == NO_MARKS
    assert least_trusted(("owner", "untrusted", "agent")) == "untrusted"
    assert least_trusted(("owner", "")) == ""
    assert least_trusted(("owner", "somebody")) == "untrusted"
    assert least_trusted(()) == ""


@pytest.mark.parametrize(
    "marks", [NO_MARKS, Marks(("a", "ü"), 1, "x/y", "m.md", True, "2026-01-02", "untrusted"), Marks(origin="agent")]
)
def test_marks_come_back_as_they_were_stored(marks: Marks) -> None:
    assert unpack_marks(pack_values(marks)) == marks
    assert (pack_values(marks) == "") == (marks == NO_MARKS)


def test_what_a_newer_version_has_stored_is_ignored() -> None:
    assert unpack_marks('{"mood":"good","importance":4}') == Marks(importance=4)
