"""The JSON files of an export: alone, in a folder, or in an archive that is never unpacked.

An export may have gigabytes. A list is read item by item, so that only one item is in memory, and what an archive
holds is counted while it is read: an archive that unpacks to far more than it should is refused.
"""

import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import IO, Any, NamedTuple

from mdrecall.errors import FileMissing, FileTooLarge, FileUnreadable, NotAFile, ReadError

#: The largest item of a list: the largest conversation that anybody has reported has 18 MB.
MAX_ITEM_BYTES = 64 << 20
#: All that is read of one file or archive member, unpacked. The largest exports that people report have 1 GB.
MAX_BYTES = 4 << 30
#: Text as JSON is packed to a fifth; a hundredth is a bomb, unless the file is small.
_MAX_RATIO = 100
_SMALL_BYTES = 16 << 20
#: More files than any export has; each costs memory before it can be looked at.
_MAX_MEMBERS = 200_000
#: Folders below the given one that are searched for an export.
_MAX_DEPTH = 3
_READ_CHARS = 1 << 20
_SPACE = re.compile(r"[\s,\ufeff]*")


class JsonFile(NamedTuple):
    """A JSON file of an export."""

    path: str
    """A file, or an archive."""
    member: str = ""
    """The name in the archive; empty for a file."""

    @property
    def shown(self) -> str:
        return f"{self.path} ({self.member})" if self.member else self.path


def find_json(path: str, pattern: re.Pattern[str]) -> list[JsonFile]:
    """Return the JSON files of an export whose name matches, in order: in a folder, its archives, or an archive.

    A file that is named itself need not match. Raise ``ReadError`` if there is nothing to read.
    """
    if os.path.isdir(path):
        files = [found for file in _walk(path) for found in _find_in_file(file, pattern)]
    elif os.path.isfile(path):
        files = _find_in_archive(path, pattern) if _is_archive(path) else [JsonFile(path)]
    elif os.path.lexists(path):
        raise NotAFile(f"{path} is neither a file nor a folder.", path=path)
    else:
        raise FileMissing(f"There is no file or folder {path}.", path=path, hint="Check the path.")
    return files


def _walk(folder: str) -> Iterator[str]:
    root_depth = folder.rstrip(os.sep).count(os.sep)
    for place, folders, names in os.walk(folder, onerror=_raise_unreadable):
        is_deep = place.rstrip(os.sep).count(os.sep) - root_depth >= _MAX_DEPTH
        folders[:] = [] if is_deep else sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = os.path.join(place, name)
            if os.path.isfile(file) and not os.path.islink(file):
                yield file


def _raise_unreadable(error: OSError) -> None:
    path = str(error.filename)
    raise FileUnreadable(f"Cannot list {path}: {error.strerror}.", path=path) from error


def _find_in_file(file: str, pattern: re.Pattern[str]) -> list[JsonFile]:
    if file.lower().endswith(".zip") and _is_archive(file):
        return _find_in_archive(file, pattern)
    return [JsonFile(file)] if pattern.fullmatch(os.path.basename(file)) else []


