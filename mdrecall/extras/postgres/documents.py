"""Documents, chunks and vectors in the database: written whole, and read by number, by path and by terms.

Vectors are stored as signed bytes, as in the SQLite store, so that both have the same cosines, and searched in memory.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy

from mdrecall.errors import StoreUnavailable
from mdrecall.extras.postgres.connect import Database, SpaceRow, Transaction, with_retries
from mdrecall.extras.postgres.schema import NOT_STORED, analyze_new, to_bytes, to_columns, to_text
from mdrecall.extras.postgres.terms import ChunkTerms, Contents, PostgresTerms, add_chunks, drop_dead, remove_chunks
from mdrecall.interfaces import Indexed
from mdrecall.store import common, vectors
from mdrecall.text.annotations import unpack_marks
from mdrecall.text.days import is_of_days
from mdrecall.text.index_terms import index_terms
from mdrecall.types.documents import (
    Chunk,
    Document,
    Embedding,
    IndexedChunk,
    PendingChunk,
    SourceName,
    Space,
    StoredChunk,
    StoredDocument,
    StoredSpace,
    file_path,
)
from mdrecall.types.search import Match, Term
from mdrecall.types.sync import SourceStatus
from mdrecall.types.transcripts import Transcript

#: Chunks are collected up to this number before their rows are written, so that memory stays bounded.
_CHUNKS_AT_ONCE = 8_192
_OWN = "workspace_id=%s AND gen=%s"
# A list instead of a join: a planner that does not know yet how large the tables have become would read all of them.
_DELETE = """
    WITH old AS (
        DELETE FROM mdrecall.documents WHERE workspace_id=%(workspace)s AND gen=%(gen)s AND source=%(source)s
            AND path = ANY(%(paths)s) RETURNING id),
    gone AS (
        DELETE FROM mdrecall.chunks WHERE workspace_id=%(workspace)s AND gen=%(gen)s
            AND document_id = ANY(ARRAY(SELECT id FROM old)) RETURNING id, length),
    lost AS (
        DELETE FROM mdrecall.vectors WHERE workspace_id=%(workspace)s AND gen=%(gen)s
            AND space_id = ANY(%(spaces)s) AND chunk = ANY(ARRAY(SELECT id FROM gone)) RETURNING space_id),
    noted AS (
        INSERT INTO mdrecall.changes(workspace_id, gen, revision, kind, what)
        SELECT %(workspace)s, %(gen)s, %(revision)s, 'removed', int8send(id) FROM gone ON CONFLICT DO NOTHING)
    SELECT id, length, NULL FROM gone UNION ALL SELECT NULL, count(*), space_id FROM lost GROUP BY space_id
"""
_CHANGES = f"SELECT revision, kind, what FROM mdrecall.changes WHERE {_OWN} AND revision >= %s"
_RECORD = """
    INSERT INTO mdrecall.changes(workspace_id, gen, revision, kind, what)
    SELECT %s, %s, %s, %s, each FROM unnest(%s::bytea[]) each ON CONFLICT DO NOTHING
"""
# With a limit, each stamp is looked up by its key. Without it, the planner may read all of them for a few documents.
_STAMPS = """
    SELECT d.path, abs(s.seen_ns - s.mtime_ns) > %s, s.size, s.mtime_ns, s.ctime_ns, s.inode
    FROM mdrecall.documents d LEFT JOIN LATERAL (
        SELECT * FROM mdrecall.stamps own WHERE own.workspace_id = d.workspace_id AND own.gen = d.gen
            AND own.source = d.source AND own.path = d.path AND own.place = %s LIMIT 1) s ON true
    WHERE d.workspace_id=%s AND d.gen=%s AND d.source=%s AND d.revision > %s
