"""Words and meaning in one number, with one meaning everywhere.

Neither leg is measured against the other results of the query, as ranks or z-scores would: a chunk is worth what it is
worth, whatever else is in the index. So a score means the same in every workspace, and a new note does not reorder
old ones.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mdrecall.core.ranking.keyword_score import Weighted, surprise
from mdrecall.core.text.words import fold
from mdrecall.types import Match, Traits

#: The share of the best window in how alike a chunk is; the rest is the chunk as a whole.
WINDOW_SHARE = 0.5
_LEAST_WEIGHT = 0.1
_BEND = 0.8
# What is unrelated and what answers lie as far apart as with the embedders that were measured.
_SPAN = 0.55
_USUAL_UNRELATED = 0.2
_MOST_UNRELATED = 0.9
_FEW = 20


class Similarity(NamedTuple):
    """How close a chunk's meaning is to the query's."""

    value: float
    """0 for chunks of no concern, 1 for what answers it."""
    whole: float
    """The cosine of the whole chunk."""
    window: float
    """The cosine of its best window; the chunk's, if there are no windows."""


def similarity(whole: float, window: float | None, traits: Traits) -> Similarity:
    """From cosines, which differ in range between embedders, to a number that means the same for all."""
    best = whole if window is None else window
    mixed = (1 - WINDOW_SHARE) * whole + WINDOW_SHARE * best
    value = (mixed - traits.unrelated) / (traits.related - traits.unrelated)
    return Similarity(_bent(max(0.0, value)), whole, best)


def measure_traits(traits: Traits, mean: float, count: int) -> Traits:
    """The traits of an embedder whose range nobody knows, from the mean cosine of a query with so many chunks.

    Few chunks prove little: they may all be of concern.
    """
    unrelated = (max(0.0, mean) * count + _USUAL_UNRELATED * _FEW) / (count + _FEW)
    unrelated = min(unrelated, _MOST_UNRELATED)
    return traits._replace(unrelated=unrelated, related=unrelated + _SPAN * (1 - unrelated))


def _bent(value: float) -> float:
    """Straight up to 0.8, then ever more slowly towards 1, so that the closer of two close chunks stays ahead."""
    return value if value <= _BEND else 1 - (1 - _BEND) * math.exp((_BEND - value) / (1 - _BEND))


def fuse(words: float, meaning: Similarity | None, weight: float) -> float:
    """The strength of a chunk by both legs; a chunk without a vector stands by its words alone."""
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
    """How much each word of a query counts for its meaning, by how many chunks hold it.

    What is in every chunk of a workspace, such as the names of those who talk in it, tells nothing apart there. A word
    that no chunk holds counts fully: it is what words alone cannot find.
    """
    most = surprise(1, chunk_count) or 1.0

    def weight(match: Match) -> float:
        if match.chunks and not match.loose:
            return math.sqrt(max(_LEAST_WEIGHT, surprise(match.held_by, chunk_count) / most))
        return 1.0

    return {match.term.surface: weight(match) for match in matches}


def latin_share(text: str) -> float:
    """How much of a text is in letters a to z and digits, accents aside."""
    if text.isascii():
        return 1.0
    told = [char for char in fold(text) if char.isalnum()]
    return sum(char.isascii() for char in told) / len(told) if told else 0.0
