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
from mdrecall.extras.postgres.schema import NOT_STORED, analyze_new, to_text
from mdrecall.store.common import explain_dropped, explain_replaced, split_trail
from mdrecall.store.vectors import (
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
    SELECT array_agg(chunk ORDER BY chunk), string_agg(vector, '' ORDER BY chunk) FROM (
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
                "vectors": rounded,
                "passages": pack_passages([made.passages for _, made in items], len(rounded[0]) if rounded else 1),
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
        return MatrixEngine.name, ""

    def nearest(self, space: StoredSpace, query: bytes, limit: int) -> list[tuple[int, float]]:
        with self._searching(space) as (engine, rows):
            return engine.nearest(rows, query, limit)

    def mean_cosine(self, space: StoredSpace, query: bytes) -> tuple[float, int]:
        with self._searching(space) as (engine, rows):
            return engine.mean_cosine(rows, query), rows.count()

    def cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, float]:
        with self._searching(space) as (engine, rows):
            return engine.cosines(rows, query, ids)

    def vectors_of(self, space: StoredSpace, ids: Sequence[int]) -> Mapping[int, bytes]:
        with self._database.reading(self._gen) as now:
            return dict(now.rows(_SOME.format("vector"), space.id, list(ids)))

    def passage_cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, Sequence[float]]:
        with self._searching(space) as (engine, rows):
            found = engine.passage_cosines(rows, query, ids)
        return {number: correct_passage_cosines(cosines) for number, cosines in found.items()}

    @contextmanager
    def _searching(self, space: StoredSpace) -> Iterator[tuple[MatrixEngine, "_SpaceRows"]]:
        with self._database.reading(self._gen) as now:
            if space.id not in now.spaces:
                raise explain_replaced(space.space.model)
            yield self._engine_of(now.gen, space), _SpaceRows(now, space)

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

    def __init__(self, now: Transaction, space: StoredSpace) -> None:
        self._now = now
        self._number = space.id
        self._dimensions = space.space.dimensions

    def count(self) -> int:
        return self._now.spaces[self._number].vectors

    def revision(self) -> int:
        return self._now.state.revision

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
                offsets = numpy.array(numbers, numpy.int64) - numbers[0]
                yield numbers[0], offsets.astype("<u4").tobytes(), data
                last = numbers[-1]

    def passages_of(self, ids: Iterable[int]) -> dict[int, bytes]:
        wanted = list(ids)
        found = dict(self._now.rows(_SOME.format("passages"), self._number, wanted)) if wanted else {}
        return {number: unpack_passages(found[number], self._dimensions) for number in wanted if found.get(number)}


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
