"""The words of a text are found by numbers, and are the same that are found as strings."""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.embed.offline import embedder as word_rows
from mdrecall.embed.offline.embedder import WordRows
from mdrecall.embed.offline.languages import find_words
from tests.conftest import examples

#: Words of every length, many with the same beginning, and everything that may stand between words.
_texts = st.lists(
    st.text("ab0 -\n\t'.", max_size=40)
    | st.builds(lambda count, end: "a" * count + end, st.integers(0, 110), st.sampled_from("abc 0-")),
    max_size=20,
)


def embed(words: Sequence[str]) -> Any:
    return numpy.array([[zlib.crc32(word.encode()) >> 1, len(word)] for word in words], numpy.int32)


def find_vectors(rows: WordRows, texts: Sequence[str]) -> Iterator[list[list[int]]]:
    vectors, places, ends = rows.look_up_texts(texts)
    for start, end in zip((0, *ends), ends, strict=False):
        yield vectors[places[start:end]].tolist()


def expect_vectors(texts: Sequence[str]) -> list[list[list[int]]]:
    return [embed(find_words(text)).tolist() for text in texts]


@settings(max_examples=examples(50))
@given(st.lists(_texts, max_size=4), st.sampled_from([1, 3, 18]))
def test_every_word_has_its_own_vector(groups: list[list[str]], bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # With few places, most words share theirs with another.
        patch.setattr(word_rows, "_PLACE_BITS", bits)
        rows = WordRows(2, embed)
        for texts in groups:
            assert list(find_vectors(rows, texts)) == expect_vectors(texts)


def test_words_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_rows, "_MAX_WORDS", 50)
    rows = WordRows(2, embed)
    for group in range(30):
        texts = [f"word{group} other{number} the{group * number}" for number in range(20)]
        assert list(find_vectors(rows, texts)) == expect_vectors(texts)
        vectors, places = rows.look_up(["the0", f"word{group}"])
        assert vectors[places].tolist() == embed(["the0", f"word{group}"]).tolist()


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
        rows.look_up_texts(["one two"])
    assert list(find_vectors(rows, ["one two"])) == expect_vectors(["one two"])
