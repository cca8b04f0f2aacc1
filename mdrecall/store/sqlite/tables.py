"""The ground of an index in SQLite: statements and errors, the tables, the texts in them, and revisions.

Rows are plain tuples, whose types the type checker cannot know.

A stored text begins with a letter and a checksum of the plain text. The letter is ``p`` for a plain text, ``d`` for a
compressed one, ``w`` for one compressed with the dictionary of words that several chunks share, whose key follows. A
capital letter says that the text begins with ``---``, as front matter does.

Every change has a number, its revision, so that caches in memory read only what is newer. A number is never used again,
not even after an older state of the index was restored: it is the time in microseconds, or one more than the last. The
last numbers are remembered, so that a cache which has seen a state that is gone notices. An index of another format is
emptied when it is opened, and filled again from the notes.
"""

import struct
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from mdrecall.errors import CorruptIndex, StoreBusy, StoreError, StoreUnavailable
from mdrecall.named_tuple import NamedTuple
from mdrecall.types import Chunk, PendingChunk
from mdrecall.types.documents import title_path

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
VERSION = 12
# Carried over from another format: what was paid for, and counters, whose numbers are never given out again. Since
# format 6 they are as they are now.
_CARRIED = ("spaces", "embedding_cache", "jobs", "counters")
# A document has its stamp, its format (``recipe``) and the revision that changed it; a chunk only the text that the one
# before does not contain. FTS5 folds and stems the words; names come with their joiners as private characters, which it
# takes for letters. Its buffer of 8 MB instead of 1 is a quarter faster on a first index, and leaves fewer segments
# behind.
_CONTENT = """
    CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE documents(
        id INTEGER PRIMARY KEY,
        source TEXT NOT NULL,
        path TEXT NOT NULL,
        hash BLOB NOT NULL,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL,
        ctime_ns INTEGER NOT NULL,
        inode INTEGER NOT NULL,
        seen_ns INTEGER NOT NULL,
        recipe TEXT NOT NULL,
        revision INTEGER NOT NULL DEFAULT 0,
        fields TEXT NOT NULL DEFAULT '',
        day INTEGER,
        UNIQUE(source, path)
    ) STRICT;
    CREATE TABLE chunks(
        id INTEGER PRIMARY KEY,
        document_id INTEGER NOT NULL REFERENCES documents(id),
        ordinal INTEGER NOT NULL,
        start_line INTEGER NOT NULL,
        end_line INTEGER NOT NULL,
        overlap INTEGER NOT NULL,
        trail TEXT NOT NULL,
        records TEXT NOT NULL,
        text BLOB NOT NULL,
        marks TEXT NOT NULL DEFAULT '',
        UNIQUE(document_id, ordinal)
    ) STRICT;
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
    CREATE TABLE dictionaries(key INTEGER PRIMARY KEY, words BLOB NOT NULL) STRICT;
    CREATE TABLE transcripts(
        path TEXT PRIMARY KEY,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL,
        inode INTEGER NOT NULL,
        until INTEGER NOT NULL,
        tail INTEGER NOT NULL,
        record INTEGER NOT NULL,
        parts INTEGER NOT NULL,
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
_PAID = """
    CREATE TABLE IF NOT EXISTS spaces(
        id INTEGER PRIMARY KEY,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        dimensions INTEGER NOT NULL,
        stored INTEGER NOT NULL DEFAULT 0,
        filled_at INTEGER NOT NULL DEFAULT -1,
        ever_filled INTEGER NOT NULL DEFAULT 0,
        filled_to INTEGER NOT NULL DEFAULT 0,
        UNIQUE(fingerprint, dimensions)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS embedding_cache(
        space_id INTEGER NOT NULL REFERENCES spaces(id),
        hash BLOB NOT NULL,
        used INTEGER NOT NULL,
        vector BLOB NOT NULL,
        windows BLOB NOT NULL,
        UNIQUE(space_id, hash)
    ) STRICT;
    CREATE INDEX IF NOT EXISTS embedding_cache_by_use ON embedding_cache(used);
    CREATE TABLE IF NOT EXISTS jobs(
        tag TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        file TEXT NOT NULL,
        job TEXT NOT NULL,
        created_at REAL NOT NULL,
        digests BLOB NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE IF NOT EXISTS counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    INSERT OR IGNORE INTO counters(name, value) VALUES('revision', 0), ('texts', 0), ('cache', 0), ('chunks', 0);
    UPDATE counters SET value = max(value + 1, 1000 * CAST(1000 * unixepoch('subsec') AS INTEGER))
        WHERE name='revision';
    UPDATE spaces SET stored = 0, filled_at = -1, ever_filled = 0, filled_to = 0;
    INSERT INTO history SELECT value FROM counters WHERE name='revision';
"""


def create_tables(db: apsw.Connection) -> None:
    """Make the tables of a new index, or replace those of another format, within a transaction."""
    # A virtual table takes the tables that it consists of along.
    others = "type='table' AND name NOT LIKE 'sqlite_%' AND name NOT IN (SELECT value FROM json_each(?))"
    by_kind = f"SELECT name FROM sqlite_schema WHERE {others} ORDER BY sql NOT LIKE 'CREATE VIRTUAL%', name DESC"
    carried = "[" + ", ".join(f'"{table}"' for table in _CARRIED) + "]"
    for (table,) in list(rows(db, by_kind, (carried,))):
        db.execute(f"DROP TABLE IF EXISTS {table}")
    db.execute(_CONTENT)
    db.execute(_PAID)
    db.execute(f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION}")


#: What the stored texts that may begin with front matter begin with.
FRONT_MATTER_MARKS = "(x'50', x'44', x'57')"
#: The SQL function that gives a stored text back.
UNPACK = "unpack_text"
# Level 4 compresses notes to .41 to .50 in 55 µs a chunk; level 6 to .40 to .48 in 90, level 2 to .43 to .52 in 50.
_LEVEL = 4
# Every text is compressed by a copy of a compressor that knows the dictionary. With less memory it is copied faster.
_RAW, _MEMORY = -15, 7
# A shorter text does not become shorter.
_SHORTEST = 64
# deflate looks back 32 KB, less what the text itself needs.
_DICTIONARY_BYTES = 30_000
# So much text makes a good dictionary, and so little makes none.
_SAMPLE_CHARS, _LEAST_CHARS = 400_000, 50_000
# Fewer stored chunks than this are not read for a dictionary, because they hardly ever have as much text.
_FEW_STORED = 30
# A word of fewer chunks says more about them than it saves, and it would outlive them.
_FEWEST_CHUNKS = 3
# As much text is remembered until it is embedded: that of a usual batch, which is in memory in any case.
_MOST_WRITTEN_CHARS = 5_000_000
# To name a shorter word takes as much space as the word.
_SHORTEST_WORD = 3
# A key or a checksum.
_NUMBER = struct.Struct("<I")


_OWN_TEXT = f"SELECT {UNPACK}(text) FROM chunks WHERE document_id=? AND ordinal=?"


class Dictionary(NamedTuple):
    """A dictionary, ready to compress with."""

    key: int
    compressor: "zlib._Compress"


class WrittenTexts:
    """The chunks that a transaction has written so far, so that they can be embedded without being read back."""

    def __init__(self) -> None:
        self._is_open = False
        self._chunks: dict[int, PendingChunk] = {}
        self._chars = 0

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Remember what is written inside, which is one transaction: another one may use the same numbers."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open, self._chunks, self._chars = False, {}, 0

    def add(self, number: int, path: str, chunk: Chunk) -> None:
        """Remember a chunk of the document at a path, unless there are too many."""
        if self._is_open and self._chars < _MOST_WRITTEN_CHARS:
            self._chars += len(chunk.text)
            self._chunks[number] = PendingChunk(number, title_path(path), chunk.trail, chunk.text)

    def find(self, numbers: Sequence[int]) -> list[PendingChunk]:
        """Return chunks by their numbers; nothing if not all of them are remembered."""
        chunks = self._chunks
        return [chunks[number] for number in numbers] if all(map(chunks.__contains__, numbers)) else []


def pack_text(text: str, dictionary: Dictionary | None) -> bytes:
    """Return a text as it is stored."""
    plain = text.encode()
    mark, packed = b"p", plain
    if len(plain) >= _SHORTEST:
        mark, compressor = b"d", _new_compressor(b"") if dictionary is None else dictionary.compressor.copy()
        packed = compressor.compress(plain) + compressor.flush()
        if dictionary is not None:
            mark, packed = b"w", _NUMBER.pack(dictionary.key) + packed
        if len(packed) >= len(plain):
            mark, packed = b"p", plain
    return (mark.upper() if text.startswith("---") else mark) + _NUMBER.pack(zlib.crc32(plain)) + packed


def add_function(db: apsw.Connection) -> None:
    """Give a connection the SQL function that reads stored texts."""
    db.create_scalar_function(UNPACK, _make_unpacker(weakref.ref(db)), 1, deterministic=True)


def load_dictionary(db: apsw.Connection) -> Dictionary | None:
    """Return the dictionary to compress with; None if there is none, or it has no words."""
    for key, words in rows(db, "SELECT key, words FROM dictionaries"):
        return Dictionary(key, _new_compressor(words)) if words else None
    return None


def make_dictionary(db: apsw.Connection, texts: Iterable[str]) -> Dictionary | None:
    """Make the dictionary of an index that has none, if there is enough text in the index and in ``texts``."""
    if list(rows(db, "SELECT key FROM dictionaries")):
        return load_dictionary(db)
    sample = _take_sample(texts)
    if sum(map(len, sample)) < _LEAST_CHARS and single(db, "SELECT coalesce(max(id), 0) FROM chunks") > _FEW_STORED:
        sample += _take_sample(text for (text,) in rows(db, f"SELECT {UNPACK}(text) FROM chunks ORDER BY id DESC"))
    if sum(map(len, sample)) < _LEAST_CHARS:
        return None
    words = collect_words(sample)
    db.execute("INSERT INTO dictionaries(key, words) VALUES(?, ?)", (zlib.crc32(words), words))
    return load_dictionary(db)


def collect_words(texts: Sequence[str]) -> bytes:
    """Return the words that save most, the best ones last, where they are nearest to a text."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        counts.update(set(text.encode().split()))
    frequent = {word: count for word, count in counts.items() if count >= _FEWEST_CHUNKS}
    shared = [(count * (len(word) - 1), word) for word, count in frequent.items() if len(word) >= _SHORTEST_WORD]
    shared.sort(reverse=True)
    chosen: list[bytes] = []
    size = 0
    for _, word in shared:
        size += len(word) + 1
        if size > _DICTIONARY_BYTES:
            break
        chosen.append(b" " + word)
    return b"".join(reversed(chosen))


def _take_sample(texts: Iterable[str]) -> list[str]:
    sample: list[str] = []
    size = 0
    for text in texts:
        sample.append(text)
        size += len(text)
        if size >= _SAMPLE_CHARS:
            break
    return sample


def _new_compressor(words: bytes) -> "zlib._Compress":
    if not words:
        return zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, _MEMORY)
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, words)


