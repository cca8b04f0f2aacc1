"""Opening the index file: whose it is, and which format it has."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import apsw

from mdrecall.errors import CorruptIndex, ForeignDatabase, NewerIndex, StoreUnavailable
from mdrecall.store.sqlite.revisions import forget_everything
from mdrecall.store.sqlite.schema import APPLICATION_ID, MIGRATIONS, PAGE_SIZE, VERSION
from mdrecall.store.sqlite.sql import rows, single, transaction, translate_errors

_MAGIC = b"SQLite format 3\0"
_FORMATS_AT = slice(18, 20)
_CHANGES_AT, _PAGES_AT, _COUNTED_AT = slice(24, 28), slice(28, 32), slice(92, 96)
_KNOWN_FORMATS = (b"\1\1", b"\2\2")
_APPLICATION_ID_AT = slice(68, 72)
_BUSY_MS = 5_000


class Owner(NamedTuple):
    """Whose notes an index holds."""

    agent: str
    workspace: str


class IndexLocation(NamedTuple):
    """Where an index is, and what is known of it."""

    path: str
    is_ours: bool
    """Whether only mdrecall writes at this path, so that a file without a readable header is a damaged index and not
    somebody's data."""
    owner: Owner
    disposable: bool = False
    """Whether it is built to be copied, so that nothing needs to survive a crash."""


def prepare(location: IndexLocation, *, create: bool) -> None:
    """Make sure that there is an index of the current format, creating or upgrading it; never touch another's file."""
    is_new = not check_owner(location)
    with translate_errors(location.path):
        db = _open(location, apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0))
        try:
            if is_new:
                # Only its owner can read it: it will hold the text of the notes.
                with suppress(OSError):
                    os.chmod(location.path, 0o600)
            db.execute(f"PRAGMA page_size={PAGE_SIZE}")
            _upgrade(db, location.path)
            db.execute("PRAGMA journal_mode=WAL")
            _claim(db, location)
        finally:
            db.close()


def connect(location: IndexLocation, *, writable: bool) -> apsw.Connection:
    """A connection to an index that ``prepare`` has seen."""
    with translate_errors(location.path):
        db = _open(location, apsw.SQLITE_OPEN_READWRITE)
        with _closed_on_failure(db):
            db.execute(f"PRAGMA synchronous={'OFF' if location.disposable else 'NORMAL'}; PRAGMA temp_store=MEMORY")
            if not writable:
                db.execute("PRAGMA query_only=1")
            # The first reading opens SQLite's side files, which may fail; better here than half way.
            single(db, "PRAGMA schema_version")
        return db


def connect_unwritable(location: IndexLocation) -> apsw.Connection:
    """A connection to an index that cannot be written, nor anything beside it; raises if it is not ours."""
    with translate_errors(location.path):
        db = _open(location, apsw.SQLITE_OPEN_READONLY)
        try:
            with _closed_on_failure(db):
                _check_readable(db, location)
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            if has_changes_beside(location.path):
                raise
            # What is in the file is all there is, and no lock is needed to read it.
            db = _open(location, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, "?immutable=1")
            with _closed_on_failure(db):
                _check_readable(db, location)
        return db


def has_changes_beside(path: str) -> bool:
    """Whether changes to a database wait in a file beside it."""
    try:
        return os.path.getsize(f"{path}-wal") > 0
    except OSError:
        return False


