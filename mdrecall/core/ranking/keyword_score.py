"""The keyword score: how well a chunk answers a query by its words, from 0 to 1, on the same scale for every index.

Every term has a weight: the rarer it is, the more it counts; stop words hardly count. A chunk's *strength* is the share
of the query's weight that it holds: mostly by how often and how densely its terms occur (BM25 saturation), partly by
how much of the query is in one passage. A vector search adds its similarity (``fusion``). A chunk that holds every
*distinctive* term is *complete* and scores 0.7 or more; every other chunk scores below 0.7. So a chunk with all the
rare words of a query never ranks below one that lacks some of them, whatever else that one repeats, and however old
the first one is.
"""

import heapq
import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from mdrecall.core.text.stem import stem
from mdrecall.types import Match

# A stop word still decides between chunks that are otherwise equal, but never against a word that says something.
STOP_WEIGHT = 0.1
# A word that was only found as the beginning of longer words may mean something else there.
GUESS_WEIGHT = 0.5
# The share of the best passage in the strength; the rest is how often the terms occur in the whole chunk.
PASSAGE_SHARE = 0.15
# A term is rare if at most this share of the chunks hold it, less ten chunks: in a small index, a word in a few chunks
# may still be a common one.
RARE_SHARE = 0.1
_RARE_LESS = 10
# In fewer chunks nothing tells which words are common: if no term is rare, all terms but the stop words count as rare.
_SMALL_INDEX = 64
#: Complete chunks score at least this much, and all others less.
COMPLETE_FROM = 0.7
# Exponents that spread the strengths over the two ranges of scores; below 1 they raise the weak ones most.
_COMPLETE_CURVE = 0.5
_PARTIAL_CURVE = 0.22
# How many chunks exactly as strong as the last one may come on top of the limit, in multiples of it.
_MAX_TIES = 4


class Weighted(NamedTuple):
    """A chunk with its strength by terms, before its passages are known."""

    chunk_id: int
    strength: float
    complete: bool


class Weights(NamedTuple):
    """The weight of each term of a query in this index."""

    by_term: Mapping[str, float]
    total: float
    distinctive: frozenset[str]
    """The rare terms: a chunk that holds all of them is complete. If there are none, no chunk is complete."""
    beginnings: tuple[str, ...]
    """The terms that were only found as the beginning of longer ones."""
    names: Mapping[str, frozenset[str]]
    """The words of each name, which mean the same when they occur together."""
    initials: frozenset[str]
    """The characters that terms begin with."""


def weigh(matches: Iterable[Match], chunk_count: int) -> Weights:
    """Weigh the terms of a query by how few chunks hold them."""
    matches = list(matches)
    by_term = {match.term.text: _weight(match, chunk_count) for match in matches}
    in_names = {stem(part) for match in matches if match.chunks for part in match.term.parts}
    known = [match for match in matches if match.chunks and match.term.text not in in_names]
    informative = [match for match in known if not (match.term.stop or match.is_guess)]
    few = max(1.0, chunk_count * RARE_SHARE - _RARE_LESS)
    rare = [match for match in informative if match.held_by <= few]
    distinctive = rare or (informative if chunk_count < _SMALL_INDEX else [])
    return Weights(
        by_term,
        sum(by_term.values()) or 1.0,
        frozenset(match.term.text for match in distinctive),
        tuple(match.term.text for match in matches if match.loose),
        {match.term.text: frozenset(map(stem, match.term.parts)) for match in matches if match.term.parts},
        frozenset(term[0] for term in by_term),
    )


class Strengths(NamedTuple):
    """The strength of every chunk that holds a term of the query."""

    by_chunk: Mapping[int, float]
    complete: frozenset[int]

    def of(self, chunk_id: int) -> Weighted:
        """Return the strength of one chunk; 0 if it holds no term."""
        return Weighted(chunk_id, self.by_chunk.get(chunk_id, 0.0), chunk_id in self.complete)


def strengths(matches: Iterable[Match], weights: Weights) -> Strengths:
    """Add up the weights of the terms that each chunk holds, each by its saturation."""
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
    """Return the best chunks by their terms, complete ones first, and those that tie with the last one."""
    best = _strongest({chunk_id: found.by_chunk[chunk_id] for chunk_id in found.complete}, limit)
    if len(best) < limit:
        rest = {chunk_id: value for chunk_id, value in found.by_chunk.items() if chunk_id not in found.complete}
        best += _strongest(rest, limit - len(best))
    return [Weighted(chunk_id, value, chunk_id in found.complete) for chunk_id, value in best]


def _strongest(strength: Mapping[int, float], limit: int) -> list[tuple[int, float]]:
    """Return the strongest chunks and those that tie with the last one: the order of indexing must not decide."""
    best = heapq.nsmallest(limit, strength.items(), key=lambda entry: (-entry[1], entry[0]))
    if limit and len(best) == limit:
        equal = (entry for entry in strength.items() if entry[1] == best[-1][1])
        best = list(dict.fromkeys((*best, *islice(equal, _MAX_TIES * limit))))
    return best


def keyword_strength(weighted: Weighted, passage_coverage: float) -> float:
    """Return the strength of a chunk whose best passage holds ``passage_coverage`` of the query's weight."""
    return (1 - PASSAGE_SHARE) * weighted.strength + PASSAGE_SHARE * passage_coverage


def score(strength: float, complete: bool) -> float:
    """Map a strength to the score of a complete or an incomplete chunk."""
    strength = min(1.0, max(0.0, strength))
    if complete:
        return COMPLETE_FROM + (1 - COMPLETE_FROM) * math.pow(strength, _COMPLETE_CURVE)
    return min(COMPLETE_FROM - 0.0001, COMPLETE_FROM * math.pow(strength, _PARTIAL_CURVE))


def surprise(held_by: int, chunk_count: int) -> float:
    """Return the inverse document frequency of a term that ``held_by`` chunks hold, as BM25 defines it."""
    count = max(1, held_by)
    return math.log(1 + (max(chunk_count, count) - count + 0.5) / (count + 0.5))


def _weight(match: Match, chunk_count: int) -> float:
    factor = STOP_WEIGHT if match.term.stop else GUESS_WEIGHT if match.is_guess else 1.0
    return surprise(match.held_by, chunk_count) * factor
