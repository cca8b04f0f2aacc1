"""The plots of ``benchmarks.quality``, as SVG: the share of the evidence that is shown, against the characters read and
against the CPU time of a search."""

import math
import statistics
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from benchmarks.quality_report import Run, first_kinds

WIDTH, HEIGHT = 900, 560
LEFT, RIGHT, TOP, BOTTOM = 60, 190, 50, 50
#: Colours that also people with a colour deficiency tell apart, in pairs of light and dark.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#666666", "#882255", "#117733", "#332288")
#: The least distance between two names beside the curves.
NAME_GAP = 15


class Curve(NamedTuple):
    """The share of the evidence that is shown, by the number of characters."""

    name: str
    points: list[tuple[int, float]]


def read_curve(run: Run) -> Curve:
    """Return the means of the ``filled@N`` figures of a run."""
    questions = list(run["questions"].values())
    names = sorted((name for name in questions[0] if name.startswith("filled@")), key=lambda name: int(name[7:]))
    points = [(int(name[7:]), sum(entry[name] for entry in questions) / len(questions)) for name in names]
    return Curve(run["set"], points)


def draw_plot(after: Sequence[Run], before: Sequence[Run] = ()) -> str:
    """Return an SVG with a curve for each set; the curves of an earlier run are dashed."""
    curves = [read_curve(run) for run in first_kinds(after)]
    earlier = {curve.name: curve for curve in map(read_curve, first_kinds(before))}
    limits = sorted({chars for curve in curves for chars, _ in curve.points})
    parts = [*draw_frame(limits, dashed=bool(earlier))]
    colours = {curve.name: COLOURS[number % len(COLOURS)] for number, curve in enumerate(curves)}
    for curve in curves:
        if curve.name in earlier:
            parts.append(draw_line(earlier[curve.name], limits, colours[curve.name], dashed=True))
        parts.append(draw_line(curve, limits, colours[curve.name]))
    parts += draw_names(curves, colours)
    return wrap(parts, "Evidence shown against characters read")


def across(chars: float, limits: Sequence[int]) -> float:
    """Return the place of a number of characters: every doubling is as wide."""
    span = math.log(limits[-1] / limits[0]) or 1.0
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log(chars / limits[0]) / span


def down(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def draw_frame(
    limits: Sequence[int],
    *,
    dashed: bool,
    title: str = "Evidence shown within the characters read",
    below: str = "characters",
) -> list[str]:
    end = WIDTH - RIGHT
    title += " (dashed: before)" if dashed else ""
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="26" font-size="16" fill="#222">{title}</text>',
        f'<text x="{(LEFT + end) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle" fill="#444">{below}</text>',
    ]
    for tenth in range(0, 11, 2):
        y = down(tenth / 10)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{end}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{tenth / 10:.1f}</text>')
    for chars in limits:
        x = across(chars, limits)
        parts.append(f'<line x1="{x:.1f}" y1="{down(0):.1f}" x2="{x:.1f}" y2="{down(0) + 5:.1f}" stroke="#888"/>')
        parts.append(f'<text x="{x:.1f}" y="{down(0) + 20:.1f}" text-anchor="middle" fill="#444">{chars:,}</text>')
    return parts


def draw_line(curve: Curve, limits: Sequence[int], colour: str, *, dashed: bool = False) -> str:
    points = " ".join(f"{across(chars, limits):.1f},{down(share):.1f}" for chars, share in curve.points)
    style = 'stroke-width="1.2" stroke-dasharray="5 4"' if dashed else 'stroke-width="2.2"'
    title = f"<title>{escape(curve.name)}</title>"
    return f'<polyline points="{points}" fill="none" stroke="{colour}" {style}>{title}</polyline>'


def draw_names(curves: Sequence[Curve], colours: dict[str, str]) -> list[str]:
    """Write each name beside the end of its curve, moved apart where they would overlap."""
    ordered = sorted(curves, key=lambda curve: -curve.points[-1][1])
    ends = [down(curve.points[-1][1]) for curve in ordered]
    x = WIDTH - RIGHT
    parts = []
    for curve, end, y in zip(ordered, ends, spread(ends), strict=True):
        colour = colours[curve.name]
        label = f"{escape(curve.name)} {curve.points[-1][1]:.2f}"
        parts.append(f'<line x1="{x}" y1="{end:.1f}" x2="{x + 12}" y2="{y:.1f}" stroke="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="{y + 4:.1f}" fill="{colour}">{label}</text>')
    return parts


def spread(places: Sequence[float], end: float = HEIGHT - BOTTOM) -> list[float]:
    """Return ascending places moved down until each is far enough from the one before, and then up to the end."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + NAME_GAP) if found else place)
    for number in reversed(range(len(found))):
        most = end if number == len(found) - 1 else found[number + 1] - NAME_GAP
        found[number] = min(found[number], most)
    return found


def draw_speed(runs: Sequence[Run]) -> str:
    """Return an SVG with a small dot for each set and mode, and a large one for the mean of each mode."""
    points: dict[str, list[tuple[float, float]]] = {}
    for run in first_kinds(runs):
        questions = list(run["questions"].values())
        cpu_ms = statistics.median(entry["cpu_ms"] for entry in questions)
        points.setdefault(run["mode"], []).append((cpu_ms, statistics.mean(entry["shown@4000"] for entry in questions)))
    limits = [2**power for power in range(11) if 2**power <= 2 * max(x for own in points.values() for x, _ in own)]
    parts = draw_frame(limits, dashed=False, title="Evidence shown within 4,000 characters", below="CPU ms per search")
    for number, (mode, own) in enumerate(points.items()):
        for x, y in own:
            parts.append(
                f'<circle cx="{across(max(x, 1), limits):.1f}" cy="{down(y):.1f}" r="3" fill="{COLOURS[number]}"/>'
            )
        mean_x, mean_y = (statistics.mean(values) for values in zip(*own, strict=True))
        x, y = across(max(mean_x, 1), limits), down(mean_y)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="{COLOURS[number]}" fill-opacity="0.7"/>')
        label = f"{mode}: {mean_y:.2f} in {mean_x:.1f} ms"
        place = f'x="{WIDTH - RIGHT + 8}" y="{TOP + 20 * number + 20}"'
        parts.append(f'<text {place} fill="{COLOURS[number]}">{escape(label)}</text>')
    return wrap(parts, "Evidence shown against CPU time")


def wrap(parts: Sequence[str], label: str) -> str:
    """Return the parts of a plot as a whole SVG."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="13" role="img" aria-label="{label}">\n{body}\n</svg>\n'
    )
