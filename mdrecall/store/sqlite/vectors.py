"""Vectors in the index: one table for each embedding space, so that an old space serves while a new one is filled.

A chunk's vector is stored once, as signed bytes, in blocks: one row holds as many as fill a page, so that a million are
read in a moment. A chunk may have several, one for each passage. The ranges of chunk numbers that two blocks cover
never overlap: the block of a chunk is the last that begins at or before its number. Within a block the chunks are in
the order of their numbers. Where a chunk has a vector as a whole, those of its passages are stored apart, four numbers
in a byte, because they are read only for the few chunks that are ranked closely. Their tables are called windows, as in
older indexes. Every row has a checksum.
"""

import struct
import threading
import weakref
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from typing import TypeAlias, TypeVar

import apsw

from mdrecall.errors import StoreUnavailable
from mdrecall.store import vectors as shared
from mdrecall.store.common import explain_dropped, explain_replaced, make_pending
from mdrecall.store.sqlite import tables as sql
from mdrecall.store.sqlite.file import IndexFile
from mdrecall.types.documents import Embedding, PendingChunk, Space, StoredSpace

#: SQLite keeps a row on its page if it leaves 35 bytes of it; the other columns and lengths take fewer than 45.
_BLOCK_BYTES = sql.PAGE_SIZE - 80
_OFFSET_BYTES = 4


def count_vectors(db: apsw.Connection, space: int) -> int:
    """Return the number of chunks that have a vector in a space that is stored."""
    return sql.single(db, f"SELECT coalesce(sum(size), 0) FROM vectors_{space}")


def read_blocks(db: apsw.Connection, space: int, where: str = "TRUE", *bindings: str) -> Iterator[shared.VectorBlock]:
    """Yield blocks in the order of their chunks; raise if one is damaged."""
    statement = f"SELECT checksum, first, offsets, vectors FROM vectors_{space} WHERE {where} ORDER BY first"
    for checksum, first, offsets, vectors in sql.rows(db, statement, bindings):
        check_row(checksum, first, offsets, vectors)
        yield first, offsets, vectors


def checksum_row(number: int, *held: bytes) -> int:
    """Return the checksum of a row that has a number and holds some bytes."""
    return zlib.crc32(b"".join(held), number & 0xFFFF_FFFF)


def check_row(checksum: int, number: int, *held: bytes) -> None:
    """Raise if a row is damaged."""
    if checksum_row(number, *held) != checksum:
        raise apsw.CorruptError("a vector is not what its checksum says")


def check_contents(db: apsw.Connection) -> None:
    """Raise if a text of the index or a vector of any space is damaged."""
    for (text,) in sql.rows(db, "SELECT text FROM texts"):
        sql.unpack_text(text)
    for (space,) in list(sql.rows(db, "SELECT id FROM spaces WHERE stored")):
        for _ in read_blocks(db, space):
            pass
        for row in sql.rows(db, f"SELECT checksum, chunk_id, vectors FROM windows_{space}"):
            check_row(*row)


def read_offsets(first: int, offsets: bytes) -> list[int]:
    """Return the numbers of chunks from their offsets to the first."""
    return [first + offset for offset in struct.unpack(f"<{len(offsets) // _OFFSET_BYTES}I", offsets)]


def stored_between(db: apsw.Connection, space: int, first: int, last: int) -> set[int]:
    """Return the chunks of a range of numbers that have a vector, and perhaps some outside of it."""
    statement = f"SELECT first, offsets FROM vectors_{space} WHERE last >= ? AND first <= ?"
    # The first block may begin before the range, so it is looked up by its number.
    start = sql.single(db, f"SELECT coalesce(max(first), 0) FROM vectors_{space} WHERE first <= ?", (first,))
    found = sql.rows(db, f"{statement} AND first >= ?", (first, last, start))
    return {number for begin, offsets in found for number in read_offsets(begin, offsets)}


def find_vectors(db: apsw.Connection, space: int, ids: Iterable[int]) -> dict[int, bytes]:
    """Return the vectors of chunks, several of one end to end. A chunk without one is left out."""
    wanted = {*ids}
    blocks = f"SELECT (SELECT max(first) FROM vectors_{space} WHERE first <= value) FROM json_each(?)"
    found = read_blocks(db, space, f"first IN ({blocks})", str(list(wanted)))
    return {number: held for block in found for number, held in _split_block(*block).items() if number in wanted}


