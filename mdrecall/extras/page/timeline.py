"""The timeline: a year of notes and conversations as a calendar, and one day of it.

The calendar is SVG: sizes are attributes and colours are classes, because the page allows no inline style.
"""

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from math import inf
from typing import TypeAlias

from mdrecall.errors import ArgumentError, RecallError
from mdrecall.extras.page.page import Html, Page, Visit, join, plural, show_pages, tag
from mdrecall.notes.clock import user_moment
from mdrecall.text.days import Moment, calendar_date, day_number, format_day, month_length, note_day, weekday
from mdrecall.text.notes import read_front_matter
from mdrecall.types.documents import NoteFile
from mdrecall.types.transcripts import Conversation

#: A day on which a folder was copied has every note of it; a page shows these many of them.
_PER_PAGE = 50
#: How many years are listed before and after the one that is shown. The first and the last are always listed.
_NEAR_YEARS = 8
#: Enough of a note to know it again.
_FIRST_LINES, _MAX_LINE_CHARS = 5, 160
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
#: The notes and the conversations of one day.
DayItems: TypeAlias = tuple[list[NoteFile], list[Conversation]]
#: The side of a day in a month, with the gap to the next one. The style gives the square a side of 14.
_CELL = 16
#: What each shade says, from the lightest: the days that hold anything are divided into quarters.
_SHADES = ("nothing", "little", "some", "much", "most")


def show_timeline(visit: Visit) -> Page:
    """Return the page with a year."""
    now = _moment(visit)
    days = _group_by_day(visit, now)
    year = _choose_year(visit, days, now.today)
    body = join(
        tag("h1", f"Timeline: {year}"),
        _list_years(visit, days, year, now.today),
        _draw_year(visit, days, year, now.today),
    )
    return Page(f"Timeline {year}", body, "timeline")


def show_day(visit: Visit) -> Page:
    """Return the notes and conversations of one day, with their first lines."""
    number = _parse_day(visit.query.get("day", ""))
    now = _moment(visit)
    days = _group_by_day(visit, now)
    items = days.get(number, ([], []))
    year = calendar_date(number)[0]
    shown, pages = show_pages(visit, "day", [*items[0], *items[1]], _PER_PAGE, "day")
    notes, conversations = (
        [_show_item(visit, each) for each in shown if isinstance(each, kind)] for kind in (NoteFile, Conversation)
    )
    body = join(
        tag("h1", _name_day(number)),
        _link_neighbours(visit, sorted(days), number, year),
        None if shown else tag("p", "There is nothing for this day.", class_="quiet"),
        notes,
        tag("h2", "Conversations") if conversations else None,
        conversations,
        pages,
    )
    return Page(format_day(number), body, "timeline")


def _moment(visit: Visit) -> Moment:
    return user_moment(visit.now, visit.memory.settings.defaults.user_timezone)


def _group_by_day(visit: Visit, now: Moment) -> dict[int, DayItems]:
    """Return what there is of each day: a note belongs to the day in its name, else to that of its last change."""
    found: dict[int, DayItems] = {}
    for note in visit.memory.notes():
        day = _named_day(note.path)
        found.setdefault(now.day_of(1000 * note.changed_s) if day is None else day, ([], []))[0].append(note)
    for each in visit.memory.sessions(visit.session_key):
        found.setdefault(now.day_of(1000 * each.changed_s), ([], []))[1].append(each)
    return {day: found[day] for day in sorted(found)}


@lru_cache(maxsize=65_536)
def _named_day(path: str) -> int | None:
    """Return the day in the name of a note; kept, because reading it from many names takes most of a page's time."""
    return note_day(path, "")


def _choose_year(visit: Visit, days: Mapping[int, DayItems], today: int) -> int:
    """Return the year that is asked for; else the present one, or the last one before it that holds anything."""
    if 1 <= (asked := visit.number("year")) <= 9999:
        return asked
    return calendar_date(max((day for day in days if day <= today), default=today))[0]


def _list_years(visit: Visit, days: Mapping[int, DayItems], year: int, today: int) -> Html:
    every = sorted({calendar_date(day)[0] for day in days} | {calendar_date(today)[0], year})
    place = every.index(year)
    years = sorted({every[0], *every[max(0, place - _NEAR_YEARS) : place + _NEAR_YEARS + 1], every[-1]})
    links = (
        tag("a", each, href=visit.url("timeline", year=each), aria_current="true" if each == year else None)
        for each in years
    )
    return tag("nav", links, class_="years", aria_label="Years")


def _draw_year(visit: Visit, days: Mapping[int, DayItems], year: int, today: int) -> Html:
    first, last = day_number(year, 1, 1) or 1, day_number(year, 12, 31) or 1
    own = {number: items for number, items in days.items() if first <= number <= last}
    shades = divide_into_quarters({number: _count_bytes(items) for number, items in own.items()})
    drawn = {
        number: (shades[number], f"{_name_day(number)}: {_count_items(items)}", _day_url(visit, number))
        for number, items in own.items()
    }
    months = (draw_month(year, month, drawn, today) for month in range(1, 13))
    notes, conversations = (sum(len(items[kind]) for items in own.values()) for kind in (0, 1))
    summary = f"{plural(notes, 'note')} and {plural(conversations, 'conversation')} on {plural(len(own), 'day')}."
    return join(tag("p", summary), tag("div", months, class_="year", data_arrows="a"), draw_legend())


