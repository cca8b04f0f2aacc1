"""all-MiniLM-L6-v2 in 32-bit floats, written out in numpy: what the quantised model is compared with."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


class Reference:
    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        self._tensors = {}
        for name, entry in json.loads(data[8:start]).items():
            if entry.get("dtype") == "F32":
                begin, count = start + entry["data_offsets"][0], math.prod(entry["shape"])
                self._tensors[name] = np.frombuffer(data, "<f4", count, begin).reshape(entry["shape"])

    def embed(self, ids: Sequence[int]) -> Array:
        """The vector of a text that is given as the numbers of its tokens."""
        words = self._tensors["embeddings.word_embeddings.weight"][list(ids)]
        positions = self._tensors["embeddings.position_embeddings.weight"][: len(ids)]
        segment = self._tensors["embeddings.token_type_embeddings.weight"][0]
        x = self._norm("embeddings.LayerNorm", words + positions + segment)
        for layer in range(6):
            x = self._layer(f"encoder.layer.{layer}.", x)
        mean = x.mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))

    def _layer(self, name: str, x: Array) -> Array:
        heads = [
            self._dense(f"{name}attention.self.{part}", x).reshape(len(x), 12, 32).swapaxes(0, 1)
            for part in ("query", "key", "value")
        ]
        scores = np.exp(heads[0] @ heads[1].swapaxes(1, 2) / math.sqrt(32))
        seen = (scores / scores.sum(axis=-1, keepdims=True)) @ heads[2]
        seen = seen.swapaxes(0, 1).reshape(len(x), 384)
        x = self._norm(f"{name}attention.output.LayerNorm", x + self._dense(f"{name}attention.output.dense", seen))
        wide = self._dense(f"{name}intermediate.dense", x)
        erf = np.vectorize(math.erf, otypes=[np.float32])
        wide = wide * (1 + erf(wide / math.sqrt(2))) / 2
        return self._norm(f"{name}output.LayerNorm", x + self._dense(f"{name}output.dense", wide))

    def _dense(self, name: str, x: Array) -> Array:
        return np.asarray(x @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"])

    def _norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return np.asarray(centred / deviation * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"])
