"""What the times of a query mean for notes, on Thursday 12 March 2026."""

from datetime import date

import pytest

from mdrecall.core.ranking.recency import is_only_time, nearest_days, newest_factors, time_bonus
from mdrecall.core.ranking.times import read_times

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
