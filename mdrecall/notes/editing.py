"""Append to, change, replace or remove a note: whole or not at all, and never through a symbolic link.

Each component of a path is opened without following a link, and the file is locked by the operating system.

An addition is written at the end in one call, and synced. What the file already holds is never changed: a write that
fails is undone. If the process is killed, the addition is there as a whole or not at all, unless the system itself
breaks off the write, which it may do for more than a page. The next addition then starts on a line of its own, and the
broken one is not mistaken for a complete one.

A change is made only if the note is still the file that was read. The new content is written to a file beside the note,
synced, and moved over it. Lines that no edit names stay as they are, byte for byte. Other programs do not know the
lock: text that such a program appends to the replaced file is moved into the note.
"""

import codecs
import errno
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from mdrecall import platform
from mdrecall.errors import FileBusy, FileChanged, FileMissing, FileUnwritable, ReadError
from mdrecall.notes.opening import open_in, open_parent
from mdrecall.patterns import compile_later
from mdrecall.text.annotations import DIGEST_MARK
from mdrecall.text.markdown import find_new_sections
from mdrecall.types.documents import Appended

#: How long to wait for another process that is writing; after that its disk is likely to hang.
_WAIT_S = 10.0
#: How often to try the lock; short, because a write holds it only briefly.
_RETRY_S = 0.002
_FOLDER = os.O_RDONLY | platform.FOLDER
#: For writing, so that a read-only note is left alone, though a file could be moved over it.
_FILE = os.O_RDWR | platform.NO_FOLLOW | platform.NO_WAIT
_NEW_FILE = os.O_CREAT | os.O_EXCL

#: Enough to tell programs apart. The name comes from the program itself, which could send any text.
_MAX_AUTHOR_CHARS = 40
_NOT_IN_AUTHOR = compile_later(r"[^A-Za-z0-9 ._/]+")
_AUTHOR = compile_later(r"^<!-- by [A-Za-z0-9 ._/-]{1,40} -->\n?", re.MULTILINE)

#: How long a replaced file is watched if another program has it open. One that appends closes it long before.
_LATE_S = 1.0
#: So much of a note's name is in that of its temporary file, which has to stay short enough for any disk.
_MAX_NAMED = 60
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
#: A file that was being written when its process was killed. The random part keeps it from being somebody's own.
_HEADING = compile_later(r"^##? ", re.MULTILINE)
_LEFTOVER = compile_later(r"\.[^/]{1,60}\.mdrecall-[0-9a-f]{16}\.tmp")


def append_to(
    folder: int,
    name: str,
    shown: str,
    text: str,
    *,
    max_bytes: int,
    after_blank_line: bool = False,
    author: str = "",
    finishes: bool = False,
) -> Appended:
    """Append a text to a file of an open folder; ``shown`` is how answers and errors call it.

    ``max_bytes`` is how large the file may become. ``finishes`` completes the text if the note ends with its beginning,
    which a killed process has left there. ``author`` is noted below the text, unless it is empty.
    """
    with _open_locked_end(folder, name, shown) as file:
        size = os.fstat(file).st_size
        if size > max_bytes:
            raise _too_large(shown, "has", max_bytes)
        data = _read(file, size)
        codec = find_codec(data)
        note = data.decode(codec, "replace")
        newline = "\r\n" if note.partition("\n")[0].endswith("\r") else "\n"
        if finishes and (rest := _broken_rest(data, text.replace("\n", newline).encode(codec, "replace"))):
            _write_within(file, rest, size, shown, max_bytes)
            return Appended(shown, len(rest))
        fresh, known = find_new_sections(_AUTHOR.sub("", note.replace("\r\n", "\n")), text.replace("\r\n", "\n"))
        if not fresh:
            return Appended(shown, 0, known)
        if _ends_with_digest(note) and not _HEADING.match(fresh.lstrip()):
            fresh = f"## Notes\n\n{fresh.lstrip()}"
        body = sign(fresh, author).removesuffix("\n") + "\n"
        if after_blank_line and note.strip("\ufeff\r\n"):
            ends = note.replace("\r\n", "\n")
            # One blank line is enough.
            body = "\n" * (2 - min(2, len(ends) - len(ends.rstrip("\n")))) + body.lstrip("\n")
        elif note.strip("\ufeff") and not note.endswith("\n") and not body.startswith("\n"):
            body = "\n" + body
        written = body.replace("\n", newline).encode(codec, "replace")
        _write_within(file, written, size, shown, max_bytes)
        start = note.count("\n") + body[: -len(body.lstrip())].count("\n") + 1
        return Appended(shown, len(written), known, start, (note + body.rstrip()).count("\n") + 1)


