"""Vectors as signed bytes. Only the direction of a vector counts, so each is scaled until its largest number is 127.

Both ways of rounding, with numpy and without, give the same bytes: a single changed file does not load numpy.
"""

import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from operator import mul

from mdrecall.named_tuple import NamedTuple

#: Every engine rounds cosines to as many places, so that equal ones are equal in all of them.
PLACES = 5
#: The largest signed byte.
_MOST = 127
# A number of a passage's vector is kept in two bits, its sign and whether it is large, and read as one of two sizes.
# The limit between them and the sizes lose least on numbers that are normally distributed (Lloyd and Max). With four
# bits instead of two, no question set got better answers.
_LARGE = 0.9816
_SIZES = (3, 10, -3, -10)
# A vector that was rounded so much lies a little beside its direction, which makes every cosine smaller. On passages of
# conversations, manuals and made-up notes the true cosine was 1.08 to 1.11 times that of the rounded vector.
_GAIN = 1.09
# From this many vectors on, loading numpy takes less time than rounding without it.
_MANY = 2_000


class VectorBlock(NamedTuple):
    """The vectors of some chunks, in the order of their numbers."""

    first: int
    """The number of the first chunk."""
    offsets: bytes
    """The numbers of all its chunks less the first one, as little-endian 32-bit integers."""
    vectors: bytes
    """The vectors as signed bytes, end to end."""


class ChangedVectors(NamedTuple):
    """How the vectors of a space have changed."""

    revision: int
    """The number of the last change."""
    removed: Sequence[int] | None
    """The chunks that were removed; None if that is no longer known, and ``newer`` is everything."""
    newer: Iterable[VectorBlock]
    """Blocks with vectors that are new or have changed, and perhaps with others."""


def to_int8(vectors: Sequence[bytes]) -> list[bytes]:
    """Return vectors of 32-bit floats as signed bytes; one without length stays zero."""
    if "numpy" in sys.modules or len(vectors) >= _MANY:
        return _to_int8_numpy(vectors)
    return [_round(read_floats(vector)) for vector in vectors]


def to_floats(vector: bytes) -> bytes:
    """Return a vector of signed bytes as 32-bit floats of unit length; zero if it has no length."""
    numbers = array("b", vector)
    length = sum(number * number for number in numbers) ** 0.5 or 1.0
    return write_floats(array("f", [number / length for number in numbers]))


def read_floats(vector: bytes) -> "array[float]":
    """Return the numbers of a vector of little-endian 32-bit floats."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def write_floats(numbers: "array[float]") -> bytes:
    """Return numbers as little-endian 32-bit floats."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _round(numbers: "array[float]") -> bytes:
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
    corrected = [round(cosine * _GAIN, 5) for cosine in cosines]
    return (
        [max(-1.0, min(1.0, cosine)) for cosine in corrected]
        if max(map(abs, corrected), default=0.0) > 1
        else corrected
    )


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
    signed = [byte - 256 if byte > 127 else byte for byte in range(256)]
    return bytes(2 * (number < 0) + (abs(number) > limit) for number in signed)


def _find_limit(square: int, size: int) -> int:
    return math.floor(_LARGE * math.sqrt(square / size))


def _pack(vector: bytes) -> bytes:
    numbers = array("b", vector)
    codes = vector.translate(_codes(_find_limit(sum(map(mul, numbers, numbers)), len(vector))))
    codes += bytes(-len(codes) % 4)
    pairs = (int.from_bytes(codes[place::4], "big") << 6 - 2 * place for place in range(4))
    return sum(pairs).to_bytes(len(codes) // 4, "big")


def _pack_passages_numpy(chunks: Sequence[bytes], size: int) -> list[bytes]:
    import numpy

    if not chunks:
        return []
    found = numpy.frombuffer(b"".join(chunks), numpy.int8).reshape(-1, size)
    wide = found.astype(numpy.float64)
    squares = numpy.einsum("ij,ij->i", wide, wide)
    limits = numpy.floor(_LARGE * numpy.sqrt(squares / size)).astype(numpy.int8)
    bits = numpy.zeros((len(found), -(-size // 4) * 4, 2), bool)
    bits[:, :size, 0] = found < 0
    bits[:, :size, 1] = numpy.abs(found) > limits[:, None]
    packed = numpy.packbits(bits.reshape(len(found), 2 * bits.shape[1]), axis=1)
    ends = numpy.cumsum([len(passages) // size for passages in chunks]).tolist()
    return [packed[start:end].tobytes() for start, end in zip([0, *ends], ends, strict=False)]
