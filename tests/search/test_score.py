import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.search.score import (
    IDENTIFIER_BONUS,
    Strengths,
    Weighted,
    idf,
    leave_out_stop_words,
    mix,
    probabilities,
    query_cost,
    rank,
    strengths,
    weigh,
    wordless_worth,
)
from mdrecall.types.search import ChunkRows, Match, Term

shares = st.floats(0, 1)


def match(text: str, chunks: dict[int, float], *, stop: bool = False) -> Match:
    return Match(Term(text, text, stop=stop), chunks, len(chunks))


def test_rare_terms_weigh_more_and_stop_words_hardly() -> None:
    weights = weigh([match("rare", {1: 0.5}), match("common", dict.fromkeys(range(50), 0.5)),
                     match("the", {1: 0.5}, stop=True)], 100)  # fmt: skip
    assert weights.by_term["rare"] > 2 * weights.by_term["common"] > 0
    assert weights.by_term["the"] < 0.2 * weights.by_term["rare"]


def test_a_term_in_every_chunk_still_weighs_something() -> None:
    weights = weigh([match("everywhere", dict.fromkeys(range(5), 0.5))], 5)
    assert weights.by_term["everywhere"] > 0


def test_words_that_no_chunk_holds_do_not_make_a_long_question_unanswerable() -> None:
    held, unknown = [match(f"held{n}", {1: 1.0}) for n in range(8)], [match(f"no{n}", {}) for n in range(30)]
    (short,) = rank(strengths(held, weigh(held, 100)), 5)
    (long,) = rank(strengths([*held, *unknown], weigh([*held, *unknown], 100)), 5)
    assert long.strength == pytest.approx(short.strength) == pytest.approx(1.0)


def test_a_chunk_that_repeats_many_terms_is_not_worth_more_than_everything() -> None:
    many = [match(f"term{number}", {1: 1.0}) for number in range(20)]
    (found,) = rank(strengths(many, weigh(many, 100)), 5)
    assert found.strength == 1.0


def test_what_is_worth_everything_ties_and_an_identifier_adds_its_share_of_the_bonus() -> None:
    full = [match(f"term{n}", {2: 1.0, 1: 1.0 if n < 18 else 0.0, 3: 0.2}) for n in range(20)]
    assert [entry.chunk_id for entry in rank(strengths(full, weigh(full, 100)), 5)] == [1, 2, 3]
    # Half of the identifiers adds 0.2: enough to come before 0.7, not before 0.8.
    found = Strengths({1: 0.8, 2: 0.7, 3: 0.55, 4: 1.1}, {3: 0.5})
    assert [entry.chunk_id for entry in rank(found, 4)] == [4, 1, 3, 2]


def test_of_two_identifiers_each_counts_half() -> None:
    matches = [match("abc123", {1: 1.0, 2: 1.0}), match("xyz789", {1: 1.0})]
    found = strengths(matches, weigh(matches, 100, frozenset({"abc123", "xyz789"})))
    assert [entry.identified for entry in found.pick([1, 2])] == [1.0, 0.5]


def test_the_limit_keeps_the_best() -> None:
    matches = [match("common", {number: number / 100 for number in range(90)}), match("rare", {3: 0.9})]
    ranked = rank(strengths(matches, weigh(matches, 100)), 5)
    assert [entry.chunk_id for entry in ranked] == [3, 89, 88, 87, 86]


def test_chunks_that_tie_with_the_last_one_are_kept_but_not_without_bound() -> None:
    tied = [match("common", {number: 0.5 if number else 0.9 for number in range(90)})]
    ranked = rank(strengths(tied, weigh(tied, 100)), 2)
    assert [entry.chunk_id for entry in ranked] == [0, 1, *range(89, 81, -1)]
    different = [match("common", {0: 0.9, 1: 0.5, 2: 0.4})]
    assert len(rank(strengths(different, weigh(different, 100)), 2)) == 2


def test_a_guess_counts_half() -> None:
    term = Term("configurat", "configurat", prefix=True)
    whole, guess = Match(term, {1: 0.5}, 1), Match(term, {1: 0.5}, 1, loose=True)
    assert weigh([guess], 100).by_term["configurat"] == weigh([whole], 100).by_term["configurat"] / 2
    assert weigh([guess], 100).beginnings == ("configurat",)
    assert weigh([whole], 100).beginnings == ()


@pytest.mark.parametrize("more", [0, 50, 50_000])
def test_the_same_note_keeps_its_score_when_unrelated_notes_are_added(more: int) -> None:
    matches = [match("recovery", {1: 0.45}), match("pool", {1: 0.45, 2: 0.3}), match("never", {})]
    (found, *_) = rank(strengths(matches, weigh(matches, 50 + more)), 5)
    assert found.strength == pytest.approx(0.28, abs=0.02)


