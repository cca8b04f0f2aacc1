"""Reading documents and chunks back from the index."""

from collections.abc import Sequence

import apsw

from mdrecall.store.sqlite.rows import rows, single
from mdrecall.types import KnownDocument, SourceCount, SourceName, StoredChunk
from mdrecall.types.transcripts import file_path

_HASH = "SELECT hash, recipe FROM documents WHERE source=? AND path=?"
_COUNTS = """
    SELECT source, CASE source WHEN 'sessions' THEN (SELECT count(*) FROM transcripts)
        ELSE count(DISTINCT documents.id) END, count(chunks.id)
    FROM documents LEFT JOIN chunks ON chunks.document_id = documents.id GROUP BY source
"""
_CHUNK = """
    SELECT chunks.document_id, ordinal, overlap, source, path, start_line, end_line, text, trail,
        mtime_ns, records
    FROM chunks JOIN documents ON documents.id = chunks.document_id
    WHERE chunks.id=?
"""
_SOURCE = "SELECT source FROM chunks JOIN documents ON documents.id = document_id WHERE chunks.id=?"
_FRESH_TEXT = "SELECT text FROM chunks WHERE document_id=? AND ordinal=?"


def known_document(db: apsw.Connection, source: SourceName, path: str) -> KnownDocument | None:
    """What is remembered of one document."""
    for digest, index_format in rows(db, _HASH, (source, path)):
        return KnownDocument(digest.hex(), index_format)
    return None


def index_format(db: apsw.Connection) -> str:
    """What the documents were made with; empty if there have been none."""
    return next((value for (value,) in rows(db, "SELECT value FROM meta WHERE key='recipe'")), "")


def hashes(db: apsw.Connection, source: SourceName) -> dict[str, bytes]:
    """Every file of a source with a hash of its content."""
    found: dict[str, list[bytes]] = {}
    for path, digest in rows(db, "SELECT path, hash FROM documents WHERE source=? ORDER BY path", (source,)):
        found.setdefault(file_path(path), []).append(digest)
    return {path: b"".join(digests) for path, digests in found.items()}


def count_chunks(db: apsw.Connection) -> int:
    """How many chunks there are."""
    return single(db, "SELECT count(*) FROM chunks")


def count_by_source(db: apsw.Connection) -> tuple[SourceCount, ...]:
    """How many files and chunks each source has."""
    return tuple(SourceCount(*row) for row in rows(db, _COUNTS))


def load_chunks(db: apsw.Connection, ids: Sequence[int]) -> list[StoredChunk]:
    """Chunks by their ids, in that order; one that is gone meanwhile is left out."""
    return [chunk for chunk_id in ids if (chunk := _load(db, chunk_id)) is not None]


def sources_of(db: apsw.Connection, ids: Sequence[int]) -> dict[int, SourceName]:
    """Return the source of each chunk; a chunk that is not stored is left out."""
    return {chunk_id: source for chunk_id in ids for (source,) in rows(db, _SOURCE, (chunk_id,))}


def tail_before(db: apsw.Connection, document_id: int, ordinal: int, length: int) -> str:
    """The text that a chunk shares with those before it."""
    shared = ""
    while len(shared) < length and ordinal > 0:
        ordinal -= 1
        for (text,) in rows(db, _FRESH_TEXT, (document_id, ordinal)):
            shared = text[-(length - len(shared)) :] + shared
    return shared


def _load(db: apsw.Connection, chunk_id: int) -> StoredChunk | None:
    for document_id, ordinal, overlap, *found in rows(db, _CHUNK, (chunk_id,)):
        source, path, start, end, text, trail, mtime, records = found
        whole = tail_before(db, document_id, ordinal, overlap) + text
        headings = tuple(trail.split("\n")) if trail else ()
        numbers = tuple(map(int, records.split(","))) if records else ()
        return StoredChunk(chunk_id, source, file_path(path), start, end, whole, headings, mtime, numbers)
    return None
