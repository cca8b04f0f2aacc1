"""What a word of another language adds to the vector of a text.

The *meaning* of a word is the sum of the table's rows for the pieces of its translation, without the direction that
frequent words have in common: it makes texts alike that only share what every text has. Its *own direction* is drawn
from its hash, so that a text with the same word is closer than one with a similar word, and a name that no dictionary
has is still found by its characters.

The few words of a query are read without numpy; those of the many texts of an index run at once, each word once.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from mdrecall.embed.offline.cutting import CODES, UNKNOWN_COST, Cut, CutTexts
from mdrecall.embed.offline.word_file import (
    COST_STEP,
    HASH_FACTOR,
    HASH_START,
    LENGTHS,
    MAX_WEIGHT,
    PIECES,
    RECORD_BYTES,
    SCALE_MIDDLE,
    SCALE_STEPS,
    WordFile,
    hash_word,
    word_length,
)
from mdrecall.named_tuple import NamedTuple

#: The shares of a word's length that are its meaning and its own direction. Chosen on public sets: more of the second
#: finds more within a language, less of it finds more across languages.
MEANING, OWN = 0.87, 0.4
# A single character means many things, and is often a part of a name.
_CHAR_MEANING, _CHAR_OWN = 0.25, 0.6
# How many dimensions an own direction has. Fewer make two words alike by chance, more take longer.
_OWN_DIMENSIONS = 16
_RANDOM_FACTOR, _RANDOM_STEP = 1664525, 1013904223
#: Bounds the memory: each vector takes a kilobyte. No more characters may be cut at once.
MAX_WORDS = 16_000


class Part(NamedTuple):
    """What a word adds to a vector."""

    pieces: tuple[tuple[int, float], ...]
    own: tuple[tuple[int, float], ...]
    """Dimensions with what is added to each."""


class Table(NamedTuple):
    """The table as arrays."""

    rows: Any
    """Signed bytes, one row for each piece."""
    scales: Any
    common: Any
    """The direction that frequent words have in common, one unit long."""


def make_part(file: WordFile, word: Cut, weight: float, dimensions: int) -> Part:
    """Return what a word of a query adds to its vector, without taking out the common direction."""
    meaning, own = (_CHAR_MEANING, _CHAR_OWN) if len(word.text) == 1 else (MEANING, OWN)
    pieces: tuple[tuple[int, float], ...] = ()
    cost = UNKNOWN_COST * COST_STEP
    if word.number >= 0:
        pieces, cost = file.read(word.number)
        if not pieces:
            return Part((), ())
    direction = own_direction(hash_word(word.text), weight * own * word_length(cost), dimensions)
    return Part(tuple((piece, weight * meaning * share) for piece, share in pieces), tuple(direction))


def own_direction(seed: int, size: float, dimensions: int) -> Iterator[tuple[int, float]]:
    """Yield the dimensions of a word's own direction with what is added to each."""
    step = size / math.sqrt(_OWN_DIMENSIONS)
    for _ in range(_OWN_DIMENSIONS if size else 0):
        seed = (seed * _RANDOM_FACTOR + _RANDOM_STEP) & 0xFFFFFFFF
        yield (seed >> 16) % dimensions, step if seed >> 31 else -step