def test_words_that_many_chunks_hold_prove_less_however_many_notes_are_added() -> None:
    rare, common = match("dementia", {1: 0.5}), match("task", dict.fromkeys(range(200), 0.5))
    costs = [
        query_cost(1.0, weigh([one], count).commonness, is_unspaced=False)
        for one in (rare, common)
        for count in (400, 9000)
    ]
    assert costs[0] == costs[1] < costs[2] == costs[3]
    assert weigh([match("never", {})], 100).commonness == 0


@given(shares, shares, shares)
def test_the_mix_lies_between_its_parts(words: float, alike: float, weight: float) -> None:
    assert min(words, alike) - 1e-12 <= mix(words, alike, weight) <= max(words, alike) + 1e-12


@given(shares, shares, shares, shares)
def test_more_of_either_part_is_never_worth_less(words: float, alike: float, more: float, weight: float) -> None:
    before = mix(words, alike, weight)
    assert mix(max(words, more), alike, weight) >= before
    assert mix(words, max(alike, more), weight) >= before


@given(shares, shares)
def test_without_a_vector_a_chunk_stands_by_its_words(words: float, weight: float) -> None:
    assert mix(words, None, weight) == words


def test_an_identifier_adds_its_bonus_with_and_without_vectors() -> None:
    assert mix(0.4, None, 0.35, 1.0) == pytest.approx(0.4 + IDENTIFIER_BONUS) == pytest.approx(0.8)
    assert mix(0.4, 0.4, 0.35, 0.5) == pytest.approx(0.4 + IDENTIFIER_BONUS / 2)


@given(st.floats(-3, 5), st.floats(0, 1))
def test_more_worth_is_never_less_likely_and_always_a_probability(worth: float, more: float) -> None:
    for by_vectors_only in (False, True):
        low, high = probabilities([worth, worth + more], by_vectors_only=by_vectors_only)
        assert 0 <= low <= high <= 1


def test_nothing_is_unlikely_and_everything_is_likely() -> None:
    nothing, everything = probabilities([0.0, 1.0 - query_cost(1.0, 1.0, is_unspaced=False)])
    assert nothing < 0.15 < 0.9 < everything
    unlike, alike = probabilities([0.0, 1.0], by_vectors_only=True)
    assert unlike < 0.1 < 0.5 < alike


def log_odds(share: float) -> float:
    return math.log(share / (1 - share))


@pytest.mark.parametrize("worth", [0.0, 0.4, 1.0])
def test_the_curves_are_the_ones_that_were_fitted(worth: float) -> None:
    (by_words, wordless), (by_vectors,) = (
        probabilities([worth, wordless_worth(worth)]),
        probabilities([worth], by_vectors_only=True),
    )
    assert log_odds(by_words) == pytest.approx(8 * worth - 3)
    assert log_odds(by_vectors) == pytest.approx(3.7 * (worth - 0.95))
    assert wordless == pytest.approx(by_vectors)


def test_what_a_query_costs() -> None:
    assert query_cost(1.0, 0.0, is_unspaced=False) == pytest.approx(1 / 8)
    assert query_cost(0.0, 2.0, is_unspaced=False) == pytest.approx(0.6 / 8)
    assert query_cost(1.0, 2.0, is_unspaced=True) == pytest.approx((1 + 0.6 - 0.5) / 8)


def test_stop_words_are_left_out_unless_nothing_else_was_found() -> None:
    the, tea, never = match("the", {1: 0.5}, stop=True), match("tea", {2: 0.5}), match("never", {})
    assert leave_out_stop_words([the, tea, never]) == [tea, never]
    assert leave_out_stop_words([the, never]) == [the, never]


def test_only_the_chunks_that_are_given_count() -> None:
    matches = [match("walrus", {1: 0.5, 2: 0.5, 3: 0.5}), match("abc123", {1: 1.0, 2: 1.0, 3: 1.0})]
    weights = weigh(matches, 100, frozenset({"abc123"}))
    everything, some = strengths(matches, weights), strengths(matches, weights, {1, 3})
    assert {one.chunk_id for one in rank(everything, 9)} == {1, 2, 3}
    assert {one.chunk_id for one in rank(some, 9)} == {1, 3}
    assert some.pick([1]) == everything.pick([1])
    assert some.pick([2]) == [Weighted(2, 0.0)]


def test_a_rare_term_weighs_as_bm25_says() -> None:
    assert idf(1, 100) == pytest.approx(math.log(1 + 99.5 / 1.5))
    assert idf(10, 100) == pytest.approx(math.log(1 + 90.5 / 10.5))
    assert idf(0, 100) == idf(1, 100)
    assert idf(100, 50) == pytest.approx(math.log(1 + 0.5 / 100.5))


def test_the_values_of_some_chunks_are_picked_from_many() -> None:
    rows = ChunkRows(numpy.array([2, 5, 9]), numpy.array([0.2, 0.5, 0.9]))
    assert rows.pick([9, 1, 2, 12]) == {9: 0.9, 2: 0.2}
    assert ChunkRows(numpy.array([], numpy.int64), numpy.array([])).pick([1]) == {}
    assert rows.get(3) is None
