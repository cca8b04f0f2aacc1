"""Days as numbers, and the day that a note is about.

A day is counted from 1 January of year 1, so that ranges and ages are plain arithmetic.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.types.documents import StoredChunk, StoredDocument

Unit: TypeAlias = Literal["day", "week", "weekend", "month", "year"]

#: The number of 1 January 1970.
EPOCH = 719_163
_MS_A_DAY = 86_400_000
# The days of a common year before each month.
_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
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
    if not 1 <= year <= 9999 or not 1 <= month <= 12 or not 1 <= day <= month_length(year, month):
        return None
    return _first_of(year, month) + day - 1


def calendar_date(number: int) -> tuple[int, int, int]:
    """Return the year, month and day of a day number."""
    # Counted from March 1 of the year 0 a leap day is the last of its year, and months repeat every 153 days.
    cycle, day_of_cycle = divmod(number + 305, 146_097)
    year = (day_of_cycle - day_of_cycle // 1460 + day_of_cycle // 36_524 - day_of_cycle // 146_096) // 365
    day_of_year = day_of_cycle - (365 * year + year // 4 - year // 100)
    from_march = (5 * day_of_year + 2) // 153
    month = from_march + 3 if from_march < 10 else from_march - 9
    return 400 * cycle + year + (month <= 2), month, day_of_year - (153 * from_march + 2) // 5 + 1


@lru_cache(_MOST_REMEMBERED)
def format_day(number: int) -> str:
    """Return a day as ``YYYY-MM-DD``."""
    year, month, day = calendar_date(number)
    return f"{year:04d}-{month:02d}-{day:02d}"


def weekday(number: int) -> int:
    """Return the day of the week, 0 for Monday."""
    return (number - 1) % 7


def month_length(year: int, month: int) -> int:
    """Return the number of days of a month."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def month_range(year: int, month: int) -> DayRange | None:
    """Return the days of a month; None if there is no such month."""
    first = day_number(year, month, 1)
    return None if first is None else DayRange(first, first + month_length(year, month) - 1, "month")


def year_range(year: int) -> DayRange | None:
    """Return the days of a year; None if there is no such year."""
    first = day_number(year, 1, 1)
    return None if first is None else DayRange(first, _first_of(year + 1, 1) - 1, "year")


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


def _first_of(year: int, month: int) -> int:
    before = year - 1
    days_before_year = before * 365 + before // 4 - before // 100 + before // 400
    return days_before_year + _DAYS_BEFORE[month - 1] + (month > 2 and month_length(year, 2) == 29) + 1
