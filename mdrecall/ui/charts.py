"""Charts as SVG: sizes are attributes and colours are classes, because the page allows no inline style."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mdrecall.core.text.days import day_number, month_length, weekday
from mdrecall.ui.html import Html, tag

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
#: The side of a day in a month, with the gap to the next one. The style gives the square a side of 14.
_CELL = 16
#: What each shade says, from the lightest: the days that hold anything are divided into quarters.
_SHADES = ("nothing", "little", "some", "much", "most")
#: A line of more points looks the same on a screen of 1,000 points.
_MAX_LINE_POINTS = 200
_LINE_WIDTH, _LINE_HEIGHT = 600, 120


class Day(NamedTuple):
    """A day of a calendar."""

    shade: int
    """From 1 to 4: the quarter of the days that it belongs to, by how much it holds."""
    title: str
    """What a pointer or a screen reader tells of it."""
    url: str


def draw_month(year: int, month: int, days: Mapping[int, Day], today: int) -> Html:
    """Return a month as a calendar whose days are darker the more text they hold; other days are not in ``days``."""
    first = day_number(year, month, 1) or 1
    shift = weekday(first)
    name = f"{MONTHS[month - 1]} {year}"
    held = sum(first + number in days for number in range(month_length(year, month)))
    cells = (
        _draw_day(days.get(first + number), shift + number, is_today=first + number == today)
        for number in range(month_length(year, month))
    )
    label = f"{name}: {held} {'day' if held == 1 else 'days'} with something"
    box = f"0 0 {7 * _CELL - 2} {6 * _CELL - 2}"
    picture = tag("svg", cells, viewBox=box, class_="month", role="group", aria_label=label)
    return tag("figure", tag("figcaption", MONTHS[month - 1]), picture)


def _draw_day(day: Day | None, place: int, *, is_today: bool) -> Html:
    shade = day.shade if day else 0
    name = f"heat{shade} today" if is_today else f"heat{shade}"
    x, y = _CELL * (place % 7), _CELL * (place // 7)
    if day is None:
        return tag("rect", x=x, y=y, class_=name)
    square = tag("rect", tag("title", day.title), x=x, y=y, class_=name)
    return tag("a", square, href=day.url, aria_label=day.title)


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


def draw_growth(values: Sequence[float], title: str) -> Html:
    """Return a line from left to right with the ground below it filled; ``title`` says what it shows, in words."""
    points = _thin_out(values)
    most = max((*points, 1e-9))
    step = _LINE_WIDTH / max(len(points) - 1, 1)
    corners = [(round(number * step, 1), _height_of(value, most)) for number, value in enumerate(points)]
    if len(corners) == 1:
        corners.append((_LINE_WIDTH, corners[0][1]))
    line = " ".join(f"{x},{y}" for x, y in corners)
    ground = f"0,{_LINE_HEIGHT} {line} {_LINE_WIDTH},{_LINE_HEIGHT}"
    return tag(
        "svg",
        tag("title", title),
        tag("polygon", points=ground, class_="ground"),
        tag("polyline", points=line, class_="line"),
        viewBox=f"0 0 {_LINE_WIDTH} {_LINE_HEIGHT}",
        preserveAspectRatio="none",
        class_="growth",
        role="img",
        aria_label=title,
    )


def _height_of(value: float, most: float) -> float:
    # A little room at the top, so that the line is not cut.
    return round(_LINE_HEIGHT - (_LINE_HEIGHT - 4) * value / most, 1)


def _thin_out(values: Sequence[float]) -> list[float]:
    """Return so many of the values, evenly chosen with the first and the last, that a line is worth drawing."""
    if len(values) <= _MAX_LINE_POINTS:
        return list(values)
    last = len(values) - 1
    return [values[round(number * last / (_MAX_LINE_POINTS - 1))] for number in range(_MAX_LINE_POINTS)]


class Point(NamedTuple):
    """A point of a map."""

    x: float
    """From 0 to 1, as ``y``."""
    y: float
    group: int
    """Its colour and shape, from 0 to ``GROUPS - 1``."""
    size: int
    """0, 1 or 2."""
    title: str
    url: str
    is_chosen: bool = False


#: The outline of each group around the origin, for a radius of 1: circle, square, diamond, two triangles, cross, ring.
_SHAPES = (
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0",
    "M-.9-.9h1.8v1.8h-1.8z",
    "M0-1.2 1.2 0 0 1.2-1.2 0z",
    "M0-1.15 1.1.85H-1.1z",
    "M0 1.15 1.1-.85H-1.1z",
    "M-.4-1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z",
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0M-.5 0a.5.5 0 1 1 1 0a.5.5 0 1 1-1 0",
)
#: How many groups a map can tell apart; the last is for all others.
GROUPS = len(_SHAPES)
_RADII = (6, 8, 11)
_MAP_WIDTH, _MAP_HEIGHT, _MAP_MARGIN = 1000, 640, 20


def draw_points(points: Sequence[Point], title: str) -> Html:
    """Return points that are links, each group in its colour and shape; chosen ones stand out from the others."""
    shapes = (
        tag("path", id=f"s{group}{size}", d=shape, transform=f"scale({radius})")
        for group, shape in enumerate(_SHAPES)
        for size, radius in enumerate(_RADII)
    )
    groups = (
        tag("g", (_draw_point(point) for point in points if point.group == group), class_=f"group{group}")
        for group in range(GROUPS)
    )
    has_chosen = any(point.is_chosen for point in points)
    return tag(
        "svg",
        tag("defs", shapes),
        groups,
        viewBox=f"0 0 {_MAP_WIDTH} {_MAP_HEIGHT}",
        class_="map some" if has_chosen else "map",
        role="group",
        aria_label=title,
        data_arrows="a",
    )


def _draw_point(point: Point) -> Html:
    x = _MAP_MARGIN + point.x * (_MAP_WIDTH - 2 * _MAP_MARGIN)
    y = _MAP_MARGIN + point.y * (_MAP_HEIGHT - 2 * _MAP_MARGIN)
    mark = tag("use", href=f"#s{point.group}{point.size}", x=round(x), y=round(y))
    return tag("a", mark, href=point.url, aria_label=point.title, class_="on" if point.is_chosen else None)


def draw_mark(group: int) -> Html:
    """Return the shape of a group, for a legend."""
    shape = tag("path", d=_SHAPES[group])
    return tag("svg", shape, viewBox="-1.3 -1.3 2.6 2.6", class_=f"mark group{group}", aria_hidden="true")
