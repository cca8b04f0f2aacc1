"""Chunks read back from the index: by number, and by the terms that they hold.

FTS5's bm25() of a single term is its own idf times the saturation of the term in the row. Its idf vanishes when a term
is in most rows, so it is divided out again, and only the saturation from 0 to 1 is returned.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import apsw

from mdrecall.core.text.annotations import unpack_marks
from mdrecall.core.text.days import is_of_days, ms_of_day
from mdrecall.core.text.notes import unpack_fields
from mdrecall.store.matching import ROW_BUDGET, Wanted, match_terms
from mdrecall.store.sqlite.file import IndexFile
from mdrecall.store.sqlite.revisions import current_revision
from mdrecall.store.sqlite.sql import rows, single
from mdrecall.store.sqlite.texts import FRONT_MATTER_MARKS, UNPACK
from mdrecall.types import Match, SourceCount, SourceName, StoredChunk, StoredDocument, Term
from mdrecall.types.documents import file_path

# Where there is one source, all chunks are its own: to find out of which document each is takes twenty times as long.
_COUNTS = """
    SELECT source, CASE source WHEN 'sessions' THEN (SELECT count(*) FROM transcripts) ELSE count(*) END,
        CASE WHEN (SELECT min(source) FROM documents) = (SELECT max(source) FROM documents)
        THEN (SELECT count(*) FROM chunks)
        ELSE (SELECT count(*) FROM chunks
              WHERE document_id IN (SELECT id FROM documents AS own WHERE own.source = documents.source)) END
    FROM documents GROUP BY source
"""
_CHUNKS = f"""
    SELECT chunks.id, chunks.document_id, ordinal, overlap, source, path, start_line, end_line, {UNPACK}(text), trail,
        mtime_ns, records, marks
    FROM chunks JOIN documents ON documents.id = chunks.document_id
    WHERE chunks.id IN (SELECT value FROM json_each(?))
"""
# With the condition of the index ``chunks_of_projects``, which is empty in most workspaces.
_OF_PROJECTS = """SELECT id, marks FROM chunks WHERE instr(marks, '"project":') > 0"""
_SOURCE = "SELECT source FROM chunks JOIN documents ON documents.id = document_id WHERE chunks.id=?"
_OWN_TEXT = f"SELECT {UNPACK}(text) FROM chunks WHERE document_id=? AND ordinal=?"

# As much of a note as its front matter needs. Other notes are listed without a text: there may be very many.
_DOCUMENTS = f"""
    SELECT documents.id, source, path, mtime_ns,
        CASE WHEN source <> 'sessions' AND substr(text, 1, 1) IN {FRONT_MATTER_MARKS}
        THEN substr({UNPACK}(text), 1, 1000) ELSE '' END,
        fields
    FROM documents LEFT JOIN chunks ON document_id = documents.id AND ordinal = 0
"""
# The day of a note is stored; a part of a transcript has that of its last change.
_OF_DAYS = f"""
    {_DOCUMENTS} WHERE documents.id IN (
        SELECT id FROM documents WHERE day BETWEEN ? AND ?
        UNION ALL SELECT id FROM documents WHERE source = 'sessions' AND mtime_ns BETWEEN ? AND ?
    )
