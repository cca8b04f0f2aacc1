"""Times in queries, read from Thursday 12 March 2026."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.search.query import HINTS, MAX_CHARS, QueryTimes, read_range, read_times
from mdrecall.text import time_reader
from mdrecall.text.days import format_day, unit_range
from mdrecall.text.time_reader import LANGUAGES

TODAY = date(2026, 3, 12).toordinal()


def read(query: str) -> list[str]:
    """Return the ranges of a query as text; a range of one day as that day."""
    return [
        format_day(found.first) + ("" if found.first == found.last else f"..{format_day(found.last)}")
        for found in read_times(query, TODAY).ranges
    ]


def test_a_pasted_text_has_no_times() -> None:
    assert read_times("yesterday " * MAX_CHARS, TODAY) == QueryTimes()


@pytest.mark.parametrize("text", ["", "soon", "2026-02-30", "notes of last week", "last week maybe", "12"])
def test_a_limit_that_is_no_time_is_refused(text: str) -> None:
    assert read_range(text, TODAY) is None


@given(st.dates(date(1900, 1, 1), date(2200, 1, 1)), st.integers(-40, 3))
def test_months_and_weeks_follow_each_other_without_gaps(day: date, offset: int) -> None:
    for unit in ("week", "month", "year"):
        found, after = unit_range(day.toordinal(), unit, offset), unit_range(day.toordinal(), unit, offset + 1)
        assert found is not None
        assert after is not None
        assert date.fromordinal(found.last) + timedelta(days=1) == date.fromordinal(after.first)


@given(st.text(alphabet="昨天上周三月日年前3 地lastweek2026-./여제monday\"'in", max_size=60), st.integers(1, 3_000_000))
def test_any_text_can_be_read_on_any_day(query: str, today: int) -> None:
    times = read_times(query, today)
    assert all(0 <= start < end <= len(query) for start, end in times.spans)
    assert all(found.first <= found.last for found in times.ranges)


def test_the_words_that_a_query_is_recognised_by_are_those_of_the_rules() -> None:
    assert set(HINTS.split()) == frozenset().union(*map(time_reader._hints, ("en", "de", "fr", "es")))


def test_weekdays_and_months_are_those_of_the_calendar_in_every_language() -> None:
    for language in LANGUAGES.values():
        assert sorted(set(language.weekdays.values())) == list(range(7))
        assert sorted(set(language.months.values())) in ([], list(range(1, 13)))


def test_only_rules_that_can_match_are_compiled() -> None:
    time_reader._compile.cache_clear()
    assert time_reader.find_times("what is the current plan for now?", TODAY) == ((), ())
    assert time_reader._compile.cache_info().currsize == 0


@pytest.mark.parametrize("key", ["en", "de", "fr", "es"])
def test_each_rule_has_a_word_of_the_kind_that_it_needs(key: str) -> None:
    groups = {"days": "{word}", "units": "{unit}", "weekdays": "{weekday", "months": "month"}
    for rule in LANGUAGES[key].rules:
        assert groups[time_reader._NEEDED.get(rule.kind, "months")] in rule.pattern, rule
