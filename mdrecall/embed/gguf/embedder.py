"""Embeddings from a GGUF model, which is fetched and loaded at first use."""

import hashlib
import json
import math
import struct
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from mdrecall.embed.gguf.header import UNSPECIFIED, Header
from mdrecall.embed.gguf.model_file import (
    DEFAULT,
    HUB,
    Reference,
    Stamp,
    check_header,
    fetch_model,
    identify_file,
    parse_reference,
    read_stamp,
)
from mdrecall.embed.gguf.runtime import Runtime, Settings, require_package
from mdrecall.embed.prompts import RECIPE_VERSION, Prompts, prompts_for
from mdrecall.errors import EmbedderUnavailable, InputRefused, ModelFileError
from mdrecall.types import Embedding, EmbedInput, Progress, ProgressCallback, Traits

NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})
_MAX_TOKENS = 2304
"""A text of ``input_bytes`` with its prompt never has more tokens; a longer context would only cost memory."""
_CLOSE_WAIT_S = 0.5
"""By then a thread that uses the model has noticed that it is gone; a download ends with its next block."""
#: Numbers of llama.cpp's pooling types.
_NO_POOLING, _MEAN, _RANKING = 0, 1, 4


class _Loaded(NamedTuple):
    path: str
    stamp: Stamp | None
    prompts: Prompts


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
        self._cache_dir = cache_dir
        self._hub = hub
        self._threads = threads
        self._timeout_s = timeout_s
        self._progress = progress
        self._lock = threading.Lock()
        self._closings = 0
        self._runtime: Runtime | None = None
        self._loaded: _Loaded | None = None

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
        with self._lock:
            before, self._progress = self._progress, progress or self._progress
            try:
                self._ready()
            finally:
                self._progress = before

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
        self._closings += 1
        if runtime := self._runtime:
            runtime.kill()
        if self._lock.acquire(timeout=_CLOSE_WAIT_S):
            try:
                self._release()
            finally:
                self._lock.release()

    def _embed(self, texts: Callable[[Prompts], list[str]]) -> list[bytes]:
        with self._lock:
            runtime, loaded = self._ready()
            try:
                vectors = runtime.embed(texts(loaded.prompts))
            finally:
                if not runtime.is_running:
                    self._release()
        return [_unit(vector) for vector in vectors]

    def _ready(self) -> tuple[Runtime, _Loaded]:
        """Return the loaded model; load it if it is not running, or if its file was replaced."""
        runtime, loaded = self._runtime, self._loaded
        if runtime and loaded and runtime.is_running and read_stamp(loaded.path) == loaded.stamp:
            return runtime, loaded
        self._release()
        try:
            return self._load(self._closings)
        except BaseException:
            self._release()
            raise

    def _load(self, closings: int) -> tuple[Runtime, _Loaded]:
        require_package()
        reference = parse_reference(self.model, self._hub)
        report = partial(self._report_progress, closings)
        path = fetch_model(reference, self._cache_dir, self._timeout_s, report)
        stamp = read_stamp(path)
        header = check_header(path, downloaded=bool(reference.url))
        self._runtime = runtime = Runtime(_settings(path, header, self._threads))
        self._check_open(closings)
        runtime.start()
        self.dimensions = len(runtime.embed(["text"])[0]) // 4
        prompts = prompts_for(header.architecture, header.name, self.model if reference.url else reference.name)
        self._loaded = _Loaded(path, stamp, prompts)
        return runtime, self._loaded

    def _report_progress(self, closings: int, step: Progress) -> None:
        if self._progress:
            self._progress(step)
        self._check_open(closings)

    def _check_open(self, closings: int) -> None:
        if closings != self._closings:
            raise EmbedderUnavailable("The model was unloaded while it was loading.", hint="Try again.")

    def _release(self) -> None:
        runtime, self._runtime, self._loaded = self._runtime, None, None
        if runtime:
            runtime.kill()
            runtime.end()


def _settings(path: str, header: Header, threads: int) -> Settings:
    if header.pooling == _RANKING:
        message = f"{path} is a model that ranks texts; it does not make embeddings."
        raise ModelFileError(message, hint="Name an embedding model in memorySearch.local.modelPath.")
    context = min(header.context, _MAX_TOKENS) if header.context > 0 else _MAX_TOKENS
    return Settings(path, context, _MEAN if header.pooling in (UNSPECIFIED, _NO_POOLING) else None, threads)


def _unit(vector: bytes) -> bytes:
    """Return the vector with length 1; numbers that are not finite count as 0."""
    numbers = [number if math.isfinite(number) else 0.0 for number in array("f", vector)]
    length = math.hypot(*numbers)
    if not length:
        raise InputRefused("The model returned a vector of zeros.", hint="Try another model.")
    return struct.pack(f"<{len(numbers)}f", *(number / length for number in numbers))
