"""Temporal decay: how much less an old note counts."""

import math
import re

#: The factor that the oldest note still has: age alone must not hide an answer.
MIN_FACTOR = 0.5

_DAILY = re.compile(r"(?:^|/)memory/(\d{4})-(\d{2})-(\d{2})\.md$")
_MS_A_DAY = 86_400_000
_LONG_LIVED = ("MEMORY.md", "memory.md")


def note_time_ms(path: str, mtime_ms: float | None) -> float | None:
    """Return the time of a note in milliseconds since 1970; None for a note that does not age.

    A daily note is as old as the day in its name. ``MEMORY.md`` and other files in ``memory/`` do not age. Any other
    file is as old as its last change.
    """
    if day := _DAILY.search(path):
        number = _day_number(*map(int, day.groups()))
        if number is not None:
            return number * _MS_A_DAY
    path = path.removeprefix("./")
    if path in _LONG_LIVED or (path.startswith("memory/") and not day):
        return None
    return mtime_ms


def decay_factor(time_ms: float | None, now_ms: float, half_life_days: float) -> float:
    """Return the factor for a note of this time: the part above ``MIN_FACTOR`` halves with every half-life."""
    if time_ms is None:
        return 1.0
    age_days = max(0.0, now_ms - time_ms) / _MS_A_DAY
    return MIN_FACTOR + (1 - MIN_FACTOR) * math.exp(-math.log(2) / half_life_days * age_days)


def _day_number(year: int, month: int, day: int) -> int | None:
    """Return the days since 1970 of a calendar date; None for a date that does not exist."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        return None
    before = year - 1
    days_before_year = before * 365 + before // 4 - before // 100 + before // 400
    return days_before_year + sum(lengths[: month - 1]) + day - 1 - 719_162
