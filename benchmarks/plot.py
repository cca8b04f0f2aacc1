"""The plots of the benchmarks, as SVG: lines in panels, and bars."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

#: Colours that also people with a colour deficiency tell apart, and that can be read on white and on black.
COLOURS = ("#1f83c9", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#777777", "#aa4488", "#4d9221", "#7a6fd0")
#: The least distance between two names beside the curves.
NAME_GAP = 15
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 150, 36, 42
# A reader's theme decides between light and dark; a plot has a background of its own, so that it can be read in both.
_STYLE = """<style>
.back { fill: #fff } .text { fill: #222 } .mark { fill: #555 } .grid { stroke: #ddd }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117 } .text { fill: #e6edf3 } .mark { fill: #9aa4af } .grid { stroke: #30363d }
}
</style>"""

Points = Sequence[tuple[float, float]]


class Panel(NamedTuple):
    """Lines over an axis on which every tenfold takes as much room."""

    title: str
    lines: Mapping[str, Points]
    earlier: Mapping[str, Points] = {}
    """The same lines of an earlier run, which are dashed."""
    is_share: bool = False
    """True if values are shares from 0 to 1; else every tenfold takes as much room here too."""


class Scale(NamedTuple):
    """An axis: what its ends are, where they are drawn, and the values that are marked."""

    low: float
    high: float
    start: float
    end: float
    marks: Sequence[float]
    is_log: bool = True

    def place(self, value: float) -> float:
        """Return where a value is drawn."""
        if self.is_log:
            part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * part


def make_log_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """Return an axis from the power of ten below all values to the one above."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    return Scale(10.0**low, 10.0**high, start, end, [10.0**power for power in range(low, high + 1)])


def draw_panels(heading: str, panels: Sequence[Panel], width: int = 440, height: int = 270) -> str:
    """Return panels side by side, two in a row."""
    parts = []
    for number, panel in enumerate(panels):
        x, y = number % 2 * width, 24 + number // 2 * height
        parts.append(f'<g transform="translate({x},{y})">\n' + "\n".join(_draw_panel(panel, width, height)) + "\n</g>")
    columns = min(2, len(panels))
    return _wrap(heading, parts, columns * width, 24 + height * math.ceil(len(panels) / columns))


def _draw_panel(panel: Panel, width: int, height: int) -> list[str]:
    points = [point for line in (*panel.lines.values(), *panel.earlier.values()) for point in line]
    if not points:
        return []
    right, bottom = width - _RIGHT, height - _BOTTOM
    across = make_log_scale([x for x, _ in points], _LEFT, right)
    if panel.is_share:
        across = across._replace(low=min(x for x, _ in points), high=max(x for x, _ in points))
        across = across._replace(marks=sorted({x for x, _ in points}))
        down = Scale(0, 1, bottom, _TOP, [tenth / 10 for tenth in range(0, 11, 2)], is_log=False)
    else:
        down = make_log_scale([y for _, y in points], bottom, _TOP)
    parts = [f'<text x="{_LEFT}" y="22" font-weight="bold" class="text">{escape(panel.title)}</text>']
    for value in down.marks:
        y = down.place(value)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" class="mark">{value:,g}</text>')
    for value in across.marks:
        x = across.place(value)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" class="mark">{_shorten(value)}</text>')
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(panel.lines)}
    for lines, style in (
        (panel.earlier, 'stroke-width="1.2" stroke-dasharray="5 4"'),
        (panel.lines, 'stroke-width="2.2"'),
    ):
        for name, line in lines.items():
            drawn = " ".join(f"{across.place(x):.1f},{down.place(y):.1f}" for x, y in line)
            shape = f'<polyline points="{drawn}" fill="none" stroke="{colours[name]}" {style}>'
            parts.append(f"{shape}<title>{escape(name)}</title></polyline>")
    return parts + _draw_names(panel, across, down, colours)


def _draw_names(panel: Panel, across: Scale, down: Scale, colours: Mapping[str, str]) -> list[str]:
    """Return each name with the last value beside the end of its line, moved apart where they would overlap."""
    ordered = sorted(panel.lines.items(), key=lambda line: -line[1][-1][1])
    places = spread([down.place(points[-1][1]) for _, points in ordered], down.start)
    # Behind the end of every line, so that no name lies over one.
    edge = max(across.place(x) for line in (*panel.lines.values(), *panel.earlier.values()) for x, _ in line)
    parts = []
    for (name, points), y in zip(ordered, places, strict=True):
        x, value = points[-1]
        label = f"{name} {value:.2f}" if panel.is_share else f"{name} {value:,.{0 if value >= 100 else 1}f}"
        start, end, colour = across.place(x), down.place(value), colours[name]
        parts.append(
            f'<line x1="{start:.1f}" y1="{end:.1f}" x2="{edge + 10:.1f}" y2="{y:.1f}" stroke="{colour}" opacity=".4"/>'
        )
        parts.append(f'<text x="{edge + 13:.1f}" y="{y + 4:.1f}" fill="{colour}">{escape(label)}</text>')
    return parts


def spread(places: Sequence[float], end: float) -> list[float]:
    """Return ascending places moved down until each is far enough from the one before, and then up to the end."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + NAME_GAP) if found else place)
    for number in reversed(range(len(found))):
        most = end if number == len(found) - 1 else found[number + 1] - NAME_GAP
        found[number] = min(found[number], most)
    return found


def draw_bars(
    heading: str, figures: Mapping[str, Mapping[str, float]], describe: Callable[[str, float, float], str]
) -> str:
    """Return bars for each figure of each program, as multiples of the first one's on a scale of doublings."""
    names, y = list(figures), 58
    parts = []
    for row, ours in figures[names[0]].items():
        parts.append(f'<text x="10" y="{y}" font-weight="bold" class="text">{escape(row)}</text>')
        y += 8
        for number, name in enumerate(names):
            if (value := figures[name].get(row)) is None:
                continue
            width = 40 * max(0.1, 2 + math.log2(value / ours))
            label = f"{name} {describe(row, value, ours)}"
            parts.append(f'<rect x="10" y="{y}" width="{width:.0f}" height="13" fill="{COLOURS[number]}"/>')
            parts.append(f'<text x="{width + 16:.0f}" y="{y + 11}" class="text">{escape(label)}</text>')
            y += 18
        y += 22
    return _wrap(heading, parts, 720, y)


def _wrap(heading: str, parts: Sequence[str], width: int, height: int) -> str:
    """Return the parts of a plot as a whole SVG."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(heading)}">\n{_STYLE}\n<rect width="{width}" '
        f'height="{height}" class="back"/>\n<text x="10" y="22" font-size="15" class="text">{escape(heading)}</text>\n'
        f"{body}\n</svg>\n"
    )


def _shorten(count: float) -> str:
    return f"{count / 1e6:g}M" if count >= 1e6 else f"{count / 1e3:g}k" if count >= 1e3 else f"{count:g}"