"""
_CHUNKS_OF = "SELECT id FROM chunks WHERE document_id=? ORDER BY ordinal"

# Occurrences in the title count as much as those in the text, camelCase parts a little less.
_COLUMN_WEIGHTS = "1.0, 0.7, 1.0"
# The largest value of bm25() without its idf: k1 + 1, with FTS5's k1 of 1.2.
_SATURATED = 2.2

# Beyond that many rows the newest count: they were indexed last.
_NEWEST = "FROM keyword WHERE keyword MATCH ? ORDER BY rowid DESC LIMIT ?"
_SCORED = f"SELECT rowid, bm25(keyword, {_COLUMN_WEIGHTS}) {_NEWEST}"
_PLAIN = f"SELECT rowid {_NEWEST}"
# Rows are counted up to here: at about 60 ns a row, counting a million of them would be felt.
_MOST_COUNTED = 100_000
_COUNT = "SELECT count(*), max(rowid) FROM (SELECT rowid FROM keyword WHERE keyword MATCH ? LIMIT ?)"
# A list of as many documents is kept until the index changes, for questions about a time; 8 MB of them at most.
_MOST_LISTED = 30_000
# The counts of as many terms are remembered until the index changes; a few hundred kilobytes.
_MOST_REMEMBERED = 5_000
# How many characters of chunks are remembered until the index changes: about 3,000 chunks, most of which return.
_MOST_LOADED_CHARS = 4_000_000
_TERMS = "SELECT term FROM keyword_terms WHERE term >= ? AND term < ?"


class _Remembered:
    """What was read from the index of one revision: how many rows there are, how many hold a term, and chunks."""

    def __init__(self, db: apsw.Connection, revision: int) -> None:
        self.revision = revision
        self.chunks = single(db, "SELECT count(*) FROM chunks")
        self._last_id = single(db, "SELECT coalesce(max(id), 0) FROM chunks")
        self.projects_of = {number: unpack_marks(marks).project for number, marks in rows(db, _OF_PROJECTS)}
        self._rows: dict[str, int] = {}
        self._loaded: dict[int, StoredChunk] = {}
        self._loaded_chars = 0

    def load(self, db: apsw.Connection, ids: Sequence[int]) -> list[StoredChunk]:
        """Return chunks in the given order. A chunk that no longer exists is left out."""
        loaded = self._loaded
        found = {chunk_id: loaded[chunk_id] for chunk_id in ids if chunk_id in loaded}
        if missing := [chunk_id for chunk_id in ids if chunk_id not in found]:
            for chunk in _load(db, missing):
                found[chunk.id] = chunk
                self._loaded_chars += len(chunk.text)
                if self._loaded_chars > _MOST_LOADED_CHARS:
                    self._loaded, self._loaded_chars = {}, len(chunk.text)
                self._loaded[chunk.id] = chunk
        return [found[chunk_id] for chunk_id in ids if chunk_id in found]

    def rows_with(self, db: apsw.Connection, expression: str) -> int:
        """Return how many rows hold an expression; of a very common one, estimated from the oldest that do."""
        if (known := self._rows.get(expression)) is not None:
            return known
        ((found, last),) = rows(db, _COUNT, (expression, _MOST_COUNTED))
        if found == _MOST_COUNTED:
            found = max(found, min(self.chunks, round(found * self._last_id / last)))
        if len(self._rows) < _MOST_REMEMBERED:
            self._rows[expression] = found
        return int(found)


class SqliteChunks:
    """The role ``ChunkReader``."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._remembered: _Remembered | None = None
        self._listed: tuple[int, tuple[StoredDocument, ...]] | None = None

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
            return self._recall(db).chunks

    def count_by_source(self) -> tuple[SourceCount, ...]:
        """Return the number of files and chunks of each source."""
        with self._file.reading() as db:
            return tuple(SourceCount(*row) for row in rows(db, _COUNTS))

    def chunks_of_projects(self) -> Mapping[int, str]:
        """Return the chunks whose marks name a project, each with its projects."""
        with self._file.reading() as db:
            return self._recall(db).projects_of

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        """Return chunks by number, in the given order. A chunk that no longer exists is left out."""
        with self._file.reading() as db:
            return self._recall(db).load(db, ids)

    def list_documents(self) -> list[StoredDocument]:
        """Return every document, in no particular order."""
        with self._file.reading() as db:
            revision = current_revision(db)
            if self._listed and self._listed[0] == revision:
                return list(self._listed[1])
            found = [_read_document(*row) for row in rows(db, _DOCUMENTS)]
        if len(found) <= _MOST_LISTED:
            self._listed = revision, tuple(found)
        return found

    def documents_of_days(self, ranges: Sequence[tuple[int, int]]) -> list[StoredDocument]:
        """Return the documents that are about a day of any of the ranges."""
        found: dict[int, StoredDocument] = {}
        with self._file.reading() as db:
            for first, last in ranges:
                times = (int(ms_of_day(first) * 1e6), int(ms_of_day(last + 1) * 1e6))
                found |= {row[0]: _read_document(*row) for row in rows(db, _OF_DAYS, (first, last, *times))}
        return [document for document in found.values() if is_of_days(document, ranges)]

    def chunks_of(self, documents: Iterable[int]) -> list[int]:
        """Return the numbers of the chunks of documents, in the given order and then in that of reading."""
        with self._file.reading() as db:
            return [chunk_id for number in documents for (chunk_id,) in rows(db, _CHUNKS_OF, (number,))]

    def sources_of(self, ids: Sequence[int]) -> Mapping[int, SourceName]:
        """Return the source of each chunk. A chunk that no longer exists is left out."""
        with self._file.reading() as db:
            return {chunk_id: source for chunk_id in ids for (source,) in rows(db, _SOURCE, (chunk_id,))}

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        """Return the chunks that each term occurs in, in the order of the terms."""
        with self._file.reading() as db:
            return match_terms(_SqliteTerms(db, self._recall(db)), terms)

    def _recall(self, db: apsw.Connection) -> _Remembered:
        """Return what is remembered of the index as it is now."""
        remembered, revision = self._remembered, current_revision(db)
        if remembered is None or remembered.revision != revision:
            remembered = self._remembered = _Remembered(db, revision)
        return remembered


