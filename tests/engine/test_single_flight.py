"""SingleFlight, with runs that end when the test lets them."""

import gc
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pytest

from mdrecall.engine.background import SingleFlight
from mdrecall.engine.indexer import FileChanges
from mdrecall.engine.sync_run import SyncRequest, merge_requests
from mdrecall.errors import ProgramFailed, ProgramStopped, StoreBusy
from mdrecall.types.documents import Listing
from mdrecall.types.sync import Stop, SyncReport, never
from tests.processes import PATIENCE_S, until

PLAIN = SyncRequest()


class Work:
    """What runs do: wait until they are let go, then report their number, or fail."""

    def __init__(self) -> None:
        self.requests: list[SyncRequest] = []
        self.threads: list[threading.Thread] = []
        self.failing: dict[int, BaseException] = {}
        self.under_way = 0
        self.most_at_once = 0
        self._count = threading.Lock()
        self._gate = threading.Semaphore(0)
        self._is_open = True

    def __call__(self, request: SyncRequest) -> SyncReport:
        with self._count:
            self.requests.append(request)
            self.threads.append(threading.current_thread())
            number = len(self.requests)
            self.under_way += 1
            self.most_at_once = max(self.most_at_once, self.under_way)
        if not self._is_open:
            until(lambda: self._gate.acquire(blocking=False) or request.stop())
        with self._count:
            self.under_way -= 1
        if number in self.failing:
            raise self.failing[number]
        return SyncReport(added=number)

    def hold(self) -> None:
        """From now on a run ends only when it is let go, or stopped."""
        self._is_open = False

    def let_go(self, runs: int = 1) -> None:
        self._gate.release(runs)


class Bench:
    """A SingleFlight of syncs, its work, and the threads that call it."""

    def __init__(self) -> None:
        self.work = Work()
        self.flight = SingleFlight(self._run)
        self._pool = ThreadPoolExecutor(8)

    def ask(self, request: SyncRequest = PLAIN) -> "Future[SyncReport | None]":
        """Ask for a run in a thread of its own; it has joined one, or begun it, when this returns."""
        runs, waiting = len(self.work.requests), self.waiting()
        asked = self._pool.submit(self.flight.run, request)
        assert until(lambda: len(self.work.requests) > runs or self.waiting() > waiting)
        return asked

    def waiting(self) -> int:
        queued = self.flight._next
        return len(queued.requests) if queued else 0

    def _run(self, requests: Sequence[SyncRequest], is_queued: bool) -> SyncReport:
        return self.work(merge_requests(requests, lambda: self.flight.is_closing))

    def end(self) -> None:
        self.work.let_go(1000)
        self.flight.close(PATIENCE_S)
        self._pool.shutdown()


def number_of(asked: "Future[SyncReport | None]") -> int:
    """Return the number of the run that answered."""
    report = asked.result(PATIENCE_S)
    assert report
    return report.added


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.end()


def look(name: str) -> FileChanges:
    return FileChanges({}, Listing({}, (), (), {}, (name,)), [], [])


def test_a_run_is_made_by_the_thread_that_asks_with_what_it_asks(bench: Bench) -> None:
    changes = [look("a")]
    assert bench.flight.run(SyncRequest(force=True, changes=changes, wait_s=2.5)) == SyncReport(added=1)
    (request,) = bench.work.requests
    assert (request.force, request.changes, request.wait_s, request.progress) == (True, changes, 2.5, None)
    assert not request.stop()
    assert bench.work.threads == [threading.current_thread()]
    assert bench.flight.is_idle
    assert bench.flight.run(SyncRequest()) == SyncReport(added=2)
    assert not bench.work.requests[1].force


@pytest.mark.parametrize("place", [0, 1, 2])
def test_nothing_that_one_of_them_wants_is_dropped(bench: Bench, place: int) -> None:
    bench.work.hold()
    changes = [look("a")]
    requests = [SyncRequest(changes=changes, wait_s=1.0)] * 3
    requests[place] = SyncRequest(force=True, wait_s=3.0)
    askings = [bench.ask(), *(bench.ask(request) for request in requests)]
    bench.work.let_go(2)
    assert [number_of(asking) for asking in askings] == [1, 2, 2, 2]
    made = bench.work.requests[1]
    assert (made.force, made.changes, made.wait_s) == (True, None, 3.0)
    assert not bench.work.requests[0].force


def test_a_run_that_fails_fails_for_all_who_asked_and_the_next_one_works(bench: Bench) -> None:
    bench.work.hold()
    bench.work.failing[2] = StoreBusy("somebody writes")
    first = bench.ask()
    others = [bench.ask() for _ in range(3)]
    bench.work.let_go()
    assert until(lambda: len(bench.work.requests) == 2)
    late = bench.ask()
    bench.work.let_go(2)
    assert number_of(first) == 1
    assert [other.exception(PATIENCE_S) for other in others] == [bench.work.failing[2]] * 3
    assert number_of(late) == 3
    assert bench.flight.is_idle


