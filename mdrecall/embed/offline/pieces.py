"""Split words into pieces of the table's vocabulary."""

import re
from functools import cached_property

from mdrecall.core.text.words import fold

#: Longer runs are not words but hashes, keys or encoded data.
MAX_WORD_CHARS = 100

_WORD = re.compile("[a-z0-9]+")
# What is not part of a word becomes a space, which is found in half the time that the pattern needs.
_SPACED = "".join(chr(code) if _WORD.match(chr(code)) else " " for code in range(128))
_CONTINUES = "##"


class Pieces(dict[str, tuple[int, ...]]):
    """Maps a folded word to its pieces: its longest known beginning, the longest known continuation, and so on.

    A word that cannot be split into known pieces has none. Words are split at their first lookup.
    """

    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self._numbers = {piece: number for number, piece in enumerate(vocabulary.split("\n"))}
        self._longest = max(map(len, self._numbers))

    def is_whole(self, word: str) -> bool:
        """True if a word is a piece by itself: English has it, or it is a frequent name."""
        return word in self._numbers

    @cached_property
    def texts(self) -> list[str]:
        """The pieces by their numbers; those that continue a word begin with ``##``."""
        return self.vocabulary.split("\n")

    def __missing__(self, word: str) -> tuple[int, ...]:
        pieces = self[word] = self._split(word)
        return pieces

    def _split(self, word: str) -> tuple[int, ...]:
        if len(word) > MAX_WORD_CHARS:
            return ()
        numbers = self._numbers
        found: list[int] = []
        start = 0
        while start < len(word):
            rest = (_CONTINUES if start else "") + word[start : start + self._longest]
            least = len(_CONTINUES) if start else 0
            end = len(rest)
            while end > least and rest[:end] not in numbers:
                end -= 1
            if end == least:
                return ()
            found.append(numbers[rest[:end]])
            start += end - least
        return tuple(found)


def words(text: str) -> list[str]:
    """Return the folded words of a text."""
    return find_words(fold(text))


def find_words(folded: str) -> list[str]:
    """Return the words of a folded text."""
    return folded.translate(_SPACED).split() if folded.isascii() else _WORD.findall(folded)
