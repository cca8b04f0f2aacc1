"""Which results are shown when not all can be."""

from mdrecall.core.budget import in_turns, within
from mdrecall.types import SearchResult, SourceName


def result(name: str, score: float, source: SourceName = "memory", snippet: str = "x") -> SearchResult:
    return SearchResult(name, 1, 1, score, snippet, source, 1, 1, "")


def test_sources_take_turns_and_the_best_begins() -> None:
    talk = [result(name, score, "sessions") for name, score in (("s1", 0.9), ("s2", 0.8), ("s3", 0.7))]
    shown = in_turns([*talk, result("m1", 0.5)], 3)
    assert [entry.path for entry in shown] == ["s1", "m1", "s2"]


def test_one_source_is_only_cut() -> None:
    shown = in_turns([result(name, 0.5) for name in "abc"], 2)
    assert [entry.path for entry in shown] == ["a", "b"]
    assert in_turns([], 3) == []


def test_what_does_not_fit_is_cut_and_ends_the_list() -> None:
    entries = [result(name, 0.5, snippet="12345") for name in "abc"]
    assert [entry.snippet for entry in within(entries, 8)] == ["12345", "123"]
    assert [entry.snippet for entry in within(entries, 10)] == ["12345", "12345"]
    assert len(within(entries, 100)) == 3


def test_a_character_is_never_cut_in_half() -> None:
    assert [entry.snippet for entry in within([result("a", 0.5, snippet="ab😀😀")], 5)] == ["ab😀"]
