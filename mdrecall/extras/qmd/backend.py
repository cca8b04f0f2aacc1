"""The qmd backend: qmd finds the files, and their text is read from disk.

The modules that run qmd are imported only if there is a qmd.
"""

import os
import threading
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.config.load import Loaded
from mdrecall.engine.watch_loop import IndexWatcher, WatchPlan
from mdrecall.errors import BackendUnavailable, ProgramMissing, QueryError, message_with_hint
from mdrecall.extras.qmd import process
from mdrecall.extras.qmd.process import Program, find_program, index_path
from mdrecall.locks import FileLock
from mdrecall.search.query import parse_query
from mdrecall.state_files import make_private_folder
from mdrecall.types.documents import Issue
from mdrecall.types.search import SearchAnswer, SearchRequest
from mdrecall.types.sync import ProgressCallback, Status, Stop, SyncReport, never

if TYPE_CHECKING:
    from mdrecall.extras.qmd.answers import QmdAnswers
    from mdrecall.extras.qmd.collections import Collections
    from mdrecall.extras.qmd.export import SessionExport
    from mdrecall.extras.qmd.index import QmdIndex
    from mdrecall.extras.qmd.mcporter import Mcporter
    from mdrecall.extras.qmd.session import Session
    from mdrecall.extras.qmd.update import Updater


class RunningQmd(NamedTuple):
    """The parts of the backend that run qmd."""

    program: Program
    collections: "Collections"
    updater: "Updater"
    answers: "QmdAnswers"
    server: "Session | Mcporter | None"