class WordVectors:
    """The vectors of the words that the texts of one call have, in one language; none is computed twice."""

    def __init__(self, file: WordFile, table: Table) -> None:
        import numpy

        self._file = file
        self._table = table
        self._count = 0
        # Rows that are not written yet take no memory.
        self._vectors = numpy.empty((MAX_WORDS, table.rows.shape[1]), numpy.float32)
        self._rows = numpy.full(2 * file.card.words + CODES, -1, numpy.int32)

    def add(self, found: CutTexts, texts: Sequence[int], sums: Any) -> None:
        """Add the vectors of the words that were found to the rows of their texts in ``sums``."""
        import numpy

        rows = self._find_rows(found)
        bounds = numpy.searchsorted(found.owners, numpy.arange(len(texts) + 1)).tolist()
        for text, (start, end) in zip(texts, pairwise(bounds), strict=True):
            sums[text] += numpy.add.reduce(self._vectors.take(rows[start:end], axis=0), axis=0)

    def _find_rows(self, found: CutTexts) -> Any:
        """Return the row of each word's vector; those that are not there are computed first."""
        import numpy

        # Two words may have the same hash: a single character and a longer word have different vectors even then.
        unknown = 2 * self._file.card.words
        keys = numpy.where(found.numbers < 0, unknown - found.numbers, 2 * found.numbers + (found.lengths == 1))
        new = self._find_new(keys)
        if self._count + len(new) > MAX_WORDS:
            self._count = 0
            self._rows.fill(-1)
            new = self._find_new(keys)
        if len(new):
            end = self._count + len(new)
            numbers = numpy.where(new < unknown, new // 2, unknown - new)
            self._vectors[self._count : end] = self._compute(numbers, (numbers < 0) | (new % 2 == 1))
            self._rows[new] = numpy.arange(self._count, end)
            self._count = end
        return self._rows[keys]

    def _find_new(self, keys: Any) -> Any:
        """Return each key that has no row once. (``numpy.unique`` would load a module that takes 100 ms.)"""
        import numpy

        without = keys[self._rows[keys] < 0]
        places = numpy.arange(len(without), dtype=numpy.int32)
        self._rows[without] = places
        new = without[self._rows[without] == places]
        self._rows[new] = -1
        return new

    def _compute(self, numbers: Any, is_char: Any) -> Any:
        """Return the vectors of words, one row for each."""
        import numpy

        is_known = numbers >= 0
        records = read_records(self._file)[numbers * is_known]
        vectors, has_meaning = self._sum_pieces(records, numpy.where(is_char, _CHAR_MEANING, MEANING) * is_known)
        costs = numpy.where(is_known, records[:, -1], UNKNOWN_COST) * COST_STEP
        points, sizes = zip(*LENGTHS, strict=True)
        size = numpy.interp(costs, points, sizes) * numpy.where(is_char, _CHAR_OWN, OWN) / math.sqrt(_OWN_DIMENSIONS)
        size = (size * (has_meaning | ~is_known)).astype(numpy.float32)
        hashes = numpy.frombuffer(self._file.hashes, numpy.uint32)[numbers * is_known]
        chars = (numpy.uint32(HASH_START) ^ (-numbers).astype(numpy.uint32)) * numpy.uint32(HASH_FACTOR)
        seed = numpy.where(is_known, hashes, chars)
        every = numpy.arange(len(numbers))
        for _ in range(_OWN_DIMENSIONS):
            seed = seed * numpy.uint32(_RANDOM_FACTOR) + numpy.uint32(_RANDOM_STEP)
            vectors[every, (seed >> 16) % vectors.shape[1]] += numpy.where(seed >> 31, size, -size)
        return vectors

    def _sum_pieces(self, records: Any, shares: Any) -> tuple[Any, Any]:
        """Return the meanings of words, one row for each, and which of them have any."""
        import numpy

        rows, scales, common = self._table
        vectors = numpy.zeros((len(records), rows.shape[1]), numpy.float32)
        has_meaning = numpy.zeros(len(records), bool)
        for pieces, weight in read_columns(records):
            has_meaning |= weight > 0
            vectors += rows[pieces] * (shares * weight * scales[pieces]).astype(numpy.float32)[:, None]
        # Row by row, because a product of matrices rounds a row differently beside others.
        vectors -= numpy.einsum("ij,j->i", vectors, common)[:, None] * common
        return vectors, has_meaning


def read_records(file: WordFile) -> Any:
    """Return the records of a word file, one row of bytes for each."""
    import numpy

    return numpy.frombuffer(file.records, numpy.uint8).reshape(-1, RECORD_BYTES)


def read_columns(records: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the first pieces of all records with their weights, then the second ones, and so on."""
    import numpy

    scale = numpy.exp2((records[:, -2].astype(numpy.float32) - SCALE_MIDDLE) / SCALE_STEPS)
    for place in range(PIECES):
        weight = records[:, 2 * PIECES + place // 2] >> (4 * (place % 2)) & MAX_WEIGHT
        yield (
            records[:, 2 * place].astype(numpy.int32) | records[:, 2 * place + 1].astype(numpy.int32) << 8,
            scale * weight,
        )
