"""SQLite's errors in mdrecall's words, translated here and nowhere else."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from mdrecall.errors import CorruptIndex, StoreBusy, StoreError, StoreUnavailable

_UNAVAILABLE = (apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.IOError)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise mdrecall's errors for those of SQLite on the index at ``path``."""
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
    # The statements are fixed: if SQLite cannot make sense of one, the tables are not what they were.
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.SQLError):
        return CorruptIndex(f"The index {path} is damaged: {error}.", hint="`mdrecall index --force` rebuilds it.")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        hint = "Try again when the other mdrecall process has finished."
        return StoreBusy(f"Another process is writing to the index {path}.", hint=hint)
    if isinstance(error, apsw.FullError):
        hint = "Free some space, or set MDRECALL_STATE_DIR to a folder on another disk."
        return StoreUnavailable(f"The index {path} cannot be written: the disk is full.", hint=hint)
    if isinstance(error, _UNAVAILABLE):
        hint = "Free some space or mend the permissions, or set MDRECALL_STATE_DIR to a folder that can be written."
        return StoreUnavailable(f"The index {path} cannot be used: {error}.", hint=hint)
    return StoreError(f"The index {path} failed: {error}.", hint="`mdrecall index --force` rebuilds it.")