def _read_document(number: int, source: SourceName, path: str, mtime_ns: int, head: str, fields: str) -> StoredDocument:
    return StoredDocument(number, source, file_path(path), mtime_ns, head, unpack_fields(fields))


def shared_text(db: apsw.Connection, document_id: int, ordinal: int, length: int) -> str:
    """Return the text that a chunk shares with the ones before it, which is stored only there."""
    shared = ""
    while len(shared) < length and ordinal > 0:
        ordinal -= 1
        for (text,) in rows(db, _OWN_TEXT, (document_id, ordinal)):
            shared = text[-(length - len(shared)) :] + shared
    return shared


def _load(db: apsw.Connection, ids: Sequence[int]) -> Iterator[StoredChunk]:
    for chunk_id, document_id, ordinal, overlap, *found in rows(db, _CHUNKS, (str(list(ids)),)):
        source, path, start, end, text, trail, mtime, records, marks = found
        whole = shared_text(db, document_id, ordinal, overlap) + text
        headings = tuple(trail.split("\n")) if trail else ()
        numbers = tuple(map(int, records.split(","))) if records else ()
        own = (start, end, whole, headings, mtime, numbers, unpack_marks(marks))
        yield StoredChunk(chunk_id, source, file_path(path), *own)


class _SqliteTerms:
    """The terms of the index, as a connection sees them: a ``TermIndex``."""

    def __init__(self, db: apsw.Connection, known: _Remembered) -> None:
        self._db = db
        self._known = known

    def count(self, wanted: Wanted) -> int:
        """Return how many chunks hold what is wanted."""
        return self._known.rows_with(self._db, _render(wanted))

    def score(self, word: str, held_by: int) -> dict[int, float]:
        """Return the newest chunks that hold a word, each with its saturation."""
        return _score_matches(self._db, _quote(word), self._known.chunks, held_by)

    def find(self, wanted: Wanted, among: Sequence[Wanted] = ()) -> list[int]:
        """Return the newest chunks that hold what is wanted, and also any of ``among`` if that is given."""
        query = _render(wanted)
        if among:
            query = f"({' OR '.join(map(_render, among))}) AND ({query})"
        return [chunk_id for (chunk_id,) in rows(self._db, _PLAIN, (query, ROW_BUDGET))]

    def terms_with(self, beginning: str) -> Iterator[str]:
        """Yield the terms that begin with some letters, sorted."""
        return (name for (name,) in rows(self._db, _TERMS, (beginning, beginning + "\U0010ffff")))


def _render(wanted: Wanted) -> str:
    if wanted.is_prefix:
        return f"{_quote(wanted.any_of[0])} *"
    return " OR ".join(map(_quote, wanted.any_of))


def _score_matches(db: apsw.Connection, expression: str, chunk_count: int, row_count: int) -> dict[int, float]:
    found = list(rows(db, _SCORED, (expression, ROW_BUDGET)))
    if not found:
        return {}
    # Other forms of the word are counted too, so what was found is the better figure unless it was limited.
    held_by = row_count if len(found) == ROW_BUDGET else len(found)
    surprise = math.log((chunk_count - held_by + 0.5) / (held_by + 0.5)) if chunk_count > held_by else 0.0
    divisor = -(surprise if surprise > 0 else 1e-6) * _SATURATED
    return {chunk_id: rank / divisor for chunk_id, rank in found}


def _quote(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
