"""The terms of the index: which chunks hold a word, a name or a beginning, and how much each is about it.

Not Postgres's own full-text search: docs/decisions/README.md says why.

New chunks become a *block*, together with the smaller blocks before it. A block never changes, but for the list of its
chunks that are gone. It knows a chunk by its *place*, from 0 on. Its occurrences are sorted by term and place, and lie
in pages of about 4 KB; positions, which only phrases need, lie beside them. Blocks follow each other in the order of
their chunks' numbers; the *index* of a chunk is its place in all blocks end to end.

The saturation of a term in a chunk is what FTS5's ``bm25()`` of that term is without its idf, so that both stores give
the same scores.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy

from mdrecall.extras.postgres.connect import Transaction
from mdrecall.extras.postgres.schema import to_bytes, to_columns, to_text
from mdrecall.store.common import ROW_BUDGET, Wanted, encode_names
from mdrecall.text.index_terms import index_terms
from mdrecall.types.search import ChunkRows, Term

#: A place has 15 bits. One more says that a term occurs among the names.
_PLACE_BITS = 15
MAX_CHUNKS = 1 << _PLACE_BITS
_PLACE, _AMONG_NAMES = MAX_CHUNKS - 1, MAX_CHUNKS
#: About as many bytes of places go into a page; a term with more has a page of its own.
_PAGE_BYTES = 4096
#: The positions of each column of a chunk begin here: far enough apart that no phrase reaches from one into the next.
#: A chunk is cut at a few thousand characters, so no column has as many terms.
_COLUMN = 20_000
#: The place of an occurrence in all text: the index of its chunk times this, and its position, which is below.
_CHUNK = 1 << 16
#: A block has fewer chunks than the limit of its size class. There are few blocks of each class for a search to read,
#: and a chunk is written once or a few times in each class.
_LIMITS = (64, 512, 4_096, 8_192, 16_384, MAX_CHUNKS + 1)
#: A block with this share of dead entries is written again without them.
_DEAD_SHARE = 4
_LIST = """
    SELECT block, first, last, size, octet_length(dead) / 8 FROM mdrecall.blocks
    WHERE workspace_id=%s AND gen=%s ORDER BY first
"""
_WHOLE = """
    SELECT ids, lengths, dead,
        ARRAY(SELECT postings FROM mdrecall.pages p WHERE p.workspace_id = b.workspace_id AND p.gen = b.gen
            AND p.block = b.block ORDER BY p.first),
        ARRAY(SELECT positions FROM mdrecall.pages p WHERE p.workspace_id = b.workspace_id AND p.gen = b.gen
            AND p.block = b.block ORDER BY p.first)
    FROM mdrecall.blocks b WHERE workspace_id=%s AND gen=%s AND block = ANY(%s) ORDER BY first
"""
_REMOVE = """
    UPDATE mdrecall.blocks SET dead = dead || gone.ids FROM (
        SELECT block, string_agg(int8send(number), '') AS ids FROM mdrecall.blocks, unnest(%s::int8[]) number
        WHERE workspace_id=%s AND gen=%s AND number BETWEEN first AND last GROUP BY block) gone
    WHERE workspace_id=%s AND gen=%s AND blocks.block = gone.block
    RETURNING blocks.block, first, last, size, octet_length(dead) / 8
"""
# A block and its pages instead of others. Not by COPY, which Postgres does not allow where a policy guards the rows.
_REPLACE = """
    WITH old_pages AS (DELETE FROM mdrecall.pages WHERE workspace_id=%s AND gen=%s AND block = ANY(%s)),
    old AS (DELETE FROM mdrecall.blocks WHERE workspace_id=%s AND gen=%s AND block = ANY(%s)),
    added AS (
        INSERT INTO mdrecall.blocks(workspace_id, gen, block, first, last, size, ids, lengths) SELECT %s, %s, own.*
        FROM unnest(%b::int8[], %b::int8[], %b::int8[], %b::int4[], %b::bytea[], %b::bytea[]) own)
    INSERT INTO mdrecall.pages(workspace_id, gen, block, first, postings, positions)
    SELECT %s, %s, %s, page.* FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[]) page
