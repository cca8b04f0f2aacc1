"""Each stage of the ranking by itself."""

from typing import Any

import pytest

from mdrecall.core.ranking.query import parse_query
from mdrecall.core.ranking.score import Similarity, Weighted, weigh
from mdrecall.core.ranking.snippet import NO_PASSAGE, Passage
from mdrecall.core.ranking.stages import (
    NO_MATCH,
    Candidate,
    RankingContext,
    RankingOptions,
    apply_age,
    diversify_results,
    drop_low_scores,
    explain_empty,
    explain_scores,
    find_passages,
    limit_per_file,
    limit_results,
    reserve_note_places,
    score_candidates,
    to_result,
)
from mdrecall.core.text.words import Analyser
from mdrecall.types import Match, Mode, SourceName, StoredChunk

DAY_MS = 86_400_000
LONG_CHUNK = "\n".join(f"line {number} " + "filler " * 20 for number in range(9))


def context(
    query: str = "walrus", *, mode: Mode = "hybrid", weight: float = 0.5, explain: bool = False, **options: Any
) -> RankingContext:
    matches = [Match(term, {1: 0.5}, 1) for term in parse_query(query)]
    settings = RankingOptions(**{"max_results": 4, "min_score": 0.3, "mode": mode} | options)
    return RankingContext(settings, mode, matches, weigh(matches, 50), weight, Analyser(), explain, now_ms=0.0)


def candidate(
    number: int = 1,
    *,
    text: str = "the walrus sleeps",
    path: str = "memory/a.md",
    source: SourceName = "memory",
    strength: float = 0.5,
    complete: bool = False,
    line: int = 1,
    **more: Any,
) -> Candidate:
    chunk = StoredChunk(number, source, path, line, line + text.count("\n"), text, ())
    return Candidate(chunk, Weighted(number, strength, complete), **more)


def similar(value: float) -> Similarity:
    return Similarity(value, value, value)


def ids(candidates: list[Candidate]) -> list[int]:
    return [entry.chunk.id for entry in candidates]


# find_passages


def test_the_passage_is_where_the_terms_are_and_counts_for_the_keyword_score() -> None:
    (found,) = find_passages([candidate(text="nothing\nthe walrus sleeps")], context())
    assert (found.passage.first_line, found.passage.coverage) == (1, 1.0)
    assert found.keyword_score == pytest.approx(0.85 * 0.5 + 0.15)


def test_a_chunk_without_a_term_has_no_passage_and_no_keyword_score() -> None:
    (found,) = find_passages([candidate(strength=0.0)], context())
    assert (found.passage, found.keyword_score) == (NO_PASSAGE, 0.0)


def test_a_chunk_without_a_term_shows_its_most_similar_window() -> None:
    (found,) = find_passages([candidate(text=LONG_CHUNK, strength=0.0, window=2)], context())
    assert 0 < found.passage.first_line <= found.passage.last_line
    assert (found.passage.coverage, found.keyword_score) == (0.0, 0.0)


def test_a_passage_that_holds_the_query_is_shown_although_another_window_is_more_similar() -> None:
    text = f"{LONG_CHUNK}\nthe walrus sleeps"
    (found,) = find_passages([candidate(text=text, window=0)], context())
    assert found.passage.first_line == 9


def test_a_passage_that_holds_hardly_anything_of_the_query_gives_way_to_the_window() -> None:
    text = f"{LONG_CHUNK}\nthe end"
    (found,) = find_passages([candidate(text=text, window=0)], context("the walrus zebra quagga"))
    assert 0 < found.passage.coverage < 0.15
    assert found.passage.first_line == 0


def test_of_a_query_of_many_words_a_passage_with_one_in_six_is_enough_to_be_shown() -> None:
    text = f"{LONG_CHUNK}\nthe walrus sleeps"
    (found,) = find_passages([candidate(text=text, window=0)], context("walrus zebra quagga heron otter ibis"))
    assert 0.15 < found.passage.coverage < 0.17
    assert found.passage.first_line == 9


def test_in_a_search_by_vectors_the_window_is_shown_whatever_the_passage_holds() -> None:
    text = f"{LONG_CHUNK}\nthe walrus sleeps"
    (found,) = find_passages([candidate(text=text, window=0)], context(mode="vector"))
    assert (found.passage.first_line, found.passage.coverage) == (0, 1.0)


def test_a_window_that_the_text_no_longer_has_is_ignored() -> None:
    (found,) = find_passages([candidate(window=1)], context(mode="vector"))
    assert found.passage.coverage == 1.0


