"""Changing the index. A document goes in or out whole: all its rows change in one transaction."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import apsw

from mdrecall.store.sqlite.rows import rows, single
from mdrecall.types import Document, IndexedChunk, SourceName, Stamp

_PUT_DOCUMENT = """
    INSERT INTO documents(source, path, hash, size, mtime_ns, ctime_ns, inode, seen_ns, recipe)
    VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)
    RETURNING id
"""
_PUT_CHUNK = """
    INSERT INTO chunks(document_id, ordinal, start_line, end_line, overlap, trail, text)
    VALUES(?, ?, ?, ?, ?, ?, ?)
    RETURNING id
"""
_PUT_TERMS = "INSERT INTO keyword(rowid, words, names, title) VALUES(?, ?, ?, ?)"


@contextmanager
def transaction(db: apsw.Connection) -> Iterator[None]:
    """Everything inside happens, or nothing. The right to write is taken at once, not half way."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def put_documents(
    db: apsw.Connection, documents: Sequence[tuple[Document, Sequence[IndexedChunk]]], recipe: str
) -> None:
    """Add or replace documents."""
    with transaction(db):
        for document, chunks in documents:
            _remove(db, document.source, document.path)
            document_id = single(db, _PUT_DOCUMENT, _row(document, recipe))
            for ordinal, indexed in enumerate(chunks):
                _put_chunk(db, document_id, ordinal, indexed)


def remove_documents(db: apsw.Connection, source: SourceName, paths: Iterable[str]) -> None:
    """Take documents out of the index."""
    with transaction(db):
        for path in paths:
            _remove(db, source, path)


def refresh_stamps(db: apsw.Connection, source: SourceName, stamps: Iterable[tuple[str, Stamp, int]]) -> None:
    """Note new stamps of documents whose content is still the same."""
    with transaction(db):
        db.executemany(
            "UPDATE documents SET size=?, mtime_ns=?, ctime_ns=?, inode=?, seen_ns=? WHERE source=? AND path=?",
            [(*stamp, seen_ns, source, path) for path, stamp, seen_ns in stamps],
        )


def _row(document: Document, recipe: str) -> tuple[object, ...]:
    digest = bytes.fromhex(document.hash)
    return (document.source, document.path, digest, *document.stamp, document.seen_ns, recipe)


def _put_chunk(db: apsw.Connection, document_id: int, ordinal: int, indexed: IndexedChunk) -> None:
    chunk = indexed.chunk
    values = (
        document_id,
        ordinal,
        chunk.start_line,
        chunk.end_line,
        chunk.overlap,
        "\n".join(chunk.trail),
        chunk.text[chunk.overlap :],
    )
    chunk_id = single(db, _PUT_CHUNK, values)
    db.execute(_PUT_TERMS, (chunk_id, indexed.words, indexed.names, indexed.title))


def _remove(db: apsw.Connection, source: str, path: str) -> None:
    found = rows(db, "SELECT id FROM documents WHERE source=? AND path=?", (source, path))
    for (document_id,) in list(found):
        db.execute("DELETE FROM keyword WHERE rowid IN (SELECT id FROM chunks WHERE document_id=?)", (document_id,))
        db.execute("DELETE FROM chunks WHERE document_id=?", (document_id,))
        db.execute("DELETE FROM documents WHERE id=?", (document_id,))