"""
# Rows go in by arrays: one statement for all of them. COPY is not allowed where a policy guards the rows.
_PUT_STAMPS = """
    INSERT INTO mdrecall.stamps(workspace_id, gen, place, revision, source, path,
        size, mtime_ns, ctime_ns, inode, seen_ns)
    SELECT %s, %s, %s, %s, * FROM unnest(%b::text[], %b::bytea[], %b::int8[], %b::int8[], %b::int8[], %s::numeric[],
        %b::int8[])
    ON CONFLICT (workspace_id, place, gen, source, path) DO UPDATE SET size = excluded.size,
        mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,
        seen_ns = excluded.seen_ns, revision = excluded.revision
"""
_PUT_DOCUMENTS = f"""
    WITH stamped AS ({_PUT_STAMPS})
    INSERT INTO mdrecall.documents(workspace_id, gen, index_format, revision, id, source, path, hash, mtime_ns, fields,
        day)
    SELECT %s, %s, %s, %s, * FROM unnest(%b::int8[], %b::text[], %b::bytea[], %b::bytea[], %b::int8[], %b::text[],
        %b::int4[])
"""
_REFRESH = """
    UPDATE mdrecall.documents d SET mtime_ns = new.mtime_ns, revision = %s
    FROM unnest(%s::text[], %s::bytea[], %s::bytea[], %s::int8[]) new(source, path, hash, mtime_ns)
    WHERE d.workspace_id=%s AND d.gen=%s AND d.source = new.source AND d.path = new.path AND d.hash = new.hash
    RETURNING d.source, d.path
"""
_TRANSCRIPT = "path, size, mtime_ns, inode, until, tail, record, parts, seal"
_PUT_CHUNKS = """
    INSERT INTO mdrecall.chunks(workspace_id, gen, id, document_id, ordinal, start_line, end_line, overlap, length,
        trail, records, marks, text)
    SELECT %s, %s, * FROM unnest(%b::int8[], %b::int8[], %b::int4[], %b::int4[], %b::int4[], %b::int4[], %b::int4[],
        %b::bytea[], %b::text[], %b::text[], %b::bytea[])
