"""Reads qmd's own index, and moves it out of the way when it is damaged. Nothing inside it is ever changed.

Every call opens the file again, so it sees an update that is under way and an index that has been replaced.
"""

import os
import re
from contextlib import suppress
from typing import Any

from mdrecall.errors import BackendUnavailable, ProgramBusy, ProgramFailed, ProgramUnreadable
from mdrecall.types.documents import Issue

# How long a query waits while qmd writes: a search, which has some seconds, still has time for its other steps.
_BUSY_MS = 1_000
_BUSY_HINT = "Try again when qmd has finished writing to it."
_DAMAGED_HINT = "Index again with force: qmd then builds it again from the notes."
_DAMAGED = re.compile(r"\bSQLITE_(NOTADB|CORRUPT)(_[A-Z]+)?\b|file is not a database|database disk image is malformed")
_SIDECAR_ENDINGS = ("-wal", "-shm", "-journal")


class QmdDatabase:
    """Queries to one ``index.sqlite``, which may not exist."""

    def __init__(self, path: str) -> None:
        self.path = path

    def exists(self) -> bool:
        """True if qmd has created its index."""
        return os.path.exists(self.path)

    def hashes(self) -> dict[tuple[str, str], str]:
        """Return the hash of every active document, by collection and path."""
        rows = self._rows("SELECT collection, path, hash FROM documents WHERE active=1")
        return {(str(collection), str(path)): str(digest) for collection, path, digest in rows}

    def counts(self) -> dict[str, int]:
        """Return the number of active documents per collection, without empty collections."""
        sql = "SELECT collection, count(*) FROM documents WHERE active=1 GROUP BY collection"
        return {str(name): int(count) for name, count in self._rows(sql)}

    def collections(self) -> dict[str, tuple[str, str]]:
        """Return the folder and the pattern of each collection."""
        rows = self._rows("SELECT name, path, pattern FROM store_collections")
        return {str(name): (str(path), str(pattern)) for name, path, pattern in rows}

    def count_unembedded(self) -> int | None:
        """Return how many texts have no vector, or None if there is no index."""
        without = "NOT EXISTS (SELECT 1 FROM content_vectors v WHERE v.hash=d.hash)"
        rows = self._rows(f"SELECT count(DISTINCT d.hash) FROM documents d WHERE d.active=1 AND {without}")
        return int(rows[0][0]) if rows else None

    def check(self) -> None:
        """Raise ``ProgramUnreadable`` if the file is not a database or its first page is damaged."""
        self._rows("SELECT count(*) FROM sqlite_master")

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, or none if the index or its tables do not exist yet."""
        import apsw

        if not self.exists():
            return []
        try:
            db = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READONLY)
            try:
                db.set_busy_timeout(_BUSY_MS)
                return list(db.execute(sql))
            finally:
                db.close()
        except (apsw.BusyError, apsw.LockedError) as error:
            raise ProgramBusy(f"qmd's index {self.path} is locked by another process.", hint=_BUSY_HINT) from error
        except (apsw.Error, UnicodeError) as error:
            if isinstance(error, apsw.SQLError) and "no such table" in str(error):
                return []
            message = f"qmd's index {self.path} cannot be read: {error}."
            raise ProgramUnreadable(message, hint=_DAMAGED_HINT) from error


def file_identity(path: str) -> tuple[int, int] | None:
    """Return a value that no other file has while this one is open anywhere, or None if there is no file.

    A running server keeps using an index that has been moved or deleted. Comparing identities detects that.
    """
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def is_damaged(error: ProgramFailed | ProgramUnreadable) -> bool:
    """True if qmd or SQLite says that the index is damaged, not merely that it cannot be opened."""
    import apsw

    if isinstance(error, ProgramFailed):
        return bool(_DAMAGED.search(error.output))
    return isinstance(error.__cause__, apsw.CorruptError | apsw.NotADBError)


def quarantine(database: QmdDatabase, issues: list[Issue]) -> bool:
    """Move a damaged index aside, so that qmd builds a new one, and report it; False if there was none."""
    if not database.exists():
        return False
    number = 1
    while os.path.lexists(target := f"{database.path}.damaged-{number}"):
        number += 1
    try:
        os.rename(database.path, target)
        for ending in _SIDECAR_ENDINGS:
            with suppress(FileNotFoundError):
                os.rename(database.path + ending, target + ending)
    except OSError as error:
        message = f"Cannot move the damaged {database.path}: {error.strerror}."
        raise BackendUnavailable(message, hint="Remove it.") from error
    issues.append(Issue(database.path, f"was damaged and has been moved to {target}"))
    return True


def quarantine_if_damaged(database: QmdDatabase, issues: list[Issue]) -> None:
    """Move the index aside if even its first page cannot be read, and report it."""
    try:
        database.check()
    except ProgramUnreadable as error:
        if is_damaged(error):
            quarantine(database, issues)
