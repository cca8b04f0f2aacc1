"""Text to vectors with a GGUF model; it is found, loaded and kept when it is first used."""

import hashlib
import json
import math
import struct
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mdrecall.embed.gguf.files import Stamp, checked_header, find, identity_of, stamp_of
from mdrecall.embed.gguf.header import UNTOLD, Header
from mdrecall.embed.gguf.reference import DEFAULT, HUB, Reference, parse
from mdrecall.embed.gguf.runtime import Runtime, Settings, require_package
from mdrecall.embed.prompts import RECIPE_VERSION, Prompts, prompts_for
from mdrecall.errors import EmbedderUnavailable, InputRefused, ModelFileError
from mdrecall.types import Embedding, EmbedInput, Progress, ProgressCallback, Traits

NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})
_MOST_TOKENS = 2304
"""No text of ``input_bytes`` has more tokens, prompt included; a longer context would only cost memory."""
_CLOSE_WAIT_S = 0.5
"""Whoever waits for the model has noticed by then that it is gone; a download ends with the next block."""
_NO_POOLING, _MEAN, _RANKING = 0, 1, 4


class _Loaded(NamedTuple):
    path: str
    stamp: Stamp | None
    prompts: Prompts


class GgufEmbedder:
    """The embedder ``local``. It may be used from several threads; the model runs in a process of its own."""

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
        """``model_path`` is what ``local.modelPath`` says; ``cache_dir`` keeps what is downloaded."""
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
        """Vectors with the same fingerprint can be compared. Of a download only the reference counts: it is the same
        before and after. Of a file its content counts, and its name, which may tell how texts are to be prepared."""
        parts: list[object] = [self.provider, RECIPE_VERSION]
        try:
            reference = parse(self.model, self._hub)
        except ModelFileError:
            reference = Reference("", url=self.model)
        parts += [self.model] if reference.url else [reference.name, *identity_of(reference.path)]
        return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()

    def prepare(self, stored: int = 0, progress: ProgressCallback | None = None) -> None:
        """Load the model now, downloading it if needed, instead of at the first text; then ``dimensions`` is known."""
        with self._lock:
            before, self._progress = self._progress, progress or self._progress
            try:
                self._ready()
            finally:
                self._progress = before

    def embed_query(self, text: str, weights: Mapping[str, float] = NO_WEIGHTS) -> bytes:
        """The vector of a query: little-endian 32-bit floats of unit length. Words cannot be weighed here."""
        return self._embed(lambda prompts: [prompts.of_query(text)])[0]

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        """The vectors of chunks, in their order. One that is too long has all of them refused."""
        if not passages:
            return []
        return [Embedding(vector) for vector in self._embed(lambda prompts: list(map(prompts.of_passage, passages)))]

    def interrupt(self) -> None:
        """End whatever is under way, and with it the process of the model."""
        self.close()

    def close(self) -> None:
        """Let go of the model, even while it is loading or working; a later call loads it again."""
        self._closings += 1
        if runtime := self._runtime:
            runtime.kill()
        if self._lock.acquire(timeout=_CLOSE_WAIT_S):
            try:
                self._let_go()
            finally:
                self._lock.release()

    def _embed(self, texts: Callable[[Prompts], list[str]]) -> list[bytes]:
        with self._lock:
            runtime, loaded = self._ready()
            try:
                vectors = runtime.embed(texts(loaded.prompts))
            finally:
                if not runtime.is_running:
                    self._let_go()
        return [_unit(vector) for vector in vectors]

    def _ready(self) -> tuple[Runtime, _Loaded]:
        """The model, loaded if it is not, or if another file has taken the place of its own."""
        runtime, loaded = self._runtime, self._loaded
        if runtime and loaded and runtime.is_running and stamp_of(loaded.path) == loaded.stamp:
            return runtime, loaded
        self._let_go()
        try:
            return self._load(self._closings)
        except BaseException:
            self._let_go()
            raise

    def _load(self, closings: int) -> tuple[Runtime, _Loaded]:
        require_package()
        reference = parse(self.model, self._hub)
        path = find(reference, self._cache_dir, self._timeout_s, lambda step: self._tell(step, closings))
        stamp = stamp_of(path)
        header = checked_header(path, downloaded=bool(reference.url))
        self._runtime = runtime = Runtime(_settings(path, header, self._threads))
        self._check_open(closings)
        runtime.start()
        self.dimensions = len(runtime.embed(["text"])[0]) // 4
        prompts = prompts_for(header.architecture, header.name, self.model if reference.url else reference.name)
        self._loaded = _Loaded(path, stamp, prompts)
        return runtime, self._loaded

    def _tell(self, step: Progress, closings: int) -> None:
        if self._progress:
            self._progress(step)
        self._check_open(closings)

    def _check_open(self, closings: int) -> None:
        if closings != self._closings:
            raise EmbedderUnavailable("The model was let go of while it was being loaded.", hint="Try again.")

    def _let_go(self) -> None:
        runtime, self._runtime, self._loaded = self._runtime, None, None
        if runtime:
            runtime.kill()
            runtime.end()


def _settings(path: str, header: Header, threads: int) -> Settings:
    if header.pooling == _RANKING:
        message = f"{path} is a model that ranks texts; it gives no vectors."
        raise ModelFileError(message, hint="Name an embedding model in memorySearch.local.modelPath.")
    context = min(header.context, _MOST_TOKENS) if header.context > 0 else _MOST_TOKENS
    return Settings(path, context, _MEAN if header.pooling in (UNTOLD, _NO_POOLING) else None, threads)


def _unit(vector: bytes) -> bytes:
    """The vector with length 1; what is not a number counts as 0."""
    numbers = [number if math.isfinite(number) else 0.0 for number in array("f", vector)]
    length = math.hypot(*numbers)
    if not length:
        raise InputRefused("The model gave a vector without direction.", hint="Try another model.")
    return struct.pack(f"<{len(numbers)}f", *(number / length for number in numbers))