def _decompress(packed: bytes, words: bytes) -> bytes:
    decompressor = zlib.decompressobj(_RAW, words)
    plain = decompressor.decompress(packed)
    if not decompressor.eof:
        raise zlib.error("the end is missing")
    return plain


def _make_unpacker(connection: "weakref.ref[apsw.Connection]") -> Callable[..., str]:
    known: dict[bytes, bytes] = {}

    def find_words(key: bytes) -> bytes:
        if key not in known:
            db = connection()
            assert db is not None, "a function of a connection runs only while the connection is there"
            found = rows(db, "SELECT words FROM dictionaries WHERE key=?", _NUMBER.unpack(key))
            known[key] = next(words for (words,) in found)
        return known[key]

    def unpack(stored: Any) -> str:
        mark, checksum, packed = stored[:1].lower(), stored[1:5], stored[5:]
        try:
            if mark == b"w":
                plain = _decompress(packed[4:], find_words(packed[:4]))
            else:
                plain = packed if mark == b"p" else _decompress(packed, b"")
        except (zlib.error, struct.error, StopIteration) as error:
            raise apsw.CorruptError("a text cannot be decompressed") from error
        if _NUMBER.pack(zlib.crc32(plain)) != checksum:
            raise apsw.CorruptError("a text is not what its checksum says")
        return str(plain, "utf-8")

    return unpack


