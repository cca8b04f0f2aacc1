"""The builtin backend: files in a workspace, an index beside them, answers from both."""

import time
from collections.abc import Callable
from typing import TypeVar

from mdrecall.backends.embedding_status import Meaning
from mdrecall.config.settings import Settings
from mdrecall.engine.refresh import IndexRefresh, RefreshResult
from mdrecall.engine.searcher import Searcher
from mdrecall.engine.watch_loop import IndexWatcher
from mdrecall.errors import CorruptIndex
from mdrecall.interfaces import Store
from mdrecall.sources.files import MemoryFiles
from mdrecall.sources.reader import read_memory_file
from mdrecall.types import (
    Conversation,
    Issue,
    Probe,
    ProgressCallback,
    ReadResult,
    SearchAnswer,
    SearchRequest,
    SourceCount,
    Status,
    Stop,
    SyncReport,
    WatchEvent,
    never,
)

_T = TypeVar("_T")


class BuiltinBackend:
    """Answers for one workspace."""

    def __init__(
        self,
        settings: Settings,
        files: MemoryFiles,
        store: Store,
        freshness: IndexRefresh,
        watcher: IndexWatcher,
        searcher: Searcher,
        meaning: Meaning | None,
    ) -> None:
        self._settings = settings
        self._files = files
        self._store = store
        self._freshness = freshness
        self._watcher = watcher
        self._searcher = searcher
        self._meaning = meaning

    def search(self, request: SearchRequest) -> SearchAnswer:
        """The best snippets for a query; what changed on disk is indexed first (``sync.onSearch``)."""
        issues, stale = self._caught_up(request) if request.query.strip() else ((), "")
        answer = self._repairing(lambda: self._searcher.search(request, now_ms=time.time() * 1000))
        if answer.reason == "index_empty" and not stale and self._settings.memory_search.sync.on_search:
            # The index may have been deleted since it was brought up to date.
            issues, stale = self._caught_up(request)
            answer = self._repairing(lambda: self._searcher.search(request, now_ms=time.time() * 1000))
        if self._store.health.quarantined_path:
            problem = f"was damaged; it was set aside at {self._store.health.quarantined_path} and built anew"
            issues = (*issues, Issue(self._store.admin.place, problem))
        if self._store.health.write_problem and not any(issue.path == self._store.admin.place for issue in issues):
            issues = (*issues, Issue(self._store.admin.place, f"is not written: {self._store.health.write_problem}"))
        action = self._why_empty(issues, stale) if answer.reason == "index_empty" else answer.action
        return answer.replace(action=action, stale=stale, issues=issues)

    def _caught_up(self, request: SearchRequest) -> tuple[tuple[Issue, ...], str]:
        """What there is to say of the index once it is in line with the files, or as far as it can be."""

        def catch_up() -> RefreshResult:
            return self._repairing(lambda: self._freshness.catch_up(request.progress, request.session_key))

        caught = catch_up()
        if caught.is_hindered:
            caught = catch_up()
        return caught.issues, caught.stale

    def sessions(self) -> list[Conversation]:
        """The transcripts of this agent, the last changed first."""
        from mdrecall.sources.transcripts.readers import open_transcripts
        from mdrecall.sources.transcripts.reading import list_conversations

        return list_conversations(open_transcripts(self._settings))

    def compacted(self, session: str) -> SyncReport:
        """Index a transcript whose conversation was just compacted, as the settings have it."""
        from mdrecall.sources.transcripts.readers import open_transcripts
        from mdrecall.sources.transcripts.reading import find_conversation

        settings = self._settings
        how = settings.compaction.post_index_sync
        search = settings.memory_search
        if how == "off" or "sessions" not in search.sources or not search.sync.sessions.post_compaction_force:
            return SyncReport()
        path = find_conversation(open_transcripts(settings), session).path
        within_s = 0.0 if how == "async" else None
        return self._repairing(lambda: self._freshness.sync_file(path, within_s=within_s))

    def read_session(self, session: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        """What is said in a transcript, straight from the disk."""
        from mdrecall.core.redact import redactor
        from mdrecall.sources.transcripts.readers import open_transcripts
        from mdrecall.sources.transcripts.reading import read_transcript

        source = open_transcripts(self._settings)
        redact = redactor(self._settings.logging.redact_patterns).redact
        return read_transcript(source, session, redact, from_line=from_line, lines=lines)

    def read_file(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        """Lines of a memory file, or of a transcript if those are searched, straight from the disk."""
        if "sessions" in self._settings.memory_search.sources:
            from mdrecall.sources.transcripts.readers import open_transcripts

            if open_transcripts(self._settings).owns(path):
                return self.read_session(path, from_line=from_line, lines=lines)
        return read_memory_file(
            self._files,
            self._settings.workspace,
            path,
            from_line=from_line,
            lines=lines,
            max_bytes=self._settings.mdrecall.max_file_bytes,
        )

    def sync(self, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never) -> SyncReport:
        """Bring the index in line with the files; ``force`` builds it anew beside the one that answers."""
        report = self._repairing(lambda: self._freshness.sync(force=force, progress=progress, stop=stop))
        if self._meaning is None:
            return report
        chosen = self._meaning.chosen
        said = (Issue(chosen.wanted, f"cannot be used: {chosen.unusable_reason}"),) if chosen.unusable_reason else ()
        left = self._repairing(self._unembedded)
        return report._replace(issues=(*report.issues, *said), unembedded=left)

    def _unembedded(self) -> int:
        filler = self._meaning.filler if self._meaning else None
        if filler is None:
            return self._store.chunks.count()
        return filler.missing() if filler.last_error else 0

    def warm(self) -> None:
        """Be ready to stand in for another backend: index what has changed, and embed it where that costs nothing."""
        self._repairing(self._freshness.warm)

    def watch(self) -> None:
        """Follow the files in the background, as the settings have it, until the memory is closed."""
        self._watcher.start()

    def follow(self, tell: Callable[[WatchEvent], None]) -> None:
        """Follow the files in this thread until ``stop_following``."""
        self._watcher.run(tell)

    def stop_following(self) -> None:
        """End ``follow``, from another thread or a signal."""
        self._watcher.stop()

    def status(self) -> Status:
        """The whole record, from the index and the settings; nothing is indexed by asking."""
        search = self._settings.memory_search
        counts = self.counts()
        meaning = self._meaning
        used = self._repairing(meaning.used) if meaning else None
        mode = self._searcher.options.mode
        lacks_vectors, files_changed = self._repairing(self._lacks_vectors), self._repairing(self._freshness.is_dirty)
        custom: dict[str, object] = {
            "searchMode": "fts-only" if mode == "keyword" else mode,
            "wholeFolder": self._files.is_whole_folder(),
            "watcher": self._watcher.status(),
            "folders": self._freshness.count_folders(),
            "filesChanged": files_changed,
        }
        if meaning and used is None:
            custom["providerUnavailableReason"] = meaning.chosen.unusable_reason
        if meaning and (note := f"{meaning.chosen.note} {meaning.chosen.hint}".strip()):
            custom["providerNote"] = note
        if self._store.health.quarantined_path:
            custom["damagedIndexKeptAt"] = self._store.health.quarantined_path
        if self._store.health.write_problem:
            custom["indexNotWritten"] = self._store.health.write_problem
        return Status(
            backend="builtin",
            provider=used.provider if used else "none",
            model=used.model if used else None,
            requested_provider=search.provider or "auto",
            files=sum(count.files for count in counts),
            chunks=sum(count.chunks for count in counts),
            dirty=lacks_vectors or files_changed,
            workspace_dir=self._settings.workspace,
            db_path=self._store.admin.place,
            extra_paths=tuple(extra.path for extra in search.extra_paths),
            sources=search.sources,
            source_counts=counts,
            cache={"enabled": search.cache.enabled, "entries": self._repairing(self._store.cache.count)}
            | ({"maxEntries": search.cache.max_entries} if search.cache.max_entries else {}),
            fts={"enabled": True, "available": True},
            fallback=self._repairing(self._fallback),
            vector=self._repairing(self._vector_status),
            batch=self._repairing(self._batch),
            custom=custom,
        )

    def _lacks_vectors(self) -> bool:
        return self._meaning is not None and self._meaning.lacks_vectors(self._store)

    def _vector_status(self) -> dict[str, object]:
        if self._meaning is None:
            return {"enabled": False, "available": False}
        return self._meaning.vectors(self._store, self._settings.memory_search.store.vector.extension_path)

    def _batch(self) -> dict[str, object]:
        search = self._settings.memory_search
        return self._meaning.batch(search, self._store) if self._meaning else {"enabled": False}

    def _fallback(self) -> dict[str, str] | None:
        if self._meaning is None:
            return None
        return self._meaning.fallback()

    def counts(self) -> tuple[SourceCount, ...]:
        """How many files and chunks of each active source are indexed."""
        counted = {count.source: count for count in self._repairing(self._store.chunks.count_by_source)}
        sources = self._settings.memory_search.sources
        return tuple(counted.get(source, SourceCount(source, 0, 0)) for source in sources)

    def issues(self) -> tuple[Issue, ...]:
        """What a look at the files finds worth saying."""
        return self._repairing(
            lambda: tuple(issue for look in self._freshness.look() for issue in (*look.listing.issues, *look.kept()))
        )

    def check(self) -> tuple[str, ...]:
        """What is wrong with the index file; nothing, if it is sound."""
        try:
            return self._store.admin.check()
        except CorruptIndex as damage:
            return (str(damage),)

    def index_files(self) -> list[tuple[str, int]]:
        """Every file that belongs to the index, with its size in bytes."""
        return self._store.admin.sizes()

    def reset(self) -> None:
        """Delete the index; the notes are not touched, and the next search or sync makes it again."""
        self._store.admin.destroy()

    def probe_embedding(self) -> Probe:
        """Whether embeddings can be made."""
        if self._meaning is None:
            return Probe(False, "Vectors are switched off (memorySearch.store.vector.enabled).")
        return self._meaning.probe()

    def probe_vectors(self) -> bool:
        """Whether vectors can be searched."""
        return self._meaning is not None and bool(self._repairing(self._vector_status)["available"])

    def cancel_pending(self) -> None:
        """Let everything that is under way end where it can be taken up again, without waiting for it."""
        self._freshness.cancel_pending()
        self._watcher.stop()
        if self._meaning is not None:
            self._meaning.interrupt()

    def close(self) -> None:
        """Let go of the index; may be called twice."""
        self.cancel_pending()
        self._freshness.close()
        self._watcher.close()
        if self._meaning is not None:
            self._meaning.close()
        self._store.admin.close()

    def _repairing(self, act: Callable[[], _T]) -> _T:
        """Do something with the index; if it proves damaged, set it aside, index everything anew, and do it again."""
        try:
            return act()
        except CorruptIndex:
            self._store.admin.recreate()
            self._freshness.catch_up_anyway()
            return act()

    def _why_empty(self, issues: tuple[Issue, ...], stale: str) -> str:
        workspace = self._settings.workspace
        if stale:
            return f"Nothing is indexed yet: {stale.rstrip('.')}. Ask again in a moment."
        issues = issues or self._files.scan().issues
        if issues:
            said = issues[0].problem.removeprefix(issues[0].path).strip()
            return f"No note could be indexed: {issues[0].path} {said.rstrip('.')}."
        if not self._settings.memory_search.sync.on_search and self._freshness.is_dirty():
            return "The notes are not indexed yet, and sync.onSearch is off: run `mdrecall index`."
        if self._files.is_whole_folder():
            return f"There is no Markdown file in {workspace}. Write a note, or name another folder with --workspace."
        return f"There is nothing to search yet: write notes into MEMORY.md or memory/ in {workspace}."
