"""Find the model's files: in a folder that the user names, or in the cache, downloaded from the Hugging Face hub."""

import os
from contextlib import suppress
from typing import NamedTuple

from mdrecall.embed.download import RemoteFile, fetch, is_right, sha256_of, writing_in
from mdrecall.errors import ModelFileError
from mdrecall.types import ProgressCallback

HUB = "https://huggingface.co"
MODEL = RemoteFile("model.safetensors", 90868376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
TOKENIZER = RemoteFile("tokenizer.json", 466247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037")
VOCABULARY = RemoteFile("vocab.txt", 231508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")

_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
_BY_HAND = (
    f"Download {MODEL.name} and {TOKENIZER.name} of {_REPOSITORY} by hand into one folder, and set "
    "memorySearch.local.modelPath to that folder."
)


class Places(NamedTuple):
    """Where the model's files may be."""

    cache_dir: str
    folder: str | None = None
    """A folder that the user names; nothing is downloaded then."""
    base_url: str = HUB
    timeout_s: float = 30
    progress: ProgressCallback | None = None


def model_file(places: Places) -> str:
    """The path of the weights, checked and if need be downloaded."""
    return _in_folder(places.folder, MODEL) if places.folder is not None else _in_cache(places, MODEL)


def tokenizer_file(places: Places) -> str:
    """The path of the tokenizer, checked: its tokenizer.json, or in a named folder also its vocab.txt."""
    if places.folder is None:
        return _in_cache(places, TOKENIZER)
    vocabulary = os.path.join(places.folder, VOCABULARY.name)
    if not os.path.lexists(os.path.join(places.folder, TOKENIZER.name)) and os.path.lexists(vocabulary):
        return _in_folder(places.folder, VOCABULARY)
    return _in_folder(places.folder, TOKENIZER)


def _in_folder(folder: str, file: RemoteFile) -> str:
    path = os.path.join(folder, file.name)
    try:
        if is_right(path, file):
            return path
        found = sha256_of(path)
    except FileNotFoundError as error:
        wanted = f"{MODEL.name} and {TOKENIZER.name} (or {VOCABULARY.name})"
        raise ModelFileError(f"{path} is missing; the folder must hold {wanted}.", hint=_BY_HAND) from error
    except OSError as error:
        raise ModelFileError(f"Cannot read {path}: {error.strerror}.", hint=_BY_HAND) from error
    message = f"{path} is not the file of {_REPOSITORY}: its SHA-256 is {found}, not {file.sha256}."
    raise ModelFileError(message, hint=_BY_HAND)


def _in_cache(places: Places, file: RemoteFile) -> str:
    path = os.path.join(places.cache_dir, file.name)
    with suppress(OSError):
        if is_right(path, file):
            return path
    url = f"{places.base_url.rstrip('/')}/{_REPOSITORY}/resolve/main/{file.name}"
    with writing_in(places.cache_dir):
        return fetch(file, url, places.cache_dir, hint=_BY_HAND, timeout_s=places.timeout_s, progress=places.progress)
