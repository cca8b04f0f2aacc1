"""The passage of a chunk that answers a query, the snippet around it, and the headings above it."""

import re
from typing import NamedTuple

from mdrecall.core.ranking.score import Weights
from mdrecall.core.text.headings import read_lines, titles, trails
from mdrecall.core.text.words import Analyser

#: The length of a snippet in UTF-16 units, as in OpenClaw.
MAX_SNIPPET_UNITS = 700
# A sentence may continue on the next line; more lines would no longer be one passage.
_PASSAGE_LINES = 2
# Longer lines are whole paragraphs, and are cut into sentences of at most 240 characters.
_LONG_LINE = 320
_SENTENCES = r"(?s).{1,240}(?:[.!?。！？](?=\s|[^\x00-\x7f])|\s|$)|.{1,240}"
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


class _Segment(NamedTuple):
    """A line of a chunk, or a sentence of a long line."""

    line: int
    start: int
    end: int


class Passage(NamedTuple):
    """The lines of a chunk that are shown and cited."""

    coverage: float
    """The share of the query's weight that they hold."""
    first_line: int
    last_line: int
    """The first and the last line, counted from 0 in the chunk."""
    start: int
    end: int
    """The same as character offsets."""


#: For a chunk that holds no term of the query.
NO_PASSAGE = Passage(0.0, 0, 0, 0, 0)


def best_passage(text: str, weights: Weights, analyser: Analyser) -> Passage:
    """Return the two adjacent lines or sentences that hold most of the query; of equal ones the first."""
    segments = _segments(text)
    held = [find_terms(text[segment.start : segment.end], weights, analyser) for segment in segments]
    best = NO_PASSAGE
    for index, segment in enumerate(segments):
        if not held[index]:
            continue
        last, together = index, held[index]
        for step in range(1, _PASSAGE_LINES):
            if index + step < len(segments) and not held[index + step] <= together:
                last, together = index + step, together | held[index + step]
        coverage = sum(weights.by_term[term] for term in sorted(together)) / weights.total
        if coverage > best.coverage + 1e-12:
            best = Passage(coverage, segment.line, segments[last].line, segment.start, segments[last].end)
    return best


def find_terms(text: str, weights: Weights, analyser: Analyser) -> frozenset[str]:
    """Return the query terms that a text holds."""
    there = analyser.terms_like(text, weights.initials)
    held = there & weights.by_term.keys()
    for beginning in weights.beginnings:
        if any(term.startswith(beginning) for term in there):
            held.add(beginning)
    for name, parts in weights.names.items():
        if parts <= there:
            held.add(name)
    return frozenset(held)


def snippet_around(text: str, passage: Passage, max_units: int = MAX_SNIPPET_UNITS) -> str:
    """Return as many whole lines around the passage as fit, with the passage in the middle if possible."""
    segments = _segments(text)
    inside = [i for i, segment in enumerate(segments) if passage.start <= segment.start < max(passage.end, 1)]
    first, last = (inside[0], inside[-1]) if inside else (0, 0)
    while last > first and utf16_units(text[segments[first].start : segments[last].end]) > max_units:
        last -= 1
    grown = True
    while grown:
        grown = False
        for before, after in ((0, 1), (1, 0)):
            wider = (first - before, last + after)
            if _fits(text, segments, wider, max_units):
                (first, last), grown = wider, True
    return cut_units(text[segments[first].start : segments[last].end].strip("\r\n"), max_units)


def heading_above(chunk_trail: tuple[str, ...], text: str, passage: Passage) -> str:
    """Return the headings above a passage, outermost first, joined with `` › ``; ``chunk_trail`` precedes the text."""
    structure = read_lines([*chunk_trail, *text.split("\n")[: passage.first_line + 1]])
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


def _segments(text: str) -> list[_Segment]:
    segments: list[_Segment] = []
    offset = 0
    for number, line in enumerate(text.split("\n")):
        if len(line) <= _LONG_LINE:
            segments.append(_Segment(number, offset, offset + len(line)))
        else:
            segments.extend(
                _Segment(number, offset + part.start(), offset + part.end()) for part in re.finditer(_SENTENCES, line)
            )
        offset += len(line) + 1
    return segments