"""


class PostgresDocuments:
    """The role ``DocumentWriter``."""

    def __init__(self, database: Database, gen: int | None, place: str, stamps: common.StampCache) -> None:
        """``place`` is the machine and folder in which stamps are valid."""
        self._database = database
        self._gen = gen
        self._place = place
        self._stamps = stamps

    def commit(self, write: Callable[[], object]) -> None:
        def commit() -> None:
            with self._database.writing(self._gen):
                write()

        with_retries(commit)

    def state(self) -> tuple[str, str, bool]:
        with self._database.reading(self._gen) as now:
            return now.state.index_format, now.state.masks, now.state.place in ("", self._place)

    def known_stamps(self, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        with self._database.reading(self._gen) as now:
            read_changes = partial(_read_stamps, now, self._place, source, settle_ns)
            return self._stamps.get(source, settle_ns, now.state.revision, read_changes)

    def known_documents(self, source: SourceName, paths: Sequence[str] | None = None) -> Mapping[str, tuple[str, str]]:
        statement = f"SELECT path, hash, index_format FROM mdrecall.documents WHERE {_OWN} AND source=%s"
        some = "" if paths is None else " AND path = ANY(%s)"
        values = () if paths is None else ([to_bytes(path) for path in paths],)
        with self._database.reading(self._gen) as now:
            found = now.rows(f"{statement}{some} ORDER BY path", source, *values)
        return {to_text(path): (digest.hex(), index_format) for path, digest, index_format in found}

    def put(
        self, items: Indexed, index_format: str, masks: str = "", *, state: Transcript | None = None, keep: int = 0
    ) -> None:
        settled = [document for document, chunks in items if chunks is None]
        new = [(document, chunks) for document, chunks in items if chunks is not None]
        with self._database.writing(self._gen) as now:
            if settled:
                self._refresh_stamps(now, settled)
            if state is not None:
                _remove(now, now.start_revision(), "sessions", _list_parts(now, state.path, keep))
                row = to_bytes(state.path), *state[1:]
                now.run(f"DELETE FROM mdrecall.transcripts WHERE {_OWN} AND path=%s", row[0])
                marks = ", ".join(["%s"] * len(row))
                columns = f"workspace_id, gen, {_TRANSCRIPT}"
                now.run(f"INSERT INTO mdrecall.transcripts({columns}) VALUES(%s, %s, {marks})", *row)
            if new or state is not None:
                self._require_place(now)
                _put(now, new, index_format, masks, self._place)

    def _require_place(self, now: Transaction) -> None:
        """Raise if the index belongs to another folder of this machine. Who indexes first says where the notes are."""
        if not now.state.place:
            # Only there a missing file means that it was deleted.
            place = "UPDATE mdrecall.workspaces SET place=%s WHERE id=%s AND place=''"
            now.db.execute(place, (self._place, now.workspace))
        machine, _, folder = now.state.place.partition(":")
        # On another machine it may be a copy of the same notes.
        if now.state.place not in ("", self._place) and machine == self._place.partition(":")[0]:
            message = f"{self._database.place} is the index of another folder of this machine, {folder}."
            raise StoreUnavailable(message, hint="Give this memory a name of its own: mdrecall.store.workspace.")

    def _refresh_stamps(self, now: Transaction, documents: Sequence[Document]) -> None:
        revision = now.start_revision()
        rows = [(new.source, to_bytes(new.path), bytes.fromhex(new.hash), new.stamp[1]) for new in documents]
        values = (revision, *to_columns(rows, 4), now.workspace, now.gen)
        still = {(source, to_text(path)) for source, path in now.db.execute(_REFRESH, values, binary=True)}
        same = [new for new in documents if (new.source, new.path) in still]
        now.run(_PUT_STAMPS, self._place, revision, *to_columns(_stamp_rows(same), 7))

    def remove(self, gone: Mapping[SourceName, Iterable[str]], masks: str | None = None) -> None:
        with self._database.writing(self._gen) as now:
            for source, paths in gone.items():
                chosen = list(paths)
                if source == "sessions":
                    drop = f"DELETE FROM mdrecall.transcripts WHERE {_OWN} AND path = ANY(%s)"
                    now.run(drop, [to_bytes(path) for path in chosen])
                    chosen = [part for path in chosen for part in _list_parts(now, path, 0)]
                _remove(now, now.start_revision(), source, chosen)
            if masks is not None:
                now.state = now.state._replace(masks=masks)

    def find_gone(self, source: SourceName, missing: Sequence[str]) -> list[str]:
        seen = f"SELECT path FROM mdrecall.stamps WHERE {_OWN} AND place=%s AND source=%s"
        with self._database.reading(self._gen) as now:
            if now.state.place != self._place:
                return []
            had = {file_path(to_text(path)) for (path,) in now.rows(seen, self._place, source)}
        return [path for path in missing if path in had]

    def transcripts(self) -> Mapping[str, Transcript]:
        statement = f"SELECT {_TRANSCRIPT} FROM mdrecall.transcripts WHERE workspace_id=%s AND gen=%s"
        with self._database.reading(self._gen) as now:
            found = [(to_text(row[0]), *row[1:3], int(row[3]), *row[4:]) for row in now.rows(statement)]
        return {row[0]: Transcript(*row) for row in found}


def find_removed(now: Transaction, kind: str, seen: int) -> list[bytes] | None:
    """Return what was removed after a revision; None if that is not remembered."""
    if seen not in now.changes or now.is_writing:
        now.changes[seen] = now.rows(_CHANGES, seen) if seen >= 0 else []
    if not any(revision == seen for revision, *_ in now.changes[seen]):
        return None
    return [what for revision, each, what in now.changes[seen] if each == kind and revision > seen]


def _read_stamps(now: Transaction, place: str, source: SourceName, settle_ns: int, seen: int) -> common.ChangedStamps:
    """Return how stamps have changed since a revision; everything if the removals are not remembered."""
    removed = find_removed(now, "gone", seen)
    values = (settle_ns, place, now.workspace, now.gen, source, -1 if removed is None else seen)
    found = now.db.execute(_STAMPS, values, binary=True).fetchall()
    newer = {to_text(row[0]): (*row[2:5], int(row[5])) if row[1] else () for row in found}
    if removed is None:
        return None, newer
    prefix = to_bytes(f"{source}\0")
    return [to_text(what[len(prefix) :]) for what in removed if what.startswith(prefix)], newer


def _put(
    now: Transaction,
    items: Sequence[tuple[Document, Iterable[IndexedChunk]]],
    index_format: str,
    masks: str,
    place: str,
) -> None:
    revision = now.start_revision()
    known = masks if not now.state.chunks or now.state.masks == masks else "?"
    for source in {document.source for document, _ in items}:
        paths = [document.path for document, _ in items if document.source == source]
        _delete_rows(now, revision, source, paths)
    documents = [document for document, _ in items]
    first = now.reserve("next_document", len(documents))
    rows, chunks_of = [], []
    for number, (document, chunks) in enumerate(items, first):
        fields, day, own = common.pack_document(document, chunks)
        digest = bytes.fromhex(document.hash)
        rows.append((number, document.source, to_bytes(document.path), digest, document.stamp[1], fields, day))
        chunks_of.append(own)
    stamps = place, revision, *to_columns(_stamp_rows(documents), 7)
    now.run(_PUT_DOCUMENTS, *stamps, now.workspace, now.gen, index_format, revision, *to_columns(rows, 7))
    collected: list[tuple[int, int, IndexedChunk]] = []
    for number, chunks in enumerate(chunks_of):
        for ordinal, indexed in enumerate(chunks):
            collected.append((first + number, ordinal, indexed))
            if len(collected) >= _CHUNKS_AT_ONCE:
                _put_chunks(now, collected)
                collected = []
    _put_chunks(now, collected)
    drop_dead(now)
    is_same = now.state.index_format in ("", index_format)
    now.state = now.state._replace(
        texts=now.state.texts + 1, index_format=index_format if is_same else "?", masks=known
    )


def _put_chunks(now: Transaction, collected: Sequence[tuple[int, int, IndexedChunk]]) -> None:
    if not collected:
        return
    first = now.reserve("next_chunk", len(collected))
    terms = [_read_terms(indexed) for _, _, indexed in collected]
    lengths = [sum(map(len, each)) for each in terms]
    rows = [
        (first + number, document_id, ordinal, *_chunk_row(indexed.chunk, lengths[number]))
        for number, (document_id, ordinal, indexed) in enumerate(collected)
    ]
    now.run(_PUT_CHUNKS, *to_columns(rows, 11))
    add_chunks(now, range(first, first + len(collected)), terms)
    analyze_new(now.db, len(collected))
    now.count(chunks=len(collected), tokens=sum(lengths))


def _read_terms(indexed: IndexedChunk) -> ChunkTerms:
    columns = indexed.words, common.encode_names(indexed.names), indexed.title
    words, names, title = (tuple(index_terms(text)) if text else () for text in columns)
    return words, names, title


def _chunk_row(chunk: Chunk, length: int) -> tuple[Any, ...]:
    trail, records, marks = common.pack_chunk(chunk)
    lines = (chunk.start_line, chunk.end_line, chunk.overlap, length)
    return (*lines, to_bytes(trail), records, marks, to_bytes(chunk.text))


def _stamp_rows(documents: Iterable[Document]) -> list[tuple[Any, ...]]:
    return [(new.source, to_bytes(new.path), *new.stamp, new.seen_ns) for new in documents]


def _remove(now: Transaction, revision: int, source: SourceName, paths: Sequence[str]) -> None:
    if paths:
        _delete_rows(now, revision, source, paths)
        # Not where a document is replaced: another machine that has seen its own copy must not index that again.
        drop = f"DELETE FROM mdrecall.stamps WHERE {_OWN} AND source=%s AND path = ANY(%s)"
        now.run(drop, source, [to_bytes(path) for path in paths])
        now.run(_RECORD, revision, "gone", [to_bytes(f"{source}\0{path}") for path in paths])
        drop_dead(now)


def _delete_rows(now: Transaction, revision: int, source: SourceName, paths: Sequence[str]) -> None:
    values = {
        "workspace": now.workspace,
        "gen": now.gen,
        "revision": revision,
        "source": source,
        "paths": [to_bytes(path) for path in paths],
        "spaces": list(now.spaces),
    }
    found = now.db.execute(_DELETE, values, binary=True).fetchall()
    for _, count, space in found:
        if space is not None:
            now.add_vectors(space, -count)
    lengths = {number: length for number, length, space in found if space is None}
    if lengths:
        now.count(chunks=-len(lengths), tokens=-sum(lengths.values()))
        remove_chunks(now, lengths)


def _list_parts(now: Transaction, path: str, first: int) -> list[str]:
    """Return the paths of a transcript's parts from a number on."""
    statement = """
        SELECT path FROM mdrecall.documents
        WHERE workspace_id=%s AND gen=%s AND source='sessions' AND path >= %s AND path < %s
    """
    return [to_text(part) for (part,) in now.rows(statement, *map(to_bytes, common.find_parts(path, first)))]


