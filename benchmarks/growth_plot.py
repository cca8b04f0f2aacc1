"""The plot of ``benchmarks.growth``, as SVG: panels in which both axes have a step for every tenfold."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from benchmarks.quality_plot import COLOURS, spread

_WIDTH, _HEIGHT = 440, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 130, 36, 42
#: The title of each panel, and its figures with their short names.
PANELS: tuple[tuple[str, Mapping[str, str]], ...] = (
    (
        "A search, CPU milliseconds",
        {
            "cold search, ms": "cold",
            "warm search, ms": "warm",
            "warm search by words, ms": "warm, by words",
            "'the' again, ms": "warm: the",
        },
    ),
    ("First search of a process, CPU seconds", {"first search, CPU s": "first"}),
    ("Indexing, CPU seconds", {"index, CPU s": "first", "nothing changed, s": "unchanged"}),
    ("Memory, MB", {"index, peak MB": "indexing", "warm memory, MB": "warm process"}),
    ("Searches a second on idle cores", {"4 processes, searches/s on idle cores": "4 processes"}),
    ("Disk, index bytes / text bytes", {"disk / text": "disk"}),
)
# A reader's theme decides between light and dark; the plot has a background of its own, so that it can be read in both.
_STYLE = """<style>
.back { fill: #fff } .text { fill: #222 } .mark { fill: #555 } .grid { stroke: #ddd }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117 } .text { fill: #e6edf3 } .mark { fill: #9aa4af } .grid { stroke: #30363d }
}
</style>"""
# A blue that can be read on white and on black, and the other colours of plots, which can.
_LINES = ("#1f83c9", *COLOURS[1:])


class Scale(NamedTuple):
    """An axis on which every tenfold takes as much room."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return where a value is drawn."""
        span = math.log(self.high / self.low)
        return self.start + (self.end - self.start) * math.log(max(value, self.low) / self.low) / span

    def marks(self) -> list[tuple[float, float]]:
        """Return the powers of ten on the axis, and where they are drawn."""
        first, last = round(math.log10(self.low)), round(math.log10(self.high))
        return [(10.0**power, self.place(10.0**power)) for power in range(first, last + 1)]


def make_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """Return an axis from the power of ten below all values to the one above."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Scale(10.0**low, 10.0 ** max(high, low + 1), start, end)


def draw_growth(report: Mapping[str, Any]) -> str:
    """Return the panels of a report side by side, two in a row."""
    parts = []
    for number, (title, figures) in enumerate(PANELS):
        x, y = number % 2 * _WIDTH, number // 2 * _HEIGHT
        body = "\n".join(draw_panel(title, figures, report["sizes"]))
        parts.append(f'<g transform="translate({x},{y + 24})">\n{body}\n</g>')
    width, height = 2 * _WIDTH, 24 + _HEIGHT * math.ceil(len(PANELS) / 2)
    heading = f"mdrecall by the number of chunks ({report['machine']}, {report['date']})"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(heading)}">\n{_STYLE}\n<rect width="{width}" '
        f'height="{height}" class="back"/>\n<text x="{_LEFT}" y="22" font-size="15" class="text">'
        f"{escape(heading)}</text>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def draw_panel(title: str, figures: Mapping[str, str], sizes: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the axes and lines of one panel."""
    lines = {
        name: [(size["chunks"], size[figure]) for size in sizes if figure in size] for figure, name in figures.items()
    }
    lines = {name: points for name, points in lines.items() if points}
    everything = [point for points in lines.values() for point in points]
    if not everything:
        return []
    across = make_scale([x for x, _ in everything], _LEFT, _WIDTH - _RIGHT)
    down = make_scale([y for _, y in everything], _HEIGHT - _BOTTOM, _TOP)
    parts = [f'<text x="{_LEFT}" y="22" font-weight="bold" class="text">{escape(title)}</text>']
    for value, y in down.marks():
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" class="mark">{value:,g}</text>')
    for value, x in across.marks():
        y = _HEIGHT - _BOTTOM + 18
        parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle" class="mark">{_shorten(value)}</text>')
    for colour, points in zip(_LINES, lines.values(), strict=False):
        drawn = " ".join(f"{across.place(x):.1f},{down.place(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        parts += [
            f'<circle cx="{across.place(x):.1f}" cy="{down.place(y):.1f}" r="3" fill="{colour}"/>' for x, y in points
        ]
    named = [(points[-1], name, colour) for colour, (name, points) in zip(_LINES, lines.items(), strict=False)]
    named.sort(key=lambda entry: -entry[0][1])
    places = spread([down.place(y) for (_, y), _, _ in named], _HEIGHT - _BOTTOM)
    for ((last, value), name, colour), y in zip(named, places, strict=True):
        label = f"{name} {value:,.3g}" if value < 100 else f"{name} {value:,.0f}"
        parts.append(f'<text x="{across.place(last) + 6:.1f}" y="{y + 4:.1f}" fill="{colour}">{escape(label)}</text>')
    return parts


def _shorten(count: float) -> str:
    return f"{count / 1e6:g}M" if count >= 1e6 else f"{count / 1e3:g}k" if count >= 1e3 else f"{count:g}"
