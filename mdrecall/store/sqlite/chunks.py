"""Reading chunks back from the index."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import apsw

from mdrecall.store.sqlite.file import IndexFile
from mdrecall.store.sqlite.keyword import match_terms
from mdrecall.store.sqlite.sql import rows, single
from mdrecall.types import Match, SourceCount, SourceName, StoredChunk, Term
from mdrecall.types.transcripts import file_path

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
_OWN_TEXT = "SELECT text FROM chunks WHERE document_id=? AND ordinal=?"


class SqliteChunks:
    """The role ``ChunkReader``."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let every read of this thread inside see the same state of the index."""
        with self._file.reading() as db:
            db.execute("BEGIN")
            try:
                yield
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def count(self) -> int:
        """Return the number of chunks."""
        with self._file.reading() as db:
            return _count(db)

    def count_by_source(self) -> tuple[SourceCount, ...]:
        """Return the number of files and chunks of each source."""
        with self._file.reading() as db:
            return tuple(SourceCount(*row) for row in rows(db, _COUNTS))

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        """Return chunks by number, in the given order. A chunk that no longer exists is left out."""
        with self._file.reading() as db:
            return [chunk for chunk_id in ids if (chunk := _load(db, chunk_id)) is not None]

    def sources_of(self, ids: Sequence[int]) -> Mapping[int, SourceName]:
        """Return the source of each chunk. A chunk that no longer exists is left out."""
        with self._file.reading() as db:
            return {chunk_id: source for chunk_id in ids for (source,) in rows(db, _SOURCE, (chunk_id,))}

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        """Return the chunks that each term occurs in, in the order of the terms."""
        with self._file.reading() as db:
            return match_terms(db, terms, _count(db))


def shared_text(db: apsw.Connection, document_id: int, ordinal: int, length: int) -> str:
    """Return the text that a chunk shares with the ones before it, which is stored only there."""
    shared = ""
    while len(shared) < length and ordinal > 0:
        ordinal -= 1
        for (text,) in rows(db, _OWN_TEXT, (document_id, ordinal)):
            shared = text[-(length - len(shared)) :] + shared
    return shared


def _count(db: apsw.Connection) -> int:
    return single(db, "SELECT count(*) FROM chunks")


def _load(db: apsw.Connection, chunk_id: int) -> StoredChunk | None:
    for document_id, ordinal, overlap, *found in rows(db, _CHUNK, (chunk_id,)):
        source, path, start, end, text, trail, mtime, records = found
        whole = shared_text(db, document_id, ordinal, overlap) + text
        headings = tuple(trail.split("\n")) if trail else ()
        numbers = tuple(map(int, records.split(","))) if records else ()
        return StoredChunk(chunk_id, source, file_path(path), start, end, whole, headings, mtime, numbers)
    return None
