"""Encoder files for the tests: small, with weights by chance, and the vocabulary of the wheel."""

from pathlib import Path

import numpy

from training.encoder.pack import Grid, Parts, write

#: What an index says of these vectors.
NAME, DIMENSIONS = "mdrecall-encoder-v1", 32


def write_encoder(path: Path, seed: int = 0) -> None:
    """Write an encoder of two layers with random weights."""
    random = numpy.random.default_rng(seed)
    layers, width, inner, tokens = 2, 2 * DIMENSIONS, 96, 128

    def grid(rows: int, columns: int, bits: int) -> Grid:
        return Grid(random.integers(0, 2**bits, (rows, columns)), random.uniform(0.02, 0.06, rows), bits)

    parts: Parts = {
        "words": grid(30522, width, 3),
        "positions": random.normal(0, 0.1, (tokens, width)),
        "axes": random.normal(0, 1, (DIMENSIONS, width)),
    }
    norms = ["norm"]
    for number in range(layers):
        shapes = {"qkv": (3 * width, width), "out": (width, width), "up": (inner, width), "down": (width, inner)}
        for name, (rows, columns) in shapes.items():
            parts[f"{number}.{name}"] = grid(rows, columns, 4)
            parts[f"{number}.{name}.bias"] = random.normal(0, 0.1, rows)
        norms += [f"{number}.attention", f"{number}.norm"]
    for name in norms:
        parts |= {f"{name}.gain": random.normal(1, 0.1, width), f"{name}.bias": random.normal(0, 0.1, width)}
    write(path, parts, {"layers": layers, "width": width, "heads": 4, "inner": inner, "tokens": tokens}, {})
