"""Find a phrase in a text whatever its case, accents, punctuation and line breaks, and the sentences that hold it.

A text is a row of *units*: its folded words, and each character of a script without spaces between words. A phrase is
found where its units follow each other, either as they are written or as Markdown and HTML show them.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from mdrecall.core.text.words import MARKS, fold, is_unspaced
from mdrecall.named_tuple import NamedTuple

#: What stands for a forgotten text.
FORGOTTEN = "[forgotten]"

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_WORD = re.compile(rf"[^\W_]+(?:[{MARKS}]+[^\W_]*)*")
_SENTENCE_END = re.compile(r"[.!?…]+(?>[\"'”’)*_~=`]|\](?:\([^()\s]*\))?|</[A-Za-z]{1,10}>)*(?=\s)|[。！？]+[」』”）]*")
#: What is written but not shown: tags and comments, where links lead, marks of emphasis, invisible characters. A
#: character reference is shown as another character.
_MARKUP = re.compile(
    r"<(?:!|/?(?P<tag>[A-Za-z][A-Za-z0-9]*)(?=[\s/>]))[^<>]*>"
    r"|\]\((?>[^()\n]|\([^()\n]*\))*\)|\]\[[^\[\]\n]*\]|\[\[[^\[\]|\n]*\||\[\^[^\[\]\s]*\]"
    r"|(?P<reference>&(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)"
    "|[\\[\\]*`~=\\\\\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]+"
)
#: These tags stand inside a word or between two; any other one begins a new word.
_INLINE_TAGS = frozenset((
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q",
    "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var", "wbr",
))  # fmt: skip
#: A longer sentence is none: of a line without sentences, such as a log, only the phrase itself is taken.
_MAX_SENTENCE = 1000
#: Shorter lines are not wrapped: code, keys with their values, verses. A wide character counts twice.
_WRAPPED_CHARS = 40
#: The beginning of a line that does not continue the line before: a list item, a heading, a table, a comment, a key.
_BLOCK_START = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)(?:[ \t]|$)|[|<`~]|---|[\w-]{1,30}:(?:[ \t]|$))")
_MARKER = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)[ \t]+(?:\[[ xX]\][ \t]+)?")
#: What says nothing by itself on a line whose text is gone: its number or box, comments, tags, the name of the block.
_STUMP = re.compile(r"^[\s>]*(?:\d{1,9}|[A-Za-z])[.)](?=\s|$)|\[[ xX]\]|<[!/A-Za-z][^<>]*>|(?<!\S)[#^][\w/-]+")


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


def read_phrase(phrase: str) -> list[tuple[str, ...]]:
    """Return the units of a phrase as it is written and, if that differs, as it is shown; none without any word."""
    return [texts for units, _ in _read_units(phrase) if (texts := tuple(unit.text for unit in units))]


def _read_units(text: str) -> Iterator[tuple[list[Unit], bool]]:
    """Yield the units of a text as it is written and, with True if those differ, as it is shown."""
    written = list(split_units(text))
    yield written, False
    shown = _MARKUP.sub(_show, text)
    if shown != text:
        units = list(split_units(shown))
        if [unit.text for unit in units] != [unit.text for unit in written]:
            yield units, True


def _locate_shown(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return where spans of a text without its markup are in the text as it is written."""
    starts, places, size, at = [], [], 0, 0
    for mark in (*_MARKUP.finditer(text), None):
        start, end = mark.span() if mark else (len(text), len(text))
        for length, place in ((start - at, Span(at, start)), (len(_show(mark)) if mark else 0, Span(start, end))):
            if length:
                starts.append(size)
                places.append(place)
                size += length
        at = end
    starts.append(size)

    def locate(offset: int) -> Span:
        number = bisect_right(starts, offset) - 1
        # The character that a reference stands for is where the whole reference is.
        if starts[number + 1] - starts[number] != places[number].end - places[number].start:
            return places[number]
        start = places[number].start + offset - starts[number]
        return Span(start, start + 1)

    return [Span(locate(span.start).start, locate(span.end - 1).end) for span in spans]


def _show(mark: re.Match[str]) -> str:
    """Return what is shown of markup: the character of a reference, a space for a tag between words."""
    if reference := mark["reference"]:
        # The table of names is loaded only when there is one.
        import html

        shown = html.unescape(reference)
        return shown if shown == reference else _MARKUP.sub("", shown)
    return "" if mark["tag"] is None or mark["tag"].lower() in _INLINE_TAGS else " "


def find_runs(
    text: str, lengths: Callable[[str], Iterable[int]], matches: Callable[[tuple[str, ...]], bool]
) -> list[Span]:
    """Return where units in a row match. ``lengths`` says how many may begin with a unit; it is asked once for each."""
    known: dict[str, tuple[int, ...]] = {}
    found: set[Span] = set()
    for units, is_shown in _read_units(text):
        spans: list[Span] = []
        for place, unit in enumerate(units):
            if unit.text not in known:
                known[unit.text] = tuple(lengths(unit.text))
            for length in known[unit.text]:
                run = units[place : place + length]
                if len(run) == length and matches(tuple(each.text for each in run)):
                    spans.append(Span(unit.start, run[-1].end))
        found.update(_locate_shown(text, spans) if is_shown and spans else spans)
    return sorted(found)


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
    has_words = any(split_units(_STUMP.sub(" ", line)))
    return re.sub(r"(?<=\S)[ \t]{2,}", " ", line.rstrip()) if has_words else None
