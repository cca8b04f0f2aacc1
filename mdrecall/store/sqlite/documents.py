"""Reading documents and chunks back from the index."""

from collections.abc import Sequence

import apsw

from mdrecall.store.sqlite.rows import rows, single
from mdrecall.types import KnownDocument, SourceCount, SourceName, StoredChunk

_HASH = "SELECT hash, recipe FROM documents WHERE source=? AND path=?"
_COUNTS = """
    SELECT source, count(DISTINCT documents.id), count(chunks.id)
    FROM documents LEFT JOIN chunks ON chunks.document_id = documents.id GROUP BY source
"""
_CHUNK = """
    SELECT chunks.document_id, ordinal, overlap, source, path, start_line, end_line, text, trail,
        mtime_ns
    FROM chunks JOIN documents ON documents.id = chunks.document_id
    WHERE chunks.id=?
"""
_FRESH_TEXT = "SELECT text FROM chunks WHERE document_id=? AND ordinal=?"


def known_document(db: apsw.Connection, source: SourceName, path: str) -> KnownDocument | None:
    """What is remembered of one document."""
    for digest, recipe in rows(db, _HASH, (source, path)):
        return KnownDocument(digest.hex(), recipe)
    return None


def recipe(db: apsw.Connection) -> str:
    """What the documents were made with; empty if there have been none."""
    return next((value for (value,) in rows(db, "SELECT value FROM meta WHERE key='recipe'")), "")


def hashes(db: apsw.Connection, source: SourceName) -> dict[str, bytes]:
    """Every document of a source with the hash of its content."""
    return dict(rows(db, "SELECT path, hash FROM documents WHERE source=?", (source,)))


def count_chunks(db: apsw.Connection) -> int:
    """How many chunks there are."""
    return single(db, "SELECT count(*) FROM chunks")


def count_by_source(db: apsw.Connection) -> tuple[SourceCount, ...]:
    """How many files and chunks each source has."""
    return tuple(SourceCount(*row) for row in rows(db, _COUNTS))


def load_chunks(db: apsw.Connection, ids: Sequence[int]) -> list[StoredChunk]:
    """Chunks by their ids, in that order; one that is gone meanwhile is left out."""
    return [chunk for chunk_id in ids if (chunk := _load(db, chunk_id)) is not None]


def tail_before(db: apsw.Connection, document_id: int, ordinal: int, length: int) -> str:
    """The text that a chunk shares with those before it."""
    shared = ""
    while len(shared) < length and ordinal > 0:
        ordinal -= 1
        for (text,) in rows(db, _FRESH_TEXT, (document_id, ordinal)):
            shared = text[-(length - len(shared)) :] + shared
    return shared


def _load(db: apsw.Connection, chunk_id: int) -> StoredChunk | None:
    for document_id, ordinal, overlap, source, path, start, end, text, trail, mtime in rows(db, _CHUNK, (chunk_id,)):
        whole = tail_before(db, document_id, ordinal, overlap) + text
        return StoredChunk(chunk_id, source, path, start, end, whole, tuple(trail.split("\n")) if trail else (), mtime)
    return None
