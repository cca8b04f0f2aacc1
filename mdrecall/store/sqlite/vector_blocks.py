"""The vectors of a space in blocks: one row holds as many as fill a page, so that a million are read in a moment.

The ranges of chunk numbers that two blocks cover never overlap: the block of a chunk is the last that begins at or
before its number. Within a block the chunks are in the order of their numbers. Every row has a checksum.
"""

import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apsw

from mdrecall.store.int8 import VectorBlock
from mdrecall.store.sqlite.schema import PAGE_SIZE
from mdrecall.store.sqlite.sql import rows, single
from mdrecall.store.sqlite.texts import UNPACK

#: SQLite keeps a row on its page if it leaves 35 bytes of it; the other columns and lengths take fewer than 45.
_BLOCK_BYTES = PAGE_SIZE - 80
_OFFSET_BYTES = 4
CREATE_BLOCKS = """
    CREATE TABLE IF NOT EXISTS vectors_{number}(
        first INTEGER PRIMARY KEY,
        last INTEGER NOT NULL,
        size INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        offsets BLOB NOT NULL,
        vectors BLOB NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS vectors_{number}_by_revision ON vectors_{number}(revision, size);
"""


def count_vectors(db: apsw.Connection, space: int) -> int:
    """Return the number of chunks that have a vector."""
    return single(db, f"SELECT coalesce(sum(size), 0) FROM vectors_{space}")


def read_blocks(db: apsw.Connection, space: int, where: str = "TRUE") -> Iterator[VectorBlock]:
    """Yield blocks in the order of their chunks; raise if one is damaged."""
    statement = f"SELECT checksum, first, offsets, vectors FROM vectors_{space} WHERE {where} ORDER BY first"
    for checksum, *row in rows(db, statement):
        check_row(checksum, *row)
        yield VectorBlock(*row)


def checksum_row(number: int, *held: bytes) -> int:
    """Return the checksum of a row that has a number and holds some bytes."""
    return zlib.crc32(b"".join(held), number & 0xFFFF_FFFF)


def check_row(checksum: int, number: int, *held: bytes) -> None:
    """Raise if a row is damaged."""
    if checksum_row(number, *held) != checksum:
        raise apsw.CorruptError("a vector is not what its checksum says")


def check_contents(db: apsw.Connection) -> None:
    """Raise if a text of the index or a vector of any space is damaged."""
    single(db, f"SELECT coalesce(sum(length({UNPACK}(text))), 0) FROM chunks")
    for (space,) in list(rows(db, "SELECT id FROM spaces WHERE stored")):
        for _ in read_blocks(db, space):
            pass
        for row in rows(db, f"SELECT checksum, chunk_id, vectors FROM windows_{space}"):
            check_row(*row)


def chunks_in(block: VectorBlock) -> list[int]:
    """Return the numbers of a block's chunks."""
    return read_offsets(block.first, block.offsets)


def read_offsets(first: int, offsets: bytes) -> list[int]:
    """Return the numbers of chunks from their offsets to the first."""
    numbers = array("I", offsets)
    if sys.byteorder == "big":
        numbers.byteswap()
    return [first + offset for offset in numbers]


def stored_between(db: apsw.Connection, space: int, first: int, last: int) -> set[int]:
    """Return the chunks of a range of numbers that have a vector, and perhaps some outside of it."""
    statement = f"SELECT first, offsets FROM vectors_{space} WHERE last >= ? AND first <= ?"
    # The first block may begin before the range, so it is looked up by its number.
    start = single(db, f"SELECT coalesce(max(first), 0) FROM vectors_{space} WHERE first <= ?", (first,))
    found = rows(db, f"{statement} AND first >= ?", (first, last, start))
    return {number for begin, offsets in found for number in read_offsets(begin, offsets)}


