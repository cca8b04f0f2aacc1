"""Word files: what the words of another language mean, each as a few English word pieces of the table.

A file begins with one line of JSON (its *card*) and has three parts after it: the hashes of all words in ascending
order, the way back from pieces to words, and one record for each word in the order of the hashes. A record holds up to
three pieces of the table, a weight from 0 to 15 for each, the scale of the whole, and how improbable the word is. The
file is mapped, so a process pays only for the words that it meets, and the words themselves are not stored: two words
with the same hash would be taken for each other, which happens to one in a hundred thousand.
"""

import json
import mmap
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from mdrecall.errors import ModelFileError

#: How many pieces a record holds. With five, eight or twelve, questions across languages were answered no better.
PIECES = 3
#: The highest weight of a piece: four bits.
MAX_WEIGHT = 15
#: Bytes of a record: the pieces, two weights in each byte, the scale, the cost.
RECORD_BYTES = 2 * PIECES + (PIECES + 1) // 2 + 2
#: Scales are stored as logarithms, this many steps for a factor of two; the middle of the byte is 1.
SCALE_STEPS = 16
SCALE_MIDDLE = 128
#: Costs are stored in steps of this size; the cost of a word is the natural logarithm of its improbability.
COST_STEP = 0.1
#: The way back is stored as numbers of 32 bits: the piece, and the number of a record in these last bits.
RECORD_BITS = 17
FORMAT = 2
# How long the vector of a word is, by its cost: the mean length of the English table's rows at the same frequency
# (2.05 for a word that occurs once in a million words, 0.42 for one that occurs ten thousand times). Frequent words
# say little.
LENGTHS = ((2.3, 0.3), (4.6, 0.42), (6.9, 0.75), (9.2, 1.17), (11.5, 1.65), (13.8, 2.05), (16.1, 2.2), (18.4, 2.3))
_MASK = 0xFFFFFFFF
#: The parameters of the hash (FNV-1a with 32 bits, over code points).
HASH_START, HASH_FACTOR = 0x811C9DC5, 0x01000193
#: The characters of scripts without spaces, which are cut into words: Han, kana, and the iteration marks between them.
UNSPACED = "\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"


class Card(NamedTuple):
    """The first line of a word file."""

    language: str
    """A code such as ``de``."""
    name: str
    script: str
    """The script of its words: ``han``, ``kana``, ``hangul``, ``latin``, ``cyrillic`` or ``greek``."""
    words: int
    longest: int
    """The characters of its longest word."""
    digest: str
    """SHA-256 over all parts."""
    source: str
    licence: str
    common: str = ""
    """Its most frequent words, separated by spaces: they tell that a text is in this language."""
    compounds: bool = False
    """True if words are joined to longer ones without a space, as in German."""
    backward: int = 0
    """How many entries its way back has; 0 if its words are never looked up by their translation."""


def hash_word(word: str) -> int:
    """Return the 32-bit hash of a folded word."""
    value = HASH_START
    for char in word:
        value = ((value ^ ord(char)) * HASH_FACTOR) & _MASK
    return value


def word_length(cost: float) -> float:
    """Return how long the vector of a word with this cost is."""
    if cost <= LENGTHS[0][0]:
        return LENGTHS[0][1]
    for (low, at_low), (high, at_high) in pairwise(LENGTHS):
        if cost <= high:
            return at_low + (at_high - at_low) * (cost - low) / (high - low)
    return LENGTHS[-1][1]


