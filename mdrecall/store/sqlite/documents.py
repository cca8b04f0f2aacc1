"""Documents and transcripts in the index. A document goes in or out whole: all its rows change in one transaction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import apsw

from mdrecall.core.text.annotations import pack_marks
from mdrecall.core.text.days import note_day
from mdrecall.core.text.notes import pack_fields
from mdrecall.store.caches import StampCache
from mdrecall.store.matching import encode_names
from mdrecall.store.sqlite.file import IndexFile
from mdrecall.store.sqlite.revisions import DocumentRows, bump, forget_chunks, start_revision
from mdrecall.store.sqlite.sql import rows, single, transaction
from mdrecall.store.sqlite.texts import WrittenTexts, load_dictionary, make_dictionary, pack_text
from mdrecall.types import Chunk, Document, IndexedChunk, KnownDocument, SourceName, Transcript
from mdrecall.types.documents import PART_MARK, file_path, part_path

_HASH = "SELECT hash, recipe FROM documents WHERE source=? AND path=?"
_STORED = "SELECT id FROM documents WHERE source=? AND path=?"
_PUT_DOCUMENT = """
    INSERT INTO documents(id, source, path, hash, size, mtime_ns, ctime_ns, inode, seen_ns, recipe, fields, day,
        revision)
    VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PUT_CHUNK = """
    INSERT INTO chunks(id, document_id, ordinal, start_line, end_line, overlap, trail, records, marks, text)
    VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PUT_TERMS = "INSERT INTO keyword(rowid, words, names, title) VALUES(?, ?, ?, ?)"
_PUT_INDEX_FORMAT = """
    INSERT INTO meta(key, value) VALUES('recipe', ?)
    ON CONFLICT(key) DO UPDATE SET value = '?' WHERE value <> excluded.value
"""
_PUT_MASKS = "INSERT OR REPLACE INTO meta(key, value) VALUES('masks', ?)"
_REFRESH_STAMP = """
    UPDATE documents SET size=?, mtime_ns=?, ctime_ns=?, inode=?, seen_ns=?, revision=?
    WHERE source=? AND path=? AND hash=?
