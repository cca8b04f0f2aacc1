"""Where terms occur in a block of chunks: made from texts, merged, cut into pages, and read back.

A block holds up to 65,536 chunks and never changes. A chunk is known by its *place* in the block. The postings of a
block are sorted by term and then by place; they are stored in pages of about 4 KB, each with the postings of the terms
from its first one on. Beside each page stand the positions of all occurrences, which only names are looked up by.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy

#: Places are numbers of two bytes.
MAX_CHUNKS = 1 << 16
#: About as many bytes of postings go into a page; a term with more has a page of its own.
_PAGE_BYTES = 4096
#: A place has two bytes and each of two counts one, or two where a term of the page occurs very often in a chunk.
_POSTING_BYTES = 4
#: Set in the number of terms of a page whose counts have one byte, and of one that has no term among the names. Most
#: have none: a word of the text and a name are different terms.
_NARROW, _UNNAMED = 1 << 15, 1 << 14
#: The positions of each column of a chunk begin here: far enough apart that no phrase reaches from one into the next.
#: A chunk is cut at a few thousand characters, so no column has as many terms.
_COLUMN = 20_000
#: A step from one position to the next that is this large or larger does not fit into a byte.
_LARGE = 255
#: An occurrence is the place of its chunk times this, and its position. Positions end well below it.
_OCCURRENCE = 1 << 16


class ChunkTerms(NamedTuple):
    """The terms of a chunk in reading order: of its text, its names, and its title."""

    words: Sequence[str]
    names: Sequence[str]
    title: Sequence[str]

    @property
    def length(self) -> int:
        """How many terms it has."""
        return len(self.words) + len(self.names) + len(self.title)


class Postings(NamedTuple):
    """All postings of a block."""

    terms: list[bytes]
    """Every term once, sorted by its bytes."""
    starts: Any
    """Where the postings of each term begin, and where the last one's end."""
    places: Any
    plain: Any
    """How often the term occurs in the text and the title."""
    named: Any
    """How often it occurs among the names."""
    steps: Any
    """Where it occurs, for all postings end to end: the first position of each, and from each to the next."""


#: Which fields have a number for each posting.
_COLUMNS = (2, 3, 4)


class TermPostings(NamedTuple):
    """The postings of one term in a block."""

    places: Any
    plain: Any
    named: Any


class Page(NamedTuple):
    """A page as it is stored."""

    first: bytes
    postings: bytes
    positions: bytes


def make_postings(chunks: Iterable[ChunkTerms]) -> Postings:
    """Return the postings of chunks, whose places are 0, 1, 2 and so on."""
    terms: list[str] = []
    counts: list[int] = []
    for chunk in chunks:
        for found in (chunk.words, chunk.title, chunk.names):
            terms += found
            counts.append(len(found))
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    term_numbers = numpy.fromiter(map(numbers.__getitem__, terms), numpy.int64, len(terms))
    lengths = numpy.array(counts, numpy.int64)
    columns = numpy.repeat(numpy.arange(len(counts)), lengths)
    place_of, column_of = numpy.divmod(columns, 3)
    positions = numpy.arange(len(terms)) - _add_up(lengths)[columns] + column_of * _COLUMN
    names = [term.encode("utf-8", "surrogatepass") for term in numbers]
    return _sort(names, term_numbers, place_of, positions.astype(numpy.uint16), column_of == 2)


def merge_postings(blocks: Sequence[tuple[Postings, Any]]) -> Postings:
    """Return the postings of several blocks as one; each comes with the new place of each of its chunks, or -1.

    The new places grow from block to block, so what a term has in each of them is only put end to end.
    """
    parts = [_move(block, moved) for block, moved in blocks]
    terms = sorted(set().union(*(part.terms for part in parts)))
    numbers = {term: number for number, term in enumerate(terms)}
    known = [numpy.fromiter((numbers[term] for term in part.terms), numpy.int64) for part in parts]
    counts = [numpy.diff(part.starts) for part in parts]
    ends = [_add_up(part.plain.astype(numpy.int64) + part.named)[part.starts] for part in parts]
    places, plain, named = (_join(known, counts, [part[column] for part in parts], len(terms)) for column in _COLUMNS)
    steps = _join(known, [numpy.diff(each) for each in ends], [part.steps for part in parts], len(terms))
    return Postings(terms, _add_up(_sum_by_term(known, counts, len(terms))), places, plain, named, steps)


def _move(block: Postings, moved: Any) -> Postings:
    """Return postings with the new places of their chunks, without those of chunks that have none."""
    places = moved[block.places]
    stays = places >= 0
    if stays.all():
        return block._replace(places=places.astype(numpy.uint16))
    counts = numpy.add.reduceat(stays, block.starts[:-1], dtype=numpy.int64)
    occurrences = numpy.repeat(stays, block.plain.astype(numpy.int64) + block.named)
    return Postings(
        [term for term, count in zip(block.terms, counts.tolist(), strict=True) if count],
        _add_up(counts[counts > 0]),
        places[stays].astype(numpy.uint16),
        block.plain[stays],
        block.named[stays],
        block.steps[occurrences],
    )