# apply_age


def test_without_temporal_decay_age_does_not_matter() -> None:
    (found,) = apply_age([candidate(path="memory/2020-01-01.md")], context())
    assert found.decay == 1.0


def test_with_temporal_decay_an_old_daily_note_counts_less_and_memory_md_does_not() -> None:
    settings = context(half_life_days=30)._replace(now_ms=60 * DAY_MS)
    old, evergreen = apply_age([candidate(path="memory/1970-01-31.md"), candidate(path="MEMORY.md")], settings)
    assert [old.decay, evergreen.decay] == pytest.approx([0.75, 1.0])


def test_other_files_are_as_old_as_their_last_change() -> None:
    changed = candidate(path="notes/a.md")
    changed = changed._replace(chunk=changed.chunk._replace(mtime_ns=30 * DAY_MS * 1_000_000))
    (found,) = apply_age([changed], context(half_life_days=30)._replace(now_ms=60 * DAY_MS))
    assert found.decay == pytest.approx(0.75)


# score_candidates


def test_the_score_mixes_keywords_and_vectors_by_their_weight() -> None:
    (found,) = score_candidates([candidate(keyword_score=0.2, similarity=similar(0.6))], context(weight=0.25))
    assert found.score == pytest.approx(0.7 * (0.75 * 0.2 + 0.25 * 0.6) ** 0.22)


def test_age_lowers_the_score_but_not_below_that_of_an_incomplete_candidate() -> None:
    old = candidate(1, keyword_score=0.4, complete=True, decay=0.5)
    new = candidate(2, keyword_score=0.4, complete=True)
    part = candidate(3, keyword_score=1.0)
    scored = score_candidates([part, old, new], context())
    assert ids(scored) == [2, 1, 3]
    assert scored[0].score > scored[1].score >= 0.7 > scored[2].score


def test_in_a_search_by_vectors_no_candidate_is_complete() -> None:
    (found,) = score_candidates([candidate(similarity=similar(0.5), complete=True)], context(mode="vector", weight=1.0))
    assert (found.complete, found.score < 0.7) == (False, True)


def test_a_candidate_that_is_worth_nothing_is_dropped() -> None:
    assert score_candidates([candidate(keyword_score=0.0, similarity=similar(0.0))], context()) == []


def test_equal_scores_are_ordered_by_path_line_and_chunk() -> None:
    equal = [
        candidate(1, path="b.md", keyword_score=0.5),
        candidate(4, path="a.md", line=9, keyword_score=0.5),
        candidate(3, path="a.md", line=2, keyword_score=0.5),
        candidate(2, path="a.md", line=2, keyword_score=0.5),
    ]
    assert ids(score_candidates(equal, context())) == [2, 3, 4, 1]


# explain_scores


def test_without_explain_nothing_is_attached() -> None:
    assert explain_scores([candidate()], context())[0].why is None


def test_an_explanation_ranks_each_candidate_by_keywords_and_by_vectors() -> None:
    entries = [
        candidate(1, path="a.md", keyword_score=0.9, similarity=similar(0.1)),
        candidate(2, path="b.md", keyword_score=0.1, complete=True, similarity=similar(0.9)),
        candidate(3, path="c.md", similarity=similar(0.9)),
        candidate(4, path="d.md", keyword_score=0.9),
        candidate(5, path="0.md", keyword_score=0.5),
    ]
    whys = [entry.why for entry in explain_scores(entries, context(explain=True))]
    assert [why.keyword_rank for why in whys if why] == [2, 1, None, 3, 4]
    assert [why.vector_rank for why in whys if why] == [3, 1, 2, None, None]
    assert [why.vector_score for why in whys if why] == [0.1, 0.9, 0.9, None, None]


def test_an_explanation_names_the_terms_and_rounds_what_it_says() -> None:
    entry = candidate(strength=0.123456, keyword_score=0.234567, decay=0.345678, passage=Passage(0.456789, 0, 0, 0, 1))
    (found,) = explain_scores([entry], context("walrus zebra", explain=True, weight=0.567891))
    assert found.why
    assert found.why.terms == (("walrus", 0.5, True), ("zebra", 0.5, True))
    assert (found.why.strength, found.why.keyword_score, found.why.decay) == (0.1235, 0.2346, 0.3457)
    assert (found.why.passage_coverage, found.why.vector_weight, found.why.cosine) == (0.4568, 0.5679, None)