"""


#: The terms of a chunk in reading order: of its text, its names, and its title.
ChunkTerms: TypeAlias = tuple[Sequence[str], Sequence[str], Sequence[str]]


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


class Occurrences(NamedTuple):
    """All occurrences of terms in a block, sorted by term and place."""

    terms: list[bytes]
    """Every term once, sorted by its bytes."""
    counts: Any
    """How often each term occurs."""
    places: Any
    """The chunk of each occurrence."""
    positions: Any


def add_chunks(now: Transaction, ids: Sequence[int], terms: Sequence[ChunkTerms]) -> None:
    """Add the terms of new chunks, whose numbers are larger than all others, and merge small blocks."""
    for start in range(0, len(ids), MAX_CHUNKS):
        own = slice(start, start + MAX_CHUNKS)
        merged = choose_to_merge([BlockRow(*row) for row in now.rows(_LIST)], len(ids[own]))
        _write_block(now, merged, make_occurrences(terms[own]), ids[own], [sum(map(len, each)) for each in terms[own]])


def remove_chunks(now: Transaction, ids: Iterable[int]) -> None:
    """Mark chunks as dead."""
    values = (list(ids), *(now.workspace, now.gen) * 2)
    found = [BlockRow(*row) for row in now.db.execute(_REMOVE, values, binary=True)]
    now.thinned |= {row.block: row for row in found if row.dead_count * _DEAD_SHARE > row.size}


def drop_dead(now: Transaction, *, is_any: bool = False) -> None:
    """Write blocks again that are dead to a large part, or to any, unless new chunks were merged with them."""
    rows = [row for row in map(BlockRow._make, now.rows(_LIST)) if row.dead_count] if is_any else now.thinned.values()
    for row in list(rows):
        _write_block(now, [row], make_occurrences(()), (), ())


def choose_to_merge(blocks: Sequence[BlockRow], count: int) -> Sequence[BlockRow]:
    """Return the newest blocks that are written again with new chunks: those that are no larger, as far as they fit."""
    left = len(blocks)
    while left and _class_of(more := blocks[left - 1].alive) <= _class_of(count) and count + more <= MAX_CHUNKS:
        left, count = left - 1, count + more
    return blocks[left:]


def _class_of(size: int) -> int:
    return bisect_left(_LIMITS, size + 1)


def _write_block(
    now: Transaction, merged: Sequence[BlockRow], fresh: Occurrences, ids: Sequence[int], lengths: Sequence[int]
) -> None:
    """Write a block with the living chunks of some blocks and new ones after them; drop those blocks."""
    parts, all_ids, all_lengths, count = [], [], [], 0
    dropped = [row.block for row in merged]
    for own_ids, own_lengths, dead, pages, positions in now.rows(_WHOLE, dropped) if dropped else ():
        numbers = numpy.frombuffer(own_ids, "<i8")
        alive = numpy.isin(numbers, numpy.frombuffer(dead, ">i8"), invert=True)
        parts.append((read_pages(pages, positions), numpy.where(alive, numpy.cumsum(alive) - 1 + count, -1)))
        all_ids.append(numbers[alive])
        all_lengths.append(numpy.frombuffer(own_lengths, "<u2")[alive])
        count += int(alive.sum())
    numbers = numpy.concatenate([*all_ids, numpy.array(ids, "<i8")])
    sizes = numpy.concatenate([*all_lengths, numpy.array(lengths, "<u2")]).tobytes()
    joined = merge_occurrences([*parts, (fresh, numpy.arange(len(ids)) + count)]) if parts else fresh
    own, block = (now.workspace, now.gen), now.reserve("next_block", 1)
    ends = numbers[[0, -1]].tolist() if len(numbers) else ()
    rows = to_columns([(block, *ends, len(numbers), numbers.tobytes(), sizes)] if ends else [], 6)
    pages = to_columns(list(write_pages(joined)), 3)
    now.run(_REPLACE, dropped, *own, dropped, *own, *rows, *own, block, *pages)
    for number in dropped:
        now.thinned.pop(number, None)


def make_occurrences(chunks: Sequence[ChunkTerms]) -> Occurrences:
    """Return the occurrences of terms in chunks, whose places are 0, 1, 2 and so on."""
    columns = [column for chunk in chunks for column in chunk]
    lengths = numpy.array([len(column) for column in columns], numpy.int64)
    numbers = _Numbers()
    terms = numpy.fromiter(map(numbers.__getitem__, chain.from_iterable(columns)), numpy.int64, int(lengths.sum()))
    owners = numpy.repeat(numpy.arange(len(columns)), lengths)
    places, kinds = numpy.divmod(owners, 3)
    positions = numpy.arange(len(terms)) - (numpy.cumsum(lengths) - lengths)[owners] + kinds * _COLUMN
    return _sort([to_bytes(term) for term in numbers], terms, places | (kinds == 1) * _AMONG_NAMES, positions)


def merge_occurrences(blocks: Sequence[tuple[Occurrences, Any]]) -> Occurrences:
    """Return the occurrences of several blocks as one; each comes with the new place of each of its chunks, or -1."""
    numbers = _Numbers()
    known = [numpy.array([numbers[term] for term in block.terms], numpy.int64) for block, _ in blocks]
    terms = numpy.concatenate([numpy.repeat(own, block.counts) for own, (block, _) in zip(known, blocks, strict=True)])
    moved = [moved[block.places & _PLACE] | (block.places & _AMONG_NAMES) for block, moved in blocks]
    places = numpy.concatenate(moved)
    stays = places >= 0
    positions = numpy.concatenate([block.positions for block, _ in blocks])
    return _sort(list(numbers), terms[stays], places[stays], positions[stays])


class _Numbers(defaultdict[Any, int]):
    """Gives every term a number when it is first asked for."""

    def __missing__(self, term: Any) -> int:
        self[term] = number = len(self)
        return number


def _sort(names: list[bytes], terms: Any, places: Any, positions: Any) -> Occurrences:
    """Return occurrences by their terms, which are numbers of names; those of a term stay in their order."""
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = numpy.empty(len(names), numpy.int64)
    rank[order] = numpy.arange(len(order))
    ranks = rank[terms]
    by_term = numpy.argsort(ranks, kind="stable")
    counts = numpy.bincount(ranks, minlength=len(names))
    held = [name for name, count in zip((names[each] for each in order), counts.tolist(), strict=True) if count]
    columns = (column[by_term].astype("<u2") for column in (places, positions))
    return Occurrences(held, counts[counts > 0], *columns)


def write_pages(block: Occurrences) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the pages of a block in the order of their terms: the first term, all terms with places, and positions."""
    ends = list(accumulate(block.counts.tolist(), initial=0))
    first, size = 0, 0
    for number, term in enumerate(block.terms):
        more = len(term) + 6 + 2 * (ends[number + 1] - ends[number])
        if size and size + more > _PAGE_BYTES:
            yield _write_page(block, ends, first, number)
            first, size = number, 0
        size += more
    if block.terms:
        yield _write_page(block, ends, first, len(block.terms))


