"""Follows the files: a sync soon after they change, and one now and then in case a change went unnoticed."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mdrecall.errors import RecallError, message_with_hint
from mdrecall.types import Issue, SyncReport, WatchEvent

_BEAT_S = 5.0
_AFTER_FAILURE_S = 1.0


class Timing(NamedTuple):
    """How soon and how often."""

    debounce_s: float
    """How long after a change the files are looked at; what follows in this time is looked at together."""
    scan_s: float
    """How often they are looked at anyway."""


class Watch(Protocol):
    """Notices changes."""

    @property
    def folders(self) -> int: ...

    @property
    def problem(self) -> str: ...

    def wait(self, timeout_s: float) -> frozenset[str]: ...

    def interrupt(self) -> None: ...

    def refresh(self) -> bool: ...

    def close(self) -> None: ...


class Health(NamedTuple):
    """How the following goes."""

    folders: int = 0
    syncs: int = 0
    synced_at: float | None = None
    """When files were last looked at, in seconds since 1970."""
    problem: str = ""
    """Why changes are noticed only now and then; empty if they are noticed at once."""
    error: str = ""
    """What went wrong at the last sync."""


class Follower:
    """Syncs until it is told to stop. Nothing that goes wrong in between ends it."""

    def __init__(
        self,
        watch: Watch,
        sync: Callable[[], SyncReport],
        timing: Timing,
        *,
        beat: Callable[[Health], None],
        tell: Callable[[WatchEvent], None],
    ) -> None:
        self._watch = watch
        self._sync = sync
        self._timing = timing
        self._beat = beat
        self._tell = tell
        self._stopped = threading.Event()
        self.health = Health()
        self._failing: tuple[Issue, ...] = ()

    def run(self) -> None:
        """Follow until ``stop`` is called, by another thread or a signal."""
        self._beat(self.health)
        try:
            self._follow()
        finally:
            self._watch.close()

    def _follow(self) -> None:
        changed_at = None if self._look(first=True) else time.monotonic()
        scan_at = time.monotonic() + self._timing.scan_s
        beat_at = time.monotonic() + _BEAT_S
        while not self._stopped.is_set():
            sync_at = scan_at if changed_at is None else min(scan_at, changed_at + self._timing.debounce_s)
            touched = self._watch.wait(max(0.0, min(sync_at, beat_at) - time.monotonic()))
            now = time.monotonic()
            if touched and changed_at is None:
                changed_at = now
                sync_at = min(scan_at, changed_at + self._timing.debounce_s)
            if now >= sync_at and not self._stopped.is_set():
                changed_at = None if self._look() else time.monotonic() + _AFTER_FAILURE_S
                scan_at = time.monotonic() + self._timing.scan_s
            if now >= beat_at:
                self._beat(self.health)
                beat_at = now + _BEAT_S

    def stop(self) -> None:
        """End ``run`` soon; may be called twice."""
        self._stopped.set()
        self._watch.interrupt()

    def _look(self, *, first: bool = False) -> bool:
        """One sync, and then a watch for every folder that it has met; whether it went well."""
        done = self._synced()
        if self._watch.refresh() and not first:
            # What came into a new folder before it was watched has been announced by nobody.
            done = self._synced() and done
        if first or self._watch.folders != self.health.folders:
            self._tell(WatchEvent("watching", folders=self._watch.folders))
        if self._watch.problem and self._watch.problem != self.health.problem:
            self._tell(WatchEvent("problem", error=self._watch.problem))
        self.health = self.health._replace(folders=self._watch.folders, problem=self._watch.problem)
        if first and not self._watch.problem:
            done = self._synced() and done
        self._beat(self.health)
        return done

    def _synced(self) -> bool:
        try:
            report = self._sync()
        except RecallError as error:
            return self._failed(message_with_hint(error))
        except Exception as error:
            return self._failed(f"{type(error).__name__}: {error}")
        self.health = self.health._replace(syncs=self.health.syncs + 1, synced_at=time.time(), error="")
        is_new, self._failing = report.failed != self._failing, report.failed
        if report.changes or (report.failed and is_new) or report.rebuilt:
            self._tell(WatchEvent("synced", report))
        return True

    def _failed(self, error: str) -> bool:
        if error != self.health.error:
            self._tell(WatchEvent("failed", error=error))
        self.health = self.health._replace(error=error)
        return False