def _sum_by_term(known: Sequence[Any], counts: Sequence[Any], size: int) -> Any:
    total = numpy.zeros(size, numpy.int64)
    for own, count in zip(known, counts, strict=True):
        total[own] += count
    return total


def _join(known: Sequence[Any], counts: Sequence[Any], columns: Sequence[Any], size: int) -> Any:
    """Return the runs of each term in several columns end to end, in the order of the terms and then of the columns.

    ``known`` has the number of the term of each run of a column, ``counts`` how long it is.
    """
    starts = _add_up(_sum_by_term(known, counts, size))
    joined = numpy.zeros(int(starts[-1]), numpy.uint16)
    begins = starts[:-1].copy()
    for own, count, column in zip(known, counts, columns, strict=True):
        joined[numpy.repeat(begins[own] - _add_up(count)[:-1], count) + numpy.arange(len(column))] = column
        begins[own] += count
    return joined


def _sort(names: list[bytes], term_of: Any, place_of: Any, positions: Any, is_named: Any) -> Postings:
    """Return postings from one row for each occurrence."""
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = numpy.zeros(len(names), numpy.int64)
    rank[order] = numpy.arange(len(order))
    key = rank[term_of] * MAX_CHUNKS + place_of
    by_key = numpy.argsort(key, kind="stable")
    key, positions, is_named = key[by_key], positions[by_key], is_named[by_key]
    begins = numpy.flatnonzero(numpy.concatenate([[True], key[1:] != key[:-1]])) if len(key) else numpy.zeros(0, int)
    counts = numpy.diff(numpy.append(begins, len(key)))
    named = numpy.add.reduceat(is_named.astype(numpy.int64), begins) if len(key) else numpy.zeros(0, int)
    ranks = key[begins] // MAX_CHUNKS
    steps = numpy.diff(positions, prepend=positions[:1])
    steps[begins] = positions[begins]
    return Postings(
        [names[number] for number in order],
        numpy.searchsorted(ranks, numpy.arange(len(order) + 1)),
        (key[begins] % MAX_CHUNKS).astype(numpy.uint16),
        (counts - named).astype(numpy.uint16),
        named.astype(numpy.uint16),
        steps.astype(numpy.uint16),
    )


def write_pages(block: Postings) -> Iterator[Page]:
    """Yield the pages of a block, in the order of their terms."""
    ends = _add_up(block.plain.astype(numpy.int64) + block.named)
    starts = block.starts.tolist()
    first, size = 0, 0
    for number, term in enumerate(block.terms):
        more = len(term) + 6 + _POSTING_BYTES * (starts[number + 1] - starts[number])
        if size and size + more > _PAGE_BYTES:
            yield _write_page(block, ends, first, number)
            first, size = number, 0
        size += more
    if block.terms:
        yield _write_page(block, ends, first, len(block.terms))


def _write_page(block: Postings, ends: Any, first: int, last: int) -> Page:
    terms = block.terms[first:last]
    begin, end = int(block.starts[first]), int(block.starts[last])
    counts = numpy.diff(block.starts[first : last + 1]).astype("<u4")
    lengths = numpy.array([len(term) for term in terms], "<u2")
    plain, named = block.plain[begin:end], block.named[begin:end]
    often = (plain, named) if named.any() else (plain,)
    is_narrow = all(int(column.max(initial=0)) < 256 for column in often)
    head = len(terms) | (_NARROW if is_narrow else 0) | (_UNNAMED if len(often) == 1 else 0)
    columns = (column.astype("<u1" if is_narrow else "<u2").tobytes() for column in often)
    places = block.places[begin:end].astype("<u2").tobytes()
    postings = b"".join(
        (head.to_bytes(2, "little"), lengths.tobytes(), counts.tobytes(), b"".join(terms), places, *columns)
    )
    return Page(terms[0], postings, _pack_steps(block.steps[int(ends[begin]) : int(ends[end])]))


def _pack_steps(steps: Any) -> bytes:
    """Return small steps in a byte each, and the few larger ones behind them."""
    is_large = steps >= _LARGE
    return bytes(numpy.where(is_large, _LARGE, steps).astype(numpy.uint8)) + bytes(steps[is_large].astype("<u2"))


def _unpack_steps(data: bytes, count: int) -> Any:
    steps = numpy.frombuffer(data, numpy.uint8, count).astype(numpy.uint16)
    steps[steps == _LARGE] = numpy.frombuffer(data, "<u2", offset=count)
    return steps


