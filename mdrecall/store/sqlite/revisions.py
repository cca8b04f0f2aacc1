"""Revisions: every change of the index has a number, so that caches in memory read only what is newer."""

from collections.abc import Iterable, Iterator

import apsw

from mdrecall.store.caches import ChangedStamps, ChangedVectors
from mdrecall.store.sqlite.sql import rows, single
from mdrecall.types import SourceName

#: Removals are remembered for this many revisions, which bounds two tables that only grow otherwise. A cache that is
#: further behind loads everything again.
REMEMBERED_REVISIONS = 1_000

_STAMPS = """
    SELECT path, abs(seen_ns - mtime_ns) > ?, size, mtime_ns, ctime_ns, inode
    FROM documents WHERE source=?
"""


def bump(db: apsw.Connection, counter: str) -> int:
    """Increase a counter and return its new value."""
    db.execute("UPDATE counters SET value = value + 1 WHERE name=?", (counter,))
    return single(db, "SELECT value FROM counters WHERE name=?", (counter,))


def current_revision(db: apsw.Connection) -> int:
    """Return the number of the last change."""
    return single(db, "SELECT value FROM counters WHERE name='revision'")


def invalidate_caches(db: apsw.Connection) -> None:
    """Raise the revision so far that every cache in memory loads everything again."""
    db.execute("UPDATE counters SET value = value + ? WHERE name='revision'", (REMEMBERED_REVISIONS + 1,))


def forget_chunks(db: apsw.Connection, document_id: int) -> None:
    """Delete the vectors of a document's chunks, and record that for caches in memory."""
    chosen = "(SELECT id FROM chunks WHERE document_id=?)"
    stored = [space for (space,) in rows(db, "SELECT id FROM spaces WHERE stored")]
    if not stored:
        return
    for space in stored:
        db.execute(f"DELETE FROM vectors_{space} WHERE chunk_id IN {chosen}", (document_id,))
        db.execute(f"DELETE FROM windows_{space} WHERE chunk_id IN {chosen}", (document_id,))
    number = current_revision(db)
    db.execute("INSERT INTO removed(revision, chunk_id) SELECT ?, id FROM chunks WHERE document_id=?",
               (number, document_id))  # fmt: skip
    db.execute("DELETE FROM removed WHERE revision < ?", (number - REMEMBERED_REVISIONS,))


def forget_everything(db: apsw.Connection) -> None:
    """Delete all documents, chunks and vectors, because the index gets another owner."""
    for (space,) in list(rows(db, "SELECT id FROM spaces WHERE stored")):
        db.execute(f"DROP TABLE IF EXISTS vectors_{space}; DROP TABLE IF EXISTS windows_{space}")
    db.execute("UPDATE spaces SET stored=0, filled_at=-1, ever_filled=0, filled_to=0; DELETE FROM removed")
    invalidate_caches(db)
    db.execute("DELETE FROM documents; DELETE FROM chunks; INSERT INTO keyword(keyword) VALUES('delete-all')")
    db.execute("DELETE FROM gone; DELETE FROM transcripts; DELETE FROM meta WHERE key='recipe'")


class DocumentRows:
    """What the cache of stamps reads."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def revision(self) -> int:
        """Return the number of the last change."""
        return current_revision(self._db)

    def changes_since(self, seen: int, now: int, source: SourceName, settle_ns: int) -> ChangedStamps:
        """Return what has changed between two revisions; everything if the removals are not remembered."""
        if seen < 0 or not 0 <= now - seen <= REMEMBERED_REVISIONS:
            return ChangedStamps(None, _stamps(rows(self._db, _STAMPS, (settle_ns, source))))
        gone = rows(self._db, "SELECT path FROM gone WHERE source=? AND revision > ?", (source, seen))
        newer = rows(self._db, f"{_STAMPS} AND revision > ?", (settle_ns, source, seen))
        return ChangedStamps([path for (path,) in gone], _stamps(newer))


class SpaceRows:
    """The tables of one embedding space, as a connection sees them."""

    def __init__(self, db: apsw.Connection, number: int) -> None:
        self.db = db
        self.number = number

    def is_stored(self) -> bool:
        """True if the space has tables. They are dropped when another space has been filled."""
        return single(self.db, "SELECT count(*) FROM spaces WHERE id=? AND stored", (self.number,)) > 0

    def count(self) -> int:
        """Return the number of chunks with a vector; 0 if the space was dropped."""
        return single(self.db, f"SELECT count(*) FROM vectors_{self.number}") if self.is_stored() else 0

    def revision(self) -> int:
        """Return the number of the last change of the index."""
        return current_revision(self.db)

    def changes_since(self, seen: int) -> ChangedVectors:
        """Return what has changed after a revision; every vector if the removals are not remembered."""
        now = current_revision(self.db)
        if seen < 0 or seen < now - REMEMBERED_REVISIONS:
            return ChangedVectors(now, None, self._vectors("TRUE"))
        gone = [chunk_id for (chunk_id,) in rows(self.db, "SELECT chunk_id FROM removed WHERE revision > ?", (seen,))]
        return ChangedVectors(now, gone, self._vectors(f"revision > {seen:d}"))

    def windows_of(self, ids: Iterable[int]) -> dict[int, bytes]:
        """Return the windows of chunks. A chunk without windows is left out."""
        statement = f"SELECT vectors FROM windows_{self.number} WHERE chunk_id=?"
        return {chunk_id: blob for chunk_id in ids for (blob,) in rows(self.db, statement, (chunk_id,))}

    def _vectors(self, which: str) -> Iterator[tuple[int, bytes]]:
        found = rows(self.db, f"SELECT chunk_id, vector FROM vectors_{self.number} WHERE {which} ORDER BY chunk_id")
        return ((chunk_id, vector) for chunk_id, vector in found)


def _stamps(found: Iterable[tuple[object, ...]]) -> Iterator[tuple[str, tuple[int, ...]]]:
    return ((row[0], row[2:] if row[1] else ()) for row in found)  # type: ignore[misc]
