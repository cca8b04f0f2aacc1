"""Calls that run in daemon threads and hand their outcome to a future, alone or as a hedge for one that is late.

The threads of an executor are joined when the interpreter exits, so one call that hangs would keep the process alive.
Daemon threads do not.
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from mdrecall.errors import ProgramTimedOut

_T = TypeVar("_T")


def run_in_background(act: Callable[[], _T], *, name: str) -> "Future[_T]":
    """Start a call in a daemon thread and return the future that receives its result or exception."""
    job: _Job = _Job(act, Future())
    threading.Thread(target=lambda: _run(job)(), name=name, daemon=True).start()
    return job.outcome


class _Job(NamedTuple):
    act: Callable[[], Any]
    outcome: Future[Any]


# As many threads wait for the next job; each holds a connection to the index, with its memory. The others end.
_MAX_IDLE = 4


class DaemonPool:
    """Threads that are started when needed and used again; the one used last comes first, as its caches are warm."""

    def __init__(self, name: str, max_threads: int | None = None) -> None:
        self._name = name
        self._max_threads = max_threads
        self._lock = threading.Lock()
        self._count = 0
        self._idle: list[SimpleQueue[_Job | None]] = []
        self._waiting: deque[_Job] = deque()
        self._in_progress: dict[Future[Any], int] = {}
        self._is_released = False

    def submit(self, act: Callable[[], _T]) -> Future[_T]:
        """Run a job in a thread; it waits for one if ``max_threads`` are busy."""
        job = _Job(act, Future())
        with self._lock:
            self._in_progress[job.outcome] = 0
            if self._idle:
                self._idle.pop().put(job)
                return job.outcome
            if self._max_threads is not None and self._count >= self._max_threads:
                self._waiting.append(job)
                return job.outcome
            self._count += 1
        inbox: SimpleQueue[_Job | None] = SimpleQueue()
        inbox.put(job)
        threading.Thread(target=self._work, args=(inbox,), name=self._name, daemon=True).start()
        return job.outcome

    def start(self, act: Callable[[], None]) -> Future[None]:
        """Run a job whose result nobody reads; an error is reported as that of any thread is."""

        def report_errors() -> None:
            try:
                act()
            except BaseException:
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))

        return self.submit(report_errors)

    def drain(self, timeout_s: float) -> None:
        """Wait for the jobs in progress, except the one that calls this."""
        own = threading.get_ident()
        with self._lock:
            others = [outcome for outcome, thread in self._in_progress.items() if thread != own]
        wait(others, timeout=timeout_s)

    def release(self) -> None:
        """Let each thread end as soon as it has nothing to do."""
        with self._lock:
            self._is_released = True
            while self._idle:
                self._idle.pop().put(None)

    def _work(self, inbox: "SimpleQueue[_Job | None]") -> None:
        while (job := inbox.get()) is not None:
            self._in_progress[job.outcome] = threading.get_ident()
            publish = _run(job)
            with self._lock:
                # Before the outcome is published: code that waits for it must find this thread idle.
                self._in_progress.pop(job.outcome)
                if self._waiting:
                    inbox.put(self._waiting.popleft())
                elif self._is_released or len(self._idle) >= _MAX_IDLE:
                    self._count -= 1
                    inbox.put(None)
                else:
                    self._idle.append(inbox)
            publish()
            del job, publish


def _run(job: _Job) -> Callable[[], None]:
    """Run a job and return what publishes its outcome."""
    if not job.outcome.set_running_or_notify_cancel():
        return lambda: None
    try:
        result = job.act()
    except BaseException as error:
        failure = error
        return lambda: job.outcome.set_exception(failure)
    return lambda: job.outcome.set_result(result)


class HedgedCall(Generic[_T]):
    """Two calls for one answer. The second starts when the first takes long, or when its result is needed."""

    def __init__(
        self, pool: DaemonPool, names: tuple[str, str], first: Callable[[], _T], second: Callable[[], _T]
    ) -> None:
        """``names`` are those of the two callees, for messages."""
        self._pool = pool
        self._names = names
        self._first = first
        self._second = second
        self._second_outcome: Future[_T] | None = None

    def wait_for_first(self, hedge_s: float, until: float | None) -> _T:
        """Return the result of the first call, and start the second after ``hedge_s`` seconds.

        Raise ``ProgramTimedOut`` when the monotonic clock reaches ``until``; the call goes on in its thread.
        """
        began = time.monotonic()
        outcome = self._pool.submit(self._first)
        hedge_at = began + hedge_s
        if not _wait(outcome, hedge_at if until is None else min(until, hedge_at)):
            self._start_second()
        return _wait_for_result(outcome, self._names[0], began, until)

    def wait_for_second(self, until: float | None) -> _T:
        """Return the result of the second call, made in this thread if it has not started and may take any time."""
        if until is None and self._second_outcome is None:
            return self._second()
        return _wait_for_result(self._start_second(), self._names[1], time.monotonic(), until)

    def _start_second(self) -> Future[_T]:
        if self._second_outcome is None:
            self._second_outcome = self._pool.submit(self._second)
        return self._second_outcome


def _wait_for_result(outcome: Future[_T], name: str, began: float, until: float | None) -> _T:
    if not _wait(outcome, until):
        raise ProgramTimedOut(f"{name} did not answer within {time.monotonic() - began:.1f} seconds.")
    return outcome.result()


def _wait(outcome: Future[_T], until: float | None) -> bool:
    timeout_s = None if until is None else max(0.0, until - time.monotonic())
    return bool(wait([outcome], timeout=timeout_s).done)
