"""Blocks of postings in the database: written with new chunks, merged so that there are few, and thinned by removals.

A block never changes but for its *dead* bits, which say which of its chunks are gone. New chunks become a block of
their own together with the smaller blocks before it, and with those of its own size class if that has enough already:
so there are few blocks for a search to read, and a chunk is written few times. Blocks follow each other in the order of
the numbers of their chunks.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy

from mdrecall.store.postgres.postings import (
    MAX_CHUNKS,
    ChunkTerms,
    Postings,
    make_postings,
    merge_postings,
    read_block,
    write_pages,
)
from mdrecall.store.postgres.transaction import Transaction

#: The size classes: a block has fewer chunks than the limit of its own, and a class has as many blocks at most. Large
#: blocks are dear to write again: with one of each class, a first index of 100,000 chunks wrote each chunk five times.
_LIMITS = (64, 512, 4_096, 32_768, MAX_CHUNKS + 1)
_MOST = (1, 1, 1, 3, 1)
#: A block of which so much is dead is written again without it.
_DEAD_SHARE = 4
# With the chunks of those blocks that hold any of some chunks.
_BLOCKS = """
    SELECT block, first, last, size, dead_count, CASE WHEN is_wanted THEN ids END, CASE WHEN is_wanted THEN lengths END,
        CASE WHEN is_wanted THEN dead END
    FROM mdrecall.blocks, LATERAL (
        SELECT EXISTS (SELECT FROM unnest(%s::int8[]) wanted WHERE wanted BETWEEN first AND last) AS is_wanted) own
    WHERE workspace_id=%s AND gen=%s ORDER BY first
"""
_CONTENT = "SELECT block, ids, lengths, dead FROM mdrecall.blocks WHERE workspace_id=%s AND gen=%s AND block = ANY(%s)"
_PAGES = """
    SELECT block, postings, positions FROM mdrecall.pages
    WHERE workspace_id=%s AND gen=%s AND block = ANY(%s) ORDER BY block, first
"""
# A block and its pages in one statement, which drops those that it replaces. Not by COPY, which Postgres does not allow
# where a policy guards the rows.
_INSERT = """
    WITH old_pages AS (DELETE FROM mdrecall.pages WHERE workspace_id=%s AND gen=%s AND block = ANY(%s)),
    old AS (DELETE FROM mdrecall.blocks WHERE workspace_id=%s AND gen=%s AND block = ANY(%s)),
    added AS (
        INSERT INTO mdrecall.blocks(workspace_id, gen, block, first, last, size, ids, lengths, dead, dead_count)
        VALUES(%s, %s, %s, %s, %s, %s, %s, %s, %s, 0))
    INSERT INTO mdrecall.pages(workspace_id, gen, block, first, postings, positions)
    SELECT %s, %s, %s, page.* FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[]) page
"""
_DROP = """
    WITH gone AS (DELETE FROM mdrecall.pages WHERE workspace_id=%s AND gen=%s AND block = ANY(%s))
    DELETE FROM mdrecall.blocks WHERE workspace_id=%s AND gen=%s AND block = ANY(%s)
