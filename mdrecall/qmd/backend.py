"""The qmd backend: qmd finds the files, and what they say is read from disk."""

import os
import shutil
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.core.ranking.budget import fit_results
from mdrecall.core.ranking.diversity import interleave_sources
from mdrecall.core.ranking.query import parse_query
from mdrecall.core.ranking.stages import NO_MATCH, NO_SEARCHABLE_WORDS, answer_below_min_score
from mdrecall.engine.refresh import RefreshResult
from mdrecall.errors import BackendNotReady, BackendUnavailable, QueryError, ReadError, message_with_hint
from mdrecall.interfaces import Backend
from mdrecall.qmd.collection_plan import Collection
from mdrecall.qmd.collections import Collections
from mdrecall.qmd.database import QmdDatabase
from mdrecall.qmd.paths import CollectionPaths
from mdrecall.qmd.process import Program
from mdrecall.qmd.results import Results
from mdrecall.qmd.search import QmdSearch, SearchHits
from mdrecall.qmd.status import QmdStatus
from mdrecall.qmd.tool_client import Mode as QmdMode
from mdrecall.qmd.tool_client import ToolClient
from mdrecall.qmd.updater import Updater
from mdrecall.qmd.updates import Updates
from mdrecall.sources.files import MemoryFiles
from mdrecall.types import (
    Conversation,
    FileChange,
    Issue,
    Mode,
    Probe,
    ProgressCallback,
    ReadResult,
    SearchAnswer,
    SearchRequest,
    SearchResult,
    SourceCount,
    Status,
    Stop,
    SyncReport,
    WatchEvent,
    never,
)

_MODES: dict[Mode, QmdMode] = {"keyword": "search", "vector": "vsearch", "hybrid": "query"}
_ANSWERED: dict[QmdMode, Mode] = {"search": "keyword", "vsearch": "vector", "query": "hybrid"}
_UPDATE_WAIT_S = 0.5
_TRIED_WITH = "mdrecall"
_MOST_CHANGES = 100


class RunningQmd(NamedTuple):
    """What is started for one agent's qmd."""

    program: Program
    collections: Collections
    updater: Updater
    search: QmdSearch
    server: ToolClient | None
    warm: Callable[[], None]
    """Starts the server, so that the first question need not wait for it."""


