"""WordPiece as BERT (uncased) has it: text to the numbers of word pieces, for the encoder."""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, islice

from mdrecall.embed.offline.languages import Pieces

#: The pieces that stand around every text, and the one of a word that has no pieces.
FIRST, LAST, UNKNOWN = 101, 102, 100
# The words of a large workspace; without a bound, every new word would grow the memory.
_MOST_WORDS = 30_000
# Each of these characters is a word by itself. BERT leaves out 2B820 to 2B91F, and so do we.
_IDEOGRAPHS = (
    *(range(0x3400, 0x4DC0), range(0x4E00, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x2A6E0)),
    *(range(0x2A700, 0x2B820), range(0x2B920, 0x2CEB0), range(0x2F800, 0x2FA20)),
)


class _Characters(dict[int, str]):
    """Maps a code point of decomposed text to what stands for it; words end at spaces."""

    def __missing__(self, code: int) -> str:
        found = self[code] = _replace(chr(code))
        return found


def _replace(char: str) -> str:
    category = unicodedata.category(char)
    if char in "\t\n\r" or category[0] == "Z":
        return " "
    if category in ("Mn", "Cc", "Cf", "Co", "Cs") or char == "\ufffd":
        return ""
    is_ascii_symbol = char.isascii() and not char.isalnum()
    if is_ascii_symbol or category[0] == "P" or any(ord(char) in some for some in _IDEOGRAPHS):
        return f" {char} "
    # Each character by itself: lower case at the end of a Greek word is another letter for Python, not for BERT.
    return char.lower()


class WordPiece:
    """Splits texts into pieces."""

    def __init__(self, vocabulary: str) -> None:
        """``vocabulary`` has one piece a line."""
        self._characters = _Characters()
        self._split = lru_cache(_MOST_WORDS)(Pieces(vocabulary).split)

    def encode(self, text: str, most: int) -> list[int]:
        """Return the numbers of a text's pieces between the special ones, at most ``most``; the rest is left out."""
        words = unicodedata.normalize("NFD", text).translate(self._characters).split(" ")
        pieces = chain.from_iterable(self._split(word) or (UNKNOWN,) for word in words if word)
        return [FIRST, *islice(pieces, most - 2), LAST]


def is_unknown(numbers: Sequence[int]) -> bool:
    """True if no piece of a text is known."""
    return {FIRST, LAST, UNKNOWN}.issuperset(numbers)
