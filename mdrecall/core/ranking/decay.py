"""How much a note's age takes off what it is worth."""

import math
import re

#: However old a note is, this share of its worth stays.
LEAST_SHARE = 0.5

_DAILY = re.compile(r"(?:^|/)memory/(\d{4})-(\d{2})-(\d{2})\.md$")
_MS_A_DAY = 86_400_000
_LONG_LIVED = ("MEMORY.md", "memory.md")


def note_time_ms(path: str, mtime_ms: float | None) -> float | None:
    """The time a note is of, in milliseconds since 1970; nothing for a note that does not grow old.

    A daily note is as old as the day in its name. ``MEMORY.md`` and other files in ``memory/`` last. Anything else
    is as old as its last change.
    """
    if day := _DAILY.search(path):
        number = _day_number(*map(int, day.groups()))
        if number is not None:
            return number * _MS_A_DAY
    path = path.removeprefix("./")
    if path in _LONG_LIVED or (path.startswith("memory/") and not day):
        return None
    return mtime_ms


def decay_factor(written: float | None, now_ms: float, half_life_days: float) -> float:
    """What is left of a note's worth: halved with every half-life, down to ``LEAST_SHARE``."""
    if written is None:
        return 1.0
    age_days = max(0.0, now_ms - written) / _MS_A_DAY
    return LEAST_SHARE + (1 - LEAST_SHARE) * math.exp(-math.log(2) / half_life_days * age_days)


def _day_number(year: int, month: int, day: int) -> int | None:
    """Days since 1970 of a calendar date; nothing for a date that does not exist."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        return None
    before = year - 1
    days_before_year = before * 365 + before // 4 - before // 100 + before // 400
    return days_before_year + sum(lengths[: month - 1]) + day - 1 - 719_162
