"""Documents, transcripts and chunks in the database: written whole, and read by number, by path and by terms."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from mdrecall.errors import StoreUnavailable
from mdrecall.extras.postgres.connect import Database, Transaction, with_retries
from mdrecall.extras.postgres.postings import ChunkTerms
from mdrecall.extras.postgres.schema import analyze_new, to_bytes, to_text
from mdrecall.extras.postgres.terms import BlockCache, PostgresTerms, add_block, remove_chunks, store_removals
from mdrecall.interfaces import Indexed
from mdrecall.store.common import (
    HEAD_CHARS,
    ChangedStamps,
    StampCache,
    encode_names,
    find_times,
    match_terms,
    pack_chunk,
    pack_document,
    unpack_chunk,
    unpack_document,
)
from mdrecall.text.annotations import unpack_marks
from mdrecall.text.days import is_of_days
from mdrecall.text.index_terms import index_terms
from mdrecall.types import (
    Chunk,
    Document,
    IndexedChunk,
    Match,
    SourceCount,
    SourceName,
    StoredChunk,
    StoredDocument,
    Term,
    Transcript,
)
from mdrecall.types.documents import PART_MARK, file_path, part_path

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
# The row of a revision has nothing in ``what``.
_CHANGES = f"SELECT revision, what FROM mdrecall.changes WHERE {_OWN} AND revision >= %s AND kind IN ('revision', %s)"
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

    def __init__(self, database: Database, gen: int | None, place: str, stamps: StampCache) -> None:
        """``place`` is the machine and folder that stamps are true for."""
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
            message = f"{self._database.shown} is the index of another folder of this machine, {folder}."
            raise StoreUnavailable(message, hint="Give this memory a name of its own: mdrecall.store.workspace.")

    def _refresh_stamps(self, now: Transaction, documents: Sequence[Document]) -> None:
        revision = now.start_revision()
        rows = [(new.source, to_bytes(new.path), bytes.fromhex(new.hash), new.stamp[1]) for new in documents]
        values = (revision, *_columns(rows, 4), now.workspace, now.gen)
        still = {(source, to_text(path)) for source, path in now.db.execute(_REFRESH, values, binary=True)}
        same = [new for new in documents if (new.source, new.path) in still]
        now.run(_PUT_STAMPS, self._place, revision, *_columns(_stamp_rows(same), 7))

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
    found = now.rows(_CHANGES, seen, kind) if seen >= 0 else []
    if not any(revision == seen for revision, _ in found):
        return None
    return [what for revision, what in found if revision > seen and what]


def _read_stamps(now: Transaction, place: str, source: SourceName, settle_ns: int, seen: int) -> ChangedStamps:
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
        fields, day, own = pack_document(document, chunks)
        digest = bytes.fromhex(document.hash)
        rows.append((number, document.source, to_bytes(document.path), digest, document.stamp[1], fields, day))
        chunks_of.append(own)
    stamps = place, revision, *_columns(_stamp_rows(documents), 7)
    now.run(_PUT_DOCUMENTS, *stamps, now.workspace, now.gen, index_format, revision, *_columns(rows, 7))
    collected: list[tuple[int, int, IndexedChunk]] = []
    for number, chunks in enumerate(chunks_of):
        for ordinal, indexed in enumerate(chunks):
            collected.append((first + number, ordinal, indexed))
            if len(collected) >= _CHUNKS_AT_ONCE:
                _put_chunks(now, collected)
                collected = []
    _put_chunks(now, collected)
    store_removals(now)
    is_same = now.state.index_format in ("", index_format)
    now.state = now.state._replace(
        texts=now.state.texts + 1, index_format=index_format if is_same else "?", masks=known
    )


def _put_chunks(now: Transaction, collected: Sequence[tuple[int, int, IndexedChunk]]) -> None:
    if not collected:
        return
    first = now.reserve("next_chunk", len(collected))
    terms = [_read_terms(indexed) for _, _, indexed in collected]
    rows = [
        (first + number, document_id, ordinal, *_chunk_row(indexed.chunk, terms[number].length))
        for number, (document_id, ordinal, indexed) in enumerate(collected)
    ]
    now.run(_PUT_CHUNKS, *_columns(rows, 11))
    add_block(now, range(first, first + len(collected)), terms)
    analyze_new(now.db, len(collected))
    now.count(chunks=len(collected), tokens=sum(each.length for each in terms))


def _read_terms(indexed: IndexedChunk) -> ChunkTerms:
    columns = indexed.words, encode_names(indexed.names), indexed.title
    return ChunkTerms(*(tuple(index_terms(text)) if text else () for text in columns))


def _chunk_row(chunk: Chunk, length: int) -> tuple[Any, ...]:
    trail, records, marks = pack_chunk(chunk)
    lines = (chunk.start_line, chunk.end_line, chunk.overlap, length)
    return (*lines, to_bytes(trail), records, marks, to_bytes(chunk.text))


def _stamp_rows(documents: Iterable[Document]) -> list[tuple[Any, ...]]:
    return [(new.source, to_bytes(new.path), *new.stamp, new.seen_ns) for new in documents]


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    """Return rows as as many columns."""
    return list(map(list, zip(*rows, strict=True))) or [[] for _ in range(count)]


def _remove(now: Transaction, revision: int, source: SourceName, paths: Sequence[str]) -> None:
    if paths:
        _delete_rows(now, revision, source, paths)
        # Not where a document is replaced: another machine that has seen its own copy must not index that again.
        drop = f"DELETE FROM mdrecall.stamps WHERE {_OWN} AND source=%s AND path = ANY(%s)"
        now.run(drop, source, [to_bytes(path) for path in paths])
        now.run(_RECORD, revision, "gone", [to_bytes(f"{source}\0{path}") for path in paths])
        store_removals(now)


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
    between = (to_bytes(part_path(path, first)), to_bytes(f"{path}{PART_MARK}~"))
    return [to_text(part) for (part,) in now.rows(statement, *between)]


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
        self._listed: tuple[tuple[int, int], dict[bytes, StoredDocument]] = (-1, -1), {}
        self._of_projects: tuple[tuple[int, int], dict[int, str]] | None = None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._database.reading(self._gen):
            yield

    def count(self, space: int | None = None) -> int:
        with self._database.reading(self._gen) as now:
            if space is None:
                return now.state.chunks
            return now.spaces[space].vectors if space in now.spaces else 0

    def count_by_source(self) -> tuple[SourceCount, ...]:
        with self._database.reading(self._gen) as now:
            return tuple(SourceCount(*row) for row in now.rows(_COUNTS))

    def chunks_of_projects(self) -> Mapping[int, str]:
        with self._database.reading(self._gen) as now:
            key = now.gen, now.state.revision
            if self._of_projects is None or self._of_projects[0] != key:
                self._of_projects = key, {row[0]: unpack_marks(row[1]).project for row in now.rows(_OF_PROJECTS)}
            return self._of_projects[1]

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        if not ids:
            return []
        with self._database.reading(self._gen) as now:
            found = {row[0]: _read_chunk(row) for row in now.rows(_CHUNKS, list(ids))}
        return [found[number] for number in ids if number in found]

    def list_documents(self, days: Sequence[tuple[int, int]] | None = None) -> list[StoredDocument]:
        with self._database.reading(self._gen) as now:
            if days is not None:
                own = now.workspace, now.gen
                each = (row for day in days for row in now.rows(_OF_DAYS, *own, *day, *own, *find_times(*day)))
                by_number = {row[0]: _read_document(row) for row in each}
                return [document for document in by_number.values() if is_of_days(document, days)]
            (before, known), key = self._listed, (now.gen, now.state.revision)
            if before != key:
                known = _list_documents(now, *before, known)
        if len(known) <= _MOST_LISTED:
            self._listed = key, known
        return list(known.values())

    def chunks_of(self, documents: Iterable[int]) -> list[int]:
        with self._database.reading(self._gen) as now:
            found = now.db.execute(_CHUNKS_OF, (list(documents), now.workspace, now.gen)).fetchall()
        return [number for (number,) in found]

    def sources_of(self, ids: Sequence[int]) -> Mapping[int, SourceName]:
        with self._database.reading(self._gen) as now:
            return dict(now.rows(_SOURCES, list(ids))) if ids else {}

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        with self._database.reading(self._gen) as now:
            index = PostgresTerms(now, self._blocks)
            index.prepare(terms)
            return match_terms(index, terms)


def _read_chunk(row: tuple[Any, ...]) -> StoredChunk:
    number, source, path, start, end, text, trail, *others = row
    return unpack_chunk((number, source, to_text(path), start, end), to_text(text), to_text(trail), *others)


def _list_documents(
    now: Transaction, gen: int, seen: int, known: Mapping[bytes, StoredDocument]
) -> dict[bytes, StoredDocument]:
    """Return every document by the name that removals have, from those known at a revision and what changed since."""
    removed = find_removed(now, "gone", seen) if gen == now.gen else None
    if removed is None:
        known, seen = {}, -1
    gone = set(removed or ())
    newer = now.rows(_NEWER_DOCUMENTS, now.workspace, now.gen, seen)
    changed = {to_bytes(f"{row[1]}\0") + bytes(row[2]): _read_document(row) for row in newer}
    return {name: document for name, document in known.items() if name not in gone} | changed


def _read_document(row: tuple[Any, ...]) -> StoredDocument:
    number, source, path, mtime_ns, head, fields = row
    shown = head.decode("utf-8", "ignore")[:HEAD_CHARS] if head else ""
    return unpack_document(number, source, to_text(path), mtime_ns, shown, fields)
