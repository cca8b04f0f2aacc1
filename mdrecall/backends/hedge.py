"""A hedged call: a second call starts while the first is late, so that an answer is there in time."""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from mdrecall.engine.background import DaemonPool
from mdrecall.errors import ProgramTimedOut

_T = TypeVar("_T")


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
