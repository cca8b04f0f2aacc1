"""The Store socket on SQLite: the roles of one index file, and how a rebuilt file takes its place.

Documents, transcripts and chunks are written whole, and read by number, by path and by terms.

FTS5's bm25() of a single term is its own idf times the saturation of the term in the row. Its idf vanishes when a term
is in most rows, so it is divided out again, and only the saturation from 0 to 1 is returned.
"""

import json
import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import apsw

from mdrecall.locks import FileLock
from mdrecall.store import common
from mdrecall.store.sqlite import sidecar_files
from mdrecall.store.sqlite import tables as sql
from mdrecall.store.sqlite.connect import IndexLocation
from mdrecall.store.sqlite.file import IndexFile
from mdrecall.store.sqlite.vectors import SqliteVectors, check_contents, count_vectors, forget_chunks
from mdrecall.text.days import is_of_days
from mdrecall.types.documents import Document, Embedding, IndexedChunk, Job, SourceName, StoredChunk, StoredDocument
from mdrecall.types.search import ChunkRows, Match, Term
from mdrecall.types.sync import SourceStatus

if TYPE_CHECKING:
    from mdrecall.interfaces import Indexed
    from mdrecall.types.transcripts import Transcript

_T = TypeVar("_T", bound=Sized)

_STORED = "SELECT id FROM documents WHERE source=? AND path=?"
_PUT_DOCUMENT = """
    INSERT INTO documents(id, source, path, hash, size, mtime_ns, ctime_ns, inode, seen_ns, recipe, fields, day,
        revision)
    VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PUT_CHUNK = """
    INSERT INTO chunks(id, document_id, ordinal, start_line, end_line, trail, records, marks, text_id, at, length)
    VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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
# Chunks are compressed together up to this size: a search decompresses all of it for one of them, in 40 µs.
_TEXT_CHARS = 12_000
# What a text may take on a page, and what SQLite stores with it.
_PAGE_ROOM, _ROW_BYTES = sql.PAGE_SIZE - 8, 12
_TRANSCRIPT = "path, size, mtime_ns, inode, until, tail, record, parts, seal"

_STAMPS = "SELECT path, abs(seen_ns - mtime_ns) > ?, size, mtime_ns, ctime_ns, inode FROM documents"
# Nearly all documents are of one source: to read them in the order of their paths, by the index, takes longer.
_ALL_STAMPS = f"{_STAMPS} NOT INDEXED WHERE source=?"
_NEWER_STAMPS = f"{_STAMPS} WHERE source=? AND revision > ?"