class QmdBackend:
    """Answers for one workspace through one qmd of its own; started when it is first needed."""

    def __init__(
        self,
        settings: Settings,
        files: MemoryFiles,
        collections: tuple[Collection, ...],
        database: QmdDatabase,
        places: CollectionPaths,
        results: Results,
        start: Callable[[], RunningQmd],
        notes: Callable[[], Backend],
        *,
        one_shot: bool,
    ) -> None:
        """``start`` makes what runs qmd, and may raise ``BackendUnavailable``; ``notes`` reads what is on disk."""
        self._settings = settings
        self._files = files
        self._collections = collections
        self._database = database
        self._places = places
        self._results = results
        self._start = start
        self._notes = notes
        self._one_shot = one_shot
        self._lock = threading.Lock()
        self._running: RunningQmd | None = None
        self._closed = False
        self._starting: threading.Thread | None = None
        is_quick = settings.memory.qmd.search_mode == "search"
        self._updates = Updates(settings, collections, self._followed, is_quick=is_quick)
        self._state = QmdStatus(settings, files, collections, database, self._updates)
        self.watch = QmdWatch(self._updates)
        self.sessions = QmdSessions(settings, notes, self)
        self.admin = QmdAdmin(self._state, self)

    def start_in_background(self) -> None:
        """Begin with what takes long, so that the first search need not wait; what goes wrong is told to that."""
        self._starting = threading.Thread(target=self._begin, name="mdrecall-qmd-start", daemon=True)
        self._starting.start()

    def _begin(self) -> None:
        try:
            running = self._started()
            running.warm()
            running.updater.start()
        except BackendUnavailable:
            return

    def _started(self) -> RunningQmd:
        with self._lock:
            if self._closed:
                raise BackendUnavailable("The memory is closed.")
            if self._running is None:
                self._running = self._start()
            return self._running

    def search(self, request: SearchRequest) -> SearchAnswer:
        """The best passages for a query, within the time that is set; raises ``BackendUnavailable``."""
        query = request.query
        if not query.strip():
            raise QueryError("The query is blank.", hint="Say in a few words what to look for.")
        if not parse_query(query):
            return self._told(NO_SEARCHABLE_WORDS, "search")
        limits = self._settings.memory.qmd.limits
        until = time.monotonic() + limits.timeout_ms / 1000
        running = self._started()
        caught = self._catch_up(running, request.progress)
        if self._one_shot:
            until = time.monotonic() + limits.timeout_ms / 1000
        total = sum(self._state.documents().values())
        if not total:
            return self._told(self._nothing_indexed(running, caught), "search")
        if caught.stale and self._is_half_made(running, total):
            raise BackendNotReady("qmd is making its first index.")
        asked, degraded = self._mode(request.mode)
        most = max(1, min(limits.max_results, request.max_results or limits.max_results))
        names = [entry.name for entry in self._collections if request.source in (None, entry.source)]
        left_s = max(0.05, until - time.monotonic())
        found = running.search.search(query, asked, limit=2 * most, within_s=left_s, names=names)
        answer = self._answer(query, found, total, most, request.min_score)
        issues = (*caught.issues, *found.issues, *answer.issues)
        return self._told(answer.replace(stale=caught.stale, issues=issues, degraded=degraded), found.mode)

    def _catch_up(self, running: RunningQmd, progress: ProgressCallback | None) -> RefreshResult:
        if not self._settings.memory_search.sync.on_search:
            return RefreshResult()
        own, limits = self._settings.mdrecall, self._settings.memory.qmd.limits
        if not self._one_shot:
            return self._updates.catch_up(running.updater, min(_UPDATE_WAIT_S, limits.timeout_ms / 2000), progress)
        # A damaged index is set aside by this, and made again as if there had been none.
        running.updater.start(one_shot=True)
        is_first = not self._database.exists()
        # What is not in the index when this process ends is lost on it: the next one would begin with it again.
        patience_ms = own.first_index_wait_ms if is_first else max(own.search_wait_ms, limits.timeout_ms)
        return self._updates.catch_up(running.updater, patience_ms / 1000, progress)

    def _mode(self, wanted: Mode | None) -> tuple[QmdMode, str]:
        """How qmd is asked, and why that is not as it was wanted."""
        configured: QmdMode = self._settings.memory.qmd.search_mode  # type: ignore[assignment]
        asked = _MODES[wanted] if wanted else configured
        if asked == "search":
            return asked, ""
        if not self._state.probe().ok:
            return "search", "qmd has made no vectors yet; `mdrecall index` has it make them"
        return asked, ""

    def _answer(self, query: str, found: SearchHits, total: int, most: int, min_score: float | None) -> SearchAnswer:
        limits = self._settings.memory.qmd.limits
        issues: list[Issue] = []
        if found.mode == "search":
            results = self._results.from_keywords(found.hits, query, total, issues)
        else:
            results = self._results.from_models(found.hits, issues)
        kept = [result for result in results if min_score is None or result.score >= min_score]
        if not kept:
            return _explain_empty(results, min_score).replace(issues=tuple(issues))
        thinned = _thinned(kept, self._settings.mdrecall.max_per_file)
        return SearchAnswer(
            tuple(fit_results(interleave_sources(thinned, most), limits.max_injected_chars)), issues=tuple(issues)
        )

    def _nothing_indexed(self, running: RunningQmd, caught: RefreshResult) -> SearchAnswer:
        """Why there is nothing: no note, or an index that is not made yet, which another backend does not need."""
        if self._updates.last_error is not None:
            raise self._updates.last_error
        if caught.stale or running.updater.is_updating() or running.updater.is_behind():
            raise BackendNotReady("qmd is making its first index.")
        if caught.issues:
            first = caught.issues[0]
            return SearchAnswer(
                (), reason="index_empty", action=f"No note could be indexed: {first.path} {first.problem}."
            )
        workspace = self._settings.workspace
        action = f"There is nothing to search yet: write notes into MEMORY.md or memory/ in {workspace}."
        return SearchAnswer((), reason="index_empty", action=action)

    def _is_half_made(self, running: RunningQmd, total: int) -> bool:
        """Whether a first index is under way, and most notes are not in it yet."""
        is_first = running.updater.is_updating() and running.updater.status()["lastUpdateAt"] is None
        return is_first and total < len(self._files.scan().stamps) / 2

    def _told(self, answer: SearchAnswer, mode: QmdMode) -> SearchAnswer:
        return answer.replace(backend="qmd", mode=_ANSWERED[mode], provider="qmd", model="qmd")

    def probe_search(self) -> None:
        """Ask qmd for a word, as a search would; raises ``BackendUnavailable``."""
        running = self._started()
        running.updater.start(one_shot=True)
        within_s = self._settings.memory.qmd.limits.timeout_ms / 1000
        running.search.search(_TRIED_WITH, self._mode(None)[0], limit=1, within_s=within_s)

    def read(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        """Lines of a file of a collection, straight from the disk, or of any that the builtin backend reads."""
        from mdrecall.sources.reader import MAX_READ_UNITS, select_lines
        from mdrecall.sources.transcripts.readers import open_transcripts

        asked = path.strip()
        if self._settings.memory.qmd.sessions.enabled and open_transcripts(self._settings).owns(asked):
            return self.sessions.read(asked, from_line=from_line, lines=lines)
        place = self._places.of_path(asked) if asked and "\0" not in asked else None
        if place is not None and place.inside.endswith(".md"):
            try:
                return select_lines(place.shown, self._places.text(place), from_line, lines, MAX_READ_UNITS)
            except ReadError:
                if asked.startswith("qmd/"):
                    raise
        # What else there is to say of a path, the builtin backend says.
        return self._notes().read(path, from_line=from_line, lines=lines)

    def sync(self, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never) -> SyncReport:
        """Have qmd read the files, and make the vectors that are missing; ``force`` binds every collection anew."""
        running = self._started()
        before = self._database.hashes()
        issues = running.collections.rebuild(stop=stop) if force else ()
        report = running.updater.run("manual", force=True, progress=progress, stop=stop)
        after = self._database.hashes()
        return _compared(before, after, (*issues, *report.issues), self._shown)._replace(rebuilt=force)

    def _shown(self, collection: str, path: str) -> str:
        root = next((entry.root for entry in self._collections if entry.name == collection), "")
        relative = os.path.relpath(os.path.join(root, path), self._settings.workspace) if root else path
        return f"qmd/{collection}/{path}" if relative.startswith("..") or not root else relative

    def _followed(self) -> SyncReport:
        return self.sync() if self._started().updater.is_behind() else SyncReport()

    def status(self) -> Status:
        """The whole record; nothing is run by asking."""
        return self._state.status(self._updater())

    def update_later(self) -> None:
        """Have qmd read what changed without waiting for it."""
        self._updates.catch_up(self._started().updater, 0.0, None)

    def file_issues(self) -> tuple[Issue, ...]:
        """Return the problems that a scan of the files finds."""
        said = self._files.scan().issues
        try:
            return (*said, *self._started().collections.issues)
        except BackendUnavailable:
            return said

    def stop(self) -> None:
        """End every process that was started here; the next call starts them again."""
        self._stop()

    def _updater(self) -> Updater | str:
        """What updates qmd's index, or why there is nothing that does."""
        try:
            running = self._started()
        except BackendUnavailable as error:
            return message_with_hint(error)
        command, env = running.program.command, running.program.env
        if not command or not shutil.which(command[0], path=env.get("PATH", os.defpath)):
            return f"{command[0] if command else 'qmd'} is not installed."
        return running.updater

    def close(self) -> None:
        """End every process that was started here; may be called twice."""
        with self._lock:
            self._closed = True
        self._updates.stop_following()
        self._stop()
        self._updates.close()
        if self._starting is not None and self._starting is not threading.current_thread():
            self._starting.join()

    def _stop(self) -> None:
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return
        if running.server is not None:
            running.server.close()
        # First, since an update may be waiting for what another thread has the program do.
        running.program.close()
        running.updater.close()


class QmdWatch:
    """Keeps qmd's index up to date while the files change."""

    def __init__(self, updates: Updates) -> None:
        self._updates = updates

    def start(self) -> None:
        self._updates.follow_in_background()

    def run(self, notify: Callable[[WatchEvent], None]) -> None:
        self._updates.follow(notify)

    def stop(self) -> None:
        self._updates.stop_following()


class QmdSessions:
    """Transcripts are read by the builtin backend; qmd indexes what is exported of them."""

    def __init__(self, settings: Settings, notes: Callable[[], Backend], backend: QmdBackend) -> None:
        self._settings = settings
        self._notes = notes
        self._backend = backend

    def list_all(self) -> list[Conversation]:
        return self._notes().sessions.list_all()

    def read(self, session: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        return self._notes().sessions.read(session, from_line=from_line, lines=lines)

    def note_compaction(self, session: str) -> SyncReport:
        how = self._settings.compaction.post_index_sync
        if how == "off" or not self._settings.memory.qmd.sessions.enabled:
            return SyncReport()
        if how == "async":
            self._backend.update_later()
            return SyncReport(left=1)
        return self._backend.sync()


class QmdAdmin:
    """Inspects and maintains qmd's index."""

    def __init__(self, state: QmdStatus, backend: QmdBackend) -> None:
        self._state = state
        self._backend = backend

    def counts(self) -> tuple[SourceCount, ...]:
        return self._state.counts()

    def issues(self) -> tuple[Issue, ...]:
        return self._backend.file_issues()

    def check(self) -> tuple[str, ...]:
        return self._state.check()

    def index_sizes(self) -> list[tuple[str, int]]:
        return self._state.index_files()

    def reset(self) -> None:
        """Delete qmd's index; its configuration, its models and the notes stay."""
        self._backend.stop()
        for path, _ in self.index_sizes():
            os.unlink(path)

    def probe_embedding(self) -> Probe:
        """Check that qmd has vectors: it makes them itself, with its own models."""
        return self._state.probe()

    def probe_vectors(self) -> bool:
        return self._state.probe().ok


def _explain_empty(results: list[SearchResult], min_score: float | None) -> SearchAnswer:
    if not results or min_score is None:
        return NO_MATCH
    return answer_below_min_score(results[0].citation, results[0].score, min_score)


def _thinned(results: list[SearchResult], most: int | None) -> list[SearchResult]:
    """At most so many of one file, the best."""
    seen: dict[str, int] = {}
    kept = []
    for result in results:
        seen[result.path] = seen.get(result.path, 0) + 1
        if most is None or seen[result.path] <= most:
            kept.append(result)
    return kept


def _compared(
    before: dict[tuple[str, str], str],
    after: dict[tuple[str, str], str],
    issues: tuple[Issue, ...],
    shown: Callable[[str, str], str],
) -> SyncReport:
    added = [key for key in after if key not in before]
    changed = [key for key in after if key in before and before[key] != after[key]]
    removed = [key for key in before if key not in after]
    changes = [FileChange(shown(*key), "added") for key in added]
    changes += [FileChange(shown(*key), "changed") for key in changed]
    changes += [FileChange(shown(*key), "removed") for key in removed]
    unchanged = len(after) - len(added) - len(changed)
    return SyncReport(len(added), len(changed), len(removed), unchanged, issues=issues,
                      changes=tuple(changes[:_MOST_CHANGES]))  # fmt: skip
