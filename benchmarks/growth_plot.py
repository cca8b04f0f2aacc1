"""The plot of ``benchmarks.growth``, as SVG: four panels, in which both axes have a step for every tenfold."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from benchmarks.quality_plot import COLOURS

_WIDTH, _HEIGHT = 440, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 130, 36, 42
#: The title of each panel, and its figures with their short names.
PANELS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("First index, CPU seconds", {"index, CPU s": "index"}),
    (
        "A search, CPU milliseconds",
        {"cold search, ms": "cold", "warm search, ms": "warm", "warm search by words, ms": "warm, by words"},
    ),
    ("Memory, MB", {"index, peak MB": "indexing", "warm memory, MB": "warm process"}),
    ("Disk, index bytes / text bytes", {"disk / text": "disk"}),
)


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
        f'font-size="12" role="img" aria-label="{escape(heading)}">\n<rect width="{width}" height="{height}" '
        f'fill="white"/>\n<text x="{_LEFT}" y="22" font-size="15" fill="#222">{escape(heading)}</text>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
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
    parts = [f'<text x="{_LEFT}" y="22" font-weight="bold" fill="#222">{escape(title)}</text>']
    for value, y in down.marks():
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{value:,g}</text>')
    for value, x in across.marks():
        y = _HEIGHT - _BOTTOM + 18
        parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle" fill="#444">{_shorten(value)}</text>')
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number]
        drawn = " ".join(f"{across.place(x):.1f},{down.place(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        x, y = across.place(points[-1][0]), down.place(points[-1][1])
        label = f"{name} {points[-1][1]:,.3g}" if points[-1][1] < 100 else f"{name} {points[-1][1]:,.0f}"
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 4:.1f}" fill="{colour}">{escape(label)}</text>')
    return parts


def _shorten(count: float) -> str:
    return f"{count / 1e6:g}M" if count >= 1e6 else f"{count / 1e3:g}k" if count >= 1e3 else f"{count:g}"
