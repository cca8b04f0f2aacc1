"""An index in one SQLite file. All SQL of the project is here."""

import os
import sys

from mdrecall.config.settings import Settings
from mdrecall.store.sqlite.sidecar_files import delete_all, list_places, read_workspace
from mdrecall.store.sqlite.store import SqliteStore
from mdrecall.store.sqlite.vectors import find_library

__all__ = ["SqliteStore", "delete_former", "find_library", "open_store"]


def open_store(settings: Settings, *, one_shot: bool) -> SqliteStore:
    """Return the store of a workspace; with ``one_shot`` it will answer only once."""
    owner, places = (settings.agent_id, _name_workspace(settings)), _find_places(settings)
    vector, is_ours = settings.memory_search.store.vector, settings.index_path_is_ours
    # A process that answers once has no use for a matrix, and numpy takes long to load.
    is_quicker = one_shot and vector.enabled and "numpy" not in sys.modules
    library = (vector.extension_path or find_library()) if is_quicker else ""
    return SqliteStore(settings.index_path, is_ours=is_ours, owner=owner, library=library, places=places)


def delete_former(settings: Settings) -> None:
    """Delete the indexes that an agent had at other paths: nothing clears them of what is forgotten."""
    is_used = settings.memory.backend == "builtin" and settings.mdrecall.store.kind == "sqlite"
    for path in list_places(_find_places(settings)):
        if (path != settings.index_path or not is_used) and read_workspace(path) == _name_workspace(settings):
            delete_all(path)


def _find_places(settings: Settings) -> str:
    """Return the file with the paths that an agent's index has had: the settings may name another one some day."""
    return os.path.join(settings.agent_folder, "mdrecall-indexes.json")


def _name_workspace(settings: Settings) -> str:
    """Return what the index of a workspace calls it."""
    return os.fsencode(os.path.realpath(settings.workspace)).decode("utf-8", "backslashreplace")
