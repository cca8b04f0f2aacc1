"""Watches the files of one index: a sync soon after they change, and a regular one in case a change went unnoticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mdrecall.errors import RecallError, StoreBusy, StoreError, message_with_hint
from mdrecall.locks import describe_holder
from mdrecall.types.documents import Issue
from mdrecall.types.sync import Progress, ProgressCallback, Stop, SyncReport, WatchEvent

if TYPE_CHECKING:
    from mdrecall.interfaces import Lock
    from mdrecall.notes.watch import FolderWatch

# Where no event tells of a change, a check of all files that takes 10 ms is made every four seconds.
_POLL_SHARE = 400
# How often folders are watched and synced again if each sync finds new ones.
_MAX_SYNCS = 3
# How often a watcher writes down that it is alive.
_HEARTBEAT_S = 5.0
# A watcher is reported as unhealthy after six missed heartbeats: a busy machine delays a few.
_HEARTBEATS_MISSED_S = 30.0
# How soon a failed sync is repeated, in addition to the debounce time.
_AFTER_FAILURE_S = 1.0
# How often a process in the background tries to take over from the one that watches.
_TAKEOVER_S = 5.0
# How long closing waits for the background thread.
_CLOSING_S = 5.0
# The record of a lock is limited to 4096 bytes, so an error in it must be short.
_MAX_ERROR_CHARS = 1000

Notify: TypeAlias = Callable[[WatchEvent], None]
#: The state of a watch loop, as others read it: its folders, its syncs, and when the last one was, in seconds since
#: 1970; why only regular syncs notice changes, and what went wrong in the last sync.
Health: TypeAlias = dict[str, Any]


class WatchPlan(NamedTuple):
    """What to watch, and how soon and how often to sync."""

    folders: Callable[[], Collection[str]]
    is_ignored: Callable[[str], bool]
    """True if a folder of this name is not watched."""
    debounce_s: float
    """How long after a change to sync; changes that follow in this time are synced together."""
    scan_s: float
    """How often to sync although no change was noticed."""


class WatchLoop:
    """Syncs after changes until it is stopped. No error of a sync ends it."""

    def __init__(
        self,
        events: FolderWatch,
        sync: Callable[[], SyncReport],
        plan: WatchPlan,
        *,
        beat: Callable[[Health], None],
        notify: Notify,
    ) -> None:
        self._events = events
        self._sync = sync
        self._plan = plan
        self._beat = beat
        self._notify = notify
        self._stopped = threading.Event()
        self.health: Health = {"folders": 0, "syncs": 0, "synced_at": None, "problem": "", "error": ""}
        self._failing: tuple[Issue, ...] = ()
        self._took_s = 0.0
        """How long the last sync took that had nothing to index."""

    def run(self) -> None:
        """Watch until ``stop`` is called by another thread or a signal handler."""
        try:
            if not self._stopped.is_set():
                self._beat(self.health)
                self._loop()
        finally:
            self._events.close()

    def stop(self) -> None:
        """End ``run`` soon; may be called twice."""
        self._stopped.set()
        self._events.interrupt()

    def _loop(self) -> None:
        changed_at = None if self._sync_and_rewatch(first=True) else time.monotonic()
        scan_at = self._find_scan_time()
        beat_at = time.monotonic() + _HEARTBEAT_S
        while not self._stopped.is_set():
            sync_at = scan_at if changed_at is None else min(scan_at, changed_at + self._plan.debounce_s)
            touched = self._events.wait(max(0.0, min(sync_at, beat_at) - time.monotonic()))
            now = time.monotonic()
            if touched and changed_at is None:
                changed_at = now
                sync_at = min(scan_at, changed_at + self._plan.debounce_s)
            if now >= sync_at and not self._stopped.is_set():
                changed_at = None if self._sync_and_rewatch() else time.monotonic() + _AFTER_FAILURE_S
                scan_at = self._find_scan_time()
            if now >= beat_at:
                self._beat(self.health)
                beat_at = now + _HEARTBEAT_S

    def _find_scan_time(self) -> float:
        """Return when to sync although no change was noticed: soon where no event tells of one."""
        least_s = max(self._plan.debounce_s, self._took_s * _POLL_SHARE)
        return time.monotonic() + (min(self._plan.scan_s, least_s) if self._events.must_poll else self._plan.scan_s)

    def _sync_and_rewatch(self, *, first: bool = False) -> bool:
        """Sync, then watch every folder that the sync met; True if nothing failed."""
        is_done = self._sync_once()
        for _ in range(_MAX_SYNCS):
            if not self._events.refresh():
                break
            # Files that came into a new folder before it was watched caused no event.
            is_done = self._sync_once() and is_done
        if first or self._events.folders != self.health["folders"]:
            self._notify(WatchEvent("watching", folders=self._events.folders))
        if self._events.problem and self._events.problem != self.health["problem"]:
            self._notify(WatchEvent("problem", error=self._events.problem))
        self.health = self.health | {"folders": self._events.folders, "problem": self._events.problem}
        self._beat(self.health)
        return is_done

    def _sync_once(self) -> bool:
        began = time.monotonic()
        try:
            report = self._sync()
            self._took_s = self._took_s if report.changes else time.monotonic() - began
        except Exception as error:
            bug = f"{type(error).__name__}: {error}"
            problem = message_with_hint(error) if isinstance(error, RecallError) else bug
            if problem != self.health["error"]:
                self._notify(WatchEvent("failed", error=problem))
            self.health = self.health | {"error": problem}
            return False
        self.health = self.health | {"syncs": self.health["syncs"] + 1, "synced_at": time.time(), "error": ""}
        is_new, self._failing = report.failed != self._failing, report.failed
        if report.changes or (report.failed and is_new) or report.rebuilt:
            self._notify(WatchEvent("synced", report))
        return True


class IndexWatcher:
    """Keeps one index up to date while its files change. One process does it for all that share the index."""

    def __init__(
        self,
        lock: Lock,
        plan: Callable[[bool], WatchPlan | None],
        sync: Callable[[ProgressCallback, Stop], SyncReport],
        *,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """``lock`` is held while watching, and its record tells other processes about it.

        ``plan`` is called with True for a watcher in the background, and returns None if the settings want none there.
        ``sync`` reports its progress, which counts as a heartbeat. ``prepare`` makes the lock's folder usable.
        """
        self._lock = lock
        self._plan = plan
        self._sync = sync
        self._prepare = prepare
        self._stopped = threading.Event()
        self._loop: WatchLoop | None = None
        self._thread: threading.Thread | None = None
        # Held while the thread is started: one that is not running yet cannot be waited for.
        self._starting = threading.Lock()
        self._beat_at = 0.0

    def run(self, notify: Notify) -> None:
        """Watch in this thread until ``stop``; ``StoreBusy`` names the process that already watches."""
        plan = self._plan(False)
        assert plan is not None, "a caller that asks for it gets it, whatever the settings say"
        self._run(plan, notify)

    def start(self) -> None:
        """Watch in the background if the settings want it; take over when a process that watches already ends."""
        plan = self._plan(True)
        with self._starting:
            if plan and self._thread is None:
                run = self._run_or_wait
                self._thread = threading.Thread(target=run, args=(plan,), name="mdrecall-watch", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End ``run`` and the background thread soon; may be called twice, and from a signal handler."""
        self._stopped.set()
        if self._loop:
            self._loop.stop()

    def close(self) -> None:
        """Stop, and wait for the background thread; may be called twice."""
        self.stop()
        with self._starting:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSING_S)

    def status(self) -> dict[str, Any]:
        """Return which process watches, and its health."""
        holder = self._lock.holder()
        if holder is None:
            return {"running": False}
        more = holder.more
        is_healthy = time.time() - more.get("beat", 0.0) < _HEARTBEATS_MISSED_S and not more.get("error")
        found = {"running": True, "pid": holder.pid, "since": holder.since_s, "healthy": is_healthy}
        names = {"synced_at": "syncedAt", "problem": "problem", "error": "error", "beat": "beat"}
        said = {name: more[key] for key, name in names.items() if more.get(key)}
        return {**found, "folders": more.get("folders", 0), **said}

    def _run(self, plan: WatchPlan, notify: Notify) -> None:
        from mdrecall.notes.watch import FolderWatch

        self._prepare()
        if not self._lock.acquire(0, "watching"):
            message = f"The notes are already watched by {describe_holder(self._lock.holder())}."
            raise StoreBusy(message, hint="One watcher is enough for all processes that share the index.")
        try:
            self._loop = WatchLoop(
                FolderWatch(plan.folders, plan.is_ignored),
                lambda: self._sync(self._beat_during_sync, self._stopped.is_set),
                plan,
                beat=self._beat,
                notify=notify,
            )
            if self._stopped.is_set():
                self._loop.stop()
            self._loop.run()
        finally:
            self._lock.release()

    def _run_or_wait(self, plan: WatchPlan) -> None:
        while not self._stopped.is_set():
            try:
                self._run(plan, lambda event: None)
            except (StoreError, OSError):
                self._stopped.wait(_TAKEOVER_S)

    def _beat(self, health: Health) -> None:
        self._beat_at = time.monotonic()
        self._lock.record({**health, "error": health["error"][:_MAX_ERROR_CHARS], "beat": time.time()})

    def _beat_during_sync(self, progress: Progress) -> None:
        if self._loop and time.monotonic() - self._beat_at > _HEARTBEAT_S:
            self._beat(self._loop.health)
