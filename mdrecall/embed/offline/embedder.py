"""Embeddings from a table: every word piece has a vector, and a text is the sum of its pieces.

A query is embedded without numpy, so that a single search from the command line need not load it.
"""

import array
import json
import math
import mmap
import operator
import os
import struct
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from itertools import accumulate, chain, count, islice, pairwise, repeat
from typing import TYPE_CHECKING, Any

from mdrecall.embed.offline.languages import Found, Languages, Pieces, fold_texts, group_by_size, is_token, split_texts
from mdrecall.errors import EmbedderUnavailable, ModelFileError, install_command
from mdrecall.text.markdown import split_passages
from mdrecall.text.words import fold
from mdrecall.types.documents import Embedding, EmbedInput, Traits
from mdrecall.types.sync import ProgressCallback

if TYPE_CHECKING:
    from mdrecall.embed.offline.word_vectors import Table

_FOLDER = os.path.dirname(__file__)
_COMMON = os.path.join("words", "common.i8")
# A word-by-word translation understands less than the English table, so words have a share even where vectors alone
# are asked for. With more, recall@5 of Japanese questions fell there from .93 to .91. The range of cosines is the same
# as in English: the median with an answer was .57 and .60, with another paragraph .05.
_UNSPACED_TRUST = 0.7
# The vectors of words are whole numbers, so that their sum is the same in any order and with or without numpy. The
# largest scale becomes this number, which tells the weights of the most frequent words apart to a thousandth.
_FIXED = 2**14
# Chunks are summed in groups of about as much text, whose sums fit into the processor's cache.
_CHARS_AT_ONCE = 100_000
# As much text as this is summed without numpy, if it is not loaded: that takes 55 ms, loading it 100.
_FEW_CHARS = 24_000
# Vectors of words are cached, one kilobyte each; without a bound every new word would grow the memory. A group of texts
# has half as many words.
_MAX_WORDS = 48_000
# The sum of the vectors of as many words fits into 32 bits, signed or not: _SHORT_WORDS * 255 * _FIXED < 2**32.
_SHORT_WORDS = 1_000
# What signed bytes are if this is added to each, so that none is negative.
_SIGN = 128
_WITHOUT_SIGN = bytes((byte + _SIGN) % 256 for byte in range(256))


