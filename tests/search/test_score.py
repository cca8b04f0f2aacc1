from hypothesis import given
from hypothesis import strategies as st

from mdrecall.search.score import mix, probabilities

shares = st.floats(0, 1)


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


@given(st.floats(-3, 5), st.floats(0, 1))
def test_more_worth_is_never_less_likely_and_always_a_probability(worth: float, more: float) -> None:
    for by_vectors_only in (False, True):
        low, high = probabilities([worth, worth + more], by_vectors_only=by_vectors_only)
        assert 0 <= low <= high <= 1
