"""Keeps qmd's index in line with the files: before searches, on request, and while it follows them."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mdrecall.config.settings import Settings
from mdrecall.engine.refresh import RefreshResult
from mdrecall.errors import BackendUnavailable, ProgramMissing, ProgramStopped, StoreBusy, message_with_hint
from mdrecall.locks import FileLock, describe_holder
from mdrecall.qmd.collection_plan import Collection
from mdrecall.qmd.updater import Updater, UpdateReport
from mdrecall.types import Issue, ProgressCallback, SyncReport, WatchEvent

if TYPE_CHECKING:
    from mdrecall.engine.watch_loop import Health, WatchLoop

_CLOSING_S = 5.0
_BEATS_MISSED_S = 30.0


class Updates:
    """Decides when qmd reads the files, and how long anybody waits for that."""

    def __init__(
        self,
        settings: Settings,
        collections: tuple[Collection, ...],
        sync: Callable[[], SyncReport],
        *,
        is_quick: bool,
    ) -> None:
        """``sync`` updates at once; ``is_quick`` says that an update makes no vectors."""
        self._settings = settings
        self._collections = collections
        self._sync = sync
        self._is_quick = is_quick
        self._lock = threading.Lock()
        self._updating: _Update | None = None
        self.last_error: BackendUnavailable | None = None
        self._closing = threading.Event()
        self._follower: WatchLoop | None = None
        self._following: threading.Thread | None = None

    def catch_up(self, updater: Updater, within_s: float, progress: ProgressCallback | None) -> RefreshResult:
        """Have qmd read what changed, and wait for it for so long; what is left goes on while the memory is open."""
        if not updater.is_behind():
            return RefreshResult()
        with self._lock:
            if self._updating is None or not self._updating.is_alive():
                self._updating = _Update(updater, self._is_quick, progress)
                self._updating.start()
            update = self._updating
        update.join(within_s)
        if update.is_alive():
            return RefreshResult((), "changed files are being indexed by qmd")
        self.last_error = update.error
        if isinstance(update.error, ProgramMissing):
            raise update.error
        if update.error is not None:
            return RefreshResult((Issue("qmd", f"could not update its index: {message_with_hint(update.error)}"),),
                          "changed files could not be indexed by qmd")  # fmt: skip
        if update.report and update.report.skipped == "debounced":
            return RefreshResult((), "files changed a moment ago; qmd indexes them at the next update")
        return RefreshResult(update.report.issues if update.report else ())

    def follow(self, tell: Callable[[WatchEvent], None]) -> None:
        """Follow the files in this thread; ``StoreBusy`` names the process that does so already."""
        lock = FileLock(self._watch_path())
        os.makedirs(os.path.dirname(lock.path), exist_ok=True)
        if not lock.acquire(0, "watching"):
            raise StoreBusy(f"The notes are followed already by {describe_holder(lock.holder())}.",
                            hint="One is enough for all that share the index.")  # fmt: skip
        try:
            self._follower = self._make_follower(lock, tell)
            if not self._closing.is_set():
                self._follower.run()
        finally:
            lock.release()

    def follow_in_background(self) -> None:
        """Follow the files in a thread, if the settings have it; if another process does so, be ready to take over."""
        if self._following is None and self._settings.memory_search.sync.watch:
            self._following = threading.Thread(target=self._follow_or_wait, name="mdrecall-follow", daemon=True)
            self._following.start()

    def stop_following(self) -> None:
        """End ``follow``; may be called twice, and from a signal."""
        self._closing.set()
        if self._follower:
            self._follower.stop()

    def watcher(self) -> dict[str, Any]:
        """Who follows the files, and how that goes."""
        holder = FileLock(self._watch_path()).holder()
        if holder is None:
            return {"running": False}
        more = holder.more
        is_heard = time.time() - more.get("beat", 0.0) < _BEATS_MISSED_S
        found: dict[str, Any] = {
            "running": True,
            "pid": holder.pid,
            "since": holder.since_s,
            "healthy": is_heard and not more.get("error"),
            "folders": more.get("folders", 0),
        }
        kept = {"synced_at": "syncedAt", "problem": "problem", "error": "error", "beat": "beat"}
        return found | {name: more[key] for key, name in kept.items() if more.get(key)}

    def folders(self) -> tuple[str, ...]:
        """Every folder that notes are or might come to be in."""
        return tuple(dict.fromkeys(folder for entry in self._collections for folder in self._folders_of(entry)))

    def close(self) -> None:
        """End what is under way; may be called twice."""
        self.stop_following()
        for thread in (self._following, self._updating):
            if thread is not None and thread.is_alive() and thread is not threading.current_thread():
                thread.join(_CLOSING_S)

    def _folders_of(self, entry: Collection) -> Iterator[str]:
        yield entry.root
        if entry.file or entry.kind == "sessions":
            return
        ignored = self._settings.mdrecall.ignore
        for folder, folders, _ in os.walk(entry.root):
            folders[:] = [name for name in folders if not name.startswith(".") and name.lower() not in ignored]
            yield from (os.path.join(folder, name) for name in folders)

    def _watch_path(self) -> str:
        return os.path.join(self._settings.qmd_dir, "mdrecall", "watch.lock")

    def _follow_or_wait(self) -> None:
        while not self._closing.is_set():
            try:
                self.follow(lambda happened: None)
            except (StoreBusy, OSError):
                self._closing.wait(_CLOSING_S)

    def _make_follower(self, lock: FileLock, tell: Callable[[WatchEvent], None]) -> "WatchLoop":
        from mdrecall.engine.watch_loop import Timing, WatchLoop
        from mdrecall.sources.transcripts.readers import open_transcripts
        from mdrecall.sources.watch import FolderWatch

        own = self._settings.mdrecall
        has_sessions = any(collection.kind == "sessions" for collection in self._collections)

        def folders() -> tuple[str, ...]:
            transcripts = open_transcripts(self._settings).scan().folders if has_sessions else ()
            return (*self.folders(), *transcripts)

        watch = FolderWatch(folders, lambda name: name.lower() in own.ignore)
        timing = Timing(self._settings.memory_search.sync.watch_debounce_ms / 1000, float(own.watch.scan_seconds))

        def beat(health: "Health") -> None:
            lock.record({**health._asdict(), "error": health.error[:1000], "beat": time.time()})

        return WatchLoop(watch, self._sync, timing, beat=beat, notify=tell)


class _Update:
    """An update that somebody has asked for, in a thread."""

    def __init__(self, updater: Updater, force: bool, progress: ProgressCallback | None) -> None:
        self.report: UpdateReport | None = None
        self.error: BackendUnavailable | None = None
        self._updater = updater
        self._force = force
        self._progress = progress
        self._thread = threading.Thread(target=self._work, name="mdrecall-qmd-search-update", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        self._thread.join(max(0.0, seconds))

    def _work(self) -> None:
        try:
            self.report = self._updater.run("search", force=self._force, progress=self._progress)
        except ProgramStopped:
            return
        except BackendUnavailable as error:
            self.error = error
