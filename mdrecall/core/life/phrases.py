"""Find a phrase in a text whatever its case, accents, punctuation and line breaks, and the sentences that hold it.

A text is a row of *units*: its folded words, and each character of a script without spaces between words. A phrase is
found where its units follow each other.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from mdrecall.core.text.words import MARKS, fold, is_unspaced

#: What stands for a forgotten text.
FORGOTTEN = "[forgotten]"

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_WORD = re.compile(rf"[^\W_]+(?:[{MARKS}]+[^\W_]*)*")
_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s)|[。！？]+[」』”）]*")
#: A longer sentence is none: of a line without sentences, such as a log, only the phrase itself is taken.
_MAX_SENTENCE = 1000
#: Shorter lines are not wrapped: code, keys with their values, verses. A wide character counts twice.
_WRAPPED_CHARS = 40
#: The beginning of a line that does not continue the line before: a list item, a heading, a table, a comment, a key.
_BLOCK_START = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)(?:[ \t]|$)|[|<`~]|---|[\w-]{1,30}:(?:[ \t]|$))")
_MARKER = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)[ \t]+(?:\[[ xX]\][ \t]+)?")
#: What may be left of a line whose text is gone: a marker and comments, which say nothing by themselves.
_EMPTY_LINE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)[ \t]*)*(?:\[[ xX]\])?(?:\s*<!--.*?-->)*[\s|]*")


class Unit(NamedTuple):
    """A word, or a character of a script without spaces, and where it stands."""

    text: str
    start: int
    end: int


class Span(NamedTuple):
    """A part of a text, from one offset to another."""

    start: int
    end: int


def split_units(text: str) -> Iterator[Unit]:
    """Yield the units of a text in reading order."""
    if text.isascii():
        for word in _ASCII_WORD.finditer(text):
            yield Unit(word[0].lower(), word.start(), word.end())
        return
    for word in _WORD.finditer(text):
        yield from _split_word(word[0], word.start())


def _split_word(word: str, offset: int) -> Iterator[Unit]:
    if word.isascii() or not any(map(is_unspaced, word)):
        if folded := fold(word):
            yield Unit(folded, offset, offset + len(word))
        return
    start = 0
    for place, char in enumerate(word):
        if is_unspaced(char):
            if start < place:
                yield Unit(fold(word[start:place]), offset + start, offset + place)
            yield Unit(fold(char) or char, offset + place, offset + place + 1)
            start = place + 1
    if start < len(word):
        yield Unit(fold(word[start:]), offset + start, offset + len(word))


def phrase_units(phrase: str) -> tuple[str, ...]:
    """Return the units of a phrase; empty if it has neither letters nor digits."""
    return tuple(unit.text for unit in split_units(phrase))


def find_phrase(text: str, phrase: tuple[str, ...]) -> list[Span]:
    """Return where a phrase stands in a text."""
    return find_runs(text, lambda first: (len(phrase),) if phrase and first == phrase[0] else (), phrase.__eq__)


def find_runs(
    text: str, lengths: Callable[[str], Iterable[int]], matches: Callable[[tuple[str, ...]], bool]
) -> list[Span]:
    """Return where units in a row match. ``lengths`` says how many may begin with a unit; it is asked once for each."""
    units = list(split_units(text))
    known: dict[str, tuple[int, ...]] = {}
    spans: list[Span] = []
    for place, unit in enumerate(units):
        if unit.text not in known:
            known[unit.text] = tuple(lengths(unit.text))
        for length in known[unit.text]:
            run = units[place : place + length]
            if len(run) == length and matches(tuple(each.text for each in run)):
                spans.append(Span(unit.start, run[-1].end))
    return spans


def widen_to_sentences(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return the sentences that hold some spans, joined where they touch; none is longer than its block."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.end <= found[-1].end:
            continue
        start = _sentence_start(text, span.start)
        end = _sentence_end(text, span.end)
        if found and start <= found[-1].end:
            start, end = found[-1].start, max(end, found.pop().end)
        found.append(Span(start, end))
    return found


def join_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order; those that overlap become one."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start < joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def _sentence_start(text: str, offset: int) -> int:
    floor = max(0, offset - _MAX_SENTENCE)
    start = text.rfind("\n", floor, offset) + 1 or floor
    while start > floor and not _BLOCK_START.match(text, start):
        above = text.rfind("\n", floor, start - 1) + 1 or floor
        if not _is_wrapped(text[above : start - 1]):
            break
        start = above
    marker = _MARKER.match(text, start, offset)
    start = marker.end() if marker else start
    ends = [end.end() for end in _SENTENCE_END.finditer(text, start, offset)]
    if start == floor > 0 and not ends:
        return offset
    start = ends[-1] if ends else start
    return start + len(text[start:offset]) - len(text[start:offset].lstrip())


def _sentence_end(text: str, offset: int) -> int:
    ceiling = min(len(text), offset + _MAX_SENTENCE)
    end = offset
    while (line_end := text.find("\n", end, ceiling)) >= 0:
        if found := _SENTENCE_END.search(text, end, line_end + 1):
            return found.end()
        below = text[line_end + 1 : text.find("\n", line_end + 1) % (len(text) + 1)]
        line = text[text.rfind("\n", 0, line_end) + 1 : line_end]
        if not below.strip() or not _is_wrapped(line) or _BLOCK_START.match(below):
            return line_end
        end = line_end + 1
    found = _SENTENCE_END.search(text, end, ceiling)
    return found.end() if found else ceiling if ceiling == len(text) else offset


def _is_wrapped(line: str) -> bool:
    """True if a line is so long that the next one may continue its sentence."""
    return len(line) + sum(map(is_unspaced, line)) >= _WRAPPED_CHARS


def mask_spans(text: str, spans: Iterable[Span], filler: str = FORGOTTEN) -> str:
    """Return a text with spans replaced by a filler; its lines keep their numbers."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], filler, "\n" * text.count("\n", start, end)]
        at = end
    return "".join([*parts, text[at:]])


def cut_line(line: str) -> str | None:
    """Return what is left of a line from which sentences were cut; None if it is as good as nothing."""
    return None if _EMPTY_LINE.fullmatch(line) else re.sub(r"(?<=\S)[ \t]{2,}", " ", line.rstrip())
