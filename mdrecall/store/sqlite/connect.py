"""Opening an index file: checking that it is ours, making its tables, and recording its owner."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import apsw

from mdrecall.errors import CorruptIndex, ForeignDatabase, NewerIndex, StoreBusy, StoreUnavailable
from mdrecall.named_tuple import NamedTuple
from mdrecall.store.sqlite.schema import APPLICATION_ID, PAGE_SIZE, VERSION, create_tables
from mdrecall.store.sqlite.side_file_guard import FileReplaced, attach, close, closing, notice_replacement
from mdrecall.store.sqlite.sql import rows, single, transaction, translate_errors
from mdrecall.store.sqlite.texts import add_function

_T = TypeVar("_T")

_MAGIC = b"SQLite format 3\0"
_FORMATS_AT = slice(18, 20)
_CHANGES_AT, _PAGES_AT, _COUNTED_AT = slice(24, 28), slice(28, 32), slice(92, 96)
_KNOWN_FORMATS = (b"\1\1", b"\2\2")
_APPLICATION_ID_AT = slice(68, 72)
# How often an index is opened that is replaced while it is being opened; once is rare.
_TRIES = 20
# Every thread that searches has a connection, and each keeps as many kilobytes of pages. With 2,000, as SQLite would,
# a search of 8,000 notes took 33 ms instead of 34: the system keeps them as well.
_READER_KB = 400
# How long SQLite waits for another connection that writes; as long as for the lock between processes.
_BUSY_MS = 5_000


class Owner(NamedTuple):
    """The agent and the workspace whose notes an index holds."""

    agent: str
    workspace: str


class IndexLocation(NamedTuple):
    """The path of an index, and what may be done there."""

    path: str
    is_ours: bool
    """True if only mdrecall writes to this path, so that a file without a readable header is a damaged index and not
    other data."""
    owner: Owner
    disposable: bool = False
    """True if it is built to be copied, so that nothing needs to survive a crash."""


def prepare(location: IndexLocation, *, create: bool) -> None:
    """Make sure that there is an index of the current format; never change a foreign file."""
    _repeat_if_replaced(location, lambda: _prepare(location, create=create))


def _prepare(location: IndexLocation, *, create: bool) -> None:
    is_new = not check_owner(location)
    db = _open_attached(location, apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0))
    with closing(db), notice_replacement(db):
        if is_new:
            # Only the owner may read it: it will hold the text of the notes.
            with suppress(OSError):
                os.chmod(location.path, 0o600)
        db.execute(f"PRAGMA page_size={PAGE_SIZE}")
        _check_agent(db, location)
        _ensure_tables(db, location.path)
        db.execute("PRAGMA journal_mode=WAL")
        _claim(db, location)


def connect(location: IndexLocation, *, writable: bool) -> apsw.Connection:
    """Return a connection to an index that ``prepare`` has checked."""
    return _repeat_if_replaced(location, lambda: _connect(location, writable=writable))


def _connect(location: IndexLocation, *, writable: bool) -> apsw.Connection:
    db = _open_attached(location, apsw.SQLITE_OPEN_READWRITE)
    with _closed_on_failure(db), notice_replacement(db):
        db.execute(f"PRAGMA synchronous={'OFF' if location.disposable else 'NORMAL'}; PRAGMA temp_store=MEMORY")
        if not writable:
            db.execute(f"PRAGMA query_only=1; PRAGMA cache_size=-{_READER_KB}")
        # The first read opens the side files, which can fail; better here than in the middle of a search.
        if single(db, "PRAGMA user_version") == VERSION:
            return db
    # It has replaced the index that was checked, and may have no tables yet.
    close(db)
    prepare(location, create=False)
    raise FileReplaced(location.path)


def _repeat_if_replaced(location: IndexLocation, act: Callable[[], _T]) -> _T:
    """Return the result of ``act``, which is tried again if the index is replaced at that moment."""
    for _ in range(_TRIES):
        with suppress(FileReplaced), translate_errors(location.path):
            return act()
    raise StoreBusy(f"The index {location.path} is being replaced again and again.", hint="Try again.")


def connect_empty(location: IndexLocation) -> apsw.Connection:
    """Return a connection to an index in memory that holds nothing."""
    db = apsw.Connection(":memory:")
    add_function(db)
    _ensure_tables(db, location.path)
    _claim(db, location)
    return db


def connect_unwritable(location: IndexLocation) -> apsw.Connection:
    """Return a connection to an index in a folder that cannot be written; raise if the index is not ours."""
    with translate_errors(location.path):
        db = _open(location, apsw.SQLITE_OPEN_READONLY)
        try:
            with _closed_on_failure(db):
                _check_readable(db, location)
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            if has_changes_beside(location.path):
                raise
            # There is no write-ahead log, so the file is complete, and it can be read without a lock.
            db = _open(location, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, "?immutable=1")
            with _closed_on_failure(db):
                _check_readable(db, location)
        return db


def has_changes_beside(path: str) -> bool:
    """True if a database has a write-ahead log that is not empty."""
    try:
        return os.path.getsize(f"{path}-wal") > 0
    except OSError:
        return False


@contextmanager
def _closed_on_failure(db: apsw.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        close(db)
        raise


def _open(location: IndexLocation, flags: int, query: str = "") -> apsw.Connection:
    name = location.path
    if query:
        from urllib.parse import quote

        name = f"file:{quote(location.path)}{query}"
    db = apsw.Connection(name, flags=flags)
    db.set_busy_timeout(_BUSY_MS)
    add_function(db)
    return db


def _open_attached(location: IndexLocation, flags: int) -> apsw.Connection:
    """Return a connection that has its own side files."""
    db = _open(location, flags)
    try:
        if not location.disposable:
            attach(db)
        return db
    except BaseException:
        db.close()
        raise


def _check_readable(db: apsw.Connection, location: IndexLocation) -> None:
    if single(db, "PRAGMA user_version") != VERSION or _read_owner(db) != location.owner._asdict():
        raise StoreUnavailable(f"The index {location.path} cannot be used without changing it.")


def check_owner(location: IndexLocation) -> bool:
    """True if there is a file; raise if mdrecall may not use it."""
    path = location.path
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _foreign(path, "is not a file")
    except FileNotFoundError:
        return False
    except OSError as error:
        hint = "Fix its permissions."
        raise StoreUnavailable(f"Cannot open the index {path}: {error.strerror}.", hint=hint) from error
    header = _header(location)
    if not header:
        return True
    is_database = header.startswith(_MAGIC)
    # The very first transaction was interrupted: SQLite rolls it back when it opens the file.
    is_unfinished = os.path.lexists(f"{path}-journal")
    if is_database and int.from_bytes(header[_APPLICATION_ID_AT], "big") == APPLICATION_ID:
        if not is_unfinished:
            _check_header(path, header)
        return True
    if location.is_ours and is_unfinished:
        return True
    if location.is_ours:
        raise CorruptIndex(f"The index {path} is damaged: it does not begin like an index.")
    raise _foreign(path, "is a database of another program" if is_database else "is not a database")


def _check_header(path: str, header: bytes) -> None:
    """Raise if a header is impossible, or claims more pages than the file has."""
    if header[_FORMATS_AT] not in _KNOWN_FORMATS:
        raise CorruptIndex(f"The index {path} is damaged: its header names an unknown format.")
    if not has_changes_beside(path) and header[_CHANGES_AT] == header[_COUNTED_AT]:
        size = int.from_bytes(header[_PAGES_AT], "big") * PAGE_SIZE
        if os.path.getsize(path) < size:
            raise CorruptIndex(f"The index {path} is damaged: it is truncated.")


def _header(location: IndexLocation) -> bytes:
    """Return the first bytes of the file, read by SQLite: closing the file from Python would drop SQLite's locks."""
    with translate_errors(location.path):
        file = apsw.VFSFile("", location.path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        try:
            return file.xRead(100, 0)
        finally:
            file.xClose()


def _read_owner(db: apsw.Connection) -> dict[str, str]:
    return dict(rows(db, "SELECT key, value FROM meta WHERE key IN ('agent', 'workspace')"))


def _check_agent(db: apsw.Connection, location: IndexLocation) -> None:
    """Raise if an index of whichever format is another agent's, before anything in it is changed."""
    if not single(db, "SELECT count(*) FROM sqlite_schema WHERE name='meta'"):
        return
    agent = _read_owner(db).get("agent", location.owner.agent)
    if agent != location.owner.agent:
        hint = "Use {agentId} in memorySearch.store.path, so that each agent has its own index."
        raise ForeignDatabase(f"{location.path} is the index of agent {agent}. It was not changed.", hint=hint)


def _claim(db: apsw.Connection, location: IndexLocation) -> None:
    """Record the owner of an index, and empty it if it is another workspace's."""
    known, owner = _read_owner(db), location.owner._asdict()
    if known == owner:
        return
    with transaction(db):
        if known:
            create_tables(db)
        db.executemany("INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)", list(owner.items()))


def _foreign(path: str, what: str) -> ForeignDatabase:
    hint = "Set memorySearch.store.path to a file that does not exist yet: the index needs its own file."
    return ForeignDatabase(f"{path} {what}. It was not changed.", hint=hint)


def _ensure_tables(db: apsw.Connection, path: str) -> None:
    version = single(db, "PRAGMA user_version")
    if version > VERSION:
        hint = "Upgrade mdrecall, or set MDRECALL_STATE_DIR to another folder for this version."
        raise NewerIndex(
            f"The index {path} was written by a newer mdrecall (format {version}, ours is {VERSION}).", hint=hint
        )
    if version == VERSION:
        return
    with transaction(db):
        # Another process may have made them meanwhile.
        if single(db, "PRAGMA user_version") != VERSION:
            create_tables(db)
