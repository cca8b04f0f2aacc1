"""Reading SQLite databases that belong to other programs, which may be writing to them.

Nothing is ever written to one, and a snapshot is short: as long as somebody reads, the owner's log cannot shrink.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import TypeVar

import apsw

from mdrecall.errors import FileMissing, FileUnreadable, NotAFile

T = TypeVar("T")

#: How long to wait for the owner. Readers wait only while it recovers or removes its log, which takes milliseconds.
_WAIT_MS = 2000
#: How often a database is read again that its owner has changed while it was read without a lock.
_TRIES = 3
#: Steps of SQLite for all that is read of one snapshot: about half a minute, a hundred times a large database's. A view
#: may be endless.
_MAX_STEPS = 1_000_000_000
_STEPS_AT_ONCE = 1_000_000
#: What a database has beside it while changes may not be in its file yet.
_LOGS = ("-wal", "-journal")


def read_snapshot(path: str, work: Callable[[apsw.Connection], T]) -> T:
    """Return what ``work`` reads of one snapshot. Raise a ``ReadError`` if the database cannot be read.

    Without a log a database is read without a lock. If its owner has begun to write in the meantime, it is read again.
    """
    for _ in range(_TRIES):
        is_locked, before = _has_log(path), _read_state(path)
        try:
            with open_snapshot(path) as connection:
                found = work(connection)
        except FileUnreadable:
            if is_locked or _read_state(path) == before:
                raise
        else:
            if is_locked or _read_state(path) == before:
                return found
    raise FileUnreadable(f"{path} changes faster than it can be read.", path=path, hint="Try again later.")


@contextmanager
def open_snapshot(path: str) -> Iterator[apsw.Connection]:
    """Open a database read-only, in one transaction. Raise a ``ReadError`` if that is impossible."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise NotAFile(f"{path} is not a regular file.", path=path)
    except OSError as error:
        raise FileMissing(f"There is no file {path}.", path=path) from error
    try:
        with closing(_connect(path)) as connection:
            yield connection
    except apsw.InterruptError as error:
        hint = "It may hold an endless view. Name another database."
        raise FileUnreadable(f"{path} takes too long to read.", path=path, hint=hint) from error
    except apsw.Error as error:
        hint = "Close the program that it belongs to and try again. A newer version may store conversations otherwise."
        raise FileUnreadable(f"Cannot read {path}: {error}.", path=path, hint=hint) from error


def _connect(path: str) -> apsw.Connection:
    """Begin a snapshot, and leave nothing behind in a folder where nobody is writing."""
    # Without a log nobody is writing. SQLite would create one, and leave it there, to be prepared for somebody who is.
    if not _has_log(path):
        return _begin(path, "immutable=1")
    try:
        return _begin(path, "mode=ro")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        # In a folder that is read-only, SQLite cannot prepare a log that is there but empty.
        if _log_size(path):
            raise
        return _begin(path, "immutable=1")


def _begin(path: str, how: str) -> apsw.Connection:
    from urllib.parse import quote

    connection = apsw.Connection(f"file:{quote(path)}?{how}", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(_WAIT_MS)
        rounds = count()
        connection.set_progress_handler(lambda: next(rounds) * _STEPS_AT_ONCE >= _MAX_STEPS, _STEPS_AT_ONCE)
        setup = "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; BEGIN; PRAGMA schema_version"
        connection.execute(setup).fetchall()
    except apsw.Error:
        connection.close()
        raise
    return connection


def _has_log(path: str) -> bool:
    return any(os.path.lexists(f"{path}{ending}") for ending in _LOGS)


def _log_size(path: str) -> int:
    return sum(os.stat(f"{path}{ending}").st_size for ending in _LOGS if os.path.lexists(f"{path}{ending}"))


def _read_state(path: str) -> tuple[int, ...]:
    """Return what changes when a program begins to write to a database, or writes to its file."""
    try:
        found = os.stat(path)
        return found.st_size, found.st_mtime_ns, found.st_ino, _log_size(path)
    except OSError:
        return ()
