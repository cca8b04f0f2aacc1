"""The basis of an index in SQLite: statements and errors, the tables, the texts in them, and revisions.

Rows are plain tuples, whose types the type checker cannot know.

A stored text begins with a letter and a checksum of the plain text. The letter is ``p`` for a plain text, ``d`` for a
compressed one. A capital letter says that the text begins with ``---``, as front matter does.

Every change has a number, its revision, so that caches in memory read only what is newer. A number is never used again,
not even after an older state of the index was restored: it is the time in microseconds, or one more than the last. The
last numbers are remembered, so that a cache which has seen a state that is gone notices. An index of another format is
emptied when it is opened, and filled again from the notes.
"""

import struct
import zlib
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
    except (apsw.Error, UnicodeError) as error:
        raise explain_error(error, path) from error


def explain_error(error: apsw.Error | UnicodeError, path: str) -> StoreError:
    """Return mdrecall's error for one of SQLite."""
    if isinstance(error, UnicodeEncodeError):
        shown = path.encode("utf-8", "backslashreplace").decode()
        hint = "Set MDRECALL_STATE_DIR to a folder whose name is Unicode."
        return StoreUnavailable(f"The index {shown} has a name that is not Unicode.", hint=hint)
    if isinstance(error, UnicodeDecodeError):
        return CorruptIndex(f"The index {path} is damaged: it holds text that is not Unicode.")
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


#: Chunks are a little over 1 KB: on pages of 4 KB a quarter of the space would be lost between them. It must stay the
#: same: a rebuilt index is copied into the live file page by page.
PAGE_SIZE = 8192
#: ``mdrc``, in the header of every index: distinguishes it from any other database.
APPLICATION_ID = 0x6D647263
#: The format of the tables. Raise it when they change, and leave those that are carried over as they are.
VERSION = 14
# Carried over from another format: what was paid for, and counters, whose numbers are never given out again. Since
# format 6 they are as they are now.
_CARRIED = ("spaces", "embedding_cache", "jobs", "counters")
# A document has its stamp, its format (``recipe``) and the revision that changed it. Chunks that follow each other are
# compressed as one text, in which each has a place. FTS5 folds and stems the words; names come with their joiners as
# private characters, which it takes for letters. Its buffer of 8 MB instead of 1 is a quarter faster on a first index,
# and leaves fewer segments behind.
_CONTENT = """
    CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE documents(
        id INTEGER PRIMARY KEY, source TEXT NOT NULL, path TEXT NOT NULL, hash BLOB NOT NULL,
        size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
        seen_ns INTEGER NOT NULL, recipe TEXT NOT NULL, revision INTEGER NOT NULL, fields TEXT NOT NULL, day INTEGER,
        UNIQUE(source, path)
    ) STRICT;
    CREATE TABLE chunks(
        id INTEGER PRIMARY KEY, document_id INTEGER NOT NULL REFERENCES documents(id), ordinal INTEGER NOT NULL,
        start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
        trail TEXT NOT NULL, records TEXT NOT NULL, marks TEXT NOT NULL,
        text_id INTEGER NOT NULL REFERENCES texts(id), at INTEGER NOT NULL, length INTEGER NOT NULL,
        UNIQUE(document_id, ordinal)
    ) STRICT;
    CREATE TABLE texts(id INTEGER PRIMARY KEY, text BLOB NOT NULL) STRICT;
    CREATE VIRTUAL TABLE keyword USING fts5(
        words, names, title,
        content='', contentless_delete=1,
        tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
    );
    CREATE VIRTUAL TABLE keyword_terms USING fts5vocab(keyword, row);
    INSERT INTO keyword(keyword, rank) VALUES('hashsize', 8388608);
    CREATE INDEX documents_by_revision ON documents(revision);
    CREATE INDEX documents_by_day ON documents(day) WHERE day IS NOT NULL;
    CREATE INDEX chunks_of_projects ON chunks(id) WHERE instr(marks, '"project":') > 0;
    CREATE TABLE transcripts(
        path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
        until INTEGER NOT NULL, tail INTEGER NOT NULL, record INTEGER NOT NULL, parts INTEGER NOT NULL,
        seal BLOB NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE removed(revision INTEGER NOT NULL, chunk_id INTEGER NOT NULL) STRICT;
    CREATE INDEX removed_by_revision ON removed(revision);
    CREATE TABLE gone(revision INTEGER NOT NULL, source TEXT NOT NULL, path TEXT NOT NULL) STRICT;
    CREATE INDEX gone_by_revision ON gone(revision);
    CREATE TABLE history(revision INTEGER PRIMARY KEY) STRICT;
"""
# Numbers of chunks come from a counter, so that none is ever reused: a vector held in memory always belongs to the
# chunk it was read for. Revisions count from the time in microseconds: another process may still hold vectors of an
# index that was just deleted, and must see that they are older even if the new file has its inode.
_NEW_REVISION = """
    UPDATE counters SET value = max(value + 1, 1000 * CAST(1000 * unixepoch('subsec') AS INTEGER))
    WHERE name='revision'
"""
_PAID = f"""
    CREATE TABLE IF NOT EXISTS spaces(
        id INTEGER PRIMARY KEY,
        provider TEXT NOT NULL, model TEXT NOT NULL, fingerprint TEXT NOT NULL, dimensions INTEGER NOT NULL,
        stored INTEGER NOT NULL DEFAULT 0, filled_at INTEGER NOT NULL DEFAULT -1,
        ever_filled INTEGER NOT NULL DEFAULT 0, filled_to INTEGER NOT NULL DEFAULT 0,
        UNIQUE(fingerprint, dimensions)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS embedding_cache(
        space_id INTEGER NOT NULL REFERENCES spaces(id), hash BLOB NOT NULL, used INTEGER NOT NULL,
        vector BLOB NOT NULL, windows BLOB NOT NULL,
        UNIQUE(space_id, hash)
    ) STRICT;
    CREATE INDEX IF NOT EXISTS embedding_cache_by_use ON embedding_cache(used);
    CREATE TABLE IF NOT EXISTS jobs(
        tag TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, file TEXT NOT NULL, job TEXT NOT NULL,
        created_at REAL NOT NULL, digests BLOB NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE IF NOT EXISTS counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    INSERT OR IGNORE INTO counters(name, value) VALUES('revision', 0), ('texts', 0), ('cache', 0), ('chunks', 0);
    {_NEW_REVISION};
    UPDATE spaces SET stored = 0, filled_at = -1, ever_filled = 0, filled_to = 0;
    INSERT INTO history SELECT value FROM counters WHERE name='revision';
"""


