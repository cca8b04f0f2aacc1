"""Notes by their day or name, in an index made for the test."""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, cast

import pytest

from mdrecall.engine.scope import TimeSearch, _cut
from mdrecall.search.query import DayLimits, NoteFilter, parse_query, read_naming, read_times
from mdrecall.search.stages import RankingOptions
from mdrecall.text.days import EPOCH, Moment, is_of_days
from mdrecall.types.documents import SourceName, StoredChunk, StoredDocument
from mdrecall.types.search import SearchAnswer
from tests.conftest import values_of


class ListedChunks:
    """An index of documents by path, each with as many chunks as it has texts."""

    def __init__(self, texts: dict[str, list[str]], total: int = 0) -> None:
        self._texts = texts
        self._paths = list(texts)
        self._total = total

    def count(self) -> int:
        return self._total or sum(map(len, self._texts.values()))

    def list_documents(self, days: Sequence[tuple[int, int]] | None = None) -> list[StoredDocument]:
        found = [
            StoredDocument(number, "sessions" if path.startswith("sessions/") else "memory", path, 0, "")
            for number, path in enumerate(self._paths)
        ]
        return [document for document in found if days is None or is_of_days(document, days)]

    def chunks_of(self, chosen: Iterable[int] | SourceName) -> list[int]:
        if isinstance(chosen, str):
            chosen = [each.id for each in self.list_documents() if each.source == chosen]
        return [100 * number + place for number in chosen for place in range(len(self._texts[self._paths[number]]))]

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        found = []
        for number in ids:
            path = self._paths[number // 100]
            texts = self._texts[path]
            line = 1 + sum(text.count("\n") + 1 for text in texts[: number % 100])
            text = texts[number % 100]
            found.append(StoredChunk(number, "memory", path, line, line + text.count("\n"), text, ()))
        return found


DAY = date(2026, 3, 12).toordinal()
MOMENT = Moment((DAY - EPOCH) * 86_400_000.0)


def by_time(texts: dict[str, list[str]], **more: Any) -> TimeSearch:
    return TimeSearch(cast(Any, ListedChunks(texts, more.pop("total", 0))), MOMENT, more.pop("source", None), **more)


@pytest.mark.parametrize(
    ("query", "total", "found"),
    [
        ("notes/server.md", 0, [0, 1]),
        ("notes/server.md", 100_001, [0, 1]),
        ("server.md", 100_001, [0, 1, 100]),
        ("DEC-0054", 0, [200]),
        ("DEC-0054", 100_000, [200]),
        ("DEC-0054", 100_001, []),
        ("server", 0, []),
        ("nobody.md", 0, []),
    ],
)
def test_notes_are_found_by_their_path_or_name_and_by_their_name_alone_in_a_small_index(
    query: str, total: int, found: list[int]
) -> None:
    texts = {"notes/server.md": ["a", "b", "c"], "old/server.md": ["d"], "notes/DEC-0054.md": ["e"]}
    assert by_time(texts, total=total).chunks_named(read_naming(query, parse_query(query))) == found


def test_notes_of_a_time_are_found_newest_first_unless_they_are_very_many() -> None:
    times = read_times("last week", DAY)
    days = {f"memory/2026-03-0{number}.md": ["a", "b"] for number in range(1, 10)}
    assert by_time(days).chunks_of_times(times) == [n for day in range(7, 0, -1) for n in (100 * day, 100 * day + 1)]
    for count, found in ((200, 200), (201, 0)):
        many = {f"memory/2026-03-05-{number:03d}.md": ["a"] for number in range(count)}
        assert len(by_time(many).chunks_of_times(times)) == found


def test_only_the_notes_within_limits_and_transcripts_that_may_be_seen_count() -> None:
    texts = {
        "memory/2026-03-01.md": ["a"],
        "memory/2026-03-05.md": ["b"],
        "MEMORY.md": ["c"],
        "sessions/s.jsonl": ["d"],
    }
    limits = DayLimits(DAY - 8, None)
    assert by_time(texts, source="memory").chunks_within(limits) == {100}
    assert by_time(texts, source="memory").chunks_within(None) == {0, 100, 200}
    assert by_time(texts).visible_chunks() is None
    assert by_time(texts, transcripts=frozenset()).visible_chunks() == frozenset({0, 100, 200})
    assert by_time(texts, transcripts=frozenset({"sessions/s.jsonl"})).visible_chunks() is None
    assert by_time(texts, transcripts=frozenset()).chunks_within(None) == {0, 100, 200}
    only = NoteFilter(paths=("MEMORY.md",))
    assert by_time(texts, only=only).chunks_within(None) == {200}


def listed(query: str, texts: dict[str, list[str]], *, most: int = 4, **more: Any) -> SearchAnswer | None:
    options = RankingOptions(max_results=most, min_score=more.pop("min_score", 0.3))
    return by_time(texts).list_notes(read_times(query, DAY), more.pop("limits", None), options, **more)


def test_the_notes_of_a_time_are_listed_or_those_of_the_nearest_day_before() -> None:
    texts = {"memory/2026-03-09.md": ["# Nine\n\ntea"], "memory/2026-03-11.md": ["x"], "memory/2026-03-11-b.md": ["y"]}
    exact = listed("yesterday", texts, explain=True)
    assert exact is not None
    assert [(one.path, one.score) for one in exact] == [("memory/2026-03-11.md", 1.0), ("memory/2026-03-11-b.md", 1.0)]
    assert exact.caution == ""
    assert values_of(exact[0])["listed"] == "it is a note of the time that the query asks for, newest first"
    near = listed("the day before yesterday", texts, explain=True)
    assert near is not None
    assert [(one.path, one.score) for one in near] == [("memory/2026-03-09.md", 0.5)]
    assert near.caution == "There is no note of that time. The nearest day before it with one is 2026-03-09."
    assert "which has none" in values_of(near[0])["listed"]


def test_without_a_note_near_a_time_the_answer_says_so_or_the_words_are_searched() -> None:
    texts = {"memory/2026-01-09.md": ["x"]}
    empty = listed("yesterday", texts)
    assert empty is not None
    assert (empty.reason, empty.action) == (
        "no_match",
        "There is no note of 2026-03-11, nor of the 3 days before. Ask for another time, or for a word.",
    )
    week = listed("last week", texts)
    assert week is not None
    assert "2026-03-02 to 2026-03-08" in week.action
    assert listed("March 3", texts) is None
    assert listed("yesterday", {"MEMORY.md": ["x"]}) is None
    weak = listed("the day before yesterday", {"memory/2026-03-09.md": ["x"]}, min_score=0.6)
    assert weak is not None
    assert weak.reason == "no_match"
    exact = listed("yesterday", {"memory/2026-03-11.md": ["x"]}, min_score=1.0)
    assert exact is not None
    assert len(exact) == 1
    out = listed("yesterday", {"memory/2026-03-11.md": ["x"]}, limits=DayLimits(DAY, None))
    assert out is not None
    assert not out.results


def test_a_few_notes_show_more_than_their_beginning_and_lines_come_once() -> None:
    parts = ["\n\n".join(f"{name} {number} " + "word " * 40 for number in range(4)) for name in "ab"]
    shown = listed("yesterday", {"memory/2026-03-11.md": parts}, most=3)
    assert shown is not None
    assert [(one.match_start_line, one.match_end_line) for one in shown] == [(1, 3), (5, 7), (8, 10)]
    assert len(listed("yesterday", {f"memory/2026-03-11-{n}.md": parts for n in range(9)}, most=4) or ()) == 4


def test_lines_that_two_chunks_of_a_note_share_come_once() -> None:
    """A short line is one passage with the next one, so a passage may begin in a line that was shown."""
    texts = {1: "one\ntwo", 2: "two\n \nthree\nfour", 4: "three\nfour", 5: "four\nfive"}
    chunks = [StoredChunk(0, "memory", "a.md", line, line + text.count("\n"), text, ()) for line, text in texts.items()]
    pieces = list(_cut(chunks))
    assert [chunk.text[piece.start : piece.end] for chunk, piece in pieces] == ["one\ntwo", "three\nfour", "five"]
    assert [(chunk.line(piece.first_line), chunk.line(piece.last_line)) for chunk, piece in pieces] == [
        (1, 2),
        (4, 5),
        (6, 6),
    ]
