"""The builtin backend: files in a workspace, an index beside them, answers from both."""

import threading
from collections.abc import Callable
from typing import TypeVar

from mdrecall.config.settings import Settings
from mdrecall.engine.indexer import Indexer
from mdrecall.engine.searcher import Searcher
from mdrecall.errors import CorruptIndex, StoreBusy
from mdrecall.interfaces import Store
from mdrecall.sources.files import MemoryFiles
from mdrecall.sources.reader import read_memory_file
from mdrecall.types import (
    Issue,
    Probe,
    ProgressCallback,
    ReadResult,
    SearchAnswer,
    SourceCount,
    Status,
    SyncReport,
)

_T = TypeVar("_T")


class BuiltinBackend:
    """Answers for one workspace."""

    def __init__(
        self, settings: Settings, files: MemoryFiles, store: Store, indexer: Indexer, searcher: Searcher
    ) -> None:
        self._settings = settings
        self._files = files
        self._store = store
        self._indexer = indexer
        self._searcher = searcher
        self._syncing = threading.RLock()

    def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        explain: bool = False,
        progress: ProgressCallback | None = None,
    ) -> SearchAnswer:
        """The best snippets for a query; what changed on disk is indexed first (``sync.onSearch``)."""
        wanted = self._settings.memory_search.query
        issues = self._catch_up(progress) if query.strip() else ()
        answer = self._repairing(
            lambda: self._searcher.search(
                query,
                max_results=wanted.max_results if max_results is None else max(1, max_results),
                min_score=wanted.min_score if min_score is None else min_score,
                candidate_multiplier=wanted.hybrid.candidate_multiplier,
                explain=explain,
            )
        )
        if self._store.set_aside:
            problem = f"was damaged; it was set aside at {self._store.set_aside} and built anew"
            issues = (*issues, Issue(self._store.path, problem))
        action = self._why_empty(issues) if answer.reason == "index_empty" else answer.action
        return SearchAnswer(answer.results, reason=answer.reason, action=action, mode=answer.mode, issues=issues)

    def _catch_up(self, progress: ProgressCallback | None) -> tuple[Issue, ...]:
        """Index what changed; if another process keeps writing, the search goes on with what there is."""
        if not self._settings.memory_search.sync.on_search:
            return ()
        try:
            report = self.sync(progress=progress)
        except StoreBusy as busy:
            return (Issue(self._store.path, f"may be behind the notes: {busy}"),)
        return report.failed + report.kept

    def read_file(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        """Lines of a memory file, straight from the disk."""
        return read_memory_file(
            self._files,
            self._settings.workspace,
            path,
            from_line=from_line,
            lines=lines,
            max_bytes=self._settings.mdrecall.max_file_bytes,
        )

    def sync(self, *, force: bool = False, progress: ProgressCallback | None = None) -> SyncReport:
        """Bring the index in line with the files."""
        with self._syncing:
            if force and self.check():
                self._store.begin_anew()
            return self._repairing(lambda: self._indexer.sync(force=force, progress=progress))

    def status(self) -> Status:
        """The whole record, from the index and the settings; nothing is changed by asking."""
        search = self._settings.memory_search
        counts = self.counts()
        batch = search.remote.batch
        custom: dict[str, object] = {"searchMode": "fts-only", "wholeFolder": self._files.is_whole_folder()}
        if search.provider:
            custom["providerUnavailableReason"] = (
                f"memorySearch.provider is {search.provider}, but this version searches by keywords only."
            )
        if self._store.set_aside:
            custom["damagedIndexKeptAt"] = self._store.set_aside
        return Status(
            backend="builtin",
            provider="none",
            model=None,
            requested_provider=search.provider or "auto",
            files=sum(count.files for count in counts),
            chunks=sum(count.chunks for count in counts),
            dirty=self._repairing(self._indexer.is_dirty),
            workspace_dir=self._settings.workspace,
            db_path=self._store.path,
            extra_paths=tuple(extra.path for extra in search.extra_paths),
            sources=search.sources,
            source_counts=counts,
            cache={"enabled": search.cache.enabled, "entries": 0}
            | ({"maxEntries": search.cache.max_entries} if search.cache.max_entries else {}),
            fts={"enabled": True, "available": True},
            fallback=self._fallback(),
            vector={"enabled": search.store.vector.enabled, "available": False},
            batch={
                "enabled": batch.enabled,
                "failures": 0,
                "limit": 2,
                "wait": batch.wait,
                "concurrency": batch.concurrency,
                "pollIntervalMs": batch.poll_interval_ms,
                "timeoutMs": batch.timeout_minutes * 60_000,
            },
            custom=custom,
        )

    def _fallback(self) -> dict[str, str] | None:
        if self._settings.memory.backend == "builtin":
            return None
        return {"from": self._settings.memory.backend, "reason": "This version has the builtin backend only."}

    def counts(self) -> tuple[SourceCount, ...]:
        """How many files and chunks of each active source are indexed."""
        counted = {count.source: count for count in self._repairing(self._store.count_by_source)}
        sources = self._settings.memory_search.sources
        return tuple(counted.get(source, SourceCount(source, 0, 0)) for source in sources)

    def issues(self) -> tuple[Issue, ...]:
        """What a look at the files finds worth saying."""
        return self._repairing(self._indexer.issues)

    def check(self) -> tuple[str, ...]:
        """What is wrong with the index file; nothing, if it is sound."""
        try:
            return self._store.check()
        except CorruptIndex as damage:
            return (str(damage),)

    def probe_embedding(self) -> Probe:
        """Whether embeddings can be made."""
        return Probe(False, "This version searches by keywords only.")

    def probe_vectors(self) -> bool:
        """Whether vectors can be searched."""
        return False

    def close(self) -> None:
        """Let go of the index; may be called twice."""
        self._store.close()

    def _repairing(self, act: Callable[[], _T]) -> _T:
        """Do something with the index; if it proves damaged, set it aside, index everything anew, and do it again."""
        try:
            return act()
        except CorruptIndex:
            with self._syncing:
                self._store.begin_anew()
                self._indexer.sync()
            return act()

    def _why_empty(self, issues: tuple[Issue, ...]) -> str:
        workspace = self._settings.workspace
        issues = issues or self._files.scan().issues
        if issues:
            said = issues[0].problem.removeprefix(issues[0].path).strip()
            return f"No note could be indexed: {issues[0].path} {said.rstrip('.')}."
        if not self._settings.memory_search.sync.on_search and self._indexer.is_dirty():
            return "The notes are not indexed yet, and sync.onSearch is off: run `mdrecall index`."
        if self._files.is_whole_folder():
            return f"There is no Markdown file in {workspace}. Write a note, or name another folder with --workspace."
        return f"There is nothing to search yet: write notes into MEMORY.md or memory/ in {workspace}."
