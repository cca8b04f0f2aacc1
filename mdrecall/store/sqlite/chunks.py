"""Chunks read back from the index: by number, and by the terms that they hold.

FTS5's bm25() of a single term is its own idf times the saturation of the term in the row. Its idf vanishes when a term
is in most rows, so it is divided out again, and only the saturation from 0 to 1 is returned.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

import apsw

from mdrecall.core.text.annotations import unpack_marks
from mdrecall.core.text.fields import unpack_fields
from mdrecall.core.text.words import JOINERS
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
_CHUNK = f"""
    SELECT chunks.document_id, ordinal, overlap, source, path, start_line, end_line, {UNPACK}(text), trail,
        mtime_ns, records, marks
    FROM chunks JOIN documents ON documents.id = chunks.document_id
    WHERE chunks.id=?
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
_CHUNKS_OF = "SELECT id FROM chunks WHERE document_id=? ORDER BY ordinal"

# Occurrences in the title count as much as those in the text, camelCase parts a little less.
_COLUMN_WEIGHTS = "1.0, 0.7, 1.0"
# The largest value of bm25() without its idf: k1 + 1, with FTS5's k1 of 1.2.
_SATURATED = 2.2
# The saturation of a term that is known to occur, but not how often.
_PRESENT = 0.5
#: At most this many rows are scored. Beyond that, the remaining, more common terms count only as present or absent.
ROW_BUDGET = 6_000

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
# So much text of chunks is remembered until the index changes: that of about 1,000 chunks, of which most return.
_MOST_LOADED_CHARS = 2_000_000
_TERMS = "SELECT term FROM keyword_terms WHERE term >= ? AND term < ?"
# Terms are read by as many leading letters as this, and then compared with the whole word.
_LEAST_SHARED = 4
# Bounds how many terms a prefix is expanded to.
_MOST_NEAR = 20

# Joiners inside a name as characters that the tokenizer keeps: the name stays one token.
_JOINED = str.maketrans({joiner: chr(0xE000 + ord(joiner)) for joiner in JOINERS + "_"})


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

    def load(self, db: apsw.Connection, chunk_id: int) -> StoredChunk | None:
        """Return a chunk; None if it no longer exists."""
        chunk = self._loaded.get(chunk_id)
        if chunk is None and (chunk := _load(db, chunk_id)) is not None:
            self._loaded_chars += len(chunk.text)
            if self._loaded_chars > _MOST_LOADED_CHARS:
                self._loaded, self._loaded_chars = {}, len(chunk.text)
            self._loaded[chunk_id] = chunk
        return chunk

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
            remembered = self._recall(db)
            return [chunk for chunk_id in ids if (chunk := remembered.load(db, chunk_id)) is not None]

    def list_documents(self) -> list[StoredDocument]:
        """Return every document, in no particular order."""
        with self._file.reading() as db:
            revision = current_revision(db)
            if self._listed and self._listed[0] == revision:
                return list(self._listed[1])
            found = [
                StoredDocument(number, source, file_path(path), mtime_ns, head, unpack_fields(fields))
                for number, source, path, mtime_ns, head, fields in rows(db, _DOCUMENTS)
            ]
        if len(found) <= _MOST_LISTED:
            self._listed = revision, tuple(found)
        return found

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
            return match_terms(db, terms, self._recall(db))

    def _recall(self, db: apsw.Connection) -> _Remembered:
        """Return what is remembered of the index as it is now."""
        remembered, revision = self._remembered, current_revision(db)
        if remembered is None or remembered.revision != revision:
            remembered = self._remembered = _Remembered(db, revision)
        return remembered


def shared_text(db: apsw.Connection, document_id: int, ordinal: int, length: int) -> str:
    """Return the text that a chunk shares with the ones before it, which is stored only there."""
    shared = ""
    while len(shared) < length and ordinal > 0:
        ordinal -= 1
        for (text,) in rows(db, _OWN_TEXT, (document_id, ordinal)):
            shared = text[-(length - len(shared)) :] + shared
    return shared


