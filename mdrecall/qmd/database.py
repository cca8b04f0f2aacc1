"""A look into qmd's own index; nothing in it is ever changed.

Every question opens the file anew, so that an update which runs meanwhile, or an index that was set aside and made
again, is seen as it is now.
"""

import os
import re
from collections.abc import Collection as Names
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall.errors import ProgramBusy, ProgramUnreadable
from mdrecall.qmd.listing import ListedCollection

if TYPE_CHECKING:
    import apsw


from contextlib import suppress

from mdrecall.errors import ProgramFailed

_COLUMNS = "collection, path, hash, title, modified_at"
_DOCID = re.compile(r"[0-9a-f]{1,64}")
_BUSY_HINT = "Try again when qmd has finished writing to it."
_DAMAGED_HINT = "`mdrecall index --force` has qmd build it again from the notes."


class QmdDocument(NamedTuple):
    """A file as qmd has it."""

    collection: str
    path: str
    """Relative to the root of its collection, with ``/``."""
    hash: str
    """The SHA-256 of its text; the first six digits are its docid."""
    title: str
    modified_at: str


class QmdDatabase:
    """Questions to one ``index.sqlite``, which need not be there; ``busy_ms`` is how long a lock is waited for."""

    def __init__(self, path: str, *, busy_ms: int = 1000) -> None:
        self.path = path
        self._busy_ms = busy_ms

    def exists(self) -> bool:
        """Whether qmd has made its index."""
        return os.path.exists(self.path)

    def document(self, collection: str, path: str) -> QmdDocument | None:
        """The active document at a path of a collection."""
        where = "collection=? AND path=? AND active=1"
        return next(iter(self._documents(where, (collection, path))), None)

    def by_docid(self, docid: str, managed: Names[str], *, collection: str = "", file: str = "") -> QmdDocument | None:
        """The document that a docid means, which may be the beginning of several files' hash.

        Of those, the one in the hinted collection, else the one whose path is or ends with the hinted file, else the
        first in any of the ``managed`` collections. A hint at a collection that is not managed counts for nothing.
        """
        digits = docid.strip().removeprefix("#").lower()
        if not _DOCID.fullmatch(digits):
            return None
        found = self._documents("hash=? AND active=1 ORDER BY id", (digits,))
        if not found:
            # The digits that follow all others: a range uses the index on the hashes, where LIKE would not.
            found = self._documents("hash>? AND hash<? AND active=1 ORDER BY id", (digits, digits + "g"))
        ours = [row for row in found if row.collection in managed]
        hinted = [row for row in ours if row.collection == collection]
        named = [row for row in hinted or ours if file and (row.path == file or row.path.endswith(f"/{file}"))]
        return next(iter(named or hinted or ours), None)

    def hashes(self) -> dict[tuple[str, str], str]:
        """The hash of every active document, by its collection and path."""
        rows = self._rows("SELECT collection, path, hash FROM documents WHERE active=1")
        return {(str(collection), str(path)): str(digest) for collection, path, digest in rows}

    def counts(self) -> dict[str, int]:
        """How many active documents each collection has; one without any is not named."""
        sql = "SELECT collection, count(*) FROM documents WHERE active=1 GROUP BY collection"
        return {str(name): int(count) for name, count in self._rows(sql)}

    def collections(self) -> tuple[ListedCollection, ...] | None:
        """The collections that qmd has bound; None if there is no index, or its version keeps no such table."""
        if not self._has_table("store_collections"):
            return None
        rows = self._rows("SELECT name, path, pattern FROM store_collections")
        return tuple(ListedCollection(str(name), path or None, pattern or None) for name, path, pattern in rows)

    def unembedded(self) -> int | None:
        """How many texts have no vector at all; None if this version's tables do not tell."""
        if not self._has_table("content_vectors"):
            return None
        without = "NOT EXISTS (SELECT 1 FROM content_vectors v WHERE v.hash=d.hash)"
        sql = f"SELECT count(DISTINCT d.hash) FROM documents d WHERE d.active=1 AND {without}"
        return int(self._rows(sql)[0][0])

    def check(self) -> None:
        """Raise ``ProgramUnreadable`` if the file is no database, or its first page is damaged; absent is fine."""
        self._rows("SELECT count(*) FROM sqlite_master")

    def _documents(self, where: str, values: Sequence[Any]) -> list[QmdDocument]:
        rows = self._rows(f"SELECT {_COLUMNS} FROM documents WHERE {where}", values)
        return [QmdDocument(*(str(value) for value in row)) for row in rows]

    def _has_table(self, name: str) -> bool:
        return bool(self._rows("SELECT 1 FROM sqlite_master WHERE type='table' AND name=?", (name,)))

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of an answer; none if there is no index yet, or qmd has not made its tables."""
        import apsw

        if not self.exists():
            return []
        with self._translated():
            db = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READONLY)
            try:
                db.set_busy_timeout(self._busy_ms)
                return list(db.execute(sql, tuple(values)))
            except apsw.SQLError:
                if self._is_new(db):
                    return []
                raise
            finally:
                db.close()

    def _is_new(self, db: "apsw.Connection") -> bool:
        return not list(db.execute("SELECT 1 FROM sqlite_master WHERE name='documents'"))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import apsw

        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as error:
            raise ProgramBusy(f"qmd's index {self.path} is locked by another process.", hint=_BUSY_HINT) from error
        except (apsw.Error, UnicodeError) as error:
            message = f"qmd's index {self.path} cannot be read: {error}."
            raise ProgramUnreadable(message, hint=_DAMAGED_HINT) from error


def file_identity(path: str) -> tuple[int, int] | None:
    """What no other file has as long as somebody keeps this one open; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_NOT_A_FOLDER = re.compile(r"\bENOTDIR\b|\bnot a directory\b", re.IGNORECASE)
