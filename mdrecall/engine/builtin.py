"""The builtin backend: the files of a workspace, an index beside them, and answers from both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from mdrecall.config.settings import Settings
from mdrecall.engine.embedders import Embedding
from mdrecall.engine.refresh import IndexRefresh, RefreshResult
from mdrecall.engine.sync_run import require_notes
from mdrecall.engine.watch_loop import IndexWatcher
from mdrecall.errors import CorruptIndex, StoreBusy, StoreUnavailable, message_with_hint
from mdrecall.notes.clock import user_moment
from mdrecall.notes.files import MemoryFiles
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.store.common import order_counts
from mdrecall.types.documents import Issue
from mdrecall.types.search import SearchAnswer, SearchRequest, Visible
from mdrecall.types.sync import ContentSizes, Probe, ProgressCallback, SourceStatus, Status, Stop, SyncReport, never

# How often a search is made before an answer says that its index was taken away, or cannot be read.
_MOST_TRIES = 3

if TYPE_CHECKING:
    from mdrecall.engine.rerank import RerankCaller
    from mdrecall.engine.searcher import Searcher
    from mdrecall.interfaces import Embedder, Index, Store
    from mdrecall.types.documents import NearNote


class BuiltinBackend:
    """Answers for one workspace, and has the role ``Index`` too."""

    def __init__(
        self,
        settings: Settings,
        files: MemoryFiles,
        store: Store,
        refresh: IndexRefresh,
        embedding: Embedding,
        reranker: RerankCaller | None,
        watcher: IndexWatcher,
        build_searcher: Callable[[], Searcher],
    ) -> None:
        """``build_searcher`` is called at the first search."""
        self._settings = settings
        self._files = files
        self._store = store
        self._refresh = refresh
        self._embedding = embedding
        self._reranker = reranker
        self.watch = watcher
        self._build_searcher = build_searcher
        self._repair = refresh.repair

    @cached_property
    def _searcher(self) -> Searcher:
        return self._build_searcher()

    def indexes(self) -> Iterator[Index]:
        """Yield the index."""
        yield self

    def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the best passages for a query; files that changed are indexed first (``sync.onSearch``)."""
        try:
            return self._search(request)
        except StoreBusy as problem:
            # Another process deletes, replaces or repairs the index for longer than a search waits.
            stale = message_with_hint(problem)
            return SearchAnswer((), "index_empty", self._explain_empty((), stale), stale=stale)

    def _search(self, request: SearchRequest) -> SearchAnswer:
        # As the searcher, it is loaded by the first search.
        from mdrecall.engine.scope import find_visible_to

        has_sessions = "sessions" in self._settings.memory_search.sources
        if request.source is None and not self._settings.mdrecall.sessions.with_notes:
            request = request._replace(source="memory") if has_sessions and not request.session else request
        result = self._catch_up(request) if request.query.strip() else RefreshResult()
        visible = find_visible_to(self._settings, request, is_indexed=has_sessions)
        answer = self._search_index(request, visible)
        for _ in range(_MOST_TRIES):
            # What is wrong with the index itself, such as missing vectors, is no reason for it to be empty.
            notes_fail = any(issue.path != self._store.admin.place for issue in result.issues)
            if answer.reason != "index_empty" or result.stale or notes_fail or self._is_truly_empty():
                break
            # The index was deleted or replaced since it was brought up to date.
            result = self._catch_up(request)
            answer = self._search_index(request, visible)
        else:
            if self._store.admin.health()[1] is None:
                stale = result.stale or "the index is being deleted or replaced by another program"
                result = result._replace(stale=stale)
        issues = (*result.issues, *self._index_issues(result.issues))
        issues = visible.filter_issues(issues) if issues else ()
        action = self._explain_empty(issues, result.stale) if answer.reason == "index_empty" else answer.action
        if answer.reason in ("no_match", "below_min_score", "index_empty") and not result.stale:
            action = f"{action} {self._files.name_unsearched()}".strip()
        withheld = f"{visible.withheld} {answer.withheld}".strip()
        return answer.replace(action=action, stale=result.stale, issues=issues, withheld=withheld)

    def _is_truly_empty(self) -> bool:
        """True if the index is empty because there is nothing to index, or because searches do not look for changes."""
        if not self._settings.memory_search.sync.on_search:
            return True

        def has_nothing_to_index() -> bool:
            # Both in the same state of the index.
            with self._store.chunks.snapshot():
                is_empty = not self._store.chunks.count()
                return is_empty and not self._refresh.runs.is_behind(self._refresh.compare())

        try:
            return self._repair(has_nothing_to_index)
        except (StoreBusy, StoreUnavailable):
            return False

    def _search_index(self, request: SearchRequest, visible: Visible) -> SearchAnswer:
        now = user_moment(request.now, self._settings.defaults.user_timezone)

        def search() -> SearchAnswer:
            return self._repair(lambda: self._searcher.search(request, now=now, transcripts=visible.paths))

        # The connection broke, the vectors were just replaced, or a standby cancelled the transaction, perhaps again.
        for _ in range(_MOST_TRIES - 1):
            with suppress(StoreBusy, StoreUnavailable):
                return search()
        return search()

    def _catch_up(self, request: SearchRequest) -> RefreshResult:
        """Bring the index up to date as far as a search may wait; try twice if it could not be written.

        A search of conversations alone may look for what was just said in one.
        """
        asked, everything = (request.progress, request.session_key), request.source == "sessions"
        catch_up = partial(self._refresh.catch_up, *asked, everything=everything)
        result = self._repair(catch_up)
        return self._repair(catch_up) if result.is_hindered else result

    def _index_issues(self, known: tuple[Issue, ...]) -> tuple[Issue, ...]:
        """Return what is wrong with the index file, apart from what is known already."""
        admin, issues = self._store.admin, []
        quarantined_path, problem = admin.health()
        if quarantined_path:
            issues.append(Issue(admin.place, f"was damaged; it was moved to {quarantined_path} and rebuilt"))
        if problem and not any(issue.path == admin.place for issue in (*known, *issues)):
            issues.append(Issue(admin.place, f"is not written: {message_with_hint(problem)}"))
        return tuple(issues)

    def _explain_empty(self, issues: tuple[Issue, ...], stale: str) -> str:
        """Return why there is nothing to search, and what to do about it."""
        workspace = self._settings.workspace
        if stale:
            return f"Nothing is indexed yet: {stale.rstrip('.')}. Ask again in a moment."
        issues = issues or self._files.scan().issues
        if issues:
            problem = issues[0].problem.removeprefix(issues[0].path).strip()
            return f"No note could be indexed: {issues[0].path} {problem.rstrip('.')}."
        if not self._settings.memory_search.sync.on_search and self._refresh.runs.is_behind(self._refresh.compare()):
            return "The notes are not indexed yet, and sync.onSearch is off. Index them first."
        if self._files.is_whole_folder():
            return f"There is no Markdown file in {workspace}. Write a note first."
        return f"There is nothing to search yet: write notes into MEMORY.md or memory/ in {workspace}."

    def sync(
        self,
        *,
        force: bool = False,
        progress: ProgressCallback | None = None,
        stop: Stop = never,
        waits_for_encoder: bool = False,
    ) -> SyncReport:
        """Bring the index up to date; ``force`` builds a new one beside the one that answers."""
        waits = waits_for_encoder
        report = self._repair(lambda: self._refresh.sync(force=force, progress=progress, stop=stop, waits=waits))
        chosen = self._embedding.chosen
        if chosen.is_off:
            return report
        reason = chosen.unusable_reason
        unusable = (Issue(chosen.requested, f"cannot be used: {reason}"),) if reason else ()
        unembedded, unencoded = self._repair(self._count_missing)
        return report._replace(issues=(*report.issues, *unusable), unembedded=unembedded, unencoded=unencoded)

    def _count_missing(self) -> tuple[int, int]:
        """Return how many chunks lack a vector because the embedder fails, and how many lack those of the encoder."""
        embedder, beside = self._embedding.chunk_embedder, self._embedding.beside_embedder
        unencoded = beside.count_missing() if beside else 0
        if embedder is None:
            return self._store.chunks.count(), unencoded
        return embedder.count_missing() if embedder.last_error else 0, unencoded

    def warm(self) -> None:
        """Get ready to answer for another backend: index what changed, and embed it where that costs nothing."""
        self._repair(self._refresh.warm)

    def status(self) -> Status:
        """Return the whole record, from the index and the settings; nothing is indexed."""
        return self._repair(self._describe)

    def _describe(self) -> Status:
        from mdrecall.engine.embedding_status import describe_batch, describe_provider, explain_fallback

        search, embedding, admin = self._settings.memory_search, self._embedding, self._store.admin
        counts, used = self.counts(), embedding.find_embedder()
        sources = self._refresh.runs.inspect(self._refresh.compare())
        files_changed = any(is_behind for is_behind, *_ in sources.values())
        sizes, files = admin.content_sizes(), dict(admin.sizes())
        embedder = embedding.chunk_embedder
        lacks_vectors = embedder and self._store.chunks.count() and not embedder.is_complete()
        return Status(
            backend="builtin",
            provider=used.provider if used else "none",
            model=used.model if used else None,
            requested_provider=search.provider or "auto",
            files=sum(count.files for count in counts),
            chunks=sum(count.chunks for count in counts),
            dirty=files_changed or bool(lacks_vectors),
            workspace_dir=self._settings.workspace,
            db_path=admin.place,
            extra_paths=tuple(extra.path for extra in search.extra_paths),
            sources=search.sources,
            source_counts=tuple(_describe_source(count, sources.get(count.source), sizes) for count in counts),
            cache={"enabled": search.cache.enabled, "entries": sizes.cached, "maxEntries": search.cache.max_entries},
            fts={"enabled": True, "available": True},
            fallback=explain_fallback(embedding),
            vector=self._describe_vectors(),
            batch=describe_batch(embedding, search, self._store),
            custom=self._describe_custom(files_changed, describe_provider(embedding)),
            storage={
                "databaseBytes": files.get(admin.place, 0),
                "walBytes": files.get(f"{admin.place}-wal", 0),
                "reusableBytes": sizes.reusable,
                "embeddingCacheBytes": sizes.cache,
                "embeddingCacheEntries": sizes.cached,
            },
        )

    def _describe_identity(self) -> dict[str, object]:
        """Return if the index fits the settings, with OpenClaw's names. One that does not is rebuilt by a sync."""
        if not self._store.chunks.count():
            return {"status": "missing", "reason": "nothing is indexed yet"}
        if self._refresh.runs.is_outdated():
            return {"status": "mismatched", "reason": "made with other settings or by another version"}
        return {"status": "valid"}

    def _describe_custom(self, files_changed: bool, provider_state: dict[str, str]) -> dict[str, object]:
        mode, chosen = self._searcher.options.mode, self._embedding.chosen
        quarantined_path, problem = self._store.admin.health()
        custom: dict[str, object] = {
            "searchMode": "fts-only" if mode == "keyword" else mode,
            "wholeFolder": self._files.is_whole_folder(),
            "watcher": self.watch.status(),
            "folders": len(self._refresh.folders),
            "filesChanged": files_changed,
            "providerState": provider_state,
            "indexIdentity": self._describe_identity(),
        }
        if not chosen.embedders and not chosen.is_off:
            custom["providerUnavailableReason"] = chosen.unusable_reason
        more = {
            "providerNote": chosen.note,
            "leftOut": list(self._files.left_out),
            "reranker": self._reranker and self._reranker.name,
            "damagedIndexKeptAt": quarantined_path,
            "indexNotWritten": message_with_hint(problem) if problem else "",
        }
        return custom | {key: value for key, value in more.items() if value}

    def cancel_pending(self) -> None:
        """End everything that is in progress where it can be resumed, without waiting for it."""
        self._refresh.cancel_pending()
        self.watch.stop()
        for model in self._models():
            model.interrupt()

    def close(self) -> None:
        """Release the index; may be called twice."""
        self.cancel_pending()
        self._refresh.close()
        self.watch.close()
        for model in self._models():
            model.close()
        self._store.admin.close()

    def _models(self) -> Iterator[Embedder | RerankCaller]:
        yield from self._embedding.chosen.all
        if self._reranker:
            yield self._reranker

    def counts(self) -> tuple[SourceStatus, ...]:
        return order_counts(self._repair(self._store.chunks.count_by_source), self._settings.memory_search.sources)

    def issues(self) -> tuple[Issue, ...]:
        return self._repair(self._refresh.list_issues)

    def check(self) -> tuple[str, ...]:
        try:
            return self._store.admin.check()
        except CorruptIndex as damage:
            return (str(damage),)

    def sizes(self) -> list[tuple[str, int]]:
        return self._store.admin.sizes()

    def reset(self) -> None:
        require_notes(self._store, "Delete it there.")
        self._store.admin.destroy()

    def purge(self, progress: ProgressCallback | None = None) -> bool:
        return self._repair(lambda: self._refresh.purge(progress))

    def probe_embedding(self) -> Probe:
        from mdrecall.engine.embedding_status import probe_embedder

        chosen = self._embedding.chosen
        return probe_embedder(chosen.embedders[0]) if chosen.embedders else Probe(False, chosen.unusable_reason)

    def probe_vectors(self) -> bool:
        return bool(self._describe_vectors()["available"])

    def _describe_vectors(self) -> dict[str, Any]:
        from mdrecall.engine.embedding_status import describe_vectors

        vector = self._settings.memory_search.store.vector
        return self._repair(lambda: describe_vectors(self._embedding, self._store, vector))

    def find_text(self, path: str) -> str | None:
        """Return the text of a note that is on another machine; None if it is not indexed either."""
        _, _, has_notes = self._store.documents.state()
        if has_notes:
            return None
        from mdrecall.text.notes import join_chunks

        chunks = self._store.chunks
        with chunks.snapshot():
            own = (each.id for each in chunks.list_documents() if each.source == "memory" and each.path == path)
            text = join_chunks(chunks.load(chunks.chunks_of(own)))
        return open_tombstones(self._settings).load().mask(text, path) or None

    def find_near(self, path: str, count: int) -> tuple[NearNote, ...]:
        from mdrecall.engine.near import find_near

        return () if self._refresh.runs.is_unchecked() else find_near(self._store, self._embedding, path, count)


def _describe_source(
    count: SourceStatus, found: tuple[bool, int, tuple[Issue, ...]] | None, sizes: ContentSizes
) -> SourceStatus:
    is_behind, files, issues = found or (None, None, ())
    said, size = tuple(f"{issue.path}: {issue.problem}" for issue in issues), sizes.texts.get(count.source, 0)
    return count._replace(chunk_bytes=size, dirty=is_behind, eligible=files, issues=said)
