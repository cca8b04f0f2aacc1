"""Times in queries, read from Thursday 12 March 2026."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.search.query import HINTS, MAX_CHARS, QueryTimes, read_range, read_times, remove_spans
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


@pytest.mark.parametrize(
    ("days", "queries"),
    [
        ("2026-03-12", "today|tonight|this morning|this afternoon|this evening|heute|aujourd'hui|hoy|今天|今日|오늘"),
        ("2026-03-12", "aujourd’hui|ce matin|ce soir|cet après-midi|cette nuit|esta mañana|esta tarde|esta noche"),
        (
            "2026-03-14",
            "Samstag dieser Woche|diese Woche am Samstag|diesen Samstag|ce samedi|este sábado|이번 주 토요일",
        ),
        ("2026-03-12", "今早|今晚|今朝|今夜|きょう|今儿"),
        ("2026-03-11", "yesterday|gestern|hier|ayer|昨天|昨日|昨晚|昨夜|きのう|昨儿|어제|어젯밤|간밤"),
        ("2026-03-10", "vorgestern|avant-hier|anteayer|前天|一昨日|おととい|그저께|그제|엊그제|엊그저께"),
        ("2026-03-09", "大前天"),
        (
            "2026-03-02..2026-03-08",
            "last week|letzte Woche|la semaine dernière|la semana pasada|지난주|지난 주|저번주|저번 주",
        ),
        ("2026-03-02..2026-03-08", "上周|上週|上星期|上个星期|上個星期|上礼拜|上禮拜|上个礼拜|先週"),
        ("2026-03-09..2026-03-15", "this week|diese Woche|cette semaine|esta semana|이번주|이번 주"),
        ("2026-03-09..2026-03-15", "这周|這週|本周|本週|这个星期|這個星期|这星期|今週"),
        ("2026-02-23..2026-03-01", "the week before last|vorletzte Woche|la semana antepasada|지지난주|지지난 주"),
        ("2026-03-02..2026-03-08", "la semana pasada|la semaine dernière|letzte Woche|vorige Woche|la semana anterior"),
        ("2026-02-23..2026-03-01", "la semana antepasada|vorletzte Woche"),
        ("2026-03-09..2026-03-15", "esta semana|cette semaine|diese Woche"),
        ("2026-02-01..2026-02-28", "el mes pasado|le mois dernier|im letzten Monat"),
        ("2025-01-01..2025-12-31", "el año pasado|l'année dernière|im letzten Jahr"),
        (
            "2026-03-02",
            "Monday last week|Montag letzter Woche|lundi de la semaine dernière|el lunes de la semana pasada",
        ),
        ("2026-03-02", "上周周一|先週の月曜日|지난주 월요일"),
        ("2026-03-09", "Monday this week|on Monday|am Montag|lundi|el lunes|这周周一|今週の月曜日|이번 주 월요일"),
        ("2025-12-01..2025-12-31", "in December|im Dezember|en décembre|en diciembre|12월|12月"),
        (
            "2026-02-10..2026-03-12",
            "in the last 30 days|in den letzten 30 Tagen|les 30 derniers jours|los últimos 30 días",
        ),
        ("2026-02-23..2026-03-01", "上上周|上上週|上上个星期|先々週"),
        ("2026-03-07..2026-03-08", "last weekend|上周末|上週末|先週末|지난 주말|지난주말"),
        ("2026-03-14..2026-03-15", "this weekend|这周末|本周末|今週末|이번 주말"),
        (
            "2026-02-01..2026-02-28",
            "last month|letzten Monat|le mois dernier|el mes pasado|지난달|지난 달|저번달|저번 달",
        ),
        ("2026-02-01..2026-02-28", "上个月|上個月|上月|先月"),
        ("2026-03-01..2026-03-31", "this month|diesen Monat|ce mois-ci|este mes|이번달|이번 달|이달"),
        ("2026-03-01..2026-03-31", "这个月|這個月|本月|今月"),
        ("2026-01-01..2026-01-31", "the month before last|上上个月|上上個月|先々月|지지난달"),
        ("2025-01-01..2025-12-31", "last year|letztes Jahr|l'année dernière|el año pasado|去年|昨年|작년|지난해"),
        ("2026-01-01..2026-12-31", "this year|dieses Jahr|cette année|este año|今年|本年|올해|금년"),
        ("2024-01-01..2024-12-31", "前年|一昨年|おととし|재작년"),
        ("2026-03-11", "last night|anoche"),
        ("2026-03-10", "day before yesterday|avant hier|antier|antes de ayer"),
        ("2026-03-09", "vorvorgestern"),
        ("2024-01-01..2024-12-31", "the year before last"),
    ],
)
def test_a_time_is_the_same_in_every_language(days: str, queries: str) -> None:
    assert {query: read(query) for query in queries.split("|")} == {query: [days] for query in queries.split("|")}


@pytest.mark.parametrize(
    "query",
    [
        "may I go",
        "this may fail",
        "all 10 may fail",
        "He may 5 times",
        "May 5 people come?",
        "march to the sea",
        "march 3 miles",
        "wait a second",
        "the second of them",
        "mission to mars",
        "mayo and mustard",
        "every Monday standup",
        "next Monday",
        "los lunes",
        "jeden Montag",
        "was haben wir hier gemacht",
        "the last day of the trip",
        "memory/2026-03-03.md",
        "last-week.md",
        "notes/yesterday.md",
        "yesterday_notes",
        "monday.com",
        "@today",
        '"last week" report',
        "the song “Yesterday”",
        "`in 2024`",
        "「昨日」の歌",
        "v2026.3.3",
        "10.0.0.12",
        "DEC-0054",
        "at 5 pm",
        "feb 30",
        "2026-02-30",
        "2026-13-01",
        "call 2024 times",
        "sun and sat",
        "一日",
        "一日三次",
        "3日",
        "以前天气",
        "每周一开会",
        "下周一",
        "晚上月亮",
        "以上周期",
        "2024年前",
        "毎週月曜日",
        "오늘날",
        "매주 월요일",
        "",
    ],
)
def test_what_only_looks_like_a_time_is_none(query: str) -> None:
    assert read_times(query, TODAY) == QueryTimes()


def test_a_date_that_can_be_read_in_two_ways_is_both_days() -> None:
    assert sorted(read("03/04/2026")) == ["2026-03-04", "2026-04-03"]


@pytest.mark.parametrize(
    "query",
    [
        "what is the latest version",
        "do we still use redis",
        "my current address",
        "who is on call now",
        "wie lautet die aktuelle Adresse",
        "benutzen wir das noch",
        "quelle est l'adresse actuelle",
        "la dernière version",
        "¿cuál es la dirección actualmente?",
        "la última versión",
        "¿Cuál es la clave actual del garaje?",
        "最新的版本",
        "现在的地址",
        "今の住所",
        "まだ使っていますか",
        "지금 주소",
        "아직 쓰나요",
    ],
)
def test_a_cue_word_asks_for_what_holds_at_present(query: str) -> None:
    times = read_times(query, TODAY)
    assert times.cues
    assert times.ranges == ()


@pytest.mark.parametrize(
    "query",
    [
        "where is the key",
        "known issues",
        "the actual reason",
        "actual cost",
        "la semaine dernière",
        '"the latest"',
        "now.sh",
    ],
)
def test_other_words_are_no_cue(query: str) -> None:
    assert not read_times(query, TODAY).cues


def test_the_words_for_times_can_be_taken_out_of_a_query() -> None:
    query = "what did Ana say last Tuesday about 2026-03-03?"
    assert remove_spans(query, read_times(query, TODAY).spans).split() == ["what", "did", "Ana", "say", "about", "?"]


def test_dates_as_titles_of_notes_have_them_are_told_from_other_forms() -> None:
    forms = ["2026-03-03", "March 3", "3.3.2026", "3月3日", "3. März"]
    assert [read_times(form, TODAY).ranges[0].is_in_title for form in forms] == [True, True, False, False, False]


def test_a_pasted_text_has_no_times() -> None:
    assert read_times("yesterday " * MAX_CHARS, TODAY) == QueryTimes()


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("2026-03-01", "2026-03-01..2026-03-01"),
        (" last week ", "2026-03-02..2026-03-08"),
        ("3 days ago", "2026-03-09..2026-03-09"),
        ("June", "2025-06-01..2025-06-30"),
        ("may", "2025-05-01..2025-05-31"),
        ("2025", "2025-01-01..2025-12-31"),
        ("上周", "2026-03-02..2026-03-08"),
    ],
)
def test_a_limit_is_read_as_a_range(text: str, days: str) -> None:
    found = read_range(text, TODAY)
    assert found is not None
    assert f"{format_day(found.first)}..{format_day(found.last)}" == days


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


def test_a_span_ends_after_it_begins() -> None:
    assert read("from 3 March to 5 March") == ["2026-03-03..2026-03-05"]
    assert read("from 5 March to 3 March") == ["2026-03-05", "2026-03-03"]
    assert read("from 3 March to 3 March") == ["2026-03-03"]


def test_times_too_far_back_are_none() -> None:
    assert read("5001 days ago") == []
    assert read("100 years ago") == []
    assert read("0 days ago") == []


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
