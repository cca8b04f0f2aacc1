"""Compressed texts: what is stored is what comes back, in less space."""

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.errors import CorruptIndex
from mdrecall.store.sqlite import SqliteStore
from mdrecall.store.sqlite.tables import pack_text, unpack_text
from tests.conftest import examples
from tests.store.stores import OWNER, indexed


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=OWNER)
    yield opened
    opened.admin.close()


SENTENCE = "The {} keeps a list of everything that the {} has to do before the end of the week."


@given(text=st.text(max_size=300) | st.sampled_from(["---\ntitle: a\n---\n", SENTENCE * 20]))
@settings(max_examples=examples(25), deadline=None)
def test_a_text_comes_back_as_it_was(text: str) -> None:
    stored = pack_text(text)
    assert unpack_text(stored) == text
    assert stored[:1].isupper() == text.startswith("---")
    assert len(stored) <= len(text.encode()) + 5


@pytest.mark.parametrize(("mark", "text"), [(b"p", "a short one"), (b"d", SENTENCE.format("walrus", "keeper") * 2)])
def test_whichever_bit_of_a_stored_text_is_flipped_no_other_text_comes_back(mark: bytes, text: str) -> None:
    stored = pack_text(text)
    assert stored[:1] == mark
    damaged = 0
    for bit in range(8 * len(stored)):
        flipped = bytearray(stored)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert unpack_text(bytes(flipped)) == text
        except apsw.CorruptError:
            damaged += 1
    # One bit makes a letter a capital, and the last byte of a compressed text has unused ones.
    assert damaged >= 8 * len(stored) - 16


@pytest.mark.parametrize("stored", [b"d not compressed", b"w", b"p\1\2\3\4 another text"])
def test_a_text_that_cannot_be_decompressed_is_a_damaged_index(store: SqliteStore, stored: bytes) -> None:
    store.documents.put([indexed("a.md", "some text")], "r")
    other = apsw.Connection(store.file_path)
    ((number,),) = other.execute("SELECT id FROM chunks")
    other.execute("UPDATE texts SET text=?", (stored,))
    other.close()
    with pytest.raises(CorruptIndex):
        store.chunks.load([number])


def test_chunks_of_a_long_note_are_stored_together_and_read_back_one_by_one(store: SqliteStore) -> None:
    document, chunks = indexed("memory/a.md", "".join(f"Line {number} of it\n" for number in range(2_000)), tokens=200)
    numbers = store.documents.put([(document, chunks)], "r")
    assert [chunk.text for chunk in store.chunks.load(numbers)] == [entry.chunk.text for entry in chunks]
    db = apsw.Connection(store.file_path)
    ((texts,),) = db.execute("SELECT count(*) FROM texts")
    assert 1 < texts * 8 < len(numbers)
    store.documents.remove({"memory": ["memory/a.md"]})
    assert list(db.execute("SELECT count(*) FROM texts")) == [(0,)]
    db.close()


def test_a_text_that_the_chunk_before_does_not_end_with_is_stored_whole(store: SqliteStore) -> None:
    document, (first, *_) = indexed("memory/a.md", "some text")
    other = first._replace(chunk=first.chunk._replace(text="other text", overlap=4))
    numbers = store.documents.put([(document, [first, other])], "r")
    assert [chunk.text for chunk in store.chunks.load(numbers)] == ["some text", "other text"]


def test_texts_of_many_sizes_fill_their_pages(store: SqliteStore) -> None:
    noise = random.Random(7)
    items = [indexed(f"{number}.md", noise.randbytes(50 + 23 * number).hex()) for number in range(100)]
    store.documents.put(items, "r")
    store.admin.close()
    db = apsw.Connection(store.file_path)
    ((unused, size),) = db.execute("SELECT sum(unused), sum(pgsize) FROM dbstat WHERE name = 'texts'")
    assert unused * 12 < size
    db.close()


def test_the_pages_of_a_first_index_are_full_although_the_newest_notes_come_first(store: SqliteStore) -> None:
    names = sorted((f"memory/{number:04}.md" for number in range(1000)), reverse=True)
    store.documents.put([indexed(name, "a line") for name in names], "r")
    store.admin.close()
    db = apsw.Connection(store.file_path)
    leaves = "FROM dbstat WHERE name = 'sqlite_autoindex_documents_1' AND pagetype = 'leaf'"
    ((unused, size),) = db.execute(f"SELECT sum(unused), sum(pgsize) {leaves}")
    assert unused * 4 < size
    db.close()
