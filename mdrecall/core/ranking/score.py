"""Scores: how likely it is that a passage answers a query, from 0 to 1.

Every term of a query has a weight: the rarer it is, the more it counts. Stop words count only if no other word of the
query is found. The *words* of a chunk are the share of the query's weight that it holds, where only the eight heaviest
terms count as the whole: words that nobody has written do not make a long question unanswerable. The *likeness* of the
vector search is mixed in, and a chunk that holds an identifier of the query gets a bonus. So does each passage of the
chunk; the mean of both is its *worth*, and a logistic curve maps the worth to a probability. How its numbers were
fitted: ``docs/ranking.md``.

A score does not depend on the other results of the query, as ranks or z-scores would. So it means the same in every
workspace, and a new note does not change the scores of the old ones.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import takewhile

from mdrecall.core.text.stem import stem
from mdrecall.named_tuple import NamedTuple
from mdrecall.types import Match, Term, Traits

# A stop word still decides between chunks that are otherwise equal, but never against a word that says something.
STOP_WEIGHT = 0.1
# A word that was only found as the beginning of longer words may mean something else there.
GUESS_WEIGHT = 0.5
# A query is as heavy as this many of its terms: a note that answers a long question holds a few of its words.
_HEAVIEST = 8
# The share of the best passage in the words of a chunk; the rest is how often the terms occur in the whole chunk.
PASSAGE_SHARE = 0.15
#: What a chunk gains that holds every identifier of the query, whatever else other chunks repeat.
IDENTIFIER_BONUS = 0.4
# How many chunks exactly as strong as the last one may come on top of the limit, in multiples of it.
_MAX_TIES = 4

# The logistic curve, fitted on whole question sets and rounded: 8 * worth - 3 - trust - 0.3 * commonness, and + 0.5 for
# a query without spaces. Without a likeness (trust 0) the same worth means more, so trust has a cost. Words that many
# chunks hold prove less; in scripts without spaces, pairs of characters that are no words count as missing words.
_SLOPE = 8.0
_MIDDLE = 3.0 / _SLOPE
_TRUST_COST = 1.0 / _SLOPE
_COMMON_COST = 0.3 / _SLOPE
_UNSPACED_GAIN = 0.5 / _SLOPE

# The same for a search by vectors only: 3.7 * worth - 3.5. Likeness alone proves less.
_VECTOR_SLOPE = 3.7
_VECTOR_MIDDLE = 0.95

#: The share of the best passage in the likeness of a chunk; the rest is the chunk as a whole.
WINDOW_SHARE = 0.5
# Even a word in every chunk keeps this share of its weight, so that a query of such words only has a vector.
_MIN_WORD_WEIGHT = 0.1
# What a stop word counts in the vector of a query, about the middle between a word in every chunk and one in few. Its
# own vector is short already. With 0.3 short questions, and with 1 conversations, were answered a little less often.
_STOP_WORD_WEIGHT = 0.6
# Up to here the likeness grows with the cosine; above it more slowly, so that it never reaches 1.
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
    """A chunk with what its terms are worth, before its text is read."""

    chunk_id: int
    strength: float
    """The share of the query's weight that it holds, by how often and how densely its terms occur; 0 to 1."""
    identified: float = 0.0
    """The share of the query's identifiers that it holds."""


class Weights(NamedTuple):
    """The weight of each term of a query in this index."""

    by_term: Mapping[str, float]
    total: float
    """The weight of the heaviest terms together."""
    identifiers: frozenset[str]
    """The terms that name one thing, such as ``DEC-0054``."""
    beginnings: tuple[str, ...]
    """The terms that were only found as the beginning of longer ones."""
    names: Mapping[str, frozenset[str]]
    """The words of each name, which mean the same when they occur together."""
    commonness: float
    """How many chunks hold the terms: the logarithm, on average, each term by its weight."""

    def share(self, held: Iterable[str]) -> float:
        """Return the share of the query's weight that these terms have; at most 1."""
        return min(1.0, math.fsum(map(self.by_term.__getitem__, held)) / self.total)


