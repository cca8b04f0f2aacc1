"""Notices that memory files may have changed, for a process that stays alive.

``FolderQueue`` reads folder events from the Linux kernel, for which Python has no module. The kernel puts an event into
the queue before the call that changed a file returns, so an empty queue proves that nothing was changed, and to wait
for the next event takes no CPU time. ``FollowedFiles`` uses the last listing as long as the queue is empty.

``FolderWatch`` waits for changes. It says that something happened, not what to read because of it. Every folder has its
own watch, so the content of ignored folders costs nothing. A watch belongs to a folder, not to its path: a folder that
is deleted and created again is no longer watched until the next ``refresh``.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

from mdrecall import platform
from mdrecall.notes.files import MemoryFiles, Root
from mdrecall.notes.opening import stamp_of
from mdrecall.patterns import is_note_file
from mdrecall.types.documents import Document, Listing, SourceName, Stamps

_CLOSE_ON_EXEC: Final = 0x8_0000
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED, _IS_DIR, _ONLYDIR = 0x2000, 0x4000, 0x8000, 0x4000_0000, 0x0100_0000
_OF_FILES: Final = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_MASK: Final = _OF_FILES | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
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

#: Every root with what tells that it is the same as before.
_Roots: TypeAlias = tuple[tuple[Root, tuple[int, ...]], ...]
#: A listing, its roots, and when all files are listed again in any case, by the monotonic clock.
_Kept: TypeAlias = tuple[Listing, _Roots, float]

# Events are collected for this long: a program may write thousands of files in a second, each with some events.
_STEP_S = 0.02


class FolderQueue:
    """The queue of events of some folders. Not for several threads at once."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file: int = self._libc.inotify_init1(_CLOSE_ON_EXEC | platform.NO_WAIT)
        if self._file < 0:
            raise _last_error()
        # A user may have 128 of them: one that nobody closes must not stay open.
        self.close = weakref.finalize(self, os.close, self._file)
        """Follows nothing any more; may be called twice."""
        self.pid = os.getpid()
        self._folders: dict[str, int] = {}
        self._watches: set[int] = set()

    def watch(self, folder: str) -> int:
        """Follow a folder, not those below it, and return the number of its watch.

        Raise ``OSError`` if its changes would not all be noticed.
        """
        if folder not in self._folders and not self._is_local(folder):
            raise OSError(errno.ENOTSUP, "Changes by other machines are not noticed", folder)
        number = self._libc.inotify_add_watch(self._file, os.fsencode(folder), _MASK)
        if number < 0:
            raise _last_error(folder)
        self._folders[folder] = number
        self._watches.add(number)
        return int(number)

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
        for watch, mask, name in self.read():
            is_more = mask & (_OF_FOLDER | _IS_DIR)
            if is_more or is_note_file(name):
                # Two paths may lead to one folder.
                folders = self.find_folders(watch)
                is_all = is_all and not is_more and len(folders) == 1
                changed.update(os.path.join(folder, name) for folder in folders)
        return changed if is_all else None

    def read(self) -> Iterator[tuple[int, int, str]]:
        """Empty the queue and yield each event: its watch, its mask, and the name of the file in the folder."""
        data, at = b"", 0
        with suppress(BlockingIOError):
            while read := os.read(self._file, _READ_BYTES):
                data += read
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
            at += _EVENT.size + length
            if mask & _OVERFLOW or watch in self._watches:
                yield watch, mask, name

    def find_folders(self, watch: int) -> set[str]:
        """Return the folders of a watch."""
        return {folder.rstrip("/") for folder, number in self._folders.items() if number == watch}

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with the next event."""
        return self._file

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


class FollowedFiles:
    """Lists the memory files, at no cost while nothing has changed. For a process that stays alive; any thread may ask.

    Every folder is watched before it is listed, so that no change falls between the two. A listing is not kept if a
    folder cannot be watched or lies on a network file system, where other machines write without an event.
    """

    name: SourceName = "memory"

    def __init__(self, files: MemoryFiles, keep_s: float, open_queue: Callable[[], FolderQueue] = FolderQueue) -> None:
        """``keep_s`` is how long a listing is used at most, in case a change went unnoticed."""
        self._files, self._keep_s, self._open_queue = files, keep_s, open_queue
        self._lock = threading.Lock()
        self._queue: FolderQueue | None = None
        self._kept: _Kept | None = None
        self._is_followed = True
        self._is_closed = False

    def scan(self) -> Listing:
        """List every memory file with its stamp."""
        with self._lock:
            # A forked process would take the events away from the one that opened the queue.
            if self._queue and self._queue.pid != os.getpid():
                self._queue.close()
                self._queue = self._kept = None
            # Another thread may forget it meanwhile.
            kept = self._kept
            renewed = self._renew(kept) if kept else None
            if renewed is None:
                return self._scan()
            if self._kept is kept:
                self._kept = renewed
            return renewed[0]

    def read(self, path: str, listing: Listing) -> Document:
        """Return a listed file as a document. Raise a ``ReadError`` that names it."""
        return self._files.read(path, listing)

    def forget(self) -> None:
        """List all files again at the next scan."""
        self._kept = None

    def close(self) -> None:
        """Follow nothing any more; may be called twice."""
        with self._lock:
            self._is_closed, self._kept = True, None
            if self._queue:
                self._queue.close()
                self._queue = None

    def _renew(self, kept: _Kept) -> _Kept | None:
        """Return what holds now; None if all files must be listed again."""
        listing, before, until = kept
        changed = self._queue.drain() if self._queue and time.monotonic() < until else None
        if changed is None:
            return None
        if not changed:
            return kept if all(_identify(root) == seen for root, seen in before) else None
        roots = self._look_at_roots()
        renewed = _renew(listing, changed, self._files) if _are_same(before, roots, changed) else None
        return (renewed, roots, until) if renewed else None

    def _scan(self) -> Listing:
        self._kept = None
        if self._is_closed:
            return self._files.scan()
        try:
            if self._queue is None:
                self._queue = self._open_queue()
            # Only what happens from now on counts.
            self._queue.drain()
        except OSError:
            return self._files.scan()
        self._is_followed = True
        roots, until = self._look_at_roots(), time.monotonic() + self._keep_s
        listing = self._files.scan(self._follow)
        self._queue.keep_only(listing.folders)
        if self._is_followed and not listing.lost:
            self._kept = listing, roots, until
        return listing

    def _follow(self, folder: str) -> None:
        try:
            # If it does not exist yet, that it appears is seen by looking at the roots, or at the folder above.
            with suppress(FileNotFoundError):
                assert self._queue is not None
                self._queue.watch(folder)
        except OSError:
            self._is_followed = False

    def _look_at_roots(self) -> _Roots:
        """Return what tells that a root is the same as before: events do not tell that a folder above was renamed."""
        return tuple((root, _identify(root)) for root in (*self._files.roots(), *self._files.list_signs()))


def _identify(root: Root) -> tuple[int, ...]:
    try:
        found = os.lstat(f"{root.folder}/{root.inside}")
    except OSError:
        return ()
    is_same = found.st_mode, found.st_dev, found.st_ino
    return (*is_same, found.st_size, found.st_mtime_ns, found.st_ctime_ns) if root.is_file else is_same


def _are_same(before: _Roots, now: _Roots, changed: set[str]) -> bool:
    """True if the roots are those of before, apart from files that are known to have changed."""
    return [root for root, _ in before] == [root for root, _ in now] and all(
        old == new or (old and new and os.path.join(root.folder, root.inside) in changed)
        for (root, old), (_, new) in zip(before, now, strict=True)
    )


def _renew(listing: Listing, changed: set[str], files: MemoryFiles) -> Listing | None:
    """Return a listing with what has become of notes that changed; None if all files must be listed again."""
    shown_of = {
        os.path.join(folder, shown.removeprefix(prefix).lstrip("/")).rstrip("/"): shown
        for shown, (folder, prefix) in listing.places.items()
    }
    removed, newer = [], {}
    for path in changed:
        folder, _, name = path.rpartition("/")
        if folder not in shown_of:
            return None
        shown = f"{shown_of[folder]}/{name}" if shown_of[folder] else name
        if any(issue.path == shown for issue in listing.issues):
            return None
        known = listing.stamps.get(shown)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            removed += [shown] if known else []
            continue
        except OSError:
            return None
        # Of a file with several names, the others have changed too.
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or any("\ud800" <= char <= "\udfff" for char in shown):
            return None
        covered = shown if known else next((found for _, _, found in files.find_covering(path)), None)
        if covered is not None:
            # Two paths may lead to the same file, and it is listed once.
            is_new_file = known is None or found.st_ino != known[3]
            if covered != shown or (is_new_file and any(found.st_ino == stamp[3] for stamp in listing.stamps.values())):
                return None
            newer[shown] = stamp_of(found)
    if len({stamp[3] for stamp in newer.values()}) < len(newer):
        return None
    return listing._replace(stamps=Stamps(listing.stamps, removed, newer)) if removed or newer else listing


class FolderWatch:
    """Notices changes in folders, with one watch for each folder and none for the content of ignored ones.

    The first ``refresh`` starts watching. One thread refreshes and waits; any thread may interrupt and close.
    """

    def __init__(self, wanted: Callable[[], Collection[str]], is_ignored: Callable[[str], bool]) -> None:
        self._find_wanted, self._is_ignored = wanted, is_ignored
        self._lock, self._waking, self._closed = threading.Lock(), threading.Lock(), False
        self._queue: FolderQueue | None = None
        self._wanted: set[str] = set()
        self._leading: set[str] = set()
        """The wanted folders and all above them."""
        self._watches: dict[str, int] = {}
        """Watched folders with the number of the watch, 0 for one whose changes the kernel does not tell."""
        self._failure, self._unreadable = "", list[str]()
        reading, writing = os.pipe()
        self._woken, self._wake = os.fdopen(reading, "rb", 0), os.fdopen(writing, "wb", 0)
        platform.set_blocking(self._wake.fileno(), False)

    @property
    def folders(self) -> int:
        """The number of watched folders."""
        return len(self._watches)

    @property
    def must_poll(self) -> bool:
        """True if some changes are noticed only by looking at the files."""
        return bool(self._failure) or 0 in self._watches.values()

    @property
    def problem(self) -> str:
        """Why some or all folders are not watched, and what to do; empty if all are watched."""
        if self._failure or not self._unreadable:
            return self._failure
        more = len(self._unreadable) - 1
        folders = f"{self._unreadable[0]}{f' and {more} more' if more else ''}"
        return f"Changes in {folders} are not noticed: no permission to read it; change its permissions."

    def wait(self, timeout_s: float) -> bool:
        """True as soon as a note or a folder is touched; False after ``timeout_s``, or if it is interrupted."""
        end = time.monotonic() + timeout_s
        with self._lock:
            while not self._closed:
                poll = platform.poll()
                poll.register(self._woken, platform.POLLIN)
                if self._queue:
                    poll.register(self._queue, platform.POLLIN)
                ready = [file for file, _ in poll.poll(max(0.0, end - time.monotonic()) * 1000)]
                if self._woken.fileno() in ready:
                    self._woken.read(_READ_BYTES)
                    return False
                if not ready:
                    return False
                time.sleep(_STEP_S)
                if self._queue and any(self._is_relevant(*event) for event in self._queue.read()):
                    return True
        return False

    def interrupt(self) -> None:
        """Make a running ``wait``, or the next one, return."""
        # If another thread interrupts or closes it just now, that ends the wait too. A signal handler must not wait.
        if self._waking.acquire(blocking=False):
            with suppress(ValueError):
                self._wake.write(b".")
            self._waking.release()

    def refresh(self) -> bool:
        """Watch the current folders. True if they changed, so the caller must rescan."""
        with self._lock:
            if self._closed:
                return False
            before, self._watches = self._watches, {}
            self._failure, self._unreadable = "", []
            self._wanted = {os.path.realpath(path) for path in self._find_wanted()}
            self._leading = {place for path in self._wanted for place in _with_parents(path)}
            try:
                if self._queue is None and sys.platform == "linux" and self._wanted:
                    self._queue = FolderQueue()
                for path in sorted(self._wanted):
                    self._watch(path)
            except OSError as error:
                self._failure = explain_failure(error)
            if self._queue:
                self._queue.keep_only(self._watches)
            return self._watches != before

    def close(self) -> None:
        """Stop watching; a running ``wait`` returns."""
        self._closed = True
        self.interrupt()
        with self._lock, self._waking:
            self._watches = {}
            self._woken.close()
            self._wake.close()
            if self._queue:
                self._queue.close()

    def _watch(self, path: str) -> None:
        """Watch a folder, or the closest one above it if it does not exist or may not be read."""
        for place in _with_parents(path):
            try:
                if self._queue is None:
                    # Where the kernel tells nothing, a folder that can be listed counts as watched.
                    os.scandir(place).close()
                self._watches[place] = self._queue.watch(place) if self._queue else 0
                return
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError:
                self._unreadable.append(place)
            except OSError as error:
                if error.errno != errno.ENOTSUP:
                    raise
                self._watches[place] = 0
                return

    def _is_relevant(self, watch: int, mask: int, name: str) -> bool:
        """True if an event is about a note or a folder that is not ignored, or one that leads to a wanted folder."""
        folders = self._queue.find_folders(watch) if self._queue else set()
        if mask & _OVERFLOW or any(f"{folder}/{name}".rstrip("/") in self._leading for folder in folders):
            return True
        # Beside a folder that does not exist yet, nothing else is relevant.
        is_found = is_note_file(name) or (mask & _IS_DIR and not self._is_ignored(name))
        return bool(is_found) and not self._wanted.isdisjoint(folders)


def _with_parents(path: str) -> list[str]:
    """Return a path and all folders above it."""
    above = os.path.dirname(path)
    return [path] if above == path else [path, *_with_parents(above)]


def explain_failure(error: OSError) -> str:
    """Return what went wrong, and what to do."""
    why = error.strerror or str(error) or type(error).__name__
    if error.errno == errno.ENOSPC:
        why = "too many folders are watched here; raise fs.inotify.max_user_watches"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        why = "too many files are open; raise the limit of open files (ulimit -n) or fs.inotify.max_user_instances"
    return f"Changes are found only by checking every file: {why.rstrip('.')}."
