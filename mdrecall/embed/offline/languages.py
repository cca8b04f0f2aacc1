"""The vectors of words in other languages, added up by text.

The vector of a word has two parts. Its *meaning* is the sum of the table's rows for the pieces of its translation. Its
*own direction* is drawn from its hash, so that a text with the same word is closer than one with a similar word, and a
name that no dictionary has is still found by its characters.
"""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from mdrecall.embed.offline.cutting import UNKNOWN_COST, UNSPACED, Cut, Cutter, CutTexts
from mdrecall.embed.offline.word_file import (
    COST_STEP,
    LENGTHS,
    PIECES,
    RECORD_BYTES,
    SCALE_MIDDLE,
    SCALE_STEPS,
    WordFile,
    hash_word,
    word_length,
)

# The shares of a word's length that are its meaning and its own direction. Chosen on four public sets together: more of
# the second finds more within a language, less of it finds more across languages.
_MEANING, _OWN = 0.87, 0.5
# A single character means many things, and is often a part of a name.
_CHAR_MEANING, _CHAR_OWN = 0.25, 0.6
# How many dimensions an own direction has. Fewer make two words alike by chance, more take longer.
_OWN_DIMENSIONS = 16
_RANDOM_FACTOR, _RANDOM_STEP = 1664525, 1013904223
# From this share of kana on a text is Japanese; Chinese texts quote a word at most.
_KANA_SHARE = 0.1
# A text without kana and up to this long may be Japanese all the same, such as a title or a query: it is cut both ways.
_SHORT_CHARS = 40

# Bounds the memory while texts are cut: each character needs about a kilobyte.
_CHARS_AT_ONCE = 16_000

_KANA = re.compile("[\u3041-\u30fa\u30fd-\u30ff]")
_HAN = re.compile(f"[{UNSPACED}]")


class Part(NamedTuple):
    """What a word of a query adds to its vector."""

    pieces: tuple[tuple[int, float], ...]
    own: tuple[tuple[int, float], ...]
    """Dimensions with what is added to each."""


class Languages:
    """The word files that are there, each opened when a text needs it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @cached_property
    def _chinese(self) -> Cutter:
        return Cutter(WordFile(os.path.join(self._folder, "zh.words")))

    @cached_property
    def _japanese(self) -> Cutter:
        return Cutter(WordFile(os.path.join(self._folder, "ja.words")))

    def parts(self, folded: str, weights: Mapping[str, float], dimensions: int) -> Iterator[Part]:
        """Yield what the words of a query add to its vector; ``weights`` are those of its character pairs."""
        cutter = self._choose(folded)
        if cutter is None:
            return
        for word, weight in _weigh(cutter.cut(folded)[0], weights):
            yield _make_part(cutter.file, word, weight, dimensions)

    def _choose(self, folded: str) -> Cutter | None:
        """Return the cutter for the language of a text; None if it has no character to cut."""
        count = len(_HAN.findall(folded))
        if not count:
            return None
        if len(_KANA.findall(folded)) >= _KANA_SHARE * count:
            return self._japanese
        if count > _SHORT_CHARS or self._chinese.cut(folded)[1] <= self._japanese.cut(folded)[1]:
            return self._chinese
        return self._japanese

    def add_sums(self, folded: Sequence[str], sums: Any, rows: Any, scales: Any) -> None:
        """Add the vectors of each text's words to its row in ``sums``."""
        texts: dict[Cutter, list[tuple[int, str]]] = {}
        for number, text in enumerate(folded):
            if not text.isascii() and (cutter := self._choose(text)):
                texts.setdefault(cutter, []).append((number, text))
        for cutter, numbered in texts.items():
            for group in _group(numbered):
                numbers, some = zip(*group, strict=True)
                _add_vectors(cutter.file, cutter.cut_many(some), numbers, sums, rows, scales)