_NUL = re.compile(r"\^@|\0|\\0|\\x00|\\u0000|\bnull? byte\b", re.IGNORECASE)
_TWICE = re.compile(
    r"UNIQUE constraint failed:(?=[^\n]*\bdocuments\.collection\b)[^\n]*\bdocuments\.path\b", re.IGNORECASE
)
_DAMAGED = re.compile(r"\bSQLITE_(NOTADB|CORRUPT)(_[A-Z]+)?\b|file is not a database|database disk image is malformed")
_SIDE_FILES = ("-wal", "-shm", "-journal")


def has_null_byte_path(error: ProgramFailed) -> bool:
    """Whether a path that qmd keeps has a NUL in it, which no file has."""
    return bool(_NOT_A_FOLDER.search(error.output) and _NUL.search(error.output))


def is_duplicate_document(error: ProgramFailed) -> bool:
    """Whether qmd trips over a document that it has already."""
    return bool(_TWICE.search(error.output))


def is_damage_report(error: ProgramFailed) -> bool:
    """Whether SQLite says that qmd's index is no database, or a broken one."""
    return bool(_DAMAGED.search(error.output))


def quarantine(database: QmdDatabase) -> str:
    """Move a damaged index out of the way, with what SQLite keeps beside it; gives its new path.

    Empty if there was none. qmd makes a new one from the files with its next update.
    """
    if not database.exists():
        return ""
    number = 1
    while os.path.lexists(target := f"{database.path}.damaged-{number}"):
        number += 1
    os.rename(database.path, target)
    for ending in _SIDE_FILES:
        with suppress(FileNotFoundError):
            os.rename(database.path + ending, target + ending)
    return target


def quarantine_if_damaged(database: QmdDatabase) -> str:
    """Set the index aside if even its first page cannot be read."""
    try:
        database.check()
    except ProgramUnreadable as error:
        if is_damage_error(error.__cause__):
            return quarantine(database)
    return ""


def is_damage_error(error: BaseException | None) -> bool:
    """Whether SQLite says that the file is damaged, and not only that it cannot be opened."""
    import apsw

    return isinstance(error, apsw.CorruptError | apsw.NotADBError)
