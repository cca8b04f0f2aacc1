"""Opens backends: the one place where the parts are put together."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from mdrecall.config.files import UnresolvedValue
from mdrecall.config.load import STORE_DSN, Loaded
from mdrecall.config.settings import Settings
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.engine.builtin import BuiltinBackend
from mdrecall.engine.chunk_embedder import ChunkEmbedder, EmbedsChunks, FallbackEmbedder
from mdrecall.engine.conversations import deny_by_scope, open_files
from mdrecall.engine.embedders import Embedding, choose_embedders, languages_dir_of
from mdrecall.engine.indexer import Indexer, describe_index_format
from mdrecall.engine.refresh import IndexRefresh
from mdrecall.engine.sync_run import AnyIndexer, SyncRun, require_writable
from mdrecall.engine.vector_search import VectorSearcher
from mdrecall.engine.watch_loop import IndexWatcher, WatchPlan
from mdrecall.errors import ConfigError, PackageMissing, install_command
from mdrecall.notes.files import MemoryFiles
from mdrecall.notes.tombstones import TombstoneFiles, open_tombstones
from mdrecall.optional import import_extra
from mdrecall.store.sqlite import open_store
from mdrecall.text.words import Analyser
from mdrecall.types.documents import Issue

if TYPE_CHECKING:
    from mdrecall.engine.jobs import Jobs
    from mdrecall.engine.rerank import RerankCaller
    from mdrecall.engine.searcher import Searcher
    from mdrecall.extras.postgres import PostgresStore
    from mdrecall.interfaces import ChunkReader, DocumentWriter, Embedder, IndexedBackend, Source, Store
    from mdrecall.notes.watch import FollowedFiles


# A listing that the kernel vouches for is used for as many regular checks: to look at 2,000 files takes 10 ms, which a
# process that nobody asks anything would otherwise spend every minute.
_CHECKS_PER_LISTING = 5
# What the status says then.
_KEPT = "Conversations are sent to no server; words find them. To allow it, add sessions to memorySearch.sources."
# A qmd that is about to report what is wrong is given this much longer than its time limit.
_GRACE_S = 0.1


def open_backend(loaded: Loaded, *, one_shot: bool = False) -> IndexedBackend:
    """Open the backend that the settings ask for; with ``one_shot`` it will answer only once."""
    if loaded.settings.memory.backend == "qmd":
        return _open_qmd_with_fallback(loaded, one_shot=one_shot)
    return open_builtin(loaded, one_shot=one_shot)


def _open_qmd_with_fallback(loaded: Loaded, *, one_shot: bool) -> IndexedBackend:
    """Open qmd's backend, with the builtin one to answer while qmd cannot."""
    from mdrecall.engine.fallback import Breaker, FallbackBackend

    settings = loaded.settings
    qmd = import_extra("qmd", "backend").QmdBackend(loaded, one_shot=one_shot)
    timeout_ms, wait_ms = settings.memory.qmd.limits.timeout_ms, qmd.update_wait_ms()
    opened = FallbackBackend(
        qmd,
        lambda: open_builtin(loaded, one_shot=one_shot),
        Breaker(os.path.join(qmd.state_dir, "outage.json"), settings.mdrecall.qmd.first_retry_seconds),
        deny=partial(deny_by_scope, settings),
        within_s=(timeout_ms + wait_ms) / 1000 + _GRACE_S,
        one_shot=one_shot,
        waits_for_start=settings.memory.qmd.update.waits_at_start,
    )
    opened.start()
    return opened


