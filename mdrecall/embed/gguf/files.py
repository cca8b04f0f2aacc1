"""Find a model's file: the file itself, or in the cache folder, where it is downloaded to if it is not there yet."""

import hashlib
import os
import stat
from typing import NamedTuple

from mdrecall.embed.download import RemoteFile, fetch, writing_in
from mdrecall.embed.gguf.header import BadHeader, Header, problem_of, read_header
from mdrecall.embed.gguf.reference import FORMS, Reference
from mdrecall.errors import ModelFileError
from mdrecall.types import ProgressCallback

_END_BYTES = 1 << 16


class Stamp(NamedTuple):
    """While this stays the same, so does the file."""

    size: int
    mtime_ns: int
    number: int


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file; nothing if there is none, or something else than a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def identity_of(path: str) -> list[object]:
    """What tells a file from one that took its place, without reading gigabytes; empty if it cannot be read."""
    if stamp_of(path) is None:
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


def find(reference: Reference, cache_dir: str, timeout_s: float, progress: ProgressCallback | None) -> str:
    """The path of the model's file, downloaded if need be."""
    path = path_of(reference, cache_dir)
    if not reference.url or os.path.exists(path):
        return path
    hint = (
        f"Download {reference.name} by hand from {reference.url} (a model with a licence to accept asks for a login "
        "there), and set memorySearch.local.modelPath to the file."
    )
    folder = os.path.dirname(path)
    with writing_in(folder):
        return fetch(
            RemoteFile(reference.name),
            reference.url,
            folder,
            hint=hint,
            timeout_s=timeout_s,
            progress=progress,
            problem=problem_of,
        )


def path_of(reference: Reference, cache_dir: str) -> str:
    """Where the model's file lies, or will."""
    return os.path.join(os.path.abspath(cache_dir), reference.path) if reference.url else reference.path


def checked_header(path: str, *, downloaded: bool) -> Header:
    """The head of the file, or a clear error. The file is left as it is."""
    hint = "Delete it, and it is downloaded again." if downloaded else FORMS
    if os.path.isdir(path):
        raise ModelFileError(f"{path} is a folder, not a model.", hint="Name the .gguf file in it. " + hint)
    if not os.path.lexists(path):
        raise ModelFileError(f"{path} is missing.", hint=hint)
    if os.path.exists(path) and stamp_of(path) is None:
        raise ModelFileError(f"{path} is not a plain file.", hint=hint)
    try:
        return read_header(path)
    except OSError as error:
        raise ModelFileError(f"Cannot read {path}: {error.strerror}.", hint=hint) from error
    except BadHeader as error:
        raise ModelFileError(f"{path} cannot be used: {error}.", hint=hint) from error
