"""Calls that run in other threads: in a pool, within a deadline, or one call for all.

The threads of an executor are joined when the interpreter exits, so one call that hangs would keep the process alive.
Daemon threads do not. ``concurrent.futures`` loads ``logging``, a tenth of the time of a command that indexes one note,
so it is imported only where a thread is started.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from mdrecall.errors import EmbedderError, InputRefused, message_with_hint
from mdrecall.types.sync import Stop, never

if TYPE_CHECKING:
    from concurrent.futures import Future
    from queue import SimpleQueue

_T = TypeVar("_T")
_Request = TypeVar("_Request")
_Result = TypeVar("_Result")
#: A call, and the future that receives its outcome.
_Job: TypeAlias = "tuple[Callable[[], Any], Future[Any]]"

# As many threads of a pool wait for the next job; each holds a connection to the index, with its memory.
_MAX_IDLE = 4
# After a call timed out or failed, later searches do not make another one for this long: each would wait in vain.
_RETRY_AFTER_S = 30.0
# How often a waiting caller checks its own stop condition, which nobody announces.
_STOP_CHECK_S = 0.1


def run_in_background(act: Callable[[], _T], *, name: str) -> Future[_T]:
    """Start a call in a daemon thread and return the future that receives its result or exception."""
    from concurrent.futures import Future

    job: _Job = act, Future()
    threading.Thread(target=lambda: _run(job)(), name=name, daemon=True).start()
    return job[1]


class DaemonPool:
    """Threads that start when they are needed and are reused, the last one first, because its caches are warm."""

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
        from concurrent.futures import Future
        from queue import SimpleQueue

        outcome: Future[_T] = Future()
        with self._lock:
            self._in_progress[outcome] = 0
            if self._idle:
                self._idle.pop().put((act, outcome))
                return outcome
            if self._max_threads is not None and self._count >= self._max_threads:
                self._waiting.append((act, outcome))
                return outcome
            self._count += 1
        inbox: SimpleQueue[_Job | None] = SimpleQueue()
        inbox.put((act, outcome))
        threading.Thread(target=self._work, args=(inbox,), name=self._name, daemon=True).start()
        return outcome

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
        from concurrent.futures import wait

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

    def _work(self, inbox: SimpleQueue[_Job | None]) -> None:
        while (job := inbox.get()) is not None:
            self._in_progress[job[1]] = threading.get_ident()
            publish = _run(job)
            with self._lock:
                # Before the outcome is published: code that waits for it must find this thread idle.
                self._in_progress.pop(job[1])
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
    act, outcome = job
    if not outcome.set_running_or_notify_cancel():
        return lambda: None
    try:
        result = act()
    except BaseException as error:
        failure = error
        return lambda: outcome.set_exception(failure)
    return lambda: outcome.set_result(result)


def wait_for(outcome: Future[_T], within_s: float | None) -> bool:
    """Wait for the end of a call; False if that takes too long."""
    from concurrent.futures import wait

    return bool(wait([outcome], timeout=within_s).done)


class Unavailable(Exception):
    """Something that a search could do without cannot be used at the moment; the message says why."""


class DeadlineCalls:
    """Makes calls to one part, each within a time limit. Safe to use from several threads."""

    def __init__(self, timeout_s: float, setting: str, *, rests: bool = False) -> None:
        """``setting`` is the name of the time limit, for messages. After a failure no call is made for a while if it
        ``rests``."""
        self._timeout_s = timeout_s
        self._setting = setting
        self._rests = rests
        self._hung_at: float | None = None
        self._failed_at: float | None = None
        self.failures = 0
        """Calls in a row that failed, although nothing was wrong with the input itself."""
        self.problem = ""

    def run(self, name: str, act: Callable[[], _T]) -> _T:
        """Return the result of a call to the part ``name``; raise ``Unavailable`` with the reason if that fails."""
        if self._rests and self._failed_at is not None and time.monotonic() - self._failed_at < _RETRY_AFTER_S:
            raise Unavailable(f"{self.problem} It is asked again half a minute after it failed.")
        try:
            result = self._run_in_thread(name, act)
        except (EmbedderError, Unavailable) as error:
            problem = message_with_hint(error) if isinstance(error, EmbedderError) else str(error)
            if not isinstance(error, InputRefused):
                self.problem, self.failures, self._failed_at = problem, self.failures + 1, time.monotonic()
            raise Unavailable(problem) from error
        self.failures, self._failed_at = 0, None
        return result

    def _run_in_thread(self, name: str, act: Callable[[], _T]) -> _T:
        if self._hung_at is not None and time.monotonic() - self._hung_at < _RETRY_AFTER_S:
            raise Unavailable(f"{name} has not answered an earlier query yet")
        future = run_in_background(act, name="mdrecall-embed-query")
        future.add_done_callback(self._forget_hang)
        if not wait_for(future, self._timeout_s):
            self._hung_at = time.monotonic()
            # It may have ended before that, and nothing would reset it.
            if future.done():
                self._hung_at = None
            hint = f"Check that it is up, or raise {self._setting}."
            raise Unavailable(f"{name} did not answer within {self._timeout_s:g} s. {hint}")
        error = future.exception()
        if error is None or isinstance(error, EmbedderError):
            return future.result()
        raise Unavailable(f"{name} failed: {error}") from error

    def _forget_hang(self, _: Future[_T]) -> None:
        self._hung_at = None


class _Flight(Generic[_Request, _Result]):
    """One run, its callers' requests, and its outcome."""

    def __init__(self, *, is_queued: bool) -> None:
        self.requests: list[_Request] = []
        self.is_queued = is_queued
        self.has_ended = False
        self.error: BaseException | None = None
        self.value: _Result | None = None

    def is_done(self) -> bool:
        return self.has_ended

    def result(self) -> _Result | None:
        """Return the result of a run that has ended, or raise its error."""
        if self.error is None:
            return self.value
        try:
            raise self.error
        finally:
            # The error's traceback holds this frame.
            del self


