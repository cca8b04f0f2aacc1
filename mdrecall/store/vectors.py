"""Vectors as signed bytes, and those of a whole space in memory, searched by all threads of a process.

Only the direction of a vector counts, so each is scaled until its largest number is 127. Both ways of rounding, with
numpy and without, give the same bytes: a single changed file does not load numpy.

The vectors of a space are loaded once and then kept current by reading what has changed since: see ``VectorChanges``.
Products are made slice by slice, so that no copy of the matrix as floats ever exists. Up to 100,000 vectors all are
compared exactly; of more, those whose signs are most like the query's: the weighted number of signs that differ orders
vectors nearly as their cosines do, at an eighth of the memory traffic. It depends on nothing but the vectors, so every
process chooses the same ones.
"""

import math
import struct
import sys
import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, islice
from operator import mul
from typing import Any, Protocol, TypeAlias

from mdrecall.types.documents import Embedding

#: Every engine rounds cosines to as many places, so that equal ones are equal in all of them.
PLACES = 5
#: The largest signed byte.
_MOST = 127
# A number of a passage's vector is kept in two bits, its sign and whether it is large, and read as one of two sizes.
# The limit between them and the sizes lose least on numbers that are normally distributed (Lloyd and Max). With four
# bits instead of two, no question set got better answers.
_LARGE = 0.9816
_SIZES = (3, 10, -3, -10)
# A vector that was rounded like this is a little off its direction, which makes every cosine smaller. On passages of
# conversations, manuals and made-up notes the true cosine was 1.08 to 1.11 times that of the rounded vector.
_GAIN = 1.09
# From this many vectors on, loading numpy takes less time than rounding without it.
_MANY = 2_000


#: The vectors of some chunks in the order of their numbers: the first number, all numbers less the first as
#: little-endian 32-bit integers, and the vectors as signed bytes, end to end. The number of a chunk is there for
#: each of its vectors.
VectorBlock: TypeAlias = tuple[int, bytes, bytes]
#: How the vectors of a space have changed: the number of the last change, the chunks that were removed, and blocks with
#: vectors that are new or have changed, and perhaps with others. None for the chunks if they are no longer known, and
#: the blocks are all.
ChangedVectors: TypeAlias = tuple[int, Sequence[int] | None, Iterable[VectorBlock]]


def round_vectors(made: Sequence[Embedding]) -> list[bytes]:
    """Return what is stored for chunks, as signed bytes: the vector of each, or those of its passages, end to end."""
    rounded = iter(to_int8([each.vector for each in made if each.vector]))
    return [next(rounded) if each.vector else each.passages for each in made]


def to_int8(vectors: Sequence[bytes]) -> list[bytes]:
    """Return vectors of 32-bit floats as signed bytes; one without length stays zero."""
    if "numpy" in sys.modules or len(vectors) >= _MANY:
        return _to_int8_numpy(vectors)
    return [_round(read_floats(vector)) for vector in vectors]


def read_floats(vector: bytes) -> tuple[float, ...]:
    """Return the numbers of a vector of little-endian 32-bit floats."""
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def _round(numbers: Sequence[float]) -> bytes:
    most = max(map(abs, numbers), default=0.0)
    factor = _MOST / most if most else 0.0
    return array("b", [round(number * factor) for number in numbers]).tobytes()


def _to_int8_numpy(vectors: Sequence[bytes]) -> list[bytes]:
    import numpy

    if not vectors:
        return []
    rows = numpy.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1).astype(numpy.float64)
    most = numpy.abs(rows).max(1, initial=0.0)
    factors = numpy.divide(_MOST, most, out=numpy.zeros_like(most), where=most > 0)
    rounded = numpy.rint(rows * factors[:, None]).astype(numpy.int8).tobytes()
    size = rows.shape[1]
    return [rounded[start : start + size] for start in range(0, len(rounded), size)]


# The numbers that the first, second, third and fourth pair of bits of a byte stand for.
_UNPACKED = [bytes(_SIZES[byte >> shift & 3] % 256 for byte in range(256)) for shift in (6, 4, 2, 0)]


def pack_passages(chunks: Sequence[bytes], size: int) -> list[bytes]:
    """Return the vectors of the passages of chunks, ``size`` signed bytes each, with four numbers in a byte."""
    if "numpy" in sys.modules or len(chunks) >= _MANY:
        return _pack_passages_numpy(chunks, size)
    return [
        b"".join(_pack(passages[start : start + size]) for start in range(0, len(passages), size))
        for passages in chunks
    ]


