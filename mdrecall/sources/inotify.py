"""Folder events from the Linux kernel, for which Python has no module.

The kernel puts an event into the queue before the call that changed a file returns. An empty queue therefore proves
that nothing was changed, which a library that collects events on a thread of its own cannot tell.
"""

import ctypes
import errno
import os
import struct
import weakref
from collections.abc import Collection
from typing import Final

_CLOEXEC_NONBLOCK: Final = os.O_CLOEXEC | os.O_NONBLOCK
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED, _IS_DIR = 0x2000, 0x4000, 0x8000, 0x4000_0000
_ONLYDIR = 0x0100_0000
_MASK: Final = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLYDIR
)  # fmt: skip
_OF_FOLDER: Final = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED | _OVERFLOW
_EVENT: Final = struct.Struct("iIII")
#: One read returns as many events as fit; any event with its name does.
_READ_BYTES: Final = 1 << 16
#: File systems on which every change passes through this kernel: ext, xfs, btrfs, tmpfs, f2fs, zfs, bcachefs, overlay,
#: jfs, reiserfs, ramfs. On others, such as NFS, SMB or FUSE, another machine may change a file without an event.
_LOCAL_FILE_SYSTEMS: Final = frozenset(
    (0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0x2FC12FC1, 0xCA451A4E, 0x794C7630, 0x3153464A,
     0x52654973, 0x858458F6)
)  # fmt: skip


class FolderQueue:
    """The queue of events of some folders. Not for several threads at once."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file: int = self._libc.inotify_init1(_CLOEXEC_NONBLOCK)
        if self._file < 0:
            raise _last_error()
        # A user may have 128 of them: one that nobody closes must not stay open.
        self._close = weakref.finalize(self, os.close, self._file)
        self._pid = os.getpid()
        self._folders: dict[str, int] = {}
        self._watches: set[int] = set()

    @property
    def is_own(self) -> bool:
        """True in the process that opened the queue: a forked one would take the events away from it."""
        return self._pid == os.getpid()

    def watch(self, folder: str) -> None:
        """Follow a folder, not those below it; raise ``OSError`` if its changes would not all be noticed."""
        if folder not in self._folders and not self._is_local(folder):
            raise OSError(errno.ENOTSUP, "Changes by other machines are not noticed", folder)
        number = self._libc.inotify_add_watch(self._file, os.fsencode(folder), _MASK)
        if number < 0:
            raise _last_error(folder)
        self._folders[folder] = number
        self._watches.add(number)

    def keep_only(self, folders: Collection[str]) -> None:
        """Follow no other folders any more."""
        self._folders = {folder: self._folders[folder] for folder in folders if folder in self._folders}
        left = self._watches.difference(self._folders.values())
        self._watches -= left
        for number in left:
            self._libc.inotify_rm_watch(self._file, number)

    def drain(self) -> set[str] | None:
        """Empty the queue and return the paths of the notes that changed; None if more than notes may have changed."""
        changed: set[str] = set()
        is_all = True
        while data := self._read():
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
                at += _EVENT.size + length
                if mask & _OVERFLOW:
                    is_all = False
                elif watch in self._watches and (mask & (_OF_FOLDER | _IS_DIR) or name.endswith(b".md")):
                    # Two paths may lead to one folder.
                    folders = {folder.rstrip("/") for folder, number in self._folders.items() if number == watch}
                    is_all = is_all and not mask & (_OF_FOLDER | _IS_DIR) and len(folders) == 1
                    changed.update(os.path.join(folder, os.fsdecode(name)) for folder in folders)
        return changed if is_all else None

    def close(self) -> None:
        """Follow nothing any more; may be called twice."""
        self._close()

    def _read(self) -> bytes:
        try:
            return os.read(self._file, _READ_BYTES)
        except BlockingIOError:
            return b""

    def _is_local(self, folder: str) -> bool:
        """True if only this kernel can change what is in a folder."""
        # The first field of the structure, whose whole size is 120 bytes or less.
        found = (ctypes.c_long * 32)()
        if self._libc.statfs(os.fsencode(folder), found) < 0:
            raise _last_error(folder)
        return found[0] & 0xFFFF_FFFF in _LOCAL_FILE_SYSTEMS


def _last_error(path: str | None = None) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
