"""What is shown of a passage: the lines around it, and the headings above it."""

from collections.abc import Set
from typing import TypeAlias

from mdrecall.core.text.headings import hash_titles, read_lines, titles, trails
from mdrecall.core.text.passages import LONG_LINE, Passage, split_line
from mdrecall.named_tuple import NamedTuple
from mdrecall.patterns import compile_later

#: The length of a snippet in UTF-16 units, as in OpenClaw.
MAX_SNIPPET_UNITS = 700
#: Stands where a line is cut, so that a part of it is not taken for the whole.
ELLIPSIS = "…"
_ASTRAL = compile_later("[\U00010000-\U0010ffff]")
# A text without any of them has no heading that is underlined.
_UNDERLINES = ("=", "--")
# A text without any of them has no such heading, no fence and no front matter.
_BEYOND_HASHES = (*_UNDERLINES, "```", "~~~")


# A line of a chunk, or a sentence of a long line: its line, start and end. No class, because there are many.
_Segment: TypeAlias = tuple[int, int, int]


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
    segments = _segments_near(text, passage, max_units)
    inside = [i for i, (_, start, _) in enumerate(segments) if passage.start <= start < max(passage.end, 1)]
    first, last = (inside[0], inside[-1]) if inside else (0, 0)

    def is_blank(place: int) -> bool:
        _, start, end = segments[place]
        return not text[start:end].strip()

    while last > first and utf16_units(text[segments[first][1] : segments[last][2]]) > limit:
        if segments[first][0] <= passage.heading or is_blank(first):
            first += 1
        else:
            last -= 1
    grown = True
    while grown:
        grown = False
        for before, after in ((0, 1), (1, 0)):
            wider = (first - before, last + after)
            if _fits(text, segments, wider, max_units) and segments[wider[0 if before else 1]][0] not in avoid:
                (first, last), grown = wider, True
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
    return ShownLines(shown, first_line, last_line)


def heading_above(chunk_trail: tuple[str, ...], text: str, passage: Passage) -> str:
    """Return the headings above a passage, outermost first, joined with `` › ``; ``chunk_trail`` precedes the text."""
    if passage.heading < 0 and not any(mark in text for mark in _UNDERLINES):
        return " › ".join(titles(chunk_trail))
    lines = [*chunk_trail, *text.split("\n")[: max(passage.first_line, passage.heading) + 1]]
    if not any(mark in text for mark in _BEYOND_HASHES) and all(line.startswith("#") for line in chunk_trail):
        return " › ".join(hash_titles(line for line in lines if "#" in line))
    structure = read_lines(lines)
    *_, trail = trails(structure)
    if structure[-1].level:
        trail = (*trail, structure[-1].heading)
    return " › ".join(titles(trail))


def _fits(text: str, segments: list[_Segment], span: tuple[int, int], max_units: int) -> bool:
    first, last = span
    inside = 0 <= first <= last < len(segments)
    return inside and utf16_units(text[segments[first][1] : segments[last][2]]) <= max_units


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


def _segments_near(text: str, passage: Passage, max_units: int) -> list[_Segment]:
    """Return the segments of a passage, and of the lines around it that could be shown with it."""
    # A line that ends further away than so many characters does not fit, and neither does any beyond it.
    offset = text.rfind("\n", 0, max(0, passage.start - max_units - 1)) + 1
    end = text.find("\n", passage.end + max_units + 1)
    segments: list[_Segment] = []
    first_line = text.count("\n", 0, offset)
    for number, line in enumerate(text[offset : len(text) if end < 0 else end].split("\n"), first_line):
        if len(line) <= LONG_LINE:
            segments.append((number, offset, offset + len(line)))
        else:
            segments += [(number, offset + start, offset + end) for start, end in split_line(line)]
        offset += len(line) + 1
    return segments
