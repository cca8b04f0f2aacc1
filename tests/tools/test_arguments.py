"""Arguments as models pass them."""

import math

import pytest

from mdrecall.errors import ArgumentError
from mdrecall.tools.toolset import parse_object, read_choice, read_flag, read_integer, read_number, read_text


@pytest.mark.parametrize("arguments", [None, " \n", b"", "{}"])
def test_no_arguments_are_an_empty_object(arguments: object) -> None:
    assert parse_object(arguments) == {}


def test_an_object_may_come_as_its_json() -> None:
    assert parse_object('{"query": "x"}') == parse_object(b' {"query": "x"}') == parse_object({"query": "x"})


@pytest.mark.parametrize("arguments", ["[]", "{", 7, ["query"], "null"])
def test_anything_else_is_no_object(arguments: object) -> None:
    with pytest.raises(ArgumentError) as raised:
        parse_object(arguments)
    assert "query" in raised.value.hint


def test_a_name_may_be_in_snake_case() -> None:
    assert read_number({"max_results": 3}, "maxResults") == 3
    assert read_number({"maxResults": 2, "max_results": 3}, "maxResults") == 2


@pytest.mark.parametrize(("value", "text"), [(None, ""), (" a ", "a"), (7, "7"), (1.5, "1.5")])
def test_a_text_is_trimmed_and_may_be_a_number(value: object, text: str) -> None:
    assert read_text({"query": value}, "query") == text
    assert read_text({"query": " a "}, "query", trim=False) == " a "


@pytest.mark.parametrize("value", [True, ["a"], {"a": 1}])
def test_a_text_of_another_kind_is_refused(value: object) -> None:
    with pytest.raises(ArgumentError, match="query must be a text, not"):
        read_text({"query": value}, "query")


def test_only_a_text_that_is_required_may_not_be_blank() -> None:
    assert read_text({"query": "  "}, "query") == ""
    with pytest.raises(ArgumentError, match="query required"):
        read_text({"query": "  "}, "query", required=True)


@pytest.mark.parametrize(("value", "number"), [(None, None), ("  ", None), (3, 3.0), (" 3.5 ", 3.5), ("-1e2", -100.0)])
def test_a_number_may_be_a_text(value: object, number: float | None) -> None:
    assert read_number({"minScore": value}, "minScore") == number


@pytest.mark.parametrize("value", [True, "three", "1" * 16, "0x10", math.nan, math.inf, 10**400, [1]])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    with pytest.raises(ArgumentError, match="minScore must be a number, not"):
        read_number({"minScore": value}, "minScore")


@pytest.mark.parametrize(("value", "number"), [(None, None), (0, 1), (1, 1), (7.9, 7), (10, 10), (1e9, 10), (-5, 1)])
def test_an_integer_is_held_between_its_bounds(value: object, number: int | None) -> None:
    assert read_integer({"lines": value}, "lines", least=1, most=10) == number


@pytest.mark.parametrize(
    ("value", "flag"), [(None, False), ("", False), (True, True), (" TRUE ", True), ("false", False)]
)
def test_a_flag_may_be_a_text(value: object, flag: bool) -> None:
    assert read_flag({"includeTools": value}, "includeTools") is flag


@pytest.mark.parametrize("value", [1, "yes", []])
def test_what_is_neither_true_nor_false_is_refused(value: object) -> None:
    with pytest.raises(ArgumentError, match="includeTools must be true or false, not"):
        read_flag({"includeTools": value}, "includeTools")


def test_a_choice_is_taken_in_any_case_and_another_word_refused() -> None:
    assert read_choice({"corpus": " ALL "}, "corpus", ("all", "memory")) == "all"
    assert read_choice({}, "corpus", ("all", "memory")) is None
    with pytest.raises(ArgumentError, match="corpus must be one of all, memory, not 'wiki'"):
        read_choice({"corpus": "wiki"}, "corpus", ("all", "memory"))


@pytest.mark.parametrize(("length", "quoted"), [(58, "'" + "x" * 58 + "'"), (59, "'" + "x" * 59 + "…")])
def test_an_error_quotes_only_the_beginning_of_a_long_value(length: int, quoted: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        read_number({"lines": "x" * length}, "lines")
    assert str(raised.value) == f"lines must be a number, not {quoted}."
