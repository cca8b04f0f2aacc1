"""The words of texts in other languages: cut out of scripts without spaces, and what each adds to a vector.

The cut is the one whose words are the most probable together. The *meaning* of a word is the sum of the table's rows
for the pieces of its translation, without the direction that frequent words have in common: it makes texts alike that
only share what every text has. Its *own direction* is drawn from its hash, so that a text with the same word is closer
than one with a similar word, and a name that no dictionary has is still found by its characters.

The few words of a query are cut and read without numpy, so that a search from the command line need not load it; those
of the many texts of an index run at once, with the same result.
"""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from mdrecall.embed.offline import word_file

# Cutting looks at no more characters at once; a longer run without punctuation is data, and its cut at this place
# hardly matters.
RUN_CHARS = 64
#: All of them lie below this code point.
CODES = 0x10000
# A character that is not a word by itself costs more than the rarest word, so that any word is preferred.
UNKNOWN_COST = 220
# Every word costs this much besides, because the frequencies of short words are those of single characters everywhere:
# without it, a word in hiragana falls into particles.
WORD_COST = 20
_INFINITE = 1 << 20
# The hashes that occur, by their first bits: most of what is looked up is not a word, and this tells so quickly.
_FILTER_BITS = 20

_RUNS = f"[{word_file.UNSPACED}]{{1,{RUN_CHARS}}}"
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
#: A word in a text, and the number of its record; -1 for a character that is not a word by itself.
Cut: TypeAlias = tuple[str, int]
#: What a word adds to a vector: pieces, and dimensions of its own direction, with what is added for each.
Part: TypeAlias = tuple[tuple[tuple[int, float], ...], tuple[tuple[int, float], ...]]


class Cutter:
    """Cuts text into the words of one file."""

    def __init__(self, file: word_file.WordFile) -> None:
        self.file = file
        self._filter: Any = None

    def cut(self, text: str) -> tuple[list[Cut], int]:
        """Return the words of a folded text, and what they cost together."""
        found: list[Cut] = []
        total = 0
        for run in re.findall(_RUNS, text):
            words, cost = self._cut_run(run)
            found += words
            total += cost
        return found, total

    def _cut_run(self, run: str) -> tuple[list[Cut], int]:
        file, longest = self.file, self.file.card.longest
        best = [0] * (len(run) + 1)
        choice = [("", -1)] * len(run)
        for start in range(len(run) - 1, -1, -1):
            best[start], choice[start] = UNKNOWN_COST + best[start + 1], (run[start], -1)
            hashed = word_file.HASH_START
            for end in range(start + 1, min(len(run), start + longest) + 1):
                hashed = (hashed ^ ord(run[end - 1])) * word_file.HASH_FACTOR & 0xFFFFFFFF
                number = file.find_hash(hashed)
                if number >= 0 and (cost := file.cost(number) + WORD_COST + best[end]) < best[start]:
                    best[start], choice[start] = cost, (run[start:end], number)
        found: list[Cut] = []
        place = 0
        while place < len(run):
            found.append(choice[place])
            place += len(choice[place][0])
        return found, best[0]

    def cut_many(self, texts: Sequence[str]) -> tuple[Any, Any, Any]:
        """Return the words of many folded texts: the text that each is in, ascending, its record, and its length.

        A character that is not a word by itself has its negative code point instead of a record.
        """
        import numpy

        codes = numpy.frombuffer("\n".join(texts).encode("utf-32-le", "surrogatepass"), "<u4")
        owners = numpy.repeat(numpy.arange(len(texts)), [len(text) + 1 for text in texts])[: len(codes)]
        left = _count_left(codes)
        numbers, costs = self._look_up(codes, left)
        steps = _choose_steps(left, costs)
        places = _follow_steps(left, steps)
        taken = steps[places]
        found = numbers[taken - 1, places]
        return owners[places], numpy.where(found < 0, -codes[places].astype(numpy.int32), found), taken

    def _look_up(self, codes: Any, left: Any) -> tuple[Any, Any]:
        """Return the record and cost of every run of characters that could be a word, by length and place."""
        import numpy

        known = numpy.frombuffer(self.file.hashes, numpy.uint32)
        stored = numpy.frombuffer(self.file.records, numpy.uint8).reshape(-1, word_file.RECORD_BYTES)[:, -1]
        if self._filter is None:
            self._filter = numpy.zeros(1 << _FILTER_BITS, bool)
            self._filter[known >> (32 - _FILTER_BITS)] = True
        longest = self.file.card.longest
        numbers = numpy.full((longest, len(codes)), -1, numpy.int32)
        costs = numpy.full((longest, len(codes)), _INFINITE, numpy.int32)
        starts = numpy.flatnonzero(left)
        hashed = numpy.full(len(starts), word_file.HASH_START, numpy.uint32)
        for length in range(1, longest + 1):
            reaches = left[starts] >= length
            starts, hashed = starts[reaches], hashed[reaches]
            hashed = (hashed ^ codes[starts + (length - 1)]) * numpy.uint32(word_file.HASH_FACTOR)
            maybe = numpy.flatnonzero(self._filter[hashed >> (32 - _FILTER_BITS)])
            wanted = hashed[maybe]
            number = numpy.searchsorted(known, wanted)
            number[number == len(known)] = 0
            is_word = known[number] == wanted
            places, number = starts[maybe[is_word]], number[is_word]
            numbers[length - 1, places] = number
            costs[length - 1, places] = stored[number].astype(numpy.int32) + WORD_COST
        costs[0][numbers[0] < 0] = UNKNOWN_COST
        return numbers, costs


