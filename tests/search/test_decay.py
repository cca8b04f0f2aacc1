from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.search.stages import NAMED_FACTOR, decay_factor, note_time_ms

DAY_MS = 86_400_000
NOW = 1_800_000_000_000.0
ages = st.floats(-1000, 100_000)
half_lives = st.integers(1, 10_000)


@given(ages, half_lives)
def test_a_note_with_every_identifier_of_the_query_keeps_most_at_any_age(age_days: float, half_life: int) -> None:
    written = NOW - age_days * DAY_MS
    named = decay_factor(written, NOW, half_life, is_named=True)
    assert max(NAMED_FACTOR, decay_factor(written, NOW, half_life)) <= named <= 1


@given(ages, ages, half_lives)
def test_an_older_note_never_has_more_left(one: float, other: float, half_life: int) -> None:
    young, old = sorted((one, other))
    assert decay_factor(NOW - old * DAY_MS, NOW, half_life) <= decay_factor(NOW - young * DAY_MS, NOW, half_life)


@given(st.floats(1, 1000), half_lives, half_lives)
def test_a_longer_half_life_never_leaves_less(age_days: float, one: int, other: int) -> None:
    short, long = sorted((one, other))
    written = NOW - age_days * DAY_MS
    assert decay_factor(written, NOW, short) <= decay_factor(written, NOW, long)


@pytest.mark.parametrize(
    "path",
    [
        "memory/2026-02-10.md",
        "notes/memory/2026-02-10.md",
        "./memory/2026-02-10.md",
        "memory/2026-02-10-late-talk.md",
        "memory/a/2026-02-10.md",
        "memory/2026/02/2026-02-10-späte Runde.md",
    ],
)
def test_a_daily_note_is_as_old_as_the_day_in_its_name(path: str) -> None:
    assert note_time_ms(path, 5.0) == datetime(2026, 2, 10, tzinfo=UTC).timestamp() * 1000


@pytest.mark.parametrize(
    "path",
    [
        "MEMORY.md",
        "memory.md",
        "./MEMORY.md",
        "memory/projects.md",
        "USER.md",
        "memory/log-2026-02-10.md",
        "./memory/x.md",
    ],
)
def test_long_lived_notes_do_not_grow_old(path: str) -> None:
    assert note_time_ms(path, 5.0) is None


@pytest.mark.parametrize("path", ["memory/2026-02-30.md", "memory/2026-13-01.md", "other/x.md", "Memory.md"])
def test_anything_else_is_as_old_as_its_last_change(path: str) -> None:
    assert note_time_ms(path, 5.0) == 5.0
    assert note_time_ms(path, None) is None
