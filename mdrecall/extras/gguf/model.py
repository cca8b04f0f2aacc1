"""A GGUF model in a child process: loaded at first use, and again when its process or its file has changed.

The only module that knows how llama.cpp is called.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, TypeVar

from mdrecall import platform
from mdrecall.errors import EmbedderError, EmbedderUnavailable, InputRefused, ModelFileError, install_command
from mdrecall.extras.gguf import worker
from mdrecall.extras.gguf.model_file import Header, check_header, fetch_model, parse_reference, read_stamp
from mdrecall.types.sync import Progress, ProgressCallback

_T = TypeVar("_T")

MAX_TOKENS = 2304
"""A text of ``GgufEmbedder.traits.input_bytes`` with its prompt never has more; a longer context only costs memory."""
#: By then a thread that uses the model has noticed that it is gone; a download ends with its next block.
_CLOSE_WAIT_S = 0.5
#: A process that has not ended by then is killed.
_END_WAIT_S = 10


def require_package() -> None:
    """Raise ``EmbedderUnavailable`` if the package is missing."""
    if find_spec("xllamacpp") is None:
        hint = f"Install it with `{install_command('gguf')}`."
        raise EmbedderUnavailable("The embedder local needs the Python package xllamacpp.", hint=hint)


class Runtime:
    """A loaded model. ``kill`` may be called from any thread, everything else from one thread at a time."""

    def __init__(self, path: str, header: Header, pooling: int | None) -> None:
        """``pooling`` is the pooling type to use; None for the model's own."""
        self.path = path
        self.header = header
        self._pooling = pooling
        self._context = min(header.context, MAX_TOKENS) if header.context > 0 else MAX_TOKENS
        self._process: subprocess.Popen[str] | None = None
        self._killed = False

    @property
    def is_running(self) -> bool:
        return not self._killed and self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Load the model and return when it is ready."""
        with tempfile.TemporaryDirectory(prefix="mdrecall-gguf-") as folder:
            self._process = _start_process(folder)
            settings = {"path": self.path, "context": self._context, "pooling": self._pooling}
            answer = self._ask(settings | {"socket": "model.sock"})
        if "ready" not in answer:
            self.end()
            raise self._load_error(answer)

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vectors of texts as llama.cpp makes them: native 32-bit floats, not normalised."""
        answer = self._ask_model([_clean(text) for text in texts], "vectors")
        vectors = [base64.b64decode(vector) for vector in answer["vectors"]]
        if len(vectors) != len(texts):
            raise EmbedderError(self._use_error(f"it returned {len(vectors)} vectors for {len(texts)} texts"))
        return vectors

    def rerank(self, query: str, texts: Sequence[str]) -> dict[str, Any]:
        """Return llama.cpp's answer with the scores of texts, unchecked."""
        return self._ask_model({"query": _clean(query), "documents": [_clean(text) for text in texts]}, "results")

    def _ask_model(self, question: object, wanted: str) -> dict[str, Any]:
        """Return an answer that has what is wanted; raise the error that it has instead."""
        answer = self._ask(question)
        if "refused" in answer:
            reason = str(answer["refused"]).rstrip(".")
            message = f"The model accepts texts of up to {self._context} tokens; llama.cpp says: {reason}."
            raise InputRefused(message)
        if wanted not in answer:
            raise EmbedderError(self._use_error(answer.get("error") or self._describe_exit()))
        return answer

    def kill(self) -> None:
        """Kill the process at once; a call in progress raises an error."""
        self._killed = True
        if self._process:
            self._process.kill()

    def end(self) -> None:
        """End the process and wait for it."""
        if self._process is None:
            return
        process = self._process
        if process.stdin and process.stdout:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()
        try:
            process.wait(_END_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _ask(self, question: object) -> dict[str, Any]:
        """Return the answer; an empty one if the process has ended."""
        if self._killed or not self._process or not self._process.stdin or not self._process.stdout:
            return {}
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline() or "{}")
        except (BrokenPipeError, ValueError):
            return {}
        except BaseException:
            # An interrupted call must not leave its answer behind for the next one.
            self.kill()
            raise
        return answer

    def _load_error(self, answer: dict[str, Any]) -> EmbedderError:
        if self._killed:
            return EmbedderUnavailable("The model was unloaded while it was loading.", hint="Try again.")
        update = install_command("gguf", upgrade=True)
        if "unfit" in answer:
            message = f"The installed Python package xllamacpp cannot be used: {answer['unfit']}."
            return EmbedderUnavailable(message, hint=f"Try `{update}`.")
        reason = str(answer.get("failed") or self._describe_exit()).rstrip(".")
        hint = f"The file may be damaged, or made for a newer llama.cpp; try `{update}`."
        what = f"{self.path}, a model of the architecture {self.header.architecture}"
        return ModelFileError(f"llama.cpp cannot load {what}: {reason}.", hint=hint)

    def _use_error(self, reason: str) -> str:
        return f"llama.cpp cannot use {self.path}: {reason}."

    def _describe_exit(self) -> str:
        if self._killed or self._process is None:
            return "the model was unloaded meanwhile"
        self.end()
        code = self._process.returncode
        return f"its process ended with {signal.Signals(-code).name if code < 0 else f'status {code}'}"


