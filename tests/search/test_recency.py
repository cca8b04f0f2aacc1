"""What the times of a query mean for notes, on Thursday 12 March 2026."""

from datetime import date

import pytest

from mdrecall.errors import QueryError
from mdrecall.search.query import DayLimits, explain_filter, parse_query, read_limits, read_times
from mdrecall.search.recency import (
    is_only_time,
    nearest_days,
    newest_factors,
    prefer_newest,
    quiet_time_words,
    time_bonus,
)
from tests.search.test_stages import candidate, context, ids

TODAY = date(2026, 3, 12).toordinal()


def day(text: str) -> int:
    return date.fromisoformat(text).toordinal()


@pytest.mark.parametrize(
    "query",
    [
        "yesterday",
        "What happened yesterday?",
        "what did we do last week",
        "what did I work on last Tuesday?",
        "show me my notes from March 3",
        "2026-03-03",
        "notes of last month",
        "what's new this week",
        "was haben wir gestern gemacht?",
        "was ist letzte Woche passiert",
        "qu'avons-nous fait hier ?",
        "¿qué hicimos ayer?",
        "Was war vorgestern?",
        "Was habe ich letzten Mittwoch notiert?",
        "Qu'est-ce que j'ai fait hier ?",
        "Qu'ai-je noté mercredi dernier ?",
        "¿Qué anoté el miércoles pasado?",
        "昨天发生了什么？",
        "我们上周做了什么",
        "昨日何をしましたか",
        "先週の出来事",
        "어제 뭐 했어?",
        "지난주에 무슨 일이 있었나",
    ],
)
def test_a_query_may_ask_for_a_time_only(query: str) -> None:
    assert is_only_time(query, read_times(query, TODAY))


@pytest.mark.parametrize(
    "query",
    [
        "what happened",
        "what did Ana say yesterday",
        "the pricing decision of last week",
        "DEC-0054 yesterday",
        "gestern Rechnung",
        "the war in November",
        "昨天的会议",
        "昨日の会議",
        "어제 회의",
    ],
)
def test_with_another_word_a_query_asks_for_more_than_a_time(query: str) -> None:
    assert not is_only_time(query, read_times(query, TODAY))


@pytest.mark.parametrize(
    ("query", "note", "bonus"),
    [
        ("lunch yesterday", "2026-03-11", 0.2),
        ("lunch yesterday", "2026-03-10", 0.0),
        ("lunch last week", "2026-03-04", 0.1),
        ("lunch in June", "2025-06-30", 0.12),
        ("lunch in June", "2025-07-14", 0.12),
        ("lunch in June", "2025-07-15", 0.0),
        ("lunch in June", "2025-05-31", 0.0),
        ("lunch on 2026-03-03", "2026-03-03", 0.0),
        ("lunch on March 3", "2026-03-03", 0.0),
        ("3月3日的午饭", "2026-03-03", 0.1),
    ],
)
def test_a_note_of_the_time_gains_a_little(query: str, note: str, bonus: float) -> None:
    assert time_bonus(read_times(query, TODAY), day(note)) == bonus


def test_a_note_without_a_date_gains_nothing() -> None:
    assert time_bonus(read_times("lunch yesterday", TODAY), None) == 0.0


def test_of_near_equals_the_newest_and_those_without_a_date_keep_their_worth() -> None:
    assert newest_factors([3, 1, None, 2]) == pytest.approx([1.0, 1 / 1.35, 1.0, 1.175 / 1.35])
    assert newest_factors([5]) == newest_factors([None]) == [1.0]
    assert newest_factors([5, 5]) == [1.0, 1.0]


def test_without_a_note_of_the_time_the_nearest_earlier_day_counts() -> None:
    times = read_times("yesterday", TODAY)
    assert nearest_days([day("2026-03-11"), day("2026-03-10"), day("2026-03-12")], times) == {day("2026-03-11")}
    assert nearest_days([day("2026-03-10"), day("2026-03-08"), day("2026-03-12")], times) == {day("2026-03-10")}
    assert nearest_days([day("2026-03-07")], times) == set()


