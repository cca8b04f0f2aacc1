"""The structure of Markdown lines: which are headings, where a document is best cut, and its sections."""

import sys
from collections.abc import Iterable, Iterator
from itertools import compress
from operator import attrgetter

from mdrecall.named_tuple import NamedTuple
from mdrecall.patterns import compile_later

_ATX = compile_later(r" {0,3}(#{1,6})(?:[ \t]+|$)")
_UNDERLINE = compile_later(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = compile_later(r" {0,3}(`{3,}|~{3,})")
_ITEM_STARTS = frozenset("-*+0123456789")
_BULLETS, _BLANKS = frozenset("-*+"), frozenset(" \t")
_LIST_ITEM = compile_later(r" {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]\s*\S")
_RULES = frozenset("=-")
_BLOCK_START = compile_later(r" {0,3}(?:[-*+>|#]|\d{1,9}[.)]|    |\t)")

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
_LEVEL_OF = attrgetter("level")
# After the last line of any document.
_NO_MORE = (sys.maxsize, _PLAIN)


def trails(structure: list[Line]) -> Iterator[tuple[str, ...]]:
    """Yield for every line the headings above it and the fence around it; a heading is not above itself."""
    stack: list[Line] = []
    trail: tuple[str, ...] = ()
    for line in structure:
        if not line.heading:
            yield trail
        elif line.level:
            while stack and stack[-1].level >= line.level:
                stack.pop()
            yield tuple(above.heading for above in stack)
            stack.append(line)
            trail = tuple(above.heading for above in stack)
        else:
            yield (*trail, line.heading)


def find_trails(structure: list[Line], wanted: Iterable[int]) -> Iterator[tuple[str, ...]]:
    """Yield what ``trails`` does for some lines, by their places in the document in ascending order."""
    headings = compress(enumerate(structure), map(_LEVEL_OF, structure))
    next_place, heading = next(headings, _NO_MORE)
    stack: list[Line] = []
    for place in wanted:
        while next_place < place:
            while stack and stack[-1].level >= heading.level:
                stack.pop()
            stack.append(heading)
            next_place, heading = next(headings, _NO_MORE)
        line = structure[place]
        above = tuple([each.heading for each in stack if not line.level or each.level < line.level])
        yield (*above, line.heading) if line.heading and not line.level else above


def titles(trail: tuple[str, ...]) -> list[str]:
    """Return the words of the headings in a trail."""
    return [heading_title(line) for line in trail if line.startswith("#")]


def hash_titles(lines: Iterable[str]) -> list[str]:
    """Return the words of the headings above the last line, which may be one; the lines have no fence or underline."""
    found: list[Line] = []
    for line in lines:
        if heading := _hash_heading(line.rstrip()):
            while found and found[-1].level >= heading.level:
                found.pop()
            found.append(heading)
    return [heading_title(line.heading) for line in found]


def heading_title(heading: str) -> str:
    """Return the words of a heading line: ``## Decisions`` is ``Decisions``."""
    return heading.lstrip("#").strip()


def read_lines(lines: list[str]) -> list[Line]:
    """Return the role of every line of a document, or of a part of it that begins outside any fence."""
    fence = ""
    front_matter = bool(lines) and lines[0].rstrip() == "---" and "---" in (line.rstrip() for line in lines[1:200])
    after_break = True
    bare = [line.strip() for line in lines]
    last = len(bare) - 1
    found: list[Line] = []
    add = found.append
    for index, line in enumerate(bare):
        if fence or front_matter:
            add(Line(INSIDE_BLOCK, not line, 0, fence[:HEADING_CHARS]))
            if lines[index].rstrip() == "---" and index > 0 if front_matter else _closes(line, fence):
                fence, front_matter, after_break = "", False, True
            continue
        if not line:
            add(_BLANK)
            after_break = True
            continue
        first = line[0]
        may_be_heading = first == "#" or (after_break and index < last and _is_rule(bare[index + 1]))
        if may_be_heading and (heading := _heading(lines, index, lines[index].rstrip())):
            add(heading)
        elif first in "`~" and (opening := _FENCE.match(lines[index])):
            add(_BLOCK)
            fence = opening[1]
        elif after_break:
            add(_BLOCK)
        elif first not in _ITEM_STARTS:
            add(_PLAIN)
        elif first in _BULLETS and lines[index][0] == first:
            # What the pattern would find, without the pattern: most list items are like this.
            add(_ITEM if line[1:2] in _BLANKS else _PLAIN)
        else:
            add(_ITEM if _LIST_ITEM.match(lines[index]) else _PLAIN)
        after_break = False
    return found


def _is_rule(line: str) -> bool:
    """True if a line, without blanks around it, is made of ``=`` or ``-`` only."""
    return line[:1] in _RULES and not line.strip(line[0])


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _hash_heading(line: str) -> Line | None:
    if match := _ATX.match(line):
        title = line[match.end() :].rstrip("#").strip()
        return Line(SECTION, False, len(match[1]), f"{match[1]} {title}"[:HEADING_CHARS])
    return None


def _heading(lines: list[str], index: int, line: str) -> Line | None:
    if heading := _hash_heading(line):
        return heading
    if index + 1 < len(lines) and not _BLOCK_START.match(line):
        underline = _UNDERLINE.match(lines[index + 1].rstrip())
        if underline and (index == 0 or not lines[index - 1].strip()):
            level = 1 if underline[1][0] == "=" else 2
            return Line(SECTION, False, level, f"{'#' * level} {line.strip()}"[:HEADING_CHARS])
    return None


class NewSections(NamedTuple):
    """The part of a text that a note does not have yet."""

    text: str
    known: tuple[str, ...]
    """The first line of every section that was left out."""


def find_new_sections(note: str, text: str) -> NewSections:
    """Return a text without the sections that a note already has.

    Line endings, blank lines and trailing blanks are ignored. A section is known if it occurs anywhere in the note.
    Text without a heading is known only if the note ends with it, because a plain line may be meant to be there twice.
    """
    if f"\n{_normal(note)}".endswith(f"\n{_normal(text)}"):
        return NewSections("", tuple(_first_line(section) for section, _ in sections(text)))
    have, kept, known = f"\n{_normal(note)}\n", "", []
    for section, has_heading in sections(text):
        wanted = f"\n{_normal(section)}\n"
        if wanted in have if has_heading else have.endswith(wanted):
            known.append(_first_line(section))
        else:
            kept += section
            have += wanted[1:]
    return NewSections(kept, tuple(known))


def sections(text: str) -> list[tuple[str, bool]]:
    """Cut the text before each of its highest headings; each part comes with True if it has a heading."""
    lines = text.split("\n")
    structure = read_lines(lines)
    top = min((line.level for line in structure if line.level), default=None)
    parts: list[tuple[list[str], bool]] = [([], False)]
    for line, shape in zip(lines, structure, strict=True):
        if shape.level == top:
            parts.append(([], True))
        parts[-1][0].append(line)
    ended = [("\n".join(part) + "\n", has_heading) for part, has_heading in parts if part]
    whole = [*ended[:-1], (ended[-1][0][:-1], ended[-1][1])]
    return [(part, has_heading) for part, has_heading in whole if part.strip()]


def _normal(text: str) -> str:
    lines = (line.rstrip() for line in text.removeprefix("\ufeff").split("\n"))
    return "\n".join(line for line in lines if line)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()
