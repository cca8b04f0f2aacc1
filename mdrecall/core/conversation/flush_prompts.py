"""The prompts of a memory flush, with the note of the day, the date and the time in them."""

import re
from typing import NamedTuple

from mdrecall.core.conversation.no_reply import NO_REPLY

_DATE = "YYYY-MM-DD"
_TIME_LINE = "Current time:"
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip

_TARGET = "The only file to write to is memory/YYYY-MM-DD.md; make the folder if it is missing."
_APPEND = "Append to the file and leave every entry in it as it is; do not begin a second file for the same day."
_READ_ONLY = "Treat MEMORY.md, SOUL.md, TOOLS.md and AGENTS.md as read-only."
_SILENCE = f"If there is nothing to store, begin your answer with {NO_REPLY} and write nothing else."

#: Each instruction, and a pattern that tells that a custom prompt already has it.
_INSTRUCTIONS = (
    (_TARGET, re.compile(r"memory/YYYY-MM-DD\.md")),
    (_APPEND, re.compile(r"\bappend", re.IGNORECASE)),
    (_READ_ONLY, re.compile(r"\bread.only\b", re.IGNORECASE)),
)

_USER = " ".join(
    (
        "Memory flush before compaction: soon only a summary of this conversation will be left.",
        "Store now what will matter later, such as decisions, facts, preferences, names, dates and open tasks.",
        _TARGET,
        _APPEND,
        _READ_ONLY,
        _SILENCE,
    )
)
_SYSTEM = " ".join(
    (
        "This turn is a memory flush: the conversation is about to be compacted, and nobody reads your answer.",
        "Write durable memories to memory/YYYY-MM-DD.md, then end the turn.",
        _APPEND,
        _READ_ONLY,
        f"Usually {NO_REPLY} is the right answer.",
    )
)


class Moment(NamedTuple):
    """A time in the user's time zone."""

    year: int
    month: int
    day: int
    weekday: int
    """0 is Monday."""
    hour: int
    minute: int
    zone: str

    @property
    def date(self) -> str:
        return f"{self.year:04}-{self.month:02}-{self.day:02}"


class Prompts(NamedTuple):
    """The prompts of a flush, and the one file that it may write to."""

    system: str
    user: str
    path: str


def daily_path(moment: Moment) -> str:
    """Return the path of the day's note, relative to the workspace."""
    return f"memory/{moment.date}.md"


def make_prompts(
    moment: Moment,
    *,
    user: str | None = None,
    system: str | None = None,
    extra_system: str = "",
    twelve_hours: bool = False,
) -> Prompts:
    """Return the prompts of a flush. Custom ones are completed; ``extra_system`` is the rest of the system prompt."""
    asked = _complete(user, _USER).replace(_DATE, moment.date)
    if _TIME_LINE not in asked:
        asked += f"\n{_TIME_LINE} {time_words(moment, twelve_hours=twelve_hours)} ({moment.zone})"
    added = _complete(system, _SYSTEM).replace(_DATE, moment.date)
    return Prompts("\n\n".join(filter(None, (extra_system.strip(), added))), asked, daily_path(moment))


def time_words(moment: Moment, *, twelve_hours: bool) -> str:
    """Return a time such as ``Monday, February 16th, 2026 — 10:00 AM``, or ``… — 10:00``."""
    day = f"{_WEEKDAYS[moment.weekday]}, {_MONTHS[moment.month - 1]} {_ordinal(moment.day)}, {moment.year}"
    if not twelve_hours:
        return f"{day} — {moment.hour:02}:{moment.minute:02}"
    half = "AM" if moment.hour < 12 else "PM"
    return f"{day} — {(moment.hour + 11) % 12 + 1}:{moment.minute:02} {half}"


def _complete(custom: str | None, built_in: str) -> str:
    """Return a custom prompt with the instructions that it lacks, or the built-in one without a custom one."""
    if not (custom or "").strip():
        return built_in
    text = (custom or "").strip()
    missing = [instruction for instruction, pattern in _INSTRUCTIONS if not pattern.search(text)]
    if NO_REPLY not in text:
        missing.append(_SILENCE)
    return "\n\n".join(filter(None, (text, " ".join(missing))))


def _ordinal(day: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(0 if 10 < day < 14 else day % 10, "th")
    return f"{day}{ending}"
