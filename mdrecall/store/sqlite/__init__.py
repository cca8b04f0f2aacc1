"""An index in one SQLite file. All SQL of the project is here."""

import os
import sys

from mdrecall.config.settings import Settings
from mdrecall.state_files import load
from mdrecall.store.sqlite.sidecar_files import delete_all, read_workspace, remove_folder
from mdrecall.store.sqlite.store import SqliteStore
from mdrecall.store.sqlite.vectors import find_library

__all__ = ["SqliteStore", "delete_former", "find_library", "list_places", "open_store"]

#: The file in an agent's folder with the paths that its index has had: the settings may name another one some day.
_PLACES = "mdrecall-indexes.json"


def open_store(settings: Settings, *, one_shot: bool) -> SqliteStore:
    """Return the store of a workspace; with ``one_shot`` it will answer only once."""
    owner, places = (settings.agent_id, _name_workspace(settings)), os.path.join(settings.agent_folder, _PLACES)
    vector, is_ours = settings.memory_search.store.vector, settings.index_path_is_ours
    # A process that answers once has no use for a matrix, and numpy takes long to load.
    is_quicker = one_shot and vector.enabled and "numpy" not in sys.modules
    library = (vector.extension_path or find_library()) if is_quicker else ""
    return SqliteStore(settings.index_path, is_ours=is_ours, owner=owner, library=library, places=places)


def delete_former(settings: Settings) -> None:
    """Delete the indexes that an agent does not use any more: nothing clears them of what is forgotten."""
    is_used = settings.memory.backend == "builtin" and settings.mdrecall.store.kind == "sqlite"
    for path in set().union(*list_places(settings).values()) - ({settings.index_path} if is_used else set()):
        workspace = read_workspace(path)
        if workspace and (workspace == _name_workspace(settings) or not os.path.isdir(workspace)):
            if (qmd_dir := f"{path.removesuffix('.sqlite')}.qmd") != settings.qmd_dir:
                remove_folder(qmd_dir)
            delete_all(path)


def list_places(settings: Settings) -> dict[str, list[str]]:
    """Return the paths that an agent's index has had, by the agent's folder, which depends on the workspace's name."""
    from glob import escape, glob

    own, found = os.path.join(settings.agent_folder, _PLACES), os.stat(settings.workspace)
    folders = os.path.join(escape(os.path.dirname(settings.state_dir)), "*", "agents", escape(settings.agent_id))
    known = {path: load(path) for path in (own, *glob(os.path.join(folders, _PLACES)))}
    # A renamed folder keeps its inode. Two disks may use the same one, so the disk has to be the same as well.
    moved = {path: at for path, at in known.items() if at.get("folder") == [found.st_dev, found.st_ino]}
    former = (path for path, at in moved.items() if not os.path.isdir(at["workspace"]))
    return {os.path.dirname(path): known[path].get("paths", []) for path in (own, *former)}


def _name_workspace(settings: Settings) -> str:
    """Return what the index of a workspace calls it."""
    return os.fsencode(os.path.realpath(settings.workspace)).decode("utf-8", "backslashreplace")
