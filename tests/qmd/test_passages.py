"""Passages of documents that qmd has named."""

from collections.abc import Sequence
from typing import Any

import pytest

from mdrecall.config.settings import Chunking
from mdrecall.extras.qmd.passages import Located, QmdDocument, locate
from mdrecall.extras.qmd.search import Mode
from mdrecall.search.stages import Candidate, RankingOptions
from mdrecall.text.markdown import heading_above
from mdrecall.text.words import Analyser
from mdrecall.types.search import SearchRequest
from tests.conftest import values_of

BILLING = "# Plans\n\n## Billing\n\nMet with Ana about the billing migration.\nWe agreed to postpone it.\n"
GARDEN = "# Garden\n\nThe tomatoes need water. Ana likes them.\n"
LONG = "# Log\n\n" + "\n\n".join(f"## Day {day}\n\nNothing but rain, {'and more rain ' * 15}." for day in range(60))
SIZES = Chunking(tokens=400, overlap=80)


OPTIONS = RankingOptions(max_results=20, min_score=0.0, vector_weight=0.35)


def search(
    documents: Sequence[QmdDocument],
    query: str,
    *,
    options: RankingOptions = OPTIONS,
    mode: Mode = "search",
    **more: Any,
) -> Located:
    request, analyser = SearchRequest(query, **more), Analyser()
    return locate(documents, request, mode=mode, total=100, chunking=SIZES, analyser=analyser, options=options)


def find(query: str, *texts: str) -> list[tuple[int, Candidate]]:
    documents = [QmdDocument(f"memory/{number}.md", "memory", text) for number, text in enumerate(texts)]
    return list(search(documents, query).passages)


def shown(candidate: Candidate) -> str:
    return candidate.chunk.text[candidate.passage.start : candidate.passage.end]


def test_the_document_that_holds_most_of_the_question_comes_first() -> None:
    (best, first), *_, (other, last) = find("what did Ana say about the billing migration?", GARDEN, BILLING)
    assert (best, other) == (1, 0)
    assert 1 > first.score > last.score > 0


def test_the_passage_is_where_the_words_are() -> None:
    ((_, best),) = find("billing migration", BILLING)
    assert "Met with Ana" in shown(best)
    assert heading_above(best.chunk.trail, best.chunk.text, best.passage) == "Plans › Billing"


def test_a_long_document_gives_the_passage_that_answers() -> None:
    _, best = find("tomatoes", LONG + "\n\n## Last\n\nThe tomatoes are ripe.\n")[0]
    assert shown(best) == "## Last\n\nThe tomatoes are ripe."
    assert best.chunk.start_line > 50


def test_identifiers_are_found_whole_and_by_their_parts() -> None:
    (_, whole), (_, parts) = find("DEC-0054", "Decision DEC-0054 was taken.", "See dec 0054.")
    assert "DEC-0054" in shown(whole)
    assert "dec 0054" in shown(parts)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("postgre", "We moved to PostgreSQL."),  # a word that is nowhere whole is taken for a beginning
        ("网关推迟", "支付网关迁移推迟到三月。"),  # a script without spaces
    ],
)
def test_a_part_of_what_is_written_is_found(query: str, text: str) -> None:
    assert find(query, text, GARDEN)[0][0] == 0


def test_the_name_of_a_file_counts() -> None:
    documents = [
        QmdDocument("memory/people/tomasz.md", "memory", "Likes tea."),
        QmdDocument("memory/x.md", "memory", "Likes coffee."),
    ]
    assert [document for document, _ in search(documents, "tomasz").passages] == [0]


def test_documents_without_a_word_of_the_question_are_left_out() -> None:
    assert find("helicopter", BILLING, GARDEN) == []
    assert find("helicopter") == []
    assert find("x", "", " \n") == []


def test_on_request_every_passage_is_explained() -> None:
    documents = [QmdDocument("memory/a.md", "memory", BILLING)]
    ((_, best),) = search(documents, "billing zebra", explain=True).passages
    assert [(term["term"], term["inPassage"]) for term in values_of(best)["terms"]] == [
        ("billing", True),
        ("zebra", False),
    ]


