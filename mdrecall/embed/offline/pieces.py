"""Words to the numbers of their pieces, as the table's vocabulary cuts them."""

import re

from mdrecall.core.text.words import fold

#: Longer runs are no words: hashes, keys, encoded data.
LONGEST_WORD = 100

_WORD = re.compile("[a-z0-9]+")
_CONTINUES = "##"


class Pieces(dict[str, tuple[int, ...]]):
    """From a folded word to its pieces: its longest known beginning, the longest known continuation, and so on.

    A word that cannot be cut into known pieces has none. Words are cut when they are first asked for.
    """

    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self._numbers = {piece: number for number, piece in enumerate(vocabulary.split("\n"))}
        self._longest = max(map(len, self._numbers))

    def __missing__(self, word: str) -> tuple[int, ...]:
        pieces = self[word] = self._cut(word)
        return pieces

    def _cut(self, word: str) -> tuple[int, ...]:
        if len(word) > LONGEST_WORD:
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
    """The folded words of a text, as the table counts them."""
    return _WORD.findall(fold(text))
