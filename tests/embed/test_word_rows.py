"""The vectors of words are cached: each word has its own, and their number is bounded."""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy
import pytest

from mdrecall.embed.offline import embedder
from mdrecall.embed.offline.embedder import WordRows


def embed(words: Sequence[str]) -> Any:
    return numpy.array([[zlib.crc32(word.encode()) >> 1, len(word)] for word in words], numpy.int32)


def look_up(rows: WordRows, words: Sequence[str]) -> Any:
    vectors, places = rows.look_up(words)
    return vectors[places].tolist()


def test_words_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "_MAX_WORDS", 50)
    rows = WordRows(2, embed)
    for group in range(30):
        words = [word for number in range(20) for word in (f"w{group}", f"other{number}", f"the{group * number}")]
        assert look_up(rows, words) == embed(words).tolist()


def test_a_word_that_cannot_be_embedded_has_no_row() -> None:
    broken = True

    def fail_once(words: Sequence[str]) -> Any:
        nonlocal broken
        if broken:
            broken = False
            raise MemoryError
        return embed(words)

    rows = WordRows(2, fail_once)
    with pytest.raises(MemoryError):
        rows.look_up(["one", "two"])
    assert look_up(rows, ["one", "two", "one"]) == embed(["one", "two", "one"]).tolist()
