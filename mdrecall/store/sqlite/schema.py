"""The tables of an index. One of another format is emptied when it is opened, and filled again from the notes."""

import apsw

from mdrecall.store.sqlite.sql import rows

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
