"""Opening the index file: whose it is, which format it has, and what to do when it is damaged."""

import os
import stat
import time
from typing import NamedTuple

import apsw

from mdrecall.errors import CorruptIndex, ForeignDatabase, NewerIndex, StoreUnavailable
from mdrecall.store.sqlite.errors import translated
from mdrecall.store.sqlite.rows import rows, single, transaction
from mdrecall.store.sqlite.schema import APPLICATION_ID, MIGRATIONS, PAGE_SIZE, VERSION
from mdrecall.store.sqlite.vectors import forget_all

_MAGIC = b"SQLite format 3\0"
_APPLICATION_ID_AT = slice(68, 72)
_BUSY_MS = 5_000
_SIDE_FILES = ("", "-wal", "-shm")


class Owner(NamedTuple):
    """Whose notes an index holds."""

    agent: str
    workspace: str


def prepare(path: str, *, is_ours: bool, owner: Owner) -> None:
    """Make sure that ``path`` is an index of the current format, creating or upgrading it; never touch another's file.

    ``is_ours`` says that only mdrecall writes at this path, so that a file without a readable header is a damaged
    index and not somebody's data.
    """
    _check_owner(path, is_ours)
    _create(path)
    with translated(path):
        db = apsw.Connection(path)
        try:
            db.set_busy_timeout(_BUSY_MS)
            db.execute(f"PRAGMA page_size={PAGE_SIZE}")
            _upgrade(db, path)
            db.execute("PRAGMA journal_mode=WAL")
            _claim(db, path, owner)
        finally:
            db.close()


def connect(path: str, *, writable: bool) -> apsw.Connection:
    """A connection to an index that ``prepare`` has seen."""
    with translated(path):
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        db.set_busy_timeout(_BUSY_MS)
        db.execute("PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY")
        if not writable:
            db.execute("PRAGMA query_only=1")
        return db


def set_aside(path: str) -> str:
    """Move a damaged index out of the way, so that a new one can be built; gives its new name."""
    kept = f"{path}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06d}"
    for suffix in _SIDE_FILES:
        try:
            os.replace(path + suffix, kept + suffix)
        except FileNotFoundError:
            continue
        except OSError as error:
            message = f"The damaged index {path} cannot be moved away: {error.strerror}."
            raise StoreUnavailable(
                message, hint="Delete it by hand; it holds nothing that is not in your notes."
            ) from error
    return kept


def _create(path: str) -> None:
    """Make the file, if it is not there, so that only its owner can read it: it holds the text of the notes."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        hint = "Mend the permissions, or set MDRECALL_STATE_DIR to a folder that can be written."
        raise StoreUnavailable(f"Cannot create or write the index {path}: {error.strerror}.", hint=hint) from error


def _check_owner(path: str, is_ours: bool) -> None:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _foreign(path, "is not a file")
        with open(path, "rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        return
    except OSError as error:
        hint = "Mend its permissions."
        raise StoreUnavailable(f"Cannot open the index {path}: {error.strerror}.", hint=hint) from error
    if not header:
        return
    is_database = header.startswith(_MAGIC)
    if is_database and int.from_bytes(header[_APPLICATION_ID_AT], "big") == APPLICATION_ID:
        return
    if is_ours:
        raise CorruptIndex(f"The index {path} is damaged: it does not begin as an index does.")
    raise _foreign(path, "is a database of another program" if is_database else "is not a database")


def _claim(db: apsw.Connection, path: str, owner: Owner) -> None:
    """Write down whose index it is. Another agent's is left alone; of another workspace nothing is kept."""
    known = dict(rows(db, "SELECT key, value FROM meta WHERE key IN ('agent', 'workspace')"))
    if known == owner._asdict():
        return
    if known.get("agent", owner.agent) != owner.agent:
        hint = "Write {agentId} into memorySearch.store.path, so that each agent has an index of its own."
        raise ForeignDatabase(f"{path} is the index of agent {known['agent']} and is left as it is.", hint=hint)
    with transaction(db):
        if known:
            forget_all(db)
            db.execute("DELETE FROM documents; DELETE FROM chunks; INSERT INTO keyword(keyword) VALUES('delete-all')")
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