# drop_low_scores, limit_per_file, limit_results


def test_a_candidate_at_the_minimum_score_stays_and_one_below_it_goes() -> None:
    entries = [candidate(1, score=0.31), candidate(2, score=0.3), candidate(3, score=0.2999)]
    assert ids(drop_low_scores(entries, context(min_score=0.3))) == [1, 2]


@pytest.mark.parametrize(("most", "kept"), [(None, [1, 2, 3, 4]), (1, [1, 3]), (2, [1, 2, 3]), (3, [1, 2, 3, 4])])
def test_of_one_file_only_the_best_few_stay(most: int | None, kept: list[int]) -> None:
    entries = [candidate(1), candidate(2), candidate(3, path="memory/b.md"), candidate(4)]
    assert ids(limit_per_file(entries, context(max_per_file=most))) == kept


def test_as_many_results_as_were_asked_for() -> None:
    assert ids(limit_results([candidate(number) for number in range(9)], context(max_results=3))) == [0, 1, 2]


# diversify_results


def test_a_repetition_moves_down_only_if_the_settings_ask_for_diversity() -> None:
    entries = [
        candidate(1, score=0.6),
        candidate(2, score=0.59),
        candidate(3, text="a quagga in the garden", score=0.5),
    ]
    assert ids(diversify_results(entries, context())) == [1, 2, 3]
    assert ids(diversify_results(entries, context(mmr_lambda=0.3))) == [1, 3, 2]


def test_a_repetition_that_is_complete_stays_above_what_is_not() -> None:
    entries = [
        candidate(1, score=0.9)._replace(complete=True),
        candidate(2, score=0.8)._replace(complete=True),
        candidate(3, text="a quagga in the garden", score=0.69),
    ]
    assert ids(diversify_results(entries, context(mmr_lambda=0.0))) == [1, 2, 3]


# reserve_note_places


def mixed(*sources: str) -> list[Candidate]:
    """Candidates in their order: ``s`` for a session, ``n`` for a note."""
    return [
        candidate(number, source="sessions" if source == "s" else "memory") for number, source in enumerate(sources)
    ]


@pytest.mark.parametrize(
    ("sources", "places", "shown"),
    [
        ("ssssnn", 4, [0, 1, 4, 5]),  # half of the places are for notes
        ("sssssnnn", 5, [0, 1, 2, 5, 6]),  # of an odd number, sessions may take one more
        ("sssssn", 4, [0, 1, 2, 5]),  # places that no note can fill are left to sessions
        ("ssssss", 4, [0, 1, 2, 3]),  # without a note, all are
        ("nnnnss", 4, [0, 1, 2, 3]),  # nothing is kept for sessions
        ("nsnsns", 4, [0, 1, 2, 3]),  # the order by score stays
        ("sn", 1, [0]),  # one place goes to the best
    ],
)
def test_half_of_the_places_are_kept_for_notes(sources: str, places: int, shown: list[int]) -> None:
    settings = context(max_results=places)
    assert ids(limit_results(reserve_note_places(mixed(*sources), settings), settings)) == shown


# to_result, explain_empty


def test_a_result_cites_the_lines_of_its_file() -> None:
    entry = candidate(text="# Plan\n\nthe walrus sleeps", line=11, score=0.123456)
    (found,) = find_passages([entry], context())
    result = to_result(found)
    assert (result.start_line, result.end_line, result.match_start_line, result.match_end_line) == (11, 13, 13, 13)
    assert (result.heading, result.score, result.snippet) == ("Plan", 0.1235, "# Plan\n\nthe walrus sleeps")


def test_a_result_of_a_transcript_cites_its_records() -> None:
    entry = candidate(text="user: hello\nassistant: the walrus sleeps", source="sessions")
    entry = entry._replace(chunk=entry.chunk._replace(records=(7, 9)))
    (found,) = find_passages([entry], context())
    assert (to_result(found).match_start_line, to_result(found).match_end_line) == (9, 9)


def test_an_empty_answer_says_that_nothing_matches_or_names_the_best_match() -> None:
    assert explain_empty([], 0.3) is NO_MATCH
    assert explain_empty([candidate()], 0.3) is NO_MATCH
    low = explain_empty([candidate(score=0.254, line=7), candidate(2, score=0.1)], 0.35)
    assert low.reason == "below_min_score"
    assert low.action == (
        "The best match, memory/a.md#L7, has a score of 0.25, below the minimum score of 0.35."
        " Lower the minimum score or try other words."
    )
