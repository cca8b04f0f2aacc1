"""The packed file, which ships in the wheel.

The file is a magic line, the length of a header, a header in JSON, and the parts, each at a multiple of 64 bytes. A
matrix is stored as codes of a few bits on a grid with one scale per row; everything else is float16. The codes of a row
are bit planes, the highest bit first, so that one row can be read alone and one function unpacks every width.
"""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

MAGIC = b"mdrecall encoder 1\n"
NAME = "mdrecall-encoder-v1"
_ALIGNED = 64
_EPSILON = 1e-12


class Grid(NamedTuple):
    """A matrix whose numbers are (code - half the levels + 0.5) times the scale of their row."""

    codes: NDArray[Any]
    scales: NDArray[Any]
    bits: int

    def values(self) -> NDArray[Any]:
        middle = numpy.float32(2 ** (self.bits - 1) - 0.5)
        return (self.codes.astype(numpy.float32) - middle) * self.scales.astype(numpy.float32)[:, None]


Parts = dict[str, NDArray[Any] | Grid]


def write(path: Path, parts: Parts, shape: dict[str, int], card: dict[str, Any]) -> str:
    """Write the file; return the SHA-256 of its parts, which is the fingerprint of the embedding space."""
    data = bytearray()
    table = {}
    for name, kind, dimensions, stored in _stored(parts):
        data += bytes(-len(data) % _ALIGNED)
        table[name] = {"kind": kind, "shape": dimensions, "at": len(data), "size": len(stored)}
        data += stored
    digest = hashlib.sha256(data).hexdigest()
    header = {"name": NAME, "sha256": digest, **shape, "epsilon": _EPSILON, "card": card, "parts": table}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(MAGIC) + 4 + len(text)) % _ALIGNED)
    path.write_bytes(MAGIC + struct.pack("<I", len(text)) + text + data)
    return digest


def read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and every part as float32; a damaged file is refused."""
    raw = path.read_bytes()
    if not raw.startswith(MAGIC):
        raise SystemExit(f"{path} is not a packed encoder of this version.")
    start = len(MAGIC) + 4
    (size,) = struct.unpack("<I", raw[len(MAGIC) : start])
    header = json.loads(raw[start : start + size])
    data = raw[start + size :]
    if hashlib.sha256(data).hexdigest() != header["sha256"]:
        raise SystemExit(f"{path} is damaged: its SHA-256 is not the one in its header.")
    parts = {}
    for name, part in header["parts"].items():
        stored = data[part["at"] : part["at"] + part["size"]]
        if part["kind"] == "f2":
            parts[name] = numpy.frombuffer(stored, "<f2").reshape(part["shape"]).astype(numpy.float32)
        else:
            parts[name] = _unpack(stored, int(part["kind"][1:]), part["shape"])
    for name in [name for name in parts if f"{name}.scale" in parts]:
        bits = int(header["parts"][name]["kind"][1:])
        parts[name] = Grid(parts[name], parts.pop(f"{name}.scale"), bits).values()
    return header, parts


def _stored(parts: Parts) -> list[tuple[str, str, list[int], bytes]]:
    rows = []
    for name, part in parts.items():
        if isinstance(part, Grid):
            rows.append((name, f"q{part.bits}", list(part.codes.shape), _pack(part.codes, part.bits)))
            name, part = f"{name}.scale", part.scales
        rows.append((name, "f2", list(part.shape), part.astype("<f2").tobytes()))
    return rows


def _pack(codes: NDArray[Any], bits: int) -> bytes:
    planes = [numpy.packbits((codes >> bit) & 1, axis=1) for bit in reversed(range(bits))]
    return numpy.stack(planes, 1).tobytes()


def _unpack(stored: bytes, bits: int, shape: list[int]) -> NDArray[Any]:
    rows, columns = shape
    planes = numpy.unpackbits(numpy.frombuffer(stored, numpy.uint8).reshape(rows, bits, columns // 8), axis=2)
    codes = numpy.zeros((rows, columns), numpy.uint8)
    for plane in range(bits):
        codes = codes << 1 | planes[:, plane]
    return codes
