"""What only an index in a file has: its header and owner, damage, permissions, and the connections to it."""

import os
import sqlite3
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from mdrecall.errors import CorruptIndex, ForeignDatabase, NewerIndex, StoreBusy, StoreUnavailable
from mdrecall.locks import FileLock
from mdrecall.search.query import parse_query
from mdrecall.store.sqlite import SqliteStore
from mdrecall.store.sqlite.sidecar_files import LOCKS
from mdrecall.store.sqlite.tables import APPLICATION_ID, VERSION
from mdrecall.types.documents import Embedding, Space
from tests.processes import until
from tests.store.stores import OWNER, STAMP, found_in, indexed


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=OWNER)
    opened.admin.open()
    yield opened
    opened.admin.close()


def test_common_terms_beyond_the_budget_count_only_where_a_rarer_one_is(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.store.common.ROW_BUDGET", 3)
    store.documents.put([indexed(f"{number}.md", "common words here") for number in range(9)], "r")
    store.documents.put([indexed("rare.md", "common walrus")], "r")
    common, walrus = store.chunks.match_terms(parse_query("common walrus"))
    assert walrus.chunks.keys() == common.chunks.keys()
    assert len(common.chunks) == 1


def test_no_thread_closes_the_connection_that_another_one_writes_with(store: SqliteStore) -> None:
    def write() -> None:
        store.documents.put([indexed("a.md", "walrus")], "r")
        other = threading.Thread(target=store.admin.recreate, args=(StoreUnavailable("It was deleted."),))
        other.start()
        other.join()
        store.documents.put([indexed("b.md", "penguin")], "r")

    store.documents.commit(write)
    with SqliteStore(store.file_path, is_ours=True, owner=OWNER)._file.latest() as db:
        assert list(db.execute("SELECT path FROM documents")) == [("a.md",), ("b.md",)]


@pytest.mark.parametrize("query", ["common", "the"])
def test_of_a_term_beyond_the_budget_the_newest_chunks_are_found(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr("mdrecall.store.common.ROW_BUDGET", 3)
    store.documents.put([indexed(f"{number}.md", "the common words here") for number in range(9)], "r")
    (match,) = store.chunks.match_terms(parse_query(query))
    assert sorted(match.chunks) == [7, 8, 9]
    assert match.held_by == 9
    assert set(match.chunks.values()) == {0.5} or query == "common"


def test_the_rows_of_a_very_common_term_are_estimated(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.store.sqlite.store._MOST_COUNTED", 4)
    texts = ["common words" if number % 2 else "others" for number in range(40)]
    store.documents.put([indexed(f"{number}.md", text) for number, text in enumerate(texts)], "r")
    (match,) = store.chunks.match_terms(parse_query("common"))
    assert match.held_by == 20


def test_the_file_says_whose_it_is_and_which_format_it_has(store: SqliteStore) -> None:
    header = Path(store.file_path).read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == VERSION


def make_older(store: SqliteStore) -> None:
    """Give an index with cached embeddings the tables of an earlier format, which had fewer."""
    vector = struct.pack("<4f", 1, 0, 0, 0)
    store.documents.put([indexed("old.md", "walrus")], "r")
    space = store.vectors.ensure_space(Space("a", "b", "c", 4)).id
    store.cache.put(space, {bytes(32): Embedding(vector)}, (), None)
    store.vectors.put(space, [(chunk.id, Embedding(vector)) for chunk in store.vectors.pending(None, 0, 10)])
    store.admin.close()
    db = apsw.Connection(store.file_path)
    db.execute(f"DROP TABLE transcripts; CREATE TABLE dictionaries(key); PRAGMA user_version={VERSION - 1}")
    db.close()


def test_an_older_index_is_filled_again_with_its_cached_embeddings(store: SqliteStore) -> None:
    make_older(store)
    assert (store.documents.known_documents("memory"), store.documents.state()[0], store.vectors.spaces()) == (
        {},
        "",
        [],
    )
    store.documents.put([indexed("new.md", "walrus")], "r")
    assert (found_in(store, "walrus"), store.admin.content_sizes().cached) == ({"new.md"}, 1)
    assert (store.admin.check(), store.admin.health()[0]) == ((), "")


def test_an_older_index_of_another_agent_is_left_as_it_is(store: SqliteStore) -> None:
    make_older(store)
    before = Path(store.file_path).read_bytes()
    with pytest.raises(ForeignDatabase, match="agent main"):
        SqliteStore(store.file_path, is_ours=False, owner=("other", "/workspace")).admin.open()
    assert Path(store.file_path).read_bytes() == before


def test_an_index_of_a_newer_format_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    SqliteStore(str(path), is_ours=True, owner=OWNER).admin.open()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={VERSION + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(NewerIndex, match="newer mdrecall"):
        SqliteStore(str(path), is_ours=True, owner=OWNER).admin.open()
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE files(path TEXT PRIMARY KEY)")
    db.commit()
    db.close()
    before = path.read_bytes()
    with pytest.raises(ForeignDatabase, match="another program"):
        SqliteStore(str(path), is_ours=False, owner=OWNER).admin.open()
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_database_is_left_as_it_is_where_others_may_write(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# My notes\n" * 50)
    with pytest.raises(ForeignDatabase, match="not a database"):
        SqliteStore(str(path), is_ours=False, owner=OWNER).admin.open()
    assert path.read_text() == "# My notes\n" * 50


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage" * 1000,
        b"SQLite format 3\0" + b"\0" * 52 + b"mdrc" + b"\xff" * 4000,
        b"SQLite format 3\0" + b"\0" * 52 + b"what" + b"\xff" * 4000,
    ],
)
def test_a_damaged_index_is_set_aside_and_begun_anew(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "index.sqlite"
    path.write_bytes(garbage)
    store = SqliteStore(str(path), is_ours=True, owner=OWNER)
    store.admin.open()
    store.documents.put([indexed("a.md", "walrus")], "r")
    assert found_in(store, "walrus") == {"a.md"}
    assert Path(store.admin.health()[0]).read_bytes() == garbage
    store.admin.close()


def test_an_empty_file_becomes_an_index(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.touch()
    store = SqliteStore(str(path), is_ours=False, owner=OWNER)
    store.admin.open()
    assert store.chunks.count() == 0
    store.admin.close()


def test_a_file_damaged_inside_is_set_aside_at_the_next_use(store: SqliteStore) -> None:
    store.documents.put([indexed(f"{n}.md", f"walrus {n} " + "word " * 300) for n in range(50)], "r")
    store.admin.close()
    data = bytearray(Path(store.file_path).read_bytes())
    data[8192 : len(data) - 8192] = b"\x5a" * (len(data) - 16384)
    Path(store.file_path).write_bytes(data)
    assert found_in(store, "walrus") == set()
    assert Path(store.admin.health()[0]).read_bytes() == bytes(data)


def test_another_writer_is_waited_for_and_then_named(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.store.sqlite.connect._BUSY_MS", 50)
    other = apsw.Connection(store.file_path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match=r"index\.sqlite"):
        store.documents.put([indexed("a.md", "text")], "r")
    other.execute("ROLLBACK")
    store.documents.put([indexed("a.md", "text")], "r")
    assert store.chunks.count() == 1


def test_where_nothing_can_be_written_an_index_in_a_temporary_folder_stands_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = SqliteStore(str(tmp_path / "file" / "index.sqlite"), is_ours=True, owner=OWNER)
    store.admin.open()
    assert str(store.admin.health()[1]).startswith("Cannot create the folder")
    store.documents.put([indexed("a.md", "walrus")], "r")
    assert found_in(store, "walrus") == {"a.md"}
    store.admin.close()


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE chunks",
        "ALTER TABLE documents DROP COLUMN recipe",
        "UPDATE documents SET path = CAST(x'ff' AS TEXT)",
        "UPDATE texts SET text = x'70c328'",
        "UPDATE texts SET text = x'64c328'",
    ],
)
def test_damage_that_sqlite_itself_does_not_notice_is_damage(store: SqliteStore, damage: str) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    store.admin.close()
    db = sqlite3.connect(store.file_path)
    db.execute(damage)
    db.commit()
    db.close()
    with pytest.raises(CorruptIndex):
        read_everything(store)


def test_the_index_of_another_agent_is_left_as_it_is(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    with pytest.raises(ForeignDatabase, match="agent main") as raised:
        SqliteStore(store.file_path, is_ours=False, owner=("other", "/workspace")).admin.open()
    assert "{agentId}" in raised.value.hint
    assert found_in(store, "walrus") == {"a.md"}


def test_of_another_workspace_nothing_is_kept(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    store.admin.close()
    moved = SqliteStore(store.file_path, is_ours=False, owner=("main", "/elsewhere"))
    assert found_in(moved, "walrus") == set()
    moved.documents.put([indexed("b.md", "walrus")], "r")
    assert found_in(moved, "walrus") == {"b.md"}
    assert moved.admin.check() == ()
    moved.admin.close()


def test_only_the_owner_can_read_the_index(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "new/index.sqlite"), is_ours=True, owner=OWNER)
    store.documents.put([indexed("a.md", "walrus")], "r")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()} == {0o600}
    store.admin.close()


def test_a_pipe_or_folder_at_the_path_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(ForeignDatabase, match="not a file"):
            SqliteStore(str(tmp_path / name), is_ours=True, owner=OWNER).admin.open()


def test_connections_of_ended_threads_are_closed(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    for _ in range(20):
        thread = threading.Thread(target=found_in, args=(store, "walrus"))
        thread.start()
        thread.join()
    assert len(store._file._readers) <= 2


def read_everything(store: SqliteStore) -> None:
    assert found_in(store, "walrus") == {"a.md"}
    assert store.documents.known_stamps("memory", 5) == {"a.md": STAMP}
    assert store.documents.known_documents("memory", ["a.md"]).get("a.md")


def test_an_index_deleted_after_it_was_opened_is_made_again_and_not_replaced_by_a_temporary_one(
    store: SqliteStore,
) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    for path in Path(store.file_path).parent.glob("index.sqlite*"):
        path.unlink()
    # As if it had been deleted between the look at it and the connection.
    with store._file.latest() as db:
        assert list(db.execute("SELECT path FROM documents")) == []
    assert store.admin.health() == ("", None)
    store.documents.put([indexed("b.md", "penguin")], "r")
    assert found_in(store, "penguin") == {"b.md"}


def test_who_keeps_a_thread_from_writing_is_told_whoever_waits_already(store: SqliteStore) -> None:
    lock = FileLock(f"{store.file_path}{LOCKS['write']}")

    def wait() -> None:
        with suppress(StoreBusy), store.admin.write_lock("indexing", 60):
            pass

    def is_waiting() -> bool:
        if got := store._file._thread_lock.acquire(blocking=False):
            store._file._thread_lock.release()
        return not got

    assert lock.acquire(0, "importing")
    thread = threading.Thread(target=wait)
    thread.start()
    try:
        until(is_waiting)
        whom = rf"is locked by process {os.getpid()}, which has been importing since"
        with pytest.raises(StoreBusy, match=whom), store.admin.write_lock("writing", 0):
            pass
    finally:
        lock.release()
        thread.join()