#: Removals are remembered for this many revisions, which bounds two tables that only grow otherwise. A cache that is
#: further behind loads everything again.
REMEMBERED_REVISIONS = 1_000

_NEW_REVISION = """
    UPDATE counters SET value = max(value + 1, 1000 * CAST(1000 * unixepoch('subsec') AS INTEGER))
    WHERE name='revision'
"""


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


def invalidate_caches(db: apsw.Connection) -> None:
    """Start a new history, so that every cache in memory loads everything again."""
    db.execute("DELETE FROM history")
    start_revision(db)


def is_remembered(db: apsw.Connection, revision: int) -> bool:
    """True if the index was at a revision not long ago, and was changed only by adding revisions since."""
    return single(db, "SELECT count(*) FROM history WHERE revision=?", (revision,)) > 0


def is_stored(db: apsw.Connection, space: int) -> bool:
    """True if a space has tables."""
    return single(db, "SELECT count(*) FROM spaces WHERE id=? AND stored", (space,)) > 0


def shared_text(db: apsw.Connection, document_id: int, ordinal: int, length: int) -> str:
    """Return the text that a chunk shares with the ones before it, which is stored only there."""
    shared = ""
    while len(shared) < length and ordinal > 0:
        ordinal -= 1
        for (text,) in rows(db, _OWN_TEXT, (document_id, ordinal)):
            shared = text[-(length - len(shared)) :] + shared
    return shared
