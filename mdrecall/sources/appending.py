"""Append to one file below a workspace, whole or not at all, and never through a symbolic link.

Each component of the path is opened without following a link. The file is locked by the operating system, written at
its end in one call, and synced. What the file already holds is never changed: a write that fails is undone. If the
process is killed, the addition is there as a whole or not at all, unless the system itself breaks off the write, which
it may do for more than a page. The next addition then starts on a line of its own, and the broken one is not mistaken
for a complete one.
"""

import codecs
import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from mdrecall.core.text.headings import find_new_sections
from mdrecall.errors import FileBusy, FileUnwritable
from mdrecall.locks import try_flock
from mdrecall.types import Appended

#: How long to wait for another process that is appending; after that its disk is likely to hang.
WAIT_S = 10.0
NEW_FILE = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL

#: How often to try the lock; short, because an append holds it only briefly.
_RETRY_S = 0.002
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

#: Enough to tell programs apart. The name comes from the program itself, which could send any text.
_MAX_AUTHOR_CHARS = 40
_NOT_IN_AUTHOR = re.compile(r"[^A-Za-z0-9 ._/]+")
_AUTHOR = re.compile(r"^<!-- by [A-Za-z0-9 ._/-]{1,40} -->\n?", re.MULTILINE)


class Addition(NamedTuple):
    """A text to append."""

    text: str
    max_bytes: int
    """How large the file may become."""
    wait_s: float = WAIT_S
    after_blank_line: bool = False
    """True to separate it from what precedes it by a blank line."""
    author: str = ""
    """Who wrote it; empty if that is not to be noted."""
    finishes: bool = False
    """True to complete it if the note ends with its beginning, which a killed process has left there."""


class _Opened(NamedTuple):
    file: int
    is_new: bool


def append_to(folder: int, name: str, shown: str, addition: Addition) -> Appended:
    """Append to a file of an open folder; ``shown`` is how answers and errors call it."""
    with open_locked_end(folder, name, shown, addition.wait_s) as opened:
        return _append(opened, shown, addition)


@contextmanager
def open_folder(workspace: str, name: str = "memory") -> Iterator[int]:
    """Open a folder of the workspace, and create it if it is missing; an empty name is the workspace itself."""
    folder = os.open(workspace, _FOLDER)
    try:
        for part in name.split("/") if name else ():
            folder = _enter(folder, part)
        yield folder
    finally:
        os.close(folder)


