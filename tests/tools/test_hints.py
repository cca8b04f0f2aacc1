"""What a model is told to do: something that it can do, for every reason and every class of errors."""

import re
from typing import get_args

import pytest

from mdrecall import errors
from mdrecall.errors import PathOutside, RecallError
from mdrecall.tools.toolset import (
    ADVICE_BY_ERROR,
    ADVICE_BY_REASON,
    LOW_CONFIDENCE_ADVICE,
    action_for_answer,
    action_for_error,
    advice_for,
    message_with_action,
)
from mdrecall.types.search import Reason, SearchAnswer, SearchResult

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, RecallError)]
NOT_FOR_MODELS = re.compile(r"--\w|`|\bmdrecall \w|\bpip\b|\(\)|openclaw")


def test_every_reason_has_an_entry() -> None:
    assert set(ADVICE_BY_REASON) == set(get_args(Reason))


@pytest.mark.parametrize("advice", [*ADVICE_BY_REASON.values(), *ADVICE_BY_ERROR.values(), LOW_CONFIDENCE_ADVICE])
def test_no_advice_names_an_option_or_a_command(advice: str) -> None:
    assert not NOT_FOR_MODELS.search(advice)


@pytest.mark.parametrize("error_class", CLASSES)
def test_every_class_of_errors_has_an_entry_of_its_own_or_of_a_base(error_class: type[RecallError]) -> None:
    assert advice_for(error_class) or error_class is errors.ArgumentError


def test_what_is_said_below_comes_first() -> None:
    answer = SearchAnswer((), reason="below_min_score", action="The closest is MEMORY.md#L3.")
    assert action_for_answer(answer).startswith("The closest is MEMORY.md#L3. Call memory_search again with a lower")
    error = PathOutside("x is not a note.", path="x", hint="Notes are in memory/.")
    assert action_for_error(error).startswith("Notes are in memory/. Call memory_search")
    assert message_with_action(error).startswith("x is not a note. Notes are in memory/. Call memory_search")


def test_an_answer_with_results_asks_for_nothing() -> None:
    assert action_for_answer(SearchAnswer(())) == ""


def test_a_weak_answer_says_to_ask_in_other_words() -> None:
    weak = SearchResult("a.md", 1, 1, 0.1, "", "memory", 1, 1, "")
    assert action_for_answer(SearchAnswer((weak,))) == LOW_CONFIDENCE_ADVICE
    assert action_for_answer(SearchAnswer((weak, weak._replace(confidence="medium")))) == ""
