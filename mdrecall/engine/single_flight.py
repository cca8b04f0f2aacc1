"""One run at a time: concurrent callers share a run, and no request is lost."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from mdrecall.named_tuple import NamedTuple
from mdrecall.types import Stop, never

_Request = TypeVar("_Request")
_Result = TypeVar("_Result")

# How often a waiting caller checks its own stop condition, which nobody announces.
_STOP_CHECK_S = 0.1


class Shared(NamedTuple, Generic[_Request]):
    """The requests that one run answers."""

    requests: Sequence[_Request]
    """The request of the caller that makes the run comes first. Callers that stop waiting are detached from it."""
    is_queued: bool
    """True if another run was in progress when this one was requested."""


class _Flight(Generic[_Request, _Result]):
    """One run, its callers' requests, and its outcome."""

    def __init__(self, *, is_queued: bool) -> None:
        self.requests: list[_Request] = []
        self.is_queued = is_queued
        # Not a `Future`, whose module loads `logging`: a tenth of the time of a command that indexes one note.
        self._is_done = False
        self.error: BaseException | None = None
        self._result: _Result | None = None

    def position(self, request: _Request) -> int:
        """Return the index of a request, or -1 if it joined after the run had begun."""
        return next((index for index, other in enumerate(self.requests) if other is request), -1)

    def end(self, result: _Result | None, error: BaseException | None) -> None:
        """Record the outcome."""
        self._is_done, self.error, self._result = True, error, result

    def is_done(self) -> bool:
        """True once there is an outcome."""
        return self._is_done

    def result(self) -> _Result | None:
        """Return the result of a run that has ended, or raise its error."""
        if self.error is None:
            return self._result
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
        self,
        act: Callable[[Shared[_Request]], _Result],
        *,
        stopped: type[Exception] | None = None,
        detach: Callable[[_Request], _Request] = lambda request: request,
    ) -> None:
        """``act`` makes a run.

        ``stopped`` is the class of the error that ``act`` raises when its caller gives up, and that callers get when
        they stop waiting or this is closed. Without it a closed ``SingleFlight`` still makes the runs that callers
        wait for, and ``act`` should end them soon. ``detach`` returns what remains of the request of a caller that no
        longer waits.
        """
        self._act = act
        self._stopped = stopped
        self._detach = detach
        self._changed = threading.Condition()
        self._running: _Flight[_Request, _Result] | None = None
        self._next: _Flight[_Request, _Result] | None = None
        self._worker: threading.Thread | None = None
        self._is_closing = False
        self._callers = 0

    @property
    def is_closing(self) -> bool:
        """True once ``close`` was called."""
        return self._is_closing

    @property
    def is_idle(self) -> bool:
        """True if no run is in progress or queued."""
        return self._running is None and self._next is None

    @property
    def callers(self) -> int:
        """The number of callers that make a run or wait for one."""
        return self._callers

    def run(
        self, request: _Request, *, fresh: bool = True, within_s: float | None = None, stop: Stop = never
    ) -> _Result | None:
        """Return the result of a run, made in this thread if no other thread makes one.

        With ``fresh`` the run begins after this call; otherwise the run in progress will do. ``within_s`` limits the
        wait for another caller's run: after that the result is None, and the requested run is made in the background.
        """
        until = None if within_s is None else time.monotonic() + within_s
        while True:
            with self._changed:
                self._callers += 1
            flight = None
            try:
                flight, is_leader = self._board(request, fresh, until, stop)
                if flight is None:
                    return None
                if is_leader:
                    self._lead(flight, request)
                elif self._is_leaders_own(flight.error):
                    if self._stopped and (stop() or self._is_closing):
                        raise self._stopped("The run was stopped, and this caller no longer waits for another.")
                    continue
                return flight.result()
            finally:
                with self._changed:
                    self._callers -= 1
                # An error's traceback holds this frame; holding the error in turn would keep all of it in memory.
                del flight

    def start(self, request: _Request, *, within_s: float = 0.0) -> _Result | None:
        """Make a run in the background; return its result if it ends within ``within_s``, else None."""
        with self._changed:
            flight = self._join(request, fresh=True)
            self._work_in_background()
            self._changed.wait_for(flight.is_done, within_s)
        try:
            return flight.result() if flight.is_done() else None
        finally:
            del flight

    def close(self, within_s: float = 0.0) -> bool:
        """Start no more background runs and wait for the run in progress; True if it has ended."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._running is None, within_s)

    def _board(
        self, request: _Request, fresh: bool, until: float | None, stop: Stop
    ) -> tuple[_Flight[_Request, _Result] | None, bool]:
        """Wait until a flight has ended or this caller may lead it; no flight if the wait took too long."""
        with self._changed:
            if self._stopped and self._is_closing:
                raise self._stopped("It is closed: no more runs are started.")
            flight = self._join(request, fresh=fresh)
            while not flight.is_done():
                if self._running is None and self._next is flight:
                    self._running, self._next = flight, None
                    return flight, True
                if self._stopped and (stop() or (self._is_closing and self._next is flight)):
                    self._leave(flight, request)
                    raise self._stopped("The caller stopped waiting for the run.")
                left_s = None if until is None else until - time.monotonic()
                if left_s is not None and left_s <= 0:
                    self._leave_to_background(flight, request)
                    return None, False
                self._changed.wait(left_s if stop is never else min(_STOP_CHECK_S, left_s or _STOP_CHECK_S))
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
            del flight.requests[flight.position(request)]
            if not flight.requests:
                self._next = None

    def _leave_to_background(self, flight: _Flight[_Request, _Result], request: _Request) -> None:
        if (position := flight.position(request)) >= 0:
            # In place, because a run in progress may be walking through the list.
            flight.requests[position] = self._detach(request)
        self._work_in_background()

    def _is_leaders_own(self, error: BaseException | None) -> bool:
        """True if a run failed only for the caller that made it: it was interrupted or gave up."""
        if error is None:
            return False
        return not isinstance(error, Exception) or (self._stopped is not None and isinstance(error, self._stopped))

    def _lead(self, flight: _Flight[_Request, _Result], own: _Request | None = None) -> None:
        if own is not None:
            with self._changed:
                flight.requests.insert(0, flight.requests.pop(flight.position(own)))
        result, error = self._attempt(Shared(flight.requests, flight.is_queued))
        with self._changed:
            flight.end(result, error)
            self._running = None
            self._changed.notify_all()
        del flight, error

    def _attempt(self, shared: Shared[_Request]) -> tuple[_Result | None, BaseException | None]:
        """Make a run and return its result or its error."""
        try:
            return self._act(shared), None
        except BaseException as error:
            return None, error

    def _work_in_background(self) -> None:
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(target=self._work, name="mdrecall-sync", daemon=True)
            self._worker.start()
        self._changed.notify_all()

    def _work(self) -> None:
        """Make the queued runs that no caller makes, until none is left."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing or self._next is None or self._running is None)
                if self._is_closing or self._next is None:
                    self._worker = None
                    return
                flight = self._running = self._next
                self._next = None
            self._lead(flight)
            del flight
