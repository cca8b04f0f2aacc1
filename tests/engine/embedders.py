"""Small embedders that really embed: every word has a direction of its own, a text is the sum of its words."""

import hashlib
import re
from array import array
from collections.abc import Callable, Mapping, Sequence

from mdrecall.errors import InputRefused
from mdrecall.types.documents import Embedding, EmbedInput, Traits
from mdrecall.types.sync import ProgressCallback

SLOW = Traits(never_waits=False, unrelated=0.2, related=0.9, input_bytes=8_000, request_bytes=8_000)


class HashEmbedder:
    """Deterministic, and it keeps what it was asked."""

    def __init__(
        self,
        model: str = "words",
        *,
        provider: str = "test",
        fingerprint: str = "",
        dimensions: int = 16,
        traits: Traits = SLOW,
        refused: str = "",
        synonyms: Mapping[str, str] | None = None,
    ) -> None:
        self.provider = provider
        self.model = model
        self.dimensions = dimensions
        self.fingerprint = fingerprint or f"{provider}/{model}"
        self.traits = traits
        self.requests: list[list[EmbedInput]] = []
        self.queries: list[str] = []
        self.before_answer: Callable[[], None] = lambda: None
        self._refused = refused
        self._synonyms = synonyms or {}

    @property
    def asked(self) -> list[str]:
        """Every text that chunks were embedded from, in order."""
        return [passage.text for request in self.requests for passage in request]

    def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
        self.queries.append(text)
        return self.vector(text)

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        if self._refused and any(self._refused in passage.text for passage in passages):
            raise InputRefused(f"A text with {self._refused} is not taken.")
        self.requests.append(list(passages))
        self.before_answer()
        return [Embedding(self.vector(passage.text)) for passage in passages]

    def prepare(self, stored: int, progress: ProgressCallback | None = None) -> None:
        """It is ready as it is."""

    def interrupt(self) -> None:
        """Nothing takes long."""

    def close(self) -> None:
        """Nothing to let go of."""

    def vector(self, text: str) -> bytes:
        total = [0.0] * self.dimensions
        for word in re.findall(r"\w+", text.lower()):
            for place, value in enumerate(self._direction(self._synonyms.get(word, word))):
                total[place] += value
        length = sum(value * value for value in total) ** 0.5
        return array("f", (value / length if length else 0.0 for value in total)).tobytes()

    def _direction(self, word: str) -> list[float]:
        digest = hashlib.shake_256(f"{self.model} {word}".encode()).digest(self.dimensions)
        return [byte - 127.5 for byte in digest]
