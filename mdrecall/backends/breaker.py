"""A circuit breaker: how long a backend that failed is left alone. It is kept in a file for later processes."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mdrecall import state_files
from mdrecall.errors import BackendUnavailable, ProgramTimedOut, message_with_hint
from mdrecall.types import FallbackNotice

# The longest pause between two attempts: nobody should wait longer for a backend that works again.
MAX_PAUSE_S = 600.0
# A program may print anything as its error; the reason is shown in one line.
_MAX_REASON_CHARS = 1_000
# 2 ** 20 pauses are far beyond MAX_PAUSE_S; without a limit the power would overflow some day.
_MAX_DOUBLINGS = 20


class Outage(NamedTuple):
    """A backend that does not answer."""

    reason: str
    since_s: float
    """When it began, in seconds since 1970."""
    next_s: float
    """When the backend is tried again, in seconds since 1970."""
    failures: int
    costly: bool
    """True if another attempt that fails would take long."""

    def notice(self, backend: str) -> FallbackNotice:
        """Return what an answer of another backend says about this outage."""
        return FallbackNotice(backend, self.reason, format_time(self.since_s), format_time(self.next_s))


class Breaker:
    """Counts failures in a row. After each one the backend is left alone for twice as long, ten minutes at most."""

    def __init__(self, path: str, first_s: float, *, now: Callable[[], float] = time.time) -> None:
        """``path`` is the file that keeps an outage, ``first_s`` the first pause."""
        self._path = path
        self._first_s = first_s
        self._now = now
        self._lock = threading.Lock()
        self._is_loaded = False
        self._outage: Outage | None = None

    @property
    def outage(self) -> Outage | None:
        """The present outage, if there is one."""
        with self._lock:
            return self._load()

    def is_due(self) -> bool:
        """True if the backend may be tried again."""
        return self.seconds_left() == 0

    def seconds_left(self) -> float:
        """Return the seconds until the next attempt; 0 if the clock was set back and it would be too long."""
        outage = self.outage
        left_s = 0.0 if outage is None else outage.next_s - self._now()
        return left_s if 0 < left_s <= MAX_PAUSE_S else 0.0

    def record_failure(self, error: BackendUnavailable) -> Outage:
        """Count a failure and return the outage. Failures of concurrent calls count once."""
        with self._lock:
            before, now = self._load(), self._now()
            if before and now < before.next_s <= now + MAX_PAUSE_S:
                return before
            failures = before.failures + 1 if before else 1
            pause_s = min(MAX_PAUSE_S, self._first_s * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))
            since_s = before.since_s if before else now
            costly = isinstance(error, ProgramTimedOut)
            reason = message_with_hint(error)[:_MAX_REASON_CHARS]
            self._outage = Outage(reason, since_s, now + pause_s, failures, costly)
            # If it cannot be saved, the next process only tries once more.
            with suppress(OSError):
                state_files.save(self._path, self._outage._asdict())
            return self._outage

    def record_recovery(self) -> None:
        """Forget the outage."""
        with self._lock:
            if self._load():
                self._outage = None
                with suppress(OSError):
                    os.unlink(self._path)

    def _load(self) -> Outage | None:
        if not self._is_loaded:
            self._is_loaded = True
            with suppress(KeyError, TypeError, ValueError, OverflowError, OSError):
                self._outage = _parse(state_files.load(self._path))
        return self._outage


def _parse(state: dict[str, Any]) -> Outage:
    outage = Outage(
        str(state["reason"]),
        float(state["since_s"]),
        float(state["next_s"]),
        int(state["failures"]),
        bool(state["costly"]),
    )
    outage.notice("")  # raises if a time is out of range
    return outage


def format_time(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