def _write_page(block: Occurrences, ends: Sequence[int], first: int, last: int) -> tuple[bytes, bytes, bytes]:
    terms, own = block.terms[first:last], slice(ends[first], ends[last])
    sizes = numpy.array([len(terms), *map(len, terms)], "<u2"), block.counts[first:last].astype("<u4")
    places, positions = block.places[own].tobytes(), block.positions[own].tobytes()
    return terms[0], b"".join((*map(bytes, sizes), *terms, places)), positions


class Page(NamedTuple):
    """A page as it is read; the terms that it holds stand in their order, end to end."""

    text: bytes
    ends: list[int]
    """Where each term ends in the text; the one before the first, which is none, ends where the first begins."""
    starts: list[int]
    """Where the occurrences of each term begin, and where the last one's end."""
    places: Any

    def find(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, slice]]:
        """Yield the terms from one to another that is not among them, each with where its occurrences are."""
        # Most searches want one term of a page, so the others are not taken apart.
        for number in range(bisect_left(range(len(self.ends) - 1), start, key=self._term_at), len(self.ends) - 1):
            term = self._term_at(number)
            if term >= end:
                return
            yield term, slice(self.starts[number], self.starts[number + 1])

    def _term_at(self, number: int) -> bytes:
        return self.text[self.ends[number] : self.ends[number + 1]]


