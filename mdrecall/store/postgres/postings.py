"""Where terms occur in a block of chunks: made from texts, merged, cut into pages, and read back.

A block holds up to 65,536 chunks and never changes. A chunk is known by its *place* in the block. The postings of a
block are sorted by term and then by place; they are stored in pages of about 4 KB, each with the postings of the terms
from its first one on. Beside each page stand the positions of all occurrences, which only names are looked up by.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy

#: Places are numbers of two bytes.
MAX_CHUNKS = 1 << 16
#: About as many bytes of postings go into a page; a term with more has a page of its own.
_PAGE_BYTES = 4096
#: Places and counts are two bytes each, and there are two counts.
_POSTING_BYTES = 6
#: The positions of each column of a chunk begin here: far enough apart that no phrase reaches from one into the next.
#: A chunk is cut at a few thousand characters, so no column has as many terms.
_COLUMN = 20_000


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
    positions: Any
    """Where it occurs, for all postings end to end; each has as many as both counts together."""


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
    places: list[int] = []
    positions: list[int] = []
    is_named: list[bool] = []
    for place, chunk in enumerate(chunks):
        for column, found in enumerate((chunk.words, chunk.title, chunk.names)):
            start, count = column * _COLUMN, len(found)
            terms += found
            places += [place] * count
            positions += range(start, start + count)
            is_named += [column == 2] * count
    numbers: dict[str, int] = {}
    term_numbers = [numbers.setdefault(term, len(numbers)) for term in terms]
    return _sort(
        [term.encode("utf-8", "surrogatepass") for term in numbers],
        numpy.array(term_numbers, numpy.int64),
        numpy.array(places, numpy.int64),
        numpy.array(positions, numpy.uint16),
        numpy.array(is_named, bool),
    )


def merge_postings(blocks: Sequence[tuple[Postings, Any]]) -> Postings:
    """Return the postings of several blocks as one; each comes with the new place of each of its chunks, or -1."""
    numbers: dict[bytes, int] = {}
    parts = []
    for block, moved in blocks:
        known = numpy.array([numbers.setdefault(term, len(numbers)) for term in block.terms], numpy.int64)
        counts = block.plain.astype(numpy.int64) + block.named
        term_of = numpy.repeat(numpy.repeat(known, numpy.diff(block.starts)), counts)
        place_of = numpy.repeat(moved[block.places], counts)
        # Within a posting the positions of names come last, because their column does.
        is_named = block.positions >= 2 * _COLUMN
        stays = place_of >= 0
        parts.append([column[stays] for column in (term_of, place_of, block.positions, is_named)])
    joined = [numpy.concatenate(columns) for columns in zip(*parts, strict=True)]
    return _sort(list(numbers), *joined)


def _sort(names: list[bytes], term_of: Any, place_of: Any, positions: Any, is_named: Any) -> Postings:
    """Return postings from one row for each occurrence."""
    used = numpy.unique(term_of)
    order = sorted(used.tolist(), key=names.__getitem__)
    rank = numpy.zeros(len(names), numpy.int64)
    rank[order] = numpy.arange(len(order))
    key = rank[term_of] * MAX_CHUNKS + place_of
    by_key = numpy.argsort(key, kind="stable")
    key, positions, is_named = key[by_key], positions[by_key], is_named[by_key]
    begins = numpy.flatnonzero(numpy.concatenate([[True], key[1:] != key[:-1]])) if len(key) else numpy.zeros(0, int)
    counts = numpy.diff(numpy.append(begins, len(key)))
    named = numpy.add.reduceat(is_named.astype(numpy.int64), begins) if len(key) else numpy.zeros(0, int)
    ranks = key[begins] // MAX_CHUNKS
    return Postings(
        [names[number] for number in order],
        numpy.searchsorted(ranks, numpy.arange(len(order) + 1)),
        (key[begins] % MAX_CHUNKS).astype(numpy.uint16),
        (counts - named).astype(numpy.uint16),
        named.astype(numpy.uint16),
        positions.astype(numpy.uint16),
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
    columns = (column[begin:end].astype("<u2").tobytes() for column in (block.places, block.plain, block.named))
    postings = b"".join(
        (len(terms).to_bytes(2, "little"), lengths.tobytes(), counts.tobytes(), b"".join(terms), *columns)
    )
    positions = block.positions[int(ends[begin]) : int(ends[end])].astype("<u2").tobytes()
    return Page(terms[0], postings, positions)


class ReadPage(NamedTuple):
    """A page as it is read; the terms that it holds stand in their order."""

    terms: list[bytes]
    starts: Any
    places: Any
    plain: Any
    named: Any

    def find(self, term: bytes) -> TermPostings | None:
        """Return the postings of a term; None if it does not occur."""
        number = bisect_left(self.terms, term)
        return self.at(number) if number < len(self.terms) and self.terms[number] == term else None

    def at(self, number: int) -> TermPostings:
        """Return the postings of a term by its place in the page."""
        own = slice(int(self.starts[number]), int(self.starts[number + 1]))
        return TermPostings(self.places[own], self.plain[own], self.named[own])

    def find_range(self, start: bytes) -> range:
        """Return the places of all terms that begin with some bytes."""
        return range(bisect_left(self.terms, start), bisect_right(self.terms, start + b"\xff" * 4))

    def positions_of(self, term: bytes, positions: bytes) -> dict[int, list[int]]:
        """Return where a term occurs in each chunk, by the chunk's place."""
        found = self.find(term)
        if found is None:
            return {}
        counts = self.plain.astype(numpy.int64) + self.named
        ends = _add_up(counts)
        begin = int(self.starts[bisect_left(self.terms, term)])
        where = numpy.frombuffer(positions, "<u2")
        return {
            place: where[int(ends[begin + number]) : int(ends[begin + number + 1])].tolist()
            for number, place in enumerate(found.places.tolist())
        }


