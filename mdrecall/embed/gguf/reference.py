"""What ``local.modelPath`` may say: a file, a file on the Hugging Face hub, or an address on the web."""

import hashlib
import os
import re
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from mdrecall.errors import ModelFileError

DEFAULT = "hf:ggml-org/embeddinggemma-300m-qat-q8_0-GGUF/embeddinggemma-300m-qat-Q8_0.gguf"
HUB = "https://huggingface.co"
FORMS = (
    "Set memorySearch.local.modelPath to the path of a .gguf file, to hf:USER/REPOSITORY/FILE.gguf, "
    "or to an address https://…/FILE.gguf."
)
_ON_HUB = re.compile(r"hf:(?P<user>[^/@#:]+)/(?P<repository>[^/@#:]+)/(?P<file>[^@#]+\.gguf)([@#](?P<revision>.+))?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(//)?")


class Reference(NamedTuple):
    """Where a model is: a file, or something to download."""

    name: str
    """The name of its file."""
    path: str = ""
    """Of a file: where it lies. Of a download: where it is kept, below the cache folder."""
    url: str = ""
    """Of a download: where it comes from."""


def parse(text: str, hub: str = HUB) -> Reference:
    """What a reference means."""
    if text.startswith("hf:"):
        return _on_hub(text, hub)
    if text.startswith(("http://", "https://")):
        return _on_web(text)
    if text.startswith("file://"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise _bad(text)
        return _file(text, unquote(parts.path))
    if _SCHEME.match(text):
        raise _bad(text)
    return _file(text, text)


def _file(text: str, path: str) -> Reference:
    if "\0" in path:
        raise _bad(text)
    path = os.path.abspath(os.path.expanduser(path))
    return Reference(os.path.basename(path), path)


def _on_hub(text: str, hub: str) -> Reference:
    found = _ON_HUB.fullmatch(text)
    if not found:
        raise _bad(text)
    revision = found["revision"] or "main"
    parts = [found["user"], found["repository"], quote(revision, safe=""), *found["file"].split("/")]
    if not all(map(_is_name, parts)):
        raise _bad(text)
    file = quote(found["file"])
    repository = f"{quote(found['user'])}/{quote(found['repository'])}"
    url = f"{hub.rstrip('/')}/{repository}/resolve/{quote(revision, safe='')}/{file}"
    return Reference(parts[-1], os.path.join("hub", *parts), url)


def _on_web(text: str) -> Reference:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise _bad(text) from error
    name = unquote(parts.path.rpartition("/")[2])
    if not parts.hostname or "@" in parts.netloc or not name.endswith(".gguf") or not _is_name(name):
        raise _bad(text)
    return Reference(name, os.path.join("web", hashlib.sha256(text.encode()).hexdigest()[:16], name), text)


def _is_name(part: str) -> bool:
    """Whether it can be the name of a file and nothing else."""
    return part not in ("", ".", "..") and part.isprintable() and not set(part) & {"/", "\\"} and len(part) < 200


def _bad(text: str) -> ModelFileError:
    return ModelFileError(f"{text!r} names no model.", hint=FORMS)
