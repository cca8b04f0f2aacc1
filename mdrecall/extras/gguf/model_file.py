"""The file of a GGUF model: where ``local.modelPath`` says it is, downloaded if need be, and its header.

The header is not trusted: whatever it says, memory is bounded and reads stay inside the file.
"""

import hashlib
import os
import re
import stat
import struct
from typing import IO, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from mdrecall.embed.download import BadContent, RemoteFile, fetch, folder_lock
from mdrecall.errors import ModelFileError
from mdrecall.types.sync import ProgressCallback

DEFAULT = "hf:ggml-org/embeddinggemma-300m-qat-q8_0-GGUF/embeddinggemma-300m-qat-Q8_0.gguf"
HUB = "https://huggingface.co"
FORMS = (
    "Set memorySearch.local.modelPath to the path of a .gguf file, to hf:USER/REPOSITORY/FILE.gguf, "
    "or to an address https://…/FILE.gguf."
)
_ON_HUB = re.compile(r"hf:(?P<user>[^/@#:]+)/(?P<repository>[^/@#:]+)/(?P<file>[^@#]+\.gguf)([@#](?P<revision>.+))?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(//)?")
_MAGIC = b"GGUF"
_CUT_OFF = "it ends in the middle of its header"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# Real models have some hundred entries, and vocabularies of up to 262,144 items. The bounds are far above
# that, and keep a damaged count from allocating gigabytes or reading for minutes.
_MAX_ENTRIES = 1 << 16
_MAX_NAME_BYTES = 1 << 16
_MAX_TEXT_BYTES = 1 << 26
_MAX_ITEMS = 1 << 22
#: Longer texts, such as chat templates, are skipped: nothing here needs them.
_KEPT_BYTES = 1024
#: The pooling of a model that does not specify one, and of a model that ranks texts, as llama.cpp numbers it.
UNSPECIFIED, RANKING = -1, 4


def parse_reference(text: str, hub: str = HUB) -> tuple[str, str]:
    """Return the file that ``local.modelPath`` means, and its address; raise ``ModelFileError`` if it means none.

    A local file has no address. The path of a download is below the cache folder.
    """
    if text.startswith("hf:"):
        return _parse_hub(text, hub)
    if text.startswith(("http://", "https://")):
        return _parse_web(text)
    if _SCHEME.match(text) or "\0" in text:
        raise _reference_error(text)
    return os.path.abspath(os.path.expanduser(text)), ""


def _parse_hub(text: str, hub: str) -> tuple[str, str]:
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
    return os.path.join("hub", *parts), url


def _parse_web(text: str) -> tuple[str, str]:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise _reference_error(text) from error
    name = unquote(parts.path.rpartition("/")[2])
    if not parts.hostname or "@" in parts.netloc or not name.endswith(".gguf") or not _is_name(name):
        raise _reference_error(text)
    return os.path.join("web", hashlib.sha256(text.encode()).hexdigest()[:16], name), text


def _is_name(part: str) -> bool:
    """True if the text is safe as the name of a file."""
    return part not in ("", ".", "..") and part.isprintable() and not set(part) & {"/", "\\"} and len(part) < 200


def _reference_error(text: str) -> ModelFileError:
    return ModelFileError(f"{text!r} does not name a model.", hint=FORMS)


def read_stamp(path: str) -> tuple[int, int, int] | None:
    """Return the size, time and number of a regular file, which change with it; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def fetch_model(path: str, url: str, cache_dir: str, progress: ProgressCallback | None) -> str:
    """Return the path of the model's file, downloading it if need be."""
    if not url:
        return path
    path = os.path.join(os.path.abspath(cache_dir), path)
    if os.path.exists(path):
        return path
    folder, name = os.path.split(path)
    hint = (
        f"Download {name} by hand from {url} (a model with a licence to accept asks for a login there), and set "
        "memorySearch.local.modelPath to the file."
    )
    with folder_lock(folder):
        return fetch(RemoteFile(name), url, folder, hint=hint, progress=progress, check=read_header)


def check_header(path: str, *, downloaded: bool) -> "Header":
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
    except BadContent as error:
        raise ModelFileError(f"{path} cannot be used: {error}.", hint=hint) from error


class Header(NamedTuple):
    """What must be known about a model before it is loaded."""

    architecture: str
    name: str
    context: int
    """The model's longest text in tokens; 0 if unspecified."""
    pooling: int
    """How token vectors become one vector, as llama.cpp's number for it."""


def read_header(path: str) -> Header:
    """Read the header; raise ``BadContent`` if there is none."""
    with open(path, "rb", buffering=1 << 18) as file:
        cursor = _Cursor(file, os.fstat(file.fileno()).st_size)
        facts = dict(_entry(cursor) for _ in range(_count_entries(cursor)))
    architecture = str(facts.get("general.architecture", ""))
    if not architecture:
        raise BadContent("it does not say which architecture it has")
    context = _require_int(facts.get(f"{architecture}.context_length", 0))
    pooling = _require_int(facts.get(f"{architecture}.pooling_type", UNSPECIFIED))
    return Header(architecture, str(facts.get("general.name", "")), context, pooling)


class _Cursor:
    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self.size = size

    def take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) != count:
            raise BadContent(_CUT_OFF)
        return data

    def skip(self, count: int) -> None:
        if self._file.seek(count, os.SEEK_CUR) > self.size:
            raise BadContent(_CUT_OFF)

    def number(self, kind: str) -> int:
        found: int = struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]
        return found

    def count(self, most: int, what: str) -> int:
        found = self.number("Q")
        if found > most:
            raise BadContent(f"its header is damaged: {found} {what}")
        return found


def _count_entries(cursor: _Cursor) -> int:
    magic = cursor.take(min(len(_MAGIC), cursor.size))
    if magic != _MAGIC:
        raise BadContent(f"it begins with {magic!r} instead of {_MAGIC!r}: it is not a GGUF model")
    version = cursor.number("I")
    if version not in _VERSIONS:
        raise BadContent(f"it is of GGUF version {version}; only 2 and 3 are supported")
    cursor.count(_MAX_ENTRIES, "tensors")
    return cursor.count(_MAX_ENTRIES, "entries")


def _text(cursor: _Cursor, most: int) -> str:
    length = cursor.count(most, "bytes in a text")
    if length > _KEPT_BYTES:
        cursor.skip(length)
        return ""
    return cursor.take(length).decode("utf-8", "replace")


def _entry(cursor: _Cursor) -> tuple[str, object]:
    """Return a key and its value; long texts and lists are skipped."""
    key = _text(cursor, _MAX_NAME_BYTES)
    kind = cursor.number("I")
    if kind == _STRING:
        return key, _text(cursor, _MAX_TEXT_BYTES)
    if kind == _ARRAY:
        _skip_array(cursor)
        return key, None
    return key, cursor.number(_scalar(kind))


def _scalar(kind: int) -> str:
    if kind not in _SCALARS:
        raise BadContent(f"its header is damaged: a value of kind {kind}")
    return _SCALARS[kind]


def _skip_array(cursor: _Cursor) -> None:
    kind = cursor.number("I")
    items = cursor.count(_MAX_ITEMS, "items in a list")
    if kind != _STRING:
        return cursor.skip(items * struct.calcsize(f"<{_scalar(kind)}"))
    for _ in range(items):
        cursor.skip(cursor.count(_MAX_TEXT_BYTES, "bytes in a text"))
    return None


def _require_int(value: object) -> int:
    if not isinstance(value, int):
        raise BadContent(f"its header is damaged: {value!r} instead of a whole number")
    return value