def _count_left(codes: Any) -> Any:
    """Return for every character how many follow in its run, itself included; 0 if it is not in one."""
    import numpy

    is_unspaced = numpy.zeros(CODES, bool)
    for first, last in zip(word_file.UNSPACED[::3], word_file.UNSPACED[2::3], strict=True):
        is_unspaced[ord(first) : ord(last) + 1] = True
    inside = numpy.zeros(len(codes) + 2, bool)
    inside[1:-1] = is_unspaced[numpy.minimum(codes, CODES - 1)]
    edges = numpy.flatnonzero(inside[1:] != inside[:-1])
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    place = numpy.arange(lengths.sum()) - numpy.repeat(numpy.cumsum(lengths) - lengths, lengths)
    # 16 bits are enough for a run, and numbers of 16 bits are sorted much faster.
    left = numpy.zeros(len(codes) + 1, numpy.int16)
    in_run = numpy.minimum(numpy.repeat(lengths, lengths) - place, RUN_CHARS - place % RUN_CHARS)
    left[numpy.repeat(starts, lengths) + place] = in_run
    return left


def _choose_steps(left: Any, costs: Any) -> Any:
    """Return the length of the word that begins at each place in the best cut of the rest of its run."""
    import numpy

    longest = len(costs)
    by_place = numpy.ascontiguousarray(costs.T)
    best = numpy.zeros(len(left) + longest, numpy.int32)
    # The best costs that follow a place, one for each length of its first word.
    following = numpy.lib.stride_tricks.sliding_window_view(best, longest)
    steps = numpy.zeros(len(left), numpy.int32)
    order = numpy.argsort(left, kind="stable")
    bounds = numpy.searchsorted(left[order], numpy.arange(1, RUN_CHARS + 2))
    for first, last in pairwise(bounds):
        places = order[first:last]
        if len(places):
            offers = by_place[places]
            offers += following[places + 1]
            # Of equally probable cuts the one with the shorter first word is taken, as in plain Python.
            chosen = offers.argmin(1)
            steps[places] = chosen + 1
            best[places] = offers[numpy.arange(len(places)), chosen]
    return steps


def _follow_steps(left: Any, steps: Any) -> Any:
    """Return the places where words begin, in ascending order."""
    import numpy

    before = numpy.concatenate([[0], left[:-1]])
    places = numpy.flatnonzero((left > 0) & (before <= 1))
    found = []
    while len(places):
        found.append(places)
        following = places + steps[places]
        places = following[left[places] > steps[places]]
    return numpy.sort(numpy.concatenate(found)) if found else numpy.zeros(0, numpy.int64)


class Table(NamedTuple):
    """The table as arrays."""

    rows: Any
    """Signed bytes, one row for each piece."""
    scales: Any
    common: Any
    """The direction that frequent words have in common, one unit long."""


