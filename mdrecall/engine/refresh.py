"""Brings the index of one workspace up to date: before a search within a time limit, on request, and after changes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mdrecall.config.settings import Settings
from mdrecall.engine.background import SingleFlight
from mdrecall.engine.chunk_embedder import EmbedsChunks
from mdrecall.engine.indexer import STAMP_SETTLES_NS, FileChanges
from mdrecall.engine.sync_run import SyncRequest, SyncRun, merge_requests, require_writable
from mdrecall.errors import CorruptIndex, StoreBusy, StoreError, StoreUnavailable, message_with_hint
from mdrecall.types.documents import Issue, StoredChunk
from mdrecall.types.sync import ProgressCallback, Stop, SyncReport, never

if TYPE_CHECKING:
    from mdrecall.interfaces import Store
    from mdrecall.notes.watch import FollowedFiles

_T = TypeVar("_T")

# Takes a tenth of the processor if a thread of ordinary priority wants it too.
_NICENESS = 10
# Seconds before background work begins: a script that only asks a few questions has ended by then.
_QUIET_S = 3.0


class MissingVectors:
    """Decides when missing vectors are made, and by which thread."""

    def __init__(
        self,
        store: Store,
        embedder: EmbedsChunks | None,
        embed: Callable[[ProgressCallback | None, Stop], tuple[Issue, ...]],
        *,
        one_shot: bool,
    ) -> None:
        """``embed`` makes the vectors that are missing and returns the problems it met.

        A process that answers once (``one_shot``) leaves nothing to a thread, which would end with it.
        """
        self._store = store
        self._embedder = embedder
        self._embed = embed
        self._one_shot = one_shot
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # Held while the thread is started: one that is not running yet cannot be waited for.
        self._starting = threading.Lock()
        self._issues: tuple[Issue, ...] = ()

    @property
    def is_instant(self) -> bool:
        """True if making vectors costs neither time nor money."""
        return self._embedder is not None and self._embedder.is_instant

    def is_complete(self) -> bool:
        """True if no vector is missing, or none can be made."""
        return self._embedder is None or self._embedder.is_complete()

    def embed(self, progress: ProgressCallback | None = None, stop: Stop = never) -> tuple[Issue, ...]:
        """Make all vectors that are missing, and return the problems."""
        if self._embedder is None:
            return ()
        with self._lock:
            self._issues = self._embed(progress, lambda: stop() or self.closing.is_set())
            return self._issues

    def embed_for_search(self, progress: ProgressCallback | None, until: float) -> tuple[Issue, ...]:
        """Make vectors until the monotonic clock reaches ``until``, leave the rest to a thread, and return problems."""
        if self._embedder is None or self._embedder.is_complete():
            return ()
        if self.is_instant:
            with suppress(StoreBusy), self._store.admin.write_lock("indexing", max(0.0, until - time.monotonic())):
                issues = self._embed(progress, lambda: time.monotonic() >= until)
                if issues or self._embedder.is_complete():
                    return issues
        if not self._one_shot:
            self._start_thread()
        missing = self._embedder.count_missing()
        if not missing:
            return self._issues
        provider = self._embedder.space.provider
        problem = f"has {missing} chunk{'' if missing == 1 else 's'} without a vector of {provider} yet"
        hint = "; index again to add them" if self._one_shot else ""
        return (*self._issues, Issue(self._store.admin.place, problem + hint))

    def embed_in_background(self) -> None:
        """Make the vectors that are missing in a thread, if that takes time; not in a process that ends at once."""
        if not self._one_shot and not self.is_instant and not self.is_complete():
            self._start_thread(_QUIET_S)

    def close(self, timeout_s: float) -> None:
        """End the work in progress where it can be resumed; may be called twice."""
        self.closing.set()
        with self._starting:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _start_thread(self, pause_s: float = 0.0) -> None:
        is_resting = self._embedder is not None and self._embedder.is_resting
        with self._starting:
            if not is_resting and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(
                    target=self._work, args=(pause_s,), name="mdrecall-embed-missing", daemon=True
                )
                self._thread.start()

    def _work(self, pause_s: float) -> None:
        if self.closing.wait(pause_s):
            return
        if sys.platform == "linux":
            # Of this thread only: what is made in the background gives way to searches, here and in other processes.
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            self.embed()
        except (StoreError, OSError) as problem:
            # Nobody waits for it: the next change or search begins again.
            self._issues = (Issue(self._store.admin.place, str(problem)),)


# How long a closing memory waits for work in progress.
_CLOSING_S = 5.0
# This much text is indexed in about a tenth of a second, so the calling thread does it.
_SMALL_BYTES = 300_000
# This many files, up to ``_SMALL_BYTES``, are indexed before an answer even on a machine that stalls: they were just
# written.
_FEW_FILES = 8
# Text in which every word is a new one takes six times as long as any other, most of it for the vectors of the words.
_SLOWEST_BYTES_PER_S = 400_000


class RefreshResult(NamedTuple):
    """The state of the index before a search."""

    issues: tuple[Issue, ...] = ()
    stale: str = ""
    """What is not in the index yet; empty if it is up to date."""
    is_hindered: bool = False
    """True if the index could not be written, perhaps for a moment: another process may just have deleted it."""


class IndexRefresh:
    """Decides what is indexed when, and by which thread."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        runs: SyncRun,
        embedder: EmbedsChunks | None,
        beside: EmbedsChunks | None = None,
        *,
        one_shot: bool,
        followed: FollowedFiles | None = None,
    ) -> None:
        """``one_shot`` says that the process ends with the answer, so that nothing can be left to a thread.

        ``followed`` are the files if a search may trust that those without an event are as they were; a sync looks at
        all of them. ``beside`` is a slower embedder that no search waits for: its vectors are made in the background,
        or by a sync that waits for them.
        """
        self._settings = settings
        self._store = store
        self.runs = runs
        self._one_shot = one_shot
        self._followed = followed
        self._flight = SingleFlight(self._run)
        self._vectors = MissingVectors(store, embedder, runs.embed_missing, one_shot=one_shot)
        self._beside = MissingVectors(store, beside, partial(runs.embed_missing, embedder=beside), one_shot=one_shot)
        self._closing = threading.Event()
        self.folders: tuple[str, ...] = ()
        """The folders that the files were in at the last comparison."""
        self._compared: list[FileChanges] | None = None
        self._settled: tuple[object, ...] | None = None
        """The state of files and index in which there was nothing to do."""
        self._sessions: set[str] = set()

    def catch_up(
        self, progress: ProgressCallback | None, session_key: str, *, everything: bool = False
    ) -> RefreshResult:
        """Index what changed for as long as a search may wait; the result says what is left for later.

        With ``everything`` the smallest change counts, also in a transcript that has grown by a few messages only.
        """
        sync = self._settings.memory_search.sync
        begins = bool(session_key.strip()) and session_key not in self._sessions
        if not (sync.on_search or (sync.on_session_start and begins)):
            return RefreshResult()
        try:
            settled = self._settled
            result = self._refresh(progress, everything=everything)
            # As long as nothing changes, no vector can be missing that was not before.
            if settled is None or self._settled is not settled:
                self._beside.embed_in_background()
            if session_key.strip() and not result.stale:
                self._sessions.add(session_key)
            return result
        except (StoreUnavailable, StoreBusy) as problem:
            admin = self._store.admin
            if isinstance(problem, StoreBusy) or self._store.chunks.count() or not admin.recreate(problem):
                return self._explain_hindrance(problem, None)
        return self._refresh(progress, everything=everything)

    def repair(self, act: Callable[[], _T]) -> _T:
        """Use the index; if it proves damaged, quarantine it, index everything again, and repeat the call."""
        try:
            return act()
        except CorruptIndex:
            self._store.admin.recreate()
            with suppress(StoreBusy, StoreUnavailable):
                self._refresh(None)
            return act()

    def compare(self, *, everything: bool = False) -> list[FileChanges]:
        """Compare the files of each source with the index; with ``everything`` the smallest change counts."""
        changes = self.runs.compare(everything=everything)
        self.folders = tuple(folder for entry in changes for folder in entry.listing.folders)
        self._compared = changes if self._one_shot else None
        return changes

    def hide_forgotten(self, chunks: list[StoredChunk]) -> list[StoredChunk]:
        """Return chunks without a forgotten text: until an index is checked, it may hold some."""
        return self.runs.forgotten.hide(chunks, self._store.documents.state()[1])

    def list_issues(self) -> tuple[Issue, ...]:
        """Return the problems with the files of all sources; a process that answers once looks at them once."""
        found = self.runs.inspect(self._compared or self.compare())
        return tuple(issue for *_, issues in found.values() for issue in issues)

    def sync(self, *, force: bool, progress: ProgressCallback | None, stop: Stop, waits: bool) -> SyncReport:
        """Bring the index up to date, and embed every chunk; by the slower embedder only if the caller ``waits``."""
        if self._followed:
            self._followed.forget()
        report = self._flight.run(SyncRequest(force=force, progress=progress, stop=stop)) or SyncReport()
        require_writable(self._store.admin)
        if stop() or self._closing.is_set():
            return report
        issues = self._vectors.embed(progress, stop)
        if waits:
            issues += self._beside.embed(progress, stop)
        else:
            self._beside.embed_in_background()
        return report._replace(issues=tuple(dict.fromkeys((*report.issues, *issues))))

    def purge(self, progress: ProgressCallback | None) -> bool:
        """Leave nothing in the index of what was forgotten; False if a reader still keeps some of it."""
        report = self.sync(force=False, progress=progress, stop=never, waits=False)
        return not report.left and self.runs.erase()

    def sync_changes(self, progress: ProgressCallback, stop: Stop) -> SyncReport:
        """Index what changed, and make missing vectors in the background if that takes time."""
        changes = self.compare()
        report = SyncReport()
        if not self.runs.is_up_to_date(changes):
            report = self._flight.run(SyncRequest(changes=changes, progress=progress, stop=stop)) or report
        self._vectors.embed_in_background()
        self._beside.embed_in_background()
        return report

    def warm(self) -> None:
        """Index what changed, and embed it where that costs neither time nor money."""
        self._flight.run(SyncRequest(stop=self._closing.is_set))
        if self._vectors.is_instant:
            self._vectors.embed()

    def cancel_pending(self) -> None:
        """End the work in progress where it can be resumed, without waiting for it."""
        for closing in (self._closing, self._vectors.closing, self._beside.closing):
            closing.set()

    def close(self) -> None:
        """End the work in progress where it can be resumed; may be called twice."""
        self.cancel_pending()
        for part in (self._flight, self._vectors, self._beside):
            part.close(_CLOSING_S)
        if self._followed:
            self._followed.close()

    def _refresh(self, progress: ProgressCallback | None, *, everything: bool = False) -> RefreshResult:
        began = time.monotonic()
        # In one state of the index: on a server, each question by itself would take several round trips.
        with self._store.chunks.snapshot():
            state = self._read_state() if self._followed and not everything else None
            if state is not None and state == self._settled:
                return RefreshResult()
            changes = self.compare(everything=everything)
            is_behind = not self.runs.is_up_to_date(changes)
            if not is_behind and self._vectors.is_complete():
                has_settled = not any(entry.unsettled or entry.vanished or entry.listing.lost for entry in changes)
                self._settled = state if has_settled else None
                return RefreshResult(_list_kept_folders(changes))
            wait_s, is_outdated = self._choose_wait_s(), self.runs.is_outdated() or self.runs.is_unchecked()
        until = began + wait_s
        if not is_behind:
            return RefreshResult(_list_kept_folders(changes) + self._vectors.embed_for_search(progress, until))
        try:
            report = self._run_within(wait_s, changes, progress, is_outdated=is_outdated)
        except StoreBusy as problem:
            return self._explain_hindrance(problem, changes)
        if report is None:
            return RefreshResult(_list_kept_folders(changes), f"{_describe(changes)} being indexed")
        about_index = tuple(issue for issue in report.issues if issue.path == self._store.admin.place)
        issues = report.failed + report.kept + about_index + self._vectors.embed_for_search(progress, until)
        return RefreshResult(issues, _describe_left(report.left, self._one_shot))

    def _read_state(self) -> tuple[object, ...] | None:
        """Return what stays the same until a file, the index, or what was forgotten changes.

        None if that is not enough to tell: a transcript that has grown a little is indexed some time later.
        """
        sources, documents = self.runs.sources, self._store.documents
        if any(source.name == "sessions" for source in sources):
            return None
        # The index first: a file that another process indexes after a scan would seem to be gone.
        in_index = documents.known_stamps("memory", STAMP_SETTLES_NS), documents.state(), self._store.vectors.spaces()
        return *in_index, self.runs.forgotten.load(), [source.scan() for source in sources]

    def _choose_wait_s(self) -> float:
        """Return how long a search waits: longer if the index is empty, or outdated and the process answers once."""
        own = self._settings.mdrecall
        is_empty = not self._store.chunks.count()
        must_look = self._one_shot and (self.runs.is_outdated() or self.runs.is_unchecked())
        return (own.first_index_wait_ms if is_empty or must_look else own.search_wait_ms) / 1000

    def _run_within(
        self, seconds: float, changes: Sequence[FileChanges], progress: ProgressCallback | None, *, is_outdated: bool
    ) -> SyncReport | None:
        """Index for a limited time: in this thread if it is little or the process answers once, else in another."""
        until = time.monotonic() + seconds
        sizes = [size for entry in changes for size in entry.new_sizes()]
        if not self._one_shot and (sum(sizes) > _SMALL_BYTES or is_outdated):
            return self._flight.start(SyncRequest(changes=changes, progress=progress), within_s=seconds)
        most = max(_SMALL_BYTES, int(seconds * _SLOWEST_BYTES_PER_S)) if seconds else 0
        if is_outdated and any(stamp[0] > most for entry in changes for stamp in entry.listing.stamps.values()):
            return SyncReport(left=sum(len(entry.listing.stamps) for entry in changes))
        stop = _delay_stop(_count_few(sizes, most), lambda: time.monotonic() >= until)
        changes = [entry._replace(most_chars=most) for entry in changes]
        request = SyncRequest(changes=changes, progress=progress, stop=stop, wait_s=max(0.0, seconds))
        report = self._flight.run(request, if_idle=True)
        if report is None:
            return self._flight.start(SyncRequest(progress=progress), within_s=seconds)
        if report.left and not self._one_shot:
            self._flight.start(SyncRequest())
        return report

    def _explain_hindrance(
        self, problem: StoreBusy | StoreUnavailable, changes: Sequence[FileChanges] | None
    ) -> RefreshResult:
        """Return the result of a refresh that could not write; the index is stale only if a note has changed."""
        issues = (Issue(self._store.admin.place, f"may be behind the notes: {message_with_hint(problem)}"),)
        try:
            changed = sum(1 for _ in self.runs.find_changed(changes or self.compare()))
        except (StoreBusy, StoreUnavailable):
            changed = 1
        is_unavailable = isinstance(problem, StoreUnavailable)
        if not changed:
            return RefreshResult(issues if is_unavailable else ())
        stale = f"{changed} changed file{'' if changed == 1 else 's'} could not be indexed: {problem}"
        return RefreshResult(issues, stale, is_unavailable)

    def _run(self, requests: Sequence[SyncRequest], is_queued: bool) -> SyncReport:
        """Make one run; an index that proves damaged is quarantined, and everything is indexed again."""
        request = merge_requests(requests, lambda: self._flight.is_closing)
        try:
            return self.runs.run(request)
        except CorruptIndex:
            self._store.admin.recreate()
            return self.runs.run(request._replace(force=False, changes=None))


def _count_few(sizes: Sequence[int], most: int) -> int:
    """Return how many of the files that come first are indexed in any case; one that is too large takes no time."""
    totals = accumulate(size if size <= most else 0 for size in sizes[:_FEW_FILES])
    return sum(total <= most for total in totals) if most else 0


def _delay_stop(count: int, stop: Stop) -> Stop:
    """Return a ``Stop`` that takes effect only after ``count`` calls."""
    left = count

    def is_over() -> bool:
        nonlocal left
        left -= 1
        return left < 0 and stop()

    return is_over


def _list_kept_folders(changes: Sequence[FileChanges]) -> tuple[Issue, ...]:
    return tuple(issue for entry in changes for issue in entry.describe_kept())


def _describe(changes: Sequence[FileChanges]) -> str:
    count = sum(len(entry.unsettled) + len(entry.vanished) for entry in changes)
    if not count:
        return "the index was made with other settings, or before something was forgotten, and is"
    return f"{count:,} changed file{' is' if count == 1 else 's are'}"


def _describe_left(count: int, one_shot: bool) -> str:
    if not count:
        return ""
    hint = "; index again to finish" if one_shot else ""
    return f"{count:,} changed file{' is' if count == 1 else 's are'} not indexed yet{hint}"
