"""Notices that memory files may have changed, for a process that stays alive.

``FolderQueue`` reads folder events from the Linux kernel, for which Python has no module. The kernel puts an event into
the queue before the call that changed a file returns, so an empty queue proves that nothing was changed. A library that
collects events on a thread of its own cannot tell that. ``FollowedFiles`` uses the last listing as long as the queue is
empty.

``FolderWatch`` waits for changes on any system. It says that something happened, not what to read because of it. Every
folder has its own watch, so the content of ignored folders costs nothing. A watch belongs to a folder, not to its path:
a folder that is renamed, or deleted and created again, is no longer watched until ``refresh`` starts again.
"""

import ctypes
import errno
import os
import re
import stat
import struct
import threading
import time
import weakref
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mdrecall.notes.files import MemoryFiles, Root
from mdrecall.notes.opening import stamp_of
from mdrecall.patterns import is_note_file
from mdrecall.types.documents import Document, Listing, SourceName, Stamps

if TYPE_CHECKING:
    from watchfiles import Change

    _Changes = set[tuple[Change, str]]

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

# watchfiles collects events in steps of this length and returns them after a step without new ones. With longer steps a
# saved note is noticed later.
_STEP_MS = 20
# The longest time for which it goes on collecting: a steady stream of events must not delay them further. The longest
# time that it waits for an event before it returns: starting a watch and interrupting it take as long.
_DEBOUNCE_MS = _WAIT_MS = 50
# A folder may vanish while the watch starts, and the old watch may hold resources that the new one needs.
_ATTEMPTS = 3
_PAUSE_S = 0.05


