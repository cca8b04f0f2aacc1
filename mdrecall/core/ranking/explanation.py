"""What people are shown of a ranking: which words of a text match a query, and what has changed a result's worth."""

import math
import re
from collections.abc import Collection, Iterator

from mdrecall.core.ranking.query import parse_query
from mdrecall.core.text.stem import stem
from mdrecall.core.text.words import fold, is_unspaced, surface_words
from mdrecall.types import Why

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


def describe_changes(why: Why) -> list[str]:
    """Return, as sentences without a full stop, what has changed the worth of a result besides words and meaning."""
    lines = []
    if why.identified:
        lines.append(f"holds {why.identified:.0%} of the identifiers and quoted phrases")
    if why.naming:
        lines.append("the query names its file or heading")
    if why.speaker:
        lines.append(f"speaker {why.speaker:+.2f}: the query names somebody who speaks")
    if why.time:
        lines.append(f"time {why.time:+.2f}: it is of the time that the query names")
    if why.recency < 1:
        lines.append(f"there is newer: {why.recency:.0%} of its worth, because the query asks for what holds now")
    if why.decay < 1:
        lines.append(f"age reduces the score to {why.decay:.0%}")
    if why.translated is not None:
        lines.append(f"the text around holds {why.translated:.0%} of the query's words in another language")
    if why.file_factor < 1:
        lines.append(f"counts {why.file_factor:.0%} among the results, because better ones are from the same file")
    return lines


def describe_cost(why: Why) -> str:
    """Return what the query itself takes off the worth of its results, or adds to it; empty if that is nothing."""
    if not why.cost:
        return ""
    count = round(math.expm1(why.commonness))
    chunks = "1 chunk" if count == 1 else f"{count} chunks"
    takes = "takes off" if why.cost > 0 else "adds"
    cost = f"the query {takes} {abs(why.cost):.2f}: each of its words is in about {chunks}"
    return cost if why.likeness is None else f"{cost}, and the embedder reads {why.trust:.0%} of it"
