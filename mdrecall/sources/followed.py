"""Memory files whose last listing is used again while the kernel reports no change in their folders."""

import os
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mdrecall.sources.files import MemoryFiles, Root
from mdrecall.sources.opening import stamp_of
from mdrecall.types import Document, Listing, SourceName
from mdrecall.types.documents import Stamps

if TYPE_CHECKING:
    from mdrecall.sources.inotify import FolderQueue


#: Every root with what tells that it is the same as before.
_Roots: TypeAlias = tuple[tuple[Root, tuple[int, ...]], ...]


class _Kept(NamedTuple):
    """A listing, and what must stay the same for it to hold."""

    listing: Listing
    roots: _Roots
    until: float
    """When all files are listed again in any case, by the monotonic clock."""


class FollowedFiles:
    """Lists the memory files, at no cost while nothing has changed. For a process that stays alive; any thread may ask.

    Every folder is watched before it is listed, so that no change falls between the two. A listing is not kept if a
    folder cannot be watched or lies on a network file system, where other machines write without an event.
    """

    name: SourceName = "memory"

    def __init__(self, files: MemoryFiles, keep_s: float, open_queue: "Callable[[], FolderQueue]") -> None:
        """``keep_s`` is how long a listing is used at most, in case a change went unnoticed."""
        self._files = files
        self._keep_s = keep_s
        self._open_queue = open_queue
        self._lock = threading.Lock()
        self._queue: FolderQueue | None = None
        self._kept: _Kept | None = None
        self._is_followed = True
        self._is_closed = False

    def scan(self) -> Listing:
        """List every memory file with its stamp."""
        with self._lock:
            if self._queue and not self._queue.is_own:
                self._queue.close()
                self._queue = self._kept = None
            # Another thread may forget it meanwhile.
            kept = self._kept
            renewed = self._renew(kept) if kept else None
            if renewed is None:
                return self._scan()
            if self._kept is kept:
                self._kept = renewed
            return renewed.listing

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
        if self._queue is None or time.monotonic() >= kept.until:
            return None
        changed = self._queue.drain()
        roots = self._look_at_roots()
        if changed is None or not _are_same(kept.roots, roots, changed):
            return None
        if not changed:
            return kept
        listing = _renew(kept.listing, changed, self._files)
        return _Kept(listing, roots, kept.until) if listing else None

    def _scan(self) -> Listing:
        self._kept = None
        if not self._prepare():
            return self._files.scan()
        self._is_followed = True
        roots, until = self._look_at_roots(), time.monotonic() + self._keep_s
        listing = self._files.scan(self._follow)
        assert self._queue is not None
        self._queue.keep_only(listing.folders)
        if self._is_followed and not listing.lost:
            self._kept = _Kept(listing, roots, until)
        return listing

    def _prepare(self) -> bool:
        """Open the queue if that is possible, and empty it: only what happens from now on counts."""
        try:
            if self._queue is None and not self._is_closed:
                self._queue = self._open_queue()
            if self._queue is not None:
                self._queue.drain()
        except OSError:
            return False
        return self._queue is not None

    def _follow(self, folder: str) -> None:
        if self._queue is None:
            return
        try:
            self._queue.watch(folder)
        except FileNotFoundError:
            # It does not exist yet: that it appears is seen by looking at the roots, or at the folder above.
            pass
        except OSError:
            self._is_followed = False

    def _look_at_roots(self) -> _Roots:
        """Return what tells that a root is the same as before: events do not tell that a folder above was renamed."""
        return tuple((root, _identify(root)) for root in self._files.roots())


def _identify(root: Root) -> tuple[int, ...]:
    with suppress(OSError):
        found = os.lstat(os.path.join(root.folder, root.inside))
        return stamp_of(found) if root.is_file else (found.st_mode, found.st_dev, found.st_ino)
    return ()


def _are_same(before: _Roots, now: _Roots, changed: set[str]) -> bool:
    """True if the roots are those of before, apart from files that are known to have changed."""
    return len(before) == len(now) and all(
        old == new or (old[0] == new[0] and old[1] and new[1] and os.path.join(*new[0][:2]) in changed)
        for old, new in zip(before, now, strict=True)
    )


def _renew(listing: Listing, changed: set[str], files: MemoryFiles) -> Listing | None:
    """Return a listing with what has become of notes that changed; None if all files must be listed again."""
    shown_of = {
        os.path.join(folder, shown[len(prefix) + 1 :] if prefix else shown).rstrip("/"): shown
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
        covered = shown if known else files.find_shown(path)
        # Of a file with several names, the others have changed too.
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or not _is_unicode(shown):
            return None
        if covered is None:
            continue
        # Two paths may lead to the same file, and it is listed once.
        is_new_file = known is None or found.st_ino != known[3]
        if covered != shown or (is_new_file and _has_file(listing, found.st_ino)):
            return None
        newer[shown] = stamp_of(found)
    if len({stamp[3] for stamp in newer.values()}) < len(newer):
        return None
    return listing._replace(stamps=Stamps(listing.stamps, removed, newer)) if removed or newer else listing


def _is_unicode(path: str) -> bool:
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


def _has_file(listing: Listing, inode: int) -> bool:
    return any(inode == stamp[3] for stamp in listing.stamps.values())
