"""Passages of documents that an engine has named."""

from mdrecall.core.ranking.snippet import heading_above
from mdrecall.core.text.words import Analyser
from mdrecall.qmd.results import LocatedPassage, locate, locate_line

BILLING = "# Plans\n\n## Billing\n\nMet with Ana about the billing migration.\nWe agreed to postpone it.\n"
GARDEN = "# Garden\n\nThe tomatoes need water. Ana likes them.\n"
LONG = "# Log\n\n" + "\n\n".join(f"## Day {day}\n\nNothing but rain, {'and more rain ' * 40}." for day in range(30))


def found(query: str, *texts: str, total: int = 100) -> list[LocatedPassage]:
    documents = [(f"memory/{number}.md", text) for number, text in enumerate(texts)]
    return locate(documents, query, total=total, tokens=400, overlap=80, analyser=Analyser())


def test_the_document_that_holds_most_of_the_question_comes_first() -> None:
    best, other = found("what did Ana say about the billing migration?", GARDEN, BILLING)
    assert (best.document, other.document) == (1, 0)
    assert best.complete
    assert best.score > other.score > 0


def test_the_passage_is_where_the_words_are() -> None:
    best = found("billing migration", BILLING)[0]
    assert best.chunk.text.split("\n")[best.passage.first_line].startswith("Met with Ana")
    assert heading_above(best.chunk.trail, best.chunk.text, best.passage) == "Plans › Billing"


def test_a_long_document_gives_the_chunk_that_answers() -> None:
    best = found("tomatoes", LONG + "\n\n## Last\n\nThe tomatoes are ripe.\n")[0]
    assert "tomatoes are ripe" in best.chunk.text
    assert best.chunk.start_line > 50


def test_identifiers_are_found_whole_and_by_their_parts() -> None:
    whole, parts = found("DEC-0054", "Decision DEC-0054 was taken.", "See dec 0054.")
    assert "DEC-0054" in whole.chunk.text
    assert "dec 0054" in parts.chunk.text


def test_a_word_that_is_nowhere_whole_is_taken_for_a_beginning() -> None:
    assert found("postgre", "We moved to PostgreSQL.", GARDEN)[0].document == 0


def test_the_name_of_a_file_counts() -> None:
    documents = [("memory/people/tomasz.md", "Likes tea."), ("memory/x.md", "Likes coffee.")]
    best = locate(documents, "tomasz", total=9, tokens=400, overlap=80, analyser=Analyser())
    assert [passage.document for passage in best] == [0]


def test_documents_without_a_word_of_the_question_are_left_out() -> None:
    assert found("helicopter", BILLING, GARDEN) == []
    assert found("helicopter") == []
    assert found("x", "", " \n") == []


def test_unspaced_scripts_are_found() -> None:
    assert found("网关推迟", "支付网关迁移推迟到三月。", GARDEN)[0].document == 0


def test_a_line_that_was_named_is_shown_in_its_chunk() -> None:
    agent_home = locate_line(LONG, 43, tokens=400, overlap=80)
    assert agent_home is not None
    chunk, passage = agent_home
    assert chunk.start_line + passage.first_line == 43
    assert chunk.text[passage.start : passage.end] == LONG.split("\n")[42]


def test_a_line_beyond_the_end_is_in_the_last_chunk_and_an_empty_document_has_none() -> None:
    agent_home = locate_line(BILLING, 999, tokens=400, overlap=80)
    assert agent_home is not None
    assert agent_home[0].end_line >= 6
    assert locate_line("\n\n", 1, tokens=400, overlap=80) is None
