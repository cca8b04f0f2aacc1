"""Brings the index of one workspace up to date: before a search within a time limit, on request, and after changes."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.engine.chunk_embedder import EmbedsChunks
from mdrecall.engine.indexer import FileChanges
from mdrecall.engine.single_flight import Shared, SingleFlight
from mdrecall.engine.sync_run import SyncRequest, SyncRun, merge_requests
from mdrecall.errors import CorruptIndex, StoreBusy, StoreUnavailable, message_with_hint
from mdrecall.interfaces import Store
from mdrecall.sources.files import MemoryFiles
from mdrecall.types import Issue, ProgressCallback, Stop, SyncReport

# How long a closing memory waits for work that is under way.
_CLOSING_S = 5.0
# So much text is indexed in about a tenth of a second, in the thread that asks for it.
_SMALL_BYTES = 300_000
# So few files are indexed before an answer even where the machine stalls: they are what was just written.
_FEW_FILES = 8


class RefreshResult(NamedTuple):
    """What a search should know of the index it is going to search."""

    issues: tuple[Issue, ...] = ()
    stale: str = ""
    """What is not in the index yet; empty if everything is."""
    is_hindered: bool = False
    """Whether the index could not be written, which may have been for a moment: somebody may just have deleted it."""


class IndexRefresh:
    """Decides what is indexed when, and by which thread."""

    def __init__(
        self,
        settings: Settings,
        files: MemoryFiles,
        store: Store,
        sync: SyncRun,
        filler: EmbedsChunks | None,
        *,
        one_shot: bool,
    ) -> None:
        """``one_shot`` says that the process ends with the answer, so that nothing can be left to a thread."""
        self._settings = settings
        self._files = files
        self._store = store
        self._sync = sync
        self._filler = filler
        self._one_shot = one_shot
        self._flight = SingleFlight(self._run, detach=SyncRequest.detach)
        self._closing = threading.Event()
        self._filling: threading.Thread | None = None
        self._fill_lock = threading.Lock()
        self._met: tuple[Issue, ...] = ()
        self._folders: tuple[str, ...] = ()
        self._sessions: set[str] = set()

    def catch_up(self, progress: ProgressCallback | None, session_key: str) -> RefreshResult:
        """Index what changed, for at most as long as a search may wait; what is left is told, and done afterwards."""
        if not self._is_wanted(session_key):
            return RefreshResult()
        try:
            caught = self._caught_up(progress)
            if session_key.strip() and not caught.stale:
                self._sessions.add(session_key)
            return caught
        except StoreUnavailable as write_problem:
            if self._store.chunks.count() or not self._store.health.use_temporary(write_problem):
                return self._hindered(write_problem, None)
        except StoreBusy as write_problem:
            return self._hindered(write_problem, None)
        return self._caught_up(progress)

    def _caught_up(self, progress: ProgressCallback | None) -> RefreshResult:
        began = time.monotonic()
        looks = self.look()
        is_behind = not self._sync.is_up_to_date(looks)
        if not is_behind and (self._filler is None or self._filler.is_complete()):
            return RefreshResult(_said(looks))
        patience_s = self._patience_s()
        if not is_behind:
            return RefreshResult(_said(looks) + self._fill_for_search(progress, began + patience_s))
        try:
            report = self._within(patience_s, looks, progress)
        except StoreBusy as write_problem:
            return self._hindered(write_problem, looks)
        if report is None:
            return RefreshResult(_said(looks), f"{_files(looks)} being indexed")
        left = _left(report.left, self._one_shot)
        issues = report.failed + report.kept + self._about_rebuild(report)
        return RefreshResult(issues + self._fill_for_search(progress, began + patience_s), left)

    def catch_up_anyway(self) -> RefreshResult:
        """The same, whatever the settings say."""
        try:
            return self._caught_up(None)
        except (StoreBusy, StoreUnavailable) as write_problem:
            return self._hindered(write_problem, None)

    def look(self) -> list[FileChanges]:
        """Compare the files with the index."""
        looks = self._sync.look()
        self._folders = tuple(folder for look in looks for folder in look.listing.folders)
        return looks

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that the files were in at the last comparison."""
        return self._folders

    def count_folders(self) -> int:
        """Return how many folders the files are in, and so how many are watched."""
        if not self._folders:
            self.look()
        return len(self._folders)

    def is_dirty(self) -> bool:
        """Whether a sync would find something to do."""
        return self._sync.is_behind(self.look())

    def sync(self, *, force: bool, progress: ProgressCallback | None, stop: Stop) -> SyncReport:
        """Bring the index in line with the files, and give every chunk its vector."""
        report = self._flight.run(SyncRequest(force=force, progress=progress, stop=stop)) or SyncReport()
        self._store.health.require_writable()
        if stop() or self._closing.is_set():
            return report
        with self._fill_lock:
            self._met = self._sync.fill(progress=progress, stop=lambda: stop() or self._closing.is_set())
        return report._replace(issues=tuple(dict.fromkeys((*report.issues, *self._met))))

    def warm(self) -> None:
        """Index what has changed; vectors only where they cost neither time nor money."""
        self._flight.run(SyncRequest(stop=self._closing.is_set))
        if self._filler and self._filler.is_instant:
            with self._fill_lock:
                self._met = self._sync.fill(stop=self._closing.is_set)

    def sync_file(self, path: str, *, within_s: float | None) -> SyncReport:
        """Index one file whatever the thresholds say; with ``within_s``, in the background after so long."""
        request = SyncRequest(looks=self._sync.look_at(path))
        if within_s is not None:
            return self._flight.start(request, within_s=within_s) or SyncReport(left=1)
        return self._flight.run(request) or SyncReport()

    def _is_wanted(self, session_key: str) -> bool:
        """Whether a search is to look for changes: always, or when a conversation begins."""
        sync = self._settings.memory_search.sync
        begins = bool(session_key.strip()) and session_key not in self._sessions
        return sync.on_search or (sync.on_session_start and begins)

    def _patience_s(self) -> float:
        """How long a search waits; longer where there is nothing yet to answer from, or a person looks on."""
        own = self._settings.mdrecall
        is_empty = not self._store.chunks.count()
        if is_empty or (self._one_shot and self._sync.is_outdated()):
            return own.first_index_wait_ms / 1000
        return own.search_wait_ms / 1000

    def _within(
        self, seconds: float, looks: Sequence[FileChanges], progress: ProgressCallback | None
    ) -> SyncReport | None:
        """The report of a run that is given so long: here, if it is small or there is no other way; else elsewhere."""
        until = time.monotonic() + seconds
        size = sum(look.new_bytes for look in looks)
        if not self._one_shot and (size > _SMALL_BYTES or self._sync.is_outdated()):
            return self._flight.start(SyncRequest(looks=looks, progress=progress), within_s=seconds)
        stop = _after(_FEW_FILES if seconds else 0, lambda: time.monotonic() >= until)
        request = SyncRequest(looks=looks, progress=progress, stop=stop, wait_s=max(0.0, seconds))
        report = self._flight.run(request, within_s=seconds)
        if report and report.left and not self._one_shot:
            self._flight.start(SyncRequest())
        return report

    def _hindered(
        self, write_problem: StoreBusy | StoreUnavailable, looks: Sequence[FileChanges] | None
    ) -> RefreshResult:
        """What a search says when the index cannot be written: nothing more than that, if no note has changed."""
        said = (Issue(self._store.admin.place, f"may be behind the notes: {message_with_hint(write_problem)}"),)
        try:
            changed = self._sync.changed(looks or self.look())
        except (StoreBusy, StoreUnavailable):
            changed = 1
        if not changed:
            return RefreshResult(said if isinstance(write_problem, StoreUnavailable) else ())
        stale = f"{changed} changed file{'' if changed == 1 else 's'} could not be indexed: {write_problem}"
        return RefreshResult(said, stale, isinstance(write_problem, StoreUnavailable))

    def _about_rebuild(self, report: SyncReport) -> tuple[Issue, ...]:
        return tuple(issue for issue in report.issues if issue.path == self._store.admin.place)

    def _run(self, shared: Shared[SyncRequest]) -> SyncReport:
        """Make one run; an index that proves damaged is quarantined, and everything is indexed again."""
        request = merge_requests(shared.requests, lambda: self._flight.is_closing)
        force, looks, progress, stop, wait_s = request
        try:
            return self._sync.run(force=force, looks=looks, progress=progress, stop=stop, wait_s=wait_s)
        except CorruptIndex:
            self._store.admin.recreate()
            return self._sync.run(progress=progress, stop=stop, wait_s=wait_s)

    def _fill_for_search(self, progress: ProgressCallback | None, until: float) -> tuple[Issue, ...]:
        """Embed what is new, as far as there is time; leave the rest to a thread, or to ``mdrecall index``."""
        if self._filler is None or self._filler.is_complete():
            return ()
        if self._filler.is_instant:
            with suppress(StoreBusy), self._store.admin.write_lock("indexing", max(0.0, until - time.monotonic())):
                said = self._sync.fill(progress=progress, stop=lambda: time.monotonic() >= until)
                if said or self._filler.is_complete():
                    return said
        if not self._one_shot:
            self._fill_in_background()
        missing = self._filler.missing()
        if not missing:
            return self._met
        provider = self._filler.space.provider
        problem = f"has {missing} chunk{'' if missing == 1 else 's'} without a vector of {provider} yet"
        hint = "; run `mdrecall index`" if self._one_shot else ""
        return (*self._met, Issue(self._store.admin.place, problem + hint))

    def _fill_in_background(self) -> None:
        resting = self._filler is not None and self._filler.is_resting
        if not resting and (self._filling is None or not self._filling.is_alive()):

            def work() -> None:
                try:
                    with self._fill_lock:
                        self._met = self._sync.fill(stop=self._closing.is_set)
                except CorruptIndex as damage:
                    self._met = (Issue(self._store.admin.place, str(damage)),)

            self._filling = threading.Thread(target=work, name="mdrecall-fill", daemon=True)
            self._filling.start()

    def cancel_pending(self) -> None:
        """Let everything that is under way end where it can be taken up again, without waiting for it."""
        self._closing.set()

    def sync_changes(self, progress: ProgressCallback, stop: Stop) -> SyncReport:
        """Index what changed, and have missing vectors made in the background if that takes time."""
        looks = self.look()
        report = SyncReport()
        if not self._sync.is_up_to_date(looks):
            report = self._flight.run(SyncRequest(looks=looks, progress=progress, stop=stop)) or report
        if self._filler and not self._filler.is_instant and not self._filler.is_complete():
            self._fill_in_background()
        return report

    def close(self) -> None:
        """End everything that is under way where it can be taken up again; may be called twice."""
        self.cancel_pending()
        self._flight.close(_CLOSING_S)
        if self._filling is not None and self._filling is not threading.current_thread():
            self._filling.join(_CLOSING_S)


def _after(calls: int, stop: Stop) -> Stop:
    """A stop that is heeded only after so many calls."""
    left = calls

    def is_over() -> bool:
        nonlocal left
        left -= 1
        return left < 0 and stop()

    return is_over


def _left(count: int, one_shot: bool) -> str:
    if not count:
        return ""
    said = f"{count:,} changed file{' is' if count == 1 else 's are'} not indexed yet"
    return said + ("; `mdrecall index` finishes it" if one_shot else "")


def _said(looks: Sequence[FileChanges]) -> tuple[Issue, ...]:
    return tuple(issue for look in looks for issue in look.kept())


def _files(looks: Sequence[FileChanges]) -> str:
    count = sum(len(look.unsettled) + len(look.vanished) for look in looks)
    if not count:
        return "the index was made with other settings and is"
    return f"{count:,} changed file{' is' if count == 1 else 's are'}"