def put_vectors(db: apsw.Connection, space: int, revision: int, vectors: Mapping[int, bytes], size: int) -> None:
    """Add the vectors of chunks, or replace them; each is ``size`` bytes long."""
    most = max(1, _BLOCK_BYTES // (size + _OFFSET_BYTES))
    for first, some in _group_by_block(db, space, sorted(vectors)):
        given = {number: vectors[number] for number in some}
        if first is None:
            first = _find_open_block(db, space, some[0], most)
        merged = given if first is None else _read_block(db, space, first) | given
        if first is not None:
            db.execute(f"DELETE FROM vectors_{space} WHERE first=?", (first,))
        _insert_blocks(db, space, revision, merged, size, most)


def remove_vectors(db: apsw.Connection, space: int, ids: Iterable[int]) -> None:
    """Remove the vectors of chunks; do nothing for a chunk without one."""
    for first, some in _group_by_block(db, space, sorted(ids)):
        if first is None:
            continue
        left = _read_block(db, space, first)
        about = f"revision, length(vectors) / (length(offsets) / {_OFFSET_BYTES}) FROM vectors_{space}"
        ((revision, size),) = sql.rows(db, f"SELECT {about} WHERE first=?", (first,))
        for number in some:
            left.pop(number, None)
        db.execute(f"DELETE FROM vectors_{space} WHERE first=?", (first,))
        _insert_blocks(db, space, revision, left, size, _BLOCK_BYTES)


def _group_by_block(db: apsw.Connection, space: int, ids: Sequence[int]) -> Iterator[tuple[int | None, list[int]]]:
    """Yield sorted numbers in groups, each with the block whose range they are in; None if they lie between two."""
    at = 0
    while at < len(ids):
        number = ids[at]
        before = f"SELECT first, last FROM vectors_{space} WHERE first <= ? ORDER BY first DESC LIMIT 1"
        first, last = next(iter(sql.rows(db, before, (number,))), (0, number - 1))
        if number <= last:
            end = bisect_right(ids, last)
            yield first, list(ids[at:end])
        else:
            after = f"SELECT first FROM vectors_{space} WHERE first > ? ORDER BY first LIMIT 1"
            next_first = next((begin for (begin,) in sql.rows(db, after, (number,))), ids[-1] + 1)
            end = bisect_left(ids, next_first)
            yield None, list(ids[at:end])
        at = end


def _find_open_block(db: apsw.Connection, space: int, number: int, most: int) -> int | None:
    """Return the block before a chunk if it is not full, so that chunks added one by one share a block."""
    before = f"SELECT first, length(offsets) FROM vectors_{space} WHERE first < ? ORDER BY first DESC LIMIT 1"
    return next((first for first, held in sql.rows(db, before, (number,)) if held < most * _OFFSET_BYTES), None)


def _read_block(db: apsw.Connection, space: int, first: int) -> dict[int, bytes]:
    return _split_block(*next(read_blocks(db, space, f"first={first:d}")))


def _split_block(first: int, offsets: bytes, vectors: bytes) -> dict[int, bytes]:
    """Return the vectors of each chunk in a block, end to end."""
    numbers = read_offsets(first, offsets)
    size = len(vectors) // len(numbers)
    found: dict[int, bytes] = {}
    for place, number in enumerate(numbers):
        found[number] = found.get(number, b"") + vectors[place * size : (place + 1) * size]
    return found


def _insert_blocks(
    db: apsw.Connection, space: int, revision: int, vectors: Mapping[int, bytes], size: int, most: int
) -> None:
    """Insert vectors of ``size`` bytes in blocks of at most ``most``; all vectors of a chunk are in one block."""
    groups, room = list[list[int]](), 0
    counts = {number: len(vectors[number]) // size for number in sorted(vectors)}
    for number, count in counts.items():
        if count > room:
            groups.append([])
            room = most
        groups[-1].append(number)
        room -= count
    made = []
    for some in groups:
        offsets = [number - some[0] for number in some for _ in range(counts[number])]
        packed = struct.pack(f"<{len(offsets)}I", *offsets)
        held = b"".join([vectors[number] for number in some])
        made.append((some[0], some[-1], len(some), revision, checksum_row(some[0], packed, held), packed, held))
    db.executemany(f"INSERT INTO vectors_{space} VALUES(?, ?, ?, ?, ?, ?, ?)", made)


#: The key of an embedder's last failure begins so.
_FAILURE = "failure:"
#: A single search over more vectors than this is quicker with numpy, whose loading takes a tenth of a second.
_MANY_VECTORS = 20_000
_NEW_NUMBER = "SELECT coalesce(max(id), abs(random()) % 1000000000) + 1 FROM spaces"
_SPACES = """
    SELECT id, provider, model, fingerprint, dimensions, filled_at, ever_filled,
        (SELECT value FROM counters WHERE name='texts')
    FROM spaces WHERE stored ORDER BY id DESC
"""
CREATE_BLOCKS = """
    CREATE TABLE IF NOT EXISTS vectors_{number}(
        first INTEGER PRIMARY KEY, last INTEGER NOT NULL, size INTEGER NOT NULL, revision INTEGER NOT NULL,
        checksum INTEGER NOT NULL, offsets BLOB NOT NULL, vectors BLOB NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS vectors_{number}_by_revision ON vectors_{number}(revision, size);
"""
_TABLES = f"""
    {CREATE_BLOCKS}
    CREATE TABLE IF NOT EXISTS windows_{{number}}(
        chunk_id INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, vectors BLOB NOT NULL
    ) STRICT;
    UPDATE spaces SET stored = 1 WHERE id = {{number}};
"""
_NEXT_IDS = "SELECT id FROM chunks WHERE id > ? ORDER BY id LIMIT ?"
_PENDING = """
    SELECT chunks.id, path, trail, text, at, length
    FROM chunks JOIN documents ON documents.id = document_id JOIN texts ON texts.id = text_id
    WHERE chunks.id IN (SELECT value FROM json_each(?)) ORDER BY chunks.id
"""
_COSINE = f"coalesce(round(1 - vec_distance_cosine(vec_int8(vector), vec_int8(?)), {shared.PLACES}), 0.0)"
# The cosines of vectors that stand end to end.
_COMPARED = f"""
    WITH RECURSIVE places(place) AS (
        SELECT 1 WHERE length(?1) UNION ALL SELECT place + ?2 FROM places WHERE place + ?2 <= length(?1)
    )
    SELECT {_COSINE} FROM (SELECT place, substr(?1, place, ?2) AS vector FROM places) ORDER BY place
"""
# Every vector of every block, with its place in the block.
_EACH_VECTOR = """
    WITH RECURSIVE places(place) AS (
        SELECT 0 UNION ALL SELECT place + 1 FROM places
        WHERE place + 1 < (SELECT max(length(offsets)) / {offset} FROM vectors_{space})
    ),
    each(first, place, vector) AS (
        SELECT first, place, substr(vectors, 1 + place * {size}, {size})
        FROM vectors_{space} CROSS JOIN places WHERE place < length(offsets) / {offset}
    )
"""


def forget_chunks(db: apsw.Connection, document_id: int) -> None:
    """Delete the vectors of a document's chunks, and record that for caches in memory."""
    stored = [space for (space,) in sql.rows(db, "SELECT id FROM spaces WHERE stored")]
    if not stored:
        return
    chosen = [chunk_id for (chunk_id,) in sql.rows(db, "SELECT id FROM chunks WHERE document_id=?", (document_id,))]
    for space in stored:
        remove_vectors(db, space, chosen)
        db.executemany(f"DELETE FROM windows_{space} WHERE chunk_id=?", [(chunk_id,) for chunk_id in chosen])
    number = sql.current_revision(db)
    db.executemany("INSERT INTO removed(revision, chunk_id) VALUES(?, ?)", [(number, chunk_id) for chunk_id in chosen])


class SpaceRows:
    """The tables of one embedding space, as a connection sees them at a revision."""

    def __init__(self, file: IndexFile, db: apsw.Connection, number: int) -> None:
        self.db = db
        self.number = number
        self._file = file

    def count(self) -> int:
        return count_vectors(self.db, self.number) if sql.is_stored(self.db, self.number) else 0

    def revision(self) -> int:
        return self._file.revision(self.db)

    def changes_since(self, seen: int) -> shared.ChangedVectors | None:
        now = self.revision()
        if seen > now:
            # A new connection sees the last state: an earlier one was restored if it does not know the revision.
            with self._file.latest() as last:
                if sql.is_remembered(last, seen):
                    return None
        if seen > now or not sql.is_remembered(self.db, seen):
            return now, None, read_blocks(self.db, self.number)
        removed = sql.rows(self.db, "SELECT chunk_id FROM removed WHERE revision > ?", (seen,))
        gone = [chunk_id for (chunk_id,) in removed]
        return now, gone, read_blocks(self.db, self.number, f"revision > {seen:d}")

    def passages_of(self, ids: Iterable[int]) -> dict[int, bytes]:
        chosen = "SELECT value FROM json_each(?)"
        statement = f"SELECT checksum, chunk_id, vectors FROM windows_{self.number} WHERE chunk_id IN ({chosen})"
        found = list(sql.rows(self.db, statement, (str(list(ids)),)))
        for row in found:
            check_row(*row)
        return {chunk_id: blob for _, chunk_id, blob in found}


class VecEngine:
    """Search by ``vec_distance_cosine`` inside SQLite.

    It needs neither numpy nor memory for the vectors, which suits a single search from the command line.
    """

    name = "sqlite-vec"

    def __init__(self, dimensions: int, library: str) -> None:
        self._dimensions = dimensions
        self._library = library
        self._loaded: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()

    def load(self, db: apsw.Connection) -> None:
        if db in self._loaded:
            return
        try:
            db.enable_load_extension(True)
            db.load_extension(self._library)
        except apsw.Error as error:
            raise StoreUnavailable(f"The sqlite-vec library {self._library} cannot be loaded: {error}.") from error
        finally:
            db.enable_load_extension(False)
        self._loaded.add(db)

    def nearest(self, space: SpaceRows, query: bytes, limit: int) -> list[tuple[int, float]]:
        statement = f"""
            {self._each_vector(space)}
            SELECT first, place, {_COSINE} AS cosine FROM each ORDER BY cosine DESC, first, place LIMIT ?
        """
        (asked,), most = shared.to_int8([query]), limit
        while True:
            rows = list(sql.rows(space.db, statement, (asked, most)))
            numbers = str(list({first for first, _, _ in rows}))
            blocks = read_blocks(space.db, space.number, "first IN (SELECT value FROM json_each(?))", numbers)
            chunks = {first: read_offsets(first, offsets) for first, offsets, _ in blocks}
            # The best vector of a chunk comes before its others.
            found = {chunks[first][place]: cosine for first, place, cosine in reversed(rows)}
            if len(rows) < most or len(found) >= limit:
                return sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))[:limit]
            most *= 4

    def _each_vector(self, space: SpaceRows) -> str:
        return _EACH_VECTOR.format(space=space.number, size=self._dimensions, offset=_OFFSET_BYTES)

    def mean_cosine(self, space: SpaceRows, query: bytes) -> float:
        mean = "coalesce(avg(1 - vec_distance_cosine(vec_int8(vector), vec_int8(?))), 0.0)"
        statement = f"{self._each_vector(space)} SELECT {mean} FROM each"
        return float(next(iter(sql.rows(space.db, statement, shared.to_int8([query]))))[0])

    def cosines(self, space: SpaceRows, query: bytes, ids: Sequence[int]) -> dict[int, float]:
        return {chunk_id: max(found) for chunk_id, found in self.vector_cosines(space, query, ids).items()}

    def vector_cosines(self, space: SpaceRows, query: bytes, ids: Sequence[int]) -> dict[int, list[float]]:
        there = find_vectors(space.db, space.number, ids)
        return self._compare(space, query, {chunk_id: there[chunk_id] for chunk_id in ids if chunk_id in there})

    def passage_cosines(self, space: SpaceRows, query: bytes, ids: Sequence[int]) -> dict[int, list[float]]:
        packed = space.passages_of(ids).items()
        each = {number: shared.unpack_passages(held, self._dimensions) for number, held in packed}
        return {
            number: shared.correct_passage_cosines(own) for number, own in self._compare(space, query, each).items()
        }

    def _compare(self, space: SpaceRows, query: bytes, vectors: Mapping[int, bytes]) -> dict[int, list[float]]:
        """Return the cosines of vectors, of which each chunk has some, end to end."""
        size = self._dimensions
        rows = sql.rows(space.db, _COMPARED, (b"".join(vectors.values()), size, *shared.to_int8([query])))
        cosines = (float(cosine) for (cosine,) in rows)
        return {chunk_id: list(islice(cosines, len(held) // size)) for chunk_id, held in vectors.items()}


Engine: TypeAlias = shared.MatrixEngine | VecEngine
_T = TypeVar("_T")


def find_library() -> str:
    """Return the path of the library in the package sqlite-vec, without importing it."""
    spec = find_spec("sqlite_vec")
    folders = spec.submodule_search_locations if spec else None
    return f"{folders[0]}/vec0" if folders else "vec0"


class SqliteVectors:
    """The role ``VectorIndex``."""

    def __init__(self, file: IndexFile, library: str) -> None:
        """``library`` is sqlite-vec's, which compares vectors unless they are very many; empty for a matrix only."""
        self._file = file
        self._library = library
        self._lock = threading.Lock()
        self._engines: dict[tuple[int, tuple[str, int]], Engine] = {}
        self._problem = ""
        """Why sqlite-vec does not search although it should; empty if nothing is wrong."""

    def forget(self) -> None:
        """Forget what was read, because another index answers from now on."""
        with self._lock:
            self._engines.clear()

    def spaces(self) -> list[StoredSpace]:
        with self._file.reading() as db:
            return list(self._file.recall(db, _read_spaces))

    def ensure_space(self, space: Space) -> StoredSpace:
        with self._file.writing() as db, sql.transaction(db):
            known = list(sql.rows(db, "SELECT id FROM spaces WHERE fingerprint=? AND dimensions=?", space[2:]))
            # Each index has other numbers: who still embeds for one that was deleted must not fill the next one.
            number: int = known[0][0] if known else sql.single(db, _NEW_NUMBER)
            if not known:
                db.execute("INSERT INTO spaces(id, provider, model, fingerprint, dimensions) VALUES(?, ?, ?, ?, ?)",
                           (number, *space))  # fmt: skip
            db.execute(_TABLES.format(number=number))
            return next(stored for stored in _read_spaces(db) if stored.id == number)

    def pending(self, space: int | None, after: int, limit: int) -> list[PendingChunk]:
        with self._file.reading() as db:
            if space is None:
                return list(_with_texts(db, [number for (number,) in sql.rows(db, _NEXT_IDS, (after, limit))]))
            _require_stored(db, space)
            after = max(after, sql.single(db, "SELECT filled_to FROM spaces WHERE id=?", (space,)))
            ids = list(islice(_without_vector(db, space, after, limit), limit))
            return list(_with_texts(db, ids))

    def put(self, space: int, items: Sequence[tuple[int, Embedding]]) -> None:
        with self._file.writing() as db, sql.transaction(db):
            _require_stored(db, space)
            number = sql.start_revision(db)
            known_ids = "SELECT id FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
            there = {chunk_id for (chunk_id,) in sql.rows(db, known_ids, (str([chunk_id for chunk_id, _ in items]),))}
            known = {chunk_id: made for chunk_id, made in items if chunk_id in there}
            size = sql.single(db, "SELECT dimensions FROM spaces WHERE id=?", (space,))
            rounded = shared.round_vectors(list(known.values()))
            put_vectors(db, space, number, dict(zip(known, rounded, strict=True)), size)
            passages = {chunk_id: made.passages for chunk_id, made in known.items() if made.vector and made.passages}
            packed = shared.pack_passages(list(passages.values()), size)
            db.executemany(
                f"INSERT OR REPLACE INTO windows_{space}(chunk_id, checksum, vectors) VALUES(?, ?, ?)",
                [(each, checksum_row(each, windows), windows) for each, windows in zip(passages, packed, strict=True)],
            )

    def mark_filled(self, space: int, texts: int, *, keep: str = "") -> None:
        with self._file.writing() as db, sql.transaction(db):
            _require_stored(db, space)
            db.execute("UPDATE spaces SET filled_at=max(filled_at, ?), ever_filled=1 WHERE id=?", (texts, space))
            if texts == sql.single(db, "SELECT value FROM counters WHERE name='texts'"):
                last = sql.single(db, "SELECT value FROM counters WHERE name='chunks'")
                db.execute("UPDATE spaces SET filled_to=? WHERE id=?", (last, space))
            others = sql.rows(db, "SELECT id FROM spaces WHERE stored AND id<>? AND provider<>?", (space, keep))
            for (other,) in list(others):
                db.execute(f"DROP TABLE IF EXISTS vectors_{other}; DROP TABLE IF EXISTS windows_{other}")
                db.execute("UPDATE spaces SET stored=0, filled_at=-1, ever_filled=0, filled_to=0 WHERE id=?", (other,))

    def record_failure(self, fingerprint: str, error: str) -> None:
        with self._file.writing() as db, sql.transaction(db):
            db.execute("DELETE FROM meta WHERE key=?", (_FAILURE + fingerprint,))
            if error:
                db.execute("INSERT INTO meta(key, value) VALUES(?, ?)", (_FAILURE + fingerprint, error))

    def last_failure(self, fingerprint: str) -> str:
        with self._file.reading() as db:
            found = sql.rows(db, "SELECT value FROM meta WHERE key=?", (_FAILURE + fingerprint,))
            return next((str(value) for (value,) in found), "")

    def engine(self, space: StoredSpace) -> tuple[str, str]:
        return self._search(space, lambda engine, _: (engine.name, self._problem))

    def nearest(self, space: StoredSpace, query: bytes, limit: int) -> list[tuple[int, float]]:
        return self._search(space, lambda engine, tables: engine.nearest(tables, query, limit))

    def mean_cosine(self, space: StoredSpace, query: bytes) -> tuple[float, int]:
        return self._search(space, lambda engine, tables: (engine.mean_cosine(tables, query), tables.count()))

    def cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, float]:
        return self._search(space, lambda engine, tables: engine.cosines(tables, query, ids))

    def vector_cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, Sequence[float]]:
        return self._search(space, lambda engine, tables: engine.vector_cosines(tables, query, ids))

    def vectors_of(self, space: StoredSpace, ids: Sequence[int]) -> Mapping[int, bytes]:
        with self._file.reading() as db:
            return find_vectors(db, space.id, ids) if sql.is_stored(db, space.id) else {}

    def passage_cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, Sequence[float]]:
        return self._search(space, lambda engine, tables: engine.passage_cosines(tables, query, ids))

    def _search(self, space: StoredSpace, act: Callable[[Engine, SpaceRows], _T]) -> _T:
        """Return what ``act`` finds with the engine of a space and its tables."""
        with self._file.reading() as db:
            tables = SpaceRows(self._file, db, space.id)
            if space.id not in [each.id for each in self._file.recall(db, _read_spaces)]:
                raise explain_replaced(space.space.model)
            with self._lock:
                key = space.id, space.space.key
                if key not in self._engines:
                    self._engines[key] = self._choose(tables, space.space.dimensions)
                engine = self._engines[key]
            if isinstance(engine, VecEngine):
                engine.load(db)
            return act(engine, tables)

    def _choose(self, tables: SpaceRows, dimensions: int) -> Engine:
        if self._library and tables.count() <= _MANY_VECTORS:
            engine = VecEngine(dimensions, self._library)
            try:
                engine.load(tables.db)
                return engine
            except StoreUnavailable as error:
                import logging

                self._problem = str(error)
                logging.getLogger(__name__).warning("%s Vectors are searched in this process instead.", error)
        return shared.MatrixEngine(dimensions)