def _day_url(visit: Visit, number: int) -> str:
    return visit.url("day", day=format_day(number))


def _name_day(number: int) -> str:
    year, month, day = calendar_date(number)
    return f"{day} {MONTHS[month - 1]} {year}"


def _count_items(items: DayItems) -> str:
    counts = ((len(items[0]), "note"), (len(items[1]), "conversation"))
    return ", ".join((*(plural(number, noun) for number, noun in counts if number), _size(_count_bytes(items))))


def _count_bytes(items: DayItems) -> int:
    """Return about how much text a day holds."""
    return sum(each.bytes for kind in items for each in kind)


def _size(size: int) -> str:
    units = ((10_000, 1, "bytes"), (10_000_000, 1_000, "KB"), (inf, 1_000_000, "MB"))
    return next(f"{size / unit:,.0f} {name}" for below, unit, name in units if size < below)


def _link_neighbours(visit: Visit, days: list[int], number: int, year: int) -> Html:
    before = max((day for day in days if day < number), default=None)
    after = min((day for day in days if day > number), default=None)
    return tag(
        "nav",
        tag("a", f"← {_name_day(before)}", href=_day_url(visit, before)) if before else None,
        tag("a", "The year", href=visit.url("timeline", year=year)),
        tag("a", f"{_name_day(after)} →", href=_day_url(visit, after)) if after else None,
        class_="row",
        aria_label="Days",
    )


def _parse_day(text: str) -> int:
    parts = text.split("-")
    is_date = len(parts) == 3 and all(part.isascii() and part.isdigit() and len(part) <= 4 for part in parts)
    number = day_number(*map(int, parts)) if is_date else None
    if number is None:
        raise ArgumentError(f"{text[:40]!r} is not a day.", name="day", hint="Give one such as 2026-02-10.")
    return number


def _show_item(visit: Visit, item: NoteFile | Conversation) -> Html:
    """Return a link to a note or conversation, with its first lines that say something."""
    try:
        if isinstance(item, NoteFile):
            name, url = item.path, visit.url("note", path=item.path)
            text = visit.memory.read(item.path, lines=40, max_chars=4_000).text
            text = "\n".join(text.split("\n")[read_front_matter(text)[1] :])
        else:
            name, url = item.title or item.session_key or item.session, visit.url("conversation", session=item.path)
            text = visit.memory.read_session(item.path, lines=20, session_key=visit.session_key).text
    except RecallError as error:
        text = str(error)
    # Without the marks of headings and lists.
    lines = (line.strip().lstrip("#").strip("-*= `").strip() for line in text.split("\n"))
    said = [line for line in lines if line][:_FIRST_LINES]
    shown = (line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]}…" for line in said)
    link = tag("h3", tag("a", name, href=url))
    return tag("article", link, (tag("p", line, class_="first") for line in shown), class_="panel")


def draw_month(year: int, month: int, days: Mapping[int, tuple[int, str, str]], today: int) -> Html:
    """Return a month as a calendar whose days are darker the more text they hold.

    A day that holds something has its shade from 1 to 4, what a pointer or a screen reader says of it, and its address.
    """
    first = day_number(year, month, 1) or 1
    shift = weekday(first)
    held = sum(first + number in days for number in range(month_length(year, month)))
    cells = (
        _draw_day(days.get(first + number), shift + number, is_today=first + number == today)
        for number in range(month_length(year, month))
    )
    label = f"{MONTHS[month - 1]} {year}: {plural(held, 'day')} with something"
    box = f"0 0 {7 * _CELL - 2} {6 * _CELL - 2}"
    picture = tag("svg", cells, viewBox=box, class_="month", role="group", aria_label=label)
    return tag("figure", tag("figcaption", MONTHS[month - 1]), picture)


def _draw_day(day: tuple[int, str, str] | None, place: int, *, is_today: bool) -> Html:
    shade, title, url = day or (0, "", "")
    name = f"heat{shade} today" if is_today else f"heat{shade}"
    x, y = _CELL * (place % 7), _CELL * (place // 7)
    if day is None:
        return tag("rect", x=x, y=y, class_=name)
    square = tag("rect", tag("title", title), x=x, y=y, class_=name)
    return tag("a", square, href=url, aria_label=title)


def draw_legend() -> Html:
    """Return what the shades of a calendar mean."""
    entries = (
        tag("span", tag("svg", tag("rect", class_=f"heat{n}"), viewBox="0 0 14 14", aria_hidden="true"), text)
        for n, text in enumerate(_SHADES)
    )
    return tag("p", "Text of a day, compared with the other days of the year: ", entries, class_="legend quiet")


def divide_into_quarters(amounts: Mapping[int, float]) -> dict[int, int]:
    """Return the quarter of each amount, from 1 for the smallest ones to 4; equal amounts are in the same one."""
    ordered = sorted(amounts.values())
    return {key: 1 + 4 * bisect_left(ordered, amount) // len(ordered) for key, amount in amounts.items()}