def _start_process(folder: str) -> subprocess.Popen[str]:
    """Start the process, detached from this terminal, standard error, and variables for llama.cpp."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LLAMA_", "GGML_"))}
    environment |= {"GGML_NO_BACKTRACE": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        return subprocess.Popen(
            [sys.executable, "-P", str(worker.__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            start_new_session=True,
            creationflags=platform.OWN_CONSOLE,
            text=True,
            encoding="utf-8",
        )
    except OSError as error:
        message = f"Cannot start {sys.executable or 'Python'} for the embedder local: {error.strerror}."
        raise EmbedderUnavailable(message) from error


def _clean(text: str) -> str:
    """Return a text without halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


class GgufModel:
    """Runs one model in a child process. Safe to use from several threads."""

    def __init__(
        self,
        name: str,
        choose_pooling: Callable[[str, Header], int | None],
        check: Callable[[Runtime], None] = lambda runtime: None,
        *,
        cache_dir: str,
        hub: str,
    ) -> None:
        """``choose_pooling`` raises ``ModelFileError`` for a file of another kind; ``check`` tries what is loaded."""
        self._name = name
        self._choose_pooling = choose_pooling
        self._check = check
        self._cache_dir = cache_dir
        self._hub = hub
        self._lock = threading.Lock()
        self._closings = 0
        self._runtime: Runtime | None = None
        self._stamp: tuple[int, int, int] | None = None

    def prepare(self, progress: ProgressCallback | None = None) -> None:
        """Load the model now, downloading it if needed."""
        with self._lock:
            self._ready(progress)

    def run(self, act: Callable[[Runtime], _T]) -> _T:
        """Return the result of a call with the loaded model, which is loaded first if it is not running."""
        with self._lock:
            runtime = self._ready()
            try:
                return act(runtime)
            finally:
                if not runtime.is_running:
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

    def _ready(self, progress: ProgressCallback | None = None) -> Runtime:
        """Return the loaded model; load it if it is not running, or if its file was replaced."""
        runtime = self._runtime
        if runtime and runtime.is_running and read_stamp(runtime.path) == self._stamp:
            return runtime
        self._release()
        try:
            return self._load(self._closings, progress)
        except BaseException:
            self._release()
            raise

    def _load(self, closings: int, progress: ProgressCallback | None) -> Runtime:
        def check_open(step: Progress | None = None) -> None:
            if progress and step:
                progress(step)
            if closings != self._closings:
                raise EmbedderUnavailable("The model was unloaded while it was loading.", hint="Try again.")

        require_package()
        path, url = parse_reference(self._name, self._hub)
        path = fetch_model(path, url, self._cache_dir, check_open)
        self._stamp = read_stamp(path)
        header = check_header(path, downloaded=bool(url))
        self._runtime = runtime = Runtime(path, header, self._choose_pooling(path, header))
        check_open()
        runtime.start()
        self._check(runtime)
        return runtime

    def _release(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime:
            runtime.kill()
            runtime.end()
