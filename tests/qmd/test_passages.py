"""Passages of documents that qmd has named."""

from mdrecall.core.ranking.snippet import heading_above
from mdrecall.core.ranking.stages import Candidate
from mdrecall.core.text.words import Analyser
from mdrecall.qmd.passages import ChunkSizes, QmdDocument, locate, locate_line

BILLING = "# Plans\n\n## Billing\n\nMet with Ana about the billing migration.\nWe agreed to postpone it.\n"
GARDEN = "# Garden\n\nThe tomatoes need water. Ana likes them.\n"
LONG = "# Log\n\n" + "\n\n".join(f"## Day {day}\n\nNothing but rain, {'and more rain ' * 15}." for day in range(60))
SIZES = ChunkSizes(400, 80)


def find(query: str, *texts: str, total: int = 100) -> list[tuple[int, Candidate]]:
    documents = [QmdDocument(f"memory/{number}.md", "memory", text) for number, text in enumerate(texts)]
    return locate(documents, query, total=total, sizes=SIZES, analyser=Analyser(), explain=False)


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


def test_a_word_that_is_nowhere_whole_is_taken_for_a_beginning() -> None:
    assert find("postgre", "We moved to PostgreSQL.", GARDEN)[0][0] == 0


def test_the_name_of_a_file_counts() -> None:
    documents = [
        QmdDocument("memory/people/tomasz.md", "memory", "Likes tea."),
        QmdDocument("memory/x.md", "memory", "Likes coffee."),
    ]
    best = locate(documents, "tomasz", total=9, sizes=SIZES, analyser=Analyser(), explain=False)
    assert [document for document, _ in best] == [0]


def test_documents_without_a_word_of_the_question_are_left_out() -> None:
    assert find("helicopter", BILLING, GARDEN) == []
    assert find("helicopter") == []
    assert find("x", "", " \n") == []


def test_unspaced_scripts_are_found() -> None:
    assert find("网关推迟", "支付网关迁移推迟到三月。", GARDEN)[0][0] == 0


def test_on_request_every_passage_is_explained() -> None:
    documents = [QmdDocument("memory/a.md", "memory", BILLING)]
    ((_, best),) = locate(documents, "billing zebra", total=9, sizes=SIZES, analyser=Analyser(), explain=True)
    assert best.why
    assert [(term, in_passage) for term, _, _, in_passage in best.why.terms] == [("billing", True), ("zebra", False)]


def test_a_line_that_was_named_is_in_the_passage_with_qmds_score() -> None:
    best = locate_line(QmdDocument("memory/log.md", "memory", LONG), 43, 0.625, sizes=SIZES)
    assert best is not None
    assert best.chunk.line(best.passage.first_line) <= 43 <= best.chunk.line(best.passage.last_line)
    assert LONG.split("\n")[42] in shown(best)
    assert best.score == 0.625


def test_a_line_beyond_the_end_is_in_the_last_chunk_and_an_empty_document_has_none() -> None:
    best = locate_line(QmdDocument("memory/a.md", "memory", BILLING), 999, 0.5, sizes=SIZES)
    assert best is not None
    assert best.chunk.end_line >= 6
    assert locate_line(QmdDocument("memory/a.md", "memory", "\n\n"), 1, 0.5, sizes=SIZES) is None
