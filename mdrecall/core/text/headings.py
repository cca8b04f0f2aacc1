"""The structure of Markdown lines: which are headings, and where a document is best cut."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]")
_BLOCK_START = re.compile(r" {0,3}(?:[-*+>|#]|\d{1,9}[.)]|    |\t)")

#: A heading and the opening of a fence are repeated with every chunk below them, so they are cut to this length.
HEADING_CHARS = 200

# How good a cut before a line is, from worst to best.
INSIDE_BLOCK, BETWEEN_LINES, LIST_ITEM, BLOCK, SECTION = range(5)


class Line(NamedTuple):
    """The role of a line in its document."""

    cut: int
    blank: bool
    level: int
    """1 to 6 for a heading, else 0."""
    heading: str
    """The heading as Markdown, such as ``## Decisions``; in a fence, the opening of the fence; else empty."""


_PLAIN, _BLANK = Line(BETWEEN_LINES, False, 0, ""), Line(BETWEEN_LINES, True, 0, "")
_ITEM, _BLOCK = Line(LIST_ITEM, False, 0, ""), Line(BLOCK, False, 0, "")


def read_lines(lines: list[str]) -> list[Line]:
    """Return the role of every line of a document, or of a part of it that begins outside any fence."""
    return list(_shapes(lines))


def trails(structure: list[Line]) -> Iterator[tuple[str, ...]]:
    """Yield for every line the headings above it and the fence around it; a heading is not above itself."""
    stack: list[Line] = []
    trail: tuple[str, ...] = ()
    for line in structure:
        if line.level:
            while stack and stack[-1].level >= line.level:
                stack.pop()
            yield tuple(above.heading for above in stack)
            stack.append(line)
            trail = tuple(above.heading for above in stack)
        else:
            yield (*trail, line.heading) if line.heading else trail


def titles(trail: tuple[str, ...]) -> list[str]:
    """Return the words of the headings in a trail."""
    return [heading_title(line) for line in trail if line.startswith("#")]


def heading_title(heading: str) -> str:
    """Return the words of a heading line: ``## Decisions`` is ``Decisions``."""
    return heading.lstrip("#").strip()


def _shapes(lines: list[str]) -> Iterator[Line]:
    fence = ""
    front_matter = bool(lines) and lines[0].rstrip() == "---" and "---" in (line.rstrip() for line in lines[1:200])
    after_break = True
    for index, raw in enumerate(lines):
        line = raw.rstrip()
        if fence or front_matter:
            closes = line == "---" and index > 0 if front_matter else _closes(line, fence)
            yield Line(INSIDE_BLOCK, not line, 0, fence[:HEADING_CHARS])
            if closes:
                fence, front_matter, after_break = "", False, True
            continue
        if not line:
            yield _BLANK
            after_break = True
            continue
        first = line.lstrip()[0]
        if (first == "#" or _is_underlined(lines, index)) and (heading := _heading(lines, index, line)):
            yield heading
        elif first in "`~" and (opening := _FENCE.match(line)):
            yield _BLOCK
            fence = opening[1]
        elif after_break:
            yield _BLOCK
        else:
            yield _ITEM if first in "-*+0123456789" and _LIST_ITEM.match(line) else _PLAIN
        after_break = False


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _is_underlined(lines: list[str], index: int) -> bool:
    return index + 1 < len(lines) and lines[index + 1].lstrip()[:1] in ("=", "-")


def _heading(lines: list[str], index: int, line: str) -> Line | None:
    if match := _ATX.match(line):
        title = line[match.end() :].rstrip("#").strip()
        return Line(SECTION, False, len(match[1]), f"{match[1]} {title}"[:HEADING_CHARS])
    if index + 1 < len(lines) and not _BLOCK_START.match(line):
        underline = _UNDERLINE.match(lines[index + 1].rstrip())
        if underline and (index == 0 or not lines[index - 1].strip()):
            level = 1 if underline[1][0] == "=" else 2
            return Line(SECTION, False, level, f"{'#' * level} {line.strip()}"[:HEADING_CHARS])
    return None