def make_part(file: word_file.WordFile, word: Cut, weight: float, dimensions: int) -> Part:
    """Return what a word of a query adds to its vector, without taking out the common direction."""
    text, number = word
    meaning, own = (_CHAR_MEANING, _CHAR_OWN) if len(text) == 1 else (MEANING, OWN)
    pieces: tuple[tuple[int, float], ...] = ()
    cost = UNKNOWN_COST * word_file.COST_STEP
    if number >= 0:
        pieces, cost = file.read(number)
        if not pieces:
            return (), ()
    direction = own_direction(word_file.hash_word(text), weight * own * word_file.word_length(cost), dimensions)
    return tuple((piece, weight * meaning * share) for piece, share in pieces), tuple(direction)


def own_direction(seed: int, size: float, dimensions: int) -> Iterator[tuple[int, float]]:
    """Yield the dimensions of a word's own direction with what is added to each."""
    step = size / math.sqrt(_OWN_DIMENSIONS)
    for _ in range(_OWN_DIMENSIONS if size else 0):
        seed = (seed * _RANDOM_FACTOR + _RANDOM_STEP) & 0xFFFFFFFF
        yield (seed >> 16) % dimensions, step if seed >> 31 else -step


class WordVectors:
    """The vectors of the words that the texts of one call have, in one language; none is computed twice."""

    def __init__(self, file: word_file.WordFile, table: Table) -> None:
        import numpy

        self._file = file
        self._table = table
        self._count = 0
        # Rows that are not written yet take no memory.
        self._vectors = numpy.empty((MAX_WORDS, table.rows.shape[1]), numpy.float32)
        self._rows = numpy.full(2 * file.card.words + CODES, -1, numpy.int32)

    def add(self, found: tuple[Any, Any, Any], texts: Sequence[int], sums: Any) -> None:
        """Add the vectors of the words that were found to the rows of their texts in ``sums``."""
        import numpy

        owners, numbers, lengths = found
        rows = self._find_rows(numbers, lengths)
        bounds = numpy.searchsorted(owners, numpy.arange(len(texts) + 1)).tolist()
        for text, (start, end) in zip(texts, pairwise(bounds), strict=True):
            sums[text] += numpy.add.reduce(self._vectors.take(rows[start:end], axis=0), axis=0)

    def _find_rows(self, found: Any, lengths: Any) -> Any:
        """Return the row of each word's vector; those that are not there are computed first."""
        import numpy

        # Two words may have the same hash: a single character and a longer word have different vectors even then.
        unknown = 2 * self._file.card.words
        keys = numpy.where(found < 0, unknown - found, 2 * found + (lengths == 1))
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
        costs = numpy.where(is_known, records[:, -1], UNKNOWN_COST) * word_file.COST_STEP
        points, sizes = zip(*word_file.LENGTHS, strict=True)
        size = numpy.interp(costs, points, sizes) * numpy.where(is_char, _CHAR_OWN, OWN) / math.sqrt(_OWN_DIMENSIONS)
        size = (size * (has_meaning | ~is_known)).astype(numpy.float32)
        hashes = numpy.frombuffer(self._file.hashes, numpy.uint32)[numbers * is_known]
        chars = (numpy.uint32(word_file.HASH_START) ^ (-numbers).astype(numpy.uint32)) * numpy.uint32(
            word_file.HASH_FACTOR
        )
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


def read_records(file: word_file.WordFile) -> Any:
    """Return the records of a word file, one row of bytes for each."""
    import numpy

    return numpy.frombuffer(file.records, numpy.uint8).reshape(-1, word_file.RECORD_BYTES)


def read_columns(records: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the first pieces of all records with their weights, then the second ones, and so on."""
    import numpy

    scale = numpy.exp2((records[:, -2].astype(numpy.float32) - word_file.SCALE_MIDDLE) / word_file.SCALE_STEPS)
    for place in range(word_file.PIECES):
        weight = records[:, 2 * word_file.PIECES + place // 2] >> (4 * (place % 2)) & word_file.MAX_WEIGHT
        yield (
            records[:, 2 * place].astype(numpy.int32) | records[:, 2 * place + 1].astype(numpy.int32) << 8,
            scale * weight,
        )
