"""Append to one file below a workspace, whole or not at all, and through no link.

The file is opened part by part without following a link, locked by the operating system, written at its end in one
go, and synced. What stood there before is never touched: a write that fails is taken back. A process that is killed
leaves its entry whole or not at all, unless the system breaks off the write itself, which it may for one of more than
a page; the next entry begins on a line of its own, and the broken one is not taken for the whole one.
"""

import codecs
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from mdrecall.core.text.sections import find_new_sections
from mdrecall.errors import FileBusy, FileUnwritable
from mdrecall.types import Appended

WAIT_S = 10.0
NEW_FILE = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL

_EVERY_S = 0.002
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Entry(NamedTuple):
    """What is to be appended."""

    text: str
    max_bytes: int
    """How long the file may become."""
    wait_s: float = WAIT_S
    is_apart: bool = False
    """Whether a blank line is to stand before it."""


class _Opened(NamedTuple):
    file: int
    is_new: bool


def append_in(folder: int, name: str, shown: str, entry: Entry) -> Appended:
    """Append to a file of an open folder; ``shown`` is how answers and errors call it."""
    with _locked(folder, name, shown, entry.wait_s) as opened:
        return _append(opened, shown, entry)


@contextmanager
def folder_of(workspace: str, name: str = "memory") -> Iterator[int]:
    """A folder of the workspace, made if it is not there; without a name, the workspace itself."""
    folder = os.open(workspace, _FOLDER)
    try:
        if name:
            folder = _deeper(folder, name)
        yield folder
    finally:
        os.close(folder)


def _deeper(root: int, name: str) -> int:
    """A folder in place of the one that it is in."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=root)
        sync_folder(root)
    folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=root)
    os.close(root)
    return folder


@contextmanager
def _locked(folder: int, name: str, shown: str, wait_s: float) -> Iterator[_Opened]:
    """The file, made if it is not there, for this process alone; as it was, if what follows fails."""
    until = time.monotonic() + wait_s
    while (opened := _try(folder, name)) is None:
        if time.monotonic() >= until:
            message = f"Another process has kept {shown} for {wait_s:g} seconds."
            raise FileBusy(message, path=shown, hint="Try again; nothing was written.")
        time.sleep(_EVERY_S)
    try:
        yield opened
        if opened.is_new:
            sync_folder(folder)
    except BaseException:
        with suppress(OSError):
            if opened.is_new and not os.fstat(opened.file).st_size:
                os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(opened.file)


def _try(folder: int, name: str) -> _Opened | None:
    is_new = False
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        try:
            file, is_new = os.open(name, NEW_FILE, 0o644, dir_fd=folder), True
        except FileExistsError:
            return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody may have put another file in its place, or taken a new one away, before it was locked.
        if os.path.samestat(os.fstat(file), os.stat(name, dir_fd=folder, follow_symlinks=False)):
            return _Opened(file, is_new)
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def _append(opened: _Opened, shown: str, entry: Entry) -> Appended:
    found = os.fstat(opened.file)
    if not stat.S_ISREG(found.st_mode):
        raise FileUnwritable(f"{shown} is not a regular file.", path=shown, hint="Move it away.")
    if found.st_size > entry.max_bytes:
        raise _too_large(shown, "has", entry.max_bytes)
    data = _read(opened.file, found.st_size)
    codec = _codec(data)
    note = data.decode(codec, "replace")
    fresh = find_new_sections(note.replace("\r\n", "\n"), entry.text.replace("\r\n", "\n"))
    if not fresh.text:
        return Appended(shown, 0, fresh.known)
    body = fresh.text if fresh.text.endswith("\n") else fresh.text + "\n"
    if note.strip("\ufeff") and not note.endswith("\n") and not body.startswith("\n"):
        body = "\n" + body
    if entry.is_apart and note.strip("\ufeff\r\n"):
        body = "\n" * (2 - _newlines_at_end(note)) + body.lstrip("\n")
    newline = "\r\n" if note.partition("\n")[0].endswith("\r") else "\n"
    written = body.replace("\n", newline).encode(codec, "replace")
    if found.st_size + len(written) > entry.max_bytes:
        raise _too_large(shown, "would have", entry.max_bytes)
    write_at_end(opened.file, written, found.st_size)
    start = note.count("\n") + body[: -len(body.lstrip())].count("\n") + 1
    return Appended(shown, len(written), fresh.known, start, (note + body.rstrip()).count("\n") + 1)


def _newlines_at_end(note: str) -> int:
    """Two at most: more blank lines than one make no difference."""
    ends = note.replace("\r\n", "\n")
    return min(2, len(ends) - len(ends.rstrip("\n")))


def _too_large(shown: str, verb: str, max_bytes: int) -> FileUnwritable:
    message = f"{shown} {verb} more than {max_bytes:,} bytes."
    return FileUnwritable(message, path=shown, hint="Split the file, or raise mdrecall.maxFileBytes.")


def _read(file: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := os.pread(file, size - len(data), len(data))):
        data += more
    return data


def _codec(data: bytes) -> str:
    if data.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    return "utf-16-be" if data.startswith(codecs.BOM_UTF16_BE) else "utf-8"


def write_at_end(file: int, data: bytes, size: int) -> None:
    """Write all of it at the end, or leave the file as long as it was."""
    done = 0
    try:
        while done < len(data):
            done += os.write(file, data[done:])
        os.fsync(file)
    except BaseException:
        with suppress(OSError):
            # Whoever appends without the lock does not lose what he wrote.
            if os.fstat(file).st_size == size + done:
                os.ftruncate(file, size)
        raise


def sync_folder(folder: int) -> None:
    """Have the names in a folder on the disk, where the disk can do that; the text itself is there by now."""
    with suppress(OSError):
        os.fsync(folder)


def refused(error: OSError, workspace: str, shown: str) -> FileUnwritable:
    for name in (os.path.join(workspace, os.path.dirname(shown)), os.path.join(workspace, shown)):
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR) and os.path.islink(name):
            hint = "Put a folder or a file of its own in its place."
            return FileUnwritable(f"{shown} is reached through a symbolic link.", path=shown, hint=hint)
    hint = "Nothing was written. Check the disk and the permissions."
    return FileUnwritable(f"Cannot append to {shown}: {error.strerror or error}.", path=shown, hint=hint)