def _ends_with_digest(note: str) -> bool:
    """True if what is added to a note would stand below the heading of a digest."""
    _, mark, after = note.rpartition(f"\n{DIGEST_MARK}")
    return bool(mark) and not _HEADING.search(after)


def _write_within(file: int, data: bytes, size: int, shown: str, max_bytes: int) -> None:
    """Write at the end of a note of a size, unless it would become too large."""
    if size + len(data) > max_bytes:
        raise _too_large(shown, "would have", max_bytes)
    write_at_end(file, data, size)


@contextmanager
def open_folder(workspace: str, name: str = "memory") -> Iterator[int]:
    """Open a folder of the workspace, and create it if it is missing; an empty name is the workspace itself."""
    folder = platform.open(workspace, _FOLDER)
    try:
        for part in name.split("/") if name else ():
            with suppress(FileExistsError):
                platform.mkdir(part, 0o755, dir_fd=folder)
                sync_folder(folder)
            above, folder = folder, platform.open(part, _FOLDER | platform.NO_FOLLOW, dir_fd=folder)
            os.close(above)
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _open_locked_end(folder: int, name: str, shown: str) -> Iterator[int]:
    """Open a file for appending, or create it, for this process alone; a new file that stays empty goes on failure."""
    is_new = False

    def open_end() -> int | None:
        nonlocal is_new
        try:
            return platform.open(name, _FILE | os.O_APPEND, dir_fd=folder)
        except FileNotFoundError:
            with suppress(FileExistsError):
                file = platform.open(name, _FILE | os.O_APPEND | _NEW_FILE, 0o644, dir_fd=folder)
                is_new = True
                return file
        return None

    file = _lock(open_end, folder, name, shown)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            hint = "Move it away, or write to another note."
            raise FileUnwritable(f"{shown} is not a regular file.", path=shown, hint=hint)
        yield file
        if is_new:
            sync_folder(folder)
    except BaseException:
        with suppress(OSError):
            if is_new and not os.fstat(file).st_size:
                platform.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(file)


def _lock(open_file: Callable[[], int | None], folder: int, name: str, shown: str) -> int:
    """Return the open and locked file of a name, which another process may create, replace or remove meanwhile."""
    until = time.monotonic() + _WAIT_S
    while True:
        file = open_file()
        if file is not None:
            try:
                now = os.fstat(file)
                if platform.try_lock(file) and os.path.samestat(
                    now, platform.stat(name, dir_fd=folder, follow_symlinks=False)
                ):
                    return file
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(file)
                raise
            os.close(file)
        if time.monotonic() >= until:
            message = f"Another process has locked {shown} for more than {_WAIT_S:g} seconds."
            raise FileBusy(message, path=shown, hint="Try again; nothing was written.")
        time.sleep(_RETRY_S)


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


def _too_large(shown: str, verb: str, max_bytes: int) -> FileUnwritable:
    message = f"{shown} {verb} more than {max_bytes:,} bytes."
    return FileUnwritable(message, path=shown, hint="Split the file, or raise mdrecall.maxFileBytes.")


def _read(file: int, most: int = sys.maxsize) -> bytes:
    """Return the first bytes of a file, by default all of it."""
    data = bytearray()
    while part := platform.pread(file, min(1 << 20, most - len(data)), len(data)):
        data += part
    return bytes(data)


def find_codec(data: bytes) -> str:
    """Return the encoding of a note: UTF-16 if it has that byte order mark, else UTF-8."""
    return next((codec for mark, codec in _UTF16.items() if data.startswith(mark)), "utf-8")


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


class LineEdit(NamedTuple):
    """Lines of a file and what stands there instead; if ``last`` is ``first - 1``, it is put before ``first``."""

    first: int
    last: int
    lines: tuple[str, ...] = ()


class _Note(NamedTuple):
    """A note that is open and locked."""

    folder: int
    name: str
    shown: str
    file: int
    data: bytes


