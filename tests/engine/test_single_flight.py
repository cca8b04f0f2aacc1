"""The Syncer, with runs that end when the test lets them."""

import threading
from collections.abc import Callable, Iterator

import pytest

from mdrecall.engine.indexer import FileChanges
from mdrecall.engine.single_flight import Request, Run, Syncer
from mdrecall.errors import StoreBusy
from mdrecall.types import Listing, Progress, SyncReport
from tests.processes import PATIENCE_S, until

PLAIN = Request()


class Work:
    """What runs do: wait until they are let go, then report their number, or fail."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.threads: list[threading.Thread] = []
        self.failing: dict[int, BaseException] = {}
        self.under_way = 0
        self.most_at_once = 0
        self._count = threading.Lock()
        self._gate = threading.Semaphore(0)
        self._is_open = True

    def __call__(self, request: Request) -> SyncReport:
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


class Asking:
    """A thread that asks for something, and what it got."""

    def __init__(self, ask: Callable[[], SyncReport | None]) -> None:
        self.answer: SyncReport | None = None
        self.error: BaseException | None = None
        self._ask = ask
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.answer = self._ask()
        except BaseException as error:
            self.error = error

    def join(self) -> "Asking":
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self

    @property
    def number(self) -> int:
        """The number of the run that answered."""
        self.join()
        assert self.answer
        return self.answer.added


class Bench:
    """A syncer, its work, and those who ask it."""

    def __init__(self) -> None:
        self.work = Work()
        self.syncer = Syncer(self.work)
        self._asked: list[Asking] = []

    def ask(self, request: Request = PLAIN, *, within_s: float | None = None) -> Asking:
        """Ask for a run in a thread of its own; it has joined one, or begun it, when this returns."""
        runs, waiting = len(self.work.requests), self.waiting()
        self._asked.append(Asking(lambda: self.syncer.run(request, within_s=within_s)))
        assert until(lambda: len(self.work.requests) > runs or self.waiting() > waiting)
        return self._asked[-1]

    def waiting(self) -> int:
        run = self.syncer._next
        return len(run.requests) if run else 0

    def end(self) -> None:
        self.work.let_go(1000)
        self.syncer.close(PATIENCE_S)
        for asking in self._asked:
            asking.join()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.end()


def look(name: str) -> FileChanges:
    return FileChanges({}, Listing({}, (), (), {}, (name,)), [], [])


def test_a_run_is_made_by_the_thread_that_asks_with_what_it_asks(bench: Bench) -> None:
    looks = [look("a")]
    assert bench.syncer.run(Request(force=True, looks=looks, wait_s=2.5)) == SyncReport(added=1)
    (request,) = bench.work.requests
    assert (request.force, request.looks, request.wait_s, request.progress) == (True, looks, 2.5, None)
    assert not request.stop()
    assert bench.work.threads == [threading.current_thread()]
    assert not bench.syncer.is_busy
    assert bench.syncer.run(Request()) == SyncReport(added=2)
    assert not bench.work.requests[1].force


def test_one_run_is_made_at_a_time_and_every_one_begins_after_it_was_asked_for(bench: Bench) -> None:
    wrong: list[tuple[int, int]] = []

    def ask() -> None:
        for _ in range(50):
            before = len(bench.work.requests)
            report = bench.syncer.run(Request())
            if report is None or report.added <= before:
                wrong.append((before, report.added if report else 0))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert bench.work.most_at_once == 1
    assert not bench.syncer.is_busy


def test_whoever_asks_during_a_run_gets_another_one_afterwards(bench: Bench) -> None:
    bench.work.hold()
    first = bench.ask()
    second = bench.ask()
    assert len(bench.work.requests) == 1
    assert bench.syncer.is_busy
    bench.work.let_go()
    assert first.number == 1
    assert until(lambda: len(bench.work.requests) == 2)
    assert second.answer is None
    bench.work.let_go()
    assert second.number == 2
    assert not bench.syncer.is_busy


def test_all_who_ask_during_a_run_share_the_next_one(bench: Bench) -> None:
    bench.work.hold()
    first = bench.ask()
    others = [bench.ask() for _ in range(5)]
    bench.work.let_go(2)
    assert first.number == 1
    assert [other.number for other in others] == [2] * 5
    assert len(bench.work.requests) == 2


@pytest.mark.parametrize("place", [0, 1, 2])
def test_nothing_that_one_of_them_wants_is_dropped(bench: Bench, place: int) -> None:
    bench.work.hold()
    looks = [look("a")]
    requests = [Request(looks=looks, wait_s=1.0)] * 3
    requests[place] = Request(force=True, wait_s=3.0)
    askings = [bench.ask(), *(bench.ask(request) for request in requests)]
    bench.work.let_go(2)
    assert [asking.number for asking in askings] == [1, 2, 2, 2]
    made = bench.work.requests[1]
    assert (made.force, made.looks, made.wait_s) == (True, None, 3.0)
    assert not bench.work.requests[0].force


def test_of_several_looks_none_is_used_because_none_is_known_to_be_the_newest() -> None:
    run = Run()
    run.requests = [Request(looks=[look("a")], wait_s=1.0)]
    assert run.merged(lambda: False).looks == [look("a")]
    run.requests.append(Request(looks=[look("b")], wait_s=2.0))
    assert run.merged(lambda: False).looks is None
    assert run.merged(lambda: False).wait_s == 2.0
    run.requests.append(Request())
    assert run.merged(lambda: False).looks is None
    assert run.merged(lambda: False).wait_s is None


def test_a_force_whose_asker_waits_no_longer_is_not_dropped(bench: Bench) -> None:
    bench.work.hold()
    bench.ask()
    assert bench.syncer.run(Request(force=True), within_s=0) is None
    assert bench.syncer.start(Request()) is None
    second = bench.ask()
    bench.work.let_go(2)
    assert second.number == 2
    assert [request.force for request in bench.work.requests] == [False, True]


def test_progress_reaches_everyone(bench: Bench) -> None:
    bench.work.hold()
    seen: dict[str, list[Progress]] = {"a": [], "b": [], "first": []}
    bench.ask(Request(progress=seen["first"].append))
    bench.ask(Request(progress=seen["a"].append))
    bench.ask(Request())
    bench.ask(Request(progress=seen["b"].append))
    bench.work.let_go()
    assert until(lambda: len(bench.work.requests) == 2)
    for completed in range(2):
        progress = bench.work.requests[1].progress
        assert progress
        progress(Progress(completed, 2, "memory/a.md"))
    expected = [Progress(0, 2, "memory/a.md"), Progress(1, 2, "memory/a.md")]
    assert seen == {"a": expected, "b": expected, "first": []}


def test_a_run_stops_only_when_all_want_it_to(bench: Bench) -> None:
    bench.work.hold()
    wishes = {"a": False, "b": False}
    bench.ask(Request(stop=lambda: False))
    bench.ask(Request(stop=lambda: wishes["a"]))
    bench.ask(Request(stop=lambda: wishes["b"]))
    bench.work.let_go()
    assert until(lambda: len(bench.work.requests) == 2)
    stop = bench.work.requests[1].stop
    assert not stop()
    wishes["a"] = True
    assert not stop()
    wishes["b"] = True
    assert stop()


def test_one_who_never_wants_to_stop_keeps_the_run_going(bench: Bench) -> None:
    bench.work.hold()
    bench.ask()
    bench.ask(Request(stop=lambda: True))
    bench.ask(Request())
    bench.work.let_go()
    assert until(lambda: len(bench.work.requests) == 2)
    assert not bench.work.requests[1].stop()


def test_a_run_that_fails_fails_for_all_who_asked_and_the_next_one_works(bench: Bench) -> None:
    bench.work.hold()
    bench.work.failing[2] = StoreBusy("somebody writes")
    first = bench.ask()
    others = [bench.ask() for _ in range(3)]
    bench.work.let_go()
    assert until(lambda: len(bench.work.requests) == 2)
    late = bench.ask()
    bench.work.let_go(2)
    assert first.number == 1
    assert [other.join().error for other in others] == [bench.work.failing[2]] * 3
    assert late.number == 3
    assert not bench.syncer.is_busy


def test_an_error_that_is_not_ours_does_not_block_the_next_run(bench: Bench) -> None:
    bench.work.failing[1] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        bench.syncer.run(Request())
    assert bench.syncer.run(Request()) == SyncReport(added=2)


def test_a_run_in_the_background_is_not_waited_for(bench: Bench) -> None:
    bench.work.hold()
    assert bench.syncer.start(Request(force=True)) is None
    assert until(lambda: len(bench.work.requests) == 1)
    assert bench.work.requests[0].force
    assert bench.work.threads != [threading.current_thread()]
    assert bench.syncer.start(Request(), within_s=0.05) is None
    bench.work.let_go(2)
    assert until(lambda: len(bench.work.requests) == 2 and not bench.syncer.is_busy)
    assert len(set(bench.work.threads)) == 1


def test_a_run_in_the_background_is_waited_for_as_long_as_wished(bench: Bench) -> None:
    assert bench.syncer.start(Request(), within_s=PATIENCE_S) == SyncReport(added=1)
    bench.work.hold()
    second = Asking(lambda: bench.syncer.start(Request(), within_s=PATIENCE_S))
    assert until(lambda: len(bench.work.requests) == 2)
    assert second.answer is None
    bench.work.let_go()
    assert second.number == 2


def test_a_failure_in_the_background_is_told_to_those_who_wait_and_ends_nothing(bench: Bench) -> None:
    bench.work.failing = {1: StoreBusy("somebody writes"), 2: StoreBusy("still")}
    with pytest.raises(StoreBusy, match="somebody"):
        bench.syncer.start(Request(), within_s=PATIENCE_S)
    assert bench.syncer.start(Request()) is None
    assert until(lambda: len(bench.work.requests) == 2 and not bench.syncer.is_busy)
    assert bench.syncer.start(Request(), within_s=PATIENCE_S) == SyncReport(added=3)


def test_one_who_waits_for_another_run_no_longer_gets_his_own_later(bench: Bench) -> None:
    bench.work.hold()
    first = bench.ask()
    assert bench.syncer.run(Request(force=True), within_s=0.02) is None
    assert len(bench.work.requests) == 1
    bench.work.let_go()
    assert first.number == 1
    assert until(lambda: len(bench.work.requests) == 2)
    assert bench.work.requests[1].force
    bench.work.let_go()
    assert until(lambda: not bench.syncer.is_busy)


def test_within_bounds_only_the_waiting_for_others_not_the_own_run(bench: Bench) -> None:
    bench.work.hold()
    asking = bench.ask(within_s=0)
    bench.work.let_go()
    assert asking.number == 1


def test_closing_ends_the_run_under_way_and_whoever_waits(bench: Bench) -> None:
    bench.work.hold()
    first = bench.ask()
    second = bench.ask()
    bench.syncer.close(PATIENCE_S)
    assert first.number == 1
    assert bench.work.requests[0].stop()
    assert second.number == 2
    assert bench.work.requests[1].stop()
    assert bench.work.under_way == 0


def test_closing_ends_a_run_in_the_background_and_makes_no_more(bench: Bench) -> None:
    bench.work.hold()
    bench.syncer.start(Request())
    assert until(lambda: len(bench.work.requests) == 1)
    bench.syncer.start(Request())
    bench.syncer.close(PATIENCE_S)
    assert bench.work.under_way == 0
    thread = bench.work.threads[0]
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(bench.work.requests) == 1
    bench.syncer.close(PATIENCE_S)


def test_closing_does_not_wait_for_ever_for_a_run_that_does_not_listen() -> None:
    gate, begun = threading.Event(), threading.Event()

    def deaf(request: Request) -> SyncReport:
        begun.set()
        gate.wait(PATIENCE_S)
        return SyncReport()

    syncer = Syncer(deaf)
    syncer.start(Request())
    assert begun.wait(PATIENCE_S)
    syncer.close(0.02)
    assert syncer.is_busy
    gate.set()
    assert until(lambda: not syncer.is_busy)