def read_page(data: bytes) -> Page:
    """Return a page from what is stored."""
    count = int.from_bytes(data[:2], "little")
    ends = list(accumulate(numpy.frombuffer(data, "<u2", count, 2).tolist(), initial=2 + 6 * count))
    starts = list(accumulate(numpy.frombuffer(data, "<u4", count, 2 + 2 * count).tolist(), initial=0))
    return Page(data, ends, starts, numpy.frombuffer(data, "<u2", starts[-1], ends[-1]))


def read_pages(pages: Iterable[bytes], positions: Iterable[bytes]) -> Occurrences:
    """Return all occurrences of a block from its pages."""
    read = [read_page(page) for page in pages]
    return Occurrences(
        [page.text[begin:end] for page in read for begin, end in pairwise(page.ends)],
        numpy.array([end - begin for page in read for begin, end in pairwise(page.starts)], numpy.int64),
        numpy.concatenate([_NO_PLACES, *(page.places for page in read)]),
        numpy.frombuffer(b"".join(positions), "<u2"),
    )


#: bm25's k1 and b, as in FTS5, and what an occurrence among the names counts.
_K1, _B, _NAMED = 1.2, 0.75, 0.7
#: Between a term and every longer one; above every term that begins with another.
_NEXT, _LAST = b"\0", b"\xff" * 4
#: No places of a block, and no chunks of all blocks.
_NO_PLACES, _NOTHING = numpy.zeros(0, "<u2"), numpy.zeros(0, numpy.int64)
# All blocks, those that are not known yet with their chunks, and of each block the page that would hold each term.
_PAGES = """
    SELECT first AS at, block, NULL::bytea, NULL::bool, NULL::bytea, dead,
        CASE WHEN block = ANY(%s) THEN NULL ELSE ids END, CASE WHEN block = ANY(%s) THEN NULL ELSE lengths END
    FROM mdrecall.blocks WHERE workspace_id=%s AND gen=%s
    UNION ALL
    SELECT b.first, b.block, term, in_phrase, page.postings, CASE WHEN in_phrase THEN page.positions END, NULL, NULL
    FROM mdrecall.blocks b, unnest(%b::bytea[], %b::bool[]) wanted(term, in_phrase), LATERAL (
        SELECT p.postings, p.positions FROM mdrecall.pages p
        WHERE p.workspace_id = b.workspace_id AND p.gen = b.gen AND p.block = b.block AND p.first <= term
        ORDER BY p.first DESC LIMIT 1) page
    WHERE b.workspace_id=%s AND b.gen=%s
    ORDER BY at
"""
# Of each block all pages that may hold terms from one to another.
_RANGE = """
    SELECT p.block, p.postings FROM mdrecall.blocks b JOIN mdrecall.pages p
        ON p.workspace_id = b.workspace_id AND p.gen = b.gen AND p.block = b.block
    WHERE b.workspace_id=%s AND b.gen=%s AND p.first < %s AND p.first >= coalesce((
        SELECT max(q.first) FROM mdrecall.pages q
        WHERE q.workspace_id = b.workspace_id AND q.gen = b.gen AND q.block = b.block AND q.first <= %s), '')
"""
#: A term of the index, and True if it is looked for as part of a phrase, which takes its positions.
Token: TypeAlias = tuple[bytes, bool]
#: The numbers and the lengths of the chunks of blocks, by generation and block; they never change.
Contents: TypeAlias = dict[tuple[int, int], tuple[Any, Any]]


