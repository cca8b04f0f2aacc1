"""Indexes whose workspace is gone: it was moved or deleted, and the text of its notes is still in them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

import apsw

from mdrecall.store.sqlite.sidecar_files import delete_all, sizes
from mdrecall.store.sqlite.sql import rows

_ENDING = ".sqlite"
#: The log of what agents did with it: their queries tell of the notes that are gone.
_ACTIVITY = ".activity"


class OrphanedIndex(NamedTuple):
    """An index that no search uses any more."""

    path: str
    agent: str
    workspace: str
    """The folder that it was made of."""

    def files(self) -> list[tuple[str, int]]:
        """Return every file that belongs to the index, with its size in bytes; those of its qmd too."""
        more = [*_walk(self._qmd_dir), *filter(os.path.lexists, (self.path + _ACTIVITY,))]
        return sizes(self.path) + [(name, os.lstat(name).st_size) for name in more]

    def delete(self) -> None:
        """Delete the index and its qmd."""
        from shutil import rmtree

        delete_all(self.path)
        for path, _ in sizes(self.path):
            os.unlink(path)
        with suppress(FileNotFoundError):
            os.unlink(self.path + _ACTIVITY)
        rmtree(self._qmd_dir, ignore_errors=True)

    @property
    def _qmd_dir(self) -> str:
        return f"{self.path.removesuffix(_ENDING)}.qmd"


def find_orphans(folder: str) -> list[OrphanedIndex]:
    """Return the indexes in a folder whose workspace does not exist; nothing is written."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    paths = (os.path.join(folder, name) for name in names if name.endswith(_ENDING))
    found = (_read_owner(path) for path in paths)
    return [entry for entry in found if entry and not os.path.isdir(entry.workspace)]


def _read_owner(path: str) -> OrphanedIndex | None:
    """Return whose index a file is; None if it is no index, or not readable."""
    # Immutable: SQLite then creates no side file and takes no lock.
    name = f"file:{quote(path)}?immutable=1"
    try:
        db = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            known = dict(rows(db, "SELECT key, value FROM meta WHERE key IN ('agent', 'workspace')"))
        finally:
            db.close()
    except apsw.Error:
        return None
    return OrphanedIndex(path, known["agent"], known["workspace"]) if len(known) == 2 else None


def _walk(folder: str) -> Iterator[str]:
    return (os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)
