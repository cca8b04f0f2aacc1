"""The qmd backend: qmd finds the files, and their text is read from disk."""

import os
import threading
from functools import cached_property
from typing import TYPE_CHECKING

from mdrecall.config.load import Loaded
from mdrecall.core.ranking.query import parse_query
from mdrecall.engine.watch_loop import IndexWatcher, Timing, WatchPlan
from mdrecall.errors import BackendUnavailable, ProgramMissing, QueryError, message_with_hint
from mdrecall.locks import FileLock
from mdrecall.qmd.open import RunningQmd, open_export, open_parts, start_qmd, state_dir_of
from mdrecall.state_files import make_private_folder
from mdrecall.types import (
    Issue,
    Probe,
    ProgressCallback,
    SearchAnswer,
    SearchRequest,
    SourceCount,
    Status,
    Stop,
    SyncReport,
    never,
)

if TYPE_CHECKING:
    # A search without qmd needs none of these, so they are imported only when qmd is started.
    from mdrecall.qmd.export import SessionExport
    from mdrecall.qmd.status import QmdParts
    from mdrecall.qmd.updater import Updater
    from mdrecall.types.note_map import NearNote, NoteMap


class QmdBackend:
    """Answers for one workspace through a separate qmd, which is started when it is first needed."""

    def __init__(self, loaded: Loaded, *, one_shot: bool) -> None:
        settings = loaded.settings
        self._loaded = loaded
        self._settings = settings
        self._one_shot = one_shot
        self._lock = threading.Lock()
        self._running: RunningQmd | None = None
        self._closed = False
        lock_path = os.path.join(state_dir_of(settings), "watch.lock")
        self.watch = IndexWatcher(
            FileLock(lock_path),
            self._plan_watch,
            self._sync_changes,
            prepare=lambda: make_private_folder(os.path.dirname(lock_path)),
        )
        self.index = QmdIndex(self)

    def start(self) -> None:
        """Start qmd, its server and its updates, which takes long. A failure is reported by the first search."""
        try:
            running = self.ensure_running()
            if running.server is not None:
                running.server.warm_up()
            running.updater.start()
        except BackendUnavailable:
            return

    def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the best passages for a query; raise ``BackendUnavailable``."""
        if not request.query.strip():
            raise QueryError("The query is blank.", hint="Say in a few words what to look for.")
        if not parse_query(request.query):
            from mdrecall.core.ranking.stages import NO_SEARCHABLE_WORDS
            from mdrecall.qmd.answers import mark_answer

            return mark_answer(NO_SEARCHABLE_WORDS, "search")
        return self.ensure_running().answers.answer(request)

    def probe_search(self) -> None:
        """Search for a word as a request would; raise ``BackendUnavailable``."""
        self.ensure_running().answers.probe()

    def sync(
        self,
        *,
        force: bool = False,
        progress: ProgressCallback | None = None,
        stop: Stop = never,
        session: str = "",
        waits: bool = True,
    ) -> SyncReport:
        """Let qmd read the files and make missing vectors, unless it has done so a moment ago and nothing has changed.

        With ``force`` every collection is added again.
        """
        if session and not self._settings.memory.qmd.sessions.enabled:
            return SyncReport()
        if not waits:
            self.ensure_running().updater.catch_up(0.0, None)
            return SyncReport(left=1)
        from mdrecall.qmd.status import compare_hashes

        running, database = self.ensure_running(), self.parts.database
        before = database.hashes()
        if not force and running.updater.is_current():
            return compare_hashes(before, before, (), self.parts.paths)
        issues = running.collections.rebuild(stop=stop) if force else ()
        report = running.updater.run("manual", force=True, progress=progress, stop=stop)
        all_issues = (*issues, *report.issues)
        return compare_hashes(before, database.hashes(), all_issues, self.parts.paths)._replace(rebuilt=force)

    def status(self) -> Status:
        """Return the whole record; qmd is not run."""
        return self.parts.status.build(self._find_updater())

    def close(self) -> None:
        """End every process that was started here; may be called twice."""
        with self._lock:
            self._closed = True
        self.watch.stop()
        self.stop()
        self.watch.close()

    @cached_property
    def parts(self) -> "QmdParts":
        """The parts that work without qmd."""
        return open_parts(self._loaded, self.watch.status)

    def ensure_running(self) -> RunningQmd:
        """Return the running parts, starting them first if necessary; raise ``BackendUnavailable``."""
        with self._lock:
            if self._closed:
                raise BackendUnavailable("The memory is closed.")
            if self._running is None:
                self._running = start_qmd(self._loaded, self._one_shot, lambda: self.parts)
            return self._running

    def open_export(self) -> "SessionExport | None":
        """Return what exports the transcripts, if they are to be exported."""
        return open_export(self._loaded)

    def stop(self) -> None:
        """End every process that was started here. The next call starts them again."""
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return
        if running.server is not None:
            running.server.close()
        # Before the updater, which may be waiting for a process of another thread.
        running.program.close()
        running.updater.close()

    def _find_updater(self) -> "Updater | str":
        """Return what updates qmd's index, or why there is none."""
        from mdrecall.qmd.command import find_program

        try:
            running = self.ensure_running()
            find_program(running.program.command, running.program.env)
        except ProgramMissing as error:
            return str(error)
        except BackendUnavailable as error:
            return message_with_hint(error)
        return running.updater

    def _plan_watch(self, in_background: bool) -> WatchPlan | None:
        from mdrecall.qmd.collection_plan import list_folders
        from mdrecall.sources.transcripts.readers import open_transcripts

        sync, own = self._settings.memory_search.sync, self._settings.mdrecall
        if in_background and not sync.watch:
            return None
        collections = self.parts.collections
        has_sessions = any(entry.kind == "sessions" for entry in collections)

        def folders() -> tuple[str, ...]:
            transcripts = open_transcripts(self._settings).scan().folders if has_sessions else ()
            return (*list_folders(collections, own.ignore), *transcripts)

        return WatchPlan(
            folders=folders,
            is_ignored=lambda name: name.lower() in own.ignore,
            timing=Timing(sync.watch_debounce_ms / 1000, float(own.watch.scan_seconds)),
        )

    def _sync_changes(self, progress: ProgressCallback, stop: Stop) -> SyncReport:
        return self.sync(progress=progress) if self.ensure_running().updater.is_behind() else SyncReport()