#: A list of as many documents is kept, for questions about a time or a name: about 270 bytes each. An index of 100,000
#: chunks, up to which names are looked through, has as many documents as a rule.
_MOST_LISTED = 60_000
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
        self._contents: Contents = {}
        self._listed: tuple[tuple[int, int], dict[bytes, StoredDocument]] = (-1, -1), {}
        self._of_projects: tuple[tuple[int, int], dict[int, str]] = (-1, -1), {}

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._database.reading(self._gen):
            yield

    def count(self, space: int | None = None) -> int:
        with self._database.reading(self._gen) as now:
            if space is None:
                return now.state.chunks
            return now.spaces[space].vectors if space in now.spaces else 0

    def count_by_source(self) -> tuple[SourceStatus, ...]:
        with self._database.reading(self._gen) as now:
            return tuple(SourceStatus(*row) for row in now.rows(_COUNTS))

    def chunks_of_projects(self) -> Mapping[int, str]:
        with self._database.reading(self._gen) as now:
            if self._of_projects[0] != (key := (now.gen, now.state.revision)):
                self._of_projects = key, {row[0]: unpack_marks(row[1]).project for row in now.rows(_OF_PROJECTS)}
            return self._of_projects[1]

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        with self._database.reading(self._gen) as now:
            found = {row[0]: _read_chunk(row) for row in (now.rows(_CHUNKS, list(ids)) if ids else ())}
        return [found[number] for number in ids if number in found]

    def list_documents(self, days: Sequence[tuple[int, int]] | None = None) -> list[StoredDocument]:
        with self._database.reading(self._gen) as now:
            if days is not None:
                own = now.workspace, now.gen
                each = (row for day in days for row in now.rows(_OF_DAYS, *own, *day, *own, *common.find_times(*day)))
                by_number = {row[0]: _read_document(row) for row in each}
                return [document for document in by_number.values() if is_of_days(document, days)]
            (before, known), key = self._listed, (now.gen, now.state.revision)
            if before != key:
                known = _list_documents(now, *before, known)
        if len(known) <= _MOST_LISTED:
            self._listed = key, known
        return list(known.values())

    def chunks_of(self, chosen: Iterable[int] | SourceName) -> list[int]:
        if isinstance(chosen, str):
            chosen = [each.id for each in self.list_documents() if each.source == chosen]
        with self._database.reading(self._gen) as now:
            return [number for (number,) in now.db.execute(_CHUNKS_OF, (list(chosen), now.workspace, now.gen))]

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        with self._database.reading(self._gen) as now:
            index = PostgresTerms(now, self._contents, terms)
            self._contents = index.contents
            return common.match_terms(index, terms)


