"""Append to the daily note of a workspace, and to nothing else.

The file is opened part by part without following a link, locked by the operating system, written at its end in one
go, and synced. What stood there before is never touched: a write that fails is taken back. A process that is killed
leaves its entry whole or not at all, unless the system breaks off the write itself, which it may for one of more than
a page; the next entry begins on a line of its own, and the broken one is not taken for the whole one.
"""

import codecs
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from mdrecall.core.sections import news
from mdrecall.errors import FileBusy, FileUnwritable, NothingToWrite, PathRefused

WAIT_S = 10.0

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_EVERY_S = 0.002
_MOST_NAMES = 1000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Appended(NamedTuple):
    """What was written where."""

    path: str
    """Relative to the workspace."""
    bytes: int
    skipped: tuple[str, ...] = ()
    """The first line of every section that the file had already."""
    start_line: int | None = None
    end_line: int | None = None


class _Opened(NamedTuple):
    file: int
    is_new: bool


def append_daily(
    workspace: str, text: str, day: str, *, path: str | None = None, max_bytes: int, wait_s: float = WAIT_S
) -> Appended:
    """Append a text to ``memory/<day>.md``; ``path`` is where the caller means it to go, which must be there."""
    shown = f"memory/{day}.md"
    if not _DAY.fullmatch(day):
        raise PathRefused(f"{day!r} is not a day.", path=shown, hint="Give it as YYYY-MM-DD.")
    if path is not None and not _means(path, workspace, shown):
        hint = f"Write to {shown}; it is the only file that a memory flush may append to."
        raise PathRefused(f"{path.strip()!r} is not the file of the day.", path=shown, hint=hint)
    if not text.strip():
        raise NothingToWrite(f"There is nothing to append to {shown}.", path=shown, hint="Give some text.")
    try:
        with _folder(workspace) as folder, _locked(folder, f"{day}.md", shown, wait_s) as opened:
            return _append(opened, text, shown, max_bytes)
    except OSError as error:
        raise _refused(error, workspace, shown) from error


def create_note(workspace: str, name: str, text: str) -> str:
    """Write a new note into ``memory/``, under another name if there is one of this name; gives its path."""
    stem, _, ending = name.rpartition(".")
    try:
        with _folder(workspace) as folder:
            for number in range(1, _MOST_NAMES):
                free = name if number == 1 else f"{stem}-{number}.{ending}"
                with suppress(FileExistsError):
                    file = os.open(free, _FILE | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder)
                    break
            else:
                raise FileBusy(f"memory/{name} and its like are all there.", path=name, hint="Give another name.")
            try:
                _write(file, text.encode("utf-8", "replace"), 0)
                _sync(folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(free, dir_fd=folder)
                raise
            finally:
                os.close(file)
    except OSError as error:
        raise _refused(error, workspace, f"memory/{name}") from error
    return f"memory/{free}"


def _means(path: str, workspace: str, shown: str) -> bool:
    bare = path.strip().removeprefix("@")
    if bare.lower().startswith("file:"):
        from urllib.parse import unquote, urlsplit

        parts = urlsplit(bare)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            return False
        bare = unquote(parts.path)
    if not bare or "\0" in bare:
        return False
    roots = (os.path.abspath(workspace), os.path.realpath(workspace))
    targets = {os.path.normpath(os.path.join(root, bare)) for root in roots}
    return not targets.isdisjoint(os.path.join(root, shown) for root in roots)


@contextmanager
def _folder(workspace: str) -> Iterator[int]:
    """The folder ``memory``, made if it is not there."""
    root = os.open(workspace, _FOLDER)
    try:
        with suppress(FileExistsError):
            os.mkdir("memory", dir_fd=root)
            _sync(root)
        folder = os.open("memory", _FOLDER | os.O_NOFOLLOW, dir_fd=root)
    finally:
        os.close(root)
    try:
        yield folder
    finally:
        os.close(folder)


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
            _sync(folder)
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
            file, is_new = os.open(name, _FILE | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder), True
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


def _append(opened: _Opened, text: str, shown: str, max_bytes: int) -> Appended:
    found = os.fstat(opened.file)
    if not stat.S_ISREG(found.st_mode):
        raise FileUnwritable(f"{shown} is not a regular file.", path=shown, hint="Move it away.")
    if found.st_size > max_bytes:
        hint = "Split the file, or raise mdrecall.maxFileBytes."
        raise FileUnwritable(f"{shown} has more than {max_bytes:,} bytes.", path=shown, hint=hint)
    data = _read(opened.file, found.st_size)
    codec = _codec(data)
    note = data.decode(codec, "replace")
    fresh = news(note.replace("\r\n", "\n"), text.replace("\r\n", "\n"))
    if not fresh.text:
        return Appended(shown, 0, fresh.known)
    body = fresh.text if fresh.text.endswith("\n") else fresh.text + "\n"
    if note.strip("\ufeff") and not note.endswith("\n") and not body.startswith("\n"):
        body = "\n" + body
    newline = "\r\n" if note.partition("\n")[0].endswith("\r") else "\n"
    written = body.replace("\n", newline).encode(codec, "replace")
    _write(opened.file, written, found.st_size)
    start = note.count("\n") + body[: -len(body.lstrip())].count("\n") + 1
    return Appended(shown, len(written), fresh.known, start, (note + body.rstrip()).count("\n") + 1)


def _read(file: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := os.pread(file, size - len(data), len(data))):
        data += more
    return data


def _codec(data: bytes) -> str:
    if data.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    return "utf-16-be" if data.startswith(codecs.BOM_UTF16_BE) else "utf-8"


def _write(file: int, data: bytes, size: int) -> None:
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


def _sync(folder: int) -> None:
    """Have the names in a folder on the disk, where the disk can do that; the text itself is there by now."""
    with suppress(OSError):
        os.fsync(folder)


def _refused(error: OSError, workspace: str, shown: str) -> FileUnwritable:
    for name in (os.path.join(workspace, "memory"), os.path.join(workspace, shown)):
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR) and os.path.islink(name):
            hint = "Put a folder or a file of its own in its place."
            return FileUnwritable(f"{shown} is reached through a symbolic link.", path=shown, hint=hint)
    hint = "Nothing was written. Check the disk and the permissions."
    return FileUnwritable(f"Cannot append to {shown}: {error.strerror or error}.", path=shown, hint=hint)
