"""Each stage of the ranking by itself."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from mdrecall.search.query import parse_query, read_naming, read_times
from mdrecall.search.recency import prefer_times
from mdrecall.search.results import explain_empty
from mdrecall.search.score import (
    Query,
    ReadChunk,
    Similarity,
    Weighted,
    find_cost,
    probabilities,
    weigh,
    wordless_worth,
)
from mdrecall.search.slots import describe_doubt, explain_no_match, trust_leader
from mdrecall.search.stages import (
    Candidate,
    RankingContext,
    RankingOptions,
    apply_age,
    diversify_results,
    drop_low_scores,
    find_passages,
    limit_per_file,
    limit_results,
    merge_neighbours,
    prefer_speakers,
    score_candidates,
    spread_over_files,
    to_results,
)
from mdrecall.text.markdown import Passage
from mdrecall.text.words import Analyser
from mdrecall.types.documents import SourceName, StoredChunk, Traits
from mdrecall.types.search import Match, Mode
from tests.record.ranking import QUERIES, name_query, rank_chunks, show_answer

DAY_MS = 86_400_000
LONG_CHUNK = "\n\n".join(f"line {number} " + "filler " * 20 for number in range(9))
TRAITS = Traits(unrelated=0.0, related=1.0)


def context(
    query: str = "walrus", *, mode: Mode = "hybrid", weight: float = 0.5, explain: bool = False, **options: Any
) -> RankingContext:
    terms = parse_query(query)
    matches = [Match(term, {1: 0.5}, 1) for term in terms]
    settings = RankingOptions(**{"max_results": 4, "min_score": 0.3, "mode": mode} | options)
    naming = read_naming(query, terms)
    weights = weigh(matches, 50, naming.identifiers)
    asked = Query(weights, naming, Analyser(), weight, 1.0, TRAITS, mode == "vector")
    return RankingContext(settings, mode, matches, asked, query, explain, now_ms=0.0)


def candidate(
    number: int = 1,
    *,
    text: str = "the walrus sleeps",
    path: str = "memory/a.md",
    source: SourceName = "memory",
    strength: float = 0.5,
    line: int = 1,
    records: tuple[int, ...] = (),
    mtime_ns: int = 0,
    similarity: Similarity | None = None,
    cosines: tuple[float, ...] = (),
    translated: float | None = None,
    **more: Any,
) -> Candidate:
    chunk = StoredChunk(number, source, path, line, line + text.count("\n"), text, (), mtime_ns, records)
    return Candidate(ReadChunk(chunk, Weighted(number, strength), similarity, cosines, translated), **more)


def similar(value: float) -> Similarity:
    return (value, value)


def ids(candidates: list[Candidate]) -> list[int]:
    return [entry.chunk.id for entry in candidates]


def shown(entry: Candidate) -> str:
    return entry.chunk.text[entry.passage.start : entry.passage.end]


def best(candidates: list[Candidate]) -> Candidate:
    return max(candidates, key=lambda entry: entry.worth)


# find_passages


def test_a_chunk_becomes_its_passages_and_the_one_with_the_words_is_worth_most() -> None:
    found = find_passages([candidate(text=f"{LONG_CHUNK}\n\nthe walrus sleeps")], context(weight=0.0))
    assert shown(best(found)).endswith("the walrus sleeps")
    # The passage before it is there for its neighbour; the others hold nothing of the query.
    assert [entry.place for entry in found] == [best(found).place - 1, best(found).place]


def test_a_chunk_that_holds_nothing_of_the_query_has_no_passage() -> None:
    assert find_passages([candidate(text="a quagga", strength=0.0)], context()) == []


def test_a_chunk_without_a_term_is_found_by_its_vectors_and_shows_its_most_similar_passage() -> None:
    entry = candidate(text=LONG_CHUNK, strength=0.0, similarity=similar(0.5), cosines=(0.1, 0.2, 0.9, 0.1, 0.1))
    assert best(find_passages([entry], context())).place == 2


def test_words_count_before_likeness_by_their_weight() -> None:
    text = f"{LONG_CHUNK}\n\nthe walrus sleeps"
    entry = candidate(text=text, similarity=similar(0.5), cosines=(0.9, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    assert "walrus" in shown(best(find_passages([entry], context(weight=0.1))))
    assert best(find_passages([entry], context(weight=0.9))).place == 0
    assert best(find_passages([entry], context(mode="vector"))).place == 0


def test_a_passage_beside_others_with_words_of_the_query_is_worth_more() -> None:
    text = "# One\nthe walrus\n# Two\na zebra\n# Three\nnothing\n# Four\nnothing\n# Five\nthe walrus"
    found = find_passages([candidate(text=text)], context("walrus zebra", weight=0.0))
    assert [entry.features.neighbours > 0 for entry in found if entry.features] == [True, True, True, True, False]
    assert found[0].worth > found[4].worth


def test_words_of_one_list_item_are_worth_more_than_those_of_several() -> None:
    texts = ("- the walrus and the zebra\n- nothing", "- the walrus\n- a zebra", "the walrus\na zebra")
    entries = [candidate(path=f"memory/{n}.md", text=text) for n, text in enumerate(texts)]
    one, several, prose = find_passages(entries, context("walrus zebra", weight=0.0))
    assert one.worth == prose.worth > several.worth


def test_a_title_with_words_of_the_query_is_worth_more() -> None:
    plain, named = (candidate(path=path) for path in ("memory/a.md", "memory/zebra.md"))
    first, second = find_passages([plain, named], context("walrus zebra", weight=0.0))
    assert second.worth > first.worth


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("memory/people/priya.md", "memory/people/priya.md"),
        ("what is in priya.md?", "memory/people/priya.md"),
        ("priya", "memory/people/priya.md"),
        ("release checklist", "docs/release-checklist.md"),
        ("what happened on 2026-03-01", "memory/2026-03-01.md"),
    ],
)
def test_a_file_that_is_asked_for_by_name_comes_first(query: str, path: str) -> None:
    other = candidate(1, text=f"{query} " * 3, strength=1.0)
    named = candidate(2, text="something else", path=path, strength=0.1)
    assert best(find_passages([other, named], context(query))).chunk.path == path


def test_the_path_counts_more_than_the_file_name_and_that_more_than_the_stem_or_the_heading() -> None:
    settings = context("people/priya.md")
    entries = [
        candidate(1, path="people/priya.md"),
        candidate(2, path="memory/people/priya.md"),
        candidate(3, text="# people/priya.md\nx", path="b.md"),
    ]
    worth = {entry.chunk.id: entry.worth for entry in find_passages(entries, settings)}
    assert worth[1] > worth[2]
    assert worth[1] > worth[3]


def test_an_identifier_inside_a_sentence_outweighs_the_rest_of_the_sentence() -> None:
    query = "why did the deploy of the billing service fail with error STL-142"
    other = candidate(1, text="why did the deploy of the billing service fail with error STL-143", strength=0.9)
    right = candidate(2, text="STL-142: pool exhausted", strength=0.5)
    right = right._replace(found=right.found._replace(weighted=Weighted(2, 0.5, 1.0)))
    found = find_passages([other, right], context(query, weight=0.0))
    assert best(found).features
    assert {entry.chunk.id: entry.features.identified for entry in found if entry.features} == {1: 0.0, 2: 1.0}


def test_a_quoted_phrase_must_be_there_word_for_word() -> None:
    entries = [candidate(1, text="the walrus sleeps"), candidate(2, text="sleeps the walrus")]
    found = find_passages(entries, context('who said "walrus sleeps"', weight=0.0))
    assert best(found).chunk.id == 1


@pytest.mark.parametrize(
    ("query", "ratio"),
    [
        ("walrus", 1.1),
        ("where does my walrus sleep", 1.5),
        ("Wo schläft mein walrus", 1.5),
        ("我的 walrus 在哪里", 1.5),
        ("the walrus you mentioned", 1.0),
        ("which walrus did you recommend to me", 1.0),
        ("welchen walrus hast du mir empfohlen", 1.0),
        ("你推荐给我的 walrus", 1.0),
    ],
)
def test_the_words_of_the_user_count_more_if_the_query_is_about_them(query: str, ratio: float) -> None:
    text = "User: the walrus sleeps\nAssistant: the walrus sleeps"
    users, others = find_passages([candidate(text=text)], context(query))
    assert users.worth / others.worth == pytest.approx(ratio, abs=0.02)


def test_a_search_by_vectors_only_takes_nothing_off() -> None:
    asked = context("walrus zebra", mode="vector")
    features = best(find_passages([candidate(similarity=similar(0.5), cosines=(0.5,))], asked)).features
    assert features
    assert find_cost(features, asked.query) == 0
    assert find_cost(features, asked.query._replace(by_vectors_only=False)) > 0.12
    assert find_cost(features._replace(likeness=None), context("walrus zebra").query) < 0.1


# prefer_speakers

TALK = "Anna: the walrus sleeps\nBen: the walrus sleeps\nAnna: hello\nBen: hello"


def test_a_query_that_names_a_speaker_prefers_their_words() -> None:
    settings = context("did Ben see a walrus", weight=0.0)
    found = prefer_speakers(find_passages([candidate(text=TALK)], settings), settings)
    assert best(found).passage.speaker == "Ben"
    assert [entry.speaker < 0 for entry in found] == [True, False, True, False]


def test_a_query_that_names_nobody_changes_nothing() -> None:
    found = find_passages([candidate(text=TALK)], context(weight=0.0))
    assert prefer_speakers(found, context(weight=0.0)) == found


def test_if_only_others_say_it_everything_becomes_less_likely_and_the_answer_says_so() -> None:
    talk = "Anna: the walrus sleeps\nBen: what a day\nAnna: hello there\nBen: hello"
    settings = context("did Ben see the walrus sleep", weight=0.0)
    before = find_passages([candidate(text=talk)], settings)
    after = prefer_speakers(before, settings)
    assert all(entry.worth < was.worth for was, entry in zip(before, after, strict=True))
    scored = score_candidates(after, settings)
    assert describe_doubt(scored, settings) == "The query names another speaker: the best match was said by Anna."


# apply_age


def test_without_temporal_decay_age_does_not_matter() -> None:
    (found,) = apply_age([candidate(path="memory/2020-01-01.md")], context())
    assert found.decay == 1.0


def test_with_temporal_decay_an_old_daily_note_counts_less_and_memory_md_does_not() -> None:
    settings = context(half_life_days=30)._replace(now_ms=60 * DAY_MS)
    old, evergreen = apply_age([candidate(path="memory/1970-01-31.md"), candidate(path="MEMORY.md")], settings)
    assert old.decay < evergreen.decay == 1.0


def test_other_files_are_as_old_as_their_last_change() -> None:
    settings = context(half_life_days=30)._replace(now_ms=60 * DAY_MS)
    changed = candidate(path="notes/a.md", mtime_ns=30 * DAY_MS * 1_000_000)
    daily = candidate(path="memory/1970-01-31.md")
    assert apply_age([changed], settings)[0].decay == pytest.approx(apply_age([daily], settings)[0].decay)


# score_candidates


def test_the_score_is_the_probability_of_the_worth_and_age_lowers_it() -> None:
    new, old = score_candidates([candidate(worth=0.6), candidate(2, worth=0.6, decay=0.5)], context())
    assert new.score == pytest.approx(probabilities([0.6])[0])
    assert old.score == pytest.approx(new.score / 2)


def test_equal_scores_are_ordered_by_path_line_and_place() -> None:
    equal = [
        candidate(1, path="b.md", worth=0.5),
        candidate(4, path="a.md", line=9, worth=0.5),
        candidate(3, path="a.md", line=2, worth=0.5, place=1),
        candidate(2, path="a.md", line=2, worth=0.5),
    ]
    assert ids(score_candidates(equal, context())) == [2, 3, 4, 1]


@pytest.mark.parametrize(
    ("query", "path", "is_named"),
    [
        ("purification reaches purity of up to 50%", "memory/50.md", False),
        ("the 25th of March, 2022", "memory/25th.md", False),
        ("50", "memory/50.md", True),
        ("what was decided on 2026-01-05?", "memory/2026-01-05.md", True),
        ("the plan for q3", "projects/q3.md", True),
    ],
)
def test_an_amount_in_a_sentence_names_no_file(query: str, path: str, is_named: bool) -> None:
    assert (read_naming(query, parse_query(query)).file_bonus(path) > 0) is is_named


# merge_neighbours


def passages_of(text: str, *places: int, number: int = 1, line: int = 1) -> list[Candidate]:
    """The passages of one chunk, in the order of their places, each with a score."""
    settings = context(weight=0.0)
    found = {entry.place: entry for entry in find_passages([candidate(number, text=text, line=line)], settings)}
    return [found[place]._replace(score=0.9 - rank / 10) for rank, place in enumerate(places)]


SECTIONS = "\n".join(f"# Section {number}\nthe walrus sleeps" for number in range(5))


def test_neighbours_become_one_result_at_the_place_of_the_best() -> None:
    merged = merge_neighbours(passages_of(SECTIONS, 2, 0, 3, 4), context())
    assert [(entry.place, len(entry.more), entry.score) for entry in merged] == [(2, 2, 0.9), (0, 0, 0.8)]
    first, second = to_results(merged)
    assert (first.start_line, first.end_line, first.match_start_line, first.match_end_line) == (3, 10, 5, 6)
    assert (second.start_line, second.end_line) == (1, 2)


def test_neighbours_that_would_be_too_long_together_stay_apart() -> None:
    long = "\n".join(f"# Section {number}\nwalrus {'x' * 220}" for number in range(4))
    merged = merge_neighbours(passages_of(long, 0, 1, 2, 3), context())
    assert [len(entry.more) for entry in merged] == [1, 1]


def test_a_passage_that_would_be_no_result_is_not_joined_to_one() -> None:
    merged = merge_neighbours(passages_of(SECTIONS, 0, 2, 4, 3), context(max_results=3))
    assert [(entry.place, len(entry.more)) for entry in merged] == [(0, 0), (2, 0), (4, 0), (3, 0)]


def test_a_passage_that_overlapping_chunks_hold_is_shown_once() -> None:
    chunks = [*passages_of(SECTIONS, 4), *passages_of("# Section 4\nthe walrus sleeps\n# Section 5\nx", 0, number=2)]
    assert ids(merge_neighbours(chunks, context())) == [1]
    other = candidate(3, path="memory/b.md", text="# Section 4\nthe walrus sleeps")
    found = find_passages([other], context(weight=0.0))
    assert ids(merge_neighbours([*chunks, *found], context())) == [1, 3]


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


# spread_over_files, diversify_results


def test_many_passages_of_a_file_give_way_to_what_another_says() -> None:
    entries = [candidate(number, score=0.9 - number / 100) for number in range(1, 6)]
    other = candidate(6, path="memory/b.md", score=0.8)
    assert ids(spread_over_files([*entries, other], context(max_results=4))) == [1, 2, 3, 6, 4, 5]
    assert ids(spread_over_files([*entries, other], context(max_results=6))) == [1, 2, 3, 4, 5, 6]


def whole(number: int, text: str = "the walrus sleeps", **more: Any) -> Candidate:
    return candidate(number, text=text, passage=Passage(0, len(text), 0, 0), **more)


def test_a_repetition_moves_down_only_if_the_settings_ask_for_diversity() -> None:
    entries = [whole(1, score=0.6), whole(2, score=0.59), whole(3, "a quagga in the garden", score=0.5)]
    assert ids(diversify_results(entries, context())) == [1, 2, 3]
    assert ids(diversify_results(entries, context(mmr_lambda=0.3))) == [1, 3, 2]


def test_a_repetition_that_holds_the_identifier_stays_above_what_does_not() -> None:
    settings = context("STL-142", weight=0.0, mmr_lambda=0.0)
    entries = find_passages([whole(1, "STL-142 fails"), whole(2, "STL-142 fails"), whole(3, "STL-7 is fine")], settings)
    scored = [entry._replace(score=0.9 - number / 10) for number, entry in enumerate(entries)]
    assert ids(diversify_results(scored, settings)) == [1, 2, 3]


# to_results, describe_doubt, explain_empty


def test_a_result_cites_the_lines_that_it_shows_and_those_that_match() -> None:
    text = "# Plan\n\nthe walrus sleeps\n# Other\nnothing"
    entry = best(find_passages([candidate(text=text, line=11)], context()))._replace(score=0.623456)
    (result,) = to_results([entry])
    assert (result.start_line, result.end_line, result.match_start_line, result.match_end_line) == (11, 15, 11, 13)
    assert (result.heading, result.score, result.snippet) == ("Plan", 0.6235, text)
    assert (result.confidence, result.speaker) == ("medium", "")
    (narrow,) = to_results([entry], max_units=17)
    assert (narrow.start_line, narrow.end_line, narrow.snippet) == (13, 13, "the walrus sleeps")


def test_the_fewer_results_there_are_the_more_is_shown_around_each_and_no_line_twice() -> None:
    text = "\n".join(f"# Section {number}\n{'x' * 90} walrus" for number in range(40))
    found = find_passages([candidate(text=text)], context(weight=0.0))
    (alone,) = to_results(found[9:10])
    many = to_results(found[::4])
    assert len(many) == 10
    assert all(len(result.snippet) < len(alone.snippet) for result in many)
    lines = [line for result in many for line in range(result.start_line, result.end_line + 1)]
    assert len(lines) == len(set(lines))


def test_a_result_of_a_transcript_cites_its_records_and_names_its_speaker() -> None:
    entry = candidate(text="user: hello\nassistant: the walrus sleeps", source="sessions", records=(7, 9))
    result = to_results([best(find_passages([entry], context(weight=0.0)))], max_units=5)[0]
    assert (result.match_start_line, result.match_end_line, result.speaker) == (9, 9, "assistant")


def test_a_match_by_the_speaker_who_is_named_is_not_doubted_for_the_speaker() -> None:
    said = candidate(score=0.1)._replace(passage=Passage(0, 1, 0, 0, speaker="Anna"), speaker=-0.1)
    other = "The query names another speaker: the best match was said by Anna."
    assert describe_doubt([said], context("did Ben see the walrus")) == other
    assert describe_doubt([said], context("did Anna see the walrus")) == ""


def test_a_weak_best_match_is_doubted_and_a_good_one_is_not() -> None:
    assert (
        describe_doubt([candidate(score=0.19)], context())
        == "Not sure: the best match is weak, and the memory may hold no answer."
    )
    assert describe_doubt([candidate(score=0.2)], context()) == "Not sure: the best match may not answer the query."
    assert describe_doubt([candidate(score=0.9), candidate(score=0.1)], context()) == ""


def test_an_empty_answer_says_that_nothing_matches_or_names_the_best_match() -> None:
    assert explain_empty([], 0.3, "walrus") == explain_empty([candidate()], 0.3, "walrus") == explain_no_match("walrus")
    low = explain_empty([candidate(score=0.254, line=7), candidate(2, score=0.1)], 0.35, "walrus")
    assert low.reason == "below_min_score"
    assert low.action == (
        "The best match, memory/a.md#L7, has a score of 0.25, below the minimum score of 0.35."
        " Lower the minimum score or try other words."
    )


@pytest.mark.parametrize(
    ("query", "begins"),
    [
        ("what does the walrus eat", "Nothing in the memory"),
        ("walrus", "Nothing in the memory"),
        ("was frisst mein Walross", "Zu diesen Wörtern"),
        ("que mange mon morse", "Rien dans la mémoire"),
        ("dónde está mi morsa", "Nada en la memoria"),
        ("海象吃什么", "记忆里没有"),
        ("セイウチは何を食べる", "記憶にこの言葉"),
        ("바다코끼리는 무엇을 먹나요", "기억에 이 낱말"),
    ],
)
def test_a_hint_is_in_the_language_of_the_query(query: str, begins: str) -> None:
    assert explain_no_match(query).action.startswith(begins)
    doubt = describe_doubt([candidate(score=0.1)], context()._replace(text=query))
    assert doubt.isascii() == (begins[:7] == "Nothing")


def test_a_note_in_another_script_is_judged_by_its_likeness_alone() -> None:
    chinese = candidate(text="小猫对鸡肉过敏", strength=0.0, similarity=similar(0.9), cosines=(0.9,), translated=0.0)
    english = candidate(2, text="nothing of it", strength=0.0, similarity=similar(0.9), cosines=(0.9,))
    other, same = score_candidates(find_passages([chinese, english], context(weight=0.35)), context(weight=0.35))
    assert (other.chunk.id, same.chunk.id) == (1, 2)
    assert other.score == pytest.approx(probabilities([wordless_worth(0.9)])[0], abs=0.02)
    assert other.score > same.score


def test_a_note_in_another_script_gains_by_translated_words_and_loses_nothing_by_a_shared_one() -> None:
    def score(translated: float, strength: float = 0.0, trust: float = 1.0) -> float:
        note = candidate(
            text="小猫对鸡肉过敏", strength=strength, similarity=similar(0.5), cosines=(0.5,), translated=translated
        )
        query = context(weight=0.35)
        query = query._replace(query=query.query._replace(trust=trust))
        return score_candidates(find_passages([note], query), query)[0].score

    assert score(0.0) < score(0.3) < score(0.9)
    assert score(0.3, strength=0.1) >= score(0.3)
    assert score(0.9, trust=0.5) < score(0.9)


def test_a_first_result_gains_by_its_lead_as_far_as_it_holds_the_question_in_any_language() -> None:
    def lead(translated: float) -> float:
        notes = [
            candidate(text="小猫对鸡肉过敏", strength=0.0, similarity=similar(0.9), translated=translated),
            candidate(2, text="他们坐火车去", strength=0.0, similarity=similar(0.1), translated=0.0),
        ]
        found = context(weight=0.35)
        return trust_leader(score_candidates(find_passages(notes, found), found), found)[0].lead

    assert lead(0.0) == 0 < lead(0.2) < lead(0.6)


def test_a_lead_needs_less_of_the_question_in_a_script_without_spaces() -> None:
    def lead(*, is_unspaced: bool) -> float:
        asked = context("walrus quagga zebra lemur gecko tapir", weight=0.0)
        asked = asked._replace(query=asked.query._replace(is_unspaced=is_unspaced))
        (first,) = find_passages([candidate(text="the walrus and the zebra")], asked)
        return trust_leader([first._replace(score=0.6), candidate(2, score=0.1)], asked)[0].lead

    assert lead(is_unspaced=True) == pytest.approx(0.75 * 0.5 * 0.4)
    assert lead(is_unspaced=False) == pytest.approx(0.75 * 0.5 * 0.4 * 2 / 3)


def test_a_note_of_the_time_that_is_asked_for_gains_worth_and_tells_it() -> None:
    today = date(2026, 3, 12).toordinal()
    asked = context("lunch yesterday")._replace(times=read_times("lunch yesterday", today))
    on_the_day = candidate(1, path="memory/2026-03-11.md", worth=0.5)
    on_another = candidate(2, path="memory/2026-03-01.md", worth=0.5)
    gained, same = prefer_times([on_the_day, on_another], asked)
    assert gained.time > 0
    assert gained.worth == 0.5 + gained.time
    assert same == on_another
    assert prefer_times([on_the_day], context("lunch")) == [on_the_day]


@pytest.mark.parametrize(("number", "is_code"), [("12345", True), ("1234", False)])
def test_a_long_number_identifies_something(number: str, is_code: bool) -> None:
    query = f"ticket {number}"
    assert bool(read_naming(query, parse_query(query)).identifiers) is is_code


# All stages


@pytest.fixture(scope="module")
def recorded() -> Any:
    return json.loads((Path(__file__).parents[1] / "record" / "golden" / "ranking.json").read_text())


@pytest.mark.parametrize(("query", "options"), QUERIES)
def test_the_numbers_stay_the_same(query: str, options: dict[str, Any], recorded: dict[str, list[str]]) -> None:
    """If they change on purpose, compare the quality of answers before and after, then record them again."""
    assert list(show_answer(rank_chunks(query, options))) == recorded[name_query(query, options)]
