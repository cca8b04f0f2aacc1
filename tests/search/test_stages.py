"""Each stage of the ranking by itself."""

from typing import Any

import pytest

from mdrecall.search.query import parse_query, read_naming
from mdrecall.search.score import Query, ReadChunk, Similarity, Weighted, weigh
from mdrecall.search.slots import describe_doubt, explain_no_match
from mdrecall.search.stages import (
    Candidate,
    RankingContext,
    RankingOptions,
    diversify_results,
    find_passages,
    prefer_speakers,
    score_candidates,
    spread_over_files,
    to_results,
)
from mdrecall.text.markdown import Passage
from mdrecall.text.words import Analyser
from mdrecall.types.documents import SourceName, StoredChunk, Traits
from mdrecall.types.search import Match, Mode

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


def best(candidates: list[Candidate]) -> Candidate:
    return max(candidates, key=lambda entry: entry.worth)


def test_a_chunk_that_holds_nothing_of_the_query_has_no_passage() -> None:
    assert find_passages([candidate(text="a quagga", strength=0.0)], context()) == []


# prefer_speakers

TALK = "Anna: the walrus sleeps\nBen: the walrus sleeps\nAnna: hello\nBen: hello"


def test_a_query_that_names_a_speaker_prefers_their_words() -> None:
    settings = context("did Ben see a walrus", weight=0.0)
    found = prefer_speakers(find_passages([candidate(text=TALK)], settings), settings)
    assert best(found).passage.speaker == "Ben"
    assert [entry.speaker < 0 for entry in found] == [True, False, True, False]


def test_if_only_others_say_it_everything_becomes_less_likely_and_the_answer_says_so() -> None:
    talk = "Anna: the walrus sleeps\nBen: what a day\nAnna: hello there\nBen: hello"
    settings = context("did Ben see the walrus sleep", weight=0.0)
    before = find_passages([candidate(text=talk)], settings)
    after = prefer_speakers(before, settings)
    assert all(entry.worth < was.worth for was, entry in zip(before, after, strict=True))
    scored = score_candidates(after, settings)
    assert describe_doubt(scored, settings) == "The query names another speaker: the best match was said by Anna."


# read_naming


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


# spread_over_files, diversify_results


def test_many_passages_of_a_file_give_way_to_what_another_says() -> None:
    entries = [candidate(number, score=0.9 - number / 100) for number in range(1, 6)]
    other = candidate(6, path="memory/b.md", score=0.8)
    assert ids(spread_over_files([*entries, other], context(max_results=4))) == [1, 2, 3, 6, 4, 5]
    assert ids(spread_over_files([*entries, other], context(max_results=6))) == [1, 2, 3, 4, 5, 6]


def whole(number: int, text: str = "the walrus sleeps", **more: Any) -> Candidate:
    return candidate(number, text=text, passage=Passage(0, len(text), 0, 0), **more)


def test_a_repetition_that_holds_the_identifier_stays_above_what_does_not() -> None:
    settings = context("STL-142", weight=0.0, mmr_lambda=0.0)
    entries = find_passages([whole(1, "STL-142 fails"), whole(2, "STL-142 fails"), whole(3, "STL-7 is fine")], settings)
    scored = [entry._replace(score=0.9 - number / 10) for number, entry in enumerate(entries)]
    assert ids(diversify_results(scored, settings)) == [1, 2, 3]


# to_results, describe_doubt, explain_empty


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


@pytest.mark.parametrize(("number", "is_code"), [("12345", True), ("1234", False)])
def test_a_long_number_identifies_something(number: str, is_code: bool) -> None:
    query = f"ticket {number}"
    assert bool(read_naming(query, parse_query(query)).identifiers) is is_code
