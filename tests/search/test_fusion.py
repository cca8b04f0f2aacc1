"""Several queries as one search."""

from typing import Any

import pytest

from mdrecall.errors import QueryError
from mdrecall.search.query import MAX_QUERIES, split_questions
from mdrecall.search.results import fuse_answers, list_queries
from mdrecall.types.documents import Issue
from mdrecall.types.search import SearchAnswer, SearchResult


def found(path: str, score: float, lines: tuple[int, int] = (1, 2), **more: Any) -> SearchResult:
    return SearchResult(path, lines[0], lines[1], score, f"of {path}", "memory", lines[0], lines[1], "", **more)


def test_other_lines_of_the_same_file_are_another_passage() -> None:
    answers = [SearchAnswer((found("a.md", 0.4, (1, 2)),)), SearchAnswer((found("a.md", 0.6, (3, 4)),))]
    assert [entry.start_line for entry in fuse_answers(["one", "two"], answers, 6)] == [3, 1]


def test_the_same_lines_of_a_transcript_and_a_note_are_two_passages() -> None:
    session = found("a.md", 0.6)._replace(source="sessions")
    assert len(fuse_answers(["one", "two"], [SearchAnswer((found("a.md", 0.4),)), SearchAnswer((session,))], 6)) == 2


def test_as_many_are_returned_as_were_asked_for() -> None:
    answers = [SearchAnswer(tuple(found(f"{name}{place}.md", 0.5) for place in range(4))) for name in "ab"]
    assert len(fuse_answers(["one", "two"], answers, 3)) == 3


def test_equal_scores_stay_in_the_order_of_the_queries() -> None:
    answers = [SearchAnswer((found("b.md", 0.5),)), SearchAnswer((found("a.md", 0.5),))]
    assert [entry.path for entry in fuse_answers(["one", "two"], answers, 6)] == ["b.md", "a.md"]


def test_an_answer_with_results_has_no_reason() -> None:
    empty = SearchAnswer((), reason="no_match", action="Try other words.")
    fused = fuse_answers(["one", "two"], [empty, SearchAnswer((found("a.md", 0.4),), mode="hybrid")], 6)
    assert (fused.reason, fused.action, fused.mode, len(fused)) == ("", "", "hybrid", 1)
    assert fuse_answers(["one", "two"], [empty, empty], 6) == empty


def test_what_went_wrong_in_any_of_them_is_told_once() -> None:
    issue = Issue("memory/x.md", "cannot be read")
    one = SearchAnswer((found("a.md", 0.4),), issues=(issue,))
    two = SearchAnswer(
        (), reason="no_match", degraded="no vectors", stale="2 files", not_reranked="down", issues=(issue,)
    )
    fused = fuse_answers(["one", "two"], [one, two], 6)
    assert (fused.degraded, fused.stale, fused.not_reranked, fused.issues) == (
        "no vectors",
        "2 files",
        "down",
        (issue,),
    )


def test_the_caution_is_that_of_the_best_answer() -> None:
    weak = SearchAnswer((found("a.md", 0.2),), caution="Probably not in memory.")
    sure = SearchAnswer((found("b.md", 0.9),))
    assert fuse_answers(["one", "two"], [weak, sure], 6).caution == ""
    assert fuse_answers(["one", "two"], [weak, weak], 6).caution == "Probably not in memory."
    # The best result of an answer says how sure it is, not its last one.
    long = SearchAnswer((found("b.md", 0.9), found("c.md", 0.1)))
    nothing = SearchAnswer((), caution="Nothing was found.")
    assert fuse_answers(["one", "two"], [weak, long], 6).caution == ""
    assert fuse_answers(["one", "two"], [nothing, weak], 6).caution == "Probably not in memory."


def test_the_same_query_is_asked_once() -> None:
    assert list_queries(" tea ", ["coffee", "tea", "coffee "]) == ["tea", "coffee"]


@pytest.mark.parametrize("more", [[""], ["  "], ["tea", ""], [None], [3], "tea"])
def test_what_is_no_query_is_refused(more: Any) -> None:
    with pytest.raises(QueryError):
        list_queries("tea", more)


def test_too_many_queries_are_refused() -> None:
    assert len(list_queries("0", [str(number) for number in range(1, MAX_QUERIES)])) == MAX_QUERIES
    with pytest.raises(QueryError, match="There are 6 queries"):
        list_queries("0", [str(number) for number in range(1, MAX_QUERIES + 1)])


@pytest.mark.parametrize(
    ("message", "questions"),
    [
        ("Where does Ana live? When was the flat painted?", ["Where does Ana live?", "When was the flat painted?"]),
        ("What does the flat cost? Since when?", ["What does the flat cost? Since when?"]),
        ("1. Who is Ana?\n2. Who is Bruno?", ["Who is Ana?", "Who is Bruno?"]),
        ("安娜住在哪里？房租是多少？", ["安娜住在哪里？", "房租是多少？"]),
        ("I am going to Rome. Which hotel was it? What did it cost?", None),
        ("Is it a? b?c", None),
        ("What??", None),
        ("?", None),
    ],
)
def test_a_message_of_several_questions_is_split(message: str, questions: list[str] | None) -> None:
    assert split_questions(message) == (questions or [message])


def test_the_last_of_many_questions_are_asked_as_one() -> None:
    split = split_questions(" ".join(f"Where is town{number}?" for number in range(9)))
    assert len(split) == MAX_QUERIES
    assert split[-1].endswith("Where is town7? Where is town8?")


def test_the_best_result_of_each_question_comes_first() -> None:
    one = SearchAnswer((found("a.md", 0.9), found("b.md", 0.8)))
    two = SearchAnswer((found("c.md", 0.3),), caution="Probably not in memory.")
    fused = fuse_answers(["One?", "Two?"], [one, two], 6, in_turns=True)
    assert [entry.path for entry in fused] == ["a.md", "c.md", "b.md"]
    assert fused.caution == "Two? Probably not in memory."
