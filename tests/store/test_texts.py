"""Compressed texts: what is stored is what comes back, in less space."""

from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.errors import CorruptIndex
from mdrecall.store.sqlite import SqliteStore
from mdrecall.store.sqlite.tables import (
    Dictionary,
    add_function,
    collect_words,
    load_dictionary,
    make_dictionary,
    pack_text,
)
from mdrecall.types import PendingChunk
from tests.conftest import examples
from tests.store.stores import OWNER, SPACE, indexed

SENTENCE = "The {} keeps a list of everything that the {} has to do before the end of the week."


@pytest.fixture
def db() -> apsw.Connection:
    made = apsw.Connection(":memory:")
    made.execute("CREATE TABLE dictionaries(key INTEGER PRIMARY KEY, words BLOB NOT NULL)")
    made.execute("CREATE TABLE chunks(id INTEGER PRIMARY KEY, text BLOB NOT NULL)")
    add_function(made)
    return made


def unpack(db: apsw.Connection, stored: bytes) -> object:
    ((text,),) = db.execute("SELECT unpack_text(?)", (stored,))
    return text


def make(db: apsw.Connection) -> Dictionary | None:
    return make_dictionary(db, [SENTENCE.format(f"team{number}", "keeper") * 6 for number in range(200)])


@given(text=st.text(max_size=300) | st.sampled_from(["---\ntitle: a\n---\n", SENTENCE * 20]), shared=st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_a_text_comes_back_as_it_was(text: str, shared: bool) -> None:
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE dictionaries(key INTEGER PRIMARY KEY, words BLOB NOT NULL)")
    add_function(db)
    stored = pack_text(text, make(db) if shared else None)
    assert unpack(db, stored) == text
    assert stored[:1].isupper() == text.startswith("---")
    assert len(stored) <= len(text.encode()) + 5


@pytest.mark.parametrize("way", ["plain", "compressed", "shared"])
def test_whichever_bit_of_a_stored_text_is_flipped_no_other_text_comes_back(db: apsw.Connection, way: str) -> None:
    text = "a short one" if way == "plain" else SENTENCE.format("walrus", "keeper") * 2
    stored = pack_text(text, make(db) if way == "shared" else None)
    assert stored[:1] == {"plain": b"p", "compressed": b"d", "shared": b"w"}[way]
    damaged = 0
    for bit in range(8 * len(stored)):
        flipped = bytearray(stored)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert unpack(db, bytes(flipped)) == text
        except apsw.CorruptError:
            damaged += 1
    # One bit makes a letter a capital, and the last byte of a compressed text has unused ones.
    assert damaged >= 8 * len(stored) - 16


def test_texts_take_half_the_space_with_the_words_that_they_share(db: apsw.Connection) -> None:
    text = SENTENCE.format("walrus", "keeper")
    alone, shared = pack_text(text, None), pack_text(text, make(db))
    assert len(shared) * 3 < len(alone) * 2 < len(text) * 2


def test_words_of_few_chunks_are_not_in_the_dictionary() -> None:
    words = collect_words(["the walrus", "the seal", "the heron", "a walrus"])
    assert b"the" in words
    assert b"walrus" not in words


def test_a_little_text_makes_no_dictionary_until_there_is_more(db: apsw.Connection) -> None:
    texts = [SENTENCE.format(f"team{number}", "keeper") * 6 for number in range(200)]
    for number, text in enumerate(texts):
        assert (make_dictionary(db, [text]) is None) == (sum(map(len, texts[: number + 1])) < 50_000)
        db.execute("INSERT INTO chunks(text) VALUES(?)", (pack_text(text, load_dictionary(db)),))
    assert [text for (text,) in db.execute("SELECT unpack_text(text) FROM chunks ORDER BY id")] == texts
    assert list(db.execute("SELECT count(*) FROM dictionaries")) == [(1,)]


@pytest.mark.parametrize("stored", [b"d not compressed", b"w", b"w\1\2\3\4 no such dictionary"])
def test_a_text_that_cannot_be_decompressed_is_a_damaged_index(tmp_path: Path, stored: bytes) -> None:
    store = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=OWNER)
    store.documents.put([indexed("a.md", "some text")], "r")
    other = apsw.Connection(store.file_path)
    ((number,),) = other.execute("SELECT id FROM chunks")
    other.execute("UPDATE chunks SET text=?", (stored,))
    other.close()
    with pytest.raises(CorruptIndex):
        store.chunks.load([number])
    store.admin.close()


def test_notes_with_front_matter_are_listed_with_it(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=OWNER)
    matter = "---\ndate: 2026-02-10\n---\n" + SENTENCE * 10
    store.documents.put([indexed("a.md", matter), indexed("b.md", SENTENCE * 10)], "r")
    assert {found.path: found.head[:20] for found in store.chunks.list_documents()} == {"a.md": matter[:20], "b.md": ""}
    store.admin.close()


@pytest.mark.parametrize("is_one_transaction", [True, False])
def test_chunks_to_embed_are_the_same_whether_they_were_just_written_or_are_read_back(
    tmp_path: Path, is_one_transaction: bool
) -> None:
    store = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=OWNER)
    items = [indexed(f"memory/{name}.md", f"# {name}\n\n" + "a line of it\n" * 40, tokens=30) for name in "ab"]
    pending: list[PendingChunk] = []

    def write() -> None:
        space = store.vectors.ensure_space(SPACE).id
        store.documents.put(items, "r")
        pending.extend(store.vectors.pending(space, 0, 100))

    if is_one_transaction:
        store.documents.commit(write)
    else:
        write()
    assert [(chunk.path, chunk.text, chunk.trail) for chunk in pending] == [
        (document.path, entry.chunk.text, entry.chunk.trail) for document, chunks in items for entry in chunks
    ]
    store.admin.close()


def test_a_chunk_of_a_transaction_that_failed_is_never_embedded(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=OWNER)
    space = store.vectors.ensure_space(SPACE).id

    def fail() -> None:
        store.documents.put([indexed("memory/a.md", "never written")], "r")
        raise KeyError

    with pytest.raises(KeyError):
        store.documents.commit(fail)
    store.documents.put([indexed("memory/b.md", "written")], "r")
    assert [chunk.text for chunk in store.vectors.pending(space, 0, 10)] == ["written"]
    store.admin.close()


def test_the_pages_of_a_first_index_are_full_although_the_newest_notes_come_first(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=OWNER)
    names = sorted((f"memory/{number:04}.md" for number in range(1000)), reverse=True)
    store.documents.put([indexed(name, "a line") for name in names], "r")
    store.admin.close()
    db = apsw.Connection(store.file_path)
    leaves = "FROM dbstat WHERE name = 'sqlite_autoindex_documents_1' AND pagetype = 'leaf'"
    ((unused, size),) = db.execute(f"SELECT sum(unused), sum(pgsize) {leaves}")
    assert unused * 4 < size
    db.close()
