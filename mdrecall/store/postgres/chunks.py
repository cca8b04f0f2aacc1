"""Chunks read back from the database: by number, by their document, and by the terms that they hold."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mdrecall.core.text.annotations import unpack_marks
from mdrecall.core.text.days import is_of_days, ms_of_day
from mdrecall.core.text.notes import unpack_fields
from mdrecall.store.common import match_terms
from mdrecall.store.postgres.connect import Database
from mdrecall.store.postgres.documents import HEAD_CHARS, find_removed
from mdrecall.store.postgres.schema import to_bytes, to_text
from mdrecall.store.postgres.terms import BlockCache, PostgresTerms
from mdrecall.store.postgres.transaction import Transaction
from mdrecall.types import Match, SourceCount, SourceName, StoredChunk, StoredDocument, Term
from mdrecall.types.documents import file_path

#: A list of as many documents is kept, for questions about a time or a name: about 270 bytes each. An index of 100,000
#: chunks, up to which names are looked through, has as many documents as a rule.
_MOST_LISTED = 60_000
_OWN = "workspace_id=%s AND gen=%s"
_COUNTS = """
    SELECT source, count(DISTINCT CASE WHEN source = 'sessions' THEN split_part(encode(path, 'escape'), '\\000', 1)
        ELSE encode(path, 'escape') END), coalesce(sum(chunks), 0)::int8
    FROM mdrecall.documents d LEFT JOIN LATERAL (
        SELECT count(*) AS chunks FROM mdrecall.chunks c
        WHERE c.workspace_id = d.workspace_id AND c.gen = d.gen AND c.document_id = d.id) own ON true
    WHERE workspace_id=%s AND gen=%s GROUP BY source
"""
_CHUNKS = """
    SELECT c.id, d.source, d.path, c.start_line, c.end_line, c.text, c.trail, d.mtime_ns, c.records, c.marks
    FROM mdrecall.chunks c JOIN mdrecall.documents d
        ON d.workspace_id = c.workspace_id AND d.gen = c.gen AND d.id = c.document_id
    WHERE c.workspace_id=%s AND c.gen=%s AND c.id = ANY(%s)
"""
_SOURCES = """
    SELECT c.id, d.source FROM mdrecall.chunks c JOIN mdrecall.documents d
        ON d.workspace_id = c.workspace_id AND d.gen = c.gen AND d.id = c.document_id
    WHERE c.workspace_id=%s AND c.gen=%s AND c.id = ANY(%s)
"""
# As much of a note as its front matter needs. Other notes are listed without a text: there may be very many.
_DOCUMENTS = """
    SELECT d.id, d.source, d.path, d.mtime_ns, CASE WHEN d.source <> 'sessions'
        AND substring(c.text FROM 1 FOR 3) IN ('---', '+++') THEN substring(c.text FROM 1 FOR 4000) END, d.fields
    FROM mdrecall.documents d LEFT JOIN mdrecall.chunks c
        ON c.workspace_id = d.workspace_id AND c.gen = d.gen AND c.document_id = d.id AND c.ordinal = 0
    WHERE d.workspace_id=%s AND d.gen=%s
"""
# By a list of numbers, so that the planner does not read all chunks for a few documents. With all sources, because the
# index of revisions begins with the source.
_NEWER_DOCUMENTS = f"""
    {_DOCUMENTS} AND d.id = ANY(ARRAY(
        SELECT id FROM mdrecall.documents WHERE {_OWN} AND source IN ('memory', 'sessions') AND revision > %s))
"""
# The day of a note is stored; a part of a transcript has that of its last change.
_OF_DAYS = f"""
    {_DOCUMENTS} AND d.id = ANY(ARRAY(
        SELECT id FROM mdrecall.documents WHERE {_OWN} AND day BETWEEN %s AND %s
        UNION ALL SELECT id FROM mdrecall.documents
        WHERE {_OWN} AND source = 'sessions' AND mtime_ns BETWEEN %s AND %s))
"""
# With the condition of the index ``chunks_of_projects``, which is empty in most workspaces.
_OF_PROJECTS = f"""SELECT id, marks FROM mdrecall.chunks WHERE {_OWN} AND strpos(marks, '"project":') > 0"""
_CHUNKS_OF = """
    SELECT c.id FROM unnest(%s::int8[]) WITH ORDINALITY wanted(number, place) JOIN mdrecall.chunks c
        ON c.document_id = wanted.number WHERE c.workspace_id=%s AND c.gen=%s ORDER BY wanted.place, c.ordinal
