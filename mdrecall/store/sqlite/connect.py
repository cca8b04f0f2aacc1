"""Opening an index file: checking that it and its side files are ours, making its tables, and recording its owner.

SQLite finds the ``-wal`` and ``-shm`` files by name. When the database is replaced by a rename, as rsync and restores
do, the new one would read the log of the old one. Worse, a process that has both databases open would shorten the
shared memory that its own threads are reading, which kills it with SIGBUS. So a connection opens its database first,
learns which file that is, and looks at the side files only after those of an earlier database have been removed. A
small file beside the index, the guard, says which database they belong to. Connections are opened and closed under a
lock on it, held for an instant.
"""

import array
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

import apsw

from mdrecall import platform
from mdrecall.errors import CorruptIndex, ForeignDatabase, NewerIndex, StoreBusy, StoreUnavailable
from mdrecall.store.sqlite import tables as sql
from mdrecall.store.sqlite.sidecar_files import LOCKS, keep_place

_GUARD = LOCKS["guard"]
# A process holds the lock for an instant; one that is stopped in that instant must not hold up all others forever.
_WAIT_S = 5.0
_RETRY_S = 0.002
_RECORD_BYTES = 200
# SQLite maps its shared memory in pieces of this size, and closing reads the first one.
_REGION_BYTES = 32_768


class FileReplaced(StoreBusy):
    """The path no longer names the file that was just opened."""

    def __init__(self, path: str) -> None:
        super().__init__(f"The index {path} was replaced while it was opened.", hint="Try again.")


def attach(db: apsw.Connection) -> None:
    """Let a new connection read for the first time, after removing the side files of an earlier database."""
    path = db.filename
    # A connection that is dropped and not closed deletes no files, which may be another database's by then.
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    with _lock(path) as guard:
        opened = _inode(path)
        if _has_moved(db) or _inode(path) != opened:
            raise FileReplaced(path)
        if guard is not None:
            _remove_strangers(path, _read(guard), opened)
        try:
            with notice_replacement(db):
                db.execute("PRAGMA schema_version").fetchall()
        finally:
            if guard is not None:
                _write(guard, opened, _inode(f"{path}-wal"))


@contextmanager
def notice_replacement(db: apsw.Connection) -> Iterator[None]:
    """Raise ``FileReplaced`` for an error of SQLite that comes from another file at the path of a database."""
    try:
        yield
    except apsw.Error as error:
        if _has_moved(db):
            raise FileReplaced(db.filename) from error
        raise


def close(db: apsw.Connection) -> None:
    """Close a connection. The last one removes the side files, unless they are another database's by now."""
    try:
        path = db.filename
    except apsw.ConnectionClosedError:
        return
    if not path:
        # It is in memory.
        db.close()
        return
    with _lock(path, create=False) as guard, suppress(apsw.ConnectionClosedError):
        is_own = not _has_moved(db) and (guard is None or _read(guard)[:1] == [_inode(path)])
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0 if is_own else 1)
        if is_own:
            restore_length(path, _REGION_BYTES)
        db.close()
        _sweep(path, guard)


def restore_length(path: str, length: int) -> int:
    """Return how long the shared memory of an open database is, at least as long as it was.

    SQLite maps ``-shm`` into memory. A program that copies another file over it shortens it first, and reading what is
    no longer there kills the process with SIGBUS. What is filled up with zeros is made again from the log.
    """
    try:
        now = os.stat(f"{path}-shm").st_size
        if now < length:
            os.truncate(f"{path}-shm", length)
    except OSError:
        return length
    return max(now, length)


@contextmanager
def closing(db: apsw.Connection) -> Iterator[apsw.Connection]:
    """Close a connection at the end."""
    try:
        yield db
    finally:
        close(db)


def sweep(path: str) -> None:
    """Remove the guard's file if the side files that it describes are gone."""
    with _lock(path, create=False) as guard:
        _sweep(path, guard)


def _sweep(path: str, guard: int | None) -> None:
    if guard is not None and not os.path.lexists(f"{path}-wal"):
        with suppress(OSError):
            platform.unlink(path + _GUARD)


def _remove_strangers(path: str, known: list[int], opened: int) -> None:
    """Remove side files that do not belong to the opened database. A log that came with it is kept."""
    if not known or known[0] == opened:
        return
    if known[1:] == [_inode(f"{path}-wal")]:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}-wal")
    with suppress(FileNotFoundError):
        os.unlink(f"{path}-shm")


@contextmanager
def _lock(path: str, *, create: bool = True) -> Iterator[int | None]:
    """Hold the lock, and give its file; None where there can be none, because nothing can be written there."""
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            flags = os.O_RDWR | platform.NO_FOLLOW | (os.O_CREAT if create else 0)
            file = platform.open(path + _GUARD, flags, 0o600)
        except OSError:
            yield None
            return
        try:
            if _try_lock(file, path):
                yield file
                return
        finally:
            os.close(file)
        if time.monotonic() >= until:
            raise StoreBusy(f"The index {path} is being opened by another process.", hint="Try again.")
        time.sleep(_RETRY_S)


def _try_lock(file: int, path: str) -> bool:
    """Lock the guard's file; False if somebody else has, or has removed it since it was opened."""
    try:
        return platform.try_lock(file) and os.path.samestat(os.fstat(file), os.stat(path + _GUARD))
    except FileNotFoundError:
        return False


def _read(guard: int) -> list[int]:
    """Return the inodes of the database and of its log; nothing if it was never written down."""
    try:
        known = json.loads(platform.pread(guard, _RECORD_BYTES, 0))
        return [int(number) for number in known]
    except (OSError, ValueError, TypeError):
        return []


