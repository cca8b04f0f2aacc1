"""What an index holds of a note stays the same as long as its versions do: only another one has it built again.

Where one of these fails on purpose, increase the version that is named, and write down the new fingerprint.
"""

import hashlib
from collections.abc import Iterator

import pytest

from mdrecall.text import chunk
from mdrecall.text.annotations import pack_values
from mdrecall.text.chunk import CHUNKER_VERSION, title_text
from mdrecall.text.index_terms import index_terms
from mdrecall.text.markdown import split_passages
from mdrecall.text.notes import iter_note_chunks, read_fields
from mdrecall.text.words import ANALYSER_VERSION, Analyser

FRONT = "---\ntitle: Tea and cups\ntags: [tea, 'green cup']\naliases:\n  - The kettle\n---\n"
# Lines of every kind that is told apart. Most occur in notes of people; some only look like something.
LINES = (
    "# Kitchen",
    "## Tea ##",
    "### memorySearch in v1.2.3",
    "###### deep",
    "####### none",
    "#tag-like",
    "Underlined",
    "===",
    "Also underlined",
    "---",
    "- an item",
    "* another one, DEC-0054",
    "  - a child of it",
    "1. first",
    "12) twelfth",
    "1234567890. no item",
    "> quoted",
    "```py",
    "# a comment in code",
    "```",
    "~~~",
    "",
    "",
    "",
    "  ",
    "\t",
    "| a | b |",
    "| --- | --- |",
    "User: where is the kettle?",
    "Assistant: In the kitchen.",
    "Anna: I moved it.",
    "Ben: Why?",
    "Status: done",
    "[10:15] **Carla:** tea?",
    "short",
    "the kettle was descaled on 2026-03-01 by Anna",
    "a line of words " * 9,
    "A sentence that goes on. And another one! " * 12,
    "kettle" * 90,
    "茶壺在廚房裡，很舊。" * 16,
    "お茶の時間。",
    "Ünïcödé größer straße",
    "🫖" * 70,
    "#tea and #green/cup, no #42",
    "[[people/anna|Anna]] and [b](b.md)",
    "- The pot is blue. <!-- trigger: pot, blue | x --> <!-- importance: 7 -->",
    "- Ours. <!-- project: github.com/a/b -->",
    "<!-- observed: 2026-11-01 | status: superseded -->",
    "Old. <!-- status: superseded | by: MEMORY.md | on: 2026-11-16 -->",
    "<!-- by Claude Code -->",
    "<!-- by flush -->",
    "<!-- by session -->",
    "<!-- by import x -->",
    "<!-- mdrecall:import 1 -->",
    "mail@example.org, C:\\temp, a_b-c, HTTPServer, C++ and C#, x=1&y=2",
    "end\r",
)
PATHS = ("MEMORY.md", "memory/2026-03-01.md", "notes/kitchen.md", "memory/import/x.md", "../other/2026-13-01.md")


def make_notes(count: int) -> Iterator[tuple[str, str]]:
    """Yield notes of some of the lines, the same ones in every run."""
    state = 7
    for number in range(count):
        lines = []
        for _ in range(5 + number % 30):
            state = (state * 1_103_515_245 + 12_345) % 2**31
            lines.append(LINES[(state >> 8) % len(LINES)])
        yield PATHS[number % len(PATHS)], (FRONT if number % 4 == 1 else "") + "\n".join(lines)


def fingerprint(values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:12]


def cut(count: int) -> list[object]:
    sizes = ((8, 2), (30, 0), (40, 15), (400, 80), (1, 0))
    notes = [(path, text, *sizes[number % 5]) for number, (path, text) in enumerate(make_notes(count))]
    return [
        (*found[:5], pack_values(found.marks))
        for path, text, tokens, overlap in notes
        for found in iter_note_chunks(path, text, tokens=tokens, overlap=overlap)
    ]


def test_a_note_is_cut_into_the_same_chunks() -> None:
    assert (CHUNKER_VERSION, fingerprint(cut(120))) == (5, "f06258d8d72a")


def test_a_note_of_many_blocks_is_cut_into_the_same_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "_BLOCK_CHARS", 300)
    monkeypatch.setattr(chunk, "_CUT_CHARS", 40)
    assert (CHUNKER_VERSION, fingerprint(cut(60))) == (5, "5bf26195ffe6")


def test_a_chunk_is_cut_into_the_same_passages() -> None:
    assert (
        CHUNKER_VERSION,
        fingerprint([tuple(one) for _, text in make_notes(200) for one in split_passages(text)]),
    ) == (5, "1d31eca67ea6")


def test_a_note_says_the_same_about_itself() -> None:
    assert (CHUNKER_VERSION, fingerprint([pack_values(read_fields(text)) for _, text in make_notes(200)])) == (
        5,
        "093cd6037c81",
    )


def test_a_text_has_the_same_terms() -> None:
    analyser = Analyser()
    texts = [text for _, text in make_notes(60)] + [title_text(path) for path in PATHS]
    made = [(index_terms(words), names) for words, names in map(analyser.indexable, texts)]
    assert (ANALYSER_VERSION, fingerprint(made)) == (3, "6888b5be3d08")
    assert (ANALYSER_VERSION, fingerprint([sorted(analyser.terms(text)) for text in texts])) == (3, "2d28a443fa65")
