"""The timeline: a year of notes and conversations as a calendar, and one day of it."""

from bisect import bisect_left
from calendar import month_name, monthrange
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from mdrecall.errors import ArgumentError, RecallError
from mdrecall.extras.page.html import Html, join, plural, show_day, strip_markup, tag
from mdrecall.extras.page.page import Page, Visit, show_list, show_pages, show_row, show_turns
from mdrecall.extras.page.read import show_note
from mdrecall.notes.clock import user_moment
from mdrecall.text.days import calendar_date, day_number, format_day, note_day, weekday
from mdrecall.types.documents import NoteFile
from mdrecall.types.transcripts import Conversation

#: A day on which a folder was copied has every note of it; a page shows these many of them.
_PER_PAGE = 50
#: The notes of one day, and then its conversations.
DayItems: TypeAlias = list[NoteFile | Conversation]


def get_time(visit: Visit) -> Page:
    """Return the page with a year: the one that is asked for, else the last one that holds anything."""
    days, today = _group_by_day(visit)
    year = asked if 1 <= (asked := visit.number("year")) <= 9999 else calendar_date(
        max((day for day in days if day <= today), default=today))[0]  # fmt: skip
    years = sorted({calendar_date(day)[0] for day in days} | {calendar_date(today)[0], year})
    menu = show_turns("Other years", {f"{each}": visit.url("time", year=each) for each in years if each != year})
    return Page(f"{year}", join(tag("h1", year), menu, _draw_year(visit, days, year, today)), "time")


def get_day(visit: Visit) -> Page:
    """Return the notes and conversations of one day."""
    day = visit.query.get("day", "")
    parts = day.split("-")
    is_date = len(parts) == 3 and all(part.isascii() and part.isdigit() and len(part) <= 4 for part in parts)
    number = day_number(*map(int, parts)) if is_date else None
    if number is None:
        raise ArgumentError(f"{day[:40]!r} is not a day.", name="day", hint="Give one such as 2026-02-10.")
    days, _ = _group_by_day(visit)
    shown, pages = show_pages(visit, "day", days.get(number, []), _PER_PAGE, "day")
    nothing = None if shown else tag("p", "There is nothing for this day.", class_="quiet")
    year = calendar_date(number)[0]
    back = show_turns("Year", {f"{year}": visit.url("time", year=year)})
    rows = show_list("", (_show_item(visit, each) for each in shown))
    return Page(_name_day(number), join(tag("h1", _name_day(number)), back, nothing, rows, pages), "time")


def _group_by_day(visit: Visit) -> tuple[dict[int, DayItems], int]:
    """Return what there is of each day, and today: a note is of the day in its name, else of its last change."""
    now = user_moment(visit.now, visit.memory.settings.defaults.user_timezone)
    found: dict[int, DayItems] = {}
    every: DayItems = [*visit.memory.notes(), *visit.memory.sessions(visit.session_key)]
    for each in every:
        named = _named_day(each.path) if isinstance(each, NoteFile) else None
        found.setdefault(now.day_of(1000 * each.changed_s) if named is None else named, []).append(each)
    return dict(sorted(found.items(), key=lambda day: day[0])), now.today


@lru_cache(maxsize=65_536)
def _named_day(path: str) -> int | None:
    """Return the day in the name of a note; kept, because reading it from many names takes most of a page's time."""
    return note_day(path, "")


def _draw_year(visit: Visit, days: Mapping[int, DayItems], year: int, today: int) -> Html:
    own = {number: items for number, items in days.items() if calendar_date(number)[0] == year}
    shades = divide_into_quarters({number: sum(each.bytes for each in items) for number, items in own.items()})
    drawn: dict[int, tuple[int, str, str]] = {}
    for number, items in own.items():
        url = _item_url(visit, items[0]) if len(items) == 1 else visit.url("day", day=format_day(number))
        drawn[number] = shades[number], f"{_name_day(number)}: {_count(items)}", url
    months = (draw_month(year, month, drawn, today) for month in range(1, 13))
    total = _count([each for items in own.values() for each in items])
    said = f"{total} on {plural(len(own), 'day')}. The stronger its colour, the more text a day has."
    summary = tag("p", said if total else "Nothing in this year.", class_="quiet")
    return join(summary, tag("div", months, class_="year"))


def _item_url(visit: Visit, item: NoteFile | Conversation) -> str:
    is_note = isinstance(item, NoteFile)
    return visit.url("note", path=item.path) if is_note else visit.url("conversation", session=item.path)


def _name_day(number: int) -> str:
    return show_day(format_day(number))


def _count(items: DayItems) -> str:
    notes = sum(isinstance(each, NoteFile) for each in items)
    counts = {"note": notes, "conversation": len(items) - notes}
    return " and ".join(plural(count, noun) for noun, count in counts.items() if count)


def _show_item(visit: Visit, item: NoteFile | Conversation) -> Html:
    """Return a note or a conversation as a row of a list, with its first line."""
    if isinstance(item, NoteFile):
        return show_note(visit, item.path)
    link = tag("a", item.title or "Conversation", href=_item_url(visit, item), class_="title")
    try:
        text = visit.memory.read_session(item.path, lines=20, session_key=visit.session_key).text
    except RecallError as error:
        return show_row(link, str(error))
    # Each line begins with the number of its message.
    said = strip_markup(text.lstrip("0123456789 \n").partition("\n")[0])
    return show_row(link, tag("span", said, class_="cut"))


def draw_month(year: int, month: int, days: Mapping[int, tuple[int, str, str]], today: int) -> Html:
    """Return a month as a calendar whose days are darker the more text they hold.

    A day that holds something has its shade from 1 to 4, what a pointer or a screen reader says of it, and its address.
    """
    first = day_number(year, month, 1) or 1
    cells = [tag("span", letter, aria_hidden="true") for letter in "MTWTFSS"]
    for place in range(1, monthrange(year, month)[1] + 1):
        number = first + place - 1
        shade, title, url = days.get(number, (0, None, None))
        names = f"heat{shade}" + " today" * (number == today) + f" from{weekday(first)}" * (place == 1)
        cells.append(tag("a" if url else "span", place, href=url, title=title, aria_label=title, class_=names))
    return tag("section", tag("h2", month_name[month]), tag("div", cells, class_="month"))


def divide_into_quarters(amounts: Mapping[int, float]) -> dict[int, int]:
    """Return the quarter of each amount, from 1 for the smallest ones to 4; equal amounts are in the same one."""
    ordered = sorted(amounts.values())
    return {key: 1 + 4 * bisect_left(ordered, amount) // len(ordered) for key, amount in amounts.items()}