class FolderQueue:
    """The queue of events of some folders. Not for several threads at once."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file: int = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._file < 0:
            raise _last_error()
        # A user may have 128 of them: one that nobody closes must not stay open.
        self.close = weakref.finalize(self, os.close, self._file)
        """Follows nothing any more; may be called twice."""
        self.pid = os.getpid()
        self._folders: dict[str, int] = {}
        self._watches: set[int] = set()

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
        data = b""
        with suppress(BlockingIOError):
            while read := os.read(self._file, _READ_BYTES):
                data += read
        at = 0
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
            at += _EVENT.size + length
            is_more = mask & (_OF_FOLDER | _IS_DIR)
            if mask & _OVERFLOW:
                is_all = False
            elif watch in self._watches and (is_more or is_note_file(name)):
                # Two paths may lead to one folder.
                folders = {folder.rstrip("/") for folder, number in self._folders.items() if number == watch}
                is_all = is_all and not is_more and len(folders) == 1
                changed.update(os.path.join(folder, name) for folder in folders)
        return changed if is_all else None

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
    with suppress(OSError):
        found = os.lstat(os.path.join(root.folder, root.inside))
        is_same = found.st_mode, found.st_dev, found.st_ino
        return (*is_same, found.st_size, found.st_mtime_ns, found.st_ctime_ns) if root.is_file else is_same
    return ()


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


class _Plan(NamedTuple):
    """The folders to watch, by their real paths.

    Each has its device and inode number, because another folder may take its place. Where one of the ``wanted`` folders
    cannot be watched, the closest folder above it is. ``leading`` are the wanted folders and all above them, and
    ``unreadable`` those that exist but may not be read.
    """

    folders: Mapping[str, tuple[int, int]]
    wanted: frozenset[str]
    leading: frozenset[str]
    unreadable: tuple[str, ...]


class FolderWatch:
    """Notices changes in folders, with one watch for each folder and none for the content of ignored ones.

    The first ``refresh`` starts watching. One thread refreshes and waits; any thread may interrupt and close.
    """

    def __init__(self, wanted: Callable[[], Collection[str]], is_ignored: Callable[[str], bool]) -> None:
        self._wanted, self._is_ignored = wanted, is_ignored
        self._lock, self._interrupted = threading.Lock(), threading.Event()
        self._closed = False
        self._plan = _plan(())
        self._changes: Generator[_Changes, None, None] | None = None
        self._touched: set[str] = set()
        self._stale = False
        self._failure = ""

    @property
    def folders(self) -> int:
        """The number of watched folders."""
        return len(self._plan.folders) if self._changes is not None else 0

    @property
    def problem(self) -> str:
        """Why some or all folders are not watched, and what to do; empty if all are watched."""
        if self._failure or not self._plan.unreadable:
            return self._failure
        more = len(self._plan.unreadable) - 1
        folders = f"{self._plan.unreadable[0]}{f' and {more} more' if more else ''}"
        return f"Changes in {folders} are not noticed: no permission to read it; change its permissions."

    def wait(self, timeout_s: float) -> frozenset[str]:
        """Return the paths that were touched since the last call, waiting at most ``timeout_s`` for the first.

        It is empty if nothing relevant happened. If watching has failed, every folder counts as touched.
        """
        end = time.monotonic() + timeout_s
        while not (self._closed or self._interrupted.is_set()):
            with self._lock:
                touched = self._collect()
            left = end - time.monotonic()
            if touched or left <= 0:
                return touched
            if self._changes is None:
                self._interrupted.wait(left)
        self._interrupted.clear()
        return frozenset()

    def interrupt(self) -> None:
        """Make a running ``wait``, or the next one, return soon."""
        self._interrupted.set()

    def refresh(self) -> bool:
        """Watch the folders of now; True if these are new, so that only a scan finds what changed meanwhile."""
        with self._lock:
            if self._closed:
                return False
            plan = _plan(self._wanted())
            differs = self._stale or plan != self._plan
            if not differs and self._changes is not None:
                return False
            for _ in range(_ATTEMPTS):
                is_done = self._restart(plan)
                plan = _plan(self._wanted())
                if is_done:
                    break
                time.sleep(_PAUSE_S)
            # A folder that was created after the listing and before the watch caused no event.
            self._touched.update(plan.folders.keys() ^ self._plan.folders.keys())
            return differs or self._changes is not None

    def close(self) -> None:
        """Stop watching; a running ``wait`` returns."""
        self._closed = True
        self._interrupted.set()
        with self._lock:
            self._end()

    def _restart(self, plan: _Plan) -> bool:
        """Replace the watch by one of these folders; False if another attempt may succeed."""
        self._plan, self._stale, self._failure = plan, False, ""
        if not plan.folders:
            self._end()
            return True
        changes = _start(plan.folders)
        is_done = self._take(changes)
        if is_done:
            self._end()
            self._changes = changes
        return is_done

    def _end(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _take(self, changes: "Generator[_Changes, None, None]") -> bool:
        """Note what has changed; False if watching has failed and has ended."""
        try:
            self._filter(next(changes))
        except Exception as error:
            self._end()
            self._failure = explain_failure(error)
            return False
        return True

    def _collect(self) -> frozenset[str]:
        """Return what was touched since the last call."""
        if self._changes is not None and not self._touched and not self._take(self._changes):
            self._touched.update(self._plan.folders)
        touched, self._touched = frozenset(self._touched), set()
        return touched

    def _filter(self, changes: "_Changes") -> None:
        """Note the relevant paths among the changes."""
        from watchfiles import Change

        for change, path in changes:
            folder, name = os.path.split(path)
            if path in self._plan.leading:
                self._touched.add(path)
                self._stale = self._stale or change is not Change.modified
            elif folder in self._plan.folders and folder not in self._plan.wanted:
                continue  # Beside a folder that does not exist yet, nothing is relevant.
            elif is_note_file(name) or (_inode(path) is not None and not self._is_ignored(name)):
                self._touched.add(path)


def _start(folders: Collection[str]) -> "Generator[_Changes, None, None]":
    """Yield the changes in these folders, an empty set while there are none."""
    from watchfiles import watch

    yield from watch(
        *folders, watch_filter=None, debounce=_DEBOUNCE_MS, step=_STEP_MS, rust_timeout=_WAIT_MS, yield_on_timeout=True,
        recursive=False, ignore_permission_denied=False,
    )  # fmt: skip


def _plan(paths: Collection[str]) -> _Plan:
    wanted = frozenset(os.path.realpath(path) for path in paths)
    folders: dict[str, tuple[int, int]] = {}
    for path in wanted:
        for place in _with_parents(path):
            number = folders.get(place) or (_inode(place) if os.access(place, os.R_OK) else None)
            if number is not None:
                folders[place] = number
                break
    leading = frozenset(place for path in wanted for place in _with_parents(path))
    unreadable = sorted(path for path in wanted if path not in folders and _inode(path) is not None)
    return _Plan(folders, wanted, leading, tuple(unreadable))


def _with_parents(path: str) -> list[str]:
    """Return a path and all folders above it."""
    above = os.path.dirname(path)
    return [path] if above == path else [path, *_with_parents(above)]


def _inode(path: str) -> tuple[int, int] | None:
    """Return the device and inode number of a folder; None if it does not exist or is a link."""
    with suppress(OSError):
        found = os.lstat(path)
        return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
    return None


def explain_failure(error: Exception) -> str:
    """Return what went wrong, and what to do."""
    text = str(error) or type(error).__name__
    why = f"{text.rstrip('.')}; set WATCHFILES_FORCE_POLLING=1 to poll the files instead"
    if "watch limit reached" in text:
        why = "too many folders are watched here; raise fs.inotify.max_user_watches"
    elif re.search(r"\b(?:os error|Errno) 2[34]\b", text):
        why = "too many files are open; raise the limit of open files (ulimit -n) or fs.inotify.max_user_instances"
    return f"Changes are not noticed: {why}."