def _is_archive(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    except OSError as error:
        raise FileUnreadable(f"Cannot open {path}: {error.strerror}.", path=path) from error


def _find_in_archive(path: str, pattern: re.Pattern[str]) -> list[JsonFile]:
    with open_archive(path) as archive:
        names = sorted(name for name in archive.namelist() if pattern.fullmatch(name.rpartition("/")[2]))
    if twice := next((name for name, other in pairwise(names) if name == other), ""):
        hint = "Nobody can tell which one counts. Unpack it and name the folder."
        raise FileUnreadable(f"{path} holds two files with the name {twice}.", path=path, hint=hint)
    return [JsonFile(path, name) for name in names if "__MACOSX" not in name]


@contextmanager
def open_archive(path: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive. Raise ``FileUnreadable`` if it is damaged, also while it is being read."""
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > _MAX_MEMBERS:
                message = f"{path} holds more than {_MAX_MEMBERS:,} files."
                raise FileTooLarge(message, path=path, hint="Unpack what is needed of it.")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        # What zipfile raises for a damaged archive, an encrypted one, and a packing that it does not know.
        reason = getattr(error, "strerror", None) or str(error).rstrip(".") or type(error).__name__
        hint = "Download it again, or unpack it and name the folder."
        raise FileUnreadable(f"Cannot read {path}: {reason}.", path=path, hint=hint) from error


@contextmanager
def open_member(
    archive: zipfile.ZipFile, name: str, path: str, *, max_bytes: int = MAX_BYTES, max_ratio: int = _MAX_RATIO
) -> "Iterator[LimitedBytes]":
    """Open a file of an archive, unless it would unpack to far more than it should."""
    info = archive.getinfo(name)
    is_bomb = info.file_size > _SMALL_BYTES and info.file_size > max_ratio * max(1, info.compress_size)
    if is_bomb or info.file_size > max_bytes:
        message = f"{name} in {path} would unpack to {info.file_size:,} bytes."
        raise FileTooLarge(message, path=path, hint="If it is yours, unpack it and name the file.")
    with archive.open(info) as raw:
        yield LimitedBytes(raw, info.file_size, f"{name} in {path}")


class LimitedBytes(io.RawIOBase):
    """Bytes that end with an error if there are more of them than were announced."""

    def __init__(self, raw: IO[bytes], limit: int, shown: str) -> None:
        self._raw = raw
        self._left = limit
        self._shown = shown

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            message = f"{self._shown} has more bytes than it may have."
            raise FileTooLarge(message, path=self._shown, hint="Split it into smaller files.")
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_json(file: JsonFile) -> Iterator[IO[str]]:
    """Open a JSON file as text; bytes that are not UTF-8 are replaced."""
    if file.member:
        with open_archive(file.path) as archive, open_member(archive, file.member, file.path) as raw:
            yield _as_text(raw)
        return
    try:
        with open(file.path, "rb") as plain:
            yield _as_text(LimitedBytes(plain, MAX_BYTES, file.path))
    except OSError as error:
        raise FileUnreadable(f"Cannot read {file.path}: {error.strerror or error}.", path=file.path) from error


def _as_text(raw: LimitedBytes) -> IO[str]:
    return io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8", errors="replace")


def read_items(file: JsonFile) -> Iterator[Any]:
    """Yield the values of a JSON file: of a list its items, else what stands there, one or one after the other.

    Raise ``ReadError`` where it is not JSON.
    """
    with open_json(file) as text:
        yield from _JsonStream(text, file.shown).items()


class _JsonStream:
    """Values that follow each other in a text, of which a piece is in memory."""

    def __init__(self, text: IO[str], shown: str) -> None:
        self._text = text
        self._shown = shown
        self._buffer = ""
        self._at = 0
        self._before = 0
        self._decoder = json.JSONDecoder()

    def items(self) -> Iterator[Any]:
        self._skip_space()
        if self._peek() == "[":
            self._at += 1
            while self._skip_space() and self._peek() != "]":
                yield self._next()
            if self._peek() != "]":
                raise self._broken("ends in the middle of a list")
            return
        if not self._peek():
            raise self._broken("is empty")
        while self._skip_space():
            yield self._next()

    def _peek(self) -> str:
        return self._buffer[self._at : self._at + 1]

    def _skip_space(self) -> bool:
        """Go on to what is not blank; False at the end."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._buffer):
                return True
            if not self._read(_READ_CHARS):
                return False

    def _read(self, chars: int) -> bool:
        more = self._text.read(chars)
        if self._at > _READ_CHARS or self._at == len(self._buffer):
            self._before += self._at
            self._buffer, self._at = self._buffer[self._at :], 0
        self._buffer += more
        return bool(more)

    def _next(self) -> Any:
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except RecursionError as error:
                raise self._broken("is nested too deeply") from error
            except ValueError as error:
                size = len(self._buffer) - self._at
                reason = getattr(error, "msg", str(error))
                if size > MAX_ITEM_BYTES:
                    raise self._broken(f"has no end within {MAX_ITEM_BYTES:,} characters: {reason}") from error
                # Twice as much each time, so that all tries together read a long item only twice.
                if not self._read(max(_READ_CHARS, size)):
                    raise self._broken(f"is not JSON: {reason}") from error
                continue
            if end < len(self._buffer):
                self._at = end
                return value
            # A number may go on in what is not read yet.
            if not self._read(_READ_CHARS):
                self._at = len(self._buffer)
                return value

    def _broken(self, what: str) -> ReadError:
        at = self._before + self._at
        hint = "The file may be cut off or damaged. Export it again."
        return FileUnreadable(f"{self._shown} {what} (character {at + 1:,}).", path=self._shown, hint=hint)
