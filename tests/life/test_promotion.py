"""Scores and gates of promotion. The expected numbers were worked out to 40 digits, apart from the code."""

from typing import Any

import pytest

from mdrecall.life.promotion import Record, score_record, shorten_statement

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