class ReadPage(NamedTuple):
    """A page as it is read; the terms that it holds stand in their order, end to end."""

    text: bytes
    ends: list[int]
    """Where each term ends in the text; the one before the first, which is none, ends where the first begins."""
    starts: list[int]
    places: Any
    plain: Any
    named: Any

    @property
    def counts(self) -> Any:
        """How often each term occurs in each of its chunks."""
        return self.plain.astype(numpy.int64) + self.named

    @property
    def terms(self) -> list[bytes]:
        """All its terms."""
        return [self.text[begin:end] for begin, end in pairwise(self.ends)]

    def term_at(self, number: int) -> bytes:
        """Return a term by its place in the page."""
        return self.text[self.ends[number] : self.ends[number + 1]]

    def find(self, term: bytes) -> TermPostings | None:
        """Return the postings of a term; None if it does not occur."""
        number = self._find_place(term)
        return self.at(number) if number < len(self.ends) - 1 and self.term_at(number) == term else None

    def _find_place(self, term: bytes) -> int:
        # Most searches want one term of a page, so the others are not taken apart.
        return bisect_left(range(len(self.ends) - 1), term, key=self.term_at)

    def at(self, number: int) -> TermPostings:
        """Return the postings of a term by its place in the page."""
        own = slice(self.starts[number], self.starts[number + 1])
        return TermPostings(self.places[own], self.plain[own], self.named[own])

    def find_range(self, start: bytes) -> range:
        """Return the places of all terms that begin with some bytes."""
        return range(self._find_place(start), self._find_place(start + b"\xff" * 4))

    def occurrences_of(self, term: bytes, positions: bytes) -> Any:
        """Return the occurrences of a term on this page, sorted: each is its chunk's place and its position there."""
        number = self._find_place(term)
        begin, end = self.starts[number], self.starts[number + 1]
        ends = _add_up(self.counts)
        counts = self.counts[begin:end]
        total = _add_up(_unpack_steps(positions, int(ends[-1]))[int(ends[begin]) : int(ends[end])])
        starts = ends[begin:end] - ends[begin]
        own = total[1:] - numpy.repeat(total[starts], counts)
        return numpy.repeat(self.places[begin:end].astype(numpy.int64), counts) * _OCCURRENCE + own


def read_page(data: bytes) -> ReadPage:
    """Return a stored page."""
    head = int.from_bytes(data[:2], "little")
    count, width = head & ~(_NARROW | _UNNAMED), 1 if head & _NARROW else 2
    ends = list(accumulate(numpy.frombuffer(data, "<u2", count, 2).tolist(), initial=2 + 6 * count))
    starts = list(accumulate(numpy.frombuffer(data, "<u4", count, 2 + 2 * count).tolist(), initial=0))
    at, total = ends[-1], starts[-1]
    places = numpy.frombuffer(data, "<u2", total, at)
    at += 2 * total
    plain = numpy.frombuffer(data, f"<u{width}", total, at)
    if head & _UNNAMED:
        named = numpy.zeros(total, plain.dtype)
    else:
        named = numpy.frombuffer(data, f"<u{width}", total, at + width * total)
    return ReadPage(data, ends, starts, places, plain, named)


def read_block(pages: Iterable[tuple[bytes, bytes]]) -> Postings:
    """Return all postings of a block from its pages and their positions, in the order of their terms."""
    read = [(page := read_page(postings), _unpack_steps(steps, int(page.counts.sum()))) for postings, steps in pages]
    if not read:
        empty = numpy.zeros(0, numpy.uint16)
        return Postings([], numpy.zeros(1, numpy.int64), empty, empty, empty, empty)
    counts = numpy.concatenate([numpy.diff(page.starts) for page, _ in read])
    return Postings(
        [term for page, _ in read for term in page.terms],
        _add_up(counts),
        numpy.concatenate([page.places for page, _ in read]),
        numpy.concatenate([page.plain for page, _ in read]).astype(numpy.uint16),
        numpy.concatenate([page.named for page, _ in read]).astype(numpy.uint16),
        numpy.concatenate([steps for _, steps in read]),
    )


def _add_up(counts: Any) -> Any:
    """Return where each of some runs begins if they stand end to end, and where the last one ends."""
    return numpy.concatenate([numpy.zeros(1, numpy.int64), numpy.cumsum(counts, dtype=numpy.int64)])


def match_phrase(occurrences: Sequence[Any]) -> Any:
    """Return the places of the chunks where terms follow each other, sorted; each comes with its occurrences."""
    starts = occurrences[0]
    for offset, found in enumerate(occurrences[1:], start=1):
        starts = numpy.intersect1d(starts, found - offset, assume_unique=True)
    places = starts // _OCCURRENCE
    return places[numpy.flatnonzero(numpy.diff(places, prepend=-1))]