def read_page(data: bytes) -> ReadPage:
    """Return a stored page."""
    count = int.from_bytes(data[:2], "little")
    lengths = numpy.frombuffer(data, "<u2", count, 2).tolist()
    counts = numpy.frombuffer(data, "<u4", count, 2 + 2 * count)
    at = 2 + 6 * count
    terms = []
    for length in lengths:
        terms.append(data[at : at + length])
        at += length
    total = int(counts.sum())
    columns = (numpy.frombuffer(data, "<u2", total, at + 2 * total * number) for number in range(3))
    return ReadPage(terms, _add_up(counts), *columns)


def read_block(pages: Iterable[tuple[bytes, bytes]]) -> Postings:
    """Return all postings of a block from its pages and their positions, in the order of their terms."""
    read = [(read_page(postings), numpy.frombuffer(positions, "<u2")) for postings, positions in pages]
    if not read:
        empty = numpy.zeros(0, numpy.uint16)
        return Postings([], numpy.zeros(1, numpy.int64), empty, empty, empty, empty)
    counts = numpy.concatenate([numpy.diff(page.starts) for page, _ in read])
    return Postings(
        [term for page, _ in read for term in page.terms],
        _add_up(counts),
        numpy.concatenate([page.places for page, _ in read]),
        numpy.concatenate([page.plain for page, _ in read]),
        numpy.concatenate([page.named for page, _ in read]),
        numpy.concatenate([positions for _, positions in read]),
    )


def _add_up(counts: Any) -> Any:
    """Return where each of some runs begins if they stand end to end, and where the last one ends."""
    return numpy.concatenate([numpy.zeros(1, numpy.int64), numpy.cumsum(counts, dtype=numpy.int64)])


def match_phrase(positions: Sequence[dict[int, list[int]]]) -> list[int]:
    """Return the places of the chunks where terms follow each other; each comes with its positions by place."""
    shared = set(positions[0]).intersection(*positions[1:])
    return sorted(place for place in shared if _follow_each_other([found[place] for found in positions]))


def _follow_each_other(positions: Sequence[Sequence[int]]) -> bool:
    starts = set(positions[0])
    for offset, found in enumerate(positions[1:], start=1):
        starts &= {position - offset for position in found}
    return bool(starts)
