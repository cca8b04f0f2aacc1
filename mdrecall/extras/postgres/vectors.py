"""Vectors in the database: one row for each chunk and space. A process that lives searches a copy in its memory.

A vector is stored as whole numbers from -127 to 127, as in the SQLite store, so that both have the same cosines.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from mdrecall.extras.postgres.connect import Database, SpaceRow, Transaction
from mdrecall.extras.postgres.documents import find_removed
from mdrecall.extras.postgres.schema import MANY_ROWS, NOT_STORED, analyze_new, to_text
from mdrecall.store.common import explain_dropped, explain_replaced, split_trail
from mdrecall.store.vectors import (
    PLACES,
    ChangedVectors,
    MatrixEngine,
    VectorBlock,
    correct_passage_cosines,
    pack_passages,
    to_int8,
    unpack_passages,
)
from mdrecall.types import Embedding, PendingChunk, Space, StoredSpace
from mdrecall.types.documents import title_path

#: Vectors are read by as many at once, so that a million of them need not be in memory twice.
_VECTORS_AT_ONCE = 2_048
_OWN = "workspace_id=%s AND gen=%s"
#: What each byte says as a signed number.
_SIGNED = [str(number if number < 128 else number - 256) for number in range(256)]
# No joins: a planner that does not know yet how large the tables have become would read all of them.
_TEXTS = """
    SELECT c.id, (SELECT d.path FROM mdrecall.documents d
        WHERE d.workspace_id = c.workspace_id AND d.gen = c.gen AND d.id = c.document_id), c.trail, c.text
    FROM mdrecall.chunks c WHERE c.workspace_id=%s AND c.gen=%s AND c.id > %s
"""
_IN_ORDER = "ORDER BY c.id LIMIT %s"
_VECTOR_OF = """
    (SELECT v.chunk FROM mdrecall.vectors v WHERE v.workspace_id = c.workspace_id AND v.gen = c.gen
        AND v.space_id=%s AND v.chunk = c.id)
"""
_PENDING = f"{_TEXTS} AND {_VECTOR_OF} IS NULL {_IN_ORDER}"
# A chunk that no longer exists is left out. Of the others, those are counted that had no vector.
_PUT = """
    WITH made AS (
        SELECT each.*, (SELECT v.chunk FROM mdrecall.vectors v WHERE v.workspace_id=%(workspace)s AND v.gen=%(gen)s
            AND v.space_id=%(space)s AND v.chunk = each.id) IS NULL AS is_new
        FROM unnest(%(ids)b::int8[], %(vectors)b::text[], %(passages)b::bytea[]) each(id, vector, passages)
        WHERE (SELECT c.id FROM mdrecall.chunks c WHERE c.workspace_id=%(workspace)s AND c.gen=%(gen)s
            AND c.id = each.id) IS NOT NULL),
    stored AS (
        INSERT INTO mdrecall.vectors(workspace_id, gen, space_id, revision, chunk, vector, passages)
        SELECT %(workspace)s, %(gen)s, %(space)s, %(revision)s, id, vector::vector, passages FROM made
        ON CONFLICT (workspace_id, gen, space_id, chunk) DO UPDATE
        SET revision = excluded.revision, vector = excluded.vector, passages = excluded.passages)
    SELECT count(*) FILTER (WHERE is_new) FROM made
"""
_ADD_SPACE = """
    INSERT INTO mdrecall.spaces(workspace_id, gen, id, provider, model, fingerprint, dimensions, stored)
    VALUES(%s, %s, %s, %s, %s, %s, %s, true) ON CONFLICT (workspace_id, gen, id) DO UPDATE SET stored = true
"""
_BLOCK = f"""
    SELECT array_agg(chunk ORDER BY chunk), string_agg(vector_send(vector), '' ORDER BY chunk) FROM (
        SELECT chunk, vector FROM mdrecall.vectors
        WHERE {_OWN} AND space_id=%s AND chunk > %s AND revision > %s ORDER BY chunk LIMIT {_VECTORS_AT_ONCE}) next
"""
_CHOSEN = f"""
    SELECT array_agg(chunk ORDER BY chunk), string_agg(vector_send(vector), '' ORDER BY chunk)
    FROM mdrecall.vectors WHERE {_OWN} AND space_id=%s AND chunk = ANY(%s)
