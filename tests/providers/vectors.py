"""Texts to vectors without a model: texts that share words are close, and the same text has the same vector always."""

import hashlib
import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Vector = list[float]

_WORD = re.compile(r"\w+")


@lru_cache(maxsize=100_000)
def _of_word(word: str, dimensions: int) -> NDArray[np.float64]:
    seed = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8]
    return np.random.default_rng(int.from_bytes(seed)).standard_normal(dimensions)


def vector(text: str, dimensions: int) -> Vector:
    """The vector of the text, of length one, with as many digits as providers send."""
    words = _WORD.findall(text.lower()) or [text]
    total = np.sum([_of_word(word, dimensions) for word in words], axis=0)
    found: Vector = np.round(total / np.linalg.norm(total), 8).tolist()
    return found
