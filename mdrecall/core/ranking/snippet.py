"""What is shown of a passage: the lines around it, and the headings above it."""

import re
from collections.abc import Set
from typing import NamedTuple

from mdrecall.core.text.headings import read_lines, titles, trails
from mdrecall.core.text.passages import LONG_LINE, Passage, split_line

#: The length of a snippet in UTF-16 units, as in OpenClaw.
MAX_SNIPPET_UNITS = 700
#: Stands where a line is cut, so that a part of it is not taken for the whole.
ELLIPSIS = "…"
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
# A text without any of them has no heading, neither behind hashes nor underlined.
_HEADING_MARKS = ("#", "=", "--")


class _Segment(NamedTuple):
    """A line of a chunk, or a sentence of a long line."""

    line: int
    start: int
    end: int


class ShownLines(NamedTuple):
    """What is shown of a chunk: the text, and its lines counted from 0."""

    text: str
    first_line: int
    last_line: int


def show_around(
    text: str,
    passage: Passage,
    max_units: int = MAX_SNIPPET_UNITS,
    avoid: Set[int] = frozenset(),
    limit: int = MAX_SNIPPET_UNITS,
) -> ShownLines:
    """Return the passage with as many whole lines around it as fit, in the middle if possible.

    Lines in ``avoid`` are not added. A passage that is longer by itself than ``limit`` is cut, its headings first.
    """
    segments = _segments(text)
    inside = [i for i, segment in enumerate(segments) if passage.start <= segment.start < max(passage.end, 1)]
    first, last = (inside[0], inside[-1]) if inside else (0, 0)
    while last > first and utf16_units(text[segments[first].start : segments[last].end]) > limit:
        if segments[first].line <= passage.heading or not text[segments[first].start : segments[first].end].strip():
            first += 1
        else:
            last -= 1
    grown = True
    while grown:
        grown = False
        for before, after in ((0, 1), (1, 0)):
            wider = (first - before, last + after)
            if _fits(text, segments, wider, max_units) and segments[wider[0 if before else 1]].line not in avoid:
                (first, last), grown = wider, True
    while last > first and not text[segments[last].start : segments[last].end].strip():
        last -= 1
    while last > first and not text[segments[first].start : segments[first].end].strip():
        first += 1
    start, end = segments[first].start, segments[last].end
    shown = shorten(text[start:end].strip("\r\n"), limit)
    if start and text[start - 1] != "\n":
        shown = shorten(ELLIPSIS + shown, limit)
    if not shown.endswith(ELLIPSIS) and text[end : end + 1].strip("\r\n"):
        shown = cut_units(shown, limit - 1) + ELLIPSIS
    return ShownLines(shown, segments[first].line, segments[last].line)


def heading_above(chunk_trail: tuple[str, ...], text: str, passage: Passage) -> str:
    """Return the headings above a passage, outermost first, joined with `` › ``; ``chunk_trail`` precedes the text."""
    if not any(mark in text for mark in _HEADING_MARKS):
        return " › ".join(titles(chunk_trail))
    structure = read_lines([*chunk_trail, *text.split("\n")[: max(passage.first_line, passage.heading) + 1]])
    *_, trail = trails(structure)
    if structure[-1].level:
        trail = (*trail, structure[-1].heading)
    return " › ".join(titles(trail))


def _fits(text: str, segments: list[_Segment], span: tuple[int, int], max_units: int) -> bool:
    first, last = span
    inside = 0 <= first <= last < len(segments)
    return inside and utf16_units(text[segments[first].start : segments[last].end]) <= max_units


def utf16_units(text: str) -> int:
    """Return the length as JavaScript counts it: a character beyond U+FFFF is two units."""
    return len(text) if text.isascii() else len(text) + len(_ASTRAL.findall(text))


def cut_units(text: str, max_units: int) -> str:
    """Return the longest beginning of ``text`` within ``max_units``."""
    text = text[:max_units]
    while (excess := utf16_units(text) - max_units) > 0:
        text = text[: len(text) - max(1, excess // 2)]
    return text


def shorten(text: str, max_units: int) -> str:
    """Return a text within ``max_units``; one that is cut ends with an ellipsis."""
    return text if utf16_units(text) <= max_units else cut_units(text, max_units - 1) + ELLIPSIS


def _segments(text: str) -> list[_Segment]:
    segments: list[_Segment] = []
    offset = 0
    for number, line in enumerate(text.split("\n")):
        if len(line) <= LONG_LINE:
            segments.append(_Segment(number, offset, offset + len(line)))
        else:
            segments += [_Segment(number, offset + start, offset + end) for start, end in split_line(line)]
        offset += len(line) + 1
    return segments