"""


class PostgresChunks:
    """The role ``ChunkReader``."""

    def __init__(self, database: Database, gen: int | None) -> None:
        self._database = database
        self._gen = gen
        self._blocks = BlockCache()
        self._listed: tuple[tuple[int, int], dict[bytes, StoredDocument]] | None = None
        self._of_projects: tuple[tuple[int, int], dict[int, str]] | None = None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let every read of this thread inside see the same state of the index."""
        with self._database.reading(self._gen):
            yield

    def count(self) -> int:
        """Return the number of chunks."""
        with self._database.reading(self._gen) as now:
            return now.state.chunks

    def count_by_source(self) -> tuple[SourceCount, ...]:
        """Return the number of files and chunks of each source."""
        with self._database.reading(self._gen) as now:
            return tuple(SourceCount(*row) for row in now.rows(_COUNTS))

    def chunks_of_projects(self) -> Mapping[int, str]:
        """Return the chunks whose marks name a project, each with its projects."""
        with self._database.reading(self._gen) as now:
            key = now.gen, now.current_revision()
            if self._of_projects is None or self._of_projects[0] != key:
                self._of_projects = key, {row[0]: unpack_marks(row[1]).project for row in now.rows(_OF_PROJECTS)}
            return self._of_projects[1]

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        """Return chunks by number, in the given order. A chunk that no longer exists is left out."""
        if not ids:
            return []
        with self._database.reading(self._gen) as now:
            found = {row[0]: _read_chunk(row) for row in now.rows(_CHUNKS, list(ids))}
        return [found[number] for number in ids if number in found]

    def list_documents(self) -> list[StoredDocument]:
        """Return every document, in no particular order."""
        with self._database.reading(self._gen) as now:
            key, listed = (now.gen, now.current_revision()), self._listed
            if listed is None or listed[0] != key:
                listed = key, self._list_anew(now, listed)
        if len(listed[1]) <= _MOST_LISTED:
            self._listed = listed
        return list(listed[1].values())

    def _list_anew(
        self, now: Transaction, listed: tuple[tuple[int, int], dict[bytes, StoredDocument]] | None
    ) -> dict[bytes, StoredDocument]:
        """Return every document by its source and path, from what was listed before and what has changed since."""
        removed = None
        if listed and listed[0][0] == now.gen and listed[0][1] < now.state.revision:
            removed = find_removed(now, "gone", listed[0][1])
        if listed is None or removed is None:
            return {_key_of(row): _read_document(row) for row in now.rows(_DOCUMENTS)}
        known = dict(listed[1])
        for what in removed:
            known.pop(what, None)
        newer = now.rows(_NEWER_DOCUMENTS, now.workspace, now.gen, listed[0][1])
        return known | {_key_of(row): _read_document(row) for row in newer}

    def documents_of_days(self, ranges: Sequence[tuple[int, int]]) -> list[StoredDocument]:
        """Return the documents that are about a day of any of the ranges."""
        found: dict[int, StoredDocument] = {}
        with self._database.reading(self._gen) as now:
            own = now.workspace, now.gen
            for first, last in ranges:
                times = (int(ms_of_day(first) * 1e6), int(ms_of_day(last + 1) * 1e6))
                rows = now.rows(_OF_DAYS, *own, first, last, *own, *times)
                found |= {row[0]: _read_document(row) for row in rows}
        return [document for document in found.values() if is_of_days(document, ranges)]

    def chunks_of(self, documents: Iterable[int]) -> list[int]:
        """Return the numbers of the chunks of documents, in the given order and then in that of reading."""
        with self._database.reading(self._gen) as now:
            found = now.db.execute(_CHUNKS_OF, (list(documents), now.workspace, now.gen)).fetchall()
        return [number for (number,) in found]

    def sources_of(self, ids: Sequence[int]) -> Mapping[int, SourceName]:
        """Return the source of each chunk. A chunk that no longer exists is left out."""
        with self._database.reading(self._gen) as now:
            return dict(now.rows(_SOURCES, list(ids))) if ids else {}

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        """Return the chunks that each term occurs in, in the order of the terms."""
        with self._database.reading(self._gen) as now:
            index = PostgresTerms(now, self._blocks)
            index.prepare(terms)
            return match_terms(index, terms)


def _read_chunk(row: tuple[Any, ...]) -> StoredChunk:
    number, source, path, start, end, text, trail, mtime_ns, records, marks = row
    headings = tuple(to_text(trail).split("\n")) if trail else ()
    numbers = tuple(map(int, records.split(","))) if records else ()
    own = (start, end, to_text(text), headings, mtime_ns, numbers, unpack_marks(marks))
    return StoredChunk(number, source, file_path(to_text(path)), *own)


def _read_document(row: tuple[Any, ...]) -> StoredDocument:
    number, source, path, mtime_ns, head, fields = row
    return StoredDocument(number, source, file_path(to_text(path)), mtime_ns, _read_head(head), unpack_fields(fields))


def _key_of(row: tuple[Any, ...]) -> bytes:
    """Return a document as removals name it."""
    return to_bytes(f"{row[1]}\0") + bytes(row[2])


def _read_head(head: bytes | None) -> str:
    return head.decode("utf-8", "ignore")[:HEAD_CHARS] if head else ""
