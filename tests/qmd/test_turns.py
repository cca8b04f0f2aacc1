"""Who updates, who joins, and who waits for another update."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from mdrecall.errors import ProgramFailed, ProgramStopped
from mdrecall.qmd.turns import Turns
from mdrecall.types import Stop, never
from tests.qmd.place import PATIENCE_S, until


class Work:
    """Work that waits to be let go, and counts."""

    def __init__(self) -> None:
        self.turns: Turns[str] = Turns()
        self.pool = ThreadPoolExecutor(8)
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.done: list[str] = []

    def _do(self, name: str, stop: Stop) -> str:
        self.begun.release()
        while not self.go.acquire(timeout=0.01):
            if stop():
                raise ProgramStopped("stopped")
        self.done.append(name)
        if name == "fails":
            raise ProgramFailed("it failed")
        return name

    def ask(self, name: str, *, anew: bool = False, stop: Stop = never) -> Future[str]:
        def take() -> str:
            return self.turns.take(
                lambda: self._do(name, stop), lambda: self._do(f"{name}:queued", stop), anew=anew, stop=stop
            )

        return self.pool.submit(take)

    def wait_until_begun(self) -> None:
        assert self.begun.acquire(timeout=PATIENCE_S)


@pytest.fixture
def work() -> Work:
    return Work()


def test_who_comes_while_it_is_done_joins_it(work: Work) -> None:
    asked = [work.ask("first")]
    work.wait_until_begun()
    asked += [work.ask("second"), work.ask("third")]
    until(lambda: work.turns.asking == 3)
    work.go.release()
    assert [each.result(PATIENCE_S) for each in asked] == ["first"] * 3
    assert work.done == ["first"]
    assert work.turns.idle()


def test_who_needs_it_done_anew_waits_and_all_such_are_served_at_once(work: Work) -> None:
    first = work.ask("first")
    work.wait_until_begun()
    asked = [work.ask("other", anew=True) for _ in range(3)]
    until(lambda: work.turns.asking == 4)
    work.go.release(2)
    assert first.result(PATIENCE_S) == "first"
    assert [each.result(PATIENCE_S) for each in asked] == ["other:queued"] * 3
    assert work.done == ["first", "other:queued"]
    assert work.turns.idle()


def test_a_failure_is_everybodys(work: Work) -> None:
    asked = [work.ask("fails")]
    work.wait_until_begun()
    asked.append(work.ask("joins"))
    until(lambda: work.turns.asking == 2)
    work.go.release()
    for each in asked:
        with pytest.raises(ProgramFailed):
            each.result(PATIENCE_S)
    assert work.done == ["fails"]
    assert work.turns.idle()


def test_when_who_does_it_gives_up_one_who_joined_does_it(work: Work) -> None:
    given_up = threading.Event()
    first = work.ask("first", stop=given_up.is_set)
    work.wait_until_begun()
    second = work.ask("second")
    until(lambda: work.turns.asking == 2)
    given_up.set()
    with pytest.raises(ProgramStopped):
        first.result(PATIENCE_S)
    work.wait_until_begun()
    work.go.release()
    assert second.result(PATIENCE_S) == "second"


def test_who_waits_can_stop_waiting_without_ending_the_work(work: Work) -> None:
    first = work.ask("first")
    work.wait_until_begun()
    for anew in (False, True):
        with pytest.raises(ProgramStopped):
            work.ask("impatient", anew=anew, stop=lambda: True).result(PATIENCE_S)
    work.go.release()
    assert first.result(PATIENCE_S) == "first"
    assert work.turns.idle()


def test_once_closed_nothing_begins_and_what_waits_is_dropped(work: Work) -> None:
    first = work.ask("first")
    work.wait_until_begun()
    second = work.ask("second", anew=True)
    until(lambda: work.turns.asking == 2)
    work.turns.close()
    with pytest.raises(ProgramStopped):
        second.result(PATIENCE_S)
    assert not work.turns.drain(0)
    work.go.release()
    assert first.result(PATIENCE_S) == "first"
    assert work.turns.drain(PATIENCE_S)
    with pytest.raises(ProgramStopped):
        work.ask("third").result(PATIENCE_S)
    assert work.done == ["first"]