"""
# Rows are collected up to this number, so that a long document is never in memory with all its chunks.
_ROWS_AT_ONCE = 1_000
# As much of a note as its front matter needs.
_HEAD_CHARS = 1_000
_TRANSCRIPT = "path, size, mtime_ns, inode, until, tail, record, parts, seal"


class SqliteDocuments:
    """The role ``DocumentWriter``."""

    def __init__(self, file: IndexFile, stamps: StampCache, written: WrittenTexts) -> None:
        self._file = file
        self._stamps = stamps
        self._written = written

    def commit(self, write: Callable[[], object]) -> None:
        """Commit everything that ``write`` writes at once, or nothing."""
        with self._file.transaction(), self._written.collecting():
            write()

    def index_format(self) -> str:
        """Return the format of all documents; empty if there have been none."""
        with self._file.reading() as db:
            return next((value for (value,) in rows(db, "SELECT value FROM meta WHERE key='recipe'")), "")

    def masks(self) -> str:
        """Return what stands for the forgotten texts that all documents are free of."""
        with self._file.reading() as db:
            return _read_masks(db)

    def mark_masked(self, masks: str) -> None:
        """Record that all documents are free of some forgotten texts."""
        with self._file.writing() as db, transaction(db):
            db.execute(_PUT_MASKS, (masks,))

    def hashes(self, source: SourceName) -> Mapping[str, bytes]:
        """Return every file of a source with a hash of its indexed content."""
        found: dict[str, list[bytes]] = {}
        with self._file.reading() as db:
            for path, digest in rows(db, "SELECT path, hash FROM documents WHERE source=? ORDER BY path", (source,)):
                found.setdefault(file_path(path), []).append(digest)
        return {path: b"".join(digests) for path, digests in found.items()}

    def known_stamps(self, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        """Return the stamp that each document was read at; an empty one where it proves nothing."""
        with self._file.reading() as db:
            return self._stamps.get(DocumentRows(db), source, settle_ns)

    def known_document(self, source: SourceName, path: str) -> KnownDocument | None:
        """Return the hash and format of an indexed document."""
        with self._file.reading() as db:
            for digest, index_format in rows(db, _HASH, (source, path)):
                return KnownDocument(digest.hex(), index_format)
        return None

    def put(self, items: Sequence[tuple[Document, Iterable[IndexedChunk]]], index_format: str, masks: str = "") -> None:
        """Add or replace documents, whose chunks are taken one by one."""
        with self._file.writing() as db, transaction(db):
            _put(db, items, index_format, masks, self._written)

    def remove(self, source: SourceName, paths: Iterable[str]) -> None:
        """Remove documents with their chunks and vectors."""
        with self._file.writing() as db, transaction(db):
            _remove(db, source, paths)

    def find_gone(self, source: SourceName, missing: Sequence[str]) -> list[str]:
        """Return all of them: an index in a file belongs to the notes of this machine."""
        return list(missing)

    def refresh_stamps(self, items: Iterable[Document]) -> None:
        """Store new stamps of documents whose content is still the indexed one."""
        with self._file.writing() as db, transaction(db):
            revision = start_revision(db)
            changed = [
                (*new.stamp, new.seen_ns, revision, new.source, new.path, bytes.fromhex(new.hash)) for new in items
            ]
            db.executemany(_REFRESH_STAMP, changed)

    def transcripts(self) -> Mapping[str, Transcript]:
        """Return how far each transcript has been indexed, by path."""
        with self._file.reading() as db:
            return {row[0]: Transcript(*row) for row in rows(db, f"SELECT {_TRANSCRIPT} FROM transcripts")}

    def put_transcript(
        self,
        state: Transcript,
        keep: int,
        parts: Sequence[tuple[Document, Iterable[IndexedChunk]]],
        index_format: str,
        masks: str = "",
    ) -> None:
        """Keep the first parts of a transcript, replace the rest, and store how far it was read."""
        with self._file.writing() as db, transaction(db):
            _remove(db, "sessions", _parts(db, state.path, keep))
            _put(db, parts, index_format, masks, self._written)
            marks = ", ".join("?" * len(state))
            db.execute(f"INSERT OR REPLACE INTO transcripts({_TRANSCRIPT}) VALUES({marks})", state)

    def remove_transcripts(self, paths: Iterable[str]) -> None:
        """Remove transcripts with all their parts."""
        with self._file.writing() as db, transaction(db):
            for path in paths:
                _remove(db, "sessions", _parts(db, path, 0))
                db.execute("DELETE FROM transcripts WHERE path=?", (path,))


def _put(
    db: apsw.Connection,
    documents: Sequence[tuple[Document, Iterable[IndexedChunk]]],
    index_format: str,
    masks: str,
    written: WrittenTexts,
) -> None:
    """Add or replace documents.

    Numbers are given out here and not by SQLite: RETURNING would make FTS5 write out its buffer after every row.
    """
    revision = start_revision(db)
    bump(db, "texts")
    document_id = single(db, "SELECT coalesce(max(id), 0) FROM documents")
    is_first = not document_id
    if not is_first:
        for document, _ in documents:
            _delete_rows(db, document.source, document.path)
    chunk_id = single(db, "SELECT value FROM counters WHERE name='chunks'")
    rows_of_documents: list[tuple[Any, ...]] = []
    rows_of_chunks: list[tuple[Any, ...]] = []
    rows_of_terms: list[tuple[Any, ...]] = []
    for document, chunks in documents:
        document_id += 1
        left = iter(chunks)
        first = list(islice(left, 1))
        head = first[0].chunk.text[:_HEAD_CHARS] if first else ""
        rows_of_documents.append((document_id, *_document_row(document, head, index_format), revision))
        for ordinal, indexed in enumerate(chain(first, left)):
            chunk_id += 1
            rows_of_chunks.append((chunk_id, document_id, ordinal, *_chunk_row(indexed.chunk)))
            written.add(chunk_id, document.path, indexed.chunk)
            rows_of_terms.append((chunk_id, indexed.words, encode_names(indexed.names), indexed.title))
            if len(rows_of_chunks) >= _ROWS_AT_ONCE:
                _insert_rows(db, rows_of_documents, rows_of_chunks, rows_of_terms)
    _insert_rows(db, rows_of_documents, rows_of_chunks, rows_of_terms)
    if is_first:
        # The newest notes come first, so that paths are inserted from last to first, which leaves pages half empty.
        db.execute("REINDEX documents")
    db.execute("UPDATE counters SET value=? WHERE name='chunks'", (chunk_id,))
    db.execute(_PUT_INDEX_FORMAT, (index_format,))
    if _read_masks(db) != masks:
        db.execute(_PUT_MASKS, (masks if is_first else "?",))


def _read_masks(db: apsw.Connection) -> str:
    return next((value for (value,) in rows(db, "SELECT value FROM meta WHERE key='masks'")), "")


def _insert_rows(
    db: apsw.Connection, documents: list[tuple[Any, ...]], chunks: list[tuple[Any, ...]], terms: list[tuple[Any, ...]]
) -> None:
    """Insert rows, and empty the lists that they were collected in."""
    dictionary = load_dictionary(db) or make_dictionary(db, (row[-1] for row in chunks))
    packed = [(*row[:-1], pack_text(row[-1], dictionary)) for row in chunks]
    for statement, collected in ((_PUT_DOCUMENT, documents), (_PUT_CHUNK, packed), (_PUT_TERMS, terms)):
        db.executemany(statement, collected)
    for collected in (documents, chunks, terms):
        collected.clear()


def _remove(db: apsw.Connection, source: SourceName, paths: Iterable[str]) -> None:
    revision = start_revision(db)
    for path in paths:
        _delete_rows(db, source, path)
        db.execute("INSERT INTO gone(revision, source, path) VALUES(?, ?, ?)", (revision, source, path))


def _delete_rows(db: apsw.Connection, source: SourceName, path: str) -> None:
    for (document_id,) in list(rows(db, _STORED, (source, path))):
        forget_chunks(db, document_id)
        db.execute("DELETE FROM keyword WHERE rowid IN (SELECT id FROM chunks WHERE document_id=?)", (document_id,))
        db.execute("DELETE FROM chunks WHERE document_id=?", (document_id,))
        db.execute("DELETE FROM documents WHERE id=?", (document_id,))


def _parts(db: apsw.Connection, path: str, first: int) -> list[str]:
    """Return the paths of a transcript's parts from a number on."""
    between = (part_path(path, first), f"{path}{PART_MARK}~")
    found = rows(db, "SELECT path FROM documents WHERE source='sessions' AND path>=? AND path<?", between)
    return [part for (part,) in found]


def _document_row(document: Document, head: str, index_format: str) -> tuple[Any, ...]:
    digest = bytes.fromhex(document.hash)
    fields = pack_fields(document.fields)
    # What is said in a transcript is of the day of its last change, which the stamp has.
    day = None if document.source == "sessions" else note_day(file_path(document.path), head)
    return (document.source, document.path, digest, *document.stamp, document.seen_ns, index_format, fields, day)


def _chunk_row(chunk: Chunk) -> tuple[Any, ...]:
    trail, records = "\n".join(chunk.trail), ",".join(map(str, chunk.records))
    marks = pack_marks(chunk.marks)
    return (chunk.start_line, chunk.end_line, chunk.overlap, trail, records, marks, chunk.text[chunk.overlap :])