def _enter(root: int, name: str) -> int:
    """Open a folder inside an open one, which is closed."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=root)
        sync_folder(root)
    folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=root)
    os.close(root)
    return folder


@contextmanager
def open_locked_end(folder: int, name: str, shown: str, wait_s: float = WAIT_S) -> Iterator[_Opened]:
    """Open a file for appending, or create it, for this process alone; a new file that stays empty goes on failure."""
    until = time.monotonic() + wait_s
    while (opened := _try_to_lock(folder, name)) is None:
        if time.monotonic() >= until:
            message = f"Another process has locked {shown} for more than {wait_s:g} seconds."
            raise FileBusy(message, path=shown, hint="Try again; nothing was written.")
        time.sleep(_RETRY_S)
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


def _try_to_lock(folder: int, name: str) -> _Opened | None:
    is_new = False
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        try:
            file, is_new = os.open(name, NEW_FILE, 0o644, dir_fd=folder), True
        except FileExistsError:
            return None
    try:
        # Another process may have replaced or removed the file before it was locked.
        if try_flock(file) and os.path.samestat(os.fstat(file), os.stat(name, dir_fd=folder, follow_symlinks=False)):
            return _Opened(file, is_new)
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def _append(opened: _Opened, shown: str, addition: Addition) -> Appended:
    found = os.fstat(opened.file)
    if not stat.S_ISREG(found.st_mode):
        hint = "Move it away, or write to another note."
        raise FileUnwritable(f"{shown} is not a regular file.", path=shown, hint=hint)
    if found.st_size > addition.max_bytes:
        raise _too_large(shown, "has", addition.max_bytes)
    data = _read(opened.file, found.st_size)
    codec = find_codec(data)
    note = data.decode(codec, "replace")
    newline = "\r\n" if note.partition("\n")[0].endswith("\r") else "\n"
    if addition.finishes and (
        rest := _broken_rest(data, addition.text.replace("\n", newline).encode(codec, "replace"))
    ):
        if found.st_size + len(rest) > addition.max_bytes:
            raise _too_large(shown, "would have", addition.max_bytes)
        write_at_end(opened.file, rest, found.st_size)
        return Appended(shown, len(rest))
    fresh = find_new_sections(_AUTHOR.sub("", note.replace("\r\n", "\n")), addition.text.replace("\r\n", "\n"))
    if not fresh.text:
        return Appended(shown, 0, fresh.known)
    body = sign(fresh.text, addition.author)
    body = body if body.endswith("\n") else body + "\n"
    if note.strip("\ufeff") and not note.endswith("\n") and not body.startswith("\n"):
        body = "\n" + body
    if addition.after_blank_line and note.strip("\ufeff\r\n"):
        body = "\n" * (2 - _newlines_at_end(note)) + body.lstrip("\n")
    written = body.replace("\n", newline).encode(codec, "replace")
    if found.st_size + len(written) > addition.max_bytes:
        raise _too_large(shown, "would have", addition.max_bytes)
    write_at_end(opened.file, written, found.st_size)
    start = note.count("\n") + body[: -len(body.lstrip())].count("\n") + 1
    return Appended(shown, len(written), fresh.known, start, (note + body.rstrip()).count("\n") + 1)


def _broken_rest(data: bytes, whole: bytes) -> bytes:
    """Return what is missing of an addition whose beginning a note ends with; empty if it does not."""
    at = data.find(whole[:1], max(0, len(data) - len(whole) + 1))
    while at >= 0:
        # No copies: a text of megabytes has its first character a million times.
        if memoryview(data)[at:] == memoryview(whole)[: len(data) - at]:
            return whole[len(data) - at :]
        at = data.find(whole[:1], at + 1)
    return b""


def sign(text: str, author: str) -> str:
    """Return a text with a last line, which Markdown does not show, that says who wrote it."""
    name = " ".join(_NOT_IN_AUTHOR.sub("-", author).split())[:_MAX_AUTHOR_CHARS].strip("- ")
    return f"{text.rstrip()}\n<!-- by {name} -->" if name and text.strip() else text


def _newlines_at_end(note: str) -> int:
    """Return how many line ends a note has at its end, at most two: one blank line is enough."""
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


def find_codec(data: bytes) -> str:
    """Return the encoding of a note: UTF-16 if it has that byte order mark, else UTF-8."""
    if data.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    return "utf-16-be" if data.startswith(codecs.BOM_UTF16_BE) else "utf-8"


def write_at_end(file: int, data: bytes, size: int) -> None:
    """Write all of the data at the end, or restore the size of the file."""
    done = 0
    try:
        while done < len(data):
            done += os.write(file, data[done:])
        os.fsync(file)
    except BaseException:
        with suppress(OSError):
            # Another process may have appended without the lock: what it wrote must not be lost.
            if os.fstat(file).st_size == size + done:
                os.ftruncate(file, size)
        raise


def sync_folder(folder: int) -> None:
    """Write the names in a folder to the disk, if the disk supports it; the text itself has been synced."""
    with suppress(OSError):
        os.fsync(folder)


def write_error(error: OSError, workspace: str, shown: str, *, verb: str = "append to") -> FileUnwritable:
    """Return an error that says why a file cannot be written; ``verb`` says what was tried."""
    parts = shown.split("/")
    for name in (os.path.join(workspace, *parts[:depth]) for depth in range(1, len(parts) + 1)):
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR) and os.path.islink(name):
            hint = "Replace the link with a folder or a file."
            return FileUnwritable(f"{shown} is reached through a symbolic link.", path=shown, hint=hint)
    hint = "Nothing was written. Check the disk and the permissions."
    return FileUnwritable(f"Cannot {verb} {shown}: {error.strerror or error}.", path=shown, hint=hint)
