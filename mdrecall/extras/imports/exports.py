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
        return list(_find_in_folder(path, pattern))
    if os.path.isfile(path):
        return _find_in_archive(path, pattern) if _is_archive(path) else [(path, "")]
    if os.path.lexists(path):
        raise NotAFile(f"{path} is neither a file nor a folder.", path=path)
    raise FileMissing(f"There is no file or folder {path}.", path=path, hint="Check the path.")


def _find_in_folder(folder: str, pattern: re.Pattern[str]) -> Iterator[JsonFile]:
    for place, folders, names in os.walk(folder, onerror=_raise_unreadable):
        is_deep = os.path.relpath(place, folder).count(os.sep) >= _MAX_DEPTH - 1
        folders[:] = [] if is_deep else sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = os.path.join(place, name)
            is_file = os.path.isfile(file) and not os.path.islink(file)
            if is_file and name.lower().endswith(".zip") and _is_archive(file):
                yield from _find_in_archive(file, pattern)
            elif is_file and pattern.fullmatch(name):
                yield file, ""


def _raise_unreadable(error: OSError) -> None:
    """Raise what a walk through folders has met."""
    path = str(error.filename)
    raise FileUnreadable(f"Cannot list {path}: {error.strerror}.", path=path) from error


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
            yield from _read_values(text, f"{path} ({member})" if member else path)
    except OSError as error:
        raise FileUnreadable(f"Cannot read {path}: {error.strerror or error}.", path=path) from error


def _read_values(text: IO[str], shown: str) -> Iterator[Any]:
    """Yield the items of a list, or values that follow each other; only a piece of the text is in memory."""
    decode = json.JSONDecoder().raw_decode
    buffer = text.read(_READ_CHARS)
    at = _skip_blank(buffer, 0)
    if at == len(buffer):
        raise _damage_error(shown, "is empty")
    is_list = buffer.startswith("[", at)
    at += is_list
    is_whole = False
    while True:
        at = _skip_blank(buffer, at)
        if is_list and buffer.startswith("]", at):
            return
        reason, end = "", len(buffer)
        try:
            value, end = decode(buffer, at)
        except RecursionError as error:
            raise _damage_error(shown, "is nested too deeply") from error
        except ValueError as error:
            reason = getattr(error, "msg", str(error))
        # A number may go on in what is not read yet.
        if not reason and (end < len(buffer) or is_whole):
            yield value
            at = end
            continue
        size = len(buffer) - at
        if is_whole and not size and not is_list:
            return
        if is_whole:
            raise _damage_error(shown, f"is not JSON: {reason}" if size else "ends in the middle of a list")
        if size > MAX_ITEM_BYTES:
            raise _damage_error(shown, f"has no end within {MAX_ITEM_BYTES:,} characters: {reason}")
        # Twice as much each time, so that all tries together read a long item only twice.
        more = text.read(max(_READ_CHARS, size))
        is_whole = not more
        buffer, at = buffer[at:] + more, 0


def _skip_blank(buffer: str, at: int) -> int:
    found = _SPACE.match(buffer, at)
    return found.end() if found else at


def _damage_error(shown: str, what: str) -> ReadError:
    return FileUnreadable(f"{shown} {what}.", path=shown, hint="The file may be cut off or damaged. Export it again.")
