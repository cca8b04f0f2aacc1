"""Scores: how well a chunk answers a query by its words and by its vectors, from 0 to 1, the same for every index.

Every term has a weight: the rarer it is, the more it counts; stop words hardly count. A chunk's *strength* is the share
of the query's weight that it holds: mostly by how often and how densely its terms occur (BM25 saturation), partly by
how much of the query is in one passage. The *similarity* of the vector search is mixed in. A chunk that holds every
*distinctive* term is *complete* and scores 0.7 or more; every other chunk scores below 0.7. So a chunk with all the
rare words of a query never ranks below one that lacks some of them, whatever else that one repeats, and however old
the first one is.

Scores do not depend on the other results of the query, as ranks or z-scores would. So a score means the same in every
workspace, and a new note does not reorder the old ones.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from mdrecall.core.text.stem import stem
from mdrecall.core.text.words import fold
from mdrecall.types import Match, Traits

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

#: The share of the best window in the similarity of a chunk; the rest is the chunk as a whole.
WINDOW_SHARE = 0.5
# Even a word in every chunk keeps this share of its weight, so that a query of such words only has a vector.
_MIN_WORD_WEIGHT = 0.1
# Up to here the similarity grows with the cosine; above it more slowly, so that it never reaches 1.
_BEND = 0.8
# For an embedder of unknown range: the cosine of an answer lies this share of the way from unrelated text to 1, as with
# the embedders that were measured.
_RELATED_SHARE = 0.55
# The cosine of unrelated text to begin with, and how many chunks that assumption counts for: a few chunks prove little.
_ASSUMED_UNRELATED = 0.2
_ASSUMED_CHUNKS = 20
# Above this, unrelated text and answers could no longer be told apart.
_MAX_UNRELATED = 0.9


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


class Strengths(NamedTuple):
    """The strength of every chunk that holds a term of the query."""

    by_chunk: Mapping[int, float]
    complete: frozenset[int]

    def get(self, chunk_id: int) -> Weighted:
        """Return the strength of one chunk; 0 if it holds no term."""
        return Weighted(chunk_id, self.by_chunk.get(chunk_id, 0.0), chunk_id in self.complete)


class Similarity(NamedTuple):
    """How similar the vectors of a chunk are to the query's."""

    value: float
    """From 0 for an unrelated chunk to 1 for an answer."""
    whole: float
    """The cosine of the whole chunk."""
    window: float
    """The cosine of its best window; that of the chunk if it has no windows."""


def weigh(matches: Iterable[Match], chunk_count: int) -> Weights:
    """Weigh the terms of a query by how few chunks hold them."""
    matches = list(matches)
    by_term = {match.term.text: _weight(match, chunk_count) for match in matches}
    in_names = {stem(part) for match in matches if match.chunks for part in match.term.parts}
    known = [match for match in matches if match.chunks and match.term.text not in in_names]
    informative = [match for match in known if not (match.term.stop or _is_guess(match))]
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


def idf(held_by: int, chunk_count: int) -> float:
    """Return the inverse document frequency of a term that ``held_by`` chunks hold, as BM25 defines it."""
    count = max(1, held_by)
    return math.log(1 + (max(chunk_count, count) - count + 0.5) / (count + 0.5))


def _is_guess(match: Match) -> bool:
    """True if the term is a word that no chunk contains, so that the chunks only contain longer words like it."""
    return match.loose and match.term.surface.isalpha() and not match.term.always_prefix


def _weight(match: Match, chunk_count: int) -> float:
    factor = STOP_WEIGHT if match.term.stop else GUESS_WEIGHT if _is_guess(match) else 1.0
    return idf(match.held_by, chunk_count) * factor


def similarity(whole: float, window: float | None, traits: Traits) -> Similarity:
    """Convert cosines, whose range depends on the embedder, to a similarity that means the same for all of them."""
    best = whole if window is None else window
    mixed = (1 - WINDOW_SHARE) * whole + WINDOW_SHARE * best
    value = (mixed - traits.unrelated) / (traits.related - traits.unrelated)
    return Similarity(_bend(max(0.0, value)), whole, best)


def measure_traits(traits: Traits, mean: float, count: int) -> Traits:
    """Return the traits of an embedder of unknown range, from the mean cosine of a query with ``count`` chunks.

    Few chunks prove little, because all of them may be related to the query.
    """
    unrelated = (max(0.0, mean) * count + _ASSUMED_UNRELATED * _ASSUMED_CHUNKS) / (count + _ASSUMED_CHUNKS)
    unrelated = min(unrelated, _MAX_UNRELATED)
    return traits._replace(unrelated=unrelated, related=unrelated + _RELATED_SHARE * (1 - unrelated))


def _bend(value: float) -> float:
    """Bend the values above 0.8, so that they stay below 1 and the closer of two close chunks stays ahead."""
    return value if value <= _BEND else 1 - (1 - _BEND) * math.exp((_BEND - value) / (1 - _BEND))


def fuse(keyword_score: float, similarity: Similarity | None, vector_weight: float) -> float:
    """Mix the keyword score and the similarity; a chunk without a vector keeps its keyword score."""
    if similarity is None:
        return keyword_score
    return (1 - vector_weight) * keyword_score + vector_weight * similarity.value


def most_promising(
    entries: Sequence[Weighted], cosines: Mapping[int, float], traits: Traits, weight: float, size: int
) -> list[Weighted]:
    """Return the best chunks by what is known before their text is read, and those that tie with the last one."""

    def order(entry: Weighted) -> tuple[bool, float]:
        cosine = cosines.get(entry.chunk_id)
        near = None if cosine is None else similarity(cosine, None, traits)
        return not entry.complete, -fuse(entry.strength, near, weight)

    ordered = sorted(entries, key=lambda entry: (order(entry), entry.chunk_id))
    last = order(ordered[size - 1]) if size < len(ordered) else (True, 0.0)
    return [entry for place, entry in enumerate(ordered) if place < size or order(entry) == last]


def word_weights(matches: Iterable[Match], chunk_count: int) -> dict[str, float]:
    """Return how much each word of a query counts in its vector: the more chunks hold it, the less.

    A word in every chunk of a workspace, such as a speaker's name, does not tell chunks apart. A word that no chunk
    holds counts fully, because the keyword search cannot find it.
    """
    most = idf(1, chunk_count) or 1.0

    def weight(match: Match) -> float:
        if match.chunks and not match.loose:
            return math.sqrt(max(_MIN_WORD_WEIGHT, idf(match.held_by, chunk_count) / most))
        return 1.0

    return {match.term.surface: weight(match) for match in matches}


def latin_share(text: str) -> float:
    """Return the share of a text's letters and digits that are Latin, accented or not."""
    if text.isascii():
        return 1.0
    folded = [char for char in fold(text) if char.isalnum()]
    return sum(char.isascii() for char in folded) / len(folded) if folded else 0.0
