"""Which failures of qmd can be mended by building its index again, and how a damaged index is set aside."""

import os
import re
from contextlib import suppress

from mdrecall.errors import ProgramFailed, ProgramUnreadable
from mdrecall.qmd.database import QmdDatabase

_NOT_A_FOLDER = re.compile(r"\bENOTDIR\b|\bnot a directory\b", re.IGNORECASE)
_NUL = re.compile(r"\^@|\0|\\0|\\x00|\\u0000|\bnull? byte\b", re.IGNORECASE)
_TWICE = re.compile(
    r"UNIQUE constraint failed:(?=[^\n]*\bdocuments\.collection\b)[^\n]*\bdocuments\.path\b", re.IGNORECASE
)
_DAMAGED = re.compile(r"\bSQLITE_(NOTADB|CORRUPT)(_[A-Z]+)?\b|file is not a database|database disk image is malformed")
_SIDE_FILES = ("-wal", "-shm", "-journal")


def is_null_byte(error: ProgramFailed) -> bool:
    """Whether a path that qmd keeps has a NUL in it, which no file has."""
    return bool(_NOT_A_FOLDER.search(error.output) and _NUL.search(error.output))


def is_twice(error: ProgramFailed) -> bool:
    """Whether qmd trips over a document that it has already."""
    return bool(_TWICE.search(error.output))


def is_damaged(error: ProgramFailed) -> bool:
    """Whether SQLite says that qmd's index is no database, or a broken one."""
    return bool(_DAMAGED.search(error.output))


def set_aside(database: QmdDatabase) -> str:
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


def set_aside_if_damaged(database: QmdDatabase) -> str:
    """Set the index aside if even its first page cannot be read."""
    try:
        database.check()
    except ProgramUnreadable as error:
        if is_damage(error.__cause__):
            return set_aside(database)
    return ""


def is_damage(error: BaseException | None) -> bool:
    """Whether SQLite says that the file is damaged, and not only that it cannot be opened."""
    import apsw

    return isinstance(error, apsw.CorruptError | apsw.NotADBError)
