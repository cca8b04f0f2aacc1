"""A backend with a fallback: when the primary backend cannot answer, the same call is repeated on the other one.

Only a ``BackendUnavailable`` leads to the fallback; any other error is a bug that must be seen. After a failed search
the primary is left alone for a while (``Breaker``) and then tried in the background, so that no search waits for the
attempt. The primary is not waited for any longer than a search may take, whatever holds it up.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

from mdrecall import errors, state_files
from mdrecall.engine.background import DaemonPool, wait_for
from mdrecall.engine.builtin import BuiltinBackend
from mdrecall.errors import BackendUnavailable, RecallError, message_with_hint
from mdrecall.interfaces import Backend, BackendWatch, Index
from mdrecall.types.documents import Issue
from mdrecall.types.search import FallbackNotice, SearchAnswer, SearchRequest
from mdrecall.types.sync import Status, SyncReport

#: The name of the primary backend.
QMD = "qmd"
# How long closing waits for calls that are in progress.
_CLOSING_S = 5.0
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

    def notice(self) -> FallbackNotice:
        """Return what an answer of another backend says about this outage."""
        return FallbackNotice(QMD, self.reason, format_time(self.since_s), format_time(self.next_s))


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
            costly = isinstance(error, errors.ProgramTimedOut)
            reason = message_with_hint(error)[:_MAX_REASON_CHARS]
            self._outage = Outage(reason, since_s, now + pause_s, failures, costly)
            # If it cannot be saved, the next process only tries once more.
            with suppress(OSError):
                state_files.save(self._path, self._outage._asdict())
            return self._outage

    def record_recovery(self) -> None:
        with self._lock:
            if self._load():
                self._outage = None
                with suppress(OSError):
                    os.unlink(self._path)

    def _load(self) -> Outage | None:
        if not self._is_loaded:
            self._is_loaded = True
            with suppress(KeyError, TypeError, ValueError, OverflowError, OSError):
                state = state_files.load(self._path)
                times = float(state["since_s"]), float(state["next_s"])
                outage = Outage(str(state["reason"]), *times, int(state["failures"]), bool(state["costly"]))
                outage.notice()  # raises if a time is out of range
                self._outage = outage
        return self._outage


def format_time(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ProbedBackend(Backend, Protocol):
    """A backend that is started and tried without a caller waiting for it."""

    @property
    def index(self) -> Index: ...

    def start(self) -> None:
        """Start what takes long, so that the first search need not wait for it; no failure is raised."""

    def probe_search(self) -> None:
        """Run a search; raise ``BackendUnavailable`` if it fails."""


class FallbackBackend:
    """Answers with the primary backend, or with the fallback while the primary cannot answer."""

    def __init__(
        self,
        primary: ProbedBackend,
        open_fallback: Callable[[], BuiltinBackend],
        breaker: Breaker,
        *,
        deny: Callable[[str], SearchAnswer | None] = lambda key: None,
        within_s: float | None = None,
        one_shot: bool = False,
        waits_for_start: bool = False,
    ) -> None:
        """``deny`` returns the answer to a session that may not search, else None. After ``within_s`` seconds the
        primary is given up."""
        self._primary = primary
        self._open_fallback = open_fallback
        self._breaker = breaker
        self._deny = deny
        self._within_s = within_s
        self._one_shot = one_shot
        self._waits_for_start = waits_for_start
        self._lock = threading.Lock()
        self._opened: BuiltinBackend | None = None
        self._closing = threading.Event()
        self._pool = DaemonPool("mdrecall-qmd-or-fallback")
        self._retrying: Future[None] | None = None

    @property
    def watch(self) -> BackendWatch:
        return self._primary.watch

    def indexes(self) -> Iterator[Index]:
        """Yield the index of the backend that answers searches now, and then the other one."""
        if self._breaker.outage:
            yield from self._ensure_fallback().indexes()
            yield self._primary.index
        else:
            yield self._primary.index
            yield from self._ensure_fallback().indexes()

    def start(self) -> None:
        """Start the primary and get the fallback ready, both in the background; not in a process that answers once.

        With ``waits_for_start`` this returns when the primary is ready.
        """
        if not self._one_shot:
            self._pool.start(self._warm_fallback)
            if self._waits_for_start:
                self._primary.start()
            else:
                self._pool.start(self._primary.start)
            if self._breaker.outage:
                self._retry_later()

    def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the primary's answer, or the fallback's with a notice that says why."""
        if (denial := self._deny(request.session_key)) is not None:
            return denial
        outage = self._breaker.outage
        # A process that answers once has no background to try the primary in.
        if outage and not (self._one_shot and (not outage.costly or not self._breaker.seconds_left())):
            return self._fall_back(request, None, outage.notice())
        outcome = self._pool.submit(partial(self._primary.search, request))
        try:
            if not wait_for(outcome, self._within_s):
                raise errors.ProgramTimedOut(f"{QMD} did not answer within {self._within_s:.1f} seconds.")
            answer = outcome.result()
        except BackendUnavailable as error:
            if self._closing.is_set():
                # Closing caused it: it is not a failure of the primary.
                raise
            if isinstance(error, errors.BackendNotReady | errors.ProgramStopped):
                now = time.time()
                failed = Outage(message_with_hint(error), now, now, 0, costly=False)
            else:
                failed = self._breaker.record_failure(error)
            return self._fall_back(request, error, failed.notice())
        if outage:
            self._breaker.record_recovery()
        return answer

    def sync(self, **options: Any) -> SyncReport:
        """Bring the index up to date; if that fails, bring the fallback's up to date and report the failure.

        The options are those of ``Backend.sync``.
        """
        try:
            report = self._primary.sync(**options)
            if self._one_shot and self._breaker.outage:
                self._probe_primary()
            return report
        except BackendUnavailable as error:
            if isinstance(error, errors.ProgramMissing):
                # No search can be answered either, whatever is indexed.
                self._breaker.record_failure(error)
                self._retry_later()
            report = self._ensure_fallback().sync(**options)
            problem = f"could not update its index; the builtin index was updated: {message_with_hint(error)}"
            return report._replace(failed=(*report.failed, Issue(QMD, problem)))

    def status(self) -> Status:
        """Return the status of the backend that answers now; ``fallback`` describes an outage of the primary."""
        outage = self._breaker.outage
        if outage is None:
            return self._primary.status()
        notice = outage.notice()
        fallback = {"from": QMD, "reason": notice.reason, "since": notice.since, "nextTry": notice.next_try}
        status = self._ensure_fallback().status()
        custom = {**status.custom, "fallback": {"disabled": True, "reason": outage.reason}}
        if status.fallback:
            custom["embeddingFallback"] = status.fallback
        if own := self._primary.status().custom.get(QMD):
            custom[QMD] = own
        return status._replace(fallback=fallback, custom=custom)

    def close(self) -> None:
        """End everything that is in progress in both backends; may be called twice."""
        self._closing.set()
        if self._opened is not None:
            self._opened.cancel_pending()
        self._primary.close()
        self._pool.drain(_CLOSING_S)
        self._pool.release()
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _ensure_fallback(self) -> BuiltinBackend:
        """Return the fallback, opened when it is first needed."""
        with self._lock:
            if self._opened is None:
                if self._closing.is_set():
                    raise BackendUnavailable("The memory is closed.")
                self._opened = self._open_fallback()
            return self._opened

    def _fall_back(self, request: SearchRequest, error: Exception | None, notice: FallbackNotice) -> SearchAnswer:
        """Return the fallback's answer; if that fails too, raise the error of the primary."""
        try:
            answer = self._ensure_fallback().search(request)
        except RecallError as failure:
            if error is None:
                raise
            raise error from failure
        finally:
            # Last, so that it uses a thread that is idle again.
            self._retry_later()
        return answer.replace(backend="builtin", answered_for=notice)

    def _warm_fallback(self) -> None:
        # The search that needs the fallback reports an error.
        with suppress(RecallError):
            self._ensure_fallback().warm()

    def _retry_later(self) -> None:
        """Try the primary when it is due, again and again, until it answers."""
        with self._lock:
            is_retrying = self._retrying is not None and not self._retrying.done()
            if self._one_shot or is_retrying or self._closing.is_set() or not self._breaker.outage:
                return
            self._retrying = self._pool.start(self._retry)

    def _retry(self) -> None:
        while self._breaker.outage and not self._closing.wait(self._breaker.seconds_left()):
            if not self._breaker.seconds_left():
                self._probe_primary()

    def _probe_primary(self) -> None:
        try:
            self._primary.probe_search()
        except BackendUnavailable as error:
            if not self._closing.is_set():
                self._breaker.record_failure(error)
        else:
            self._breaker.record_recovery()