def test_a_run_in_the_background_is_not_waited_for(bench: Bench) -> None:
    bench.work.hold()
    assert bench.flight.start(SyncRequest(force=True)) is None
    assert until(lambda: len(bench.work.requests) == 1)
    assert bench.work.requests[0].force
    assert bench.work.threads != [threading.current_thread()]
    assert bench.flight.start(SyncRequest(), within_s=0.05) is None
    bench.work.let_go(2)
    assert until(lambda: len(bench.work.requests) == 2 and bench.flight.is_idle)
    assert len(set(bench.work.threads)) == 1


def test_a_failure_in_the_background_is_told_to_those_who_wait_and_ends_nothing(bench: Bench) -> None:
    bench.work.failing = {1: StoreBusy("somebody writes"), 2: StoreBusy("still")}
    with pytest.raises(StoreBusy, match="somebody"):
        bench.flight.start(SyncRequest(), within_s=PATIENCE_S)
    # On an idle machine it would be over before start looks whether it is.
    bench.work.hold()
    assert bench.flight.start(SyncRequest()) is None
    bench.work.let_go(2)
    assert until(lambda: len(bench.work.requests) == 2 and bench.flight.is_idle)
    assert bench.flight.start(SyncRequest(), within_s=PATIENCE_S) == SyncReport(added=3)


def test_one_who_waits_for_another_run_no_longer_gets_his_own_later(bench: Bench) -> None:
    bench.work.hold()
    first = bench.ask()
    assert bench.flight.start(SyncRequest(force=True), within_s=0.02) is None
    assert len(bench.work.requests) == 1
    bench.work.let_go()
    assert number_of(first) == 1
    assert until(lambda: len(bench.work.requests) == 2)
    assert bench.work.requests[1].force
    bench.work.let_go()
    assert until(lambda: bench.flight.is_idle)


def test_one_who_may_not_wait_makes_a_run_only_if_there_is_none(bench: Bench) -> None:
    assert bench.flight.run(SyncRequest(), if_idle=True) == SyncReport(added=1)
    bench.work.hold()
    second = bench.ask()
    assert bench.flight.run(SyncRequest(force=True), if_idle=True) is None
    assert bench.waiting() == 0
    bench.work.let_go()
    assert number_of(second) == 2


def test_closing_ends_the_run_under_way_and_whoever_waits(bench: Bench) -> None:
    bench.work.hold()
    first = bench.ask()
    second = bench.ask()
    bench.flight.close(PATIENCE_S)
    assert number_of(first) == 1
    assert bench.work.requests[0].stop()
    assert number_of(second) == 2
    assert bench.work.requests[1].stop()
    assert bench.work.under_way == 0


def test_closing_ends_a_run_in_the_background_and_makes_no_more(bench: Bench) -> None:
    bench.work.hold()
    bench.flight.start(SyncRequest())
    assert until(lambda: len(bench.work.requests) == 1)
    bench.flight.start(SyncRequest())
    bench.flight.close(PATIENCE_S)
    assert bench.work.under_way == 0
    thread = bench.work.threads[0]
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(bench.work.requests) == 1
    bench.flight.close(PATIENCE_S)


def test_closing_does_not_wait_for_ever_for_a_run_that_does_not_listen() -> None:
    gate, begun = threading.Event(), threading.Event()

    def deaf(requests: Sequence[str], is_queued: bool) -> str:
        begun.set()
        gate.wait(PATIENCE_S)
        return "done"

    flight = SingleFlight(deaf)
    flight.start("anything")
    assert begun.wait(PATIENCE_S)
    assert not flight.close(0.02)
    assert not flight.is_idle
    gate.set()
    assert until(lambda: flight.is_idle)


def test_a_caller_that_was_interrupted_does_not_fail_the_others(bench: Bench) -> None:
    bench.work.hold()
    bench.work.failing[2] = KeyboardInterrupt()
    first = bench.ask()
    others = [bench.ask() for _ in range(2)]
    bench.work.let_go(3)
    assert number_of(first) == 1
    assert until(lambda: len(bench.work.requests) == 3)
    errors = [other.exception(PATIENCE_S) for other in others]
    assert [type(error) for error in errors if error] == [KeyboardInterrupt]
    assert [number_of(other) for other, error in zip(others, errors, strict=True) if not error] == [3]


def test_a_failed_run_is_not_kept_in_memory_by_its_error() -> None:
    class Big:
        """What a run holds on to."""

    def fail(requests: Sequence[str], is_queued: bool) -> str:
        big = Big()
        gone.append(weakref.ref(big))
        raise StoreBusy("somebody writes")

    gone: list[weakref.ref[Big]] = []
    flight = SingleFlight(fail)
    gc.disable()
    try:
        with suppress(StoreBusy):
            flight.run("anything")
        with suppress(StoreBusy):
            flight.start("anything", within_s=PATIENCE_S)
        assert until(lambda: flight.is_idle)
        assert [found() for found in gone] == [None, None]
    finally:
        gc.enable()


