"""A database of another program is read whole or not at all, and nothing is written to it."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from mdrecall.errors import FileMissing, FileUnreadable, NotAFile
from mdrecall.sessions import foreign_database
from mdrecall.sessions.foreign_database import open_snapshot, read_snapshot


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a b?#%.sqlite"
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1)").fetchall()
    return path


def write(file: Path, number: int) -> None:
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute("INSERT INTO t VALUES (?)", (number,))


def read(connection: apsw.Connection) -> list[Any]:
    return [row[0] for row in connection.execute("SELECT n FROM t")]


def test_a_database_that_its_owner_changes_meanwhile_is_read_again(file: Path) -> None:
    found: list[list[Any]] = []

    def work(connection: apsw.Connection) -> list[Any]:
        found.append(read(connection))
        if len(found) == 1:
            write(file, 2)
        return found[-1]

    assert sorted(path.name for path in file.parent.iterdir()) == [file.name]
    assert read_snapshot(str(file), work) == [1, 2]
    assert found == [[1], [1, 2]]


def test_a_database_that_changes_all_the_time_is_told(file: Path) -> None:
    def work(connection: apsw.Connection) -> None:
        write(file, 2)

    with pytest.raises(FileUnreadable, match="changes faster"):
        read_snapshot(str(file), work)


def test_an_endless_view_ends_with_an_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_database, "_MAX_STEPS", 3_000_000)
    endless = "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more) SELECT n FROM more"
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute(f"DROP TABLE t; CREATE VIEW t AS {endless}")
    with pytest.raises(FileUnreadable, match="takes too long to read"):
        read_snapshot(str(file), lambda connection: sum(row[0] for row in connection.execute("SELECT n FROM t")))


def test_beside_an_open_log_one_snapshot_is_read(file: Path) -> None:
    with closing(apsw.Connection(str(file))) as owner:
        owner.execute("INSERT INTO t VALUES (2)")

        def work(connection: apsw.Connection) -> list[Any]:
            before = read(connection)
            owner.execute("INSERT INTO t VALUES (3)")
            assert read(connection) == before
            return before

        assert read_snapshot(str(file), work) == [1, 2]
        assert read_snapshot(str(file), read) == [1, 2, 3]


@pytest.mark.parametrize("has_log", [False, True])
def test_nothing_can_be_written(file: Path, has_log: bool) -> None:
    with closing(apsw.Connection(str(file))) as owner:
        if has_log:
            owner.execute("INSERT INTO t VALUES (2)")
        for statement in ("INSERT INTO t VALUES (3)", "CREATE TABLE u (n)", "PRAGMA user_version = 7", "DELETE FROM t"):
            with pytest.raises(FileUnreadable), open_snapshot(str(file)) as connection:
                connection.execute(statement)
        assert 3 not in read_snapshot(str(file), read)


def test_what_is_no_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database" * 1000)
    for name, kind in (("none", FileMissing), ("", NotAFile), ("text", FileUnreadable)):
        with pytest.raises(kind, match=str(tmp_path)):
            read_snapshot(str(tmp_path / name), read)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("has_log", [False, True])
def test_in_a_folder_that_is_read_only_a_database_without_changes_in_its_log_is_read(file: Path, has_log: bool) -> None:
    if has_log:
        file.with_name(f"{file.name}-wal").touch()
    names = sorted(path.name for path in file.parent.iterdir())
    file.parent.chmod(0o500)
    try:
        assert read_snapshot(str(file), read) == [1]
        assert sorted(path.name for path in file.parent.iterdir()) == names
    finally:
        file.parent.chmod(0o700)