def find_vectors(db: apsw.Connection, space: int, ids: Iterable[int]) -> dict[int, bytes]:
    """Return the vectors of chunks. A chunk without one is left out."""
    found: dict[int, bytes] = {}
    for first, some in _group_by_block(db, space, sorted(ids)):
        if first is not None:
            known = _read_block(db, space, first)
            found |= {number: known[number] for number in some if number in known}
    return found


def put_vectors(db: apsw.Connection, space: int, revision: int, vectors: Mapping[int, bytes]) -> None:
    """Add the vectors of chunks, or replace them. All have the same length."""
    if not vectors:
        return
    size = max(1, _BLOCK_BYTES // (len(next(iter(vectors.values()))) + _OFFSET_BYTES))
    for first, some in _group_by_block(db, space, sorted(vectors)):
        given = {number: vectors[number] for number in some}
        if first is None:
            first = _find_open_block(db, space, some[0], size)
        merged = given if first is None else _read_block(db, space, first) | given
        if first is not None:
            db.execute(f"DELETE FROM vectors_{space} WHERE first=?", (first,))
        _insert_blocks(db, space, revision, sorted(merged), merged, size)


def remove_vectors(db: apsw.Connection, space: int, ids: Iterable[int]) -> None:
    """Remove the vectors of chunks; do nothing for a chunk without one."""
    for first, some in _group_by_block(db, space, sorted(ids)):
        if first is None:
            continue
        known = _read_block(db, space, first)
        left = sorted(known.keys() - some)
        revision = single(db, f"SELECT revision FROM vectors_{space} WHERE first=?", (first,))
        db.execute(f"DELETE FROM vectors_{space} WHERE first=?", (first,))
        _insert_blocks(db, space, revision, left, known, max(1, len(left)))


def _group_by_block(db: apsw.Connection, space: int, ids: Sequence[int]) -> Iterator[tuple[int | None, list[int]]]:
    """Yield sorted numbers in groups, each with the block whose range they are in; None if they lie between two."""
    at = 0
    while at < len(ids):
        number = ids[at]
        before = f"SELECT first, last FROM vectors_{space} WHERE first <= ? ORDER BY first DESC LIMIT 1"
        first, last = next(iter(rows(db, before, (number,))), (0, number - 1))
        if number <= last:
            end = bisect_right(ids, last)
            yield first, list(ids[at:end])
        else:
            after = f"SELECT first FROM vectors_{space} WHERE first > ? ORDER BY first LIMIT 1"
            next_first = next((begin for (begin,) in rows(db, after, (number,))), ids[-1] + 1)
            end = bisect_left(ids, next_first)
            yield None, list(ids[at:end])
        at = end


def _find_open_block(db: apsw.Connection, space: int, number: int, size: int) -> int | None:
    """Return the block before a chunk if it is not full, so that chunks added one by one share a block."""
    before = f"SELECT first, size FROM vectors_{space} WHERE first < ? ORDER BY first DESC LIMIT 1"
    return next((first for first, held in rows(db, before, (number,)) if held < size), None)


def _read_block(db: apsw.Connection, space: int, first: int) -> dict[int, bytes]:
    block = next(read_blocks(db, space, f"first={first:d}"))
    numbers = chunks_in(block)
    size = len(block.vectors) // len(numbers)
    return {number: block.vectors[place * size : (place + 1) * size] for place, number in enumerate(numbers)}


def _insert_blocks(
    db: apsw.Connection, space: int, revision: int, ids: Sequence[int], vectors: Mapping[int, bytes], size: int
) -> None:
    made = []
    for start in range(0, len(ids), size):
        some = ids[start : start + size]
        offsets = array("I", [number - some[0] for number in some])
        if sys.byteorder == "big":
            offsets.byteswap()
        held = b"".join([vectors[number] for number in some])
        checksum = checksum_row(some[0], offsets.tobytes(), held)
        made.append((some[0], some[-1], len(some), revision, checksum, offsets.tobytes(), held))
    db.executemany(f"INSERT INTO vectors_{space} VALUES(?, ?, ?, ?, ?, ?, ?)", made)
