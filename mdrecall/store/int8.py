"""Vectors as signed bytes. Only the direction of a vector counts, so each is scaled until its largest number is 127.

Both ways of rounding, with numpy and without, give the same bytes: a single changed file does not load numpy.
"""

import sys
from array import array
from collections.abc import Sequence

_MOST = 127
# From this many vectors on, loading numpy takes less time than rounding without it.
_MANY = 2_000


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
