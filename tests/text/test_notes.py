"""Notes as chunks: entries of curated files, annotated entries of other notes, and who wrote each chunk."""

import pytest

from mdrecall.text.notes import iter_note_chunks, join_chunks
from mdrecall.types.documents import Marks, StoredChunk

#: Files as ``MEMORY.md``, each with the lines of its chunks in an index of OpenClaw 2026.9.6, written down from a run.
OPENCLAW_CHUNKS = [
    ("- The van is red\n- The boat is blue\n", [(1, 1), (2, 3)]),
    ("# Memory\n\n- one\n- two\n\n## More\n\n- three\n", [(1, 2), (3, 3), (4, 5), (6, 7), (8, 9)]),
    ("Some words first.\nAnd more.\n\n- then an entry\n", [(1, 3), (4, 5)]),
    ("- parent\n  - child\n  - child two\n- next\n", [(1, 3), (4, 5)]),
    ("- first line\n  goes on here\n\n  and after a blank\n- second\n", [(1, 4), (5, 6)]),
    ("# A\n## B\n### C\ntext below C\n", [(1, 1), (2, 2), (3, 5)]),
    ("* a star is no entry\n* nor is this\n- but this is\n", [(1, 2), (3, 4)]),
    ("1. a number\n2. is none\n", [(1, 3)]),
    ("- 喜欢深色模式\n- 住在東京\n## 仕事\n- 部長\n", [(1, 1), (2, 2), (3, 3), (4, 5)]),
    ("## Only a heading\n", [(1, 2)]),
    ("\n\n- after blanks\n\n\n- more\n\n", [(3, 5), (6, 8)]),
    ("- [ ] a task\n- [x] a done one\n", [(1, 1), (2, 3)]),
    ("#hashtag is no heading\n- entry\n####### neither is this\n", [(1, 1), (2, 4)]),
    ("- a | b\n| table | row |\n|---|---|\n- c\n", [(1, 3), (4, 5)]),
    ("# T\n\ntext of T\n\ntext again\n\n## U\ntext of U\n- entry of U\n  more of it\n", [(1, 6), (7, 8), (9, 11)]),
    ("-no blank\n- blank\n", [(1, 1), (2, 3)]),
    ("> quoted\n- entry\n> quoted in it\n", [(1, 1), (2, 4)]),
    ("###\n- under an empty heading\n", [(1, 1), (2, 3)]),
    ("- x\n# \n- y\n", [(1, 1), (2, 2), (3, 4)]),
    ("- tab\tinside\n\t- indented by a tab\n- é ü ß\n- last without an end", [(1, 2), (3, 3), (4, 4)]),
]


def chunks_of(path: str, text: str) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in iter_note_chunks(path, text, tokens=400, overlap=80)]


def without_blank_edges(lines: list[str], first: int, last: int) -> tuple[int, int]:
    filled = [number for number in range(first, last + 1) if lines[number - 1].strip()]
    return filled[0], filled[-1]


def is_heading(line: str) -> bool:
    return line.startswith("#") and not line.lstrip("#")[:1].strip() and len(line) - len(line.lstrip("#")) <= 6


@pytest.mark.parametrize(("text", "expected"), OPENCLAW_CHUNKS)
@pytest.mark.parametrize("path", ["MEMORY.md", "USER.md"])
def test_entries_have_the_lines_that_openclaw_gives_them(path: str, text: str, expected: list[tuple[int, int]]) -> None:
    """But for blank lines at their edges, and for headings with something below them, which are no entries here."""
    lines = text.split("\n")
    entries = [without_blank_edges(lines, *span) for span in expected]
    last = entries[-1]
    wanted = [span for span in entries if span == last or span[0] != span[1] or not is_heading(lines[span[0] - 1])]
    assert chunks_of(path, text) == wanted


def test_a_heading_is_kept_if_nothing_below_carries_it() -> None:
    text = "# Memory\n\n## Sold the car\n\n## Plans\n- go to Rome\n## Bought a boat\n"
    assert chunks_of("MEMORY.md", text) == [(3, 3), (6, 6), (7, 7)]
    last = list(iter_note_chunks("MEMORY.md", text, tokens=400, overlap=80))[1]
    assert last.trail == ("# Memory", "## Plans")


def test_a_long_entry_is_cut_and_its_parts_stay_inside_it() -> None:
    entry = "- " + "\n  ".join(f"line {number} of a long entry with words" for number in range(100))
    spans = chunks_of("MEMORY.md", f"- short\n{entry}\n- short again\n")
    assert spans[0] == (1, 1)
    assert spans[-1] == (102, 102)
    assert len(spans) > 3
    assert spans[1][0] == 2
    assert spans[-2][1] == 101


def test_other_notes_are_not_cut_into_entries() -> None:
    assert chunks_of("memory/2026-11-14.md", "# Day\n- one\n- two\n") == [(1, 3)]
    assert chunks_of("memory/MEMORY.md", "- one\n- two\n") == [(1, 2)]


def test_an_annotated_entry_of_a_note_is_a_chunk_of_its_own() -> None:
    text = (
        "# Day\n- one\n- two <!-- status: superseded | by: b.md | on: 2026-11-16 -->\n  more of two\n- three\n- four\n"
    )
    chunks = list(iter_note_chunks("memory/2026-11-14.md", text, tokens=400, overlap=80))
    old = Marks(superseded_by="b.md", is_superseded=True, superseded_on="2026-11-16")
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [(1, 2), (3, 4), (5, 6)]
    assert [chunk.marks.is_superseded for chunk in chunks] == [False, True, False]
    assert chunks[1].marks == old
    assert chunks[1].text == "- two\n  more of two"