def open_builtin(loaded: Loaded, *, one_shot: bool = False) -> BuiltinBackend:
    """Open the builtin backend, whichever one the settings ask for."""
    settings = loaded.settings
    # What hosts keep on this machine does not go into an index that others share.
    files = MemoryFiles(settings, loaded.home) if loaded.shared_store else open_files(settings, loaded.home)
    store: Store = open_postgres(loaded) if loaded.shared_store else open_store(settings, one_shot=one_shot)
    analyser = Analyser()
    followed = None if one_shot else follow_files(loaded.settings, files)
    forgotten = open_tombstones(settings)
    indexers = partial(_build_indexers, loaded, followed or files, analyser, forgotten, store.chunks)
    embedding = _build_embedding(loaded, store)
    embedder, beside = embedding.chunk_embedder, embedding.beside_embedder
    sync = SyncRun(store, indexers, embedder, forgotten)
    refresh = IndexRefresh(settings, store, sync, embedder, beside, one_shot=one_shot, followed=followed)
    reranker = _build_reranker(loaded) if settings.mdrecall.rerank.provider else None

    def build_searcher() -> Searcher:
        # A command that does not search loads no part of the ranking.
        from mdrecall.engine.searcher import Searcher, read_ranking_options

        options = read_ranking_options(settings)._replace(collections=files.collections())
        return Searcher(
            store.chunks,
            analyser,
            options,
            embedding.vector_searcher,
            why_no_vectors=embedding.chosen.unusable_reason,
            reranker=reranker,
            hide=refresh.hide_forgotten,
            sources=settings.memory_search.sources,
            keeps_conversations=loaded.keeps_conversations,
        )

    watcher = _build_watcher(settings, store, refresh)
    return BuiltinBackend(settings, files, store, refresh, embedding, reranker, watcher, build_searcher)


def follow_files(settings: Settings, files: MemoryFiles) -> FollowedFiles | None:
    """Return the files for a process that stays alive, if the system and the settings let it follow them."""
    if sys.platform != "linux" or not settings.memory_search.sync.watch:
        return None
    from mdrecall.notes.watch import FollowedFiles

    return FollowedFiles(files, settings.mdrecall.watch.scan_seconds * _CHECKS_PER_LISTING)


def _build_reranker(loaded: Loaded) -> RerankCaller:
    """Return what asks the reranker of the settings; texts that leave this machine are sent without secrets."""
    from mdrecall.engine.embedders import create_reranker
    from mdrecall.engine.rerank import RerankCaller
    from mdrecall.text.redact import make_redactor

    own = loaded.settings.mdrecall.rerank
    redact = None if own.provider == "local" else make_redactor(loaded.settings.logging.redact_patterns)
    return RerankCaller(create_reranker(loaded), top_n=own.top_n, timeout_s=own.timeout_ms / 1000, redact=redact)


def _build_watcher(settings: Settings, store: Store, refresh: IndexRefresh) -> IndexWatcher:
    """Return what keeps the index up to date while its files change."""
    sync, own = settings.memory_search.sync, settings.mdrecall

    def plan(in_background: bool) -> WatchPlan | None:
        watches = sync.watch or not in_background
        every_s = [own.watch.scan_seconds] * watches + [sync.interval_minutes * 60] * bool(sync.interval_minutes)
        if not every_s:
            return None
        return WatchPlan(
            folders=lambda: refresh.folders if watches else (),
            is_ignored=lambda name: name.lower() in own.ignore,
            debounce_s=sync.watch_debounce_ms / 1000,
            scan_s=min(every_s),
        )

    def prepare() -> None:
        # Any read opens the index.
        store.chunks.count()
        require_writable(store.admin)

    return IndexWatcher(store.lock("watch"), plan, refresh.sync_changes, prepare=prepare)


