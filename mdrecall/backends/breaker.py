"""When a backend that failed is left alone, and when it is tried again; kept in a file for the processes to come."""

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from mdrecall.errors import BackendUnavailable, ProgramTimedOut, told
from mdrecall.types import StandIn

MOST_SECONDS = 600.0
_MOST_SAID = 1_000


class Outage(NamedTuple):
    """A backend that does not answer, since when, and when it is asked again (both in seconds since 1970)."""

    reason: str
    since_s: float
    next_s: float
    failures: int
    costly: bool
    """Whether asking in vain takes long."""

    def stand_in(self, backend: str) -> StandIn:
        """The same for those who got their answer from another one."""
        return StandIn(backend, self.reason, iso(self.since_s), iso(self.next_s))


class Breaker:
    """Counts failures in a row; after each the backend is left alone for twice as long, to ten minutes at most."""

    def __init__(self, path: str, first_s: float, *, now: Callable[[], float] = time.time) -> None:
        """``path`` is where an outage is written down."""
        self._path = path
        self._first_s = first_s
        self._now = now
        self._lock = threading.Lock()
        self._read = False
        self._outage: Outage | None = None

    @property
    def outage(self) -> Outage | None:
        """What is wrong; None if nothing is."""
        with self._lock:
            return self._known()

    def is_due(self) -> bool:
        """Whether the time to ask again has come."""
        outage = self.outage
        return outage is None or self._now() >= outage.next_s

    def seconds_left(self) -> float:
        """How long until then."""
        outage = self.outage
        return 0.0 if outage is None else max(0.0, outage.next_s - self._now())

    def failed(self, error: BackendUnavailable) -> Outage:
        """Note a failure; several at a time, of questions that were asked together, are one."""
        with self._lock:
            before, now = self._known(), self._now()
            if before and now < before.next_s:
                return before
            failures = before.failures + 1 if before else 1
            rest_s = min(MOST_SECONDS, self._first_s * 2.0 ** min(failures - 1, 20))
            since_s = before.since_s if before else now
            costly = isinstance(error, ProgramTimedOut)
            self._outage = Outage(told(error)[:_MOST_SAID], since_s, now + rest_s, failures, costly)
            self._write(self._outage)
            return self._outage

    def recovered(self) -> None:
        """Note that it answers again."""
        with self._lock:
            if self._known():
                self._outage = None
                with suppress(OSError):
                    os.unlink(self._path)

    def _known(self) -> Outage | None:
        if not self._read:
            self._read = True
            with suppress(OSError, ValueError, TypeError, KeyError), open(self._path, encoding="utf-8") as file:
                noted = json.load(file)
                self._outage = Outage(
                    str(noted["reason"]), float(noted["since_s"]), float(noted["next_s"]),
                    int(noted["failures"]), bool(noted["costly"]),
                )  # fmt: skip
        return self._outage

    def _write(self, outage: Outage) -> None:
        """So that what is there is whole; that it could not be written only makes the next process ask once more."""
        fresh = f"{self._path}.{os.getpid()}.new"
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(fresh, "w", encoding="utf-8") as file:
                json.dump(outage._asdict(), file)
            os.replace(fresh, self._path)


def iso(seconds: float) -> str:
    """A time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
