import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.core.ranking.score import COMPLETE_FROM, Weighted, keyword_strength, rank, score, strengths, weigh
from mdrecall.types import Match, Term


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


def test_distinctive_terms_are_the_rare_ones_that_occur() -> None:
    matches = [match("rare", {1: 0.5}), match("common", dict.fromkeys(range(60), 0.5)), match("unknown", {})]
    assert weigh(matches, 100).distinctive == {"rare"}


def test_without_a_rare_term_no_chunk_is_complete() -> None:
    common = dict.fromkeys(range(60), 0.5)
    matches = [match("one", common), match("two", common), match("the", common, stop=True)]
    weights = weigh(matches, 100)
    assert weights.distinctive == frozenset()
    assert strengths(matches, weights).complete == frozenset()


def test_in_a_small_index_all_terms_that_count_make_a_chunk_complete() -> None:
    common = dict.fromkeys(range(6), 0.5)
    matches = [match("one", common), match("two", {1: 0.5, 2: 0.5}), match("the", common, stop=True)]
    weights = weigh(matches, 10)
    assert weights.distinctive == {"one", "two"}
    assert strengths(matches, weights).complete == {1, 2}


@pytest.mark.parametrize(("chunk_count", "held_by", "is_rare"), [
    (100, 1, True), (100, 2, False), (1000, 90, True), (1000, 91, False),
])  # fmt: skip
def test_a_term_is_rare_in_a_tenth_of_the_chunks_and_in_few_of_a_small_index(
    chunk_count: int, held_by: int, is_rare: bool
) -> None:
    matches = [match("walrus", dict.fromkeys(range(held_by), 0.5))]
    assert bool(weigh(matches, chunk_count).distinctive) == is_rare


def test_the_words_of_a_name_are_not_distinctive_when_the_name_is_found() -> None:
    name = Match(Term("dec-0054", "dec-0054", parts=("dec", "0054")), {1: 1.0}, 1)
    matches = [match("dec", {1: 0.5, 2: 0.5}), match("0054", {1: 0.5}), name]
    assert weigh(matches, 100).distinctive == {"dec-0054"}


chunk_scores = st.dictionaries(st.integers(0, 30), st.floats(0.01, 0.99), max_size=20)


@given(st.lists(st.tuples(chunk_scores, st.booleans()), min_size=1, max_size=6), st.dictionaries(
    st.integers(0, 30), st.floats(0, 1)))  # fmt: skip
def test_a_chunk_with_all_distinctive_terms_is_never_below_one_that_lacks_them(
    found: list[tuple[dict[int, float], bool]], coverage: dict[int, float]
) -> None:
    matches = [match(f"term{number}", chunks, stop=stop) for number, (chunks, stop) in enumerate(found)]
    weights = weigh(matches, 200)
    found_words = strengths(matches, weights)
    scores = {
        entry.chunk_id: score(keyword_strength(entry, coverage.get(entry.chunk_id, 0.0)), entry.complete)
        for entry in rank(found_words, 100)
    }
    needed = [entry.chunks for entry in matches if entry.term.text in weights.distinctive]
    whole = {chunk for chunk in scores if needed and all(chunk in chunks for chunks in needed)}
    if whole and scores.keys() - whole:
        assert min(scores[chunk] for chunk in whole) > max(scores[chunk] for chunk in scores.keys() - whole)
    assert all(0 <= value <= 1 for value in scores.values())


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_more_strength_or_a_better_passage_never_lowers_a_score(
    strength: float, coverage: float, complete: bool
) -> None:
    def scored(strength: float, coverage: float) -> float:
        return score(keyword_strength(Weighted(1, strength, complete), coverage), complete)

    value = scored(strength, coverage)
    assert scored(min(1.0, strength + 0.1), coverage) >= value
    assert scored(strength, min(1.0, coverage + 0.1)) >= value
    assert (value >= COMPLETE_FROM) == complete


def test_the_limit_keeps_the_best() -> None:
    matches = [match("common", {number: number / 100 for number in range(90)}), match("rare", {3: 0.1})]
    ranked = rank(strengths(matches, weigh(matches, 100)), 5)
    assert [entry.chunk_id for entry in ranked] == [3, 89, 88, 87, 86]
    assert [entry.complete for entry in ranked] == [True, False, False, False, False]


def test_chunks_that_tie_with_the_last_one_are_kept_but_not_without_bound() -> None:
    tied = [match("common", {number: 0.5 if number else 0.9 for number in range(90)})]
    ranked = rank(strengths(tied, weigh(tied, 100)), 2)
    assert [entry.chunk_id for entry in ranked] == list(range(9))
    different = [match("common", {0: 0.9, 1: 0.5, 2: 0.4})]
    assert len(rank(strengths(different, weigh(different, 100)), 2)) == 2


def test_complete_chunks_leave_the_rest_of_the_limit_to_the_others() -> None:
    matches = [match("common", {number: number / 100 for number in range(90)}), match("rare", {3: 0.1, 4: 0.1})]
    found = strengths(matches, weigh(matches, 1000))
    assert [entry.chunk_id for entry in rank(found, 2)] == [4, 3]
    assert [entry.chunk_id for entry in rank(found, 1)] == [4]


def test_a_guess_counts_half_and_is_not_distinctive() -> None:
    term = Term("configurat", "configurat", prefix=True)
    whole, guess = Match(term, {1: 0.5}, 1), Match(term, {1: 0.5}, 1, loose=True)
    assert weigh([guess], 100).by_term["configurat"] == weigh([whole], 100).by_term["configurat"] / 2
    assert weigh([whole], 100).distinctive == {"configurat"}
    assert weigh([guess], 100).distinctive == frozenset()
    assert weigh([guess], 100).beginnings == ("configurat",)


@pytest.mark.parametrize("chunk_count", [5, 50_000])
def test_a_chunk_that_holds_the_whole_query_scores_alike_in_small_and_large_indexes(chunk_count: int) -> None:
    matches = [match("recovery", {1: 0.45}), match("zx", {1: 0.45})]
    (only,) = rank(strengths(matches, weigh(matches, chunk_count)), 5)
    assert score(keyword_strength(only, 1.0), only.complete) == pytest.approx(0.919, abs=0.005)
