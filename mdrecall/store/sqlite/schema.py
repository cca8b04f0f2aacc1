"""The tables, and the numbered migrations that upgrade an older index when it is opened."""

import apsw

#: Chunks are a little over 1 KB: on pages of 4 KB a quarter of the space would be lost between them. It must stay the
#: same: a rebuilt index is copied into the live file page by page.
PAGE_SIZE = 8192

#: ``mdrc``, in the header of every index: distinguishes it from any other database.
APPLICATION_ID = 0x6D647263


def m001_documents_chunks_and_keywords(db: apsw.Connection) -> None:
    """Documents with their stamps; chunks, each with only the text that the one before does not contain; terms."""
    db.execute(
        """
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
            text TEXT NOT NULL,
            UNIQUE(document_id, ordinal)
        ) STRICT;
        """
    )
    # A buffer of 8 MB instead of 1 is a quarter faster on a first index, and leaves fewer segments behind.
    # SQLite folds and stems the words; names come with their joiners as private characters, which it takes for letters.
    db.execute(
        """
        CREATE VIRTUAL TABLE keyword USING fts5(
            words, names, title,
            content='', contentless_delete=1,
            tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
        );
        CREATE VIRTUAL TABLE keyword_terms USING fts5vocab(keyword, row);
        INSERT INTO keyword(keyword, rank) VALUES('hashsize', 8388608);
        """
    )


def m002_vectors(db: apsw.Connection) -> None:
    """Embedding spaces, each with its own tables for vectors; cached embeddings; counters.

    Numbers of chunks come from a counter, so that none is ever reused: a vector held in memory always belongs to the
    chunk it was read for. Revisions of a new index count from the time in microseconds: another process may still hold
    vectors of an index that was just deleted, and must see that they are older even if the new file has its inode.
    """
    db.execute(
        """
        CREATE TABLE spaces(
            id INTEGER PRIMARY KEY,
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            dimensions INTEGER NOT NULL,
            stored INTEGER NOT NULL DEFAULT 0,
            filled_at INTEGER NOT NULL DEFAULT -1,
            ever_filled INTEGER NOT NULL DEFAULT 0,
            UNIQUE(fingerprint, dimensions)
        ) STRICT;
        CREATE TABLE embedding_cache(
            space_id INTEGER NOT NULL REFERENCES spaces(id),
            hash BLOB NOT NULL,
            used INTEGER NOT NULL,
            vector BLOB NOT NULL,
            windows BLOB NOT NULL,
            UNIQUE(space_id, hash)
        ) STRICT;
        CREATE INDEX embedding_cache_by_use ON embedding_cache(used);
        CREATE TABLE removed(revision INTEGER NOT NULL, chunk_id INTEGER NOT NULL) STRICT;
        CREATE INDEX removed_by_revision ON removed(revision);
        CREATE TABLE counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID, STRICT;
        INSERT INTO counters(name, value) VALUES
            ('revision', 1000 * CAST(1000 * unixepoch('subsec') AS INTEGER)), ('texts', 0), ('cache', 0),
            ('chunks', (SELECT coalesce(max(id), 0) FROM chunks));
        """
    )


def m003_index_format(db: apsw.Connection) -> None:
    """The format of the whole index; one that holds documents of several formats is rebuilt."""
    db.execute(
        """
        INSERT OR IGNORE INTO meta(key, value)
        SELECT 'recipe', CASE count(DISTINCT recipe) WHEN 1 THEN min(recipe) ELSE '?' END
        FROM documents HAVING count(*) > 0;
        """
    )


def m004_revisions_of_documents(db: apsw.Connection) -> None:
    """The revision that each document was added, changed or removed with, so that cached stamps are kept current."""
    db.execute(
        """
        ALTER TABLE documents ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX documents_by_revision ON documents(revision);
        CREATE TABLE gone(revision INTEGER NOT NULL, source TEXT NOT NULL, path TEXT NOT NULL) STRICT;
        CREATE INDEX gone_by_revision ON gone(revision);
        """
    )


def m005_jobs(db: apsw.Connection) -> None:
    """Open batch jobs at a provider, with the digests of their texts."""
    db.execute(
        """
        CREATE TABLE jobs(
            tag TEXT PRIMARY KEY,
            fingerprint TEXT NOT NULL,
            file TEXT NOT NULL,
            job TEXT NOT NULL,
            created_at REAL NOT NULL,
            digests BLOB NOT NULL
        ) WITHOUT ROWID, STRICT;
        """
    )


def m006_transcripts(db: apsw.Connection) -> None:
    """How far each transcript has been read, and which record each line of a chunk comes from.

    The chunk up to which a space is filled, so that new chunks are found without scanning all of them.
    """
    db.execute(
        """
        ALTER TABLE chunks ADD COLUMN records TEXT NOT NULL DEFAULT '';
        ALTER TABLE spaces ADD COLUMN filled_to INTEGER NOT NULL DEFAULT 0;
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
        """
    )


def m007_history(db: apsw.Connection) -> None:
    """The last revisions. A cache that has seen another one than these has seen an index that was restored since."""
    db.execute(
        """
        CREATE TABLE history(revision INTEGER PRIMARY KEY) STRICT;
        INSERT INTO history SELECT value FROM counters WHERE name='revision';
        """
    )


def m008_vectors_in_blocks(db: apsw.Connection) -> None:
    """Vectors as signed bytes, many in one row; ``m012`` has them made again."""


def m009_compressed_texts(db: apsw.Connection) -> None:
    """Texts in bytes, which may be compressed (``texts``), and the dictionary that they are compressed with."""
    db.execute(
        """
        CREATE TABLE dictionaries(key INTEGER PRIMARY KEY, words BLOB NOT NULL) STRICT;
        DROP TABLE chunks;
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
            UNIQUE(document_id, ordinal)
        ) STRICT;
        """
    )


def m010_marks_and_fields(db: apsw.Connection) -> None:
    """What annotations say about a chunk and front matter about a document, as JSON or empty.

    The few chunks that belong to a project are found by an index.
    """
    db.execute(
        """
        ALTER TABLE chunks ADD COLUMN marks TEXT NOT NULL DEFAULT '';
        ALTER TABLE documents ADD COLUMN fields TEXT NOT NULL DEFAULT '';
        CREATE INDEX chunks_of_projects ON chunks(id) WHERE instr(marks, '"project":') > 0;
        """
    )


def m011_days(db: apsw.Connection) -> None:
    """The day that a note is about, if it tells: a question about a time need not read every document."""
    db.execute(
        """
        ALTER TABLE documents ADD COLUMN day INTEGER;
        CREATE INDEX documents_by_day ON documents(day) WHERE day IS NOT NULL;
        """
    )


def m012_checksums(db: apsw.Connection) -> None:
    """Texts and vectors with checksums. An older index has none: it is filled again, with its cached embeddings."""
    from mdrecall.store.sqlite.revisions import forget_everything

    forget_everything(db)


MIGRATIONS = (
    m001_documents_chunks_and_keywords,
    m002_vectors,
    m003_index_format,
    m004_revisions_of_documents,
    m005_jobs,
    m006_transcripts,
    m007_history,
    m008_vectors_in_blocks,
    m009_compressed_texts,
    m010_marks_and_fields,
    m011_days,
    m012_checksums,
)
VERSION = len(MIGRATIONS)
