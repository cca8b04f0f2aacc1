"""The model's file: where ``local.modelPath`` says it is, downloaded if need be, and checked before it is loaded."""

import hashlib
import os
import re
import stat
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from mdrecall.embed.download import RemoteFile, fetch, folder_lock
from mdrecall.embed.gguf.header import BadHeader, Header, find_header_problem, read_header
from mdrecall.errors import ModelFileError
from mdrecall.types import ProgressCallback

DEFAULT = "hf:ggml-org/embeddinggemma-300m-qat-q8_0-GGUF/embeddinggemma-300m-qat-Q8_0.gguf"
HUB = "https://huggingface.co"
FORMS = (
    "Set memorySearch.local.modelPath to the path of a .gguf file, to hf:USER/REPOSITORY/FILE.gguf, "
    "or to an address https://…/FILE.gguf."
)
_ON_HUB = re.compile(r"hf:(?P<user>[^/@#:]+)/(?P<repository>[^/@#:]+)/(?P<file>[^@#]+\.gguf)([@#](?P<revision>.+))?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(//)?")
#: The head of a GGUF file has its metadata, the end its weights; hashing both tells models apart without reading all.
_END_BYTES = 1 << 16


class Reference(NamedTuple):
    """Where a model is: a local file, or a download."""

    name: str
    """The name of its file."""
    path: str = ""
    """The path of a local file, or of a download below the cache folder."""
    url: str = ""
    """The address of a download; empty for a local file."""


def parse_reference(text: str, hub: str = HUB) -> Reference:
    """Return the meaning of ``local.modelPath``; raise ``ModelFileError`` if it has none."""
    if text.startswith("hf:"):
        return _parse_hub(text, hub)
    if text.startswith(("http://", "https://")):
        return _parse_web(text)
    if text.startswith("file://"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise _reference_error(text)
        return _parse_file(text, unquote(parts.path))
    if _SCHEME.match(text):
        raise _reference_error(text)
    return _parse_file(text, text)


def _parse_file(text: str, path: str) -> Reference:
    if "\0" in path:
        raise _reference_error(text)
    path = os.path.abspath(os.path.expanduser(path))
    return Reference(os.path.basename(path), path)


def _parse_hub(text: str, hub: str) -> Reference:
    found = _ON_HUB.fullmatch(text)
    if not found:
        raise _reference_error(text)
    revision = found["revision"] or "main"
    parts = [found["user"], found["repository"], quote(revision, safe=""), *found["file"].split("/")]
    if not all(map(_is_name, parts)):
        raise _reference_error(text)
    file = quote(found["file"])
    repository = f"{quote(found['user'])}/{quote(found['repository'])}"
    url = f"{hub.rstrip('/')}/{repository}/resolve/{quote(revision, safe='')}/{file}"
    return Reference(parts[-1], os.path.join("hub", *parts), url)


def _parse_web(text: str) -> Reference:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise _reference_error(text) from error
    name = unquote(parts.path.rpartition("/")[2])
    if not parts.hostname or "@" in parts.netloc or not name.endswith(".gguf") or not _is_name(name):
        raise _reference_error(text)
    return Reference(name, os.path.join("web", hashlib.sha256(text.encode()).hexdigest()[:16], name), text)


def _is_name(part: str) -> bool:
    """True if the text is safe as the name of a file."""
    return part not in ("", ".", "..") and part.isprintable() and not set(part) & {"/", "\\"} and len(part) < 200


def _reference_error(text: str) -> ModelFileError:
    return ModelFileError(f"{text!r} does not name a model.", hint=FORMS)


class Stamp(NamedTuple):
    """Size, time and number of a file; while they stay the same, so does the file."""

    size: int
    mtime_ns: int
    number: int


def read_stamp(path: str) -> Stamp | None:
    """Return the stamp of a regular file; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def identify_file(path: str) -> list[object]:
    """Return values that identify a file's content without reading gigabytes; empty if it cannot be read."""
    if read_stamp(path) is None:
        return []
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            digest = hashlib.sha256(file.read(_END_BYTES))
            file.seek(max(0, found.st_size - _END_BYTES))
            digest.update(file.read(_END_BYTES))
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, digest.hexdigest()]


def fetch_model(reference: Reference, cache_dir: str, timeout_s: float, progress: ProgressCallback | None) -> str:
    """Return the path of the model's file, downloading it if need be."""
    path = model_path(reference, cache_dir)
    if not reference.url or os.path.exists(path):
        return path
    hint = (
        f"Download {reference.name} by hand from {reference.url} (a model with a licence to accept asks for a login "
        "there), and set memorySearch.local.modelPath to the file."
    )
    folder = os.path.dirname(path)
    with folder_lock(folder):
        return fetch(
            RemoteFile(reference.name),
            reference.url,
            folder,
            hint=hint,
            timeout_s=timeout_s,
            progress=progress,
            problem=find_header_problem,
        )


def model_path(reference: Reference, cache_dir: str) -> str:
    """Return the path where the model's file is or will be."""
    return os.path.join(os.path.abspath(cache_dir), reference.path) if reference.url else reference.path


def check_header(path: str, *, downloaded: bool) -> Header:
    """Return the header of the file; raise ``ModelFileError`` if it is unusable. The file is not changed."""
    hint = "Delete it to download it again." if downloaded else FORMS
    if os.path.isdir(path):
        raise ModelFileError(f"{path} is a folder, not a model.", hint="Name the .gguf file in it. " + hint)
    if not os.path.lexists(path):
        raise ModelFileError(f"{path} is missing.", hint=hint)
    if os.path.exists(path) and read_stamp(path) is None:
        raise ModelFileError(f"{path} is not a regular file.", hint=hint)
    try:
        return read_header(path)
    except OSError as error:
        raise ModelFileError(f"Cannot read {path}: {error.strerror}.", hint=hint) from error
    except BadHeader as error:
        raise ModelFileError(f"{path} cannot be used: {error}.", hint=hint) from error