class SqliteDocuments:
    """The role ``DocumentWriter``."""

    def __init__(self, file: IndexFile, stamps: common.StampCache) -> None:
        self._file = file
        self._stamps = stamps

    def commit(self, write: Callable[[], object]) -> None:
        with self._file.transaction():
            write()

    def state(self) -> tuple[str, str, bool]:
        with self._file.reading() as db:
            known = self._file.recall(db, _read_meta)
        return known.get("recipe", ""), known.get("masks", ""), True

    def known_stamps(self, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        with self._file.reading() as db:
            read_changes = partial(_read_stamps, db, source, settle_ns)
            return self._stamps.get(source, settle_ns, self._file.revision(db), read_changes)

    def known_documents(self, source: SourceName, paths: Sequence[str] | None = None) -> Mapping[str, tuple[str, str]]:
        chosen = "" if paths is None else " AND path IN (SELECT value FROM json_each(?))"
        statement = f"SELECT path, hash, recipe FROM documents WHERE source=?{chosen} ORDER BY path"
        with self._file.reading() as db:
            found = sql.rows(db, statement, (source, json.dumps(paths)) if chosen else (source,))
            return {path: (digest.hex(), index_format) for path, digest, index_format in found}

    def put(
        self, items: "Indexed", index_format: str, masks: str = "", *, state: "Transcript | None" = None, keep: int = 0
    ) -> Sequence[int]:
        settled = [document for document, chunks in items if chunks is None]
        fresh = [(document, chunks) for document, chunks in items if chunks is not None]
        with self._file.writing() as db, sql.transaction(db):
            if settled:
                revision = sql.start_revision(db)
                for new in settled:
                    own = revision, new.source, new.path, bytes.fromhex(new.hash)
                    db.execute(_REFRESH_STAMP, (*new.stamp, new.seen_ns, *own))
            if state is not None:
                _remove(db, "sessions", _parts(db, state.path, keep))
                marks = ", ".join("?" * len(state))
                db.execute(f"INSERT OR REPLACE INTO transcripts({_TRANSCRIPT}) VALUES({marks})", state)
            return _put(db, fresh, index_format, masks) if fresh or state is not None else ()

    def remove(self, gone: Mapping[SourceName, Iterable[str]], masks: str | None = None) -> None:
        with self._file.writing() as db, sql.transaction(db):
            for source, paths in gone.items():
                chosen = list(paths)
                if source == "sessions":
                    db.executemany("DELETE FROM transcripts WHERE path=?", [(path,) for path in chosen])
                    chosen = [part for path in chosen for part in _parts(db, path, 0)]
                if chosen:
                    _remove(db, source, chosen)
            if masks is not None:
                db.execute(_PUT_MASKS, (masks,))

    def find_gone(self, source: SourceName, missing: Sequence[str]) -> list[str]:
        """Return all of them: an index in a file belongs to the notes of this machine."""
        return list(missing)

    def transcripts(self) -> "Mapping[str, Transcript]":
        from mdrecall.types.transcripts import Transcript

        with self._file.reading() as db:
            return {row[0]: Transcript(*row) for row in sql.rows(db, f"SELECT {_TRANSCRIPT} FROM transcripts")}


def _put(
    db: apsw.Connection, documents: Sequence[tuple[Document, Iterable[IndexedChunk]]], index_format: str, masks: str
) -> Sequence[int]:
    """Add or replace documents, and return the numbers of their chunks.

    Numbers are given out here and not by SQLite: RETURNING would make FTS5 write out its buffer after every row.
    """
    revision = sql.start_revision(db)
    sql.bump(db, "texts")
    document_id = sql.single(db, "SELECT coalesce(max(id), 0) FROM documents")
    is_first = not document_id
    if not is_first:
        for document, _ in documents:
            _delete_rows(db, document.source, document.path)
    chunk_id = last_id = sql.single(db, "SELECT value FROM counters WHERE name='chunks'")
    rows_of_documents: list[tuple[Any, ...]] = []
    collected: list[tuple[Any, ...]] = []
    for document, chunks in documents:
        document_id += 1
        fields, day, chunks = common.pack_document(document, chunks)
        own = (document.source, document.path, bytes.fromhex(document.hash), *document.stamp, document.seen_ns)
        rows_of_documents.append((document_id, *own, index_format, fields, day, revision))
        for ordinal, indexed in enumerate(chunks):
            chunk_id += 1
            collected.append((chunk_id, document_id, ordinal, indexed))
            if len(collected) >= _ROWS_AT_ONCE:
                _insert_rows(db, rows_of_documents, collected)
    _insert_rows(db, rows_of_documents, collected)
    if is_first:
        # The newest notes come first, so that paths are inserted from last to first, which leaves pages half empty.
        db.execute("REINDEX documents")
    db.execute("UPDATE counters SET value=? WHERE name='chunks'", (chunk_id,))
    db.execute(_PUT_INDEX_FORMAT, (index_format,))
    known = next((value for (value,) in sql.rows(db, "SELECT value FROM meta WHERE key='masks'")), "")
    if known != masks:
        db.execute(_PUT_MASKS, (masks if is_first else "?",))
    return range(last_id + 1, chunk_id + 1)


def _insert_rows(db: apsw.Connection, documents: list[tuple[Any, ...]], chunks: list[tuple[Any, ...]]) -> None:
    """Insert rows, and empty the lists that they were collected in."""
    db.executemany(_PUT_DOCUMENT, documents)
    texts, places = _join_texts(chunks)
    last = sql.single(db, "SELECT coalesce(max(id), 0) FROM texts")
    text_ids = {first: number for number, first in enumerate(_fill_pages(texts), last + 1)}
    db.executemany("INSERT INTO texts(id, text) VALUES(?, ?)", [(text_ids[first], texts[first]) for first in text_ids])
    db.executemany(_PUT_CHUNK, [
        (*own, chunk.start_line, chunk.end_line, *common.pack_chunk(chunk), text_ids[first], *place)
        for (*own, (chunk, *_)), (first, *place) in zip(chunks, places, strict=True)
    ])  # fmt: skip
    terms = [(number, made.words, common.encode_names(made.names), made.title) for number, _, _, made in chunks]
    db.executemany(_PUT_TERMS, terms)
    documents.clear()
    chunks.clear()


def _remove(db: apsw.Connection, source: SourceName, paths: Iterable[str]) -> None:
    revision = sql.start_revision(db)
    for path in paths:
        _delete_rows(db, source, path)
        db.execute("INSERT INTO gone(revision, source, path) VALUES(?, ?, ?)", (revision, source, path))


def _delete_rows(db: apsw.Connection, source: SourceName, path: str) -> None:
    for (document_id,) in list(sql.rows(db, _STORED, (source, path))):
        forget_chunks(db, document_id)
        db.execute("DELETE FROM keyword WHERE rowid IN (SELECT id FROM chunks WHERE document_id=?)", (document_id,))
        db.execute("DELETE FROM texts WHERE id IN (SELECT text_id FROM chunks WHERE document_id=?)", (document_id,))
        db.execute("DELETE FROM chunks WHERE document_id=?", (document_id,))
        db.execute("DELETE FROM documents WHERE id=?", (document_id,))


def _parts(db: apsw.Connection, path: str, first: int) -> list[str]:
    """Return the paths of a transcript's parts from a number on."""
    statement = "SELECT path FROM documents WHERE source='sessions' AND path>=? AND path<?"
    return [part for (part,) in sql.rows(db, statement, common.find_parts(path, first))]


def _join_texts(chunks: Sequence[tuple[Any, ...]]) -> tuple[dict[int, bytes], list[tuple[int, int, int]]]:
    """Return packed texts by the first chunk in each; and for each chunk that first one, its start and its length.

    What a chunk shares with the one before it is in a text once.
    """
    texts, places = dict[int, str](), []
    first, last_document, held = 0, 0, ""
    for number, document_id, _, (chunk, *_) in chunks:
        text, shared = chunk.text, chunk.overlap
        is_full = len(held) + len(text) - shared > _TEXT_CHARS
        if document_id != last_document or is_full or not held.endswith(text[:shared]):
            first, last_document, held, shared = number, document_id, "", 0
        places.append((first, len(held) - shared, len(text)))
        held = texts[first] = held + text[shared:]
    return {number: sql.pack_text(text) for number, text in texts.items()}, places


def _fill_pages(texts: Mapping[int, bytes]) -> Iterator[int]:
    """Yield texts in an order that leaves few pages half empty: the largest that still fits comes next."""
    left = sorted(texts, key=lambda first: len(texts[first]))
    sizes, room = [len(texts[first]) + _ROW_BYTES for first in left], 0
    while left:
        place = bisect_right(sizes, room) - 1
        if place < 0:
            room, place = _PAGE_ROOM, len(left) - 1
        room -= sizes.pop(place)
        yield left.pop(place)


# Where there is one source, all chunks are its own: to find out of which document each is takes twenty times as long.
_COUNTS = """
    SELECT source, CASE source WHEN 'sessions' THEN (SELECT count(*) FROM transcripts) ELSE count(*) END,
        CASE WHEN (SELECT min(source) FROM documents) = (SELECT max(source) FROM documents)
        THEN (SELECT count(*) FROM chunks)
        ELSE (SELECT count(*) FROM chunks
              WHERE document_id IN (SELECT id FROM documents AS own WHERE own.source = documents.source)) END
    FROM documents GROUP BY source
"""
_CHUNKS = """
    SELECT text, at, length, chunks.id, source, path, start_line, end_line, trail, mtime_ns, records, marks
    FROM chunks JOIN documents ON documents.id = document_id JOIN texts ON texts.id = text_id
    WHERE chunks.id IN (SELECT value FROM json_each(?))
"""
# With the condition of the index ``chunks_of_projects``. It has every chunk of a conversation with a coding agent.
_OF_PROJECTS = """SELECT id, coalesce(marks ->> 'project', '') FROM chunks WHERE instr(marks, '"project":') > 0"""
_OF_SOURCE = "SELECT chunks.id FROM documents JOIN chunks ON document_id = documents.id WHERE source=?"
# Only notes with front matter are listed with their text: there may be very many others.
_DOCUMENTS = f"""
    SELECT documents.id, source, path, mtime_ns, fields, length,
        CASE WHEN source <> 'sessions' AND substr(text, 1, 1) IN {sql.FRONT_MATTER_MARKS} THEN text END
    FROM documents LEFT JOIN chunks ON document_id = documents.id AND ordinal = 0
        LEFT JOIN texts ON texts.id = text_id
"""
# The day of a note is stored; a part of a transcript has that of its last change.
_OF_DAYS = f"""
    {_DOCUMENTS} WHERE documents.id IN (
        SELECT id FROM documents WHERE day BETWEEN ? AND ?
        UNION ALL SELECT id FROM documents WHERE source = 'sessions' AND mtime_ns BETWEEN ? AND ?
    )
"""
_CHUNKS_OF = "SELECT chunks.id FROM json_each(?) JOIN chunks ON document_id = value ORDER BY key, ordinal"

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
_COUNT = "SELECT count(*), 0 FROM keyword WHERE keyword MATCH ? LIMIT ?"
_COUNT_SOME = "SELECT count(*), max(rowid) FROM (SELECT rowid FROM keyword WHERE keyword MATCH ? LIMIT ?)"
# A list of as many documents or chunks is kept until the index changes; 8 MB of documents at most.
_MOST_LISTED = 30_000
# The counts of as many terms are remembered until the index changes; a few hundred kilobytes.
_MOST_REMEMBERED = 5_000
# As many rows of scored words are remembered until the index changes; 3 MB.
_MOST_SCORED_ROWS = 200_000
# How many characters of chunks are remembered until the index changes: about 3,000 chunks, most of which return.
_MOST_LOADED_CHARS = 4_000_000
_TERMS = "SELECT term FROM keyword_terms WHERE term >= ? AND term < ?"


def _read_meta(db: apsw.Connection) -> dict[str, str]:
    return dict(sql.rows(db, "SELECT key, value FROM meta WHERE key IN ('recipe', 'masks')"))


def _read_stamps(db: apsw.Connection, source: SourceName, settle_ns: int, seen: int) -> common.ChangedStamps:
    """Return how stamps have changed since a revision; everything if the removals are not remembered."""
    gone, statement, values = None, _ALL_STAMPS, [settle_ns, source]
    if sql.is_remembered(db, seen):
        removed = sql.rows(db, "SELECT path FROM gone WHERE source=? AND revision > ?", (source, seen))
        gone, statement, values = [path for (path,) in removed], _NEWER_STAMPS, [settle_ns, source, seen]
    return gone, {row[0]: row[2:] if row[1] else () for row in sql.rows(db, statement, values)}


class _Remembered:
    """What was read from the index of one revision: how many rows there are, how many hold a term, and chunks."""

    def __init__(self, db: apsw.Connection, revision: int) -> None:
        self.revision = revision
        self.chunks = sql.single(db, "SELECT count(*) FROM chunks")
        self._last_id = sql.single(db, "SELECT coalesce(max(id), 0) FROM chunks")
        self._kept: dict[str, Any] = {}
        self._rows: dict[str, int] = {}
        self._loaded: dict[int, StoredChunk] = {}
        self._loaded_chars = 0
        self._scored: dict[str, Mapping[int, float]] = {}
        self._scored_rows = 0

    def recall_rows(self, word: str, score: Callable[[], Mapping[int, float]]) -> Mapping[int, float]:
        """Return the chunks that hold a word, and remember them: common words come again, and have many."""
        if (known := self._scored.get(word)) is not None:
            return known
        found = score()
        self._scored_rows += len(found)
        if self._scored_rows > _MOST_SCORED_ROWS:
            self._scored, self._scored_rows = {}, len(found)
        if not isinstance(found, dict):
            self._scored[word] = found
        return found

    def keep(self, name: str, read: Callable[[], _T]) -> _T:
        """Return what was read before under a name, else read it; a very long list is not kept."""
        found: _T = self._kept[name] if name in self._kept else read()
        if len(found) <= _MOST_LISTED:
            self._kept[name] = found
        return found

    def load(self, db: apsw.Connection, ids: Sequence[int]) -> list[StoredChunk]:
        """Return chunks in the given order. A chunk that no longer exists is left out."""
        loaded = self._loaded
        missing = [chunk_id for chunk_id in ids if chunk_id not in loaded]
        if missing and self._loaded_chars > _MOST_LOADED_CHARS:
            loaded, missing, self._loaded_chars = {}, list(ids), 0
            self._loaded = loaded
        for chunk in _load(db, missing) if missing else ():
            loaded[chunk.id] = chunk
            self._loaded_chars += len(chunk.text)
        return [loaded[chunk_id] for chunk_id in ids if chunk_id in loaded]

    def rows_with(self, db: apsw.Connection, expression: str) -> int:
        """Return how many rows hold an expression; of a very common one, estimated from the oldest that do."""
        if (known := self._rows.get(expression)) is not None:
            return known
        statement = _COUNT if self.chunks < _MOST_COUNTED else _COUNT_SOME
        ((found, last),) = sql.rows(db, statement, (expression, _MOST_COUNTED))
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

    def snapshot(self) -> AbstractContextManager[None]:
        return self._file.snapshot()

    def count(self, space: int | None = None) -> int:
        with self._file.reading() as db:
            if space is None:
                return self._recall(db).chunks
            return count_vectors(db, space) if sql.is_stored(db, space) else 0

    def count_by_source(self) -> tuple[SourceStatus, ...]:
        with self._file.reading() as db:
            return tuple(SourceStatus(*row) for row in sql.rows(db, _COUNTS))

    def chunks_of_projects(self) -> Mapping[int, str]:
        with self._file.reading() as db:
            return self._recall(db).keep("projects", lambda: dict(sql.rows(db, _OF_PROJECTS)))

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        with self._file.reading() as db:
            return self._recall(db).load(db, ids)

    def list_documents(self, days: Sequence[tuple[int, int]] | None = None) -> list[StoredDocument]:
        with self._file.reading() as db:
            if days is not None:
                each = (row for day in days for row in sql.rows(db, _OF_DAYS, (*day, *common.find_times(*day))))
                by_number = {row[0]: _unpack_document(*row) for row in each}
                return [document for document in by_number.values() if is_of_days(document, days)]
            every = partial(sql.rows, db, _DOCUMENTS)
            return list(self._recall(db).keep("documents", lambda: [_unpack_document(*row) for row in every()]))

    def chunks_of(self, chosen: Iterable[int] | SourceName) -> list[int]:
        with self._file.reading() as db:
            if isinstance(chosen, str):
                return self._recall(db).keep(chosen, lambda: [row[0] for row in sql.rows(db, _OF_SOURCE, (chosen,))])
            return [number for (number,) in sql.rows(db, _CHUNKS_OF, (str(list(chosen)),))]

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        with self._file.reading() as db:
            return common.match_terms(_SqliteTerms(db, self._recall(db)), terms)

    def _recall(self, db: apsw.Connection) -> _Remembered:
        """Return what is remembered of the index as it is now."""
        remembered, revision = self._remembered, self._file.revision(db)
        if remembered is None or remembered.revision != revision:
            remembered = self._remembered = _Remembered(db, revision)
        return remembered


def _unpack_document(
    number: int, source: SourceName, path: str, mtime_ns: int, fields: str, length: int, text: bytes | None
) -> StoredDocument:
    head = sql.unpack_text(text)[: min(length, common.HEAD_CHARS)] if text else ""
    return common.unpack_document(number, source, path, mtime_ns, head, fields)


def _load(db: apsw.Connection, ids: Sequence[int]) -> Iterator[StoredChunk]:
    # Several chunks are often of one note.
    unpack = cache(sql.unpack_text)
    for text, at, length, *found in sql.rows(db, _CHUNKS, (str(list(ids)),)):
        number, source, path, start, end, *others = found
        whole = unpack(text)[at : at + length]
        yield common.unpack_chunk((number, source, path, start, end), whole, *others)


class _SqliteTerms:
    """The terms of the index, as a connection sees them: a ``TermIndex``."""

    def __init__(self, db: apsw.Connection, known: _Remembered) -> None:
        self._db = db
        self._known = known

    def count(self, wanted: common.Wanted) -> int:
        return self._known.rows_with(self._db, _render(wanted))

    def score(self, word: str, held_by: int) -> Mapping[int, float]:
        return self._known.recall_rows(word, lambda: self._score(word, held_by))

    def _score(self, word: str, held_by: int) -> Mapping[int, float]:
        found = list(sql.rows(self._db, _SCORED, (_quote(word), common.ROW_BUDGET)))
        # Other forms of the word are counted too, so what was found is the better figure unless it was limited.
        held_by = held_by if len(found) == common.ROW_BUDGET else len(found)
        others = self._known.chunks - held_by
        surprise = math.log((others + 0.5) / (held_by + 0.5)) if others > 0 else 0.0
        divisor = -(surprise if surprise > 0 else 1e-6) * _SATURATED
        if "numpy" in sys.modules:
            # Another thread may still be importing it.
            import numpy

            ids = numpy.fromiter(map(itemgetter(0), found), numpy.int64, len(found))
            ranks = numpy.fromiter(map(itemgetter(1), found), numpy.float64, len(found))
            return ChunkRows(ids[::-1], ranks[::-1] / divisor)
        return {chunk_id: rank / divisor for chunk_id, rank in found}

    def find(self, wanted: common.Wanted, among: Sequence[common.Wanted] = ()) -> list[int]:
        query = f"({' OR '.join(map(_render, among))}) AND ({_render(wanted)})" if among else _render(wanted)
        return [chunk_id for (chunk_id,) in sql.rows(self._db, _PLAIN, (query, common.ROW_BUDGET))]

    def terms_with(self, beginning: str) -> Iterator[str]:
        return (name for (name,) in sql.rows(self._db, _TERMS, (beginning, beginning + "\U0010ffff")))


def _render(wanted: common.Wanted) -> str:
    any_of, is_prefix = wanted
    return f"{_quote(any_of[0])} *" if is_prefix else " OR ".join(map(_quote, any_of))


def _quote(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'


# How many chunks can be added to the live index while another is built, before a number would be used twice.
_NUMBER_GAP = 2**20


class SqliteStore:
    """An index in one file. It can be deleted at any time: everything in it comes from the documents."""

    def __init__(
        self,
        path: str,
        *,
        is_ours: bool,
        owner: tuple[str, str],
        library: str = "",
        disposable: bool = False,
        places: str = "",
    ) -> None:
        """``library`` is sqlite-vec's, for a process that answers one query and ends."""
        self.file_path = path
        self._owner = owner
        stamps = common.StampCache()

        def forget() -> None:
            self.vectors.forget()
            stamps.clear()

        self._file = file = IndexFile(IndexLocation(path, is_ours, owner, disposable, places), forget, check_contents)
        self.admin = file
        self.documents = SqliteDocuments(file, stamps)
        self.chunks = SqliteChunks(file)
        self.vectors = SqliteVectors(file, library)
        self.cache = SqliteEmbeddingCache(file)
        self._locks = {kind: FileLock(path + sidecar_files.LOCKS[kind]) for kind in ("watch", "fill")}

    def lock(self, kind: Literal["watch", "fill"]) -> FileLock:
        return self._locks[kind]

    @contextmanager
    def rebuild(self) -> "Iterator[tuple[SqliteStore, Callable[[], None]]]":
        self._file.open()
        self._file.require_writable()
        path = self.file_path + sidecar_files.FRESH
        fresh = SqliteStore(path, is_ours=True, owner=self._owner, disposable=True)
        with self._file.rebuild_lock("rebuilding the index"):
            sidecar_files.remove(path)
            try:
                with self._file.reading() as live, fresh._file.writing() as db:
                    _reserve_numbers(db, live)
                yield fresh, partial(self._publish, fresh)
            finally:
                fresh._file.close()
                sidecar_files.remove(path)

    def _publish(self, fresh: "SqliteStore") -> None:
        """Replace this index by a rebuilt one in one step."""
        with self._file.writing() as live, fresh._file.writing() as db, sql.translate_errors(self.file_path):
            _carry_over(db, self.file_path)
            # Readers see either the old index or the new one.
            with live.backup("main", db, "main") as copy:
                copy.step()
            live.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self._file.renew_writer()


def _reserve_numbers(fresh: apsw.Connection, live: apsw.Connection) -> None:
    """Give spaces the numbers that they have in the live index, and chunks numbers that none has there.

    A search may still hold a number from the live index when the new one is published; it must not find another chunk.
    """
    spaces = list(sql.rows(live, "SELECT id, provider, model, fingerprint, dimensions FROM spaces"))
    last = sql.single(live, "SELECT value FROM counters WHERE name='chunks'")
    with sql.transaction(fresh):
        fresh.executemany(
            "INSERT INTO spaces(id, provider, model, fingerprint, dimensions) VALUES(?, ?, ?, ?, ?)", spaces
        )
        fresh.execute("UPDATE counters SET value = ? WHERE name='chunks'", (last + _NUMBER_GAP,))


def _carry_over(fresh: apsw.Connection, live: str) -> None:
    """Copy what cannot be made from the notes from the live index: cached embeddings, open batch jobs, counters.

    The revision jumps, so that caches in memory load everything again.
    """
    fresh.execute("ATTACH ? AS live", (live,))
    try:
        with sql.transaction(fresh):
            fresh.execute(
                """
                INSERT OR IGNORE INTO main.spaces(id, provider, model, fingerprint, dimensions)
                SELECT id, provider, model, fingerprint, dimensions FROM live.spaces;
                INSERT OR IGNORE INTO main.embedding_cache(space_id, hash, used, vector, windows)
                SELECT ours.id, cached.hash, cached.used, cached.vector, cached.windows
                FROM live.embedding_cache AS cached JOIN live.spaces AS theirs ON theirs.id = cached.space_id
                    JOIN main.spaces AS ours
                        ON ours.fingerprint = theirs.fingerprint AND ours.dimensions = theirs.dimensions;
                INSERT OR IGNORE INTO main.jobs SELECT * FROM live.jobs;
                UPDATE main.spaces SET filled_at = 1 + (SELECT value FROM live.counters WHERE name='texts') + filled_at
                WHERE filled_at >= 0;
                UPDATE main.counters SET value = value + 1 + (SELECT value FROM live.counters AS theirs
                    WHERE theirs.name = main.counters.name) WHERE name IN ('texts', 'cache');
                UPDATE main.counters SET value = max(value, (SELECT value FROM live.counters AS theirs
                    WHERE theirs.name = main.counters.name)) WHERE name = 'revision';
                """
            )
            fresh.execute("DELETE FROM history")
            sql.start_revision(fresh)
    finally:
        fresh.execute("DETACH live")


_JOB = "tag, fingerprint, file, job, created_at, digests"
_DROP_LEAST_USED = """
    DELETE FROM embedding_cache WHERE (space_id, hash) IN
        (SELECT space_id, hash FROM embedding_cache ORDER BY used, hash LIMIT ?)
"""


class SqliteEmbeddingCache:
    """The role ``EmbeddingCache``."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file

    def get(self, space: int, hashes: Iterable[bytes]) -> Mapping[bytes, Embedding]:
        found: dict[bytes, Embedding] = {}
        statement = "SELECT vector, windows FROM embedding_cache WHERE space_id=? AND hash=?"
        with self._file.reading() as db:
            for digest in hashes:
                for vector, windows in sql.rows(db, statement, (space, digest)):
                    found[digest] = Embedding(vector, windows)
        return found

    def put(self, space: int, fresh: Mapping[bytes, Embedding], used: Iterable[bytes], most: int | None) -> None:
        with self._file.writing() as db, sql.transaction(db):
            tick = sql.bump(db, "cache")
            db.executemany("UPDATE embedding_cache SET used=? WHERE space_id=? AND hash=?",
                           [(tick, space, digest) for digest in used])  # fmt: skip
            db.executemany(
                "INSERT OR REPLACE INTO embedding_cache(space_id, hash, used, vector, windows) VALUES(?, ?, ?, ?, ?)",
                [(space, digest, tick, made.vector, made.passages) for digest, made in fresh.items()],
            )
            if most is not None:
                surplus = sql.single(db, "SELECT count(*) FROM embedding_cache") - most
                if surplus > 0:
                    db.execute(_DROP_LEAST_USED, (surplus,))

    def jobs(self, fingerprint: str) -> list[Job]:
        statement = f"SELECT {_JOB} FROM jobs WHERE fingerprint=? ORDER BY created_at, tag"
        with self._file.reading() as db:
            return [common.make_job(*row) for row in sql.rows(db, statement, (fingerprint,))]

    def put_job(self, tag: str, job: Job | None) -> None:
        with self._file.writing() as db, sql.transaction(db):
            db.execute("DELETE FROM jobs WHERE tag=?", (tag,))
            if job is not None:
                row = tag, job.fingerprint, job.file, job.id, job.created_at, b"".join(job.digests)
                db.execute(f"INSERT INTO jobs({_JOB}) VALUES(?, ?, ?, ?, ?, ?)", row)
