"""The terms of the index: which chunks hold a word, a name or a beginning, and how much each is about it.

Terms are stored in blocks of postings, written with new chunks, merged so that there are few, and thinned by removals.
A block never changes but for its *dead* bits, which say which of its chunks are gone. New chunks become a block of
their own together with the smaller blocks before it, and with those of its own size class if that has enough already:
so there are few blocks for a search to read, and a chunk is written few times. Blocks follow each other in the order of
the numbers of their chunks; the *index* of a chunk is its place in all blocks end to end.

The saturation of a term in a chunk is what FTS5's ``bm25()`` of that term is without its idf, so that both stores give
the same scores.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy

from mdrecall.extras.postgres.connect import Transaction
from mdrecall.extras.postgres.postings import (
    MAX_CHUNKS,
    ChunkTerms,
    Postings,
    ReadPage,
    TermPostings,
    make_postings,
    match_phrase,
    merge_postings,
    read_block,
    read_page,
    write_pages,
)
from mdrecall.extras.postgres.schema import to_bytes, to_text
from mdrecall.store.common import ROW_BUDGET, Wanted, encode_names
from mdrecall.text.index_terms import index_terms
from mdrecall.types.search import Term

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
_BLOCK_PAGES = """
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
    for block, *page in now.rows(_BLOCK_PAGES, list(blocks)) if blocks else ():
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


#: bm25's k1 and b, as in FTS5, and what an occurrence among the names counts.
_K1, _B, _NAMED = 1.2, 0.75, 0.7
#: The chunks of so many blocks are remembered; a block of 65,536 chunks takes 650 KB.
_MOST_BLOCKS = 64
# All blocks, and of each block the page that would hold each term. Of a small block, which is new as a rule, also what
# would otherwise be asked for next.
_PAGES = """
    SELECT block, NULL::bytea, dead, size, dead_count, first, CASE WHEN size < 64 THEN ids END,
        CASE WHEN size < 64 THEN lengths END
    FROM mdrecall.blocks WHERE workspace_id=%s AND gen=%s
    UNION ALL
    SELECT b.block, page.first, page.postings, 0, 0, 0, NULL, NULL
    FROM mdrecall.blocks b, unnest(%b::bytea[]) term, LATERAL (
        SELECT p.first AS first, p.postings FROM mdrecall.pages p
        WHERE p.workspace_id = b.workspace_id AND p.gen = b.gen AND p.block = b.block AND p.first <= term
        ORDER BY p.first DESC LIMIT 1) page
    WHERE b.workspace_id=%s AND b.gen=%s
"""
# Of each block all pages that may hold terms from one to another.
_RANGE = """
    SELECT p.block, p.postings FROM mdrecall.blocks b JOIN mdrecall.pages p
        ON p.workspace_id = b.workspace_id AND p.gen = b.gen AND p.block = b.block
    WHERE b.workspace_id=%s AND b.gen=%s AND p.first < %s AND p.first >= coalesce((
        SELECT max(q.first) FROM mdrecall.pages q
        WHERE q.workspace_id = b.workspace_id AND q.gen = b.gen AND q.block = b.block AND q.first <= %s), '')
"""
_POSITIONS = """
    SELECT wanted.block, wanted.first, (SELECT p.positions FROM mdrecall.pages p
        WHERE p.workspace_id=%s AND p.gen=%s AND p.block = wanted.block AND p.first = wanted.first)
    FROM unnest(%b::int8[], %b::bytea[]) wanted(block, first)
"""