class QmdIndex:
    """Inspects and maintains qmd's index."""

    def __init__(self, backend: QmdBackend) -> None:
        self._backend = backend

    def counts(self) -> tuple[SourceCount, ...]:
        return self._backend.parts.status.counts()

    def issues(self) -> tuple[Issue, ...]:
        found = self._backend.parts.files.scan().issues
        try:
            return (*found, *self._backend.ensure_running().collections.issues)
        except BackendUnavailable:
            return found

    def check(self) -> tuple[str, ...]:
        return self._backend.parts.status.check()

    def sizes(self) -> list[tuple[str, int]]:
        return self._backend.parts.status.index_sizes()

    def reset(self) -> None:
        """Delete qmd's index. Its configuration, its models and the notes stay."""
        self._backend.stop()
        for path, _ in self.sizes():
            os.unlink(path)

    def purge(self, progress: ProgressCallback | None = None) -> bool:
        """Delete qmd's index, which qmd builds again, and export the transcripts without what was forgotten."""
        self.reset()
        if export := self._backend.open_export():
            export.run()
        return True

    def probe_embedding(self) -> Probe:
        """Check that qmd has vectors, which it makes itself with its own models."""
        return self._backend.parts.status.probe()

    def probe_vectors(self) -> bool:
        return self._backend.parts.status.probe().ok

    def find_text(self, path: str) -> str | None:
        return None

    def draw_map(self) -> "NoteMap":
        """Return an empty map: qmd keeps the vectors of its notes to itself."""
        from mdrecall.types.note_map import NoteMap

        return NoteMap(reason="The backend is qmd, which keeps its vectors to itself.")

    def find_near(self, path: str, count: int) -> "tuple[NearNote, ...]":
        return ()
