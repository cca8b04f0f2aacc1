"""Split words into pieces of the table's vocabulary."""

import re
from functools import cached_property
from weakref import WeakValueDictionary

from mdrecall.core.text.words import fold

#: Longer runs are not words but hashes, keys or encoded data.
MAX_WORD_CHARS = 100

_WORD = re.compile("[a-z0-9]+")
# What is not part of a word becomes a space, which is found in half the time that the pattern needs.
_SPACED = "".join(chr(code) if _WORD.match(chr(code)) else " " for code in range(128))
_CONTINUES = "##"
#: No piece has more characters, without the mark of a continuation.
_LONGEST = 18
# A command asks for the pieces of one short query: to find them in the text takes 0.1 ms each, to number all 30,000
# takes 7 ms.
_LOOKS_IN_TEXT = 16


class _Numbers(dict[str, int]):
    """The number of each piece. A plain dictionary could not be shared weakly."""


# Memories that are open at the same time share the numbers, which take 4 MB.
_shared: WeakValueDictionary[str, _Numbers] = WeakValueDictionary()


class Pieces(dict[str, tuple[int, ...]]):
    """Maps a folded word to its pieces: its longest known beginning, the longest known continuation, and so on.

    A word that cannot be split into known pieces has none. Words are split at their first lookup.
    """

    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self._looks_left = 0 if vocabulary in _shared else _LOOKS_IN_TEXT

    def is_whole(self, word: str) -> bool:
        """True if a word is a piece by itself: English has it, or it is a frequent name."""
        return self._find(word) is not None

    @cached_property
    def texts(self) -> list[str]:
        """The pieces by their numbers; those that continue a word begin with ``##``."""
        return self.vocabulary.split("\n")

    def __missing__(self, word: str) -> tuple[int, ...]:
        pieces = self[word] = self.split(word)
        return pieces

    def split(self, word: str) -> tuple[int, ...]:
        """Return the pieces of a word, and do not remember them."""
        if len(word) > MAX_WORD_CHARS:
            return ()
        find = self._find if self._looks_left else self._numbers.get
        if not self._looks_left and (whole := find(word)) is not None:
            return (whole,)
        found: list[int] = []
        start = 0
        while start < len(word):
            rest = (_CONTINUES if start else "") + word[start : start + _LONGEST]
            least = len(_CONTINUES) if start else 0
            end = len(rest)
            number = None
            while end > least and (number := find(rest[:end])) is None:
                end -= 1
            if number is None:
                return ()
            found.append(number)
            start += end - least
        return tuple(found)

    def _find(self, piece: str) -> int | None:
        """Return the number of a piece; None if the vocabulary does not have it."""
        if not self._looks_left:
            return self._numbers.get(piece)
        self._looks_left -= 1
        at = self._text.find(f"\n{piece}\n".encode())
        return None if at < 0 else self._text.count(b"\n", 0, at)

    @cached_property
    def _text(self) -> bytes:
        return f"\n{self.vocabulary}\n".encode()

    @cached_property
    def _numbers(self) -> _Numbers:
        numbers = _shared.get(self.vocabulary)
        if numbers is None:
            numbers = _shared[self.vocabulary] = _Numbers({piece: number for number, piece in enumerate(self.texts)})
        return numbers


def words(text: str) -> list[str]:
    """Return the folded words of a text."""
    return find_words(fold(text))


def find_words(folded: str) -> list[str]:
    """Return the words of a folded text."""
    return folded.translate(_SPACED).split() if folded.isascii() else _WORD.findall(folded)
