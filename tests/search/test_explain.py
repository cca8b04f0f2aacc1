"""Explanations: what a worth consists of, in numbers and in words."""

import math
from typing import Any

import pytest

from mdrecall.search.query import find_matches, find_stems
from mdrecall.search.results import describe_parts, explain_results, run_stages
from mdrecall.search.stages import Candidate, RankingContext, Stage, find_passages, score_candidates
from tests.conftest import values_of
from tests.search.test_stages import candidate, context, similar


def run(candidates: list[Candidate], settings: RankingContext, *stages: Stage) -> list[Candidate]:
    found = run_stages((*stages, explain_results), candidates, settings)
    assert isinstance(found, list)
    return found


def explain(entry: Candidate, settings: RankingContext, *stages: Stage) -> dict[str, Any]:
    return values_of(run([entry], settings, find_passages, *stages)[0])


def test_without_explain_nothing_is_attached() -> None:
    (entry,) = run([candidate()], context(), find_passages, score_candidates)
    assert entry.why == ()


@pytest.mark.parametrize(
    ("query", "entry"),
    [
        ("walrus zebra", candidate(text="# One\na walrus\n# Two\na zebra", similarity=similar(0.4), cosines=(0.5, 0))),
        ("walrus", candidate()),
        ("what does STL-142 say?", candidate(text="STL-142 fails")),
        ("walrus tea", candidate(text="User: the walrus likes tea\n\nAssistant: I see")),
        ("你好 walrus 图书馆见面", candidate(text="the walrus", similarity=similar(0.9), translated=0.5)),
        ("walrus", candidate(strength=0.0, similarity=similar(0.7))),
    ],
)  # fmt: skip
def test_the_parts_of_a_worth_add_up_to_it(query: str, entry: Candidate) -> None:
    settings = context(query, explain=True, weight=0.35)
    found = run([entry], settings, find_passages, score_candidates)
    assert found
    for one in found:
        why = values_of(one)
        assert sum(why["parts"].values()) == pytest.approx(one.worth, abs=1e-3)
        assert why["worth"] == pytest.approx(one.worth, abs=1e-4)


def test_by_vectors_only_the_likeness_is_the_whole_worth_and_nothing_is_taken_off() -> None:
    why = explain(candidate(similarity=similar(0.6), cosines=(0.8,)), context(explain=True, mode="vector"))
    assert why["parts"] == {"likeness": 0.72}
    assert why["cost"] == 0


def test_the_words_of_the_user_are_a_part_of_their_own() -> None:
    settings = context("walrus", explain=True, weight=0.0)
    of_user, of_other = (
        explain(candidate(text=f"{name}: the walrus\n\n{name}: yes"), settings)["parts"] for name in ("User", "Eva")
    )
    assert of_user["user"] == pytest.approx(0.1 * sum(of_other.values()), abs=1e-3)
    assert "user" not in of_other


def test_a_text_in_another_script_is_worth_what_its_likeness_and_its_translated_words_are() -> None:
    why = explain(
        candidate(text="图书馆", strength=0.0, similarity=similar(0.9), translated=1.0), context(explain=True)
    )
    assert list(why["parts"]) == ["translation"]
    assert (why["cost"], why["translated"]) == (0, 1)


#: An explanation in which nothing has counted.
NEUTRAL = {
    "terms": [], "words": 0.0, "coverage": 0.0, "neighbours": 0.0, "title": 0.0, "vectorWeight": 0.35,
    "identified": 0.0, "naming": 0.0, "speaker": 0.0, "time": 0.0, "recency": 1.0, "decay": 1.0, "fileFactor": 1.0,
    "trust": 0.0, "commonness": math.log1p(7), "cost": 0.0, "worth": 0.45,
    "parts": {"words": 0.53, "commonness": -0.08},
}  # fmt: skip


@pytest.mark.parametrize(
    ("values", "part", "told"),
    [
        ({"identified": 0.5}, "identified", "holds 50% of the identifiers and quoted phrases"),
        ({"naming": 0.1}, "naming", "the query names its file or heading"),
        ({"speaker": -0.2}, "speaker", "speaker -0.20: the query names somebody who speaks"),
        ({"time": 0.25}, "time", "time +0.25: its date matches the query"),
        ({"recency": 0.9}, "recency", "there is newer: 90% of its worth, because the query asks for what holds now"),
        ({"decay": 0.8}, "decay", "age reduces the score to 80%"),
        ({"translated": 0.0}, "translated", "the text around holds 0% of the query's words in another language"),
        ({"fileFactor": 0.7}, "fileFactor", "counts 70% among the results, because better ones are from the same file"),
        (
            {"cost": 0.1, "commonness": math.log1p(1)},
            "cost",
            "the query takes off 0.10: each of its words is in about 1 chunk",
        ),
        ({"cost": -0.1}, "cost", "the query adds 0.10: each of its words is in about 7 chunks"),
        ({"likeness": 0.3, "cosine": 0.25}, "likeness", "meaning 0.30 (cosine 0.25), 35% of the mix"),
    ],
)
def test_a_part_is_told_only_if_it_counted(values: dict[str, Any], part: str, told: str) -> None:
    neutral = describe_parts(NEUTRAL)
    assert list(neutral) == ["terms", "words", "worth"]
    assert describe_parts(NEUTRAL | values) == neutral | {part: told}


def test_every_number_of_words_and_meaning_is_told() -> None:
    words = [("walrus", 0.6, True, True), ("pool", 0.25, True, False), ("zebra", 0.15, False, False)]
    terms = [dict(zip(("term", "weight", "held", "inPassage"), word, strict=True)) for word in words]
    values = {"terms": terms, "words": 0.5, "coverage": 0.6, "neighbours": 0.25, "title": 0.4}
    meaning = {"likeness": 0.3, "cosine": 0.25, "passageCosine": 0.75, "cost": 0.08, "trust": 0.7}
    assert list(describe_parts(NEUTRAL | values | meaning).values()) == [
        "the passage has walrus 60%; the text around it pool 25%; missing: zebra 15%",
        "words 0.50 (passage 60% of the query, beside it 25% more, title 40% more)",
        "worth 0.45: words +0.53 commonness -0.08",
        "meaning 0.30 (cosine 0.25, passage 0.75), 35% of the mix",
        "the query takes off 0.08: each of its words is in about 7 chunks, and the embedder reads 70% of it",
    ]
    assert describe_parts(NEUTRAL | {"terms": terms[2:]})["terms"] == "the passage has none; missing: zebra 15%"


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("the library", "The libraries, a library's_door", ["libraries", "library"]),
        ("the", "The end of the day", ["The", "the"]),
        ("图书馆", "在图书馆和图书馆见面,书", ["图书馆", "图书馆"]),
        ("馆", "图书馆见", ["馆"]),
        ("library", "", []),
        ("", "library", []),
    ],
)
def test_the_words_of_a_query_are_found_in_a_text(query: str, text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in find_matches(text, find_stems(query))] == found
