"""Change, replace or remove a note: whole or not at all, and only if it is still the file that was read.

The new content is written to a file beside the note, synced, and moved over it. Lines that no edit names stay as they
are, byte for byte. The note is locked meanwhile, so that nobody appends to a file that is about to be replaced. Other
programs do not know the lock: text that such a program appends to the replaced file is moved into the note.
"""

import codecs
import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from mdrecall.errors import FileBusy, FileChanged, FileMissing, FileUnwritable, ReadError
from mdrecall.locks import try_flock
from mdrecall.sources.appending import find_codec, open_locked_end, sync_folder, write_at_end
from mdrecall.sources.opening import open_in, open_parent

#: As long as an append waits for the lock: longer than any edit takes.
_WAIT_S = 10.0
_RETRY_S = 0.002
#: How long a replaced file is watched if another program has it open. One that appends closes it long before.
_LATE_S = 1.0
#: For writing, so that a read-only note is left alone, though a file could be moved over it.
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: So much of a note's name is in that of its temporary file, which has to stay short enough for any disk.
_MAX_NAMED = 60
#: A file that was being written when its process was killed. The random part keeps it from being somebody's own.
_LEFTOVER = re.compile(r"\.[^/]{1,60}\.mdrecall-[0-9a-f]{16}\.tmp")


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
    return hashlib.sha256(data).hexdigest()


def replace_lines(workspace: str, path: str, edits: Sequence[LineEdit], expected_hash: str) -> str:
    """Replace lines of the note ``path`` and return the hash of the new content.

    Raise ``FileChanged`` if the content is not the one that ``expected_hash`` stands for.
    """
    with _open_locked(workspace, path, expected_hash) as note:
        content = edit_content(note.data, edits)
        _move_over(note, content)
        return hash_content(content)


def replace_content(workspace: str, path: str, content: bytes, expected_hash: str) -> str:
    """Replace the whole note ``path`` and return the hash of the new content."""
    with _open_locked(workspace, path, expected_hash) as note:
        _move_over(note, content)
        return hash_content(content)


def remove_note(workspace: str, path: str, expected_hash: str) -> None:
    """Delete the note ``path``."""
    with _open_locked(workspace, path, expected_hash) as note:
        os.unlink(note.name, dir_fd=note.folder)
        sync_folder(note.folder)
        _keep_late_text(note, b"")


def edit_content(data: bytes, edits: Sequence[LineEdit]) -> bytes:
    """Return a file's content with some lines replaced; the ends of lines and the encoding stay as they are."""
    codec = find_codec(data)
    end = "\n".encode(codec)
    lines = data.split(end) if codec == "utf-8" else [line.encode(codec) for line in data.decode(codec).split("\n")]
    if data.startswith(codecs.BOM_UTF8):
        bom, lines[0] = codecs.BOM_UTF8, lines[0].removeprefix(codecs.BOM_UTF8)
    elif codec == "utf-8":
        bom = b""
    else:
        bom, lines[0] = data[:2], lines[0][2:]
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
    """Remove what killed edits have left in a folder."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if _LEFTOVER.fullmatch(name):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def _remove_leftovers_of(note: _Note) -> None:
    """Remove what killed edits of a note have left. Nobody else edits it now, because it is locked."""
    # A longer name is cut in the name of the leftover, which may then belong to another note.
    if len(note.name) <= _MAX_NAMED:
        with suppress(OSError):
            for name in os.listdir(note.folder):
                if name.startswith(f".{note.name}.mdrecall-") and _LEFTOVER.fullmatch(name):
                    os.unlink(name, dir_fd=note.folder)


@contextmanager
def _open_locked(workspace: str, path: str, expected_hash: str) -> Iterator[_Note]:
    """Open a note for this process alone, and make sure of its content; every failure is an error about the note."""
    try:
        folder, name = open_parent(workspace, path, shown=path)
        try:
            file = _lock(folder, name, path)
            try:
                data = _read(file)
                if hash_content(data) != expected_hash:
                    raise change_error(path)
                yield _Note(folder, name, path, file, data)
            finally:
                os.close(file)
        finally:
            os.close(folder)
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


def _lock(folder: int, name: str, shown: str) -> int:
    until = time.monotonic() + _WAIT_S
    while True:
        file = open_in(folder, name, _FILE, shown=shown)
        try:
            # Another process may have replaced the file before it was locked.
            if try_flock(file) and os.path.samestat(os.fstat(file), os.stat(name, dir_fd=folder)):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        if time.monotonic() >= until:
            message = f"Another process has locked {shown} for more than {_WAIT_S:g} seconds."
            raise FileBusy(message, path=shown, hint="Try again; the note is as it was.")
        time.sleep(_RETRY_S)


def _read(file: int) -> bytes:
    data = bytearray()
    while part := os.pread(file, 1 << 20, len(data)):
        data += part
    return bytes(data)


def _move_over(note: _Note, content: bytes) -> None:
    """Write the content to a file beside the note and move it over the note, with the note's owner and permissions."""
    if content == note.data:
        return
    _remove_leftovers_of(note)
    found = os.fstat(note.file)
    temporary = f".{note.name[:_MAX_NAMED]}.mdrecall-{os.urandom(8).hex()}.tmp"
    file = os.open(temporary, _CREATE, 0o600, dir_fd=note.folder)
    try:
        try:
            with suppress(PermissionError):
                os.fchown(file, found.st_uid, found.st_gid)
            os.fchmod(file, stat.S_IMODE(found.st_mode))
            done = 0
            while done < len(content):
                done += os.write(file, content[done : done + (1 << 20)])
            os.fsync(file)
        finally:
            os.close(file)
        now = os.stat(note.name, dir_fd=note.folder, follow_symlinks=False)
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (found.st_ino, found.st_size, found.st_mtime_ns):
            raise change_error(note.shown)
        os.rename(temporary, note.name, src_dir_fd=note.folder, dst_dir_fd=note.folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=note.folder)
        raise
    sync_folder(note.folder)
    _keep_late_text(note, content)


def _keep_late_text(note: _Note, content: bytes) -> None:
    """Bring text that another program wrote to the replaced file, up to this moment, into the note.

    Appended text comes to the end of the new content. A file that was written anew is put back, and the edit fails.
    """
    until = time.monotonic() + _LATE_S
    while _is_open_elsewhere(note.file) and time.monotonic() < until:
        time.sleep(_RETRY_S)
    late = _read(note.file)
    is_rewritten = not late.startswith(note.data)
    if is_rewritten and content:
        file = _lock(note.folder, note.name, note.shown)
        try:
            _move_over(note._replace(file=file, data=_read(file)), late)
        finally:
            os.close(file)
    elif late != note.data:
        with open_locked_end(note.folder, note.name, note.shown) as opened:
            text, end = late.removeprefix(note.data), "\n".encode(find_codec(content))
            starts_line = content.endswith(end) or not content or not note.data.endswith(end)
            write_at_end(opened.file, text if starts_line else end + text, os.fstat(opened.file).st_size)
    if is_rewritten:
        raise change_error(note.shown)


def _is_open_elsewhere(file: int) -> bool:
    """True if another program has a file open that no longer has a name. False also if the system cannot tell."""
    try:
        # The system grants a lease only on a file that nobody else has open. Without a name nobody can open it again.
        if not os.fstat(file).st_nlink:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        pass
    return False


def change_error(path: str) -> FileChanged:
    """Return the error about a note that is not the one that was read."""
    return FileChanged(f"{path} has changed since it was read.", path=path, hint="Nothing was written; try again.")
