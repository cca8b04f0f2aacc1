"""The one place where parts are put together."""

import os

from mdrecall.backends.builtin import BuiltinBackend
from mdrecall.config.settings import Settings
from mdrecall.core.words import Analyser
from mdrecall.engine.indexer import ChunkSize, Indexer
from mdrecall.engine.searcher import Searcher
from mdrecall.interfaces import Backend
from mdrecall.sources.files import MemoryFiles
from mdrecall.store.sqlite import Owner, SqliteStore


def open_backend(settings: Settings, *, home: str) -> Backend:
    """The backend that the settings ask for, ready to answer."""
    files = MemoryFiles(settings, home)
    owner = Owner(settings.agent_id, os.path.realpath(settings.workspace))
    store = SqliteStore(settings.index_path, is_ours=settings.index_path_is_ours, owner=owner)
    analyser = Analyser()
    chunking = settings.memory_search.chunking
    indexer = Indexer(store, files, ChunkSize(chunking.tokens, chunking.overlap), analyser)
    return BuiltinBackend(settings, files, store, indexer, Searcher(store, analyser))