"""


class BlockRow(NamedTuple):
    """What is known of a block without reading it."""

    block: int
    first: int
    last: int
    size: int
    dead_count: int

    @property
    def alive(self) -> int:
        """How many of its chunks are not dead."""
        return self.size - self.dead_count


class BlockContent(NamedTuple):
    """The chunks of a block by their places: their numbers, their lengths, and which are dead."""

    ids: Any
    lengths: Any
    dead: Any


def list_blocks(now: Transaction) -> list[BlockRow]:
    """Return all blocks in the order of their chunks."""
    if now.blocks is None:
        _read_blocks(now, ())
    return now.blocks or []


def _read_blocks(now: Transaction, ids: Sequence[int]) -> None:
    """Read what is known of all blocks, and the chunks of those that hold any of some chunks."""
    found = now.db.execute(_BLOCKS, (list(ids), now.workspace, now.gen), binary=True).fetchall()
    now.blocks = [BlockRow(*row[:5]) for row in found]
    now.thinned |= {row[0]: unpack_content(*row[5:]) for row in found if row[5] is not None}


def read_contents(now: Transaction, blocks: Sequence[int]) -> dict[int, BlockContent]:
    """Return the chunks of blocks."""
    found = now.rows(_CONTENT, list(blocks)) if blocks else []
    return {block: unpack_content(ids, lengths, dead) for block, ids, lengths, dead in found}


def unpack_content(ids: bytes, lengths: bytes, dead: bytes) -> BlockContent:
    """Return the chunks of a block from what is stored."""
    numbers = numpy.frombuffer(ids, "<i8")
    return BlockContent(numbers, numpy.frombuffer(lengths, "<u2"), unpack_dead(dead, len(numbers)))


def unpack_dead(dead: bytes, size: int) -> Any:
    """Return which chunks of a block are dead."""
    return numpy.unpackbits(numpy.frombuffer(dead, numpy.uint8), count=size, bitorder="little").astype(bool)


def add_block(now: Transaction, ids: Sequence[int], terms: Sequence[ChunkTerms]) -> None:
    """Add the postings of new chunks, whose numbers are larger than all others, and merge small blocks."""
    for start in range(0, len(ids), MAX_CHUNKS):
        own = slice(start, start + MAX_CHUNKS)
        numbers = numpy.array(ids[own], numpy.int64)
        lengths = numpy.array([each.length for each in terms[own]], numpy.int64)
        _write_with(now, _choose_to_merge(list_blocks(now), len(numbers)), make_postings(terms[own]), numbers, lengths)


def remove_chunks(now: Transaction, ids: Iterable[int]) -> None:
    """Mark chunks as dead. It is stored with the next new block, or by ``store_removals``."""
    store_removals(now)
    wanted = sorted(ids)
    _read_blocks(now, wanted)
    for block, content in now.thinned.items():
        now.thinned[block] = content._replace(dead=content.dead | numpy.isin(content.ids, wanted))
    now.blocks = [
        row._replace(dead_count=int(now.thinned[row.block].dead.sum())) if row.block in now.thinned else row
        for row in now.blocks or ()
    ]


def store_removals(now: Transaction) -> None:
    """Store which chunks are dead, and write blocks again that are dead to a large part."""
    for row in [row for row in now.blocks or () if row.block in now.thinned]:
        if row.dead_count * _DEAD_SHARE > row.size:
            empty = numpy.zeros(0, numpy.int64)
            _write_with(now, [row], read_block(()), empty, empty)
            continue
        dead = numpy.packbits(now.thinned.pop(row.block).dead, bitorder="little").tobytes()
        change = "UPDATE mdrecall.blocks SET dead=%s, dead_count=%s WHERE workspace_id=%s AND gen=%s AND block=%s"
        now.db.execute(change, (dead, row.dead_count, now.workspace, now.gen, row.block))


def _choose_to_merge(blocks: Sequence[BlockRow], count: int) -> list[BlockRow]:
    """Return the newest blocks that are written again together with new chunks."""
    chosen: list[BlockRow] = []
    while run := _choose_run(blocks[: len(blocks) - len(chosen)], count):
        chosen = run + chosen
        count += sum(row.alive for row in run)
    return chosen


def _choose_run(blocks: Sequence[BlockRow], count: int) -> list[BlockRow]:
    """Return the newest blocks that are smaller, and those of the same class if that has enough of them."""
    own, run, equal = _class_of(count), 0, []
    for before, row in enumerate(reversed(blocks)):
        count += row.alive
        if _class_of(row.alive) > own or count > MAX_CHUNKS:
            break
        run = before + 1
        if _class_of(row.alive) == own:
            equal.append(before)
    if equal and len(equal) < _MOST[own]:
        run = equal[0]
    return list(blocks[len(blocks) - run :])


def _class_of(size: int) -> int:
    return next(number for number, limit in enumerate(_LIMITS) if size < limit)


def _write_with(now: Transaction, merged: Sequence[BlockRow], fresh: Postings, ids: Any, lengths: Any) -> None:
    """Write a block with what is alive in some blocks and with new chunks after it; drop those blocks."""
    numbers = [row.block for row in merged if row.alive]
    contents = now.thinned | read_contents(now, [number for number in numbers if number not in now.thinned])
    postings = _read_postings(now, numbers)
    parts: list[tuple[Postings, Any]] = []
    all_ids, all_lengths, count = [], [], 0
    for number in numbers:
        content = contents[number]
        alive = ~content.dead
        moved = numpy.where(alive, numpy.cumsum(alive) - 1 + count, -1)
        parts.append((postings[number], moved))
        all_ids.append(content.ids[alive])
        all_lengths.append(content.lengths[alive])
        count += int(alive.sum())
    parts.append((fresh, numpy.arange(len(ids)) + count))
    joined = merge_postings(parts) if numbers else fresh
    _replace_blocks(now, merged, joined, numpy.concatenate([*all_ids, ids]), numpy.concatenate([*all_lengths, lengths]))


def _read_postings(now: Transaction, blocks: Sequence[int]) -> dict[int, Postings]:
    found: dict[int, list[tuple[bytes, bytes]]] = {block: [] for block in blocks}
    for block, *page in now.rows(_PAGES, list(blocks)) if blocks else ():
        found[block].append((page[0], page[1]))
    return {block: read_block(pages) for block, pages in found.items()}


def _replace_blocks(now: Transaction, old: Sequence[BlockRow], postings: Postings, ids: Any, lengths: Any) -> None:
    """Drop some blocks and write one instead; none if it would be empty."""
    dropped = [row.block for row in old]
    blocks = [row for row in now.blocks or () if row.block not in dropped]
    for block in dropped:
        now.thinned.pop(block, None)
    if len(ids):
        dead, pages = bytes(-(-len(ids) // 8)), list(write_pages(postings))
        row = BlockRow(now.reserve("next_block", 1), int(ids[0]), int(ids[-1]), len(ids), 0)
        content = ids.astype("<i8").tobytes(), lengths.astype("<u2").tobytes(), dead
        columns = ([page[column] for page in pages] for column in range(3))
        own = now.workspace, now.gen
        now.run(_INSERT, dropped, *own, dropped, *own, *row[:4], *content, *own, row.block, *columns)
        blocks = sorted((*blocks, row), key=lambda each: each.first)
    elif dropped:
        now.run(_DROP, dropped, now.workspace, now.gen, dropped)
    now.blocks = blocks