class SingleFlight(Generic[_Request, _Result]):
    """Concurrent callers share the run in progress; a caller that needs a fresh run is queued for the next one.

    All callers that queue before the next run begins share it, because it begins after they asked. An error of a run
    is raised in every caller that shares it, unless it concerns only the caller that made the run: an interruption
    (an exception that is not an ``Exception``) or a ``stopped`` error. The others then share another run.
    """

    def __init__(
        self, act: Callable[[Sequence[_Request], bool], _Result], *, stopped: type[Exception] | None = None
    ) -> None:
        """``act`` makes a run: it gets the requests that the run answers, first that of the caller that makes it, and
        True if another run was in progress when it was requested.

        ``stopped`` is the class of the error that ``act`` raises when its caller gives up, and that callers get when
        they stop waiting or this is closed. Without it a closed ``SingleFlight`` still makes the runs that callers
        wait for.
        """
        self._act = act
        self._stopped = stopped
        self._changed = threading.Condition()
        self._running: _Flight[_Request, _Result] | None = None
        self._next: _Flight[_Request, _Result] | None = None
        self._worker: threading.Thread | None = None
        self.is_closing = False
        self.callers = 0
        """The number of callers that make a run or wait for one."""

    @property
    def is_idle(self) -> bool:
        """True if no run is in progress or queued."""
        return self._running is None and self._next is None

    def run(
        self, request: _Request, *, fresh: bool = True, if_idle: bool = False, stop: Stop = never
    ) -> _Result | None:
        """Return the result of a run, made in this thread if no other thread makes one.

        With ``fresh`` the run begins after this call; otherwise the run in progress will do. With ``if_idle`` no
        run is requested while another is in progress, and the result is None.
        """
        while True:
            with self._changed:
                self.callers += 1
            flight = None
            try:
                flight, is_leader = self._board(request, fresh, if_idle, stop)
                if flight is None:
                    return None
                if is_leader:
                    self._lead(flight, request)
                elif self._is_leaders_own(flight.error):
                    if self._stopped and (stop() or self.is_closing):
                        raise self._stopped("The run was stopped, and this caller no longer waits for another.")
                    continue
                return flight.result()
            finally:
                with self._changed:
                    self.callers -= 1
                # An error's traceback holds this frame; holding the error in turn would keep all of it in memory.
                del flight

    def start(self, request: _Request, *, within_s: float = 0.0) -> _Result | None:
        """Make a run in the background; return its result if it ends within ``within_s``, else None."""
        with self._changed:
            flight = self._join(request, fresh=True)
            self._work_in_background()
            self._changed.wait_for(flight.is_done, within_s)
        try:
            return flight.result() if flight.has_ended else None
        finally:
            del flight

    def close(self, within_s: float = 0.0) -> bool:
        """Start no more background runs and wait for the run in progress; True if it has ended."""
        with self._changed:
            self.is_closing = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._running is None, within_s)

    def _board(
        self, request: _Request, fresh: bool, if_idle: bool, stop: Stop
    ) -> tuple[_Flight[_Request, _Result] | None, bool]:
        """Wait until a flight has ended or this caller may lead it; no flight if it may not wait."""
        with self._changed:
            if self._stopped and self.is_closing:
                raise self._stopped("It is closed: no more runs are started.")
            if if_idle and not self.is_idle:
                return None, False
            flight = self._join(request, fresh=fresh)
            while not flight.has_ended:
                if self._running is None and self._next is flight:
                    self._running, self._next = flight, None
                    return flight, True
                if self._stopped and (stop() or (self.is_closing and self._next is flight)):
                    self._leave(flight, request)
                    raise self._stopped("The caller stopped waiting for the run.")
                self._changed.wait(None if stop is never else _STOP_CHECK_S)
            return flight, False

    def _join(self, request: _Request, *, fresh: bool) -> _Flight[_Request, _Result]:
        if self._running is not None and not fresh:
            return self._running
        if self._next is None:
            self._next = _Flight(is_queued=self._running is not None)
        self._next.requests.append(request)
        return self._next

    def _leave(self, flight: _Flight[_Request, _Result], request: _Request) -> None:
        if self._next is flight:
            flight.requests.remove(request)
            if not flight.requests:
                self._next = None

    def _is_leaders_own(self, error: BaseException | None) -> bool:
        """True if a run failed only for the caller that made it: it was interrupted or gave up."""
        return error is not None and (not isinstance(error, Exception) or isinstance(error, self._stopped or ()))

    def _lead(self, flight: _Flight[_Request, _Result], own: _Request | None = None) -> None:
        if own is not None:
            with self._changed:
                flight.requests.remove(own)
                flight.requests.insert(0, own)
        try:
            flight.value = self._act(flight.requests, flight.is_queued)
        except BaseException as error:
            flight.error = error
        with self._changed:
            flight.has_ended = True
            self._running = None
            self._changed.notify_all()
        del flight

    def _work_in_background(self) -> None:
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(target=self._work, name="mdrecall-sync", daemon=True)
            self._worker.start()
        self._changed.notify_all()

    def _work(self) -> None:
        """Make the queued runs that no caller makes, until none is left."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.is_closing or self._next is None or self._running is None)
                if self.is_closing or self._next is None:
                    self._worker = None
                    return
                flight = self._running = self._next
                self._next = None
            self._lead(flight)
            del flight
