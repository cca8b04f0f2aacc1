import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.search.query import parse_query
from mdrecall.search.score import Similarity, Weighted, measure_traits, most_promising, similarities, word_weights
from mdrecall.types.documents import Traits
from mdrecall.types.search import Match, Term

OFFLINE = Traits(unrelated=0.1, related=0.6)
cosines = st.floats(-1, 1)


def similarity(whole: float, window: float | None, traits: Traits) -> Similarity:
    ((found, _),) = similarities({1: whole}, {} if window is None else {1: (window, window / 2)}, traits).values()
    return found


@given(cosines, st.none() | cosines)
def test_likeness_lies_between_nothing_and_everything(whole: float, window: float | None) -> None:
    found = similarity(whole, window, OFFLINE)
    assert 0 <= found[0] <= 1
    assert found[1] == whole


@given(cosines, cosines, cosines)
def test_a_larger_cosine_is_never_less_alike(whole: float, window: float, larger: float) -> None:
    before = similarity(whole, window, OFFLINE)[0]
    assert similarity(max(whole, larger), window, OFFLINE)[0] >= before
    assert similarity(whole, max(window, larger), OFFLINE)[0] >= before


def test_the_traits_say_which_cosines_count_as_nothing_and_as_everything() -> None:
    assert similarity(0.1, None, OFFLINE)[0] == 0
    assert similarity(0.5, None, OFFLINE)[0] == pytest.approx(0.8)
    assert 0.9 < similarity(0.6, None, OFFLINE)[0] < similarity(0.9, None, OFFLINE)[0] < 1
    assert similarity(0.35, None, OFFLINE)[0] == pytest.approx(0.5)
    assert similarity(0.35, None, Traits(unrelated=0.3, related=0.8))[0] == pytest.approx(0.1)


def test_the_best_passage_counts_as_much_as_the_whole() -> None:
    assert similarity(0.2, 0.5, OFFLINE)[0] == similarity(0.5, 0.2, OFFLINE)[0] == pytest.approx(0.5)


def matched(word: str, held_by: int, *, loose: bool = False) -> Match:
    (term,) = [term for term in parse_query(word) if isinstance(term, Term)]
    return Match(term, dict.fromkeys(range(held_by), 0.5), held_by, loose)


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_a_rarer_word_counts_no_less_for_the_meaning(one: int, other: int) -> None:
    few, many = sorted((one, other))
    weights = word_weights([matched("walrus", few), matched("pool", many)], 1000)
    assert 0.3 < weights["pool"] <= weights["walrus"] <= 1


def test_a_word_in_every_chunk_counts_little_and_one_in_none_counts_fully() -> None:
    weights = word_weights([matched("anna", 500), matched("walrus", 1), matched("allergy", 0)], 500)
    assert weights == {"anna": pytest.approx(0.1**0.5), "walrus": 1.0, "allergy": 1.0}


def test_a_word_found_only_as_a_beginning_counts_fully() -> None:
    assert word_weights([matched("configurat", 500, loose=True)], 500) == {"configurat": 1.0}


def test_the_more_chunks_hold_a_word_the_less_it_counts_for_the_meaning() -> None:
    share = math.log(1 + 90.5 / 10.5) / math.log(1 + 99.5 / 1.5)
    assert word_weights([matched("pool", 10)], 100) == {"pool": pytest.approx(math.sqrt(share))}
    stop = Term("the", "the", stop=True)
    assert word_weights([], 100, [stop, Term("tea", "tea")]) == {"the": 0.6}
    assert word_weights([matched("the", 0)], 100, [stop]) == {"the": 1.0}


def entries(*strengths: float, identified: tuple[int, ...] = ()) -> list[Weighted]:
    return [Weighted(number, strength, float(number in identified)) for number, strength in enumerate(strengths)]


def promising(found: list[Weighted], size: int, cosines: dict[int, float] | None = None) -> list[int]:
    return [entry.chunk_id for entry in most_promising(found, cosines or {}, OFFLINE, 0.5, size)]


def test_the_most_promising_chunks_are_the_strongest_by_keywords_and_vectors_together() -> None:
    assert promising(entries(0.1, 0.3, 0.2), 2) == [1, 2]
    assert promising(entries(0.1, 0.3, 0.2), 2, {0: 0.5}) == [0, 1]


def test_a_chunk_with_the_identifier_is_more_promising_than_one_with_a_few_more_words() -> None:
    assert promising(entries(0.5, 0.4, 0.45, identified=(1,)), 2) == [1, 0]


def test_chunks_that_tie_with_the_last_one_stay_and_weaker_ones_go() -> None:
    assert promising(entries(0.9, 0.5, 0.5, 0.5, 0.4), 2) == [0, 1, 2, 3]
    assert promising(entries(0.5, 0.5, 0.4, identified=(0,)), 1) == [0]
    assert promising([], 2) == []


def test_with_fewer_chunks_than_wanted_all_stay() -> None:
    assert promising(entries(0.2, 0.0), 2) == [0, 1]
    assert promising(entries(0.2, 0.0), 9) == [0, 1]


def test_the_range_of_an_unknown_embedder_is_measured_and_few_chunks_prove_little() -> None:
    few, many = (measure_traits(Traits(measured=True), 0.7, count) for count in (0, 100_000))
    assert [few.unrelated, few.related] == pytest.approx([0.2, 0.64])
    assert [many.unrelated, many.related] == pytest.approx([0.7, 0.865], abs=1e-3)
    assert measure_traits(Traits(), 20 / 20, 20).unrelated == pytest.approx(0.6)
    assert measure_traits(Traits(), 1.0, 10**9).unrelated == 0.9
    assert measure_traits(Traits(), -1.0, 20).unrelated == pytest.approx(0.1)
