"""The vectors of the words that texts have, one row of an array for each, and which rows the words of a text are.

The words of English texts are found without making a string of each: a word is known by a number of 64 bits, made of
its letters. Up to eight letters the number is the word. Of longer words it is a hash: that two of the words held here
have the same one has a chance of one in ten billion.
"""

import threading
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

# Vectors of words are cached, one kilobyte each; without a bound every new word would grow the memory. With 40,000
# instead, indexing 40 MB of notes took 156 MB instead of 145, and no less time.
_MAX_WORDS = 30_000
#: Bounds how many new words are added to the cached ones at once. With half as many, embedding took a tenth longer;
#: with twice as many no less time.
WORDS_AT_ONCE = 32_000
#: As many characters of texts, each no longer than ``SHORT_CHARS``, have at most as many words.
CHARS_AT_ONCE = WORDS_AT_ONCE
#: A text up to this long has at most as many pieces.
SHORT_CHARS = 900
# The numbers of words are found by their first bits. With six times as many places as words, few words share one.
_PLACE_BITS = 18
# Odd and without a pattern, so that every bit of a number has a part in the first bits of the product.
_MIX, _MIX_LONG = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_IS_LONG = 1 << 63


class _Places(dict[str, int]):
    """The rows of words; a new word gets the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        place = self[word] = len(self)
        self.new.append(word)
        return place


class WordRows:
    """Caches the vectors of words. Threads may share it."""

    def __init__(self, dimensions: int, embed: Callable[[Sequence[str]], Any]) -> None:
        """``embed`` returns the vectors of words, as whole numbers of 32 bits."""
        self._dimensions = dimensions
        self._embed = embed
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all words."""
        self._places = _Places()
        self._vectors: Any = None
        self._keys: Any = None
        self._rows: Any = None

    def look_up(self, words: Sequence[str]) -> tuple[Any, Any]:
        """Return the cached vectors, with those of new words added, and the row of each word."""
        with self._lock:
            self._make_room()
            return self._vectors, self._add(words)

    def look_up_texts(self, texts: Sequence[str]) -> tuple[Any, Any, list[int]]:
        """Return the same for all words of short texts in lower-case ASCII, and where the words of each text end."""
        import numpy

        # Eight more characters, so that the last word can be read like the others.
        raw = "\n".join(("", *texts, "       ")).encode()
        data = numpy.frombuffer(raw, numpy.uint8)
        is_inside = _find_letters()[data]
        edges = numpy.flatnonzero(is_inside[1:] != is_inside[:-1]) + 1
        starts, ends = edges[::2], edges[1::2]
        bounds = numpy.searchsorted(starts, list(accumulate(len(text) + 1 for text in texts)), "right")
        keys = _make_keys(data, starts, ends)
        with self._lock:
            self._make_room()
            return self._vectors, self._find_rows(raw, starts, ends, keys), bounds.tolist()

    def _make_room(self) -> None:
        import numpy

        if len(self._places) > _MAX_WORDS:
            self.clear()
        if self._vectors is None:
            # Rows that are not written yet take no memory.
            self._vectors = numpy.empty((_MAX_WORDS + WORDS_AT_ONCE, self._dimensions), numpy.int32)
            self._keys = numpy.zeros(1 << _PLACE_BITS, numpy.uint64)
            # As wide as an index of an array, or it would be widened for every text.
            self._rows = numpy.zeros(1 << _PLACE_BITS, numpy.intp)

    def _find_rows(self, raw: bytes, starts: Any, ends: Any, keys: Any) -> Any:
        """Return the rows of words that are known by their numbers, and of the others by themselves."""
        import numpy

        places = (keys * numpy.uint64(_MIX)) >> numpy.uint64(64 - _PLACE_BITS)
        rows = self._rows[places]
        others = numpy.flatnonzero(self._keys[places] != keys)
        if len(others):
            spans = zip(starts[others].tolist(), ends[others].tolist(), strict=True)
            rows[others] = self._add([raw[start:end].decode() for start, end in spans])
            # The first word at a place keeps it: frequent words come early.
            free = others[self._keys[places[others]] == 0]
            self._keys[places[free]] = keys[free]
            self._rows[places[free]] = rows[free]
        return rows

    def _add(self, words: Sequence[str]) -> Any:
        import numpy

        known = len(self._places)
        rows = numpy.fromiter(map(self._places.__getitem__, words), numpy.intp, len(words))
        new, self._places.new = self._places.new, []
        try:
            if new:
                self._vectors[known : known + len(new)] = self._embed(new)
        except BaseException:
            # No word may keep a place without a vector.
            self.clear()
            raise
        return rows


def _find_letters() -> Any:
    """Return for every byte True if it is a letter or digit of a word."""
    import numpy

    found = numpy.zeros(256, bool)
    found[list(b"abcdefghijklmnopqrstuvwxyz0123456789")] = True
    return found


def _make_keys(data: Any, starts: Any, ends: Any) -> Any:
    """Return the number that each word is known by; none is 0."""
    import numpy

    # Eight letters at any place, as one number.
    letters = numpy.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    masks = numpy.array([(1 << 8 * count) - 1 for count in range(9)], numpy.uint64)
    left = ends - starts
    keys = letters[starts] & masks[numpy.minimum(left, 8)]
    longer = numpy.flatnonzero(left > 8)
    at, left = starts[longer], left[longer]
    while len(longer):
        at, left = at + 8, left - 8
        more = letters[at] & masks[numpy.minimum(left, 8)]
        mixed = (keys[longer] ^ (keys[longer] >> numpy.uint64(29))) * numpy.uint64(_MIX_LONG) + more
        keys[longer] = mixed | numpy.uint64(_IS_LONG)
        goes_on = left > 8
        longer, at, left = longer[goes_on], at[goes_on], left[goes_on]
    return keys
