"""The words of a text that match a query, which people are shown."""

import re
from collections.abc import Collection, Iterator

from mdrecall.core.ranking.query import parse_query
from mdrecall.core.text.stem import stem
from mdrecall.core.text.words import fold, is_unspaced, surface_words

_WORD = re.compile(r"[^\W_]+")


def find_stems(query: str) -> frozenset[str]:
    """Return the stems of the words of a query, without those that hardly count if there are others."""
    terms = [term for term in parse_query(query) if not term.parts]
    return frozenset(term.text for term in terms if not term.stop) or frozenset(term.text for term in terms)


def find_matches(text: str, stems: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each stretch of a text that has one of these stems, in order."""
    if not stems:
        return
    for word in _WORD.finditer(text):
        if any(map(is_unspaced, word[0])):
            yield from _find_pairs(word[0], word.start(), stems)
        elif any(stem(part) in stems for part in surface_words(word[0])):
            yield word.span()


def _find_pairs(run: str, offset: int, stems: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a script without spaces whose pairs of characters, or single ones, are in a query."""
    start = end = -1
    for place in range(len(run)):
        size = 2 if fold(run[place : place + 2]) in stems else 1 if fold(run[place]) in stems else 0
        if not size:
            continue
        if place > end:
            if end >= 0:
                yield offset + start, offset + end
            start = place
        end = max(end, min(place + size, len(run)))
    if end >= 0:
        yield offset + start, offset + end