def test_a_paragraph_that_no_longer_holds_does_not_mark_its_neighbours() -> None:
    text = "The van is red.\n\nThe boat is blue. <!-- status: superseded -->\nIt is fast.\n\nThe bike is green.\n"
    chunks = list(iter_note_chunks("memory/a.md", text, tokens=400, overlap=80))
    assert [chunk.text for chunk in chunks if chunk.marks.is_superseded] == ["The boat is blue.\nIt is fast."]


def test_thousands_of_annotated_lines_are_read_in_one_pass() -> None:
    text = "\n".join(f"- fact {number} <!-- project: a.b/c -->" for number in range(10_000))
    chunks = list(iter_note_chunks("memory/a.md", text, tokens=400, overlap=80))
    assert len(chunks) == 10_000


ORIGINS = [
    ("memory/a.md", "words of nobody known\n", [""]),
    ("memory/dreaming/deep/2026-11-14.md", "dreamt\n", ["system"]),
    ("memory/.dreams/session-corpus/2026-11-14.md", "said\n", ["system"]),
    ("../elsewhere/a.md", "words\n", ["untrusted"]),
    ("/mnt/shared/a.md", "words\n", ["untrusted"]),
    ("memory/a.md", "- noted\n<!-- by Claude Code -->\n", ["agent"]),
    ("memory/a.md", "- noted\n<!-- by flush -->\n", ["flush"]),
    ("memory/a.md", "- noted\n<!-- by import claude-mem -->\n", ["import"]),
    ("memory/a.md", "- noted\n<!-- by owner -->\n", ["agent"]),
    ("memory/a.md", "my words\n\n- noted\n<!-- by Claude Code -->\n", [""]),
    ("memory/a.md", "## Title\n\n- noted\n<!-- by Claude Code -->\n", ["agent"]),
    ("memory/a.md", "# A\n\nUser: a\n\nAssistant: b\n<!-- by session -->\n", ["digest"]),
    ("memory/a.md", "## Session\n- asked: x\n<!-- mdrecall:digest host=codex session=s lines=1-9 -->\n", ["digest"]),
    ("memory/a.md", "- one\n<!-- by flush -->\n\n- two\n<!-- by import mem0 -->\n", ["import"]),
    ("memory/import/mem0/a.md", "- noted\n", ["import"]),
    ("memory/a.md", "- one\n\n- two\n\n<!-- mdrecall:import source=mem0 key=ab text=cd -->\n", ["import"]),
    ("../a.md", "- noted\n<!-- by Claude Code -->\n", ["untrusted"]),
]


@pytest.mark.parametrize(("path", "text", "expected"), ORIGINS)
def test_comments_and_paths_tell_who_wrote_a_chunk(path: str, text: str, expected: list[str]) -> None:
    assert [chunk.marks.origin for chunk in iter_note_chunks(path, text, tokens=400, overlap=80)] == expected


def test_the_heading_and_the_mark_of_a_digest_are_no_text_and_what_stands_around_it_is_not_in_it() -> None:
    mark = "<!-- mdrecall:digest host=codex session=s lines=1-9 -->"
    bare = f"## Session 09:00 shop: fix the pool\n{mark}\n"
    digest = bare.replace("\n", "\n- Wanted: no mocks\n", 1)
    text = f"# Tuesday\n\n## Meeting\n\nbefore\n{digest}\n\nafter\n\n### mine\n\nmore\n\n{bare}"
    chunks = iter_note_chunks("memory/a.md", text, tokens=400, overlap=80)
    assert [(chunk.text, chunk.start_line, chunk.trail, chunk.marks.origin) for chunk in chunks] == [
        ("# Tuesday\n\n## Meeting\n\nbefore", 1, (), ""),
        ("- Wanted: no mocks", 7, ("# Tuesday",), "digest"),
        ("after\n\n### mine\n\nmore", 11, ("# Tuesday",), ""),
    ]


def test_the_mark_of_an_import_is_no_text() -> None:
    text = "- one\n\n<!-- mdrecall:import source=mem0 key=ab text=cd -->\n"
    (chunk,) = iter_note_chunks("memory/a.md", text, tokens=400, overlap=80)
    assert (chunk.text, chunk.start_line, chunk.end_line) == ("- one", 1, 1)


def test_entries_of_a_curated_file_have_origins_of_their_own() -> None:
    text = "- mine\n\n- theirs\n<!-- by Codex -->\n- mine again\n"
    chunks = iter_note_chunks("MEMORY.md", text, tokens=400, overlap=80)
    assert [chunk.marks.origin for chunk in chunks] == ["", "agent", ""]


def test_a_note_is_read_back_from_its_chunks_with_the_headings_that_were_left_out() -> None:
    text = "# Ada\n\n- Prefers tea.\n- Has a boat.\n\n## Work\n\n- At the mill.\n\n# Ben\n\nNo entries.\n"
    chunks = iter_note_chunks("MEMORY.md", text, tokens=400, overlap=80)
    stored = [
        StoredChunk(number, "memory", "MEMORY.md", each.start_line, each.end_line, each.text, each.trail, 0)
        for number, each in enumerate(chunks)
    ]
    assert join_chunks(stored) == text.rstrip("\n")
    assert join_chunks([]) == ""