def _read_chunk(row: tuple[Any, ...]) -> StoredChunk:
    number, source, path, start, end, text, trail, *others = row
    return common.unpack_chunk((number, source, to_text(path), start, end), to_text(text), to_text(trail), *others)


def _list_documents(
    now: Transaction, gen: int, seen: int, known: Mapping[bytes, StoredDocument]
) -> dict[bytes, StoredDocument]:
    """Return every document by the key that a removal names, from those known at a revision and later changes."""
    removed = find_removed(now, "gone", seen) if gen == now.gen else None
    if removed is None:
        known, seen = {}, -1
    gone = set(removed or ())
    newer = now.rows(_NEWER_DOCUMENTS, now.workspace, now.gen, seen)
    changed = {to_bytes(f"{row[1]}\0") + bytes(row[2]): _read_document(row) for row in newer}
    return {name: document for name, document in known.items() if name not in gone} | changed


def _read_document(row: tuple[Any, ...]) -> StoredDocument:
    number, source, path, mtime_ns, head, fields = row
    shown = head.decode("utf-8", "ignore")[: common.HEAD_CHARS] if head else ""
    return common.unpack_document(number, source, to_text(path), mtime_ns, shown, fields)


#: Vectors are read by as many at once, so that a million of them need not be in memory twice.
_VECTORS_AT_ONCE = 2_048
# No joins: a planner that does not know yet how large the tables have become would read all of them.
_TEXTS = """
    SELECT c.id, (SELECT d.path FROM mdrecall.documents d
        WHERE d.workspace_id = c.workspace_id AND d.gen = c.gen AND d.id = c.document_id), c.trail, c.text
    FROM mdrecall.chunks c WHERE c.workspace_id=%s AND c.gen=%s AND c.id > %s {} ORDER BY c.id LIMIT %s
"""
_WITHOUT_VECTOR = """
    AND (SELECT v.chunk FROM mdrecall.vectors v WHERE v.workspace_id = c.workspace_id AND v.gen = c.gen
        AND v.space_id=%s AND v.chunk = c.id) IS NULL
"""
# A chunk that no longer exists is left out. Of the others, those are counted that had no vector.
_PUT = """
    WITH made AS (
        SELECT each.*, (SELECT v.chunk FROM mdrecall.vectors v WHERE v.workspace_id=%(workspace)s AND v.gen=%(gen)s
            AND v.space_id=%(space)s AND v.chunk = each.id) IS NULL AS is_new
        FROM unnest(%(ids)b::int8[], %(vectors)b::bytea[], %(passages)b::bytea[]) each(id, vector, passages)
        WHERE (SELECT c.id FROM mdrecall.chunks c WHERE c.workspace_id=%(workspace)s AND c.gen=%(gen)s
            AND c.id = each.id) IS NOT NULL),
    stored AS (
        INSERT INTO mdrecall.vectors(workspace_id, gen, space_id, revision, chunk, vector, passages)
        SELECT %(workspace)s, %(gen)s, %(space)s, %(revision)s, id, vector, passages FROM made
        ON CONFLICT (workspace_id, gen, space_id, chunk) DO UPDATE
        SET revision = excluded.revision, vector = excluded.vector, passages = excluded.passages)
    SELECT count(*) FILTER (WHERE is_new) FROM made
"""
_ADD_SPACE = """
    INSERT INTO mdrecall.spaces(workspace_id, gen, id, provider, model, fingerprint, dimensions, stored)
    VALUES(%s, %s, %s, %s, %s, %s, %s, true) ON CONFLICT (workspace_id, gen, id) DO UPDATE SET stored = true
"""
_BLOCK = f"""
    SELECT array_agg(chunk ORDER BY chunk), array_agg(octet_length(vector) ORDER BY chunk),
        string_agg(vector, '' ORDER BY chunk) FROM (
        SELECT chunk, vector FROM mdrecall.vectors
        WHERE {_OWN} AND space_id=%s AND chunk > %s AND revision > %s ORDER BY chunk LIMIT {_VECTORS_AT_ONCE}) next
"""
_SOME = f"SELECT chunk, {{}} FROM mdrecall.vectors WHERE {_OWN} AND space_id=%s AND chunk = ANY(%s)"