def _read_spaces(db: apsw.Connection) -> list[StoredSpace]:
    found = []
    for number, *space, filled_at, was_filled, texts in sql.rows(db, _SPACES):
        has_any = was_filled or sql.single(db, f"SELECT EXISTS (SELECT 1 FROM vectors_{number})")
        found.append(StoredSpace(number, Space(*space), filled_at >= texts, bool(was_filled), texts, bool(has_any)))
    return found


def _with_texts(db: apsw.Connection, ids: Sequence[int]) -> Iterator[PendingChunk]:
    # The chunks of a text follow each other.
    unpack = lru_cache(1)(sql.unpack_text)
    for number, path, trail, text, at, length in sql.rows(db, _PENDING, (str(list(ids)),)):
        yield make_pending(number, path, trail, unpack(text)[at : at + length])


def _without_vector(db: apsw.Connection, space: int, after: int, at_once: int) -> Iterator[int]:
    """Yield the chunks after a number that have no vector, in order."""
    while ids := [chunk_id for (chunk_id,) in sql.rows(db, _NEXT_IDS, (after, at_once))]:
        there = stored_between(db, space, ids[0], ids[-1])
        yield from (chunk_id for chunk_id in ids if chunk_id not in there)
        after = ids[-1]


def _require_stored(db: apsw.Connection, space: int) -> None:
    if not sql.is_stored(db, space):
        raise explain_dropped()