@contextmanager
def _closed_on_failure(db: apsw.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        db.close()
        raise


def identity(path: str) -> tuple[int, int] | None:
    """What tells a file from another that later stands at its path; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open(location: IndexLocation, flags: int, query: str = "") -> apsw.Connection:
    name = location.path
    if query:
        from urllib.parse import quote

        name = f"file:{quote(location.path)}{query}"
    db = apsw.Connection(name, flags=flags)
    db.set_busy_timeout(_BUSY_MS)
    return db


def _check_readable(db: apsw.Connection, location: IndexLocation) -> None:
    version = single(db, "PRAGMA user_version")
    known = dict(rows(db, "SELECT key, value FROM meta WHERE key IN ('agent', 'workspace')"))
    if version != VERSION or known != location.owner._asdict():
        raise StoreUnavailable(f"The index {location.path} is not one that can be used without changing it.")


def check_owner(location: IndexLocation) -> bool:
    """Whether there is a file; raises if it is not one that mdrecall may use."""
    path = location.path
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _foreign(path, "is not a file")
    except FileNotFoundError:
        return False
    except OSError as error:
        hint = "Mend its permissions."
        raise StoreUnavailable(f"Cannot open the index {path}: {error.strerror}.", hint=hint) from error
    header = _header(location)
    if not header:
        return True
    is_database = header.startswith(_MAGIC)
    # The very first transaction was cut short: SQLite takes it back when it opens the file.
    is_unfinished = os.path.lexists(f"{path}-journal")
    if is_database and int.from_bytes(header[_APPLICATION_ID_AT], "big") == APPLICATION_ID:
        if not is_unfinished:
            _check_header(path, header)
        return True
    if location.is_ours and is_unfinished:
        return True
    if location.is_ours:
        raise CorruptIndex(f"The index {path} is damaged: it does not begin as an index does.")
    raise _foreign(path, "is a database of another program" if is_database else "is not a database")


def _check_header(path: str, header: bytes) -> None:
    """Raise if a header says what cannot be, or more pages than there are."""
    if header[_FORMATS_AT] not in _KNOWN_FORMATS:
        raise CorruptIndex(f"The index {path} is damaged: its header names a format that SQLite has not.")
    if not has_changes_beside(path) and header[_CHANGES_AT] == header[_COUNTED_AT]:
        size = int.from_bytes(header[_PAGES_AT], "big") * PAGE_SIZE
        if os.path.getsize(path) < size:
            raise CorruptIndex(f"The index {path} is damaged: it has been cut short.")


def _header(location: IndexLocation) -> bytes:
    """The first bytes of the file, read by SQLite: a file that Python closes would lose SQLite its locks on it."""
    with translate_errors(location.path):
        file = apsw.VFSFile("", location.path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        try:
            return file.xRead(100, 0)
        finally:
            file.xClose()


def _claim(db: apsw.Connection, location: IndexLocation) -> None:
    """Write down whose index it is. Another agent's is left alone; of another workspace nothing is kept."""
    known = dict(rows(db, "SELECT key, value FROM meta WHERE key IN ('agent', 'workspace')"))
    owner = location.owner
    if known == owner._asdict():
        return
    if known.get("agent", owner.agent) != owner.agent:
        hint = "Write {agentId} into memorySearch.store.path, so that each agent has an index of its own."
        raise ForeignDatabase(
            f"{location.path} is the index of agent {known['agent']} and is left as it is.", hint=hint
        )
    with transaction(db):
        if known:
            forget_everything(db)
        db.executemany("INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)", list(owner._asdict().items()))


def _foreign(path: str, what: str) -> ForeignDatabase:
    hint = "Let memorySearch.store.path name a file that does not exist yet; the index needs one of its own."
    return ForeignDatabase(f"{path} {what} and is left as it is.", hint=hint)


def _upgrade(db: apsw.Connection, path: str) -> None:
    version = single(db, "PRAGMA user_version")
    if version > VERSION:
        hint = "Upgrade mdrecall, or set MDRECALL_STATE_DIR to keep an index of its own for this version."
        raise NewerIndex(
            f"The index {path} was written by a newer mdrecall (format {version}, ours is {VERSION}).", hint=hint
        )
    if version == VERSION:
        return
    with transaction(db):
        version = single(db, "PRAGMA user_version")
        for migrate in MIGRATIONS[version:]:
            migrate(db)
        db.execute(f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION}")
