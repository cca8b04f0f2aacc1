"""The stamps of all documents, held in memory for every thread and kept current by reading what is newer."""

import threading
from collections.abc import Mapping

import apsw

from mdrecall.store.sqlite.rows import rows
from mdrecall.store.sqlite.vectors import REMEMBERED_REVISIONS, revision
from mdrecall.types import SourceName

_ALL = """
    SELECT path, abs(seen_ns - mtime_ns) > ?, size, mtime_ns, ctime_ns, inode
    FROM documents WHERE source=?
"""
_NEWER = _ALL + " AND revision > ?"
_GONE = "SELECT path FROM gone WHERE source=? AND revision > ?"


class Stamps:
    """What is known of the documents of each source."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[SourceName, int], tuple[int, Mapping[str, tuple[int, ...]]]] = {}

    def of(self, db: apsw.Connection, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        """Every document of a source with the stamp it was read at; it does not change afterwards.

        The stamp is empty if it proves nothing, because the file had not been quiet for ``settle_ns`` when it was read.
        """
        with self._lock:
            seen, known = self._known.get((source, settle_ns), (-1, {}))
            now = revision(db)
            if now != seen:
                known = _current(db, source, settle_ns, seen if 0 <= now - seen <= REMEMBERED_REVISIONS else -1, known)
                self._known[source, settle_ns] = now, known
            return known

    def clear(self) -> None:
        """Forget everything, because another index answers from now on."""
        with self._lock:
            self._known.clear()


def _current(
    db: apsw.Connection, source: SourceName, settle_ns: int, seen: int, known: Mapping[str, tuple[int, ...]]
) -> Mapping[str, tuple[int, ...]]:
    if seen < 0:
        found = rows(db, _ALL, (settle_ns, source))
        return {row[0]: row[2:] if row[1] else () for row in found}
    current = dict(known)
    for (path,) in rows(db, _GONE, (source, seen)):
        current.pop(path, None)
    for row in rows(db, _NEWER, (settle_ns, source, seen)):
        current[row[0]] = row[2:] if row[1] else ()
    return current
