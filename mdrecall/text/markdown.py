"""Markdown for search: headings and sections, the passages that are compared and cited, and what is shown of one.

A passage begins at a heading, at a turn of a conversation, after a blank line or at a list item, and holds about sixty
tokens. Index and search cut the same text in the same way, so a passage is known by its place among the others.
"""

import sys
from collections.abc import Iterable, Iterator, Set
from itertools import compress, pairwise
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from mdrecall.patterns import compile_later
from mdrecall.text.words import count_unspaced

_ATX = compile_later(r" {0,3}(#{1,6})(?:[ \t]+|$)")
_UNDERLINE = compile_later(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = compile_later(r" {0,3}(`{3,}|~{3,})")
_ITEM_STARTS = frozenset("-*+0123456789")
_LIST_ITEM = compile_later(r" {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]\s*\S")
_RULES = ("=", "-")
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


def find_trails(structure: list[Line], wanted: Iterable[int]) -> Iterator[tuple[str, ...]]:
    """Yield the headings above some lines and the fences around them; a heading is not above itself.

    The lines are given by their places in the document, in ascending order.
    """
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
    return [heading_title(line) for line in trail if line[:1] == "#"]


def heading_title(heading: str) -> str:
    """Return the words of a heading line: ``## Decisions`` is ``Decisions``."""
    return heading.lstrip("#").strip()


def read_lines(lines: list[str]) -> list[Line]:
    """Return the role of every line of a document, or of a part of it that begins outside any fence."""
    fence = ""
    front_matter = bool(lines) and lines[0].rstrip() == "---" and "---" in (line.rstrip() for line in lines[1:200])
    after_break = True
    bare, last = list(map(str.strip, lines)), len(lines) - 1
    found: list[Line] = []
    add = found.append
    for index, line in enumerate(bare):
        if fence or front_matter:
            add(Line(INSIDE_BLOCK, not line, 0, fence[:HEADING_CHARS]))
            is_closing = len(line) >= len(fence) and set(line) == set(fence)
            if lines[index].rstrip() == "---" and index > 0 if front_matter else is_closing:
                fence, front_matter, after_break = "", False, True
            continue
        if not line:
            add(_BLANK)
            after_break = True
            continue
        first = line[0]
        below = bare[index + 1] if after_break and index < last else ""
        may_be_heading = first == "#" or (below[:1] in _RULES and not below.strip(below[0]))
        if may_be_heading and (heading := _heading(lines, index, lines[index].rstrip())):
            add(heading)
        elif first in "`~" and (opening := _FENCE.match(lines[index])):
            add(_BLOCK)
            fence = opening[1]
        elif after_break:
            add(_BLOCK)
        else:
            add(_ITEM if first in _ITEM_STARTS and _LIST_ITEM.match(lines[index]) else _PLAIN)
        after_break = False
    return found


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


def find_new_sections(note: str, text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text without the sections that a note already has, and the first line of each of those.

    Line endings, blank lines and trailing blanks are ignored. A section is known if it occurs anywhere in the note.
    Text without a heading is known only if the note ends with it, because a plain line may be meant to be there twice.
    """
    have, kept, known = f"\n{_normal(note)}\n", "", []
    is_known = have.endswith(f"\n{_normal(text)}\n")
    for section, has_heading in sections(text):
        wanted = f"\n{_normal(section)}\n"
        if is_known or (wanted in have if has_heading else have.endswith(wanted)):
            known.append(section.strip().partition("\n")[0].strip())
        else:
            kept += section
            have += wanted[1:]
    return kept, tuple(known)


def sections(text: str) -> list[tuple[str, bool]]:
    """Cut the text before each of its highest headings; each part comes with True if it has a heading."""
    lines = text.split("\n")
    structure = read_lines(lines)
    top = min((line.level for line in structure if line.level), default=None)
    starts = [place for place, shape in enumerate(structure) if shape.level == top]
    bounds = (*dict.fromkeys((0, *starts)), len(lines))
    parts = ["\n".join(lines[first:stop]) + "\n" * (stop < len(lines)) for first, stop in pairwise(bounds)]
    return [(part, place in starts) for place, part in zip(bounds, parts, strict=False) if part.strip()]


def _normal(text: str) -> str:
    lines = (line.rstrip() for line in text.removeprefix("\ufeff").split("\n"))
    return "\n".join(line for line in lines if line)


#: About sixty tokens. Longer passages show less of what answers within the same number of characters, and shorter ones
#: need more citations for it.
PASSAGE_UNITS = 240
#: A longer line is a paragraph, and is cut into sentences.
LONG_LINE = 320
_SENTENCES = compile_later(r"(?s).{80,239}(?:[.!?](?=\s|[^\x00-\x7f]|$)|[。！？])\s?|.{1,240}(?:\s|$)|.{1,240}")
_BULLET_STARTS = frozenset(mark + space for mark in "-*+" for space in " \t")
_NUMBERED = compile_later(r"\d{1,9}[.)][ \t]")
_HEADING = compile_later(r" {0,3}#{1,6}(?:[ \t]|$)")

# ``Name:`` at the beginning of a line, possibly after a list marker or a time, bold, or in angle brackets.
_TURN = compile_later(
    r"\s*(?:[-*>]\s+)?(?:\[[^\]\n]{1,40}\]\s*)?(?:\*\*|__)?<?([^\W\d_][\w.'’ -]{0,30}(?<!__))>?(?:\*\*|__)?"
    r"(?:\s*\([^)\n]{1,40}\))?\s?[:：](?:\*\*|__)?(?=\s|$|\"|“|「|[^\x00-\x7f])"
)
_USER_ROLES = frozenset(
    ("user", "human", "me", "用户", "使用者", "ユーザー", "사용자", "benutzer", "utilisateur", "usuario")
)
_ROLES = _USER_ROLES | {
    "assistant", "ai", "bot", "agent", "system", "tool", "助手", "助理", "アシスタント", "어시스턴트", "asistente",
    "pasted",
}  # fmt: skip
# What the lines of digests begin with.
_LABELS = ("Outcome", "Wanted", "Decided", "Open", "Files", "Commits", "Asked", "Said", "Commands", "Files changed")
# Other labels are names only if they return, as in a conversation; ``Status: done`` stands for itself.
_MIN_TURNS = 3


class Passage(NamedTuple):
    """A stretch of a chunk: its character offsets, its lines counted from 0, and who speaks."""

    start: int
    end: int
    first_line: int
    last_line: int
    heading: int = -1
    """The line of the last heading above its text; -1 if that is not in the chunk."""
    speaker: str = ""
    """Who says it, as written; empty outside of conversations."""


#: For what has not been cut yet.
NO_PASSAGE = Passage(0, 0, 0, 0)


def split_passages(text: str) -> list[Passage]:
    """Cut a chunk into passages; each begins and ends with a line, or a sentence of a long line, that is not blank."""
    lines = text.split("\n")
    turns = _find_turns(lines) if ":" in text or "：" in text else {}
    has_unspaced = count_unspaced(text) > 0
    passages: list[Passage] = []
    offset, heading, speaker, blanks = 0, -1, "", 0
    begin = first = last = last_end = size = 0
    last_heading, who, has_text = -1, "", False
    # One loop without objects or calls, because it sees every line of every note.
    for number, (line, bare, width) in enumerate(zip(lines, map(str.lstrip, lines), map(len, lines), strict=True)):
        if not bare:
            blanks += 1
            offset += width + 1
            continue
        # Whether a passage always ends before this line, and whether it does once it is half full.
        ends, may_end, begins_with = number in turns, blanks > 0, bare[0]
        if begins_with == "#" and _HEADING.match(line):
            heading, speaker, ends = number, "", True
        elif ends:
            speaker = turns[number]
        if begins_with in _ITEM_STARTS and not may_end:
            may_end = bare[:2] in _BULLET_STARTS or _NUMBERED.match(bare) is not None
        for start, end in ((0, width),) if width <= LONG_LINE else split_line(line):
            # Blank lines count too: a passage must not reach over a thousand of them.
            length = blanks + end - start + (count_unspaced(line[start:end]) if has_unspaced else 0)
            # A heading alone says little, so it stays with what follows it, even if that is another heading.
            if size and (
                size + length > PASSAGE_UNITS or (may_end and size * 2 >= PASSAGE_UNITS) or (ends and has_text)
            ):
                passages.append(Passage(begin, last_end, first, last, last_heading, who))
                size = 0
            if not size:
                begin, first, who = offset + start, number, speaker
            last, last_end, last_heading, has_text = number, offset + end, heading, heading != number
            size += length
            ends = may_end = False
            blanks = 0
        offset += width + 1
    if size:
        return [*passages, Passage(begin, last_end, first, last, last_heading, who)]
    return [Passage(0, len(text), 0, text.count("\n"))]


def split_line(line: str) -> list[tuple[int, int]]:
    """Return where the sentences of a long line begin and end; a shorter one is not split."""
    if len(line) <= LONG_LINE:
        return [(0, len(line))]
    return [part.span() for part in _SENTENCES.finditer(line)]


def is_user(speaker: str) -> bool:
    """True if a speaker is the person who talks to an assistant."""
    return speaker.casefold() in _USER_ROLES


def is_role(speaker: str) -> bool:
    """True if a speaker is named only by a role, such as ``Assistant``."""
    return speaker.casefold() in _ROLES


def _find_turns(lines: list[str]) -> dict[int, str]:
    """Return the lines that begin a turn of a conversation, each with its speaker."""
    labels = {
        number: match[1].strip()
        for number, line in enumerate(lines)
        # A label is short; looking for one in the middle of a long line would take long.
        if (":" in line[:80] or "：" in line[:80])
        and (match := _TURN.match(line))
        and not (line.startswith("- ") and match[1] in _LABELS)
    }
    if not labels:
        return {}
    roles = {number: label for number, label in labels.items() if is_role(label)}
    names = {number: label for number, label in labels.items() if not label[0].islower() and number not in roles}
    if len(names) < _MIN_TURNS or len(set(names.values())) * 3 > len(names) * 2:
        return roles
    return names | roles if len(names) * 2 >= sum(1 for line in lines if line and not line.isspace()) else roles


#: The length of a snippet in UTF-16 units, as in OpenClaw.
MAX_SNIPPET_UNITS = 700
#: Stands where a line is cut, so that a part of it is not taken for the whole.
ELLIPSIS = "…"
_ASTRAL = compile_later("[\U00010000-\U0010ffff]")
# A line of a chunk, or a sentence of a long line: its line, start and end. No class, because there are many.
_Segment: TypeAlias = tuple[int, int, int]


def show_around(
    text: str,
    passage: Passage,
    max_units: int = MAX_SNIPPET_UNITS,
    avoid: Set[int] = frozenset(),
    limit: int = MAX_SNIPPET_UNITS,
) -> tuple[str, int, int]:
    """Return the passage with as many whole lines around it as fit, in the middle if possible, and which lines.

    Lines are counted from 0. Those in ``avoid`` are not added. A passage that is longer by itself than ``limit`` is
    cut, its headings first.
    """
    segments, units = _segments_near(text, passage, max_units), len if text.isascii() else utf16_units
    inside = [i for i, (_, start, _) in enumerate(segments) if passage.start <= start < (passage.end or 1)]
    first, last = (inside[0], inside[-1]) if inside else (0, 0)

    def is_blank(place: int) -> bool:
        _, start, end = segments[place]
        return not text[start:end].strip()

    while last > first and units(text[segments[first][1] : segments[last][2]]) > limit:
        if segments[first][0] <= passage.heading or is_blank(first):
            first += 1
        else:
            last -= 1
    grown = True
    while grown:
        grown = False
        for step in (1, -1):
            low, high = (first, last + 1) if step > 0 else (first - 1, last)
            is_inside = low >= 0 and high < len(segments) and segments[high if step > 0 else low][0] not in avoid
            if is_inside and units(text[segments[low][1] : segments[high][2]]) <= max_units:
                first, last, grown = low, high, True
    while last > first and is_blank(last):
        last -= 1
    while last > first and is_blank(first):
        first += 1
    (first_line, start, _), (last_line, _, end) = segments[first], segments[last]
    shown = shorten(text[start:end].strip("\r\n"), limit)
    if start and text[start - 1] != "\n":
        shown = shorten(ELLIPSIS + shown, limit)
    if not shown.endswith(ELLIPSIS) and text[end : end + 1].strip("\r\n"):
        shown = cut_units(shown, limit - 1) + ELLIPSIS
    return shown, first_line, last_line


def heading_above(chunk_trail: tuple[str, ...], text: str, passage: Passage) -> str:
    """Return the headings above a passage, outermost first, joined with `` › ``; ``chunk_trail`` precedes the text."""
    if passage.heading < 0 and "=" not in text and "--" not in text:
        # Without them, no heading is underlined.
        return " › ".join(titles(chunk_trail))
    *before, line = text.split("\n")[: max(passage.first_line, passage.heading) + 1]
    is_plain = not any(map(text.__contains__, ("=", "--", "```", "~~~")))
    structure = read_lines([*chunk_trail, *[each for each in before if "#" in each or not is_plain], line])
    (trail,) = find_trails(structure, (len(structure) - 1,))
    if structure[-1].level:
        trail = (*trail, structure[-1].heading)
    return " › ".join(titles(trail))


def utf16_units(text: str) -> int:
    """Return the length as JavaScript counts it: a character beyond U+FFFF is two units."""
    return len(text) if text.isascii() else len(text) + len(_ASTRAL.findall(text))


def cut_units(text: str, max_units: int) -> str:
    """Return the longest beginning of ``text`` within ``max_units``."""
    text = text[:max_units]
    while (excess := utf16_units(text) - max_units) > 0:
        text = text[: len(text) - max(1, excess // 2)]
    return text


def quarter_tokens(text: str) -> int:
    """Return about how long a text is for a model: an ASCII character is a quarter of a token, any other a whole one.

    No text has fewer of these than bytes in UTF-8.
    """
    return len(text) if text.isascii() else 4 * len(text) - 3 * len(text.encode("ascii", "ignore"))


def cut_tokens(text: str, max_quarters: int) -> str:
    """Return a text within a number of quarters of tokens; one that is cut ends with an ellipsis."""
    if quarter_tokens(text) <= max_quarters:
        return text
    left = max_quarters - quarter_tokens(ELLIPSIS)
    ends = (place for place, char in enumerate(text) if (left := left - quarter_tokens(char)) < 0)
    return text[: next(ends)].rstrip() + ELLIPSIS


def shorten(text: str, max_units: int) -> str:
    """Return a text within ``max_units``; one that is cut ends with an ellipsis."""
    return text if utf16_units(text) <= max_units else cut_units(text, max_units - 1) + ELLIPSIS


def _segments_near(text: str, passage: Passage, max_units: int) -> list[_Segment]:
    """Return the segments of a passage, and of the lines around it that could be shown with it."""
    # A line that ends further away than this does not fit, and neither does any beyond it.
    offset = text.rfind("\n", 0, max(0, passage.start - max_units - 1)) + 1
    end = text.find("\n", passage.end + max_units + 1)
    segments: list[_Segment] = []
    first_line = text.count("\n", 0, offset)
    lines = text[offset : len(text) if end < 0 else end].split("\n")
    for number, (line, width) in enumerate(zip(lines, map(len, lines), strict=True), first_line):
        if width <= LONG_LINE:
            segments.append((number, offset, offset + width))
        else:
            segments += [(number, offset + start, offset + end) for start, end in split_line(line)]
        offset += width + 1
    return segments
