"""How well a chunk answers a query by its words, as a number from 0 to 1 with one meaning everywhere.

Every term has a weight: how surprising it is (rare terms count more, stop words hardly at all). A chunk's
*strength* is the share of the query's weight that it holds: mostly how often and how densely (BM25 saturation),
partly how much of it stands together in one passage. Where vectors are searched too, nearness in meaning is mixed
in (``fusion``). A chunk that holds every *distinctive* term is *complete* and scores 0.7 or more; any other scores
below 0.7. So a chunk with all the rare words of a query is never below one that lacks some of them, whatever else it
repeats, whatever it means, and however old it is.
"""

import heapq
import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from mdrecall.core.text.stem import stem
from mdrecall.types import Match

STOP_WEIGHT = 0.1
GUESS_WEIGHT = 0.5
PASSAGE_SHARE = 0.15
RARE_SHARE = 0.1
# In a small index a word in a few chunks may still be a common one.
_RARE_LESS = 10
# Of fewer chunks it cannot be said which words are common: without a rare one, all that are no stop words count.
_SMALL_INDEX = 64
COMPLETE_FROM = 0.7
_COMPLETE_CURVE = 0.5
_PARTIAL_CURVE = 0.22
_MOST_TIES = 4


class Weighted(NamedTuple):
    """A chunk with what its words are worth, before its passages have been looked at."""

    chunk_id: int
    strength: float
    complete: bool


class Weights(NamedTuple):
    """What each term of a query is worth in this index."""

    by_term: Mapping[str, float]
    total: float
    distinctive: frozenset[str]
    """The rare terms: a chunk that holds them all is complete. Without any, no chunk is, unless the index is small."""
    beginnings: tuple[str, ...]
    """Terms that were found only as the beginning of longer ones."""
    names: Mapping[str, frozenset[str]]
    """Names with the words that mean the same when they stand together."""
    initials: frozenset[str]
    """The characters that terms begin with."""


def weigh(matches: Iterable[Match], chunk_count: int) -> Weights:
    """Weigh the terms of a query by how few chunks hold them."""
    matches = list(matches)
    by_term = {match.term.text: _weight(match, chunk_count) for match in matches}
    named = {stem(part) for match in matches if match.chunks for part in match.term.parts}
    known = [match for match in matches if match.chunks and match.term.text not in named]
    telling = [match for match in known if not (match.term.stop or match.is_guess)]
    few = max(1.0, chunk_count * RARE_SHARE - _RARE_LESS)
    rare = [match for match in telling if match.held_by <= few]
    decisive = rare or (telling if chunk_count < _SMALL_INDEX else [])
    return Weights(
        by_term,
        sum(by_term.values()) or 1.0,
        frozenset(match.term.text for match in decisive),
        tuple(match.term.text for match in matches if match.loose),
        {match.term.text: frozenset(map(stem, match.term.parts)) for match in matches if match.term.parts},
        frozenset(term[0] for term in by_term),
    )


class Strengths(NamedTuple):
    """What every chunk that holds a term of the query is worth by its terms."""

    by_chunk: Mapping[int, float]
    complete: frozenset[int]

    def of(self, chunk_id: int) -> Weighted:
        return Weighted(chunk_id, self.by_chunk.get(chunk_id, 0.0), chunk_id in self.complete)


def strengths(matches: Iterable[Match], weights: Weights) -> Strengths:
    """Add up the terms that each chunk holds."""
    strength: dict[int, float] = {}
    complete: set[int] | None = None
    for match in matches:
        weight = weights.by_term[match.term.text] / weights.total
        for chunk_id, saturation in match.chunks.items():
            strength[chunk_id] = strength.get(chunk_id, 0.0) + weight * saturation
        if match.term.text in weights.distinctive:
            complete = set(match.chunks) if complete is None else complete & match.chunks.keys()
    return Strengths(strength, frozenset(complete or ()))


def rank(found: Strengths, limit: int) -> list[Weighted]:
    """The best chunks by their terms: complete ones first, then by strength."""
    best = _strongest({chunk_id: found.by_chunk[chunk_id] for chunk_id in found.complete}, limit)
    if len(best) < limit:
        rest = {chunk_id: value for chunk_id, value in found.by_chunk.items() if chunk_id not in found.complete}
        best += _strongest(rest, limit - len(best))
    return [Weighted(chunk_id, value, chunk_id in found.complete) for chunk_id, value in best]


def _strongest(strength: Mapping[int, float], limit: int) -> list[tuple[int, float]]:
    """The strongest, and more of those that are as strong as the last: ids tell only which was indexed earlier."""
    best = heapq.nsmallest(limit, strength.items(), key=lambda entry: (-entry[1], entry[0]))
    if limit and len(best) == limit:
        equal = (entry for entry in strength.items() if entry[1] == best[-1][1])
        best = list(dict.fromkeys((*best, *islice(equal, _MOST_TIES * limit))))
    return best


def keyword_strength(weighted: Weighted, passage_coverage: float) -> float:
    """The strength of a chunk whose best passage holds ``passage_coverage`` of the query's weight."""
    return (1 - PASSAGE_SHARE) * weighted.strength + PASSAGE_SHARE * passage_coverage


def score(strength: float, complete: bool) -> float:
    """The final score of a chunk, from all that it is worth."""
    strength = min(1.0, max(0.0, strength))
    if complete:
        return COMPLETE_FROM + (1 - COMPLETE_FROM) * math.pow(strength, _COMPLETE_CURVE)
    return min(COMPLETE_FROM - 0.0001, COMPLETE_FROM * math.pow(strength, _PARTIAL_CURVE))


def surprise(held_by: int, chunk_count: int) -> float:
    """How much it tells that a chunk holds a term which so many hold."""
    count = max(1, held_by)
    return math.log(1 + (max(chunk_count, count) - count + 0.5) / (count + 0.5))


def _weight(match: Match, chunk_count: int) -> float:
    factor = STOP_WEIGHT if match.term.stop else GUESS_WEIGHT if match.is_guess else 1.0
    return surprise(match.held_by, chunk_count) * factor
