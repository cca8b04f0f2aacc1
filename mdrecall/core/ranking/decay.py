"""Temporal decay: how much less an old note counts."""

import re

from mdrecall.core.ranking.days import day_number, ms_of_day

#: The factor that a note keeps at any age if it holds every identifier that a query asks for. It is below 1, so that of
#: two such notes the newer comes first.
NAMED_FACTOR = 0.97

# Daily notes may have a slug, and be in folders of any depth: memory/2026/11/2026-11-14-late-talk.md.
_DAILY = r"(?:^|/)memory/(?:.*/)?(\d{4})-(\d{2})-(\d{2})(?:-[^/]*)?\.md$"
_MS_A_DAY = 86_400_000
_LONG_LIVED = ("MEMORY.md", "memory.md", "USER.md")


def note_time_ms(path: str, mtime_ms: float | None) -> float | None:
    """Return the time of a note in milliseconds since 1970; None for a note that does not age.

    A daily note is as old as the day in its name. ``MEMORY.md``, ``USER.md`` and other files in ``memory/`` do not age.
    Any other file is as old as its last change.
    """
    if day := re.search(_DAILY, path):
        number = day_number(*map(int, day.groups()))
        if number is not None:
            return ms_of_day(number)
    path = path.removeprefix("./")
    if path in _LONG_LIVED or (path.startswith("memory/") and not day):
        return None
    return mtime_ms


def decay_factor(time_ms: float | None, now_ms: float, half_life_days: float, *, is_named: bool = False) -> float:
    """Return the factor for a note of this time, which halves with every half-life.

    ``is_named`` says that the note holds every identifier of the query: it keeps most of its score at any age.
    """
    if time_ms is None:
        return 1.0
    age_days = max(0.0, now_ms - time_ms) / _MS_A_DAY
    factor: float = 0.5 ** (age_days / half_life_days)
    return NAMED_FACTOR + (1 - NAMED_FACTOR) * factor if is_named else factor
