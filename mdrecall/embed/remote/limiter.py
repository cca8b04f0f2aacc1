"""How many requests a host is given at once, and when it has asked to be left alone."""

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager


class Limiter:
    """What everybody in this process who asks one host goes by."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._until = 0.0

    def pause(self, seconds: float) -> None:
        """Nobody is to ask again before so long has passed."""
        with self._changed:
            self._until = max(self._until, time.monotonic() + seconds)

    def pause_left_s(self) -> float:
        """How long the host wants to be left alone from now on."""
        return max(0.0, self._until - time.monotonic())

    @contextmanager
    def one_of(self, most: int, ended: threading.Event) -> Iterator[None]:
        """Be one of at most so many that ask at once; whose event is set before its turn comes does not wait for it."""
        with self._changed:
            self._changed.wait_for(lambda: self._under_way < most or ended.is_set())
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def wake(self) -> None:
        """Let those who wait see that their event is set."""
        with self._changed:
            self._changed.notify_all()


# The host does not care which memory asks, so all memories of a process share what they know of it.
_BY_HOST: "weakref.WeakValueDictionary[str, Limiter]" = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def limiter_of(host: str) -> Limiter:
    """The limiter of a host, as long as anybody holds it."""
    with _LOCK:
        found = _BY_HOST.get(host)
        if found is None:
            found = _BY_HOST[host] = Limiter()
        return found