def _write(guard: int, *inodes: int) -> None:
    if _read(guard) != [*inodes]:
        with suppress(OSError):
            platform.pwrite(guard, json.dumps(inodes).encode().ljust(_RECORD_BYTES), 0)


def _inode(path: str) -> int:
    """Return the inode of a file; 0 if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _has_moved(db: apsw.Connection) -> bool:
    """True if the path of a database no longer names the file that is open."""
    answer = array.array("i", [0])
    db.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, answer.buffer_info()[0])
    return bool(answer[0])


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


class IndexLocation(NamedTuple):
    """The path of an index, and what may be done there."""

    path: str
    is_ours: bool
    """True if only mdrecall writes to this path, so that a file without a readable header is a damaged index and not
    other data."""
    owner: tuple[str, str]
    """The agent and the workspace whose notes it holds."""
    disposable: bool = False
    """True if it is built to be copied, so that nothing needs to survive a crash."""
    places: str = ""
    """The file that gets its path, so that it is found when the settings name another one."""


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
        db.execute(f"PRAGMA page_size={sql.PAGE_SIZE}")
        _check_agent(db, location)
        _ensure_tables(db, location.path)
        db.execute("PRAGMA journal_mode=WAL")
        _claim(db, location)
    if location.places:
        keep_place(location.places, location.path, location.owner[1])


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
        if sql.single(db, "PRAGMA user_version") == sql.VERSION:
            return db
    # It has replaced the index that was checked, and may have no tables yet.
    close(db)
    prepare(location, create=False)
    raise FileReplaced(location.path)


def _repeat_if_replaced(location: IndexLocation, act: Callable[[], _T]) -> _T:
    """Return the result of ``act``, which is tried again if the index is replaced at that moment."""
    for _ in range(_TRIES):
        with suppress(FileReplaced), sql.translate_errors(location.path):
            return act()
    raise StoreBusy(f"The index {location.path} is being replaced again and again.", hint="Try again.")


def connect_empty(location: IndexLocation) -> apsw.Connection:
    """Return a connection to an index in memory that holds nothing."""
    db = apsw.Connection(":memory:")
    _ensure_tables(db, location.path)
    _claim(db, location)
    return db


def connect_unwritable(location: IndexLocation) -> apsw.Connection:
    """Return a connection to an index in a folder that cannot be written; raise if the index is not ours."""
    with sql.translate_errors(location.path):
        try:
            return _open_readable(location, apsw.SQLITE_OPEN_READONLY)
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            if has_changes_beside(location.path):
                raise
            # There is no write-ahead log, so the file is complete, and it can be read without a lock.
            return _open_readable(location, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, "?immutable=1")


def _open_readable(location: IndexLocation, flags: int, query: str = "") -> apsw.Connection:
    db = _open(location, flags, query)
    with _closed_on_failure(db):
        if sql.single(db, "PRAGMA user_version") != sql.VERSION or _read_owner(db) != location.owner:
            raise StoreUnavailable(f"The index {location.path} cannot be used without changing it.")
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
    if is_database and int.from_bytes(header[_APPLICATION_ID_AT], "big") == sql.APPLICATION_ID:
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
        size = int.from_bytes(header[_PAGES_AT], "big") * sql.PAGE_SIZE
        if os.path.getsize(path) < size:
            raise CorruptIndex(f"The index {path} is damaged: it is truncated.")


def _header(location: IndexLocation) -> bytes:
    """Return the first bytes of the file, read by SQLite: closing the file from Python would drop SQLite's locks."""
    with sql.translate_errors(location.path):
        file = apsw.VFSFile("", location.path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        try:
            return file.xRead(100, 0)
        finally:
            file.xClose()


def _read_owner(db: apsw.Connection) -> tuple[str, ...]:
    """Return the agent and the workspace whose notes an index holds; nothing if nobody has claimed it."""
    return tuple(
        value for (value,) in sql.rows(db, "SELECT value FROM meta WHERE key IN ('agent', 'workspace') ORDER BY key")
    )


def _check_agent(db: apsw.Connection, location: IndexLocation) -> None:
    """Raise if an index of whichever format is another agent's, before anything in it is changed."""
    if not sql.single(db, "SELECT count(*) FROM sqlite_schema WHERE name='meta'"):
        return
    known = _read_owner(db)
    if known and known[0] != location.owner[0]:
        hint = "Use {agentId} in memorySearch.store.path, so that each agent has its own index."
        raise ForeignDatabase(f"{location.path} is the index of agent {known[0]}. It was not changed.", hint=hint)


def _claim(db: apsw.Connection, location: IndexLocation) -> None:
    """Record the owner of an index, and empty it if it is another workspace's."""
    known = _read_owner(db)
    if known == location.owner:
        return
    with sql.transaction(db):
        if known:
            sql.create_tables(db)
        db.execute("INSERT OR REPLACE INTO meta(key, value) VALUES('agent', ?), ('workspace', ?)", location.owner)


def _foreign(path: str, what: str) -> ForeignDatabase:
    hint = "Set memorySearch.store.path to a file that does not exist yet: the index needs its own file."
    return ForeignDatabase(f"{path} {what}. It was not changed.", hint=hint)


def _ensure_tables(db: apsw.Connection, path: str) -> None:
    version = sql.single(db, "PRAGMA user_version")
    if version > sql.VERSION:
        hint = "Upgrade mdrecall, or set MDRECALL_STATE_DIR to another folder for this version."
        raise NewerIndex(
            f"The index {path} was written by a newer mdrecall (format {version}, ours is {sql.VERSION}).", hint=hint
        )
    if version == sql.VERSION:
        return
    with sql.transaction(db):
        # Another process may have made them meanwhile.
        if sql.single(db, "PRAGMA user_version") != sql.VERSION:
            sql.create_tables(db)