class QmdBackend:
    """Answers for one workspace through a separate qmd, which is started when it is first needed."""

    def __init__(self, loaded: Loaded, *, one_shot: bool) -> None:
        self._loaded = loaded
        self._settings = loaded.settings
        self._one_shot = one_shot
        self._lock = threading.Lock()
        self._running: RunningQmd | None = None
        self._closed = False
        self.state_dir = process.state_dir_of(loaded.settings)
        """The folder for mdrecall's own files beside the index."""
        self.watch = IndexWatcher(
            FileLock(os.path.join(self.state_dir, "watch.lock")),
            self._plan_watch,
            self._sync_changes,
            prepare=lambda: make_private_folder(self.state_dir),
        )

    @cached_property
    def index(self) -> "QmdIndex":
        """The index, which can be inspected without qmd."""
        from mdrecall.extras.qmd.index import QmdIndex

        return QmdIndex(self._loaded, list_setup_issues=self._list_setup_issues, stop=self.stop)

    def update_wait_ms(self) -> int:
        """Return how long a search may wait for an index update before its own time limit starts."""
        if not self._one_shot:
            return 0
        rules = self._settings.memory.qmd.update
        if rules.waits_at_start:
            from mdrecall.extras.qmd.update import find_boot_limit

            return int(1000 * find_boot_limit(rules.update_timeout_ms / 1000))
        has_index = os.path.exists(index_path(self._settings.qmd_dir))
        return self._settings.memory.qmd.limits.timeout_ms if has_index else self._settings.mdrecall.first_index_wait_ms

    def start(self) -> None:
        """Start qmd, its server and its updates, which takes long. A failure is reported by the first search."""
        with suppress(BackendUnavailable):
            running = self.ensure_running()
            if running.server is not None:
                running.server.warm_up()
            running.updater.start()

    def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the best passages for a query; raise ``BackendUnavailable``."""
        if not request.query.strip():
            raise QueryError("The query is blank.", hint="Say in a few words what to look for.")
        if not parse_query(request.query):
            from mdrecall.extras.qmd.answers import mark_answer
            from mdrecall.search.stages import NO_SEARCHABLE_WORDS

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
        waits_for_encoder: bool = False,
    ) -> SyncReport:
        """Let qmd read what has changed and make missing vectors; with ``force`` every collection is added again."""
        running = self.ensure_running()
        before = self.index.database.hashes()
        if not force and running.updater.is_current():
            return self.index.report_changes(before)
        issues = running.collections.rebuild(stop=stop) if force else ()
        report = running.updater.run("manual", force=True, progress=progress, stop=stop)
        return self.index.report_changes(before, (*issues, *report.issues))._replace(rebuilt=force)

    def status(self) -> Status:
        """Return the whole record; qmd is not run."""
        return self.index.build_status(self._find_updater(), self.watch.status())

    def close(self) -> None:
        """End every process that was started here; may be called twice."""
        with self._lock:
            self._closed = True
        self.watch.stop()
        self.stop()
        self.watch.close()

    def ensure_running(self) -> RunningQmd:
        """Return the running parts, starting them first if necessary; raise ``BackendUnavailable``."""
        with self._lock:
            if self._closed:
                raise BackendUnavailable("The memory is closed.")
            if self._running is None:
                self._running = self._start_qmd()
            return self._running

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

    def _start_qmd(self) -> RunningQmd:
        """Make the parts that run qmd; raise ``ProgramMissing`` at once if there is none."""
        settings, home = self._settings, self._loaded.home
        env = process.prepare(settings.qmd_dir, self._loaded.environment, home=home)
        command = process.parse_command(settings.memory.qmd.command, home=home)
        find_program(command, env)

        from mdrecall.extras.qmd.answers import QmdAnswers
        from mdrecall.extras.qmd.collections import Collections
        from mdrecall.extras.qmd.export import open_export
        from mdrecall.extras.qmd.search import QmdSearch

        program = Program(command, env=env)
        require = partial(process.require_version, program, os.path.join(self.state_dir, "version.json"))
        index, export = self.index, open_export(self._loaded)
        collections = Collections(program, index.collections, settings, index.database, require)
        updater = self._make_updater(program, collections, export)
        server = self._open_server(program)
        search = QmdSearch(program, collections, server)
        wait_ms = self.update_wait_ms
        answers = QmdAnswers(settings, index, updater, search, export, one_shot=self._one_shot, update_wait_ms=wait_ms)
        return RunningQmd(program, collections, updater, answers, server)

    def _make_updater(self, program: Program, collections: "Collections", export: "SessionExport | None") -> "Updater":
        from mdrecall.extras.qmd.update import Embedding, IndexUpdate, Updater

        settings, state_dir = self._settings, self.state_dir
        rules = settings.memory.qmd.update
        timeout_s = rules.update_timeout_ms / 1000
        update = IndexUpdate(program, collections, export, state_dir=state_dir, timeout_s=timeout_s)
        embedding = None
        if settings.memory.qmd.search_mode != "search":
            state_path = os.path.join(state_dir, "embed.json")
            lock_path = os.path.join(settings.shared_dir, "qmd-embed.lock")
            embedding = Embedding(program, rules, state_path=state_path, lock_path=lock_path)
        is_configured = self._loaded.values["memory.qmd.update.debounceMs"].origin != "default"
        return Updater(collections, update, embedding, rules, debounces_keywords=is_configured)

    def _open_server(self, qmd: Program) -> "Session | Mcporter | None":
        """Return the client of a server that keeps running."""
        settings = self._settings
        mcporter, index = settings.memory.qmd.mcporter, index_path(settings.qmd_dir)
        if mcporter.enabled:
            from mdrecall.extras.qmd.mcporter import Mcporter

            program = Program(("mcporter",), env=self._loaded.environment)
            folder = os.path.join(self.state_dir, "mcporter")
            return Mcporter(program, qmd, mcporter, folder=folder, index=index)
        if self._one_shot or not settings.mdrecall.qmd.session:
            return None
        from mdrecall.extras.qmd.session import Session

        return Session(qmd.command, env=qmd.env, index=index)

    def _find_updater(self) -> "Updater | str":
        """Return what updates qmd's index, or why there is none."""
        try:
            running = self.ensure_running()
            find_program(running.program.command, running.program.env)
        except ProgramMissing as error:
            return str(error)
        except BackendUnavailable as error:
            return message_with_hint(error)
        return running.updater

    def _list_setup_issues(self) -> tuple[Issue, ...]:
        with suppress(BackendUnavailable):
            return self.ensure_running().collections.issues
        return ()

    def _plan_watch(self, in_background: bool) -> WatchPlan | None:
        from mdrecall.extras.qmd.collections import list_folders
        from mdrecall.sessions.readers import open_transcripts

        sync, own = self._settings.memory_search.sync, self._settings.mdrecall
        if in_background and not sync.watch:
            return None
        collections = self.index.collections
        has_sessions = any(entry.kind == "sessions" for entry in collections)

        def folders() -> tuple[str, ...]:
            transcripts = open_transcripts(self._settings).scan().folders if has_sessions else ()
            return (*list_folders(collections, own.ignore), *transcripts)

        return WatchPlan(
            folders=folders,
            is_ignored=lambda name: name.lower() in own.ignore,
            debounce_s=sync.watch_debounce_ms / 1000,
            scan_s=own.watch.scan_seconds,
        )

    def _sync_changes(self, progress: ProgressCallback, stop: Stop) -> SyncReport:
        return self.sync(progress=progress) if self.ensure_running().updater.is_behind() else SyncReport()