class PostgresVectors:
    """The role ``VectorIndex``."""

    def __init__(self, database: Database, gen: int | None) -> None:
        self._database = database
        self._gen = gen
        self._lock = threading.Lock()
        self._engines: dict[tuple[int, int, tuple[str, int]], vectors.MatrixEngine] = {}

    def spaces(self) -> list[StoredSpace]:
        with self._database.reading(self._gen) as now:
            return [_read_space(now, row) for row in sorted(now.spaces.values(), reverse=True)]

    def ensure_space(self, space: Space) -> StoredSpace:
        with self._database.writing(self._gen) as now:
            for row in now.spaces.values():
                if (row.fingerprint, row.dimensions) == space.key:
                    return _read_space(now, row)
            return _read_space(now, now.spaces[self._add_space(now, space)])

    def _add_space(self, now: Transaction, space: Space) -> int:
        """Add a space with the number that it has in another generation or had before, or else with a new one."""
        known = "SELECT id FROM mdrecall.spaces WHERE workspace_id=%s AND fingerprint=%s AND dimensions=%s LIMIT 1"
        row = now.db.execute(known, (now.workspace, *space.key)).fetchone()
        if row is None:
            new = "UPDATE mdrecall.workspaces SET next_space = next_space + 1 WHERE id=%s RETURNING next_space - 1"
            row = now.db.execute(new, (now.workspace,)).fetchone()
        number = int(row[0]) if row else 1
        now.run(_ADD_SPACE, number, *space)
        now.spaces[number] = SpaceRow(number, *space, filled_at=-1, ever_filled=False, filled_to=0, vectors=0)
        return number

    def pending(self, space: int | None, after: int, limit: int) -> list[PendingChunk]:
        with self._database.reading(self._gen) as now:
            if space is None:
                found = now.rows(_TEXTS.format(""), after, limit)
            else:
                after = max(after, _require_stored(now, space).filled_to)
                found = now.rows(_TEXTS.format(_WITHOUT_VECTOR), after, space, limit)
        return [
            common.make_pending(number, to_text(path), to_text(trail), to_text(text))
            for number, path, trail, text in found
        ]

    def put(self, space: int, items: Sequence[tuple[int, Embedding]]) -> None:
        with self._database.writing(self._gen) as now:
            row = _require_stored(now, space)
            size = row.dimensions
            values = {
                "workspace": now.workspace,
                "gen": now.gen,
                "space": space,
                "revision": now.start_revision(),
                "ids": [number for number, _ in items],
                "vectors": vectors.round_vectors([made for _, made in items]),
                "passages": vectors.pack_passages([made.passages if made.vector else b"" for _, made in items], size),
            }
            ((new,),) = now.db.execute(_PUT, values, binary=True).fetchall()
            now.add_vectors(space, new)
            analyze_new(now.db, len(items))

    def mark_filled(self, space: int, texts: int, *, keep: str = "") -> None:
        with self._database.writing(self._gen) as now:
            row = _require_stored(now, space)
            filled_to = now.state.next_chunk - 1 if texts == now.state.texts else row.filled_to
            now.spaces[space] = row._replace(filled_at=max(row.filled_at, texts), filled_to=filled_to, ever_filled=True)
            for other in [each for each in now.spaces.values() if each.id != space and each.provider != keep]:
                now.run(f"DELETE FROM mdrecall.vectors WHERE {_OWN} AND space_id=%s", other.id)
                now.run(f"UPDATE mdrecall.spaces SET {NOT_STORED} WHERE {_OWN} AND id=%s", other.id)
                del now.spaces[other.id]

    def record_failure(self, fingerprint: str, error: str) -> None:
        with self._database.writing(self._gen) as now:
            own = (now.workspace, fingerprint)
            now.db.execute("DELETE FROM mdrecall.failures WHERE workspace_id=%s AND fingerprint=%s", own)
            if error:
                now.db.execute("INSERT INTO mdrecall.failures VALUES(%s, %s, %s)", (*own, error))

    def last_failure(self, fingerprint: str) -> str:
        statement = "SELECT error FROM mdrecall.failures WHERE workspace_id=%s AND fingerprint=%s"
        with self._database.reading(self._gen) as now:
            row = now.db.execute(statement, (now.workspace, fingerprint)).fetchone()
        return str(row[0]) if row else ""

    def engine(self, space: StoredSpace) -> tuple[str, str]:
        """Return the name of the engine that searches a space, which is always there."""
        return vectors.MatrixEngine.name, ""

    def nearest(self, space: StoredSpace, query: bytes, limit: int) -> list[tuple[int, float]]:
        with self._searching(space) as (engine, rows):
            return engine.nearest(rows, query, limit)

    def mean_cosine(self, space: StoredSpace, query: bytes) -> tuple[float, int]:
        with self._searching(space) as (engine, rows):
            return engine.mean_cosine(rows, query), rows.count()

    def cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, float]:
        with self._searching(space) as (engine, rows):
            return engine.cosines(rows, query, ids)

    def vector_cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, Sequence[float]]:
        with self._searching(space) as (engine, rows):
            return engine.vector_cosines(rows, query, ids)

    def vectors_of(self, space: StoredSpace, ids: Sequence[int]) -> Mapping[int, bytes]:
        with self._database.reading(self._gen) as now:
            return dict(now.rows(_SOME.format("vector"), space.id, list(ids)))

    def passage_cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, Sequence[float]]:
        with self._searching(space) as (engine, rows):
            return engine.passage_cosines(rows, query, ids)

    @contextmanager
    def _searching(self, space: StoredSpace) -> Iterator[tuple[vectors.MatrixEngine, "_SpaceRows"]]:
        with self._database.reading(self._gen) as now:
            if space.id not in now.spaces:
                raise common.explain_replaced(space.space.model)
            yield self._engine_of(now.gen, space), _SpaceRows(now, space)

    def _engine_of(self, gen: int, space: StoredSpace) -> vectors.MatrixEngine:
        with self._lock:
            key = gen, space.id, space.space.key
            if key not in self._engines:
                # That of another generation is of no use any more.
                self._engines = {known: engine for known, engine in self._engines.items() if known[0] == gen}
                self._engines[key] = vectors.MatrixEngine(space.space.dimensions)
            return self._engines[key]


