"""Scores and gates of promotion. The expected numbers were worked out to 40 digits, apart from the code."""

from typing import Any

import pytest

from mdrecall.life.promotion import (
    Choice,
    Record,
    explain_refusal,
    importance_of,
    passes_gates,
    rank,
    score_record,
    shorten_statement,
)

NOW = 1_795_000_000_000.0
DAY = 86_400_000.0


def asked(count: int) -> dict[str, float]:
    return dict.fromkeys(map(str, range(count)), 0.0)


def make_record(**changes: Any) -> Record:
    base = Record("memory:memory/2026-11-14.md:3:3", "memory/2026-11-14.md", 3, 3, last_ms=NOW)
    return base._replace(**changes)


#: 0.24·ln 6/ln 11 + 0.3·0.968 + 0.15 + 0.15 + 0.1·0.2 + 0.06: five searches of a minute, as OpenClaw scored them.
FIVE_AT_ONCE = make_record(
    recalls=5,
    total_score=4.84,
    queries=asked(5),
    days=("2026-11-14",),
    recall_days=("2026-11-14",),
    tags=tuple("abcdefgh"),
)
#: 0.24·ln 6/ln 11 + 0.3·3.9/5 + 0.15·3/5 + 0.15·2^-0.5 + 0.1·(0.55·ln 3/ln 5 + 0.45·4/7) + 0.06·3/6: every part.
MIXED = make_record(
    recalls=2,
    daily=3,
    total_score=3.9,
    queries=asked(3),
    last_ms=NOW - 7 * DAY,
    days=("2026-11-12", "2026-11-09", "2026-11-08"),
    tags=("a", "b", "c"),
)
#: 0.24 + 0.3 + 0.15 + 0.15·2^(-40/14) + 0.1·0.2: what is too large is cut.
CUT = make_record(
    recalls=10, total_score=99.0, queries=asked(32), last_ms=NOW - 40 * DAY, days=("2026-10-01",), tags=()
)
#: 0.24·ln 2/ln 11 + 0.3·0.62 + 0.15 + 0.06·2/6: one nightly reading.
READ_ONCE = make_record(daily=1, total_score=0.62, tags=("a", "b"))


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (FIVE_AT_ONCE, 0.8497332167142113796),
        (MIXED, 0.7026568603032084138),
        (CUT, 0.7307016783813839813),
        (READ_ONCE, 0.4253755583162930862),
    ],
    ids=["five at once", "mixed", "cut", "read once"],
)
def test_scores_are_those_worked_out_by_hand(record: Record, expected: float) -> None:
    assert score_record(record, NOW).score == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("days", "expected"),
    [((), 0.0), (("2026-11-14",), 0.2), (("2026-11-14", "rubbish"), 0.2), (("2026-11-01", "2026-11-30"), 0.6868721)],
    ids=["none", "one", "one of two is a date", "two far apart"],
)
def test_consolidation_grows_with_days_and_their_distance(days: tuple[str, ...], expected: float) -> None:
    assert score_record(make_record(recalls=1, days=days), NOW).components["consolidation"] == pytest.approx(expected)


def test_the_half_life_of_recalls_can_be_set() -> None:
    slow, fast = (score_record(MIXED, NOW, days) for days in (7.0, 3.5))
    assert (slow.components["recency"], fast.components["recency"]) == pytest.approx((0.5, 0.25))
    assert slow.score - fast.score == pytest.approx(0.15 * 0.25)


def test_recalls_of_one_day_are_refused_however_many_there_are() -> None:
    candidate = score_record(FIVE_AT_ONCE, NOW)
    assert candidate.score > Choice().min_score
    assert explain_refusal(candidate, Choice()) == "recalled on 1 day, not on 2"
    assert explain_refusal(candidate, Choice(min_days=1)) == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"total_score": 1.0}, "score 0.668 is below 0.75"),
        ({"recalls": 2, "total_score": 2.0}, "2 signals, fewer than 3"),
        ({"queries": asked(2)}, "found by 2 different queries, not by 3"),
        ({"last_ms": NOW - 31 * DAY}, "last recalled 31 days ago, more than 30"),
        ({"origin": "untrusted"}, "its origin is untrusted"),
        ({"origin": "system"}, "its origin is system"),
    ],
    ids=["score", "signals", "queries", "age", "untrusted", "system"],
)
def test_each_gate_says_what_is_missing(changes: dict[str, Any], reason: str) -> None:
    days = ("2026-11-01", "2026-11-14")
    record = FIVE_AT_ONCE._replace(total_score=5.0, days=days, recall_days=days)._replace(**changes)
    candidate = score_record(record, NOW)
    assert explain_refusal(candidate, Choice()) == reason
    assert passes_gates(candidate, Choice()) == ("origin" in changes)


def test_a_candidate_at_every_limit_passes() -> None:
    candidate = score_record(
        FIVE_AT_ONCE._replace(last_ms=NOW - 30 * DAY, recalls=3, queries=asked(3), total_score=3.0), NOW
    )
    assert passes_gates(candidate, Choice(min_score=candidate.score))
    assert not passes_gates(candidate, Choice(min_score=candidate.score, max_age_days=29.9))
    assert passes_gates(candidate, Choice(min_score=0, max_age_days=None))


def test_a_record_without_a_signal_is_no_candidate_and_the_best_is_first() -> None:
    found = rank([READ_ONCE, make_record(), FIVE_AT_ONCE], NOW)
    assert [candidate.record for candidate in found] == [FIVE_AT_ONCE, READ_ONCE]


@pytest.mark.parametrize(("score", "expected"), [(0.0, 3), (0.34, 3), (0.75, 8), (0.85, 9), (0.849, 8), (1.0, 10)])
def test_importance_is_a_tenth_of_the_score_rounded_up_at_half(score: float, expected: int) -> None:
    assert importance_of(score) == expected


def test_a_statement_stands_on_one_line_without_comments() -> None:
    assert shorten_statement("Tea at\nfour") == "Tea at four"
    assert shorten_statement("a <!-- b --> c") == "a b c"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x" * 640, "x" * 640),
        (f"{'x' * 353}! {'y' * 400}", f"{'x' * 353}!"),
        (f"{'x' * 350}! {'y' * 400}", f"{'x' * 350}! {'y' * 288}..."),
        (f"{'x' * 416} {'y' * 400}", f"{'x' * 416}..."),
        (f"{'x' * 415} {'y' * 400}", f"{'x' * 415} {'y' * 224}..."),
        (f"{'x' * 639} {'y' * 400}", f"{'x' * 639}..."),
    ],
    ids=["fits", "sentence", "short sentence", "word", "short word", "at the end"],
)
def test_a_long_text_ends_after_a_sentence_or_a_word_if_most_of_it_is_left(text: str, kept: str) -> None:
    assert shorten_statement(text) == kept
