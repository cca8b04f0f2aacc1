"""Cut text without spaces into the words of a word file: the cut whose words are the most probable together.

Both ways of cutting give the same words. A query is cut in plain Python, so that a search from the command line need
not load numpy. The many texts of an index run are cut at once by numpy.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from mdrecall.embed.offline.word_file import (
    HASH_FACTOR,
    HASH_START,
    RECORD_BYTES,
    UNSPACED,
    WordFile,
)
from mdrecall.named_tuple import NamedTuple

# Cutting looks at no more characters at once; a longer run without punctuation is data, and its cut at this place
# hardly matters.
RUN_CHARS = 64
#: All of them lie below this code point.
CODES = 0x10000
# A character that is no word by itself costs more than the rarest word, so that any word is preferred.
UNKNOWN_COST = 220
# Every word costs this much besides, because the frequencies of short words are those of single characters everywhere:
# without it, a word in hiragana falls into particles.
WORD_COST = 20
_INFINITE = 1 << 20
# The hashes that occur, by their first bits: most of what is looked up is no word, and this tells so quickly.
_FILTER_BITS = 20

_RUNS = f"[{UNSPACED}]{{1,{RUN_CHARS}}}"


class Cut(NamedTuple):
    """A word in a text."""

    text: str
    number: int
    """The number of its record; -1 if it is a character that is no word by itself."""


class Cutter:
    """Cuts text into the words of one file."""

    def __init__(self, file: WordFile) -> None:
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
        choice = [Cut("", -1)] * len(run)
        for start in range(len(run) - 1, -1, -1):
            best[start], choice[start] = UNKNOWN_COST + best[start + 1], Cut(run[start], -1)
            hashed = HASH_START
            for end in range(start + 1, min(len(run), start + longest) + 1):
                hashed = (hashed ^ ord(run[end - 1])) * HASH_FACTOR & 0xFFFFFFFF
                number = file.find_hash(hashed)
                if number >= 0 and (cost := file.cost(number) + WORD_COST + best[end]) < best[start]:
                    best[start], choice[start] = cost, Cut(run[start:end], number)
        found: list[Cut] = []
        place = 0
        while place < len(run):
            found.append(choice[place])
            place += len(choice[place].text)
        return found, best[0]

    def cut_many(self, texts: Sequence[str]) -> "CutTexts":
        """Return the words of many folded texts, without their costs."""
        import numpy

        codes = numpy.frombuffer("\n".join(texts).encode("utf-32-le", "surrogatepass"), "<u4")
        owners = numpy.repeat(numpy.arange(len(texts)), [len(text) + 1 for text in texts])[: len(codes)]
        left = _count_left(codes)
        numbers, costs = self._look_up(codes, left)
        steps = _choose_steps(left, costs)
        places = _follow_steps(left, steps)
        taken = steps[places]
        found = numbers[taken - 1, places]
        return CutTexts(owners[places], numpy.where(found < 0, -codes[places].astype(numpy.int32), found), taken)

    def _look_up(self, codes: Any, left: Any) -> tuple[Any, Any]:
        """Return the record and cost of every run of characters that could be a word, by length and place."""
        import numpy

        known = numpy.frombuffer(self.file.hashes, numpy.uint32)
        stored = numpy.frombuffer(self.file.records, numpy.uint8).reshape(-1, RECORD_BYTES)[:, -1]
        if self._filter is None:
            self._filter = numpy.zeros(1 << _FILTER_BITS, bool)
            self._filter[known >> (32 - _FILTER_BITS)] = True
        longest = self.file.card.longest
        numbers = numpy.full((longest, len(codes)), -1, numpy.int32)
        costs = numpy.full((longest, len(codes)), _INFINITE, numpy.int32)
        starts = numpy.flatnonzero(left)
        hashed = numpy.full(len(starts), HASH_START, numpy.uint32)
        for length in range(1, longest + 1):
            reaches = left[starts] >= length
            starts, hashed = starts[reaches], hashed[reaches]
            hashed = (hashed ^ codes[starts + (length - 1)]) * numpy.uint32(HASH_FACTOR)
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


class CutTexts(NamedTuple):
    """The words of many texts, as arrays of the same length."""

    owners: Any
    """The text that each word is in, ascending."""
    numbers: Any
    """The records of the words; for a character that is no word by itself its negative code point."""
    lengths: Any


def _count_left(codes: Any) -> Any:
    """Return for every character how many follow in its run, itself included; 0 if it is not in one."""
    import numpy

    is_unspaced = numpy.zeros(CODES, bool)
    for first, last in zip(UNSPACED[::3], UNSPACED[2::3], strict=True):
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
