"""Decides when qmd's index is updated: at start, at intervals, before a search and on request."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, NamedTuple

from mdrecall.config.load import Loaded
from mdrecall.engine.background import Shared, SingleFlight, run_in_background
from mdrecall.engine.refresh import RefreshResult
from mdrecall.errors import BackendUnavailable, ProgramMissing, ProgramStopped, message_with_hint
from mdrecall.qmd.collections import Collections
from mdrecall.qmd.embedding import Embedding
from mdrecall.qmd.index_update import IndexUpdate
from mdrecall.types import Issue, Progress, ProgressCallback, Stop, never

# How long closing waits for an update in progress: its processes are killed at once.
_CLOSING_S = 10.0


class UpdateRules(NamedTuple):
    """When to update."""

    interval_s: float
    debounce_s: float
    on_boot: bool
    wait_for_boot: bool
    debounces_keywords: bool = False
    """True if the update before a keyword search is debounced too. It is quick, so by default it is not."""

    @classmethod
    def from_loaded(cls, loaded: Loaded) -> "UpdateRules":
        """Return the rules in an agent's settings."""
        update = loaded.settings.memory.qmd.update
        is_configured = loaded.values["memory.qmd.update.debounceMs"].origin != "default"
        interval_s, debounce_s = update.interval / 1000, update.debounce_ms / 1000
        return cls(interval_s, debounce_s, update.on_boot, update.wait_for_boot_sync, is_configured)


class UpdateReport(NamedTuple):
    """The outcome of an update."""

    reason: str
    skipped: str = ""
    """Why there was no update: ``closed``, ``debounced``, ``unchanged`` or ``lost``; empty if there was one."""
    embedded: bool = False
    issues: tuple[Issue, ...] = ()
    """What was left out or failed without ending the update."""


class _UpdateRequest(NamedTuple):
    reason: str
    force: bool
    stop: Stop