class OfflineEmbedder:
    """The default embedder. It never waits, so its vectors are not worth caching."""

    provider = "offline"
    model = "mdrecall-words-v1"

    def __init__(self, added_folder: str = "") -> None:
        """``added_folder`` has the word files that the user added."""
        self._added_folder = added_folder

    @cached_property
    def traits(self) -> Traits:
        """Latin letters are always read; other scripts if there is a word file."""
        scripts = tuple(sorted({"latin", *(file.card.script for file in self._languages.files.values())}))
        return Traits(never_waits=True, scripts=scripts, unrelated=0.1, related=0.6, unspaced_trust=_UNSPACED_TRUST)

    @cached_property
    def dimensions(self) -> int:
        return int(self._card["dimensions"])

    @cached_property
    def fingerprint(self) -> str:
        """The hashes of the table and of all word files in one, because other files give other vectors."""
        value = int(self._card["sha256"], 16)
        for file in self._languages.files.values():
            value ^= int(file.card.digest, 16)
        # Small enough to stand for itself: loading a hash function would take longer than embedding a query.
        common = _read_table(_COMMON)
        for start in range(0, len(common), 32):
            value ^= int.from_bytes(common[start : start + 32], "big")
        return f"{value:064x}"

    def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
        """Return the vector of a query with its words weighted; all zeros if no word is known."""
        folded = fold(text)
        languages = self._languages.find(folded)
        found = self._languages.tokens(folded, languages)
        pieces = [
            (number, weights.get(word, 1.0)) for word in found if not is_token(word) for number in self._pieces[word]
        ]
        total = self._sum_rows(pieces)
        if parts := list(self._languages.parts(folded, found, languages, weights, self.dimensions)):
            foreign = self._sum_rows([piece for shares, _ in parts for piece in shares])
            common = sum(map(operator.mul, foreign, self._common))
            total = [own + value - common * axis for own, value, axis in zip(total, foreign, self._common, strict=True)]
        for _, own_direction in parts:
            for dimension, value in own_direction:
                total[dimension] += value
        return _pack_unit(total)

    def translated_shares(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return for each text the share of a query's words that it holds, as they are or translated."""
        from mdrecall.embed.offline.translation import Translator

        def length(pieces: Sequence[int]) -> float:
            return _length(self._sum_rows([(piece, 1.0) for piece in pieces]))

        return Translator(self._languages, self._pieces, length).shares(query, texts)

    def _sum_rows(self, pieces: Sequence[tuple[int, float]]) -> list[float]:
        """Return the sum of some rows of the table, each with its weight; with numpy if that is loaded already."""
        if sys.modules.get("numpy"):
            return self._sum_rows_numpy(pieces)
        total = [0.0] * self.dimensions
        rows, scales, size = self._rows, self._scales, self.dimensions
        for number, weight in pieces:
            scale = weight * scales[number]
            row = rows[number * size : (number + 1) * size]
            total = [value + scale * part for value, part in zip(total, row, strict=True)]
        return total

    def _sum_rows_numpy(self, pieces: Sequence[tuple[int, float]]) -> list[float]:
        numpy = _numpy()
        rows = numpy.frombuffer(self._rows, numpy.int8).reshape(-1, self.dimensions)
        numbers = [number for number, _ in pieces]
        scales = numpy.array([weight * self._scales[number] for number, weight in pieces])
        total: list[float] = (scales @ rows[numbers]).tolist() if pieces else [0.0] * self.dimensions
        return total

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        """Return the vectors of chunks with their titles, each with the vectors of its passages."""
        self._pieces.number_all()
        groups = group_by_size(passages, lambda passage: len(passage.title) + len(passage.text), _CHARS_AT_ONCE)
        return [made for some in groups for made in self._embed_some(some)]

    def _embed_some(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        # The passages of each chunk, and its title after them.
        texts = [[*(text[part.start : part.end] for part in split_passages(text)), title] for title, text in passages]
        folded = list(map(fold_texts, texts))
        # A short part may not show its language, so it is that of the whole chunk.
        languages = list(map(self._languages.find_in_chunk, map("\n".join, passages), folded))
        if "numpy" not in sys.modules and self._is_little_english(folded, languages):
            return list(map(self._embed_chunk, folded))
        return self._embed_numpy(folded, languages, list(accumulate(map(len, texts), initial=0)))

    def _embed_numpy(self, folded: Sequence[str], languages: Sequence[Found], bounds: list[int]) -> list[Embedding]:
        """Embed chunks; ``bounds`` are the numbers of their first texts, and the number of all texts."""
        numpy = _numpy()
        sums = self._sum_texts(list(chain.from_iterable(map(self._languages.tokens, folded, languages))))
        if any(found.unspaced for found in languages):
            texts = list(map(split_texts, folded))
            spread = list(chain.from_iterable(map(repeat, languages, map(len, texts))))
            cut = numpy.zeros(sums.shape, numpy.float32)
            self._languages.add_sums(list(chain.from_iterable(texts)), spread, cut, self._numpy_table())
            sums = sums + cut * self._fixed_factor
        whole = numpy.empty((len(folded), self.dimensions), numpy.float64)
        for total, (start, end) in zip(whole, pairwise(bounds), strict=True):
            numpy.add.reduce(sums[start:end], 0, numpy.float64, total)
        vectors, small, size = _unit(whole).tobytes(), _to_int8(sums).tobytes(), self.dimensions
        return [
            Embedding(vectors[4 * size * place : 4 * size * (place + 1)], small[size * start : size * (end - 1)])
            for place, (start, end) in enumerate(pairwise(bounds))
        ]

    def _is_little_english(self, folded: Sequence[str], languages: Sequence[Found]) -> bool:
        """True if texts are so short that loading numpy would take longer, and have only words of the table."""
        is_short, has_tokens = sum(map(len, folded)) <= _FEW_CHARS, self._languages.has_tokens
        return is_short and not any(map(any, languages)) and not any(map(has_tokens, folded))

    def _embed_chunk(self, folded: str) -> Embedding:
        """Do without numpy what ``_embed_numpy`` does for many, with the same result."""
        sums = [self._sum_words(self._languages.tokens(text, Found())) for text in split_texts(folded)]
        whole = [sum(column) for column in zip(*sums, strict=True)]
        return Embedding(_pack_unit(whole), b"".join(map(_round_to_int8, sums[:-1])))

    def _sum_words(self, words: Sequence[str]) -> list[int]:
        """Return the sum of the vectors of words. A vector is one large number, so that all of it is added at once."""
        rows, size = self._rows, self.dimensions
        counts = Counter(number for word in words for number in self._pieces[word])
        form, width = ("I", 4) if counts.total() <= _SHORT_WORDS else ("Q", 8)
        spread, total, factors = bytearray(width * size), 0, 0
        for number, times in counts.items():
            factor = times * round(self._scales[number] * self._fixed_factor)
            spread[::width] = rows[number * size : (number + 1) * size].tobytes().translate(_WITHOUT_SIGN)
            total += factor * int.from_bytes(spread, "little")
            factors += factor
        numbers = struct.unpack(f"<{size}{form}", total.to_bytes(width * size, "little"))
        return [number - _SIGN * factors for number in numbers]

    def prepare(self, stored: int = 0, progress: ProgressCallback | None = None) -> None:
        """Do nothing: the table needs no preparation."""

    def interrupt(self) -> None:
        """Do nothing: no call takes long."""

    def close(self) -> None:
        """Release the table and the cached words; a later call loads them again.

        They take 20 MB, and a closed memory may stay in memory until Python collects its cycles.
        """
        for name in ("_languages", "_pieces", "_rows", "_scales", "_common", "_words"):
            vars(self).pop(name, None)

    def _sum_texts(self, words: Sequence[str]) -> Any:
        """Return the sum of word vectors of each text, as whole numbers; the last word is the mark after each text."""
        numpy = _numpy()
        table, rows = self._words.look_up(words)
        ends = numpy.flatnonzero(rows == rows[-1])
        lengths = numpy.diff(ends, prepend=-1) - 1
        order = numpy.argsort(-lengths)
        starts = (ends - lengths)[order]
        # All first words are added at once, then all second ones, and so on: the longest texts come first.
        counts = len(ends) - numpy.bincount(lengths).cumsum()[:-1]
        totals = numpy.zeros((len(ends), self.dimensions), numpy.int32 if len(counts) <= _SHORT_WORDS else numpy.int64)
        buffer = numpy.empty((len(ends), self.dimensions), numpy.int32)
        for place, left in enumerate(counts.tolist()):
            totals[:left] += table.take(rows[starts[:left] + place], 0, buffer[:left], "clip")
        return totals[numpy.argsort(order)]

    def _numpy_table(self) -> "Table":
        from mdrecall.embed.offline.word_vectors import Table

        numpy = _numpy()
        rows = numpy.frombuffer(self._rows, numpy.int8).reshape(-1, self.dimensions)
        return Table(rows, numpy.frombuffer(self._scales, numpy.float32), numpy.array(self._common, numpy.float32))

    def gloss_table(self) -> tuple[Pieces, Any]:
        """Return the pieces and their vectors, for making word files."""
        table = self._numpy_table()
        return self._pieces, table.rows * table.scales[:, None]

    @cached_property
    def _words(self) -> "WordRows":
        return WordRows(self.dimensions, self._embed_words)

    def _embed_words(self, some: Sequence[str]) -> Any:
        """Return the vectors of words; all first pieces are added at once, then all second ones, and so on."""
        numpy = _numpy()
        rows, fixed = self._numpy_table().rows, self._fixed_scales
        pieces = self._pieces.split_many(some)
        counts = numpy.array(list(map(len, pieces)), numpy.intp)
        numbers = numpy.array(list(chain.from_iterable(pieces)), numpy.intp)
        firsts = numpy.cumsum(counts) - counts
        found = numpy.zeros((len(some), self.dimensions), numpy.int32)
        for position in range(counts.max(initial=0)):
            places = numpy.flatnonzero(counts > position)
            chosen = numbers[firsts[places] + position]
            added = rows[chosen] * fixed[chosen][:, None]
            if position:
                added += found[places]
            found[places] = added
        for place, word in enumerate(some):
            if is_token(word):
                found[place] = numpy.rint(self._embed_token(word) * self._fixed_factor)
        return found

    def _embed_token(self, token: str) -> Any:
        """Return the vector of a word of another language."""
        numpy, table = _numpy(), self._numpy_table()
        vector = numpy.zeros(self.dimensions, numpy.float32)
        pieces, own = self._languages.part(token, self.dimensions)
        for piece, share in pieces:
            vector += table.rows[piece] * numpy.float32(share * table.scales[piece])
        vector -= (vector @ table.common) * table.common
        for dimension, value in own:
            vector[dimension] += value
        return vector

    @cached_property
    def _card(self) -> dict[str, Any]:
        card: dict[str, Any] = json.loads(_read_table("model.json"))
        return card

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces(_read_table("pieces.txt").decode())

    @cached_property
    def _languages(self) -> Languages:
        return Languages(os.path.join(_FOLDER, "words"), lambda word: self._pieces.is_whole(word), self._added_folder)

    @cached_property
    def _common(self) -> list[float]:
        """The direction that frequent words have in common, one unit long."""
        values = array.array("b", _read_table(_COMMON))
        length = _length(values)
        return [value / length for value in values]

    @cached_property
    def _rows(self) -> Any:
        return memoryview(_map_table("rows.i8")).cast("b")

    @cached_property
    def _scales(self) -> "array.array[float]":
        return array.array("f", _read_table("scales.f32"))

    @cached_property
    def _fixed_scales(self) -> Any:
        """The scales as whole numbers, as an array."""
        numpy = _numpy()
        scales = numpy.frombuffer(self._scales, numpy.float32).astype(numpy.float64)
        return numpy.rint(scales * self._fixed_factor).astype(numpy.int32)

    @cached_property
    def _fixed_factor(self) -> float:
        """What a number of a vector is multiplied with to become a whole number."""
        return _FIXED / max(self._scales)


def _round_to_int8(numbers: Sequence[int]) -> bytes:
    """Return numbers as signed bytes, as ``_to_int8`` does for many."""
    factor = 127 / max(*map(abs, numbers), 1e-12)
    return array.array("b", [round(number * factor) for number in numbers]).tobytes()


def _length(vector: Sequence[float]) -> float:
    return math.sqrt(sum(map(operator.mul, vector, vector)))


def _read_table(name: str) -> bytes:
    return _map_table(name)[:]


def _map_table(name: str) -> mmap.mmap:
    """Map a file, of which a query may need only a few rows."""
    path = os.path.join(_FOLDER, name)
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        message = f"The embedding table {path} cannot be read: {error}."
        raise ModelFileError(message, hint="Install mdrecall again.") from error


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        what = "cannot be loaded" if find_spec("numpy") else "is missing"
        hint = f"Install it with `{install_command('numpy')}`."
        raise EmbedderUnavailable(f"numpy {what}: {error}.", hint=hint) from error
    return numpy


def _unit(rows: Any) -> Any:
    numpy = _numpy()
    lengths = numpy.sqrt(numpy.einsum("ij,ij->i", rows, rows))
    return (rows / numpy.maximum(lengths, 1e-12)[:, None]).astype("<f4")


def _to_int8(rows: Any) -> Any:
    """Return rows as signed bytes, which keep only their directions."""
    numpy = _numpy()
    most = numpy.maximum(numpy.maximum(rows.max(1, initial=0), -rows.min(1, initial=0)), 1e-12)
    scaled = rows * (127 / most)[:, None]
    return numpy.rint(scaled, out=scaled).astype(numpy.int8)


def _pack_unit(vector: Sequence[float]) -> bytes:
    """Return the bytes of a vector, made one unit long unless it is all zeros."""
    length = _length(vector) or 1.0
    return array.array("f", [value / length for value in vector]).tobytes()


class WordRows:
    """Caches the vectors of words. Threads may share it."""

    def __init__(self, dimensions: int, embed: Callable[[Sequence[str]], Any]) -> None:
        """``embed`` returns the vectors of words, as whole numbers of 32 bits."""
        self._dimensions = dimensions
        self._embed = embed
        self._lock = threading.Lock()
        self._places: defaultdict[str, int] = defaultdict(count().__next__)  # Numbers words as they come.
        self._vectors: Any = None

    def look_up(self, words: Sequence[str]) -> tuple[Any, Any]:
        """Return the cached vectors, with those of new words added, and the row of each word."""
        numpy = _numpy()
        with self._lock:
            # Without vectors, should embedding fail below, the next call begins again.
            vectors, self._vectors = self._vectors, None
            if vectors is None or len(self._places) + len(words) > len(vectors):
                self._places = defaultdict(count().__next__)
                # Rows that are not written yet take no memory.
                vectors = numpy.empty((max(_MAX_WORDS, len(words)), self._dimensions), numpy.int32)
            known = len(self._places)
            rows = numpy.fromiter(map(self._places.__getitem__, words), numpy.intp, len(words))
            # The last ones: to pass over the words that are known would take longer than to look words up.
            if new := list(islice(reversed(self._places), len(self._places) - known))[::-1]:
                vectors[known : known + len(new)] = self._embed(new)
            self._vectors = vectors
            return vectors, rows
