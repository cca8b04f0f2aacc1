"""Open and read a file below a trusted folder, without following a symbolic link or waiting on a device.

Every component is opened relative to the one before, without following it, so that a path which is swapped for a link
between a check and the opening cannot lead outside. A pipe does not hang the open.
"""

import codecs
import errno
import os
import stat

from mdrecall import platform
from mdrecall.errors import FileMissing, FileTooLarge, FileUnreadable, NotAFile, ReadError, SymlinkRefused
from mdrecall.types.documents import Stamp

#: SQLite's largest integer. Some inode numbers, and times in the far future, are larger.
LARGEST = 2**63 - 1
#: The inode of a stamp is 0 where a listing does not say it.
LARGEST_INODE = LARGEST if platform.KNOWS_INODES else 0

#: How much of a file shows if it is text.
_HEAD_BYTES = 8192
#: Control characters that text does not have. A few that crept in, also into a short note, do not make it binary.
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\f\r\x1b"))
_MAX_CONTROLS, _MAX_CONTROL_SHARE = 8, 0.05

_ROOT, _FOLDER = os.O_RDONLY | platform.FOLDER, os.O_RDONLY | platform.FOLDER | platform.NO_FOLLOW
_FILE = os.O_RDONLY | platform.NO_FOLLOW | platform.NO_WAIT


def read_below(root: str, inside: str, *, shown: str, max_bytes: int) -> bytes:
    """Read the regular file ``inside`` the folder ``root``; ``shown`` is how errors call it."""
    return read_stamped(root, inside, shown=shown, max_bytes=max_bytes)[0]


def read_stamped(root: str, inside: str, *, shown: str, max_bytes: int) -> tuple[bytes, Stamp]:
    """Read a file as ``read_below`` does, and return its bytes with its stamp."""
    file = open_below(root, inside, shown=shown)
    try:
        return _read(file, shown, max_bytes)
    except OSError as error:
        raise FileUnreadable(f"Cannot read {shown}: {error.strerror}.", path=shown) from error
    finally:
        os.close(file)


def read_beginning(path: str, most: int) -> bytes:
    """Return the first bytes of a regular file that links may lead to; none if there is no such file."""
    try:
        folder, name = os.path.split(os.path.realpath(path))
        with open(open_below(folder, name, shown=path), "rb") as file:
            return file.read(most)
    except (ReadError, OSError, ValueError):
        return b""


def open_below(root: str, inside: str, *, shown: str) -> int:
    """Open the regular file ``inside`` the folder ``root``. The caller closes it."""
    folder, name = open_parent(root, inside, shown=shown)
    try:
        return open_in(folder, name, shown=shown)
    finally:
        os.close(folder)


def open_parent(root: str, inside: str, *, shown: str) -> tuple[int, str]:
    """Open the folder of the file ``inside`` the folder ``root``, and return it with the file's name.

    The caller closes it.
    """
    *folders, name = inside.split("/")
    if not name or ".." in (name, *folders):
        raise NotAFile(f"{shown} is not a file.", path=shown)
    folder = _open(root, _ROOT, None, shown)
    try:
        for part in folders:
            deeper = _open(part, _FOLDER, folder, shown)
            os.close(folder)
            folder = deeper
    except BaseException:
        os.close(folder)
        raise
    return folder, name


def find_status(root: str, inside: str) -> os.stat_result | None:
    """Return the status of a file or folder below another folder, None if there is none; no link is followed."""
    try:
        above, name = open_parent(root, inside, shown=inside)
    except FileMissing:
        return None
    try:
        return platform.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError:
        return None
    finally:
        os.close(above)


def list_folder(root: str, inside: str) -> list[tuple[str, os.stat_result]]:
    """Return what a folder below another one holds, each name with its status; no link is followed."""
    try:
        folder, _ = open_parent(root, f"{inside}/x", shown=inside)
    except ReadError:
        return []
    try:
        with platform.scandir(folder) as entries:
            return [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except FileNotFoundError:
        # One of them was removed meanwhile.
        return list_folder(root, inside)
    finally:
        os.close(folder)


def open_in(folder: int, name: str, flags: int = _FILE, *, shown: str) -> int:
    """Open a regular file of an open folder. The caller closes it."""
    file = _open(name, flags, folder, shown)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NotAFile(f"{shown} is not a regular file.", path=shown)
    return file


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp of a file from its status."""
    return found.st_size, found.st_mtime_ns & LARGEST, found.st_ctime_ns & LARGEST, found.st_ino & LARGEST_INODE


def decode(data: bytes) -> str:
    """Return the text of a Markdown file: UTF-8 with bad bytes replaced, or UTF-16 if it has a byte order mark."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    # Quicker than the codec `utf-8-sig`, which is written in Python.
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def is_binary(data: bytes) -> bool:
    """True if the bytes of a file are not text, whatever its name says."""
    head = data[:_HEAD_BYTES]
    if b"\0" not in head or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    found = len(head) - len(head.translate(None, _CONTROLS))
    return found > max(_MAX_CONTROLS, _MAX_CONTROL_SHARE * len(head))


def _open(name: str, flags: int, folder: int | None, shown: str) -> int:
    try:
        return platform.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR) and _is_link(name, folder):
            hint = "Copy the file into place, or add the folder it points to to extraPaths."
            raise SymlinkRefused(f"{shown} is reached through a symbolic link.", path=shown, hint=hint) from error
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise FileMissing(f"There is no file {shown}.", path=shown) from error
        if error.errno in (errno.ENXIO, errno.ENODEV):
            raise NotAFile(f"{shown} is not a regular file.", path=shown) from error
        raise FileUnreadable(f"Cannot open {shown}: {error.strerror}.", path=shown) from error


def _is_link(name: str, folder: int | None) -> bool:
    try:
        found = platform.stat(name, dir_fd=folder, follow_symlinks=False)
        return stat.S_ISLNK(found.st_mode) or platform.is_junction(found)
    except OSError:
        return False


def _read(file: int, shown: str, max_bytes: int) -> tuple[bytes, Stamp]:
    before = os.fstat(file)
    if before.st_size > max_bytes:
        message = f"{shown} has {before.st_size:,} bytes, more than the limit of {max_bytes:,}."
        raise FileTooLarge(message, path=shown, hint="Split the file, or raise mdrecall.maxFileBytes.")
    data = os.read(file, before.st_size + 1)
    while len(data) < before.st_size and (more := os.read(file, before.st_size + 1 - len(data))):
        data += more
    return data[: before.st_size], stamp_of(before)
