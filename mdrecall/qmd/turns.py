"""Whose turn it is to update: one at a time, those who come meanwhile join it, and at most one more waits."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from mdrecall.errors import ProgramStopped
from mdrecall.types import Stop

_Result = TypeVar("_Result")
_LOOK_S = 0.1


class _Turn(Generic[_Result]):
    """One piece of work that several may wait for."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: _Result | None = None
        self.error: Exception | None = None

    def wait(self, stop: Stop) -> None:
        while not self.done.wait(_LOOK_S):
            if stop():
                raise ProgramStopped("The update is no longer waited for.")

    def outcome(self) -> _Result:
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


class Turns(Generic[_Result]):
    """Work done by whoever asks for it first. Who asks while it is done joins it, or queues if it must be done anew.

    All who queue before the queued work begins are served by it at once, since it begins after they asked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: _Turn[_Result] | None = None
        self._queued: _Turn[_Result] | None = None
        self._closed = False
        self._asking = 0

    @property
    def asking(self) -> int:
        """How many there are who do it, wait for it, or wait for their turn."""
        return self._asking

    def idle(self) -> bool:
        """Whether nothing is done and nothing waits."""
        return self._running is None and self._queued is None

    def take(self, work: Callable[[], _Result], queued: Callable[[], _Result], *, anew: bool, stop: Stop) -> _Result:
        """Do the work or join it; ``anew``, if only work that begins from now on will do.

        If whoever did it gave up, one of those who had joined does it.
        """
        while True:
            turn, is_ours, before = self._enter(anew)
            try:
                if not is_ours:
                    turn.wait(stop)
                elif before is None:
                    self._do(turn, work)
                else:
                    self._do_next(turn, before, queued, stop)
                return turn.outcome()
            except ProgramStopped:
                if is_ours or stop() or self._closed:
                    raise
            finally:
                with self._lock:
                    self._asking -= 1

    def close(self) -> None:
        """Let nothing more begin."""
        with self._lock:
            self._closed = True

    def drain(self, timeout_s: float) -> bool:
        """Wait for what is being done."""
        running = self._running
        return running is None or running.done.wait(timeout_s)

    def _enter(self, anew: bool) -> tuple[_Turn[_Result], bool, _Turn[_Result] | None]:
        with self._lock:
            if self._closed:
                raise ProgramStopped("There are no more updates: it is closed.")
            self._asking += 1
            if self._running is None and self._queued is None:
                self._running = _Turn()
                return self._running, True, None
            if self._running is not None and not anew:
                return self._running, False, None
            if self._queued is not None:
                return self._queued, False, None
            self._queued = _Turn()
            return self._queued, True, self._running

    def _do_next(self, turn: _Turn[_Result], before: _Turn[_Result], work: Callable[[], _Result], stop: Stop) -> None:
        try:
            before.wait(lambda: stop() or self._closed)
        except ProgramStopped as error:
            with self._lock:
                self._queued = None
            turn.error = error
            turn.done.set()
            raise
        with self._lock:
            self._running, self._queued = turn, None
        self._do(turn, work)

    def _do(self, turn: _Turn[_Result], work: Callable[[], _Result]) -> None:
        try:
            turn.result = work()
        except Exception as error:
            turn.error = error
        except BaseException:
            # Those who joined are not who was interrupted.
            turn.error = ProgramStopped("The update was interrupted.")
            raise
        finally:
            with self._lock:
                if self._running is turn:
                    self._running = None
            turn.done.set()
