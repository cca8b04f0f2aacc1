"""Statements, transactions and errors of SQLite. Rows are plain tuples, whose types the type checker cannot know."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from mdrecall.errors import CorruptIndex, StoreBusy, StoreError, StoreUnavailable

_UNAVAILABLE = (apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.IOError)
_REBUILD_HINT = "Index again with force to rebuild it."


def rows(db: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> Iterable[tuple[Any, ...]]:
    """Return the rows of a statement."""
    return db.execute(sql, bindings)


def single(db: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> int:
    """Return the only number that a statement gives."""
    ((value,),) = rows(db, sql, bindings)
    return int(value)


@contextmanager
def transaction(db: apsw.Connection) -> Iterator[None]:
    """Commit everything inside or nothing; inside another transaction, together with that. Locks at once."""
    if _is_inside(db):
        yield
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _is_inside(db: apsw.Connection) -> bool:
    return db.in_transaction


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Raise mdrecall's errors for those of SQLite on the index at ``path``. Nothing else translates them."""
    try:
        yield
    except apsw.Error as error:
        raise _translate(error, path) from error
    except UnicodeEncodeError as error:
        shown = path.encode("utf-8", "backslashreplace").decode()
        hint = "Set MDRECALL_STATE_DIR to a folder whose name is Unicode."
        raise StoreUnavailable(f"The index {shown} has a name that is not Unicode.", hint=hint) from error
    except UnicodeDecodeError as error:
        raise CorruptIndex(f"The index {path} is damaged: it holds text that is not Unicode.") from error


def _translate(error: apsw.Error, path: str) -> StoreError:
    # The statements are fixed: if SQLite rejects one, the tables have been changed.
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.SQLError):
        return CorruptIndex(f"The index {path} is damaged: {error}.", hint=_REBUILD_HINT)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        hint = "Try again when the other mdrecall process has finished."
        return StoreBusy(f"Another process is writing to the index {path}.", hint=hint)
    if isinstance(error, apsw.FullError):
        hint = "Free some space, or set MDRECALL_STATE_DIR to a folder on another disk."
        return StoreUnavailable(f"The index {path} cannot be written: the disk is full.", hint=hint)
    if isinstance(error, _UNAVAILABLE):
        hint = "Free some space or fix the permissions, or set MDRECALL_STATE_DIR to a writable folder."
        return StoreUnavailable(f"The index {path} cannot be used: {error}.", hint=hint)
    return StoreError(f"The index {path} failed: {error}.", hint=_REBUILD_HINT)
