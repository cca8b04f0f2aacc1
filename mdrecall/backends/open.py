"""The one place where parts are put together."""

import os
from typing import TYPE_CHECKING

from mdrecall.backends.builtin import BuiltinBackend
from mdrecall.backends.embedders import choose_embedders
from mdrecall.backends.freshness import Freshness
from mdrecall.backends.vectors import Meaning
from mdrecall.config.load import Loaded
from mdrecall.config.settings import Settings
from mdrecall.core.words import Analyser
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.engine.embedding import Caching, Filler, Fills
from mdrecall.engine.fallback import FillerWithFallback
from mdrecall.engine.indexer import ChunkSize, Indexer
from mdrecall.engine.meaning import MeaningLeg
from mdrecall.engine.searcher import Searcher
from mdrecall.engine.sync import Sync
from mdrecall.interfaces import Backend, Embedder
from mdrecall.sources.files import MemoryFiles
from mdrecall.store.sqlite import Owner, SqliteStore, VectorSearch

if TYPE_CHECKING:
    from mdrecall.engine.jobs import Jobs


def open_backend(loaded: Loaded, *, one_shot: bool = False) -> Backend:
    """The backend that the settings ask for, ready to answer; ``one_shot``, if it will answer only once."""
    settings = loaded.settings
    files = MemoryFiles(settings, loaded.home)
    store = _store(settings, one_shot)
    analyser = Analyser()
    chunking = settings.memory_search.chunking
    indexer = Indexer(store, files, ChunkSize(chunking.tokens, chunking.overlap), analyser)
    meaning = _meaning(loaded, store) if settings.memory_search.store.vector.enabled else None
    filler = meaning.filler if meaning else None
    freshness = Freshness(settings, files, store, Sync(store, [indexer], filler), filler, one_shot=one_shot)
    if meaning is None:
        searcher = Searcher(store, analyser)
    else:
        searcher = Searcher(store, analyser, meaning.leg, why_not=meaning.chosen.instead)
    return BuiltinBackend(settings, files, store, freshness, searcher, meaning)


def _meaning(loaded: Loaded, store: SqliteStore) -> Meaning:
    chosen = choose_embedders(loaded)
    if not chosen.embedders:
        return Meaning(chosen)
    settings = loaded.settings
    cache = settings.memory_search.cache
    caching = Caching(cache.enabled, cache.max_entries)
    first = chosen.embedders[0]
    jobs = _jobs(settings, first)
    filler: Fills = Filler(store, first, caching, jobs=jobs)
    if len(chosen.embedders) > 1:
        filler = FillerWithFallback(
            Filler(store, first, caching, jobs=jobs),
            Filler(store, chosen.embedders[1], caching, keep=first.fingerprint),
        )
    seconds = settings.mdrecall.query_timeout_ms / 1000
    leg = MeaningLeg(
        store,
        chosen.embedders,
        older={"offline": OfflineEmbedder},
        seconds=seconds,
        why_none=lambda: filler.last_error,
    )
    return Meaning(chosen, filler, leg, jobs)


def _jobs(settings: Settings, embedder: Embedder) -> "Jobs | None":
    """Batch jobs, where they are switched on and the provider has them."""
    batch = settings.memory_search.remote.batch
    if not batch.enabled:
        return None
    from mdrecall.embed.remote.embedder import RemoteEmbedder
    from mdrecall.embed.remote.jobs import jobs_of
    from mdrecall.engine.jobs import JobRules, Jobs

    api = jobs_of(embedder) if isinstance(embedder, RemoteEmbedder) else None
    if api is None:
        return None
    least = settings.mdrecall.remote.batch_min_chunks
    poll_s, timeout_s = batch.poll_interval_ms / 1000, batch.timeout_minutes * 60.0
    return Jobs(api, JobRules(batch.wait, batch.concurrency, poll_s, timeout_s, least))


def _store(settings: Settings, one_shot: bool) -> SqliteStore:
    workspace = os.fsencode(os.path.realpath(settings.workspace)).decode("utf-8", "backslashreplace")
    owner = Owner(settings.agent_id, workspace)
    vectors = settings.mdrecall.vectors
    search = VectorSearch(
        vectors.engine, settings.memory_search.store.vector.extension_path, vectors.max_bytes, one_shot
    )
    return SqliteStore(settings.index_path, is_ours=settings.index_path_is_ours, owner=owner, search=search)