class BlockCache:
    """The chunks of blocks in memory, which never change but for those that die. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[int, int], BlockContent] = {}

    def get(self, now: Transaction, blocks: Sequence[int]) -> dict[int, BlockContent]:
        """Return the chunks of blocks; what they say of the dead may be out of date."""
        with self._lock:
            known = {block: self._known[now.gen, block] for block in blocks if (now.gen, block) in self._known}
        missing = [block for block in blocks if block not in known]
        if missing:
            read = read_contents(now, missing)
            known |= read
            self.put(now, read)
        return known

    def put(self, now: Transaction, read: dict[int, BlockContent]) -> None:
        """Remember the chunks of blocks."""
        with self._lock:
            if len(self._known) + len(read) > _MOST_BLOCKS:
                self._known.clear()
            self._known |= {(now.gen, block): content for block, content in read.items()}


class _Block(NamedTuple):
    """A block as a transaction sees it."""

    start: int
    """The index of its first chunk."""
    size: int
    dead_count: int
    dead: bytes


class _Holding(NamedTuple):
    """The living chunks of a block that hold a term."""

    block: int
    first: bytes
    """The page that the term is on."""
    postings: TermPostings


class PostgresTerms:
    """The terms of the index, as a transaction sees them: a ``TermIndex``."""

    def __init__(self, now: Transaction, cache: BlockCache) -> None:
        self._now = now
        self._cache = cache
        self._pages: dict[int, dict[bytes, ReadPage]] = {}
        self._blocks: dict[int, _Block] = {}
        self._known: set[bytes] = set()
        self._dead: dict[int, Any] = {}
        self._held: dict[bytes, list[_Holding]] = {}
        self._found: dict[Wanted, Any] = {}
        self._total = -1
        self._average = 0.0

    def prepare(self, terms: Sequence[Term]) -> None:
        """Read the pages of all terms of a query at once."""
        self._read_pages({token for term in terms for token in _tokens_of(term)})

    def _read_pages(self, tokens: set[bytes]) -> None:
        now, missing = self._now, sorted(tokens - self._known)
        if not missing and self._total >= 0:
            return
        self._known.update(missing)
        blocks = []
        for block, first, data, *own in now.rows(_PAGES, missing, now.workspace, now.gen):
            if first is None:
                blocks.append((own[2], block, own[0], own[1], data))
                if own[3] is not None:
                    self._cache.put(now, {block: unpack_content(own[3], own[4], data)})
            elif first not in self._pages.setdefault(block, {}):
                self._pages[block][first] = read_page(data)
        if self._total < 0:
            self._add_blocks(sorted(blocks))

    def _add_blocks(self, found: list[tuple[int, int, int, int, bytes]]) -> None:
        self._total = 0
        for _, block, size, dead_count, dead in found:
            self._blocks[block] = _Block(self._total, size, dead_count, dead)
            self._total += size
        chunks, tokens = self._now.state.chunks, self._now.state.tokens
        self._average = tokens / chunks if chunks else 1.0

    def count(self, wanted: Wanted) -> int:
        return len(self._find_all(wanted))

    def score(self, word: str, held_by: int) -> dict[int, float]:
        tokens = [to_bytes(token) for token in index_terms(word)]
        if len(tokens) != 1:
            return dict.fromkeys(self.find(((word,), False)), 1.0)
        parts: list[tuple[Any, ...]] = []
        left = ROW_BUDGET
        for holding in reversed(self._hold(tokens[0])):
            places, plain, named = (column[: -1 - left : -1] for column in holding.postings)
            content = self._content(holding.block)
            parts.append((content.ids[places], content.lengths[places], plain, named))
            left -= len(places)
            if not left:
                break
        if not parts:
            return {}
        ids, lengths, plain, named = map(numpy.concatenate, zip(*parts, strict=True))
        often = plain + _NAMED * named.astype(numpy.float64)
        saturations = often / (often + _K1 * (1 - _B + _B * lengths.astype(numpy.float64) / self._average))
        return dict(zip(ids.tolist(), saturations.tolist(), strict=True))

    def find(self, wanted: Wanted, among: Sequence[Wanted] = ()) -> list[int]:
        found = self._find_all(wanted)
        if among:
            found = found[self._mark([self._find_all(each) for each in among])[found]]
        newest = found[-ROW_BUDGET:]
        starts = numpy.searchsorted(newest, [own.start for own in self._blocks.values()]).tolist()
        ids: list[int] = []
        end = len(newest)
        for (block, own), start in zip(reversed(self._blocks.items()), reversed(starts), strict=True):
            if start < end:
                ids += self._content(block).ids[newest[start:end][::-1] - own.start].tolist()
            end = start
        return ids

    def terms_with(self, beginning: str) -> list[str]:
        start, terms = to_bytes(beginning), set()
        for block, page in self._read_range(start):
            for number in page.find_range(start):
                term = page.term_at(number)
                if term not in terms and len(self._alive(block, page.at(number)).places):
                    terms.add(term)
        return [to_text(term) for term in sorted(terms)]

    def _read_range(self, start: bytes) -> list[tuple[int, ReadPage]]:
        self._read_pages(set())
        if not self._blocks:
            return []
        return [(block, read_page(data)) for block, data in self._now.rows(_RANGE, start + b"\xff" * 4, start)]

    def _find_all(self, wanted: Wanted) -> Any:
        """Return the indexes of all chunks that hold any of some phrases, sorted."""
        if wanted not in self._found:
            any_of, is_prefix = wanted
            parts = [part for phrase in any_of for part in self._find_any(phrase, is_prefix)]
            self._found[wanted] = parts[0] if len(parts) == 1 else numpy.flatnonzero(self._mark(parts))
        return self._found[wanted]

    def _mark(self, parts: Sequence[Any]) -> Any:
        """Return for every chunk if it is in any of some parts."""
        self._read_pages(set())
        marked = numpy.zeros(self._total, bool)
        for part in parts:
            marked[part] = True
        return marked

    def _find_any(self, phrase: str, is_prefix: bool) -> list[Any]:
        """Return the indexes of the chunks that hold a phrase, perhaps in several parts."""
        tokens = [to_bytes(token) for token in index_terms(phrase)]
        if not tokens:
            return []
        if len(tokens) > 1:
            return self._find_phrase(tokens)
        if is_prefix:
            return self._find_beginning(tokens[0])
        found = [
            numpy.add(each.postings.places, self._blocks[each.block].start, dtype=int) for each in self._hold(tokens[0])
        ]
        return [numpy.concatenate(found)] if found else []

    def _hold(self, token: bytes) -> list[_Holding]:
        """Return the living chunks of each block that hold a term, in the order of the blocks."""
        if token not in self._held:
            self._read_pages({token})
            self._held[token] = list(self._find_holding(token))
        return self._held[token]

    def _find_holding(self, token: bytes) -> Iterator[_Holding]:
        for block in self._blocks:
            pages = self._pages.get(block, {})
            first = max((each for each in pages if each <= token), default=None)
            found = None if first is None else pages[first].find(token)
            if first is not None and found is not None:
                alive = self._alive(block, found)
                if len(alive.places):
                    yield _Holding(block, first, alive)

    def _alive(self, block: int, found: TermPostings) -> TermPostings:
        own = self._blocks[block]
        if not own.dead_count:
            return found
        if block not in self._dead:
            self._dead[block] = unpack_dead(own.dead, own.size)
        stays = ~self._dead[block][found.places]
        return TermPostings(found.places[stays], found.plain[stays], found.named[stays])

    def _find_beginning(self, start: bytes) -> list[Any]:
        return [
            self._blocks[block].start + self._alive(block, page.at(number)).places.astype(int)
            for block, page in self._read_range(start)
            for number in page.find_range(start)
        ]

    def _find_phrase(self, tokens: list[bytes]) -> list[Any]:
        held = [{each.block: each.first for each in self._hold(token)} for token in tokens]
        shared = [block for block in self._blocks if all(block in blocks for blocks in held)]
        positions = self._read_positions({(block, blocks[block]) for blocks in held for block in shared})
        found = []
        for block in shared:
            pages = [(blocks[block], self._pages[block][blocks[block]]) for blocks in held]
            occurrences = [
                page.occurrences_of(token, positions[block, first])
                for token, (first, page) in zip(tokens, pages, strict=True)
            ]
            places = match_phrase(occurrences)
            found.append(self._blocks[block].start + self._alive(block, TermPostings(places, places, places)).places)
        return found

    def _read_positions(self, pages: set[tuple[int, bytes]]) -> dict[tuple[int, bytes], bytes]:
        wanted = sorted(pages)
        if not wanted:
            return {}
        found = self._now.rows(_POSITIONS, [block for block, _ in wanted], [first for _, first in wanted])
        return {(block, first): positions for block, first, positions in found}

    def _content(self, block: int) -> BlockContent:
        return self._cache.get(self._now, [block])[block]


def _tokens_of(term: Term) -> Iterator[bytes]:
    """Yield the terms that a term of a query is looked up by."""
    for text in (encode_names(term.surface), term.surface, *term.also, " ".join(term.parts)):
        yield from map(to_bytes, index_terms(text))