class WordFile:
    """A mapped word file; raises ``ModelFileError`` when it is first used if it cannot be read."""

    def __init__(self, path: str, card: Card | None = None) -> None:
        """``card`` is the file's card if it is known, so that the file need not be opened to have it."""
        self.path = path
        self._known_card = card

    @property
    def card(self) -> Card:
        return self._known_card or self._own_card

    @cached_property
    def _own_card(self) -> Card:
        return read_card(self._data, self.path)

    @cached_property
    def _data(self) -> mmap.mmap:
        try:
            with open(self.path, "rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise _unreadable(self.path, str(error)) from error

    @cached_property
    def start(self) -> int:
        """Where the hashes begin."""
        if self.card != self._own_card:
            raise _unreadable(self.path, "it belongs to another version")
        return self._data.find(b"\n") + 1

    @cached_property
    def hashes(self) -> Any:
        """The hashes as unsigned numbers of 32 bits."""
        return self._numbers(self.start, self.card.words)

    def _numbers(self, start: int, count: int) -> Any:
        return memoryview(self._data)[start : start + 4 * count].cast("I")

    @cached_property
    def records(self) -> Any:
        """The records as bytes."""
        first = self.start + 4 * (self.card.words + self.card.backward)
        return memoryview(self._data)[first : first + RECORD_BYTES * self.card.words]

    def find(self, word: str) -> int:
        """Return the number of a word's record; -1 if the file does not have the word."""
        return self.find_hash(hash_word(word))

    def find_hash(self, wanted: int) -> int:
        """Return the number of the record of the word with a hash; -1 if there is none."""
        hashes = self.hashes
        number = bisect_left(hashes, wanted)
        return number if number < len(hashes) and hashes[number] == wanted else -1

    def find_by_piece(self, piece: int) -> Iterator[int]:
        """Yield the numbers of the records of which a piece is a main meaning."""
        entries = self._numbers(self.start + 4 * self.card.words, self.card.backward)
        wanted = piece << RECORD_BITS
        place = bisect_left(entries, wanted)
        while place < len(entries) and entries[place] >> RECORD_BITS == piece:
            yield entries[place] - wanted
            place += 1

    def cost(self, number: int) -> int:
        """Return how improbable the word of a record is, in steps of ``COST_STEP``."""
        return int(self.records[number * RECORD_BYTES + RECORD_BYTES - 1])

    def weight(self, number: int, piece: int) -> int:
        """Return the weight of a piece in a record; 0 if it is not there."""
        return dict(read_pieces(self._record(number))).get(piece, 0)

    def _record(self, number: int) -> bytes:
        return bytes(self.records[number * RECORD_BYTES : (number + 1) * RECORD_BYTES])

    def read(self, number: int) -> tuple[tuple[tuple[int, float], ...], float]:
        """Return the pieces of a word with their weights, whose rows sum up to its vector, and its cost."""
        record = self._record(number)
        scale = 2.0 ** ((record[-2] - SCALE_MIDDLE) / SCALE_STEPS)
        pieces = tuple((piece, weight * scale) for piece, weight in read_pieces(record))
        return pieces, record[-1] * COST_STEP


def read_pieces(record: Any) -> list[tuple[int, int]]:
    """Return the pieces of a record with their weights from 1 to 15."""
    weights = [record[2 * PIECES + place // 2] >> (4 * (place % 2)) & MAX_WEIGHT for place in range(PIECES)]
    return [(record[2 * place] | record[2 * place + 1] << 8, weight) for place, weight in enumerate(weights) if weight]


def read_card(data: Any, path: str) -> Card:
    """Return the card of a word file; raise ``ModelFileError`` if it is damaged or of another format."""
    try:
        line = bytes(data[: data.find(b"\n")])
        fields = json.loads(line)
        known = fields.pop("format")
        card = Card(**fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _unreadable(path, "it does not begin with a card") from error
    if known != FORMAT:
        raise _unreadable(path, f"its format is {known}, and only {FORMAT} is known")
    if len(data) != len(line) + 1 + card.words * (4 + RECORD_BYTES) + 4 * card.backward:
        raise _unreadable(path, "it is not complete")
    return card


def read_cards(path: str) -> list[Card]:
    """Return the cards of the files that come with mdrecall, which are kept in one place to be read quickly."""
    try:
        with open(path, encoding="utf-8") as file:
            return [Card(**fields) for fields in json.load(file)]
    except (OSError, ValueError, TypeError) as error:
        message = f"The list of languages {path} cannot be read: {error}."
        raise ModelFileError(message, hint="Install mdrecall again.") from error


def _unreadable(path: str, why: str) -> ModelFileError:
    message = f"The word file {path} cannot be read: {why}."
    return ModelFileError(message, hint="Install mdrecall again, or remove the file if you added it.")
