from pathlib import Path

import pytest

from mdrecall.errors import QuestionsError
from mdrecall.evaluate import Expectation, Question, parse_questions, read_questions

GOOD = '{"query": "walrus", "expect": "MEMORY.md"}'


def problems(data: bytes | str) -> tuple[str, ...]:
    with pytest.raises(QuestionsError) as caught:
        parse_questions(data, "q.jsonl")
    assert caught.value.hint
    assert str(caught.value).startswith(caught.value.problems[0])
    return caught.value.problems


def expected(text: str) -> Expectation:
    (question,) = parse_questions(f'{{"query": "q", "expect": "{text}"}}')
    (entry,) = question.expect
    return entry


def test_a_question_has_a_query_and_expectations() -> None:
    line = '{"query": "where?", "expect": ["a.md", "MEMORY.md#L3-L9"]}'
    assert parse_questions(line) == (Question("where?", (Expectation("a.md"), Expectation("MEMORY.md", (3, 9))), 1),)


def test_the_number_and_the_kind_of_a_question_are_ignored() -> None:
    line = '{"id": "q1", "category": "places", "query": "walrus", "expect": "MEMORY.md"}'
    assert parse_questions(line) == parse_questions(GOOD)


def test_blank_lines_and_comments_are_left_out_and_line_ends_may_be_windows() -> None:
    text = f"\ufeff// first\r\n\r\n  # second\r\n{GOOD}\r\n".encode()
    assert [question.line for question in parse_questions(text)] == [4]


def test_a_line_separator_inside_a_text_does_not_end_the_line() -> None:
    (question,) = parse_questions('{"query": "a\u2028b", "expect": "MEMORY.md"}')
    assert question.query == "a\u2028b"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("memory/a.md", Expectation("memory/a.md")),
        ("./memory//a.md", Expectation("memory/a.md")),
        ("a.md#L7", Expectation("a.md", (7, 7))),
        ("a.md#L3-L9", Expectation("a.md", (3, 9))),
        ("notes/c#.md", Expectation("notes/c#.md")),
        ("notes/c#.md#L2", Expectation("notes/c#.md", (2, 2))),
        ("../more/a.md", Expectation("../more/a.md")),
    ],
)
def test_an_expectation_is_a_path_with_or_without_lines(text: str, entry: Expectation) -> None:
    assert expected(text) == entry


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "this is not JSON (Expecting property name"),
        ("walrus", "this is not JSON (Expecting value"),
        ("[" * 100_000, "this is not JSON"),
        ("[1]", "the line is [1], but must be an object with query, expect"),
        ('{"expect": "a.md"}', "query is missing"),
        ('{"query": " ", "expect": "a.md"}', "query must say what to look for"),
        ('{"query": 3, "expect": "a.md"}', "query is 3, but must be a string"),
        ('{"query": "q"}', "expect is missing"),
        ('{"query": "q", "expect": ""}', "expect holds ''"),
        ('{"query": "q", "expect": [" "]}', "expect holds ''"),
        ('{"query": "q", "expect": [3]}', "expect[0] is 3"),
        ('{"query": "q", "expect": null}', "expect is null"),
        ('{"query": "q", "expects": "a.md"}', "expects is not a known key; did you mean expect?"),
        ('{"query": "q", "expect": "a.md#7"}', "expect holds 'a.md#7', but takes"),
        ('{"query": "q", "expect": "a.md#L0"}', "expect holds 'a.md#L0'"),
        ('{"query": "q", "expect": "#L9"}', "expect holds '#L9'"),
        ('{"query": "q", "expect": "a.md#heading"}', "expect holds 'a.md#heading'"),
    ],
)
def test_a_wrong_line_is_named_with_its_number_and_what_is_wrong(line: str, said: str) -> None:
    (problem,) = problems(f"{GOOD}\n{line}\n{GOOD}")
    assert problem.startswith("q.jsonl:2: ")
    assert said in problem


def test_every_wrong_line_is_named_up_to_a_limit() -> None:
    assert [problem.split(":")[1] for problem in problems("x\ny\n")] == ["1", "2"]
    many = problems("x\n" * 100)
    assert len(many) == 20


@pytest.mark.parametrize("data", [b"", b"\n\n", b"// nothing\n"])
def test_a_file_without_a_question_is_an_error(data: bytes) -> None:
    assert problems(data) == ("There is no question in q.jsonl.",)


def test_a_file_that_is_not_utf_8_is_named_with_the_line() -> None:
    assert problems(GOOD.encode() + b"\n\xff") == ("q.jsonl:2: this is not UTF-8.",)


def test_a_file_is_read_and_one_that_cannot_be_is_named(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(GOOD)
    assert len(read_questions(str(file))) == 1
    for path in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(QuestionsError, match="Cannot read the questions"):
            read_questions(str(path))


def test_a_question_that_no_note_answers_expects_nothing() -> None:
    absent, _ = parse_questions('{"query": "who is the king?", "expect": []}\n' + GOOD)
    assert absent.expect == ()
