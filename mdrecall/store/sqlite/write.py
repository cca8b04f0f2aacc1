"""Changing the index. A document goes in or out whole: all its rows change in one transaction."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from mdrecall.store.sqlite.keyword import encode_names
from mdrecall.store.sqlite.rows import rows, single, transaction
from mdrecall.store.sqlite.vectors import REMEMBERED_REVISIONS, bump, forget_chunks
from mdrecall.types import Chunk, Document, IndexedChunk, SourceName

_STORED = "SELECT id FROM documents WHERE source=? AND path=?"
_PUT_DOCUMENT = """
    INSERT INTO documents(id, source, path, hash, size, mtime_ns, ctime_ns, inode, seen_ns, recipe, revision)
    VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PUT_CHUNK = """
    INSERT INTO chunks(id, document_id, ordinal, start_line, end_line, overlap, trail, records, text)
    VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_NOTE_INDEX_FORMAT = """
    INSERT INTO meta(key, value) VALUES('recipe', ?)
    ON CONFLICT(key) DO UPDATE SET value = '?' WHERE value <> excluded.value
"""
_PUT_TERMS = "INSERT INTO keyword(rowid, words, names, title) VALUES(?, ?, ?, ?)"


def put_documents(
    db: apsw.Connection, documents: Sequence[tuple[Document, Sequence[IndexedChunk]]], index_format: str
) -> None:
    """Add or replace documents.

    Ids are given out here and not by SQLite: RETURNING would make FTS5 write out its buffer after every row.
    """
    with transaction(db):
        revision = bump(db, "revision")
        bump(db, "texts")
        document_id = single(db, "SELECT coalesce(max(id), 0) FROM documents")
        if document_id:
            for document, _ in documents:
                _remove_all(db, document.source, document.path)
        chunk_id = single(db, "SELECT value FROM counters WHERE name='chunks'")
        rows_of_documents: list[tuple[Any, ...]] = []
        rows_of_chunks: list[tuple[Any, ...]] = []
        rows_of_terms: list[tuple[int, str, str, str]] = []
        for document, chunks in documents:
            document_id += 1
            rows_of_documents.append((document_id, *_document_row(document, index_format), revision))
            for ordinal, indexed in enumerate(chunks):
                chunk_id += 1
                rows_of_chunks.append((chunk_id, document_id, ordinal, *_chunk_row(indexed.chunk)))
                rows_of_terms.append((chunk_id, indexed.words, encode_names(indexed.names), indexed.title))
        db.executemany(_PUT_DOCUMENT, rows_of_documents)
        db.executemany(_PUT_CHUNK, rows_of_chunks)
        db.executemany(_PUT_TERMS, rows_of_terms)
        db.execute("UPDATE counters SET value=? WHERE name='chunks'", (chunk_id,))
        db.execute(_NOTE_INDEX_FORMAT, (index_format,))


def remove_documents(db: apsw.Connection, source: SourceName, paths: Iterable[str]) -> None:
    """Take documents out of the index."""
    with transaction(db):
        revision = bump(db, "revision")
        for path in paths:
            _remove_all(db, source, path)
            db.execute("INSERT INTO gone(revision, source, path) VALUES(?, ?, ?)", (revision, source, path))
        db.execute("DELETE FROM gone WHERE revision < ?", (revision - REMEMBERED_REVISIONS,))


def refresh_stamps(db: apsw.Connection, documents: Iterable[Document]) -> None:
    """Note new stamps of documents whose content is still the same, unless another has been stored meanwhile."""
    with transaction(db):
        revision = bump(db, "revision")
        db.executemany(
            """
            UPDATE documents SET size=?, mtime_ns=?, ctime_ns=?, inode=?, seen_ns=?, revision=?
            WHERE source=? AND path=? AND hash=?
            """,
            [(*new.stamp, new.seen_ns, revision, new.source, new.path, bytes.fromhex(new.hash)) for new in documents],
        )


def _remove_all(db: apsw.Connection, source: SourceName, path: str) -> None:
    for (document_id,) in list(rows(db, _STORED, (source, path))):
        _remove(db, document_id)


def _document_row(document: Document, index_format: str) -> tuple[Any, ...]:
    digest = bytes.fromhex(document.hash)
    return (document.source, document.path, digest, *document.stamp, document.seen_ns, index_format)


def _chunk_row(chunk: Chunk) -> tuple[Any, ...]:
    trail, records = "\n".join(chunk.trail), ",".join(map(str, chunk.records))
    return (chunk.start_line, chunk.end_line, chunk.overlap, trail, records, chunk.text[chunk.overlap :])


def _remove(db: apsw.Connection, document_id: int) -> None:
    forget_chunks(db, document_id)
    db.execute("DELETE FROM keyword WHERE rowid IN (SELECT id FROM chunks WHERE document_id=?)", (document_id,))
    db.execute("DELETE FROM chunks WHERE document_id=?", (document_id,))
    db.execute("DELETE FROM documents WHERE id=?", (document_id,))
