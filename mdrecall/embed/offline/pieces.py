"""Words to the numbers of their pieces, as the table's vocabulary cuts them."""

import re

from mdrecall.core.words import fold

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
        self._numbers = {piece: number for number, piece in enumerate(vocabulary.split("\n"))}

    def __missing__(self, word: str) -> tuple[int, ...]:
        pieces = self[word] = self._cut(word)
        return pieces

    def _cut(self, word: str) -> tuple[int, ...]:
        if len(word) > LONGEST_WORD:
            return ()
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = _CONTINUES if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return ()
            found.append(number)
            start = end
        return tuple(found)


def words(text: str) -> list[str]:
    """The folded words of a text, as the table counts them."""
    return _WORD.findall(fold(text))
