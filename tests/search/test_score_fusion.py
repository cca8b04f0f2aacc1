import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.search.query import parse_query
from mdrecall.search.score import Similarity, measure_traits, similarities, word_weights
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


def matched(word: str, held_by: int, *, loose: bool = False) -> Match:
    (term,) = [term for term in parse_query(word) if isinstance(term, Term)]
    return Match(term, dict.fromkeys(range(held_by), 0.5), held_by, loose)


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_a_rarer_word_counts_no_less_for_the_meaning(one: int, other: int) -> None:
    few, many = sorted((one, other))
    weights = word_weights([matched("walrus", few), matched("pool", many)], 1000)
    assert 0.3 < weights["pool"] <= weights["walrus"] <= 1


def test_a_word_found_only_as_a_beginning_counts_fully() -> None:
    assert word_weights([matched("configurat", 500, loose=True)], 500) == {"configurat": 1.0}


def test_the_range_of_an_unknown_embedder_is_measured_and_few_chunks_prove_little() -> None:
    few, many = (measure_traits(Traits(measured=True), 0.7, count) for count in (0, 100_000))
    assert [few.unrelated, few.related] == pytest.approx([0.2, 0.64])
    assert [many.unrelated, many.related] == pytest.approx([0.7, 0.865], abs=1e-3)
    assert measure_traits(Traits(), 20 / 20, 20).unrelated == pytest.approx(0.6)
    assert measure_traits(Traits(), 1.0, 10**9).unrelated == 0.9
    assert measure_traits(Traits(), -1.0, 20).unrelated == pytest.approx(0.1)