class PostgresTerms:
    """The terms of the index, as a transaction sees them: a ``TermIndex``."""

    def __init__(self, now: Transaction, known: Contents, terms: Sequence[Term]) -> None:
        """Read the blocks that are not known, and the pages of all terms of a query at once."""
        self._now = now
        #: Where tokens occur: the block, the places, and the positions if they were asked for.
        self._held: dict[Token, list[tuple[int, Any, Any]]] = {}
        self._scored: dict[bytes, tuple[Any, Any]] = {}
        self._found: dict[Wanted, Any] = {}
        #: The blocks as this transaction sees them.
        self.contents: Contents = {}
        #: The index of the first chunk of each block.
        self._starts: dict[int, int] = {}
        dead, count = [], 0
        texts = [text for term in terms for text in _list_texts(term)]
        for block, gone, ids, lengths in self._read(known, {token for text in texts for token in _split(text)}):
            read = (numpy.frombuffer(ids, "<i8"), numpy.frombuffer(lengths, "<u2")) if ids else known[now.gen, block]
            self.contents[now.gen, block], self._starts[block] = read, count
            count += len(read[0])
            dead.append(numpy.frombuffer(gone, ">i8"))
        columns = zip((_NOTHING, _NO_PLACES), *self.contents.values(), strict=True)
        self._ids, self._lengths = map(numpy.concatenate, columns)
        self._alive = numpy.ones(count, bool)
        self._alive[numpy.searchsorted(self._ids, numpy.concatenate([_NOTHING, *dead]))] = False
        self._average = now.state.tokens / now.state.chunks if now.state.chunks else 1.0

    def _read(self, known: Contents, tokens: set[Token]) -> list[tuple[Any, ...]]:
        """Read where tokens occur, and return what is stored of all blocks, in their order."""
        self._held |= {token: [] for token in tokens}
        own, blocks = (self._now.workspace, self._now.gen), [block for gen, block in known if gen == self._now.gen]
        rows = self._now.db.execute(
            _PAGES, (blocks, blocks, *own, *to_columns(sorted(tokens), 2), *own), binary=True
        ).fetchall()
        for _, block, term, in_phrase, data, positions, *_ in rows:
            if term is not None:
                page = read_page(data)
                for _, found in page.find(term, term + _NEXT):
                    beside = numpy.frombuffer(positions, "<u2")[found] if in_phrase else None
                    self._held[term, in_phrase].append((block, page.places[found], beside))
        return [(row[1], *row[5:]) for row in rows if row[2] is None]

    def count(self, wanted: Wanted) -> int:
        return len(self._find_all(wanted))

    def score(self, word: str, held_by: int) -> Mapping[int, float]:
        tokens = _split(word)
        if len(tokens) != 1:
            return dict.fromkeys(self.find(((word,), False)), 1.0)
        found, often = (column[-ROW_BUDGET:] for column in self._weigh(tokens[0][0]))
        saturations = often / (often + _K1 * (1 - _B + _B * self._lengths[found] / self._average))
        return ChunkRows(self._ids[found], saturations)

    def find(self, wanted: Wanted, among: Sequence[Wanted] = ()) -> list[int]:
        found = self._find_all(wanted)
        if among:
            found = found[self._mark([self._find_all(each) for each in among])[found]]
        ids: list[int] = self._ids[found[: -1 - ROW_BUDGET : -1]].tolist()
        return ids

    def terms_with(self, beginning: str) -> list[str]:
        found = self._find_range(to_bytes(beginning))
        return [to_text(term) for term in sorted({term for term, chunks in found if len(chunks)})]

    def _find_range(self, start: bytes) -> Iterator[tuple[bytes, Any]]:
        """Yield the terms that begin with some bytes, each with the indexes of chunks that hold it, of each block."""
        for block, data in self._now.rows(_RANGE, start + _LAST, start):
            page = read_page(data)
            for term, found in page.find(start, start + _LAST):
                chunks = numpy.unique(self._locate(block, page.places[found]))
                yield term, chunks[self._alive[chunks]]

    def _find_all(self, wanted: Wanted) -> Any:
        """Return the indexes of all chunks that hold any of some phrases, sorted."""
        if wanted not in self._found:
            any_of, is_prefix = wanted
            parts = [part for phrase in any_of for part in self._find_phrase(_split(phrase), is_prefix)]
            self._found[wanted] = parts[0] if len(parts) == 1 else numpy.flatnonzero(self._mark(parts))
        return self._found[wanted]

    def _mark(self, parts: Sequence[Any]) -> Any:
        """Return for every chunk if it is in any of some parts."""
        marked = numpy.zeros(len(self._ids), bool)
        for part in parts:
            marked[part] = True
        return marked

    def _find_phrase(self, tokens: Sequence[Token], is_prefix: bool) -> list[Any]:
        """Return the indexes of the chunks that hold a phrase, perhaps in several parts."""
        if len(tokens) > 1:
            return [self._find_adjacent(tokens)]
        if is_prefix:
            return [chunks for term, _ in tokens for _, chunks in self._find_range(term)]
        return [self._weigh(term)[0] for term, _ in tokens]

    def _hold(self, token: Token) -> list[tuple[int, Any, Any]]:
        if token not in self._held:
            self._read(self.contents, {token})
        return self._held[token]

    def _locate(self, block: int, places: Any) -> Any:
        """Return the indexes of the chunks at some places of a block."""
        return (places & _PLACE).astype(numpy.int64) + self._starts[block]

    def _weigh(self, term: bytes) -> tuple[Any, Any]:
        """Return the indexes of the chunks that hold a term, sorted, and how often each does."""
        if term not in self._scored:
            all_found, all_often = [_NOTHING], [_NOTHING.astype(numpy.float64)]
            for block, places, _ in self._hold((term, False)):
                own = places & _PLACE
                begins = numpy.flatnonzero(numpy.append(True, own[1:] != own[:-1]))
                often = numpy.diff(begins, append=len(own)).astype(numpy.float64)
                if places.max() > _PLACE:
                    often -= (1 - _NAMED) * numpy.add.reduceat(places >> _PLACE_BITS, begins)
                all_found.append(self._locate(block, own[begins]))
                all_often.append(often)
            found, often = numpy.concatenate(all_found), numpy.concatenate(all_often)
            alive = self._alive[found]
            self._scored[term] = found[alive], often[alive]
        return self._scored[term]

    def _find_adjacent(self, tokens: Sequence[Token]) -> Any:
        """Return the indexes of the chunks where terms follow each other in one column, sorted."""
        held = [
            [
                self._locate(block, places) * _CHUNK + positions - offset
                for block, places, positions in self._hold(token)
            ]
            for offset, token in enumerate(tokens)
        ]
        each = (numpy.concatenate([_NOTHING, *parts]) for parts in held)
        found = numpy.unique(reduce(partial(numpy.intersect1d, assume_unique=True), each) // _CHUNK)
        return found[self._alive[found]]


def _list_texts(term: Term) -> tuple[str, ...]:
    """Return what a term of a query is looked up by: as a name, as a word, by other forms and by its parts."""
    return encode_names(term.surface), term.surface, *term.also, " ".join(term.parts)


def _split(text: str) -> list[Token]:
    """Return the terms of a text as they are looked up."""
    terms = index_terms(text)
    return [(to_bytes(term), len(terms) > 1) for term in terms]