class Strengths(NamedTuple):
    """The strength of every chunk that holds a term of the query."""

    by_chunk: Mapping[int, float]
    identified: Mapping[int, float]
    """The share of the query's identifiers that a chunk holds, if any."""

    def get(self, chunk_id: int) -> Weighted:
        """Return the strength of one chunk; 0 if it holds no term."""
        return Weighted(chunk_id, min(1.0, self.by_chunk.get(chunk_id, 0.0)), self.identified.get(chunk_id, 0.0))


class Similarity(NamedTuple):
    """How similar the vectors of a chunk are to the query's."""

    value: float
    """Its likeness: from 0 for an unrelated chunk to 1 for an answer."""
    whole: float
    """The cosine of the whole chunk."""
    window: float
    """The cosine of its best passage; that of the chunk if its passages have no vectors."""


def weigh(matches: Iterable[Match], chunk_count: int, identifiers: frozenset[str] = frozenset()) -> Weights:
    """Weigh the terms of a query by how few chunks hold them."""
    matches = list(matches)
    by_term = {match.term.text: _weight(match, chunk_count) for match in matches}
    return Weights(
        by_term,
        sum(heapq.nlargest(_HEAVIEST, by_term.values())) or 1.0,
        identifiers & by_term.keys(),
        tuple(match.term.text for match in matches if match.loose),
        {match.term.text: frozenset(map(stem, match.term.parts)) for match in matches if match.term.parts},
        _find_commonness(matches, by_term),
    )


def _find_commonness(matches: Sequence[Match], by_term: Mapping[str, float]) -> float:
    logs = math.fsum(by_term[match.term.text] * math.log1p(match.held_by) for match in matches)
    return logs / (math.fsum(by_term.values()) or 1.0)


def leave_out_stop_words(matches: Sequence[Match]) -> list[Match]:
    """Return the matches of a query without its stop words, unless nothing else of it was found."""
    others = [match for match in matches if not match.term.stop]
    return others if any(match.chunks for match in others) else list(matches)


def strengths(matches: Iterable[Match], weights: Weights, within: Set[int] | None = None) -> Strengths:
    """Add up the weights of the terms that each chunk holds, each by its saturation; of some chunks, if given."""
    strength: dict[int, float] = {}
    identified: dict[int, float] = {}
    for match in matches:
        weight = weights.by_term[match.term.text] / weights.total
        for chunk_id, saturation in match.chunks.items():
            strength[chunk_id] = strength.get(chunk_id, 0.0) + weight * saturation
        if match.term.text in weights.identifiers:
            for chunk_id in match.chunks:
                identified[chunk_id] = identified.get(chunk_id, 0.0) + 1 / len(weights.identifiers)
    if within is not None:
        strength = {chunk_id: value for chunk_id, value in strength.items() if chunk_id in within}
        identified = {chunk_id: value for chunk_id, value in identified.items() if chunk_id in within}
    return Strengths(strength, identified)


def rank(found: Strengths, limit: int) -> list[Weighted]:
    """Return the best chunks by their terms, and those that tie with the last one."""
    worth = found.by_chunk
    if found.identified or max(worth.values(), default=0.0) > 1:
        worth = {chunk_id: min(1.0, value) for chunk_id, value in worth.items()}
        for chunk_id, share in found.identified.items():
            worth[chunk_id] += IDENTIFIER_BONUS * share
    return [found.get(chunk_id) for chunk_id in _strongest(worth, limit)]


def _strongest(strength: Mapping[int, float], limit: int) -> list[int]:
    """Return the strongest chunks and those that tie with the last one: the order of indexing must not decide."""
    least = min(heapq.nlargest(limit, strength.values()), default=math.inf)
    stronger = sorted([(-value, chunk_id) for chunk_id, value in strength.items() if value > least])
    equal = [chunk_id for chunk_id, value in strength.items() if value == least]
    best = [chunk_id for _, chunk_id in stronger] + sorted(equal)[: limit - len(stronger)]
    return list(dict.fromkeys((*best, *equal[: _MAX_TIES * limit]))) if len(best) == limit else best


def chunk_words(strength: float, best_coverage: float) -> float:
    """Return what the words of a chunk are worth whose best passage holds ``best_coverage`` of the query's weight."""
    return (1 - PASSAGE_SHARE) * strength + PASSAGE_SHARE * best_coverage


