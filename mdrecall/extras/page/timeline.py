"""The timeline: a year of notes and conversations as a calendar, and one day of it.

The calendar is SVG: sizes are attributes and colours are classes, because the page allows no inline style.
"""

from bisect import bisect_left
from calendar import month_name
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from mdrecall.errors import ArgumentError, RecallError
from mdrecall.extras.page.markdown import cut, strip_markup
from mdrecall.extras.page.page import Html, Page, Visit, join, plural, show_pages, tag
from mdrecall.extras.page.read import summarize
from mdrecall.notes.clock import user_moment
from mdrecall.text.days import Moment, calendar_date, day_number, format_day, month_length, note_day, weekday
from mdrecall.types.documents import NoteFile
from mdrecall.types.transcripts import Conversation

#: A day on which a folder was copied has every note of it; a page shows these many of them.
_PER_PAGE = 50
#: How many years are listed before and after the one that is shown. The first and the last are always listed.
_NEAR_YEARS = 8
#: Enough of a note to know it again.
_FIRST_LINES, _MAX_LINE_CHARS = 5, 160
#: The notes of one day, and then its conversations.
DayItems: TypeAlias = list[NoteFile | Conversation]
#: The side of a day in a month, with the gap to the next one. The style gives the square a side of 14.
_CELL = 16
#: What each shade says, from the lightest: the days that hold anything are divided into quarters.
_SHADES = ("nothing", "little", "some", "much", "most")


def show_timeline(visit: Visit) -> Page:
    """Return the page with a year."""
    now = _moment(visit)
    days = _group_by_day(visit, now)
    year = _choose_year(visit, days, now.today)
    years = _list_years(visit, days, year, now.today)
    body = join(tag("h1", f"Timeline: {year}"), years, _draw_year(visit, days, year, now.today))
    return Page(f"Timeline {year}", body, "time")


def show_day(visit: Visit) -> Page:
    """Return the notes and conversations of one day, with their first lines."""
    number = _parse_day(visit.query.get("day", ""))
    days = _group_by_day(visit, _moment(visit))
    shown, pages = show_pages(visit, "day", days.get(number, []), _PER_PAGE, "day")
    body = join(
        tag("h1", _name_day(number)),
        _link_neighbours(visit, [*days], number),
        None if shown else tag("p", "There is nothing for this day.", class_="quiet"),
        (_show_item(visit, each) for each in shown),
        pages,
    )
    return Page(format_day(number), body, "time")


def _moment(visit: Visit) -> Moment:
    return user_moment(visit.now, visit.memory.settings.defaults.user_timezone)


def _group_by_day(visit: Visit, now: Moment) -> dict[int, DayItems]:
    """Return what there is of each day: a note belongs to the day in its name, else to that of its last change."""
    found: dict[int, DayItems] = {}
    every: DayItems = [*visit.memory.notes(), *visit.memory.sessions(visit.session_key)]
    for each in every:
        named = _named_day(each.path) if isinstance(each, NoteFile) else None
        found.setdefault(now.day_of(1000 * each.changed_s) if named is None else named, []).append(each)
    return dict(sorted(found.items(), key=lambda day: day[0]))


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
    current = {year: "true"}
    links = (tag("a", each, href=visit.url("time", year=each), aria_current=current.get(each)) for each in years)
    return tag("nav", links, class_="years", aria_label="Years")


def _draw_year(visit: Visit, days: Mapping[int, DayItems], year: int, today: int) -> Html:
    first, last = day_number(year, 1, 1) or 1, day_number(year, 12, 31) or 1
    own = {number: items for number, items in days.items() if first <= number <= last}
    shades = divide_into_quarters({number: sum(each.bytes for each in items) for number, items in own.items()})
    drawn: dict[int, tuple[int, str, str]] = {}
    for number, items in own.items():
        counts = ", ".join(plural(count, noun) for noun, count in _count(items).items() if count)
        url = _item_url(visit, items[0]) if len(items) == 1 else _day_url(visit, number)
        drawn[number] = shades[number], f"{_name_day(number)}: {counts}", url
    months = (draw_month(year, month, drawn, today) for month in range(1, 13))
    total = _count([each for items in own.values() for each in items])
    counts = " and ".join(plural(count, noun) for noun, count in total.items())
    summary = tag("p", f"{counts} on {plural(len(own), 'day')}.")
    return join(summary, tag("div", months, class_="year", data_arrows="a"), draw_legend())


def _item_url(visit: Visit, item: NoteFile | Conversation) -> str:
    is_note = isinstance(item, NoteFile)
    return visit.url("note", path=item.path) if is_note else visit.url("conversation", session=item.path)


def _day_url(visit: Visit, number: int) -> str:
    return visit.url("day", day=format_day(number))


def _name_day(number: int) -> str:
    year, month, day = calendar_date(number)
    return f"{day} {month_name[month]} {year}"


def _count(items: DayItems) -> dict[str, int]:
    notes = sum(isinstance(each, NoteFile) for each in items)
    return {"note": notes, "conversation": len(items) - notes}


def _link_neighbours(visit: Visit, days: list[int], number: int) -> Html:
    place = bisect_left(days, number)
    before, after = days[:place][-1:], [day for day in days[place : place + 2] if day > number][:1]
    year = tag("a", "The year", href=visit.url("time", year=calendar_date(number)[0]))
    earlier = [tag("a", f"← {_name_day(day)}", href=_day_url(visit, day)) for day in before]
    later = [tag("a", f"{_name_day(day)} →", href=_day_url(visit, day)) for day in after]
    return tag("nav", earlier, year, later, class_="row", aria_label="Days")


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
            name, said = summarize(visit, item.path)
        else:
            name = item.title or item.session_key or item.session
            text = visit.memory.read_session(item.path, lines=20, session_key=visit.session_key).text
            said = [line for line in map(strip_markup, text.split("\n")) if line]
    except RecallError as error:
        said = [str(error)]
    lines = (tag("p", cut(line, _MAX_LINE_CHARS), class_="first") for line in said[:_FIRST_LINES])
    return tag("article", tag("h3", tag("a", name, href=_item_url(visit, item))), lines, class_="panel")


def draw_month(year: int, month: int, days: Mapping[int, tuple[int, str, str]], today: int) -> Html:
    """Return a month as a calendar whose days are darker the more text they hold.

    A day that holds something has its shade from 1 to 4, what a pointer or a screen reader says of it, and its address.
    """
    first = day_number(year, month, 1) or 1
    numbers = range(first, first + month_length(year, month))
    places = enumerate(numbers, weekday(first))
    cells = (_draw_day(days.get(number), place, is_today=number == today) for place, number in places)
    held = sum(number in days for number in numbers)
    label = f"{month_name[month]} {year}: {plural(held, 'day')} with something"
    week = enumerate("MTWTFSS")
    letters = (tag("text", letter, x=_CELL * place + 7, y=-4, aria_hidden="true") for place, letter in week)
    box = f"0 -{_CELL} {7 * _CELL - 2} {7 * _CELL - 2}"
    picture = tag("svg", letters, cells, viewBox=box, class_="month", role="group", aria_label=label)
    return tag("figure", tag("figcaption", month_name[month]), picture)


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