"""
# The cosine of whole numbers, rounded as everywhere; that of a vector without length is not a number.
_COSINE = f"round((1 - (vector <=> %s::vector))::numeric, {PLACES})::float8"
_NEAREST = f"""
    SELECT chunk, CASE WHEN {_COSINE} = 'NaN' THEN 0 ELSE {_COSINE} END AS cosine FROM mdrecall.vectors
    WHERE {_OWN} AND space_id=%s ORDER BY cosine DESC, chunk LIMIT %s
"""


class PostgresVectors:
    """The role ``VectorIndex``."""

    def __init__(self, database: Database, gen: int | None, *, in_database: bool) -> None:
        """``in_database`` searches where the vectors are: for a process that asks one question."""
        self._database = database
        self._gen = gen
        self._in_database = in_database
        self._lock = threading.Lock()
        self._engines: dict[tuple[int, int, tuple[str, int]], MatrixEngine] = {}

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
                found = now.rows(f"{_TEXTS} {_IN_ORDER}", after, limit)
            else:
                after = max(after, _require_stored(now, space).filled_to)
                found = now.rows(_PENDING, after, space, limit)
        return [_read_text(row) for row in found]

    def put(self, space: int, items: Sequence[tuple[int, Embedding]]) -> None:
        with self._database.writing(self._gen) as now:
            _require_stored(now, space)
            rounded = to_int8([made.vector for _, made in items])
            values = {
                "workspace": now.workspace,
                "gen": now.gen,
                "space": space,
                "revision": now.start_revision(),
                "ids": [number for number, _ in items],
                "vectors": [_send_vector(vector) for vector in rounded],
                "passages": pack_passages([made.passages for _, made in items], len(rounded[0]) if rounded else 1),
            }
            ((new,),) = now.db.execute(_PUT, values, binary=True).fetchall()
            now.add_vectors(space, new)
            if len(items) >= MANY_ROWS:
                analyze_new(now.db, "vectors")

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
        """Return the name of the engine that searches a space; both are always there."""
        return "pgvector" if self._in_database else MatrixEngine.name, ""

    def nearest(self, space: StoredSpace, query: bytes, limit: int) -> list[tuple[int, float]]:
        with self._searching(space) as (now, rows, engine):
            if engine is not None:
                return engine.nearest(rows, query, limit)
            asked = _show_vector(query)
            values = (asked, asked, now.workspace, now.gen, space.id, limit)
            return [(number, cosine) for number, cosine in now.db.execute(_NEAREST, values, binary=True)]

    def mean_cosine(self, space: StoredSpace, query: bytes) -> tuple[float, int]:
        with self._searching(space) as (now, rows, engine):
            if engine is not None:
                return engine.mean_cosine(rows, query), rows.count()
            cosine = "CASE WHEN vector <=> %s::vector = 'NaN' THEN 0 ELSE 1 - (vector <=> %s::vector) END"
            mean = f"SELECT avg({cosine}) FROM mdrecall.vectors WHERE {_OWN} AND space_id=%s"
            asked = _show_vector(query)
            row = now.db.execute(mean, (asked, asked, now.workspace, now.gen, space.id)).fetchone()
        return float(row[0]) if row and row[0] is not None else 0.0, rows.count()

    def cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, float]:
        with self._searching(space) as (now, rows, engine):
            if engine is not None:
                return engine.cosines(rows, query, ids)
            wanted = f"SELECT chunk, {_COSINE} FROM mdrecall.vectors WHERE {_OWN} AND space_id=%s AND chunk = ANY(%s)"
            values = (_show_vector(query), now.workspace, now.gen, space.id, list(ids))
            found: dict[int, float] = dict(now.db.execute(wanted, values, binary=True).fetchall())
        return {number: _or_zero(found[number]) for number in ids if number in found}

    def vectors_of(self, space: StoredSpace, ids: Sequence[int]) -> Mapping[int, bytes]:
        with self._database.reading(self._gen) as now:
            ((numbers, data),) = now.rows(_CHOSEN, space.id, list(ids))
        if not numbers:
            return {}
        size = space.space.dimensions
        _, _, vectors = _read_vectors(numbers, data, size)
        return {number: vectors[size * at : size * (at + 1)] for at, number in enumerate(numbers)}

    def passage_cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, Sequence[float]]:
        with self._searching(space) as (_, rows, engine):
            made = engine or MatrixEngine(space.space.dimensions)
            found = made.passage_cosines(rows, query, ids)
        return {number: correct_passage_cosines(cosines) for number, cosines in found.items()}

    @contextmanager
    def _searching(self, space: StoredSpace) -> Iterator[tuple[Transaction, "_SpaceRows", MatrixEngine | None]]:
        with self._database.reading(self._gen) as now:
            rows = _SpaceRows(now, space.id, space.space.dimensions)
            if space.id not in now.spaces:
                raise explain_replaced(space.space.model)
            yield now, rows, None if self._in_database else self._engine_of(now.gen, space)

    def _engine_of(self, gen: int, space: StoredSpace) -> MatrixEngine:
        with self._lock:
            key = gen, space.id, space.space.key
            if key not in self._engines:
                # That of another generation is of no use any more.
                self._engines = {known: engine for known, engine in self._engines.items() if known[0] == gen}
                self._engines[key] = MatrixEngine(space.space.dimensions)
            return self._engines[key]


class _SpaceRows:
    """The rows of one embedding space, as a transaction sees them: ``VectorChanges``."""

    def __init__(self, now: Transaction, number: int, dimensions: int = 0) -> None:
        self._now = now
        self._number = number
        self._dimensions = dimensions

    def count(self) -> int:
        return self._now.spaces[self._number].vectors if self._number in self._now.spaces else 0

    def revision(self) -> int:
        return self._now.current_revision()

    def changes_since(self, seen: int) -> ChangedVectors | None:
        last = self.revision()
        if seen > last:
            # Another thread has read a later state than this transaction sees.
            return None
        removed = find_removed(self._now, "removed", seen)
        if removed is None:
            return last, None, self._read_blocks(-1)
        gone = [int.from_bytes(what, "big") for what in removed]
        return last, gone, self._read_blocks(seen)

    def _read_blocks(self, after: int) -> Iterator[VectorBlock]:
        last, count = 0, _VECTORS_AT_ONCE
        while count == _VECTORS_AT_ONCE:
            ((numbers, data),) = self._now.rows(_BLOCK, self._number, last, after)
            count = len(numbers or ())
            if numbers:
                yield _read_vectors(numbers, data, self._dimensions)
                last = numbers[-1]

    def passages_of(self, ids: Iterable[int]) -> dict[int, bytes]:
        wanted = list(ids)
        statement = f"SELECT chunk, passages FROM mdrecall.vectors WHERE {_OWN} AND space_id=%s AND chunk = ANY(%s)"
        found = dict(self._now.rows(statement, self._number, wanted)) if wanted else {}
        return {number: unpack_passages(found[number], self._dimensions) for number in wanted if found.get(number)}


def _read_vectors(numbers: list[int], data: bytes, dimensions: int) -> VectorBlock:
    """Return vectors as the database sends them: two short numbers, then the dimensions in network order."""
    rows = numpy.frombuffer(data, numpy.uint8).reshape(len(numbers), 4 + 4 * dimensions)[:, 4:]
    vectors = numpy.ascontiguousarray(rows).view(">f4").astype(numpy.int8)
    offsets = (numpy.array(numbers, numpy.int64) - numbers[0]).astype("<u4")
    return numbers[0], offsets.tobytes(), vectors.tobytes()


def _send_vector(vector: bytes) -> str:
    """Return a vector of signed bytes as pgvector reads it."""
    return "[" + ",".join(map(_SIGNED.__getitem__, vector)) + "]"


def _show_vector(query: bytes) -> str:
    return _send_vector(to_int8([query])[0])


def _or_zero(cosine: float) -> float:
    return cosine if cosine == cosine else 0.0


def _read_text(row: tuple[Any, ...]) -> PendingChunk:
    number, path, trail, text = row
    return PendingChunk(number, title_path(to_text(path)), split_trail(to_text(trail)), to_text(text))


def _read_space(now: Transaction, row: SpaceRow) -> StoredSpace:
    texts = now.state.texts
    has_any = row.ever_filled or row.vectors > 0
    return StoredSpace(row.id, Space(*row[1:5]), row.filled_at >= texts, row.ever_filled, texts, has_any)


def _require_stored(now: Transaction, space: int) -> SpaceRow:
    if space not in now.spaces:
        raise explain_dropped()
    return now.spaces[space]
