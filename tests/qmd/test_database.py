"""What can be seen in qmd's own index, and what is said when it cannot be."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mdrecall.errors import ProgramBusy, ProgramUnreadable
from mdrecall.extras.qmd.database import QmdDatabase

SCHEMA = """
CREATE TABLE documents(id INTEGER PRIMARY KEY, collection TEXT, path TEXT, title TEXT, hash TEXT, created_at TEXT,
    modified_at TEXT, active INTEGER, UNIQUE(collection, path));
CREATE TABLE store_collections(name TEXT PRIMARY KEY, path TEXT, pattern TEXT);
CREATE TABLE content_vectors(hash TEXT, seq INTEGER, PRIMARY KEY(hash, seq));
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.sqlite"


@pytest.fixture
def writer(path: Path) -> Iterator[apsw.Connection]:
    db = apsw.Connection(str(path))
    db.execute(SCHEMA)
    yield db
    db.close()


def put(db: apsw.Connection, *rows: tuple[str, str, str, int]) -> None:
    sql = "INSERT INTO documents(collection, path, hash, active, title, modified_at) VALUES(?, ?, ?, ?, 't', 'm')"
    with db:
        db.executemany(sql, rows)


def test_without_an_index_there_is_nothing_and_no_error(tmp_path: Path) -> None:
    database = QmdDatabase(str(tmp_path / "absent.sqlite"))
    assert not database.exists()
    assert database.counts() == {}
    assert database.collections() == {}
    assert database.count_unembedded() is None


def test_an_index_without_tables_has_nothing(path: Path) -> None:
    apsw.Connection(str(path)).close()
    path.touch()
    assert QmdDatabase(str(path)).counts() == {}


def test_only_active_documents_count(path: Path, writer: apsw.Connection) -> None:
    put(writer, ("a", "1.md", "aa11", 1), ("a", "2.md", "bb22", 0), ("b", "1.md", "aa11", 1))
    database = QmdDatabase(str(path))
    assert database.counts() == {"a": 1, "b": 1}
    assert database.hashes() == {("a", "1.md"): "aa11", ("b", "1.md"): "aa11"}
    assert database.count_unembedded() == 1
    writer.execute("INSERT INTO content_vectors VALUES('aa11', 0)")
    assert database.count_unembedded() == 0


def test_an_index_that_another_process_keeps_for_itself_is_busy(path: Path, writer: apsw.Connection) -> None:
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ProgramBusy):
        QmdDatabase(str(path)).counts()


def test_a_damaged_index_is_told_as_such(path: Path, writer: apsw.Connection) -> None:
    put(writer, *(("a", f"{number}.md", f"{number:064x}", 1) for number in range(500)))
    writer.close()
    damaged = bytearray(path.read_bytes())
    damaged[4096:] = b"\xff" * (len(damaged) - 4096)
    path.write_bytes(damaged)
    with pytest.raises(ProgramUnreadable, match="malformed"):
        QmdDatabase(str(path)).counts()
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(ProgramUnreadable, match="not a database"):
        QmdDatabase(str(path)).check()
