"""Calls to a part that may hang: each ends within a time limit, and one that hung is left alone for a while."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from mdrecall.errors import EmbedderError

if TYPE_CHECKING:
    from concurrent.futures import Future

_T = TypeVar("_T")

# Calls that may be in progress. A provider that hangs holds a thread for each, so there must be a bound.
_MAX_CONCURRENT_CALLS = 8
# After a call timed out, later searches do not make another one for this long: each would wait in vain.
_RETRY_AFTER_S = 30.0


class Unavailable(Exception):
    """Something that a search could do without cannot be used at the moment; the message says why."""


class DeadlineCalls:
    """Makes calls to one part, each within a time limit. Safe to use from several threads."""

    def __init__(self, timeout_s: float, setting: str) -> None:
        """``setting`` is the name of the time limit, for messages."""
        self._timeout_s = timeout_s
        self._setting = setting
        self._slots = threading.BoundedSemaphore(_MAX_CONCURRENT_CALLS)
        self._hung_at: float | None = None

    def run(self, name: str, act: Callable[[], _T]) -> _T:
        """Return the result of a call to the part ``name``; raise its ``EmbedderError``, or ``Unavailable``."""
        # Imported here because it loads `logging`, which a search without such a call does not need.
        from concurrent.futures import wait

        future = self._start(name, act)
        wait([future], self._timeout_s)
        if not future.done():
            self._hung_at = time.monotonic()
            if future.done():
                self._hung_at = None
            hint = f"Check that it is up, or raise {self._setting}."
            raise Unavailable(f"{name} did not answer within {self._timeout_s:g} s. {hint}")
        error = future.exception()
        if error is None or isinstance(error, EmbedderError):
            return future.result()
        raise Unavailable(f"{name} failed: {error}") from error

    def _start(self, name: str, act: Callable[[], _T]) -> "Future[_T]":
        """Start a call in the background, unless an earlier one hangs or too many are in progress."""
        from mdrecall.engine.background import run_in_background

        if self._hung_at is not None and time.monotonic() - self._hung_at < _RETRY_AFTER_S:
            raise Unavailable(f"{name} has not answered an earlier query yet")
        if not self._slots.acquire(timeout=self._timeout_s):
            raise Unavailable(f"{name} is busy with earlier queries")
        future = run_in_background(act, name="mdrecall-embed-query")
        future.add_done_callback(self._release)
        return future

    def _release(self, _: "Future[_T]") -> None:
        self._slots.release()
        self._hung_at = None
