"""The one place where parts are put together."""

import os

from mdrecall.backends.builtin import BuiltinBackend, Meaning
from mdrecall.backends.embedders import choose_embedder
from mdrecall.backends.freshness import Freshness
from mdrecall.config.settings import Settings
from mdrecall.core.words import Analyser
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.engine.embedding import Caching, Filler
from mdrecall.engine.indexer import ChunkSize, Indexer
from mdrecall.engine.meaning import MeaningLeg
from mdrecall.engine.searcher import Searcher
from mdrecall.engine.sync import Sync
from mdrecall.interfaces import Backend
from mdrecall.sources.files import MemoryFiles
from mdrecall.store.sqlite import Owner, SqliteStore, VectorSearch


def open_backend(settings: Settings, *, home: str, one_shot: bool = False) -> Backend:
    """The backend that the settings ask for, ready to answer; ``one_shot``, if it will answer only once."""
    files = MemoryFiles(settings, home)
    store = _store(settings, one_shot)
    analyser = Analyser()
    chunking = settings.memory_search.chunking
    indexer = Indexer(store, files, ChunkSize(chunking.tokens, chunking.overlap), analyser)
    if not settings.memory_search.store.vector.enabled:
        freshness = Freshness(settings, files, store, Sync(store, [indexer], None), None, one_shot=one_shot)
        return BuiltinBackend(settings, files, store, freshness, Searcher(store, analyser), None)
    chosen = choose_embedder(settings, home=home)
    cache = settings.memory_search.cache
    filler = Filler(store, chosen.embedder, Caching(cache.enabled, cache.max_entries))
    leg = MeaningLeg(
        store,
        chosen.embedder,
        older={"offline": OfflineEmbedder},
        seconds=settings.mdrecall.query_timeout_ms / 1000,
    )
    freshness = Freshness(settings, files, store, Sync(store, [indexer], filler), filler, one_shot=one_shot)
    meaning = Meaning(chosen.embedder, chosen.instead, filler)
    return BuiltinBackend(settings, files, store, freshness, Searcher(store, analyser, leg), meaning)


def _store(settings: Settings, one_shot: bool) -> SqliteStore:
    workspace = os.fsencode(os.path.realpath(settings.workspace)).decode("utf-8", "backslashreplace")
    owner = Owner(settings.agent_id, workspace)
    vectors = settings.mdrecall.vectors
    search = VectorSearch(
        vectors.engine, settings.memory_search.store.vector.extension_path, vectors.max_bytes, one_shot
    )
    return SqliteStore(settings.index_path, is_ours=settings.index_path_is_ours, owner=owner, search=search)
