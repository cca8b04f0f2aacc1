"""What can be seen in qmd's own index, and what is said when it cannot be."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mdrecall.errors import ProgramBusy, ProgramUnreadable
from mdrecall.qmd.database import QmdDatabase
from mdrecall.qmd.listing import ListedCollection
from mdrecall.qmd.process import Program
from tests.qmd.agent_home import AgentHome

SCHEMA = """
CREATE TABLE documents(id INTEGER PRIMARY KEY, collection TEXT, path TEXT, title TEXT, hash TEXT, created_at TEXT,
    modified_at TEXT, active INTEGER, UNIQUE(collection, path));
CREATE TABLE store_collections(name TEXT PRIMARY KEY, path TEXT, pattern TEXT);
CREATE TABLE content_vectors(hash TEXT, seq INTEGER, PRIMARY KEY(hash, seq));
"""
OURS = {"memory-dir-main", "sessions-main"}


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


def found(path: Path, docid: str, **hints: str) -> tuple[str, str] | None:
    row = QmdDatabase(str(path)).by_docid(docid, OURS, **hints)
    return (row.collection, row.path) if row else None


def test_without_an_index_there_is_nothing_and_no_error(tmp_path: Path) -> None:
    database = QmdDatabase(str(tmp_path / "absent.sqlite"))
    assert not database.exists()
    assert database.counts() == {}
    assert database.collections() is None
    assert database.count_unembedded() is None
    assert database.by_docid("#abc123", OURS) is None
    assert database.document("x", "y") is None


def test_an_index_without_tables_has_nothing(path: Path) -> None:
    apsw.Connection(str(path)).close()
    path.touch()
    assert QmdDatabase(str(path)).counts() == {}


def test_only_active_documents_count(path: Path, writer: apsw.Connection) -> None:
    put(writer, ("a", "1.md", "aa11", 1), ("a", "2.md", "bb22", 0), ("b", "1.md", "aa11", 1))
    database = QmdDatabase(str(path))
    assert database.counts() == {"a": 1, "b": 1}
    assert database.document("a", "2.md") is None
    row = database.document("a", "1.md")
    assert row
    assert row.hash == "aa11"
    assert database.count_unembedded() == 1
    writer.execute("INSERT INTO content_vectors VALUES('aa11', 0)")
    assert database.count_unembedded() == 0


def test_a_docid_is_the_beginning_of_a_hash(path: Path, writer: apsw.Connection) -> None:
    put(writer, ("memory-dir-main", "a.md", "7b154d99", 1), ("memory-dir-main", "b.md", "7b2", 1))
    assert found(path, "#7b154d") == ("memory-dir-main", "a.md")
    assert found(path, "7B154D99") == ("memory-dir-main", "a.md")
    assert found(path, "7b2") == ("memory-dir-main", "b.md")
    for nonsense in ("#", "", "%", "7b_", "zz"):
        assert found(path, nonsense) is None


def test_of_several_files_with_one_text_the_hints_decide(path: Path, writer: apsw.Connection) -> None:
    put(
        writer,
        ("foreign", "x.md", "ab12cd", 1),
        ("memory-dir-main", "old/x.md", "ab12cd", 1),
        ("memory-dir-main", "y.md", "ab12cd", 1),
        ("sessions-main", "z.md", "ab12cd", 1),
    )
    assert found(path, "ab12cd") == ("memory-dir-main", "old/x.md")
    assert found(path, "ab12cd", collection="sessions-main") == ("sessions-main", "z.md")
    assert found(path, "ab12cd", file="y.md") == ("memory-dir-main", "y.md")
    assert found(path, "ab12cd", file="x.md") == ("memory-dir-main", "old/x.md")
    assert found(path, "ab12cd", collection="memory-dir-main", file="y.md") == ("memory-dir-main", "y.md")
    assert found(path, "ab12cd", collection="foreign", file="nowhere.md") == ("memory-dir-main", "old/x.md")


def test_a_document_of_no_collection_of_ours_is_not_found(path: Path, writer: apsw.Connection) -> None:
    put(writer, ("foreign", "x.md", "ab12cd", 1))
    assert found(path, "ab12cd", collection="foreign") is None


def test_an_index_that_another_process_keeps_for_itself_is_busy(path: Path, writer: apsw.Connection) -> None:
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ProgramBusy):
        QmdDatabase(str(path), busy_ms=1).counts()


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


def test_the_real_index_is_understood_also_while_another_process_writes_to_it(
    agent_home: AgentHome, qmd: Program
) -> None:
    agent_home.note("memory/deep/tea.md", "# Tea\nassam in the morning\n")
    agent_home.qmd(includeDefaultMemory=False, paths=[{"path": "memory", "name": "notes"}])
    agent_home.collections(qmd).ensure()
    db = apsw.Connection(agent_home.database.path)
    db.execute("BEGIN IMMEDIATE; INSERT INTO store_config VALUES('x', 'y')")
    try:
        database = agent_home.database
        assert database.collections() == (
            ListedCollection("notes-main", str(agent_home.workspace / "memory"), "**/*.md"),
        )
        assert database.counts() == {"notes-main": 1}
        assert database.count_unembedded() == 1
        row = database.document("notes-main", "deep/tea.md")
        assert row
        assert row.title == "Tea"
        assert database.by_docid(row.hash[:6], {"notes-main"}) == row
    finally:
        db.close()