def create_tables(db: apsw.Connection) -> None:
    """Make the tables of a new index, or replace those of another format, within a transaction."""
    others = f"type='table' AND name NOT LIKE 'sqlite_%' AND name NOT IN {_CARRIED}"
    # A virtual table takes the tables that it consists of along.
    by_kind = f"SELECT name FROM sqlite_schema WHERE {others} ORDER BY sql NOT LIKE 'CREATE VIRTUAL%', name DESC"
    for (table,) in list(rows(db, by_kind)):
        db.execute(f"DROP TABLE IF EXISTS {table}")
    db.execute(_CONTENT)
    db.execute(_PAID)
    db.execute(f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION}")


#: What the stored texts that may begin with front matter begin with.
FRONT_MATTER_MARKS = "(x'50', x'44')"
# Level 4 compresses notes in 55 µs a chunk; level 6 takes 90 and saves 2 % more.
_LEVEL, _RAW = 4, -15
# Most plain texts have fewer bytes; for another, the buffer grows.
_TEXT_BYTES = 4_096
_CHECKSUM = struct.Struct("<I")


def pack_text(text: str) -> bytes:
    """Return a text as it is stored."""
    plain = text.encode()
    packed = zlib.compress(plain, _LEVEL, _RAW)
    mark, packed = (b"d", packed) if len(packed) < len(plain) else (b"p", plain)
    return (mark.upper() if text.startswith("---") else mark) + _CHECKSUM.pack(zlib.crc32(plain)) + packed


def unpack_text(stored: bytes) -> str:
    """Return a stored text; raise if it is damaged."""
    mark, checksum, plain = stored[:1].lower(), stored[1:5], stored[5:]
    if mark == b"d":
        try:
            # All at once: an object that decompresses in steps takes a third more time.
            plain = zlib.decompress(plain, _RAW, _TEXT_BYTES)
        except zlib.error as error:
            raise apsw.CorruptError("a text cannot be decompressed") from error
    if _CHECKSUM.pack(zlib.crc32(plain)) != checksum:
        raise apsw.CorruptError("a text is not what its checksum says")
    return str(plain, "utf-8")


#: Removals are remembered for this many revisions, which bounds two tables that only grow otherwise. A cache that is
#: further behind loads everything again.
REMEMBERED_REVISIONS = 1_000


def bump(db: apsw.Connection, counter: str) -> int:
    """Increase a counter and return its new value."""
    db.execute("UPDATE counters SET value = value + 1 WHERE name=?", (counter,))
    return single(db, "SELECT value FROM counters WHERE name=?", (counter,))


def start_revision(db: apsw.Connection) -> int:
    """Return the number of a new change, and forget the changes that are too long ago."""
    db.execute(_NEW_REVISION)
    revision = current_revision(db)
    db.execute("INSERT INTO history(revision) VALUES(?)", (revision,))
    oldest = list(rows(db, "SELECT revision FROM history ORDER BY revision DESC LIMIT 1 OFFSET ?",
                       (REMEMBERED_REVISIONS,)))  # fmt: skip
    for (before,) in oldest:
        for table in ("history", "gone", "removed"):
            db.execute(f"DELETE FROM {table} WHERE revision < ?", (before,))
    return revision


def current_revision(db: apsw.Connection) -> int:
    """Return the number of the last change."""
    return single(db, "SELECT value FROM counters WHERE name='revision'")


def is_remembered(db: apsw.Connection, revision: int) -> bool:
    """True if the index was at a revision not long ago, and was changed only by adding revisions since."""
    return single(db, "SELECT count(*) FROM history WHERE revision=?", (revision,)) > 0


def is_stored(db: apsw.Connection, space: int) -> bool:
    """True if a space has tables."""
    return single(db, "SELECT count(*) FROM spaces WHERE id=? AND stored", (space,)) > 0
