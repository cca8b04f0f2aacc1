"""Days as numbers, and the day that a note is about.

A day is counted from 1 January of year 1, so that ranges and ages are plain arithmetic.
"""

import re
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.types.documents import StoredChunk, StoredDocument

Unit: TypeAlias = Literal["day", "week", "weekend", "month", "year"]

#: The number of 1 January 1970.
EPOCH = date(1970, 1, 1).toordinal()
_LAST_DAY = date.max.toordinal()
_MS_A_DAY = 86_400_000
# How many days of notes are remembered, and how many days as text: the same ones are found again and again.
_MOST_REMEMBERED = 2_000
# Plain strings: a command that needs none of these patterns compiles none.
# A date in a file name, or at the end of a path: 2026-03-01-standup.md, 2026/03/01.md, log_20260301.md.
_IN_NAME = r"(?<!\d)((?:19|20)\d\d)(?:([-_./])(\d\d)\2(\d\d)|(\d\d)(\d\d))(?!\d)[^/]*$"
_FRONT_MATTER = r"(?sm)---[ \t]*\r?\n(.*?)^---"
_DATE_FIELD = r"(?im)^(?:date|day|created)[ \t]*:[ \t]*[\"']?(\d{4})-(\d\d)-(\d\d)"


class Moment(NamedTuple):
    """The moment of a search in milliseconds since 1970, and how far the user's clock is ahead of UTC."""

    ms: float
    offset_ms: float = 0.0

    @property
    def today(self) -> int:
        """The user's day."""
        return self.day_of(self.ms)

    def day_of(self, time_ms: float) -> int:
        """Return the user's day at another time."""
        return EPOCH + int((time_ms + self.offset_ms) // _MS_A_DAY)


#: For a search that no time matters to.
NO_MOMENT = Moment(0.0)


class DayRange(NamedTuple):
    """The days from ``first`` to ``last``, both included, and how exactly they were given: ``in June`` is a month.

    ``is_relative`` if they depend on the day of the question, as ``yesterday`` does. ``is_in_title`` for a day written
    as the titles of daily notes have it, so that its words find the note by themselves.
    """

    first: int
    last: int
    precision: Unit
    is_relative: bool = False
    is_in_title: bool = False

    def has(self, day: int, grace: int = 0) -> bool:
        """True if a day is in the range, or at most ``grace`` days after it."""
        return self.first <= day <= self.last + grace


def day_number(year: int, month: int, day: int) -> int | None:
    """Return the number of a calendar date; None for a date that does not exist."""
    try:
        return date(year, month, day).toordinal()
    except (ValueError, OverflowError):
        return None


def calendar_date(number: int) -> tuple[int, int, int]:
    """Return the year, month and day of a day number; the first or the last day there is for one beyond."""
    found = date.fromordinal(min(max(1, number), _LAST_DAY))
    return found.year, found.month, found.day


@lru_cache(_MOST_REMEMBERED)
def format_day(number: int) -> str:
    """Return a day as ``YYYY-MM-DD``."""
    return date(*calendar_date(number)).isoformat()


def weekday(number: int) -> int:
    """Return the day of the week, 0 for Monday."""
    return (number - 1) % 7


def month_range(year: int, month: int) -> DayRange | None:
    """Return the days of a month; None if there is no such month."""
    first, after = day_number(year, month, 1), day_number(year + month // 12, month % 12 + 1, 1)
    return None if first is None else DayRange(first, (after or _LAST_DAY + 1) - 1, "month")


def year_range(year: int) -> DayRange | None:
    """Return the days of a year; None if there is no such year."""
    first, last = day_number(year, 1, 1), day_number(year, 12, 31)
    return None if first is None or last is None else DayRange(first, last, "year")


def unit_range(today: int, unit: Unit, offset: int) -> DayRange | None:
    """Return the day, week, month or year that is ``offset`` after the present one; a week begins on Monday."""
    found: DayRange | None
    if unit == "day":
        found = DayRange(today + offset, today + offset, "day")
    elif unit in ("week", "weekend"):
        monday = today - weekday(today) + 7 * offset
        found = DayRange(monday if unit == "week" else monday + 5, monday + 6, "week")
    else:
        year, month, _ = calendar_date(today)
        months = 12 * year + month - 1 + offset
        found = month_range(months // 12, months % 12 + 1) if unit == "month" else year_range(year + offset)
    return None if found is None or found.first < 1 else found._replace(is_relative=True)


def ms_of_day(number: int) -> float:
    """Return the beginning of a day in milliseconds since 1970."""
    return float((number - EPOCH) * _MS_A_DAY)


def chunk_day(chunk: StoredChunk) -> int | None:
    """Return the day that a chunk is about: that of its note, or of what is said in a transcript; None if unknown."""
    if chunk.source == "sessions":
        return Moment(chunk.mtime_ns / 1e6).today if chunk.mtime_ns else None
    return note_day(chunk.path, chunk.text if chunk.start_line == 1 else "")


def entry_day(chunk: StoredChunk) -> int | None:
    """Return the day when a chunk was written: of its note, its entry, or in a heading above it; None if unknown."""
    day = chunk_day(chunk)
    dates = re.findall(r"\d{4}-\d\d-\d\d", " ".join((*chunk.trail, chunk.marks.written))) if day is None else ()
    return day_number(*map(int, dates[-1].split("-"))) if dates else day


def note_day(path: str, head: str) -> int | None:
    """Return the day that a note is about: the one in its file's name, or in its front matter; None if it has none.

    ``head`` is the beginning of its text. The day on which a file was changed is not one that it tells of.
    """
    number = _day_in_name(path)
    front = re.match(_FRONT_MATTER, head) if number is None and head.startswith("---") else None
    field = re.search(_DATE_FIELD, front[1]) if front else None
    return day_number(*map(int, field.groups())) if field else number


def document_day(document: StoredDocument) -> int | None:
    """Return the day that a document is about; None if it does not tell."""
    if document.source == "sessions":
        return Moment(document.mtime_ns / 1e6).today
    return note_day(document.path, document.head)


def is_of_days(document: StoredDocument, ranges: Sequence[tuple[int, int]]) -> bool:
    """True if a document is about a day of any of the ranges, which include both ends."""
    day = document_day(document)
    return day is not None and any(first <= day <= last for first, last in ranges)


class Place(NamedTuple):
    """Where something was written down, the day that its note is about, and the day when the note was last changed."""

    path: str
    line: int
    day: int | None
    changed_day: int


def is_newer(place: Place, other: Place) -> bool:
    """True if something is newer: by its day, or by its place in a file that grows at its end.

    If nothing tells when a line was written, a line with a day counts as newer: lasting notes are seldom updated.
    """
    if place.path == other.path and (place.day is None or other.day is None or place.day == other.day):
        return place.line > other.line
    return place.day is not None and (other.day is None or place.day > other.day)


def is_known_newer(place: Place, other: Place) -> bool:
    """True if it is certain that something is newer. A note says at the latest when it changes what it says."""
    is_known = place.path == other.path or other.day is not None or (place.day or 0) > other.changed_day
    return is_known and is_newer(place, other)


@lru_cache(_MOST_REMEMBERED)
def _day_in_name(path: str) -> int | None:
    name = path.rsplit("/", 1)[-1]
    if name[4:5] == name[7:8] == "-" and (name[:4] + name[5:7] + name[8:10]).isdecimal() and not name[10:11].isdigit():
        # Daily notes, and most other dated names.
        return day_number(int(name[:4]), int(name[5:7]), int(name[8:10]))
    # A date has eight digits; only a folder of the year and one of the month leave a name of two.
    if sum(map(str.isdigit, path)) < 8 or not (found := re.search(_IN_NAME, path)):
        return None
    year, _, month, day, short_month, short_day = found.groups()
    return day_number(int(year), int(month or short_month), int(day or short_day))
