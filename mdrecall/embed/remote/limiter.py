"""Limits for requests to one host: how many at once, and none during a pause that it asked for."""

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager


class Limiter:
    """Shared by all clients of one host in this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._until = 0.0

    def pause(self, seconds: float) -> None:
        """Hold back all requests to the host for this long."""
        with self._changed:
            self._until = max(self._until, time.monotonic() + seconds)

    def pause_left_s(self) -> float:
        """Return the seconds left of the current pause."""
        return max(0.0, self._until - time.monotonic())

    @contextmanager
    def slot(self, most: int, ended: threading.Event) -> Iterator[None]:
        """Hold one of ``most`` slots for a request; stop waiting for a slot when ``ended`` is set."""
        with self._changed:
            self._changed.wait_for(lambda: self._running < most or ended.is_set())
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def wake(self) -> None:
        """Wake the waiting threads, so that they see that their event is set."""
        with self._changed:
            self._changed.notify_all()


# A host limits the account, not one memory, so all memories of a process share its limiter. Entries vanish with
# their last client.
_BY_HOST: "weakref.WeakValueDictionary[str, Limiter]" = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def limiter_for(host: str) -> Limiter:
    """Return the limiter of a host, shared as long as a client holds it."""
    with _LOCK:
        found = _BY_HOST.get(host)
        if found is None:
            found = _BY_HOST[host] = Limiter()
        return found
