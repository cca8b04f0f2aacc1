"""The embedder ``minilm``: all-MiniLM-L6-v2 on the processor, behind the extra ``mdrecall[minilm]``.

Its weights and its tokenizer are fetched at first use, and a quantised graph is built from them once.
"""

import hashlib
import importlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import groupby, islice
from types import MappingProxyType
from typing import Any, NamedTuple

from mdrecall.embed.download import RemoteFile, fetch, folder_lock, hash_file, matches
from mdrecall.embed.models import join_title
from mdrecall.errors import EmbedderUnavailable, ModelFileError, install_command
from mdrecall.types.documents import Embedding, EmbedInput, Traits
from mdrecall.types.sync import ProgressCallback

RECIPE_VERSION = 1
"""Raise it whenever the same weights would give different vectors."""
TOKEN_LIMIT = 256
"""How many tokens of a text are read, including the two special tokens around it: the model's own limit."""
DIMENSIONS = 384
HUB = "https://huggingface.co"
MODEL = RemoteFile("model.safetensors", 90868376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
TOKENIZER = RemoteFile("tokenizer.json", 466247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037")
VOCABULARY = RemoteFile("vocab.txt", 231508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")

_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
_BY_HAND = (
    f"Download {MODEL.name} and {TOKENIZER.name} of {_REPOSITORY} by hand into one folder, and set "
    "memorySearch.local.modelPath to that folder."
)

# Begins the graph's file, so that a graph of another recipe is not taken for this one.
_MAGIC = b"mdrecall minilm graph %d\n" % RECIPE_VERSION
_DIGEST_BYTES = 32
_PACKAGES = ("numpy", "onnxruntime", "tokenizers")
#: Bounds the memory of a batch: four texts of the longest length, or many short ones.
_BATCH_TOKENS = 1024
NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})


def open_embedder(folder: str, cache_dir: str, hub: str) -> "MiniLM":
    """Return the embedder; if a folder is named, it has the model's files."""
    return MiniLM(cache_dir, folder=folder or None, base_url=hub)


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
        progress: ProgressCallback | None = None,
    ) -> None:
        """``cache_dir`` holds downloads and the built graph; ``folder`` has the model's files, instead of the hub."""
        self._location = ModelLocation(cache_dir, folder, base_url, progress)
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
    from mdrecall.extras.minilm.graph import build

    with open(model, "rb") as file:
        return build(file.read(), TOKEN_LIMIT)


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


class ModelLocation(NamedTuple):
    """Where the model's files are."""

    cache_dir: str
    folder: str | None = None
    """The user's folder with the files; nothing is downloaded then."""
    base_url: str = HUB
    progress: ProgressCallback | None = None


def is_on_disk(location: ModelLocation) -> bool:
    """True if the model can be loaded without a download, as far as the names of its files tell."""
    folder = location.cache_dir if location.folder is None else location.folder
    has_weights = os.path.isfile(os.path.join(folder, MODEL.name)) or (
        location.folder is None and os.path.isfile(graph_path(folder))
    )
    tokenizers = (TOKENIZER.name,) if location.folder is None else (TOKENIZER.name, VOCABULARY.name)
    return has_weights and any(os.path.isfile(os.path.join(folder, name)) for name in tokenizers)


def model_file(location: ModelLocation) -> str:
    """Return the path of the weights, checked and downloaded if need be."""
    return _in_folder(location.folder, MODEL) if location.folder is not None else _in_cache(location, MODEL)


def tokenizer_file(location: ModelLocation) -> str:
    """Return the path of the tokenizer, checked: tokenizer.json, or vocab.txt in a user's folder without one."""
    if location.folder is None:
        return _in_cache(location, TOKENIZER)
    vocabulary = os.path.join(location.folder, VOCABULARY.name)
    if not os.path.lexists(os.path.join(location.folder, TOKENIZER.name)) and os.path.lexists(vocabulary):
        return _in_folder(location.folder, VOCABULARY)
    return _in_folder(location.folder, TOKENIZER)


def _in_folder(folder: str, file: RemoteFile) -> str:
    path = os.path.join(folder, file.name)
    try:
        if matches(path, file):
            return path
        found = hash_file(path)
    except FileNotFoundError as error:
        wanted = f"{MODEL.name} and {TOKENIZER.name} (or {VOCABULARY.name})"
        raise ModelFileError(f"{path} is missing; the folder must hold {wanted}.", hint=_BY_HAND) from error
    except OSError as error:
        raise ModelFileError(f"Cannot read {path}: {error.strerror}.", hint=_BY_HAND) from error
    message = f"{path} is not the file of {_REPOSITORY}: its SHA-256 is {found}, not {file.sha256}."
    raise ModelFileError(message, hint=_BY_HAND)


def _in_cache(location: ModelLocation, file: RemoteFile) -> str:
    path = os.path.join(location.cache_dir, file.name)
    with suppress(OSError):
        if matches(path, file):
            return path
    url = f"{location.base_url.rstrip('/')}/{_REPOSITORY}/resolve/main/{file.name}"
    with folder_lock(location.cache_dir):
        return fetch(file, url, location.cache_dir, hint=_BY_HAND, progress=location.progress)


def graph_path(folder: str) -> str:
    """Return the path of the graph for this recipe."""
    return os.path.join(folder, f"all-MiniLM-L6-v2-int8-r{RECIPE_VERSION}.graph")


def load_graph(folder: str) -> bytes | None:
    """Return the graph; None if it is missing, damaged or of another recipe."""
    try:
        with open(graph_path(folder), "rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            digest, graph = file.read(_DIGEST_BYTES), file.read()
    except OSError:
        return None
    return graph if hashlib.sha256(graph).digest() == digest else None


def save_graph(folder: str, build: Callable[[], bytes]) -> bytes:
    """Build the graph and save it; a killed process leaves no partial file under the final name."""
    graph = build()
    path = graph_path(folder)
    with open(f"{path}.part", "wb") as file:
        file.write(_MAGIC + hashlib.sha256(graph).digest() + graph)
    os.replace(f"{path}.part", path)
    return graph
