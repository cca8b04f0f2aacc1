"""A long note in parts, so that no page is heavy. A part ends where a reader would turn the page, if it can."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from html import escape
from itertools import accumulate
from typing import NamedTuple

from mdrecall.ui.markdown import slug

#: What a part may weigh as HTML, rendered and as it is: with all else, a page then stays below 150 KB.
MAX_WEIGHT = 110_000
#: The elements around a line as it is, around a rendered one, and those of a link with its address.
_RAW_WEIGHT, _LINE_WEIGHT, _LINK_WEIGHT = 35, 60, 120
#: A piece of a long line ends with a word, if one ends that near.
_WORD_CHARS = 200
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


class Part(NamedTuple):
    """Lines of a note."""

    text: str
    first: int
    last: int
    fence: str
    """What has opened the code block in which the part begins; empty if it begins in none."""


def split_note(text: str) -> list[Part]:
    """Return the parts of a note; a short one is a single part."""
    lines = text.removesuffix("\n").split("\n")
    fences = list(_open_fences(lines))
    weights = [0, *accumulate(map(_weigh, lines))]
    parts: list[Part] = []
    start = 0
    while start < len(lines):
        end = bisect_right(weights, weights[start] + MAX_WEIGHT) - 1
        if end == start:
            end += 1
            parts += (Part(piece, end, end, fences[start]) for piece in _cut_line(lines[start]))
        else:
            if end < len(lines):
                middle = max(start + 1, bisect_right(weights, weights[start] + MAX_WEIGHT // 2) - 1)
                end = max(range(middle, end + 1), key=lambda line: (_rank_turn(lines, fences, line), line))
            parts.append(Part("\n".join(lines[start:end]), start + 1, end, fences[start]))
        start = end
    return parts


def find_line(parts: list[Part], line: int) -> int:
    """Return the index of the part that holds a line; the last one if the note has fewer."""
    return next((index for index, part in enumerate(parts) if line <= part.last), len(parts) - 1)


def find_heading(parts: list[Part], wanted: str) -> int:
    """Return the index of the part that holds a heading, by its slug; the first one if there is no such heading."""
    for index, part in enumerate(parts):
        if any(line.startswith("#") and slug(line.strip("# ")) == wanted for line in part.text.split("\n")):
            return index
    return 0


def _weigh(line: str) -> int:
    """Return about what a line weighs as HTML."""
    if not line:
        return _RAW_WEIGHT
    links = line.count("[[") + line.count("](")
    return _RAW_WEIGHT + _LINE_WEIGHT + 2 * len(escape(line).encode(errors="replace")) + links * _LINK_WEIGHT


def _open_fences(lines: list[str]) -> Iterator[str]:
    """Yield for each line what has opened the code block in which it begins."""
    opened = ""
    for line in lines:
        yield opened
        found = _FENCE.match(line)
        if found and not opened:
            opened = found[1]
        elif found and found[1].startswith(opened) and not line[found.end() :].strip():
            opened = ""


def _rank_turn(lines: list[str], fences: list[str], line: int) -> int:
    """Return how well the page is turned before a line: best before a heading, never well inside a block."""
    if fences[line] or lines[line][:1].isspace():
        return 0
    if lines[line].startswith("#"):
        return 3
    return 2 if not lines[line - 1].strip() else 1


def _cut_line(line: str) -> Iterator[str]:
    while line:
        size = min(len(line), MAX_WEIGHT // 2)
        while _weigh(line[:size]) > MAX_WEIGHT:
            size //= 2
        if size < len(line):
            size = line.rfind(" ", max(1, size - _WORD_CHARS), size) + 1 or size
        yield line[:size]
        line = line[size:]