def _load(db: apsw.Connection, chunk_id: int) -> StoredChunk | None:
    for document_id, ordinal, overlap, *found in rows(db, _CHUNK, (chunk_id,)):
        source, path, start, end, text, trail, mtime, records, marks = found
        whole = shared_text(db, document_id, ordinal, overlap) + text
        headings = tuple(trail.split("\n")) if trail else ()
        numbers = tuple(map(int, records.split(","))) if records else ()
        own = (start, end, whole, headings, mtime, numbers, unpack_marks(marks))
        return StoredChunk(chunk_id, source, file_path(path), *own)
    return None


def encode_names(names: str) -> str:
    """Return names as the full-text index holds them."""
    return names.translate(_JOINED)


def match_terms(db: apsw.Connection, terms: Sequence[Term], known: _Remembered) -> list[Match]:
    """Return where each term occurs, in the order of the terms."""
    words = [term for term in terms if not term.parts and not term.always_prefix]
    counts = {term: known.rows_with(db, _expression(term)) for term in words}
    found: dict[Term, Match] = {}
    looked_up: list[str] = []
    rows_so_far = 0
    for term in sorted(terms, key=lambda term: counts.get(term, 0)):
        count = counts.get(term, 0)
        if looked_up and rows_so_far + count > ROW_BUDGET:
            among = f"({' OR '.join(looked_up)}) AND ({_expression(term)})"
            found[term] = Match(term, _match_present(db, among, _PRESENT), count)
            continue
        expression, chunks = _expression(term), _match_whole(db, term, count, known.chunks)
        loose = not chunks and (term.prefix or term.always_prefix)
        if loose:
            expression = _prefix_expression(db, term)
            chunks = _match_present(db, expression, _PRESENT) if expression else {}
        found[term] = Match(term, chunks, max(count, len(chunks)), loose)
        rows_so_far += len(chunks)
        if chunks:
            looked_up.append(expression)
    return [found[term] for term in terms]


def _match_whole(db: apsw.Connection, term: Term, count: int, chunk_count: int) -> dict[int, float]:
    """Return the chunks that contain a whole term; none for a word that no chunk contains, or a lone character.

    Of a term in more rows than the budget, the newest are returned.
    """
    if term.parts:
        return _match_present(db, _expression(term), 1.0)
    if not count:
        return {}
    if count > ROW_BUDGET and term.stop:
        return _match_present(db, _expression(term), _PRESENT)
    other_forms = _match_present(db, _expression(term), _PRESENT) if term.also else {}
    return other_forms | _score_matches(db, _quote(term.surface), chunk_count, count)


def _expression(term: Term) -> str:
    """Return the query for a word and its other forms, or for a name and its words as a phrase."""
    if term.parts:
        return f"{_quote(encode_names(term.surface))} OR {_quote(' '.join(term.parts))}"
    return " OR ".join(map(_quote, (term.surface, *term.also)))


def _prefix_expression(db: apsw.Connection, term: Term) -> str:
    """Return the query for indexed terms that begin with a word, or are nearly the whole beginning of it.

    The index holds stems, so ``configurat`` must also find ``configur``.
    """
    start = encode_names(term.surface)
    if term.parts or not term.surface.isalpha() or not term.surface.isascii():
        return f"{_quote(start)} *"
    near = rows(db, _TERMS, (start[:_LEAST_SHARED], start[:_LEAST_SHARED] + "\U0010ffff"))
    fits = (
        name for (name,) in near if name.startswith(start) or (start.startswith(name) and len(start) < len(name) + 5)
    )
    return " OR ".join(map(_quote, islice(fits, _MOST_NEAR)))


def _score_matches(db: apsw.Connection, expression: str, chunk_count: int, row_count: int) -> dict[int, float]:
    found = list(rows(db, _SCORED, (expression, ROW_BUDGET)))
    if not found:
        return {}
    # Other forms of the word are counted too, so what was found is the better figure unless it was limited.
    held_by = row_count if len(found) == ROW_BUDGET else len(found)
    surprise = math.log((chunk_count - held_by + 0.5) / (held_by + 0.5)) if chunk_count > held_by else 0.0
    divisor = -(surprise if surprise > 0 else 1e-6) * _SATURATED
    return {chunk_id: rank / divisor for chunk_id, rank in found}


def _match_present(db: apsw.Connection, expression: str, saturation: float) -> dict[int, float]:
    return {chunk_id: saturation for (chunk_id,) in rows(db, _PLAIN, (expression, ROW_BUDGET))}


def _quote(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
