"""Which database the ``-wal`` and ``-shm`` files at a path belong to, so that no other database ever meets them.

SQLite finds these files by name. When the database is replaced by a rename, as rsync and restores do, the new one would
read the log of the old one. Worse, a process that has both databases open would shorten the shared memory that its own
threads are reading, which kills it with SIGBUS. So a connection opens its database first, learns which file that is,
and looks at the side files only after those of an earlier database have been removed. A small file beside the index
says which database they belong to. Connections are opened and closed under a lock on it, held for an instant.
"""

import array
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw

from mdrecall.errors import StoreBusy
from mdrecall.store.sqlite.sidecar_files import GUARD

# A process holds the lock for an instant; one that is stopped in that instant must not hold up all others forever.
_WAIT_S = 5.0
_RETRY_S = 0.002
_RECORD_BYTES = 200
# SQLite maps its shared memory in pieces of this size, and closing reads the first one.
_REGION_BYTES = 32_768


class FileReplaced(StoreBusy):
    """The path names another file than the one that was just opened."""

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
    """Remove the guard's file if there are no side files that it says something about."""
    with _lock(path, create=False) as guard:
        _sweep(path, guard)


def _sweep(path: str, guard: int | None) -> None:
    if guard is not None and not os.path.lexists(f"{path}-wal"):
        with suppress(OSError):
            os.unlink(path + GUARD)


def _remove_strangers(path: str, known: list[int], opened: int) -> None:
    """Remove the side files of another database than the opened one. A log that came with the new one is kept."""
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
            flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
            file = os.open(path + GUARD, flags, 0o600)
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
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file), os.stat(path + GUARD))
    except (BlockingIOError, FileNotFoundError):
        return False


def _read(guard: int) -> list[int]:
    """Return the inodes of the database and of its log; nothing if it was never written down."""
    try:
        known = json.loads(os.pread(guard, _RECORD_BYTES, 0))
        return [int(number) for number in known]
    except (OSError, ValueError, TypeError):
        return []


def _write(guard: int, *inodes: int) -> None:
    if _read(guard) != [*inodes]:
        with suppress(OSError):
            os.pwrite(guard, json.dumps(inodes).encode().ljust(_RECORD_BYTES), 0)


def _inode(path: str) -> int:
    """Return the inode of a file; 0 if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _has_moved(db: apsw.Connection) -> bool:
    """True if the path of a database names another file than the one that is open."""
    answer = array.array("i", [0])
    db.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, answer.buffer_info()[0])
    return bool(answer[0])
