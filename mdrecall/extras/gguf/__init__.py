"""The embedder and the reranker ``local``: GGUF models on the processor, behind the extra ``mdrecall[gguf]``.

A model is fetched and loaded at first use.
"""

import hashlib
import json
import math
import os
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from mdrecall.embed.models import RECIPE_VERSION, Prompts, ScoreScale, UnexpectedAnswer, prompts_for, read_scores
from mdrecall.errors import EmbedderError, InputRefused, ModelFileError
from mdrecall.extras.gguf import model_file
from mdrecall.extras.gguf.model import GgufModel, Runtime
from mdrecall.types.documents import Embedding, EmbedInput, Traits
from mdrecall.types.sync import ProgressCallback

#: Numbers of llama.cpp's pooling types.
_NO_POOLING, _MEAN = 0, 1
#: A text that is still too long at this length has a query that leaves it no room.
_MIN_TEXT_CHARS = 64


def open_embedder(model_path: str, cache_dir: str, hub: str) -> "GgufEmbedder":
    """Return the embedder of a model; the default one if the path is empty."""
    return GgufEmbedder(model_path, cache_dir=cache_dir, hub=hub)


class GgufEmbedder:
    """The embedder ``local``. Safe to use from several threads; the model runs in a child process."""

    provider = "local"
    traits = Traits(measured=True, input_bytes=2048, request_bytes=8_000)

    def __init__(self, model_path: str | None, *, cache_dir: str, hub: str = model_file.HUB) -> None:
        """``model_path`` is the setting ``local.modelPath``; ``cache_dir`` holds downloads."""
        self.model = (model_path or "").strip() or model_file.DEFAULT
        self.dimensions = 0
        self._hub = hub
        self._model = GgufModel(self.model, _choose_pooling, self._measure, cache_dir=cache_dir, hub=hub)

    @property
    def fingerprint(self) -> str:
        """Identifies the embedding space: vectors with the same fingerprint can be compared.

        For a download the reference counts, so that it is the same before and after. For a file its size and time
        count, and its name, by which the prompts are chosen.
        """
        parts: list[object] = [self.provider, RECIPE_VERSION]
        try:
            path, url = model_file.parse_reference(self.model, self._hub)
        except ModelFileError:
            path, url = "", self.model
        parts += [self.model] if url else [os.path.basename(path), *(model_file.read_stamp(path) or ())[:2]]
        return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()

    def prepare(self, stored: int = 0, progress: ProgressCallback | None = None) -> None:
        """Load the model now, downloading it if needed, so that ``dimensions`` is known."""
        self._model.prepare(progress)

    def embed_query(self, text: str, weights: Mapping[str, float] = MappingProxyType({})) -> bytes:
        """Return the vector of a query: little-endian 32-bit floats of unit length. Word weights are not supported."""
        return self._embed(lambda prompts: [prompts.of_query(text)])[0]

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        """Return the vectors of chunks, in their order; raise ``InputRefused`` if any of them is too long."""
        if not passages:
            return []
        return [Embedding(vector) for vector in self._embed(lambda prompts: list(map(prompts.of_passage, passages)))]

    def close(self) -> None:
        """Unload the model, even while it is loading or working; a later call loads it again."""
        self._model.close()

    interrupt = close

    def _embed(self, texts: Callable[[Prompts], list[str]]) -> list[bytes]:
        vectors = self._model.run(lambda runtime: runtime.embed(texts(self._prompts(runtime.header))))
        return [_unit(vector) for vector in vectors]

    def _prompts(self, header: model_file.Header) -> Prompts:
        path, url = model_file.parse_reference(self.model, self._hub)
        return prompts_for(header.architecture, header.name, self.model if url else os.path.basename(path))

    def _measure(self, runtime: Runtime) -> None:
        self.dimensions = len(runtime.embed(["text"])[0]) // 4


def _choose_pooling(path: str, header: model_file.Header) -> int | None:
    if header.pooling == model_file.RANKING:
        message = f"{path} is a model that ranks texts; it does not make embeddings."
        raise ModelFileError(message, hint="Name an embedding model in memorySearch.local.modelPath.")
    return _MEAN if header.pooling in (model_file.UNSPECIFIED, _NO_POOLING) else None


def _unit(vector: bytes) -> bytes:
    """Return the vector with length 1; numbers that are not finite count as 0."""
    numbers = [number if math.isfinite(number) else 0.0 for number in array("f", vector)]
    length = math.hypot(*numbers)
    if not length:
        raise InputRefused("The model returned a vector of zeros.", hint="Try another model.")
    return struct.pack(f"<{len(numbers)}f", *(number / length for number in numbers))


class GgufReranker:
    """The reranker ``local``. Safe to use from several threads; the model runs in a child process."""

    place = "The local reranker"

    def __init__(self, model: str, *, cache_dir: str, hub: str = model_file.HUB) -> None:
        """``model`` is a file, an ``hf:`` reference or an address; ``cache_dir`` holds downloads."""
        self.name = f"local/{model.rpartition('/')[2]}"
        self._model = GgufModel(model, _require_ranking, cache_dir=cache_dir, hub=hub)
        self._scale = ScoreScale()

    def rerank(self, query: str, texts: Sequence[str]) -> list[float | None]:
        """Return how probable it is that each text answers the query; texts that are too long are cut."""
        most = max(map(len, texts))
        while True:
            try:
                return self._rerank(query, [text[:most] for text in texts])
            except ModelFileError as error:
                hint = error.hint.replace("memorySearch.local.modelPath", "mdrecall.rerank.model")
                raise ModelFileError(str(error), hint=hint) from error
            except InputRefused:
                most //= 2
                if most < _MIN_TEXT_CHARS:
                    raise

    def close(self) -> None:
        """Unload the model, even while it is loading or working; a later call loads it again."""
        self._model.close()

    interrupt = close

    def _rerank(self, query: str, texts: Sequence[str]) -> list[float | None]:
        answer = self._model.run(lambda runtime: runtime.rerank(query, texts))
        try:
            return self._scale.to_probabilities(read_scores(answer, "results", len(texts)))
        except UnexpectedAnswer as error:
            raise EmbedderError(f"llama.cpp sent a wrong answer: {error}.", hint="Try another model.") from error


def _require_ranking(path: str, header: model_file.Header) -> int:
    if header.pooling != model_file.RANKING:
        message = f"{path} is not marked as a model that ranks texts."
        raise ModelFileError(message, hint="Name a reranker in mdrecall.rerank.model, such as a GGUF of bge-reranker.")
    return model_file.RANKING
