"""The words of a query in texts of another script, by their translation.

Between scripts no keyword matches. But the word files say which Chinese words mean *dentist*: a note with one of them
holds a word of the question, and that proves more than a similar vector. Texts are not cut into words for this: every
run of characters that could be a word is looked up, which found as much and takes less time.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mdrecall.embed.offline.languages import Languages, Pieces, find_words
from mdrecall.embed.offline.word_file import HASH_FACTOR, HASH_START, MAX_WEIGHT, UNSPACED, WordFile, word_length
from mdrecall.text.words import fold, stem

# The vectors of frequent words are shorter; words up to this length say nothing, and the others as much as they are
# longer. The offset keeps the next ones from vanishing.
_SILENT_LENGTH = 0.8
_LEAST_TERM = 0.3
# A query is as heavy as this many of its words, as in the keyword search.
_HEAVIEST = 8
# Less of a meaning is a side meaning.
_LEAST_SHARE = 1 / 3
# A single character is often a part of another word.
_CHAR_SHARE = 0.5
# What an English word may end with; those that have the same stem and are pieces of the table mean the same.
_ENDINGS = ("", "e", "s", "es", "ed", "d", "ing", "er", "ers", "y", "ies", "ion", "ions", "al", "ment")
_RUNS = f"[{UNSPACED}\uac00-\ud7a3]+"


class Term(NamedTuple):
    """A word of a query."""

    weight: float
    stems: Mapping[str, float]
    """The stems of English words that mean the same, with the share of the meaning that each is."""
    pieces: tuple[tuple[int, ...], ...]
    """The pieces by which words of other languages that mean the same are found; all of a tuple must be in one word."""


class Translator:
    """Measures how much of a query a text in another script holds."""

    def __init__(self, languages: Languages, pieces: Pieces, length: Callable[[Sequence[int]], float]) -> None:
        """``length`` returns the length of the sum of the vectors of some pieces."""
        self._languages = languages
        self._pieces = pieces
        self._length = length

    def shares(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return for each text the share of the query's words that it holds, as they are or translated; 0 to 1."""
        folded = fold(query)
        terms = [*self._foreign_terms(folded), *self._english_terms(folded)]
        weights = sorted((term.weight for term in terms), reverse=True)
        total = sum(weights[:_HEAVIEST]) or 1.0
        folded_texts = list(map(fold, texts))
        held = [dict(_find_stems(text, terms)) for text in folded_texts]
        by_language: dict[str, list[int]] = {}
        for number, text in enumerate(folded_texts):
            for language in self._languages.choose_languages(text):
                by_language.setdefault(language, []).append(number)
        for language, numbers in by_language.items():
            some = [folded_texts[number] for number in numbers]
            for place, term, share in self._find_words(terms, language, some):
                best = held[numbers[place]]
                best[term] = max(share, best.get(term, 0.0))
        return [min(1.0, sum(terms[term].weight * share for term, share in best.items()) / total) for best in held]

    def _english_terms(self, folded: str) -> Iterator[Term]:
        for word in dict.fromkeys(find_words(folded)):
            pieces = self._pieces[word]
            if pieces and (weight := _weigh(self._length(pieces))):
                own = stem(word)
                forms = [form for ending in _ENDINGS if (form := own + ending) != word and self._pieces.is_whole(form)]
                same = [self._pieces[form] for form in forms if stem(form) == own]
                yield Term(weight, {own: 1.0}, (pieces, *same))

    def _foreign_terms(self, folded: str) -> Iterator[Term]:
        """Yield the words that are cut out of a query, each with the stems of the English words it means."""
        for file, number in self._languages.cut_numbers(folded):
            pieces, cost = file.read(number)
            if pieces and (weight := _weigh(word_length(cost))):
                most = max(share for _, share in pieces)
                stems: dict[str, float] = {}
                for piece, share in pieces:
                    if share >= most * _LEAST_SHARE:
                        stems.setdefault(stem(self._pieces.texts[piece]), share / most)
                yield Term(weight, stems, ())

    def _find_words(
        self, terms: Sequence[Term], language: str, texts: Sequence[str]
    ) -> Iterator[tuple[int, int, float]]:
        """Yield the text and the term for each word of a text that means a term, with the share of the meaning."""
        file = self._languages.files[language]
        wanted = _find_hashes(terms, file)
        scan = _scan_numpy if sys.modules.get("numpy") else _scan
        for place, value, length in scan(texts, wanted, file.card.longest) if wanted else ():
            for term, number, pieces in wanted[value]:
                share = max(file.weight(number, piece) for piece in pieces) / MAX_WEIGHT
                yield place, term, share * (_CHAR_SHARE if length == 1 else 1.0)


def _find_hashes(terms: Sequence[Term], file: WordFile) -> dict[int, list[tuple[int, int, tuple[int, ...]]]]:
    """Return the hashes of the words that mean one of the terms, with the terms, the records and the pieces."""
    found: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}
    for place, term in enumerate(terms):
        for pieces in term.pieces:
            numbers = set(file.find_by_piece(pieces[0])).intersection(*map(file.find_by_piece, pieces[1:]))
            for number in numbers:
                found.setdefault(file.hashes[number], []).append((place, number, pieces))
    return found


def _weigh(length: float) -> float:
    return length - _SILENT_LENGTH + _LEAST_TERM if length > _SILENT_LENGTH else 0.0


def _find_stems(folded: str, terms: Sequence[Term]) -> Iterator[tuple[int, float]]:
    """Yield the terms that a text holds in English, with the share of the meaning that it holds."""
    there = {stem(word) for word in find_words(folded)}
    for place, term in enumerate(terms):
        if share := max((share for form, share in term.stems.items() if form in there), default=0.0):
            yield place, share


def _scan(texts: Sequence[str], wanted: Mapping[int, Any], longest: int) -> Iterator[tuple[int, int, int]]:
    """Yield the text, the hash and the length of each word that is wanted."""
    for place, text in enumerate(texts):
        for run in re.findall(_RUNS, text):
            codes = list(map(ord, run))
            for start in range(len(codes)):
                value = HASH_START
                for length, code in enumerate(codes[start : start + longest], start=1):
                    value = (value ^ code) * HASH_FACTOR & 0xFFFFFFFF
                    if value in wanted:
                        yield place, value, length


def _scan_numpy(texts: Sequence[str], wanted: Mapping[int, Any], longest: int) -> Iterator[tuple[int, int, int]]:
    """Do the same with numpy, if it is loaded already."""
    import numpy

    codes = numpy.frombuffer("\n".join(texts).encode("utf-32-le", "surrogatepass"), "<u4")
    ends = numpy.cumsum([len(text) + 1 for text in texts])
    known = numpy.fromiter(wanted, numpy.uint32, len(wanted))
    # Most hashes are not wanted, and their first bits tell so quickly.
    first_bits = numpy.zeros(1 << 16, bool)
    first_bits[known >> 16] = True
    values = numpy.full(len(codes), HASH_START, numpy.uint32)
    for length in range(1, min(longest, len(codes)) + 1):
        values = (values[: len(codes) - length + 1] ^ codes[length - 1 :]) * numpy.uint32(HASH_FACTOR)
        places = numpy.flatnonzero(first_bits[values >> 16])
        owners = numpy.searchsorted(ends, places, "right").tolist()
        for owner, value in zip(owners, values[places].tolist(), strict=True):
            if value in wanted:
                yield owner, value, length
