"""The shape of Markdown lines: which are headings, and where a cut between lines does least harm."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]")
_BLOCK_START = re.compile(r" {0,3}(?:[-*+>|#]|\d{1,9}[.)]|    |\t)")

# How good it is to cut before a line, from worst to best.
INSIDE_BLOCK, BETWEEN_LINES, LIST_ITEM, BLOCK, SECTION = range(5)


class Line(NamedTuple):
    """What a line is in its document."""

    cut: int
    blank: bool
    level: int
    """1 to 6 for a heading, else 0."""
    heading: str
    """The heading as Markdown, such as ``## Decisions``, else empty."""


def read_lines(lines: list[str]) -> list[Line]:
    """The shape of every line of a document (or of a part that begins outside any fence)."""
    return list(_shapes(lines))


def trails(structure: list[Line]) -> Iterator[tuple[str, ...]]:
    """For every line, the headings it stands under; a heading is not under itself."""
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
            yield trail


def heading_title(heading: str) -> str:
    """The words of a heading line: ``## Decisions`` is ``Decisions``."""
    return heading.lstrip("#").strip()


def _shapes(lines: list[str]) -> Iterator[Line]:
    fence = ""
    front_matter = bool(lines) and lines[0].rstrip() == "---" and "---" in (line.rstrip() for line in lines[1:200])
    after_break = True
    for index, raw in enumerate(lines):
        line = raw.rstrip()
        if fence or front_matter:
            closes = line == "---" and index > 0 if front_matter else _closes(line, fence)
            yield Line(INSIDE_BLOCK, not line, 0, "")
            if closes:
                fence, front_matter, after_break = "", False, True
            continue
        if not line:
            yield Line(BETWEEN_LINES, True, 0, "")
            after_break = True
            continue
        heading = _heading(lines, index, line)
        opening = _FENCE.match(line)
        if heading:
            yield Line(SECTION, False, heading[0], heading[1])
        elif opening or after_break:
            yield Line(BLOCK, False, 0, "")
        else:
            yield Line(LIST_ITEM if _LIST_ITEM.match(line) else BETWEEN_LINES, False, 0, "")
        fence = opening[1] if opening else ""
        after_break = False


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _heading(lines: list[str], index: int, line: str) -> tuple[int, str] | None:
    if match := _ATX.match(line):
        title = line[match.end() :].rstrip("#").strip()
        return len(match[1]), f"{match[1]} {title}"
    if index + 1 < len(lines) and not _BLOCK_START.match(line):
        underline = _UNDERLINE.match(lines[index + 1].rstrip())
        if underline and (index == 0 or not lines[index - 1].strip()):
            level = 1 if underline[1][0] == "=" else 2
            return level, f"{'#' * level} {line.strip()}"
    return None