def _build_indexers(
    loaded: Loaded,
    files: Source,
    analyser: Analyser,
    forgotten: TombstoneFiles,
    chunks: ChunkReader,
    documents: DocumentWriter,
) -> list[AnyIndexer]:
    """Return one for each source that is searched; all documents of an index have one format."""
    settings = loaded.settings
    size = settings.memory_search.chunking
    if "sessions" not in settings.memory_search.sources:
        return [Indexer(documents, files, size, analyser, forgotten=forgotten, chunks=chunks)]
    from mdrecall.engine.transcripts import TranscriptIndexer
    from mdrecall.notes.tombstones import open_masks
    from mdrecall.sessions.readers import open_transcripts

    masks = open_masks(settings)
    with_notes = "memory" in settings.memory_search.sources
    # Without the notes it is another index: those that were in it must leave it. Once conversations may be sent to the
    # embedder, it is another one, too: they have no vectors.
    kind = f"{'' if with_notes else '.only'}{'.kept' if loaded.keeps_conversations else ''}"
    index_format = describe_index_format(size, masks.of_secrets + kind)
    delta = settings.memory_search.sync.sessions
    problems = (f"has a pattern that is not used: {why}" for why in masks.problems)
    transcripts = TranscriptIndexer(
        documents,
        open_transcripts(settings),
        size,
        analyser,
        redact=masks.redact,
        thresholds=(delta.delta_bytes, delta.delta_messages),
        index_format=index_format,
        forgotten=forgotten,
        issues=tuple(Issue("logging.redactPatterns", problem) for problem in problems),
    )
    notes = Indexer(documents, files, size, analyser, index_format=index_format, forgotten=forgotten, chunks=chunks)
    return [notes, transcripts] if with_notes else [transcripts]


def _build_embedding(loaded: Loaded, store: Store) -> Embedding:
    chosen = choose_embedders(loaded)
    if not chosen.embedders:
        return Embedding(chosen)
    settings = loaded.settings
    jobs = _build_jobs(settings, chosen.embedders[0])
    searcher = VectorSearcher(
        store.vectors,
        chosen.embedders,
        older={"offline": lambda: OfflineEmbedder(languages_dir_of(loaded))},
        timeout_s=settings.mdrecall.query_timeout_ms / 1000,
        fallback_reason=chosen.unusable_reason,
        why_empty=lambda: embedder.last_failure(),
        note=chosen.note,
        beside=chosen.beside,
    )
    cache = settings.memory_search.cache
    kept = loaded.keeps_conversations
    most_cached = cache.max_entries if cache.enabled else 0
    make = partial(ChunkEmbedder, store, most_cached=most_cached, keeps_conversations=kept)
    if kept and searcher.is_remote and "sessions" in settings.memory_search.sources:
        chosen = chosen._replace(note=f"{chosen.note} {_KEPT}".strip())
    first, *others = chosen.embedders
    own = make(first, jobs=jobs, keep=others[0].provider if others else chosen.provider_to_keep)
    embedder: EmbedsChunks = FallbackEmbedder(own, make(others[0], keep=first.provider), searcher) if others else own
    beside = make(chosen.beside, keep=first.provider) if chosen.beside else None
    return Embedding(chosen, embedder, searcher, jobs, beside)


def _build_jobs(settings: Settings, embedder: Embedder) -> Jobs | None:
    """Return the batch jobs if they are switched on and the provider offers them."""
    batch = settings.memory_search.remote.batch
    if not batch.enabled:
        return None
    from mdrecall.embed.remote.embedder import RemoteEmbedder
    from mdrecall.embed.remote.jobs import batch_api_for
    from mdrecall.engine.jobs import Jobs

    api = batch_api_for(embedder) if isinstance(embedder, RemoteEmbedder) else None
    return Jobs(api, batch, settings.mdrecall.remote.batch_min_chunks) if api else None


def open_postgres(loaded: Loaded) -> PostgresStore:
    """Open the index in the database that the settings or the environment name."""
    own, at = loaded.settings.mdrecall.store, "mdrecall.store.dsn"
    dsn = loaded.environment.get(STORE_DSN, "").strip()
    try:
        dsn = dsn or loaded.credentials.reveal(own.dsn or "", at)
    except UnresolvedValue as error:
        raise ConfigError(str(error)) from error
    if not dsn:
        hint = f"Set {at} to a reference, or the variable {STORE_DSN}."
        raise ConfigError("No database is named for the index.", hint=hint)
    try:
        postgres = import_extra("postgres")
    except ImportError as error:
        hint = f"Install it with `{install_command('postgres')}`."
        raise PackageMissing(f"The index cannot be opened: {error}.", extra="postgres", hint=hint) from error
    _, name = loaded.shared_store or ("", loaded.settings.agent_id)
    place = postgres.this_machine(loaded.settings.workspace)
    store: PostgresStore = postgres.PostgresStore(postgres.Database(dsn, name), place=place)
    return store