class Updater:
    """Updates the index of one qmd. Safe to use from several threads."""

    def __init__(
        self,
        collections: Collections,
        update: IndexUpdate,
        embedding: Embedding | None,
        rules: UpdateRules,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collections = collections
        self._update = update
        self._embedding = embedding
        self._rules = rules
        self._clock = clock
        self._closing = threading.Event()
        self._flight = SingleFlight(self._run_shared, stopped=ProgramStopped)
        self._lock = threading.Lock()
        self._search_update: Future[UpdateReport] | None = None
        self._timer: threading.Thread | None = None
        self._is_updating = False
        self._completed: float | None = None
        self._failures = 0
        self._error = ""
        self.search_error: BackendUnavailable | None = None
        """Why the last update before a search failed."""

    def start(self, *, one_shot: bool = False) -> tuple[Issue, ...]:
        """Add the collections and start the timer; a process that answers once needs no timer."""
        try:
            return self._collections.ensure(stop=self._closing.is_set)
        finally:
            # A qmd that fails now is updated when it works again.
            if not one_shot and self._timer is None:
                self._start_timer()

    def _start_timer(self) -> None:
        needs_boot = self._rules.on_boot
        if needs_boot and self._rules.wait_for_boot:
            self._run_unattended("boot", force=True)
            needs_boot = False
        if needs_boot or self._rules.interval_s > 0:
            timer = threading.Thread(target=self._run_timer, args=(needs_boot,), name="qmd-update", daemon=True)
            # Another thread may close the updater meanwhile, and cannot wait for a timer that is not running yet.
            timer.start()
            self._timer = timer

    def run(
        self, reason: str, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never
    ) -> UpdateReport:
        """Update, or share the update in progress. With ``force`` only one that begins after this call will do.

        Raise ``BackendUnavailable`` in every caller that shares a failed update.
        """
        if progress:
            progress(Progress(0, 1, "qmd update"))
        if self._closing.is_set():
            report = UpdateReport(reason, "closed")
        elif not force and self._flight.is_idle and self._is_recent():
            report = UpdateReport(reason, "debounced")
        else:
            report = self._run_or_share(reason, force, stop)
        if progress:
            progress(Progress(1, 1, "qmd update"))
        return report

    def catch_up(self, within_s: float, progress: ProgressCallback | None, *, reason: str = "search") -> RefreshResult:
        """Update after changes, waiting at most ``within_s``. An update that takes longer goes on in the background."""
        if not self.is_behind():
            return RefreshResult()
        future = self._start_search_update(reason, progress)
        if not wait([future], max(0.0, within_s)).done:
            return RefreshResult((), "changed files are being indexed by qmd")
        error = future.exception()
        self.search_error = error if isinstance(error, BackendUnavailable) else None
        if isinstance(error, ProgramStopped):
            self.search_error = None
            return RefreshResult()
        if isinstance(error, ProgramMissing) or not isinstance(error, BackendUnavailable | None):
            raise error
        if error is not None:
            issue = Issue("qmd", f"could not update its index: {message_with_hint(error)}")
            return RefreshResult((issue,), "changed files could not be indexed by qmd")
        report = future.result()
        if report.skipped == "debounced":
            return RefreshResult((), "files changed a moment ago; qmd indexes them with the next update")
        return RefreshResult(report.issues)

    @property
    def callers(self) -> int:
        """How many callers make an update or wait for one."""
        return self._flight.callers

    def is_behind(self) -> bool:
        """True if files have changed since qmd last read them, whichever process made it do so."""
        return self._update.is_behind()

    def is_current(self) -> bool:
        """True if the last update is recent, no file has changed since, and nothing is left to embed."""
        if not self._flight.is_idle or not self._is_recent():
            return False
        return not self.is_behind() and not (self._embedding and self._embedding.is_due())

    def is_updating(self) -> bool:
        """True while qmd reads the files; embedding does not count."""
        return self._is_updating

    def status(self) -> dict[str, Any]:
        """Return when the last update was, and what failed."""
        found: dict[str, Any] = {
            "updating": self._is_updating,
            "lastUpdateAt": _format_time(self._update.completed_at()),
            "updateFailures": self._failures,
            "lastUpdateError": self._error,
            "lost": [entry.path for entry in self._update.missing],
        }
        if self._embedding:
            embed = self._embedding.state()
            found["lastEmbedAt"] = _format_time(embed.at)
            found["embedFailures"] = embed.failures
            found["lastEmbedError"] = embed.error
            found["nextEmbedTry"] = _format_time(embed.next_try)
        return found

    def close(self) -> None:
        """Stop the timer, drop queued updates and end the one in progress; may be called twice."""
        self._closing.set()
        self._flight.close()
        if self._timer is not None:
            self._timer.join()
        self._flight.close(_CLOSING_S)
        if self._search_update is not None:
            wait([self._search_update], _CLOSING_S)

    def _start_search_update(self, reason: str, progress: ProgressCallback | None) -> "Future[UpdateReport]":
        force = self._embedding is None and not self._rules.debounces_keywords
        with self._lock:
            if self._search_update is None or self._search_update.done():
                self._search_update = run_in_background(
                    lambda: self.run(reason, force=force, progress=progress), name="mdrecall-qmd-update"
                )
            return self._search_update

    def _is_recent(self) -> bool:
        return self._completed is not None and self._clock() - self._completed < self._rules.debounce_s

    def _run_or_share(self, reason: str, force: bool, stop: Stop) -> UpdateReport:
        def is_stopped() -> bool:
            return stop() or self._closing.is_set()

        try:
            report = self._flight.run(_UpdateRequest(reason, force, is_stopped), fresh=force, stop=is_stopped)
            assert report is not None, "only a wait with a limit has no result"
            return report
        except ProgramStopped:
            if self._closing.is_set():
                return UpdateReport(reason, "closed")
            raise

    def _run_timer(self, needs_boot: bool) -> None:
        if needs_boot:
            self._run_unattended("boot", force=True)
        while self._rules.interval_s > 0 and not self._closing.wait(self._rules.interval_s):
            self._run_unattended("interval")

    def _run_unattended(self, reason: str, *, force: bool = False) -> None:
        """Update without a caller that waits for it. The status shows what failed."""
        try:
            self.run(reason, force=force)
        except BackendUnavailable:
            return

    def _run_shared(self, shared: Shared[_UpdateRequest]) -> UpdateReport:
        reason, force, stop = shared.requests[0]
        if shared.is_queued:
            reason, force = f"{reason}:queued", True
        issues: list[Issue] = []
        with self._record_outcome():
            if reason == "interval" and not self._update.is_behind():
                # An update would make qmd discard the cached answers of its models for nothing.
                skipped = "unchanged"
            else:
                patient = reason == "boot" or reason.startswith("boot:")
                skipped = self._update.run(issues, force=force, patient=patient, stop=stop)
        embedded = self._embedding.run_if_due(force, issues, stop) if self._embedding else False
        return UpdateReport(reason, skipped, embedded, tuple(dict.fromkeys(issues)))

    @contextmanager
    def _record_outcome(self) -> Iterator[None]:
        """Record for the status that an update is in progress, and its outcome."""
        self._is_updating = True
        try:
            yield
            self._completed, self._failures, self._error = self._clock(), 0, ""
        except ProgramStopped:
            raise
        except BackendUnavailable as error:
            self._failures += 1
            self._error = message_with_hint(error)
            raise
        finally:
            self._is_updating = False


def _format_time(seconds: float | None) -> str | None:
    if not seconds:
        return None
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
