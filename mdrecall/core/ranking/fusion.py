"""The fusion of keyword search and vector search into one score on the same scale for every index.

Scores do not depend on the other results of the query, as ranks or z-scores would. So a score means the same in every
workspace, and a new note does not reorder the old ones.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mdrecall.core.ranking.keyword_score import Weighted, surprise
from mdrecall.core.text.words import fold
from mdrecall.types import Match, Traits

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


class Similarity(NamedTuple):
    """How similar the vectors of a chunk are to the query's."""

    value: float
    """From 0 for an unrelated chunk to 1 for an answer."""
    whole: float
    """The cosine of the whole chunk."""
    window: float
    """The cosine of its best window; that of the chunk if it has no windows."""


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


def fuse(words: float, meaning: Similarity | None, weight: float) -> float:
    """Mix the keyword score and the similarity; a chunk without a vector keeps its keyword score."""
    if meaning is None:
        return words
    return (1 - weight) * words + weight * meaning.value


def most_promising(
    entries: Sequence[Weighted], cosines: Mapping[int, float], traits: Traits, weight: float, size: int
) -> list[Weighted]:
    """Return the best chunks by what is known before their text is read, and those that tie with the last one."""

    def order(entry: Weighted) -> tuple[bool, float]:
        cosine = cosines.get(entry.chunk_id)
        meaning = None if cosine is None else similarity(cosine, None, traits)
        return not entry.complete, -fuse(entry.strength, meaning, weight)

    ordered = sorted(entries, key=lambda entry: (order(entry), entry.chunk_id))
    last = order(ordered[size - 1]) if size < len(ordered) else (True, 0.0)
    return [entry for place, entry in enumerate(ordered) if place < size or order(entry) == last]


def word_weights(matches: Iterable[Match], chunk_count: int) -> dict[str, float]:
    """Return how much each word of a query counts in its vector: the more chunks hold it, the less.

    A word in every chunk of a workspace, such as a speaker's name, does not tell chunks apart. A word that no chunk
    holds counts fully, because the keyword search cannot find it.
    """
    most = surprise(1, chunk_count) or 1.0

    def weight(match: Match) -> float:
        if match.chunks and not match.loose:
            return math.sqrt(max(_MIN_WORD_WEIGHT, surprise(match.held_by, chunk_count) / most))
        return 1.0

    return {match.term.surface: weight(match) for match in matches}


def latin_share(text: str) -> float:
    """Return the share of a text's letters and digits that are Latin, accented or not."""
    if text.isascii():
        return 1.0
    folded = [char for char in fold(text) if char.isalnum()]
    return sum(char.isascii() for char in folded) / len(folded) if folded else 0.0