class Updates:
    """Updates that callers join or queue for, each made with its caller's name and stopped by its caller."""

    def __init__(self) -> None:
        self.flight: SingleFlight[tuple[str, Stop], str] = SingleFlight(self._run, stopped=ProgramStopped)
        self.pool = ThreadPoolExecutor(8)
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.done: list[str] = []

    def _run(self, requests: Sequence[tuple[str, Stop]], is_queued: bool) -> str:
        (name, stop), *_ = requests
        name += ":queued" * is_queued
        self.begun.release()
        while not self.go.acquire(timeout=0.01):
            if stop():
                raise ProgramStopped("stopped")
        self.done.append(name)
        if name == "fails":
            raise ProgramFailed("it failed")
        return name

    def ask(self, name: str, *, fresh: bool = False, stop: Stop = never) -> "Future[str | None]":
        return self.pool.submit(lambda: self.flight.run((name, stop), fresh=fresh, stop=stop))

    def wait_until_begun(self) -> None:
        assert self.begun.acquire(timeout=PATIENCE_S)


@pytest.fixture
def updates() -> Updates:
    return Updates()


def test_a_caller_that_needs_no_fresh_run_joins_the_one_in_progress(updates: Updates) -> None:
    asked = [updates.ask("first")]
    updates.wait_until_begun()
    asked += [updates.ask("second"), updates.ask("third")]
    assert until(lambda: updates.flight.callers == 3)
    updates.go.release()
    assert [each.result(PATIENCE_S) for each in asked] == ["first"] * 3
    assert updates.done == ["first"]
    assert updates.flight.is_idle


def test_callers_that_need_a_fresh_run_wait_and_are_all_served_by_the_next(updates: Updates) -> None:
    first = updates.ask("first")
    updates.wait_until_begun()
    asked = [updates.ask("other", fresh=True) for _ in range(3)]
    assert until(lambda: updates.flight.callers == 4)
    updates.go.release(2)
    assert first.result(PATIENCE_S) == "first"
    assert [each.result(PATIENCE_S) for each in asked] == ["other:queued"] * 3
    assert updates.done == ["first", "other:queued"]
    assert updates.flight.is_idle


def test_when_the_caller_that_makes_the_run_gives_up_one_that_joined_makes_another(updates: Updates) -> None:
    given_up = threading.Event()
    first = updates.ask("first", stop=given_up.is_set)
    updates.wait_until_begun()
    second = updates.ask("second")
    assert until(lambda: updates.flight.callers == 2)
    given_up.set()
    with pytest.raises(ProgramStopped):
        first.result(PATIENCE_S)
    updates.wait_until_begun()
    updates.go.release()
    assert second.result(PATIENCE_S) == "second"


def test_a_caller_can_stop_waiting_without_ending_the_run(updates: Updates) -> None:
    first = updates.ask("first")
    updates.wait_until_begun()
    for fresh in (False, True):
        with pytest.raises(ProgramStopped):
            updates.ask("impatient", fresh=fresh, stop=lambda: True).result(PATIENCE_S)
    updates.go.release()
    assert first.result(PATIENCE_S) == "first"
    assert updates.flight.is_idle


def test_a_caller_that_queues_behind_one_that_stops_waiting_gets_its_run(updates: Updates) -> None:
    given_up = threading.Event()
    first = updates.ask("first")
    updates.wait_until_begun()
    second = updates.ask("second", fresh=True, stop=given_up.is_set)
    assert until(lambda: updates.flight.callers == 2)
    third = updates.ask("third", fresh=True)
    assert until(lambda: updates.flight.callers == 3)
    given_up.set()
    with pytest.raises(ProgramStopped):
        second.result(PATIENCE_S)
    updates.go.release(2)
    assert first.result(PATIENCE_S) == "first"
    assert third.result(PATIENCE_S) == "third:queued"


def test_once_closed_nothing_begins_and_queued_callers_are_dropped(updates: Updates) -> None:
    first = updates.ask("first")
    updates.wait_until_begun()
    second = updates.ask("second", fresh=True)
    assert until(lambda: updates.flight.callers == 2)
    assert not updates.flight.close()
    with pytest.raises(ProgramStopped):
        second.result(PATIENCE_S)
    assert not updates.flight.close(0)
    updates.go.release()
    assert first.result(PATIENCE_S) == "first"
    assert updates.flight.close(PATIENCE_S)
    with pytest.raises(ProgramStopped):
        updates.ask("third").result(PATIENCE_S)
    assert updates.done == ["first"]
