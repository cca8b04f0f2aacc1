"""The one place where parts are put together."""

import os
from typing import TYPE_CHECKING

from mdrecall.backends.builtin import BuiltinBackend
from mdrecall.backends.embedders import Chosen, choose_embedders
from mdrecall.backends.freshness import Freshness
from mdrecall.backends.vectors import Meaning
from mdrecall.config.load import Loaded
from mdrecall.config.settings import Settings
from mdrecall.core.words import Analyser
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.engine.embedding import Caching, Filler, Fills
from mdrecall.engine.indexer import ChunkSize, Indexer, recipe_for
from mdrecall.engine.meaning import MeaningLeg
from mdrecall.engine.searcher import Searcher
from mdrecall.engine.sync import Indexes, Sync
from mdrecall.interfaces import Backend, Embedder, Store
from mdrecall.sources.files import MemoryFiles
from mdrecall.store.sqlite import Owner, SqliteStore, VectorSearch
from mdrecall.types import Issue

if TYPE_CHECKING:
    from mdrecall.engine.jobs import Jobs


def open_backend(loaded: Loaded, *, one_shot: bool = False) -> Backend:
    """The backend that the settings ask for, ready to answer; ``one_shot``, if it will answer only once."""
    if loaded.settings.memory.backend == "qmd":
        from mdrecall.backends.open_qmd import open_qmd

        return open_qmd(loaded, lambda own: open_builtin(own, one_shot=one_shot), one_shot=one_shot)
    return open_builtin(loaded, one_shot=one_shot)


def open_builtin(loaded: Loaded, *, one_shot: bool = False) -> BuiltinBackend:
    """The builtin backend, whichever the settings ask for."""
    settings = loaded.settings
    files = MemoryFiles(settings, loaded.home)
    store = _store(settings, one_shot)
    analyser = Analyser()
    indexers = _indexers(settings, files, store, analyser)
    meaning = _meaning(loaded, store) if settings.memory_search.store.vector.enabled else None
    filler = meaning.filler if meaning else None
    freshness = Freshness(settings, files, store, Sync(store, indexers, filler), filler, one_shot=one_shot)
    if meaning is None:
        searcher = Searcher(store, analyser)
    else:
        searcher = Searcher(store, analyser, meaning.leg, why_not=meaning.chosen.instead)
    return BuiltinBackend(settings, files, store, freshness, searcher, meaning)


def _indexers(settings: Settings, files: MemoryFiles, store: SqliteStore, analyser: Analyser) -> list[Indexes]:
    """One for each source that is searched; all documents of an index have one recipe."""
    chunking = settings.memory_search.chunking
    size = ChunkSize(chunking.tokens, chunking.overlap)
    if "sessions" not in settings.memory_search.sources:
        return [Indexer(store, files, size, analyser)]
    from mdrecall.core.redact import redactor
    from mdrecall.engine.transcripts import Patience, TranscriptIndexer
    from mdrecall.sources.sessions import Sessions

    masks = redactor(settings.logging.redact_patterns)
    with_notes = "memory" in settings.memory_search.sources
    # Without the notes it is another index: those that were in it must leave it.
    recipe = recipe_for(size, masks.fingerprint if with_notes else f"{masks.fingerprint}.only")
    delta = settings.memory_search.sync.sessions
    transcripts = TranscriptIndexer(
        store,
        Sessions(settings.sessions_dir),
        size,
        analyser,
        redact=masks.redact,
        patience=Patience(delta.delta_bytes, delta.delta_messages),
        recipe=recipe,
        issues=tuple(
            Issue("logging.redactPatterns", f"has a pattern that is not used: {why}") for why in masks.problems
        ),
    )
    indexers: list[Indexes] = [transcripts]
    if with_notes:
        indexers.insert(0, Indexer(store, files, size, analyser, recipe=recipe))
    return indexers


def _meaning(loaded: Loaded, store: SqliteStore) -> Meaning:
    chosen = choose_embedders(loaded)
    if not chosen.embedders:
        return Meaning(chosen)
    settings = loaded.settings
    jobs = _jobs(settings, chosen.embedders[0])
    leg = MeaningLeg(
        store,
        chosen.embedders,
        older={"offline": OfflineEmbedder},
        seconds=settings.mdrecall.query_timeout_ms / 1000,
        instead=chosen.instead,
        why_empty=lambda: filler.last_error,
    )
    filler = _filler(settings, store, chosen, jobs, leg)
    return Meaning(chosen, filler, leg, jobs)


def _filler(settings: Settings, store: Store, chosen: Chosen, jobs: "Jobs | None", leg: MeaningLeg) -> Fills:
    """What fills the space of the first embedder, and where there is a second one, that of the second."""
    cache = settings.memory_search.cache
    caching = Caching(cache.enabled, cache.max_entries)
    first, *others = chosen.embedders
    if not others:
        return Filler(store, first, caching, jobs=jobs, keep=chosen.wanted if chosen.instead else "")
    from mdrecall.engine.fallback import FillerWithFallback

    second = others[0]
    return FillerWithFallback(
        Filler(store, first, caching, jobs=jobs, keep=second.provider),
        Filler(store, second, caching, keep=first.provider),
        leg,
    )


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