def mix(words: float, likeness: float | None, vector_weight: float, identified: float = 0.0) -> float:
    """Mix words and likeness into a worth; what has no vector keeps the worth of its words."""
    bonus = IDENTIFIER_BONUS * identified
    if likeness is None:
        return words + bonus
    return (1 - vector_weight) * words + vector_weight * likeness + bonus


def probability(worth: float) -> float:
    """Return how likely something of this worth answers the query."""
    return 1 / (1 + math.exp(-_SLOPE * (worth - _MIDDLE)))


def vector_probability(worth: float) -> float:
    """Return the same for a search by vectors only, where the worth is a likeness."""
    return 1 / (1 + math.exp(-_VECTOR_SLOPE * (worth - _VECTOR_MIDDLE)))


def gain_by_weight(weight: float, *, by_vectors_only: bool = False) -> float:
    """Return what to add to a worth to multiply the odds of its probability by a weight."""
    return math.log(weight) / (_VECTOR_SLOPE if by_vectors_only else _SLOPE)


def wordless_worth(likeness: float) -> float:
    """Return the worth of text that cannot share a word with the query: as likely as in a search by vectors only."""
    return _MIDDLE + _VECTOR_SLOPE / _SLOPE * (likeness - _VECTOR_MIDDLE)


def query_cost(trust: float, commonness: float, *, is_unspaced: bool) -> float:
    """Return what to take off the worth of all that is found for a query.

    ``trust`` is how much the likeness is trusted that was mixed in; 0 if there is none.
    """
    return _TRUST_COST * trust + _COMMON_COST * commonness - (_UNSPACED_GAIN if is_unspaced else 0.0)


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
    """Convert cosines, whose range depends on the embedder, to a likeness that means the same for all of them."""
    best = whole if window is None else window
    return Similarity(likeness((1 - WINDOW_SHARE) * whole + WINDOW_SHARE * best, traits), whole, best)


def likeness(cosine: float, traits: Traits) -> float:
    """Return 0 for the cosine of unrelated text, and nearly 1 for that of an answer."""
    return likenesses([cosine], traits)[0]


def likenesses(cosines: Sequence[float], traits: Traits) -> list[float]:
    """Return the likeness of each cosine."""
    unrelated, span = traits.unrelated, traits.related - traits.unrelated
    scaled = [(cosine - unrelated) / span for cosine in cosines]
    # Most are not bent, and a search has a hundred of them.
    return [value if 0 <= value <= _BEND else _bend(max(0.0, value)) for value in scaled]


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


def most_promising(
    entries: Sequence[Weighted], cosines: Mapping[int, float], traits: Traits, weight: float, size: int
) -> list[Weighted]:
    """Return the best chunks by what is known before their text is read, and those that tie with the last one."""

    def order(entry: Weighted) -> float:
        cosine = cosines.get(entry.chunk_id)
        near = None if cosine is None else likeness(cosine, traits)
        return -mix(entry.strength, near, weight, entry.identified)

    ordered = sorted(entries, key=lambda entry: (order(entry), entry.chunk_id))
    return ordered[:size] + list(takewhile(lambda entry: order(entry) == order(ordered[size - 1]), ordered[size:]))


def word_weights(matches: Iterable[Match], chunk_count: int, terms: Iterable[Term] = ()) -> dict[str, float]:
    """Return how much each word of a query counts in its vector: the more chunks hold it, the less.

    A word in every chunk of a workspace, such as a speaker's name, does not tell chunks apart. A word that no chunk
    holds counts fully, because the keyword search cannot find it. Stop words among ``terms`` that were not looked up
    count less than others, whatever the chunks hold.
    """
    most = idf(1, chunk_count)

    def weight(match: Match) -> float:
        if match.chunks and not match.loose:
            return math.sqrt(max(_MIN_WORD_WEIGHT, idf(match.held_by, chunk_count) / most))
        return 1.0

    unmatched = {term.surface: _STOP_WORD_WEIGHT for term in terms if term.stop}
    return unmatched | {match.term.surface: weight(match) for match in matches}
