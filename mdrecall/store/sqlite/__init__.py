"""An index in one SQLite file. All SQL of the project is here."""

import os
import sys

from mdrecall.config.settings import Settings
from mdrecall.store.sqlite.store import SqliteStore
from mdrecall.store.sqlite.vectors import find_library

__all__ = ["SqliteStore", "find_library", "open_store"]


def open_store(settings: Settings, *, one_shot: bool) -> SqliteStore:
    """Return the store of a workspace; with ``one_shot`` it will answer only once."""
    workspace = os.fsencode(os.path.realpath(settings.workspace)).decode("utf-8", "backslashreplace")
    vector, is_ours = settings.memory_search.store.vector, settings.index_path_is_ours
    # A process that answers once has no use for a matrix, and numpy takes long to load.
    is_quicker = one_shot and vector.enabled and "numpy" not in sys.modules
    library = (vector.extension_path or find_library()) if is_quicker else ""
    return SqliteStore(settings.index_path, is_ours=is_ours, owner=(settings.agent_id, workspace), library=library)