def hash_content(data: bytes) -> str:
    """Return the hash of a file's content, by which an edit recognises what was read."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def replace_lines(workspace: str, path: str, edits: Sequence[LineEdit], expected_hash: str) -> str:
    """Replace lines of the note ``path`` and return the hash of the new content.

    Raise ``FileChanged`` if the content is not the one that ``expected_hash`` stands for.
    """
    with _open_locked(workspace, path, expected_hash) as note:
        _move_over(note, content := edit_content(note.data, edits))
    return hash_content(content)


def replace_content(workspace: str, path: str, content: bytes, expected_hash: str) -> str:
    """Replace the whole note ``path`` and return the hash of the new content."""
    with _open_locked(workspace, path, expected_hash) as note:
        _move_over(note, content)
    return hash_content(content)


def move_over(workspace: str, path: str, source: str, expected_hash: str) -> None:
    """Move a finished file of the same disk over the note ``path``, with the note's owner and permissions."""
    with _open_locked(workspace, path, expected_hash) as note, open(source, "rb") as file:
        content, found = file.read(), os.fstat(note.file)
        with suppress(PermissionError):
            platform.fchown(file.fileno(), found.st_uid, found.st_gid)
        platform.fchmod(file.fileno(), stat.S_IMODE(found.st_mode))
        platform.rename(source, note.name, dst_dir_fd=note.folder)
        sync_folder(note.folder)
        _keep_late_text(note, content)


def create_note(workspace: str, path: str, source: str) -> None:
    """Move a finished file of the same disk to the new note ``path``.

    Raise ``FileChanged`` if it is there by now, and another ``WriteError`` if it cannot be.
    """
    above, _, name = path.rpartition("/")
    try:
        with open_folder(workspace, above) as folder:
            os.chmod(source, 0o644)
            try:
                # Unlike a move, a link never replaces a file that appeared meanwhile.
                platform.link(source, name, dst_dir_fd=folder)
                os.unlink(source)
            except FileExistsError as error:
                if name in platform.listdir(folder):
                    raise change_error(path) from error
                hint = "Rename one of them."
                raise FileUnwritable(f"{path} differs from another note only in case.", path=path, hint=hint) from error
            sync_folder(folder)
    except OSError as error:
        raise write_error(error, workspace, path, verb="write") from error


def remove_note(workspace: str, path: str, expected_hash: str, aside: str = "") -> None:
    """Delete the note ``path``, or move it to a path of the same disk."""
    with _open_locked(workspace, path, expected_hash) as note:
        folder = note.folder
        platform.rename(note.name, aside, src_dir_fd=folder) if aside else platform.unlink(note.name, dir_fd=folder)
        sync_folder(folder)
        _keep_late_text(note, b"")


def edit_content(data: bytes, edits: Sequence[LineEdit]) -> bytes:
    """Return a file's content with some lines replaced; the ends of lines and the encoding stay as they are."""
    codec = find_codec(data)
    end = "\n".encode(codec)
    lines = data.split(end) if codec == "utf-8" else [line.encode(codec) for line in data.decode(codec).split("\n")]
    bom = next((mark for mark in (codecs.BOM_UTF8, *_UTF16) if data.startswith(mark)), b"")
    lines[0] = lines[0].removeprefix(bom)
    returns = "\r".encode(codec)
    tail = returns if lines[0].endswith(returns) else b""
    below = len(lines) + 1
    for edit in sorted(edits, reverse=True):
        if not (1 <= edit.first <= edit.last + 1 <= below):
            raise ValueError(f"Lines {edit.first} to {edit.last} cannot be replaced: they overlap or do not exist.")
        below = edit.first
        new = [line.encode(codec, "replace") + tail for line in edit.lines]
        if edit.first > len(lines) and lines[-1] == b"":
            lines[-1:] = [*new, b""]
        else:
            lines[edit.first - 1 : edit.last] = new
    return bom + end.join(lines)


def remove_leftovers(folder: str) -> None:
    """Remove what interrupted edits left in a folder."""
    with suppress(OSError), open_folder(folder, "") as opened:
        _remove_leftovers(opened)


def _remove_leftovers(folder: int, of: str = "") -> None:
    """Remove what interrupted edits left in a folder, of one note or of all."""
    for name in platform.listdir(folder):
        if name.startswith(f".{of}") and _LEFTOVER.fullmatch(name):
            with suppress(OSError):
                platform.unlink(name, dir_fd=folder)