def correct_passage_cosines(cosines: Sequence[float]) -> list[float]:
    """Return what the cosines of passages probably were before their vectors were rounded to two bits a number."""
    return [max(-1.0, min(1.0, round(cosine * _GAIN, PLACES))) for cosine in cosines]


def unpack_passages(packed: bytes, size: int) -> bytes:
    """Return the vectors of the passages of a chunk as signed bytes, which keep about their direction."""
    width = -(-size // 4)
    numbers = bytearray(4 * len(packed))
    for place, table in enumerate(_UNPACKED):
        numbers[place::4] = packed.translate(table)
    has_empty = bytes(width) in packed
    if size % 4 == 0 and not has_empty:
        return bytes(numbers)
    parts = (
        numbers[4 * start : 4 * start + size] if any(packed[start : start + width]) else bytes(size)
        for start in range(0, len(packed), width)
    )
    return b"".join(parts)


@cache
def _codes(limit: int) -> bytes:
    """Return the two bits of every byte; all of a vector without length are 0, and never those of another one."""
    return b"\0" * (limit + 1) + b"\1" * (_MOST - limit) + b"\3" * (_MOST + 1 - limit) + b"\2" * limit


def _pack(vector: bytes) -> bytes:
    numbers = array("b", vector)
    limit = math.floor(_LARGE * math.sqrt(sum(map(mul, numbers, numbers)) / len(vector)))
    codes = vector.translate(_codes(limit))
    codes += bytes(-len(codes) % 4)
    pairs = (int.from_bytes(codes[place::4], "big") << 6 - 2 * place for place in range(4))
    return sum(pairs).to_bytes(len(codes) // 4, "big")


def _pack_passages_numpy(chunks: Sequence[bytes], size: int) -> list[bytes]:
    import numpy

    if not chunks:
        return []
    found = numpy.frombuffer(b"".join(chunks), numpy.int8).reshape(-1, size)
    wide = found.astype(numpy.int32)
    squares = numpy.einsum("ij,ij->i", wide, wide)
    limits = numpy.floor(_LARGE * numpy.sqrt(squares / size)).astype(numpy.int8)
    bits = numpy.zeros((len(found), -(-size // 4) * 4, 2), bool)
    bits[:, :size, 0] = found < 0
    bits[:, :size, 1] = numpy.abs(found) > limits[:, None]
    packed = numpy.packbits(bits.reshape(len(found), 2 * bits.shape[1]), axis=1)
    ends = numpy.cumsum([len(passages) // size for passages in chunks]).tolist()
    return [packed[start:end].tobytes() for start, end in zip([0, *ends], ends, strict=False)]


_ROUNDED_AWAY = 10.0**-PLACES
# A slice of 512 rows of 256 numbers as floats fits into the second-level cache: with slices of 2,048 rows a million
# products took a third more time.
_SLICE_NUMBERS = 512 * 256
# Blocks are added by the dozen, because each addition looks up where its rows belong.
_BLOCKS_AT_ONCE = 32
# Rows of removed chunks stay where they are until they are a sixteenth of all, because moving the rest takes longer.
_FEWEST_DEAD, _DEAD_SHARE = 1_000, 16
# Lengths are measured at the first search, when the rows are floats anyway.
_UNKNOWN_LENGTH = -1.0
# The cosine of a removed chunk, and what is below those of all others.
_DEAD_COSINE, _LEAST_COSINE = -2.0, -1.5
#: Up to this many vectors are all compared exactly.
MOST_EXACT = 100_000
# Of more, as many as this or this share are, those that seem nearest by their signs. Among them were .993 of the twenty
# nearest of 122,000 notes made of random words, .985 of those of a million, and all of those of 90,000 real sentences.
_FEWEST_COMPARED, _COMPARED_SHARE = 16_000, 32
# At least this many times as many as are asked for.
_COMPARED_FACTOR = 8


class VectorChanges(Protocol):
    """One space of a store, as one thread sees it at one moment."""

    def count(self) -> int:
        """Return the number of chunks with a vector."""

    def revision(self) -> int:
        """Return the number of the last change. It becomes smaller if an earlier state of the index is restored."""

    def changes_since(self, seen: int) -> ChangedVectors | None:
        """Return what has changed after the revision ``seen``; everything if that is unknown or too long ago.

        None if the thread sees an earlier state, while others already see the one that ``seen`` belongs to.
        """

    def passages_of(self, ids: Iterable[int]) -> Mapping[int, bytes]:
        """Return the packed vectors of the passages of chunks, end to end. A chunk without any is left out."""


class MatrixEngine:
    """One matrix for one space, shared by all threads. Its rows are in the order of the chunks' numbers.

    A chunk with several vectors has several rows, and the best of them counts.
    """

    name = "matrix"

    def __init__(self, dimensions: int) -> None:
        import numpy

        self._numpy = numpy
        self._seen = -1
        self._lock = threading.Lock()
        self._count = 0
        self._ids = numpy.empty(0, numpy.int64)
        self._rows = numpy.empty((0, dimensions), numpy.int8)
        self._lengths = numpy.empty(0, numpy.float32)
        self._is_measured = False  # True if all lengths are known.
        self._is_single = True  # True if no chunk has several rows.
        self._dead = numpy.empty(0, numpy.int64)
        self._slice = numpy.empty((max(1, _SLICE_NUMBERS // dimensions), dimensions), numpy.float32)
        self._signs = SignCodes(dimensions)
        # The four numbers that each byte of a passage's vector stands for.
        self._unpacked = numpy.frombuffer(b"".join(_UNPACKED), numpy.int8).reshape(4, 256).T.astype(numpy.float32)
        # The last query with its whole numbers, and with the cosines of all rows: each search asks for them again.
        self._query: tuple[bytes, Any] = b"", None
        self._compared: tuple[bytes, Any] = b"", None

    def nearest(self, space: VectorChanges, query: bytes, limit: int) -> list[tuple[int, float]]:
        """Return the chunks with the largest cosines, best first."""
        numpy = self._numpy
        with self._lock:
            self._refresh(space)
            alive = self._count - len(self._dead)
            if not alive:
                return []
            places, cosines = self._compare(self._read_query(query), limit, alive)
            self._compared = (query, cosines) if places is None else (b"", None)
            ids = self._ids[: self._count] if places is None else self._ids[places]
            ids, cosines = self._keep_best(ids, cosines)
            place = max(0, len(ids) - limit)
            least = numpy.partition(cosines, place)[place]
            (chosen,) = (cosines >= numpy.maximum(least - _ROUNDED_AWAY, _LEAST_COSINE)).nonzero()
            found = zip(cosines[chosen].tolist(), ids[chosen].tolist(), strict=True)
        ordered = sorted([(-round(cosine, PLACES), chunk_id) for cosine, chunk_id in found])
        return [(chunk_id, -cosine) for cosine, chunk_id in ordered[:limit]]

    def mean_cosine(self, space: VectorChanges, query: bytes) -> float:
        """Return the mean over all chunks; 0 without any."""
        with self._lock:
            self._refresh(space)
            alive = self._count - len(self._dead)
            if not alive:
                return 0.0
            total = float(self._all_cosines(self._read_query(query)).sum(dtype=self._numpy.float64))
            return (total - _DEAD_COSINE * len(self._dead)) / alive

    def cosines(self, space: VectorChanges, query: bytes, ids: Sequence[int]) -> dict[int, float]:
        """Return the largest cosine of each chunk. A chunk without a vector is left out."""
        owners, cosines = self._keep_best(*self._compare_some(space, query, ids))
        return dict(zip(owners.tolist(), cosines.tolist(), strict=True))

    def vector_cosines(self, space: VectorChanges, query: bytes, ids: Sequence[int]) -> dict[int, list[float]]:
        """Return the cosines of all vectors of chunks, in order. A chunk without a vector is left out."""
        owners, cosines = self._compare_some(space, query, ids)
        found: dict[int, list[float]] = {}
        for chunk_id, cosine in zip(owners.tolist(), cosines.tolist(), strict=True):
            found.setdefault(chunk_id, []).append(cosine)
        return found

    def _compare_some(self, space: VectorChanges, query: bytes, ids: Sequence[int]) -> tuple[Any, Any]:
        """Return the chunk of each vector that these chunks have, and its cosine, chunk by chunk."""
        numpy = self._numpy
        with self._lock:
            self._refresh(space)
            places = self._find_rows(numpy.array(ids, numpy.int64))
            places = places[~_is_among(places, self._dead)] if len(self._dead) else places
            if self._compared[0] == query:
                cosines = self._compared[1][places]
            else:
                rows, vector = self._rows[places].astype(numpy.float32), self._read_query(query)
                cosines = _divide(numpy.vecdot(rows, vector), numpy.sqrt(numpy.vecdot(rows, rows)), vector)
            return self._ids[places], cosines.astype(numpy.float64).round(PLACES)

    def passage_cosines(self, space: VectorChanges, query: bytes, ids: Sequence[int]) -> dict[int, list[float]]:
        """Return about the true cosines of the passages of each chunk, in order."""
        numpy = self._numpy
        blobs = space.passages_of(ids)
        if not blobs:
            return {}
        wanted = self._read_query(query)
        width = -(-len(wanted) // 4)
        packed = numpy.frombuffer(b"".join(blobs.values()), numpy.uint8).reshape(-1, width)
        rows = self._unpacked.take(packed, 0).reshape(len(packed), 4 * width)[:, : len(wanted)]
        # Only a vector without length consists of zeros.
        lengths = numpy.sqrt(numpy.vecdot(rows, rows)) * packed.any(1)
        cosines = _divide(numpy.vecdot(rows, wanted), lengths, wanted)
        known = (cosines.astype(numpy.float64).round(PLACES) * _GAIN).round(PLACES).clip(-1.0, 1.0).tolist()
        ends = list(accumulate([len(blob) // width for blob in blobs.values()]))
        return {chunk_id: known[start:end] for chunk_id, start, end in zip(blobs, [0, *ends], ends, strict=False)}

    def _keep_best(self, ids: Any, cosines: Any) -> tuple[Any, Any]:
        """Return each chunk once, with the largest cosine of its rows."""
        if self._is_single:
            return ids, cosines
        numpy = self._numpy
        is_first = numpy.ones(len(ids), bool)
        numpy.not_equal(ids[1:], ids[:-1], out=is_first[1:])
        return ids[is_first], numpy.maximum.reduceat(cosines, numpy.flatnonzero(is_first))

    def _read_query(self, query: bytes) -> Any:
        """Return a query as whole numbers: their products with signed bytes have no rounding, in any engine."""
        known = self._query
        if known[0] != query:
            (vector,) = to_int8([query])
            known = self._query = query, self._numpy.frombuffer(vector, self._numpy.int8).astype(self._numpy.float32)
        return known[1]

    def _compare(self, query: Any, limit: int, alive: int) -> tuple[Any, Any]:
        """Return places and their cosines; None for the places if all rows were compared."""
        count = max(_FEWEST_COMPARED, alive // _COMPARED_SHARE, _COMPARED_FACTOR * limit)
        if alive <= MOST_EXACT or count > alive // 2:
            return None, self._all_cosines(query)
        numpy = self._numpy
        places = self._signs.find_similar(self._rows[: self._count], query, count, self._dead)
        products = numpy.empty(len(places), numpy.float32)
        for start, end in self._slices(0, len(places)):
            self._multiply_rows(places[start:end], query, products[start:end])
        return places, _divide(products, self._lengths[places], query)

    def _all_cosines(self, query: Any) -> Any:
        numpy = self._numpy
        products = numpy.empty(self._count, numpy.float32)
        for start, end in self._slices(0, self._count):
            self._multiply_rows(slice(start, end), query, products[start:end])
        self._is_measured = True
        cosines = _divide(products, self._lengths[: self._count], query)
        cosines[self._dead] = _DEAD_COSINE
        return cosines

    def _multiply_rows(self, places: Any, query: Any, products: Any) -> None:
        """Write the products of some rows and the query, and measure the lengths of rows that are not known yet."""
        part = self._slice[: len(products)]
        part[...] = self._rows[places]
        # Nothing is rounded: all numbers are whole. Of more rows at once, `dot` would wake a second thread.
        self._numpy.dot(part, query, out=products)
        if not self._is_measured and (self._lengths[places] == _UNKNOWN_LENGTH).any():
            self._lengths[places] = self._numpy.sqrt(self._numpy.vecdot(part, part))

    def _slices(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of rows that are worked on at once."""
        step = len(self._slice)
        return ((at, min(at + step, end)) for at in range(start, end, step))

    def _find_rows(self, ids: Any) -> Any:
        """Return the places of all rows of chunks, chunk by chunk."""
        numpy, known = self._numpy, self._ids[: self._count]
        firsts = known.searchsorted(ids)
        if self._is_single and len(known):
            return firsts[known.take(firsts, mode="clip") == ids]
        counts = numpy.searchsorted(known, ids, "right") - firsts
        return numpy.repeat(firsts - numpy.cumsum(counts) + counts, counts) + numpy.arange(counts.sum())

    def _refresh(self, space: VectorChanges) -> None:
        if self._seen == space.revision():
            return
        changed = space.changes_since(self._seen)
        if changed is None:
            return
        revision, removed, newer = changed
        if removed is None:
            self._count, self._dead, self._is_single = 0, self._dead[:0], True
            self._reserve(space.count())
        elif removed:
            places = self._find_rows(self._numpy.array(removed, self._numpy.int64))
            alive = ~_is_among(places, self._dead)
            self._dead = self._numpy.sort(self._numpy.concatenate([self._dead, places[alive]]))
        blocks = iter(newer)
        while some := list(islice(blocks, _BLOCKS_AT_ONCE)):
            self._put(*self._read_blocks(some))
        if len(self._dead) > max(_FEWEST_DEAD, self._count // _DEAD_SHARE):
            self._compact()
        self._seen = revision
        self._compared = b"", None

    def _read_blocks(self, blocks: Sequence[VectorBlock]) -> tuple[Any, Any]:
        """Return the numbers of the chunks of blocks, and their vectors."""
        numpy = self._numpy
        firsts, offsets, vectors = zip(*blocks, strict=True)
        sizes = [len(each) // 4 for each in offsets]
        ids = numpy.repeat(numpy.array(firsts, numpy.int64), sizes) + numpy.frombuffer(b"".join(offsets), "<u4")
        return ids, numpy.frombuffer(b"".join(vectors), numpy.int8).reshape(len(ids), self._rows.shape[1])

    def _put(self, ids: Any, rows: Any) -> None:
        """Add rows, which are in the order of their numbers, or replace those that are there."""
        numpy = self._numpy
        # The rows of one chunk are told apart by their order, of which there are as many as before.
        first_of = numpy.searchsorted(ids, ids)
        self._is_single = self._is_single and bool((ids[1:] > ids[:-1]).all())
        known = self._ids[: self._count]
        places = numpy.searchsorted(known, ids) + numpy.arange(len(ids)) - first_of
        is_there = places < numpy.searchsorted(known, ids, "right")
        if is_there.any():
            self._write(places[is_there], rows[is_there])
            self._dead = self._dead[~_is_among(self._dead, places[is_there])]
            ids, rows, places = ids[~is_there], rows[~is_there], places[~is_there]
        if not len(ids):
            return
        first, end = int(places[0]), self._count + len(ids)
        self._reserve(end)
        if first < self._count:
            # Some belong between others: everything from there on is written again.
            self._dead = self._dead + numpy.searchsorted(ids, self._ids[self._dead])
            ids = numpy.concatenate([self._ids[first : self._count], ids])
            order = numpy.argsort(ids, kind="stable")
            ids, rows = ids[order], numpy.concatenate([self._rows[first : self._count], rows])[order]
        self._ids[first:end] = ids
        self._count = end
        self._write(slice(first, end), rows)

    def _write(self, places: Any, rows: Any) -> None:
        self._rows[places], self._lengths[places], self._is_measured = rows, _UNKNOWN_LENGTH, False
        self._signs.forget(places.start if isinstance(places, slice) else int(places[0]))

    def _reserve(self, count: int) -> None:
        """Make room for rows in place, without a second copy of the matrix."""
        if count <= len(self._ids):
            return
        if not self._count:
            # Growing an empty matrix would fill it with zeros first.
            numpy = self._numpy
            self._ids, self._lengths = numpy.empty(count, numpy.int64), numpy.empty(count, numpy.float32)
            self._rows = numpy.empty((count, self._rows.shape[1]), numpy.int8)
            return
        # An eighth more than there was, so that adding one chunk at a time does not move the matrix each time.
        room = max(count, len(self._ids) * 9 // 8)
        for held in (self._ids, self._lengths):
            held.resize(room, refcheck=False)
        self._rows.resize((room, self._rows.shape[1]), refcheck=False)

    def _compact(self) -> None:
        """Close the gaps that removed chunks left."""
        numpy = self._numpy
        is_alive = numpy.ones(self._count, bool)
        is_alive[self._dead] = False
        kept = int(self._dead[0])
        self._signs.forget(kept)
        for start, end in self._slices(kept, self._count):
            chosen = numpy.flatnonzero(is_alive[start:end]) + start
            for held in (self._ids, self._lengths, self._rows):
                held[kept : kept + len(chosen)] = held[chosen]
            kept += len(chosen)
        self._count, self._dead = kept, self._dead[:0]


def _is_among(numbers: Any, ordered: Any) -> Any:
    """Return which numbers are among some in ascending order. `isin` may load a module that takes 20 ms."""
    return ordered.searchsorted(numbers, "right") > ordered.searchsorted(numbers)


def _divide(products: Any, lengths: Any, query: Any) -> Any:
    """Return cosines; that of a vector without length is 0 and not undefined."""
    import numpy

    divisors = lengths * numpy.sqrt(numpy.dot(query, query))
    return numpy.divide(products, divisors, out=numpy.zeros_like(products), where=divisors > 0)


# The size of a query's number is rounded to three bits. With exact sizes, the twenty nearest of 90,000 sentences were
# among the first 2,000 as often (.999).
_SIZE_BITS = 3
# So many rows are compared at once: their codes and sums stay in the cache.
_ROWS_AT_ONCE = 16_384


class SignCodes:
    """The signs of the rows of a matrix."""

    def __init__(self, dimensions: int) -> None:
        import numpy

        self._numpy = numpy
        self._words = numpy.empty((-(-dimensions // 64), 0), numpy.uint64)
        self._known = 0
        # More than any sum can be.
        self._beyond = dimensions * (2**_SIZE_BITS - 1) + 1
        self._sums: Any = numpy.uint16 if self._beyond < 2**16 else numpy.uint32

    def forget(self, place: int) -> None:
        """Read the signs of the rows from a place on again, because they have changed or moved."""
        self._known = min(self._known, place)

    def find_similar(self, rows: Any, query: Any, count: int, dead: Any) -> Any:
        """Return the places of the ``count`` rows that seem nearest, and of those that tie; none of ``dead``."""
        numpy = self._numpy
        self._read_signs(rows)
        differences = self._compare(query, len(rows))
        differences[dead] = self._beyond
        # Counting the rows with each sum takes a third of the time of a partition.
        most = numpy.searchsorted(numpy.cumsum(numpy.bincount(differences)), count)
        return numpy.flatnonzero(differences <= most)

    def _read_signs(self, rows: Any) -> None:
        numpy = self._numpy
        if len(rows) > self._words.shape[1]:
            # An eighth more than needed, so that adding one row at a time does not move all of them each time.
            grown = numpy.empty((len(self._words), len(rows) * 9 // 8), numpy.uint64)
            grown[:, : self._known] = self._words[:, : self._known]
            self._words = grown
        for start in range(self._known, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            self._words[:, start : start + len(part)] = self._pack(part < 0).T
        self._known = len(rows)

    def _compare(self, query: Any, count: int) -> Any:
        """Return for each row the sizes of the query's numbers whose signs differ, added up."""
        numpy = self._numpy
        sizes = numpy.abs(query)
        sizes = numpy.rint(sizes * ((2**_SIZE_BITS - 1) / max(1.0, sizes.max()))).astype(numpy.uint8)
        (signs,) = self._pack(query[None] < 0)
        planes = [self._pack((sizes[None] >> bit) & 1 > 0)[0] for bit in reversed(range(_SIZE_BITS))]
        sums = numpy.zeros(count, self._sums)
        differs = numpy.empty((len(signs), _ROWS_AT_ONCE), numpy.uint64)
        masked, ones = numpy.empty(_ROWS_AT_ONCE, numpy.uint64), numpy.empty(_ROWS_AT_ONCE, numpy.uint8)
        for start in range(0, count, _ROWS_AT_ONCE):
            own = sums[start : start + _ROWS_AT_ONCE]
            size = len(own)
            numpy.bitwise_xor(self._words[:, start : start + size], signs[:, None], out=differs[:, :size])
            for plane in planes:
                numpy.left_shift(own, 1, out=own)
                for word, mask in zip(differs, plane, strict=True):
                    numpy.bitwise_and(word[:size], mask, out=masked[:size])
                    numpy.add(own, numpy.bitwise_count(masked[:size], out=ones[:size]), out=own)
        return sums

    def _pack(self, bits: Any) -> Any:
        """Return rows of bits as 64-bit words; the last one is filled up with zeros."""
        numpy = self._numpy
        packed = numpy.zeros((len(bits), 8 * len(self._words)), numpy.uint8)
        packed[:, : -(-bits.shape[1] // 8)] = numpy.packbits(bits, axis=1)
        return packed.view(numpy.uint64)