def test_of_several_times_the_nearest_day_is_before_the_earliest() -> None:
    times = read_times("2026-03-05 or 2026-03-10", TODAY)
    assert nearest_days([day("2026-03-04"), day("2026-03-08")], times) == {day("2026-03-04")}
    assert nearest_days([day("2026-03-02"), day("2026-03-01")], times) == {day("2026-03-02")}
    assert nearest_days([day("2026-03-01")], times) == set()


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("2026-03-01", None, ("2026-03-01", None)),
        (None, "last week", (None, "2026-03-08")),
        ("last week", "yesterday", ("2026-03-02", "2026-03-11")),
        (date(2026, 3, 1), date(2026, 3, 1), ("2026-03-01", "2026-03-01")),
    ],
)
def test_a_request_may_be_limited_to_days(
    since: str | date | None, until: str | date | None, expected: tuple[str | None, str | None]
) -> None:
    first, last = (None if limit is None else day(limit) for limit in expected)
    assert read_limits(since, until, TODAY) == DayLimits(first, last)


def test_limits_that_no_day_is_within_are_refused() -> None:
    assert read_limits(None, None, TODAY) is None
    with pytest.raises(QueryError, match="No day is since 2026-03-02 and until 2026-03-01") as refused:
        read_limits("2026-03-02", "2026-03-01", TODAY)
    assert refused.value.name == "until"
    with pytest.raises(QueryError, match=r"since: 'soonx{76}' is not a date") as unknown:
        read_limits("soon" + "x" * 90, None, TODAY)
    assert unknown.value.name == "since"
    with pytest.raises(QueryError, match="until: 'soon' is not a date"):
        read_limits(None, "soon", TODAY)


def test_both_limits_are_within_them_and_an_empty_answer_names_them() -> None:
    limits = DayLimits(10, 12)
    assert [limits.has(number) for number in (9, 10, 12, 13)] == [False, True, True, False]
    assert DayLimits(10).has(99)
    assert not DayLimits(None, 12).has(13)
    said = [explain_filter(None, DayLimits(*pair)).action for pair in ((1, 2), (1, None), (None, 2))]
    assert said == [
        "There is no note since 0001-01-01 until 0001-01-02. Choose other days.",
        "There is no note since 0001-01-01. Choose other days.",
        "There is no note until 0001-01-02. Choose other days.",
    ]


@pytest.mark.parametrize(
    ("query", "quiet"),
    [
        ("lunch last Tuesday", "last tuesday"),
        ("current address", "current"),
        ("lunch on March 3", ""),
        ("latest lunch on March 3", "latest"),
        ("the week report of last week", "last"),
        ("lunch", ""),
    ],
)
def test_words_for_relative_times_and_cues_are_not_looked_for(query: str, quiet: str) -> None:
    before = parse_query(query)
    after = quiet_time_words(before, query, read_times(query, TODAY))
    changed = [new.surface for old, new in zip(before, after, strict=True) if new.stop and not old.stop]
    assert changed == quiet.split()


def test_the_larger_gain_of_several_times_counts() -> None:
    assert time_bonus(read_times("lunch last week or yesterday", TODAY), day("2026-03-11")) == 0.2
    assert time_bonus(read_times("lunch this week or yesterday", TODAY), day("2026-03-11")) == 0.2


def test_the_newest_of_near_equals_comes_first_and_others_keep_their_places() -> None:
    asked = context("current walrus")._replace(times=read_times("current walrus", TODAY))
    paths = [f"memory/2026-01-0{number}.md" for number in range(1, 9)]
    worths = (1.0, 0.9, 0.6, 0.59, 0.8, 0.7, 0.95, 0.94)
    entries = [
        candidate(number, path=path, worth=worth, score=worth)
        for number, (path, worth) in enumerate(zip(paths, worths, strict=True), 1)
    ]
    ranked = prefer_newest(entries, asked)
    # The fourth is not nearly as good as the best, and the last two are after the first six.
    assert (ids(ranked)[3], ids(ranked)[6:]) == (4, [7, 8])
    by_number = {entry.chunk.id: entry for entry in ranked}
    factors = {number: round(entry.recency, 3) for number, entry in by_number.items()}
    assert factors == {1: 0.741, 2: 0.806, 3: 0.87, 4: 1.0, 5: 0.935, 6: 1.0, 7: 1.0, 8: 1.0}
    assert by_number[1].worth == pytest.approx(1 / 1.35)
    assert ids(prefer_newest(entries, asked._replace(times=read_times("walrus", TODAY)))) == list(range(1, 9))
    assert prefer_newest(entries[:1], asked) == entries[:1]
