"""The JSON files of an export: alone, in a folder, or in an archive that is never unpacked.

An export may have gigabytes. A list is read item by item, so that only one item is in memory, and what an archive
holds is counted while it is read: an archive that unpacks to far more than it should is refused.
"""

import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import IO, Any, TypeAlias

from mdrecall.errors import FileMissing, FileTooLarge, FileUnreadable, NotAFile, ReadError
from mdrecall.life.backup import MAX_BYTES, open_archive, open_member

#: The largest item of a list: the largest conversation that anybody has reported has 18 MB.
MAX_ITEM_BYTES = 64 << 20
#: Folders below the given one that are searched for an export.
_MAX_DEPTH = 3
_READ_CHARS = 1 << 20
_SPACE = re.compile(r"[\s,\ufeff]*")


#: A JSON file of an export: the path of it or of its archive, and its name in the archive; empty for a file.
JsonFile: TypeAlias = tuple[str, str]


def find_json(path: str, pattern: re.Pattern[str]) -> list[JsonFile]:
    """Return the JSON files of an export whose name matches, in order: in a folder, its archives, or an archive.

    A file that is named itself need not match. Raise ``ReadError`` if there is nothing to read.
    """
    if os.path.isdir(path):
        return [found for file in _walk(path) for found in _find_in_file(file, pattern)]
    if os.path.isfile(path):
        return _find_in_archive(path, pattern) if _is_archive(path) else [(path, "")]
    if os.path.lexists(path):
        raise NotAFile(f"{path} is neither a file nor a folder.", path=path)
    raise FileMissing(f"There is no file or folder {path}.", path=path, hint="Check the path.")


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
    """Raise what a walk through folders has met."""
    path = str(error.filename)
    raise FileUnreadable(f"Cannot list {path}: {error.strerror}.", path=path) from error


def _find_in_file(file: str, pattern: re.Pattern[str]) -> list[JsonFile]:
    if file.lower().endswith(".zip") and _is_archive(file):
        return _find_in_archive(file, pattern)
    return [(file, "")] if pattern.fullmatch(os.path.basename(file)) else []


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
    return [(path, name) for name in names if "__MACOSX" not in name]


def read_items(file: JsonFile) -> Iterator[Any]:
    """Yield the values of a JSON file: of a list its items, else what stands there, one or one after the other.

    Raise ``ReadError`` where it is not JSON. Bytes that are not UTF-8 are replaced.
    """
    path, member = file
    try:
        with ExitStack() as stack:
            if member:
                archive = stack.enter_context(open_archive(path))
                raw = stack.enter_context(open_member(archive, member, path))
            else:
                raw = stack.enter_context(open(path, "rb"))
                if os.fstat(raw.fileno()).st_size > MAX_BYTES:
                    hint = "Split it into smaller files."
                    raise FileTooLarge(f"{path} has more than {MAX_BYTES:,} bytes.", path=path, hint=hint)
            text = io.TextIOWrapper(raw, encoding="utf-8", errors="replace")
            yield from _JsonStream(text, f"{path} ({member})" if member else path).items()
    except OSError as error:
        raise FileUnreadable(f"Cannot read {path}: {error.strerror or error}.", path=path) from error


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
