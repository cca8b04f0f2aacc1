"""Make a word file from a dictionary: a word becomes the few English word pieces that its translations consist of."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mdrecall.embed.offline.languages import Pieces, find_words
from mdrecall.embed.offline.word_file import (
    COST_STEP,
    FORMAT,
    MAX_WEIGHT,
    PIECES,
    RECORD_BITS,
    SCALE_MIDDLE,
    SCALE_STEPS,
    Card,
    hash_word,
    read_pieces,
    word_length,
)
from mdrecall.text.words import fold

# Later glosses are rarer meanings or repetitions: each counts three quarters of the one before, and few are read.
_MOST_GLOSSES = 8
_NEXT_GLOSS = 0.75
# A gloss of more words is an explanation, of which most words are beside the point.
_EXPLANATION_WORDS = 8
_EXPLANATION_SHARE = 0.5
# Words of a gloss that belong to the style of dictionaries.
_STYLE = frozenset(("to", "a", "an", "the", "of", "sth", "sb", "someone", "something", "etc", "ie", "eg", "esp"))
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|<[^<>]*>")
_LN_10 = 2.302585
# The scripts whose words are looked up by their translation; in others no text is known to share no word with a query.
_LOOKED_UP = ("han", "kana", "hangul")
# Side meanings and rare words are not looked up: without these limits (two thirds of the main meaning's weight, less
# than once in a million words) the files are a megabyte larger and no more questions are answered.
_LEAST_WEIGHT = 10
_HIGHEST_COST = 14.0


class Entry(NamedTuple):
    """A word of a dictionary."""

    word: str
    glosses: Sequence[str]
    """Its English translations, the most usual first."""
    frequency: float
    """Decimal logarithm of how often it occurs in 1,000 million words."""


class Table(NamedTuple):
    """The table that the glosses are read with."""

    pieces: Pieces
    rows: Any
    """One vector of numbers for each piece."""


def make_word_file(entries: Iterable[Entry], table: Table, card: Card) -> bytes:
    """Return a word file. ``words``, ``longest`` and ``digest`` of the card are filled in.

    Of words that are equal after folding the more frequent one is kept, and so of words with the same hash.
    """
    records: dict[int, bytes] = {}
    longest = 1
    for entry in sorted(entries, key=lambda entry: (-entry.frequency, entry.word)):
        word = fold(entry.word)
        key = hash_word(word)
        if not word or key in records:
            continue
        if record := make_record(entry, table):
            records[key] = record
            longest = max(longest, len(word))
    hashes = sorted(records)
    ordered = [records[key] for key in hashes]
    backward = _find_backward(ordered) if card.script in _LOOKED_UP else []
    body = b"".join((*map(_to_bytes, (*hashes, *backward)), *ordered))
    digest = hashlib.sha256(body).hexdigest()
    return pack_card(card._replace(words=len(hashes), longest=longest, digest=digest, backward=len(backward))) + body


def _to_bytes(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _find_backward(records: Sequence[bytes]) -> list[int]:
    """Return the way back: the main meanings of each record that is not rare as one number each, ascending."""
    frequent = ((number, record) for number, record in enumerate(records) if record[-1] * COST_STEP <= _HIGHEST_COST)
    return sorted(
        piece << RECORD_BITS | number
        for number, record in frequent
        for piece, weight in read_pieces(record)
        if weight >= _LEAST_WEIGHT
    )


def make_record(entry: Entry, table: Table) -> bytes:
    """Return the record of a word; empty if no word of its glosses is known.

    A word without glosses gets a record without pieces: it is known, so that texts are cut there, and says nothing.
    """
    import numpy

    if not entry.glosses:
        return pack_record([], 1.0, (9 - entry.frequency) * _LN_10)
    shares = _piece_shares(entry.glosses, table)
    norms = {piece: float(numpy.linalg.norm(table.rows[piece])) for piece in shares}
    heaviest = sorted(shares, key=lambda piece: (-shares[piece] * norms[piece], piece))[:PIECES]
    if not heaviest:
        return b""
    most = max(shares[piece] for piece in heaviest)
    weighted = [(piece, max(1, round(MAX_WEIGHT * shares[piece] / most))) for piece in heaviest]
    total = sum(table.rows[piece] * weight for piece, weight in weighted)
    length = float(numpy.linalg.norm(total))
    if length < 1e-6:
        return b""
    cost = (9 - entry.frequency) * _LN_10
    return pack_record(weighted, word_length(cost) / length, cost)


def _piece_shares(glosses: Sequence[str], table: Table) -> dict[int, float]:
    """Return how much each piece counts in the sum of the glosses, each of which is made one unit long."""
    import numpy

    shares: dict[int, float] = {}
    weight = 1.0
    for gloss in glosses[:_MOST_GLOSSES]:
        found = [word for word in find_words(fold(_BRACKETS.sub(" ", gloss))) if word not in _STYLE]
        pieces = [piece for word in found for piece in table.pieces[word]]
        length = float(numpy.linalg.norm(table.rows[pieces].sum(0))) if pieces else 0.0
        if length < 1e-6:
            continue
        share = weight * (_EXPLANATION_SHARE if len(found) > _EXPLANATION_WORDS else 1.0) / length
        for piece in pieces:
            shares[piece] = shares.get(piece, 0.0) + share
        weight *= _NEXT_GLOSS
    return shares


def pack_card(card: Card) -> bytes:
    """Return the first line of a word file, padded so that the hashes begin at a multiple of four bytes."""
    line = json.dumps({"format": FORMAT, **card._asdict()}, ensure_ascii=False).encode()
    return line + b" " * (-(len(line) + 1) % 4) + b"\n"


def pack_record(pieces: list[tuple[int, int]], scale: float, cost: float) -> bytes:
    """Return a record; ``pieces`` are piece numbers with weights from 1 to 15."""
    padded = [*pieces, *[(0, 0)] * (PIECES - len(pieces))]
    numbers = b"".join(number.to_bytes(2, "little") for number, _ in padded)
    halves = [weight for _, weight in padded] + [0]
    weights = bytes(low | high << 4 for low, high in zip(halves[0:PIECES:2], halves[1::2], strict=False))
    stored_scale = round(math.log2(scale) * SCALE_STEPS) + SCALE_MIDDLE
    return numbers + weights + bytes((min(255, max(0, stored_scale)), min(255, max(0, round(cost / COST_STEP)))))
