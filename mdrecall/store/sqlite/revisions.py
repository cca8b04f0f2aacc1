"""Revisions: every change of the index has a number, so that caches in memory read only what is newer.

A number is never used again, not even after an older state of the index was restored: it is the time in microseconds,
or one more than the last. The last numbers are remembered, so that a cache which has seen a state that is gone notices.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import apsw

from mdrecall.store.caches import ChangedStamps
from mdrecall.store.int8 import ChangedVectors, unpack_passages
from mdrecall.store.sqlite.sql import rows, single
from mdrecall.store.sqlite.vector_blocks import check_row, count_vectors, find_vectors, read_blocks, remove_vectors
from mdrecall.types import SourceName

#: Removals are remembered for this many revisions, which bounds two tables that only grow otherwise. A cache that is
#: further behind loads everything again.
REMEMBERED_REVISIONS = 1_000

_NEW_REVISION = """
    UPDATE counters SET value = max(value + 1, 1000 * CAST(1000 * unixepoch('subsec') AS INTEGER))
    WHERE name='revision'
"""
_STAMPS = "SELECT path, abs(seen_ns - mtime_ns) > ?, size, mtime_ns, ctime_ns, inode FROM documents"
# Nearly all documents are of one source: to read them in the order of their paths, by the index, takes longer.
_ALL_STAMPS = f"{_STAMPS} NOT INDEXED WHERE source=?"
_NEWER_STAMPS = f"{_STAMPS} WHERE source=? AND revision > ?"


def bump(db: apsw.Connection, counter: str) -> int:
    """Increase a counter and return its new value."""
    db.execute("UPDATE counters SET value = value + 1 WHERE name=?", (counter,))
    return single(db, "SELECT value FROM counters WHERE name=?", (counter,))


def start_revision(db: apsw.Connection) -> int:
    """Return the number of a new change, and forget the changes that are too long ago."""
    db.execute(_NEW_REVISION)
    revision = current_revision(db)
    db.execute("INSERT INTO history(revision) VALUES(?)", (revision,))
    oldest = list(rows(db, "SELECT revision FROM history ORDER BY revision DESC LIMIT 1 OFFSET ?",
                       (REMEMBERED_REVISIONS,)))  # fmt: skip
    for (before,) in oldest:
        for table in ("history", "gone", "removed"):
            db.execute(f"DELETE FROM {table} WHERE revision < ?", (before,))
    return revision


def current_revision(db: apsw.Connection) -> int:
    """Return the number of the last change."""
    return single(db, "SELECT value FROM counters WHERE name='revision'")


def invalidate_caches(db: apsw.Connection) -> None:
    """Start a new history, so that every cache in memory loads everything again."""
    db.execute("DELETE FROM history")
    start_revision(db)


def is_remembered(db: apsw.Connection, revision: int) -> bool:
    """True if the index was at a revision not long ago, and was changed only by adding revisions since."""
    return single(db, "SELECT count(*) FROM history WHERE revision=?", (revision,)) > 0


def forget_chunks(db: apsw.Connection, document_id: int) -> None:
    """Delete the vectors of a document's chunks, and record that for caches in memory."""
    stored = [space for (space,) in rows(db, "SELECT id FROM spaces WHERE stored")]
    if not stored:
        return
    chosen = [chunk_id for (chunk_id,) in rows(db, "SELECT id FROM chunks WHERE document_id=?", (document_id,))]
    for space in stored:
        remove_vectors(db, space, chosen)
        db.executemany(f"DELETE FROM windows_{space} WHERE chunk_id=?", [(chunk_id,) for chunk_id in chosen])
    number = current_revision(db)
    db.executemany("INSERT INTO removed(revision, chunk_id) VALUES(?, ?)", [(number, chunk_id) for chunk_id in chosen])


def is_stored(db: apsw.Connection, space: int) -> bool:
    """True if a space has tables."""
    return single(db, "SELECT count(*) FROM spaces WHERE id=? AND stored", (space,)) > 0


class DocumentRows:
    """What the cache of stamps reads."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def revision(self) -> int:
        """Return the number of the last change."""
        return current_revision(self._db)

    def changes_since(self, seen: int, now: int, source: SourceName, settle_ns: int) -> ChangedStamps:
        """Return what has changed between two revisions; everything if the removals are not remembered."""
        if seen > now or not is_remembered(self._db, seen):
            return ChangedStamps(None, _stamps(rows(self._db, _ALL_STAMPS, (settle_ns, source))))
        gone = rows(self._db, "SELECT path FROM gone WHERE source=? AND revision > ?", (source, seen))
        newer = rows(self._db, _NEWER_STAMPS, (settle_ns, source, seen))
        return ChangedStamps([path for (path,) in gone], _stamps(newer))


class SpaceRows:
    """The tables of one embedding space, as a connection sees them."""

    def __init__(
        self, db: apsw.Connection, number: int, latest: Callable[[], AbstractContextManager[apsw.Connection]]
    ) -> None:
        """``latest`` gives a new connection, which sees the last state of the index, whatever ``db`` sees."""
        self.db = db
        self.number = number
        self._latest = latest

    def is_stored(self) -> bool:
        """True if the space has tables. They are dropped when another space has been filled."""
        return is_stored(self.db, self.number)

    def count(self) -> int:
        """Return the number of chunks with a vector; 0 if the space was dropped."""
        return count_vectors(self.db, self.number) if self.is_stored() else 0

    def revision(self) -> int:
        """Return the number of the last change of the index."""
        return current_revision(self.db)

    def changes_since(self, seen: int) -> ChangedVectors | None:
        """Return what has changed after a revision; every vector if the removals are not remembered."""
        now = current_revision(self.db)
        if seen > now and self._is_old_view(seen):
            return None
        if seen > now or not is_remembered(self.db, seen):
            return ChangedVectors(now, None, read_blocks(self.db, self.number))
        gone = [chunk_id for (chunk_id,) in rows(self.db, "SELECT chunk_id FROM removed WHERE revision > ?", (seen,))]
        return ChangedVectors(now, gone, read_blocks(self.db, self.number, f"revision > {seen:d}"))

    def _is_old_view(self, seen: int) -> bool:
        """True if this connection sees an earlier state than the last one; False if an earlier one was restored."""
        with self._latest() as db:
            return is_remembered(db, seen)

    def passages_of(self, ids: Iterable[int]) -> dict[int, bytes]:
        """Return the vectors of the passages of chunks, end to end. A chunk without any is left out."""
        size = single(self.db, "SELECT dimensions FROM spaces WHERE id=?", (self.number,))
        chosen = "SELECT value FROM json_each(?)"
        statement = f"SELECT checksum, chunk_id, vectors FROM windows_{self.number} WHERE chunk_id IN ({chosen})"
        found = list(rows(self.db, statement, (str(list(ids)),)))
        for row in found:
            check_row(*row)
        return {chunk_id: unpack_passages(blob, size) for _, chunk_id, blob in found}

    def vectors_of(self, ids: Iterable[int]) -> dict[int, bytes]:
        """Return the vectors of chunks as signed bytes. A chunk without one is left out."""
        return find_vectors(self.db, self.number, ids)


def _stamps(found: Iterable[tuple[object, ...]]) -> dict[str, tuple[int, ...]]:
    return {row[0]: row[2:] if row[1] else () for row in found}  # type: ignore[misc]