class _SpaceRows:
    """The rows of one embedding space, as a transaction sees them: ``VectorChanges``."""

    def __init__(self, now: Transaction, space: StoredSpace) -> None:
        self._now = now
        self._number = space.id
        self._dimensions = space.space.dimensions

    def count(self) -> int:
        return self._now.spaces[self._number].vectors

    def revision(self) -> int:
        return self._now.state.revision

    def changes_since(self, seen: int) -> vectors.ChangedVectors | None:
        last = self.revision()
        if seen > last:
            # Another thread has read a later state than this transaction sees.
            return None
        removed = find_removed(self._now, "removed", seen)
        if removed is None:
            return last, None, self._read_blocks(-1)
        gone = [int.from_bytes(what, "big") for what in removed]
        return last, gone, self._read_blocks(seen)

    def _read_blocks(self, after: int) -> Iterator[vectors.VectorBlock]:
        last, count = 0, _VECTORS_AT_ONCE
        while count == _VECTORS_AT_ONCE:
            ((numbers, sizes, data),) = self._now.rows(_BLOCK, self._number, last, after)
            count = len(numbers or ())
            if numbers:
                offsets = numpy.array(numbers, numpy.int64) - numbers[0]
                offsets = numpy.repeat(offsets, numpy.array(sizes) // self._dimensions)
                yield numbers[0], offsets.astype("<u4").tobytes(), data
                last = numbers[-1]

    def passages_of(self, ids: Iterable[int]) -> dict[int, bytes]:
        found = self._now.rows(_SOME.format("passages"), self._number, wanted) if (wanted := list(ids)) else []
        return {number: packed for number, packed in found if packed}


def _read_space(now: Transaction, row: SpaceRow) -> StoredSpace:
    texts = now.state.texts
    has_any = row.ever_filled or row.vectors > 0
    return StoredSpace(row.id, Space(*row[1:5]), row.filled_at >= texts, row.ever_filled, texts, has_any)


def _require_stored(now: Transaction, space: int) -> SpaceRow:
    if space not in now.spaces:
        raise common.explain_dropped()
    return now.spaces[space]