def test_the_stages_are_those_of_the_builtin_index() -> None:
    """A long file gives way from its fourth result on, and what is below the minimum score is left out."""
    long = "\n\n".join(f"## Part {number}\n\nThe billing migration, {'as ever ' * 30}." for number in range(8))
    documents = [QmdDocument("memory/long.md", "memory", long), QmdDocument("memory/other.md", "memory", BILLING)]
    every = search(documents, "billing migration", options=OPTIONS._replace(max_results=5), explain=True).passages
    assert [number for number, _ in every[:5]].count(1) == 1
    assert min(values_of(entry)["fileFactor"] for _, entry in every[:5]) == pytest.approx(0.8)
    few = search(documents, "billing migration", options=OPTIONS._replace(max_per_file=2)).passages
    assert [number for number, _ in few].count(0) == 2
    none = search(documents, "billing migration zebra quagga", options=OPTIONS._replace(min_score=0.99))
    assert not none.passages
    assert none.empty.reason == "below_min_score"


def test_a_weak_answer_is_doubted() -> None:
    documents = [QmdDocument("memory/a.md", "memory", BILLING), QmdDocument("memory/b.md", "memory", GARDEN)]
    assert search(documents, "rocket submarine tram zeppelin bicycle lorry scooter water").caution.startswith(
        "Not sure: the best match is weak"
    )
    assert search(documents, "rocket tram zeppelin Ana").caution.startswith("Not sure")
    assert search(documents, "billing migration").caution == ""


def named(line: int, score: float, text: str = LONG) -> QmdDocument:
    return QmdDocument("memory/log.md", "memory", text, line=line, score=score)


@pytest.mark.parametrize("mode", ["vsearch", "query"])
def test_a_line_that_a_model_names_is_in_the_best_passage(mode: Mode) -> None:
    _, best = search([named(43, 0.9)], "zebra", mode=mode).passages[0]
    assert best.chunk.line(best.passage.first_line) <= 43 <= best.chunk.line(best.passage.last_line)
    assert LONG.split("\n")[42] in shown(best)
    _, last = search([named(999, 0.9)], "zebra", mode=mode).passages[0]
    assert last.chunk.end_line == LONG.count("\n") + 1
    assert not search([named(1, 0.9, "\n\n")], "zebra", mode=mode).passages


@pytest.mark.parametrize("mode", ["vsearch", "query"])
def test_the_score_of_a_model_is_evidence_and_no_probability(mode: Mode) -> None:
    """The first score of ``qmd query`` is 0.75 or more whatever is asked, and cosines differ from model to model."""

    def score(query: str, of_model: float) -> float:
        return search([named(5, of_model, BILLING)], query, mode=mode).passages[0][1].score

    assert score("how do I bake a cake?", 0.75) < 0.25
    assert score("how do I bake a cake?", 0.3) < score("how do I bake a cake?", 0.9)
    assert score("what about the billing migration?", 0.3) < score("what about the billing migration?", 0.9)
    assert score("how do I bake a cake?", 0.9) < score("what about the billing migration?", 0.3)
    assert score("what about the billing migration with Ana", 0.9) > 0.75


def test_other_chunks_of_a_file_that_a_model_names_are_found_by_their_words() -> None:
    text = LONG + "\n\n## Last\n\nThe tomatoes are ripe.\n"
    found = search([named(3, 0.3, text)], "tomatoes ripe", mode="vsearch").passages
    assert "tomatoes" in shown(found[0][1])
    assert any(entry.chunk.start_line <= 3 for _, entry in found)


def test_entries_of_other_projects_are_left_out_and_counted() -> None:
    text = "- billing for all\n- billing of x <!-- project: x.y/z -->\n- billing of a <!-- project: a.b/c -->\n"
    documents = [QmdDocument("MEMORY.md", "memory", text)]
    everything = search(documents, "billing")
    assert (len(everything.passages), everything.left_out) == (3, 0)
    known = search(documents, "billing", projects=["a.b/c"])
    assert [shown(candidate) for _, candidate in known.passages] == ["- billing for all", "- billing of a"]
    assert known.left_out == 1