def _group(texts: Sequence[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yield texts in groups of at most ``_CHARS_AT_ONCE`` characters; a longer text is divided."""
    group: list[tuple[int, str]] = []
    size = 0
    for number, text in texts:
        for start in range(0, len(text), _CHARS_AT_ONCE):
            some = text[start : start + _CHARS_AT_ONCE]
            if size + len(some) > _CHARS_AT_ONCE:
                yield group
                group, size = [], 0
            group.append((number, some))
            size += len(some)
    if group:
        yield group


def _weigh(cuts: Sequence[Cut], weights: Mapping[str, float]) -> Iterator[tuple[Cut, float]]:
    """Yield each word with the mean weight of its character pairs; a single character has that of its neighbours."""
    for place, cut in enumerate(cuts):
        around = cut.text
        if len(around) == 1:
            before = cuts[place - 1].text[-1:] if place else ""
            after = cuts[place + 1].text[:1] if place + 1 < len(cuts) else ""
            around = before + around + after
        known = [weights[pair] for at in range(len(around)) if (pair := around[at : at + 2]) in weights]
        yield cut, sum(known) / len(known) if known else 1.0


def _make_part(file: WordFile, word: Cut, weight: float, dimensions: int) -> Part:
    meaning, own = (_CHAR_MEANING, _CHAR_OWN) if len(word.text) == 1 else (_MEANING, _OWN)
    pieces: tuple[tuple[int, float], ...] = ()
    cost = UNKNOWN_COST * COST_STEP
    if word.number >= 0:
        pieces, cost = file.read(word.number)
        if not pieces:
            return Part((), ())
    size = weight * own * word_length(cost) / math.sqrt(_OWN_DIMENSIONS)
    value = hash_word(word.text)
    direction = []
    for _ in range(_OWN_DIMENSIONS):
        value = (value * _RANDOM_FACTOR + _RANDOM_STEP) & 0xFFFFFFFF
        direction.append(((value >> 16) % dimensions, size if value >> 31 else -size))
    return Part(tuple((piece, weight * meaning * share) for piece, share in pieces), tuple(direction))


def _add_vectors(file: WordFile, found: CutTexts, texts: Sequence[int], sums: Any, rows: Any, scales: Any) -> None:
    """Add the vectors of the words that were found to the rows of their texts."""
    import numpy

    distinct, first, which = numpy.unique(found.hashes, return_index=True, return_inverse=True)
    vectors = _vectors(file, distinct, found.numbers[first], found.lengths[first], rows, scales)
    starts = numpy.flatnonzero(numpy.diff(found.owners, prepend=-1))
    if len(starts):
        added = numpy.add.reduceat(vectors[which], starts, axis=0)
        sums[numpy.asarray(texts)[found.owners[starts]]] += added


def _vectors(file: WordFile, hashes: Any, numbers: Any, lengths: Any, rows: Any, scales: Any) -> Any:
    """Return the vectors of words, one row for each."""
    import numpy

    records = numpy.frombuffer(file.records, numpy.uint8).reshape(-1, RECORD_BYTES)[numbers]
    is_known = numbers >= 0
    is_char = lengths == 1
    meaning = numpy.where(is_char, _CHAR_MEANING, _MEANING) * numpy.exp2(
        (records[:, -2].astype(numpy.float32) - SCALE_MIDDLE) / SCALE_STEPS
    )
    vectors = numpy.zeros((len(hashes), rows.shape[1]), numpy.float32)
    says_something = ~is_known
    for place in range(PIECES):
        weight = records[:, 2 * PIECES + place // 2] >> (4 * (place % 2)) & 15
        weight = numpy.where(is_known, weight, 0)
        says_something |= weight > 0
        pieces = records[:, 2 * place].astype(numpy.int32) | records[:, 2 * place + 1].astype(numpy.int32) << 8
        some = numpy.flatnonzero(weight)
        share = (meaning * weight)[some] * scales[pieces[some]]
        vectors[some] += rows[pieces[some]] * share[:, None].astype(numpy.float32)
    costs = numpy.where(is_known, records[:, -1], UNKNOWN_COST) * COST_STEP
    points, sizes = zip(*LENGTHS, strict=True)
    size = numpy.interp(costs, points, sizes) * numpy.where(is_char, _CHAR_OWN, _OWN) / math.sqrt(_OWN_DIMENSIONS)
    size = numpy.where(says_something, size, 0.0).astype(numpy.float32)
    value = hashes.astype(numpy.uint32)
    every = numpy.arange(len(hashes))
    for _ in range(_OWN_DIMENSIONS):
        value = value * numpy.uint32(_RANDOM_FACTOR) + numpy.uint32(_RANDOM_STEP)
        vectors[every, (value >> 16) % vectors.shape[1]] += numpy.where(value >> 31, size, -size)
    return vectors

