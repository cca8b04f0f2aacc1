"""The files of all-MiniLM-L6-v2: its weights and tokenizer, and the quantised graph that is built from them once."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from mdrecall.embed.download import RemoteFile, fetch, folder_lock, hash_file, matches
from mdrecall.errors import ModelFileError
from mdrecall.types import ProgressCallback

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


class ModelLocation(NamedTuple):
    """Where the model's files are."""

    cache_dir: str
    folder: str | None = None
    """The user's folder with the files; nothing is downloaded then."""
    base_url: str = HUB
    timeout_s: float = 30
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
        return fetch(
            file, url, location.cache_dir, hint=_BY_HAND, timeout_s=location.timeout_s, progress=location.progress
        )


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
