from hypothesis import given
from hypothesis import strategies as st

from mdrecall.core.ranking.stages import diversify, interleave_sources, overlap
from mdrecall.types import SearchResult, SourceName

bags = st.frozensets(st.sampled_from("abcdef"))
results = st.lists(st.tuples(st.floats(0, 1), bags), max_size=12)
weights = st.floats(0, 1)


def by_score(scores: list[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda place: (-scores[place], place))


@given(results, weights)
def test_every_result_is_taken_once_and_the_best_first(
    found: list[tuple[float, frozenset[str]]], weight: float
) -> None:
    scores, words = [score for score, _ in found], [bag for _, bag in found]
    order = diversify(scores, words, weight)
    assert sorted(order) == list(range(len(found)))
    assert diversify(scores, words, 1.0) == by_score(scores)
    if found and weight > 0:
        assert scores[order[0]] == max(scores)


@given(st.lists(st.floats(0, 1), max_size=12), weights)
def test_results_that_have_nothing_in_common_keep_their_order(scores: list[float], weight: float) -> None:
    words = [frozenset([str(place)]) for place in range(len(scores))]
    order = diversify(scores, words, weight)
    if weight > 0.01:
        assert [scores[place] for place in order] == sorted(scores, reverse=True)


def test_a_copy_gives_way_to_something_new() -> None:
    words = [frozenset("abc"), frozenset("abc"), frozenset("xyz")]
    assert diversify([0.9, 0.89, 0.6], words, 0.5) == [0, 2, 1]
    assert diversify([0.9, 0.89, 0.6], words, 1.0) == [0, 1, 2]


def test_among_equals_the_earlier_comes_first() -> None:
    assert diversify([0.5, 0.5, 0.5], [frozenset("a"), frozenset("b"), frozenset("c")], 0.7) == [0, 1, 2]


@given(bags, bags)
def test_what_two_texts_share_lies_between_nothing_and_all_and_is_mutual(
    left: frozenset[str], right: frozenset[str]
) -> None:
    assert 0 <= overlap(left, right) == overlap(right, left) <= 1
    assert (overlap(left, right) == 1) == (left == right)
    assert overlap(left, left) == 1


def test_the_share_is_of_all_the_words_of_both() -> None:
    assert overlap(frozenset("ab"), frozenset("bcd")) == 0.25
    assert overlap(frozenset(), frozenset()) == 1
    assert overlap(frozenset(), frozenset("a")) == 0


def result(name: str, score: float, source: SourceName = "memory", snippet: str = "x") -> SearchResult:
    return SearchResult(name, 1, 1, score, snippet, source, 1, 1, "")


def test_sources_take_turns_and_the_best_begins() -> None:
    talk = [result(name, score, "sessions") for name, score in (("s1", 0.9), ("s2", 0.8), ("s3", 0.7))]
    shown = interleave_sources([*talk, result("m1", 0.5)], 3)
    assert [entry.path for entry in shown] == ["s1", "m1", "s2"]


def test_one_source_is_only_cut() -> None:
    shown = interleave_sources([result(name, 0.5) for name in "abc"], 2)
    assert [entry.path for entry in shown] == ["a", "b"]
    assert interleave_sources([], 3) == []
