"""When a backend that failed is left alone, and when it is tried again; kept in a file for the processes to come."""

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from mdrecall import state_files as state
from mdrecall.errors import BackendUnavailable, ProgramTimedOut, message_with_hint
from mdrecall.types import FallbackNotice

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

    def stand_in(self, backend: str) -> FallbackNotice:
        """The same for those who got their answer from another one."""
        return FallbackNotice(backend, self.reason, iso(self.since_s), iso(self.next_s))


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
        return self.seconds_left() == 0

    def seconds_left(self) -> float:
        """How long until then; nothing, if a clock was set back and it would be longer than anybody has set."""
        outage = self.outage
        left_s = 0.0 if outage is None else outage.next_s - self._now()
        return left_s if 0 < left_s <= MOST_SECONDS else 0.0

    def failed(self, error: BackendUnavailable) -> Outage:
        """Note a failure; several at a time, of questions that were asked together, are one."""
        with self._lock:
            before, now = self._known(), self._now()
            if before and now < before.next_s <= now + MOST_SECONDS:
                return before
            failures = before.failures + 1 if before else 1
            rest_s = min(MOST_SECONDS, self._first_s * 2.0 ** min(failures - 1, 20))
            since_s = before.since_s if before else now
            costly = isinstance(error, ProgramTimedOut)
            self._outage = Outage(message_with_hint(error)[:_MOST_SAID], since_s, now + rest_s, failures, costly)
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
            unreadable = (OSError, ValueError, OverflowError, TypeError, KeyError)
            with suppress(*unreadable), open(self._path, encoding="utf-8") as file:
                noted = json.load(file)
                outage = Outage(
                    str(noted["reason"]), float(noted["since_s"]), float(noted["next_s"]),
                    int(noted["failures"]), bool(noted["costly"]),
                )  # fmt: skip
                outage.stand_in("")  # a time that is none cannot be told
                self._outage = outage
        return self._outage

    def _write(self, outage: Outage) -> None:
        """So that what is there is whole; that it could not be written only makes the next process ask once more."""
        with suppress(OSError):
            state.save(self._path, outage._asdict())


def iso(seconds: float) -> str:
    """A time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
