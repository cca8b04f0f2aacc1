"""Embeddings from a GGUF model, which is fetched and loaded at first use."""

import hashlib
import json
import math
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from mdrecall.embed.gguf.header import RANKING, UNSPECIFIED, Header
from mdrecall.embed.gguf.model import MAX_TOKENS, GgufModel, LoadedModel
from mdrecall.embed.gguf.model_file import DEFAULT, HUB, Reference, identify_file, parse_reference
from mdrecall.embed.gguf.runtime import Runtime, Settings
from mdrecall.embed.models import RECIPE_VERSION, Prompts, prompts_for
from mdrecall.errors import InputRefused, ModelFileError
from mdrecall.types import Embedding, EmbedInput, ProgressCallback, Traits

NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})
#: Numbers of llama.cpp's pooling types.
_NO_POOLING, _MEAN = 0, 1


class GgufEmbedder:
    """The embedder ``local``. Safe to use from several threads; the model runs in a child process."""

    provider = "local"
    traits = Traits(measured=True, input_bytes=2048, request_bytes=8_000)

    def __init__(
        self,
        model_path: str | None,
        *,
        cache_dir: str,
        hub: str = HUB,
        threads: int = 0,
        timeout_s: float = 30,
        progress: ProgressCallback | None = None,
    ) -> None:
        """``model_path`` is the setting ``local.modelPath``; ``cache_dir`` holds downloads."""
        self.model = (model_path or "").strip() or DEFAULT
        self.dimensions = 0
        self._hub = hub
        self._threads = threads
        self._model = GgufModel(
            self.model,
            self._configure,
            self._measure,
            cache_dir=cache_dir,
            hub=hub,
            timeout_s=timeout_s,
            progress=progress,
        )

    @property
    def fingerprint(self) -> str:
        """Identifies the embedding space: vectors with the same fingerprint can be compared.

        For a download the reference counts, so that it is the same before and after. For a file its content counts,
        and its name, by which the prompts are chosen.
        """
        parts: list[object] = [self.provider, RECIPE_VERSION]
        try:
            reference = parse_reference(self.model, self._hub)
        except ModelFileError:
            reference = Reference("", url=self.model)
        parts += [self.model] if reference.url else [reference.name, *identify_file(reference.path)]
        return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()

    def prepare(self, stored: int = 0, progress: ProgressCallback | None = None) -> None:
        """Load the model now, downloading it if needed, so that ``dimensions`` is known."""
        self._model.prepare(progress)

    def embed_query(self, text: str, weights: Mapping[str, float] = NO_WEIGHTS) -> bytes:
        """Return the vector of a query: little-endian 32-bit floats of unit length. Word weights are not supported."""
        return self._embed(lambda prompts: [prompts.of_query(text)])[0]

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        """Return the vectors of chunks, in their order; raise ``InputRefused`` if any of them is too long."""
        if not passages:
            return []
        return [Embedding(vector) for vector in self._embed(lambda prompts: list(map(prompts.of_passage, passages)))]

    def interrupt(self) -> None:
        """Cancel the work in progress by ending the model's process."""
        self.close()

    def close(self) -> None:
        """Unload the model, even while it is loading or working; a later call loads it again."""
        self._model.close()

    def _embed(self, texts: Callable[[Prompts], list[str]]) -> list[bytes]:
        vectors = self._model.run(lambda loaded: loaded.runtime.embed(texts(self._prompts(loaded))))
        return [_unit(vector) for vector in vectors]

    def _prompts(self, loaded: LoadedModel) -> Prompts:
        header, reference = loaded.header, loaded.reference
        return prompts_for(header.architecture, header.name, self.model if reference.url else reference.name)

    def _configure(self, path: str, header: Header) -> Settings:
        return _settings(path, header, self._threads)

    def _measure(self, runtime: Runtime) -> None:
        self.dimensions = len(runtime.embed(["text"])[0]) // 4


def _settings(path: str, header: Header, threads: int) -> Settings:
    if header.pooling == RANKING:
        message = f"{path} is a model that ranks texts; it does not make embeddings."
        raise ModelFileError(message, hint="Name an embedding model in memorySearch.local.modelPath.")
    context = min(header.context, MAX_TOKENS) if header.context > 0 else MAX_TOKENS
    return Settings(path, context, _MEAN if header.pooling in (UNSPECIFIED, _NO_POOLING) else None, threads)


def _unit(vector: bytes) -> bytes:
    """Return the vector with length 1; numbers that are not finite count as 0."""
    numbers = [number if math.isfinite(number) else 0.0 for number in array("f", vector)]
    length = math.hypot(*numbers)
    if not length:
        raise InputRefused("The model returned a vector of zeros.", hint="Try another model.")
    return struct.pack(f"<{len(numbers)}f", *(number / length for number in numbers))