@contextmanager
def _open_locked(workspace: str, path: str, expected_hash: str) -> Iterator[_Note]:
    """Open a note for this process alone, and make sure of its content; every failure is an error about the note."""
    try:
        with ExitStack() as opened:
            folder, name = open_parent(workspace, path, shown=path)
            opened.callback(os.close, folder)
            file = _lock_note(folder, name, path)
            opened.callback(os.close, file)
            data = _read(file)
            if hash_content(data) != expected_hash:
                raise change_error(path)
            yield _Note(folder, name, path, file, data)
    except FileMissing as error:
        raise change_error(path) from error
    except ReadError as error:
        raise FileUnwritable(str(error), path=path, hint=error.hint) from error
    except UnicodeError as error:
        message = f"{path} cannot be changed: not all of it is {find_codec(data).upper()}."
        raise FileUnwritable(message, path=path, hint="Save it as UTF-8.") from error
    except OSError as error:
        hint = "The note is as it was. Check the disk and the permissions."
        raise FileUnwritable(f"Cannot change {path}: {error.strerror or error}.", path=path, hint=hint) from error


def _lock_note(folder: int, name: str, shown: str) -> int:
    return _lock(lambda: open_in(folder, name, _FILE, shown=shown), folder, name, shown)


def _move_over(note: _Note, content: bytes) -> None:
    """Write the content to a file beside the note and move it over the note, with the note's owner and permissions."""
    if content == note.data:
        return
    # A longer name is cut in the name of a leftover, which may then belong to another note. This one is locked.
    if len(note.name) <= _MAX_NAMED:
        with suppress(OSError):
            _remove_leftovers(note.folder, f"{note.name}.mdrecall-")
    found = os.fstat(note.file)
    with write_beside(note.folder, note.name, content, found) as temporary:
        now = platform.stat(note.name, dir_fd=note.folder, follow_symlinks=False)
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (found.st_ino, found.st_size, found.st_mtime_ns):
            raise change_error(note.shown)
        platform.rename(temporary, note.name, src_dir_fd=note.folder, dst_dir_fd=note.folder)
    _keep_late_text(note, content)


@contextmanager
def write_beside(folder: int, name: str, content: bytes, like: os.stat_result | None = None) -> Iterator[str]:
    """Write and sync a temporary file for a note, with the owner and permissions of another, and yield its name.

    It is removed at the end, unless it was moved, and the folder is synced.
    """
    temporary = f".{name[:_MAX_NAMED]}.mdrecall-{os.urandom(8).hex()}.tmp"
    file = platform.open(temporary, _FILE | _NEW_FILE, 0o600 if like else 0o644, dir_fd=folder)
    try:
        try:
            if like:
                with suppress(PermissionError):
                    platform.fchown(file, like.st_uid, like.st_gid)
                platform.fchmod(file, stat.S_IMODE(like.st_mode))
            write_at_end(file, content, 0)
        finally:
            os.close(file)
        yield temporary
    finally:
        with suppress(OSError):
            platform.unlink(temporary, dir_fd=folder)
    sync_folder(folder)


def _keep_late_text(note: _Note, content: bytes) -> None:
    """Bring text that another program wrote to the replaced file, up to this moment, into the note.

    Appended text comes to the end of the new content. A file that was replaced is put back, and the edit fails.
    """
    until = time.monotonic() + _LATE_S
    while platform.is_open_elsewhere(note.file) and time.monotonic() < until:
        time.sleep(_RETRY_S)
    late = _read(note.file)
    is_rewritten = not late.startswith(note.data)
    if is_rewritten and content:
        file = _lock_note(note.folder, note.name, note.shown)
        try:
            _move_over(note._replace(file=file, data=_read(file)), late)
        finally:
            os.close(file)
    elif late != note.data:
        with _open_locked_end(note.folder, note.name, note.shown) as file:
            text, end = late.removeprefix(note.data), "\n".encode(find_codec(content))
            starts_line = content.endswith(end) or not content or not note.data.endswith(end)
            write_at_end(file, text if starts_line else end + text, os.fstat(file).st_size)
    if is_rewritten:
        raise change_error(note.shown)


def change_error(path: str) -> FileChanged:
    """Return the error about a note that is not the one that was read."""
    return FileChanged(f"{path} has changed since it was read.", path=path, hint="Nothing was written; try again.")
