"""A GGUF model that is fetched and loaded at first use, and loaded again when its process or its file has changed."""

import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from mdrecall.embed.gguf.header import Header
from mdrecall.embed.gguf.model_file import Reference, Stamp, check_header, fetch_model, parse_reference, read_stamp
from mdrecall.embed.gguf.runtime import Runtime, Settings, require_package
from mdrecall.errors import EmbedderUnavailable
from mdrecall.types import Progress, ProgressCallback

_T = TypeVar("_T")

MAX_TOKENS = 2304
"""A text of ``GgufEmbedder.traits.input_bytes`` with its prompt never has more; a longer context only costs memory."""
_CLOSE_WAIT_S = 0.5
"""By then a thread that uses the model has noticed that it is gone; a download ends with its next block."""


class LoadedModel(NamedTuple):
    """A model while it runs."""

    runtime: Runtime
    path: str
    stamp: Stamp | None
    header: Header
    reference: Reference


class GgufModel:
    """Runs one model in a child process. Safe to use from several threads."""

    def __init__(
        self,
        name: str,
        configure: Callable[[str, Header], Settings],
        check: Callable[[Runtime], None] = lambda runtime: None,
        *,
        cache_dir: str,
        hub: str,
        timeout_s: float = 30,
        progress: ProgressCallback | None = None,
    ) -> None:
        """``configure`` returns the settings of a file or raises ``ModelFileError``; ``check`` tries what is loaded."""
        self._name = name
        self._configure = configure
        self._check = check
        self._cache_dir = cache_dir
        self._hub = hub
        self._timeout_s = timeout_s
        self._progress = progress
        self._lock = threading.Lock()
        self._closings = 0
        self._runtime: Runtime | None = None
        self._loaded: LoadedModel | None = None

    def prepare(self, progress: ProgressCallback | None = None) -> None:
        """Load the model now, downloading it if needed."""
        with self._lock:
            before, self._progress = self._progress, progress or self._progress
            try:
                self._ready()
            finally:
                self._progress = before

    def run(self, act: Callable[[LoadedModel], _T]) -> _T:
        """Return the result of a call with the loaded model, which is loaded first if it is not running."""
        with self._lock:
            loaded = self._ready()
            try:
                return act(loaded)
            finally:
                if not loaded.runtime.is_running:
                    self._release()

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

    def _ready(self) -> LoadedModel:
        """Return the loaded model; load it if it is not running, or if its file was replaced."""
        loaded = self._loaded
        if loaded and loaded.runtime.is_running and read_stamp(loaded.path) == loaded.stamp:
            return loaded
        self._release()
        try:
            return self._load(self._closings)
        except BaseException:
            self._release()
            raise

    def _load(self, closings: int) -> LoadedModel:
        require_package()
        reference = parse_reference(self._name, self._hub)
        path = fetch_model(reference, self._cache_dir, self._timeout_s, partial(self._report_progress, closings))
        stamp = read_stamp(path)
        header = check_header(path, downloaded=bool(reference.url))
        self._runtime = runtime = Runtime(self._configure(path, header))
        self._check_open(closings)
        runtime.start()
        self._check(runtime)
        self._loaded = LoadedModel(runtime, path, stamp, header, reference)
        return self._loaded

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
