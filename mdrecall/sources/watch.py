"""Notices that memory files may have changed. It says that something happened, not what to read because of it.

Every folder has its own watch, so the content of ignored folders costs nothing. A watch belongs to a folder, not to its
path: a folder that is renamed, or deleted and created again, is no longer watched until ``refresh`` starts again.
"""

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from watchfiles import Change

    _Changes = set[tuple[Change, str]]

# watchfiles collects events in steps of this length and returns them after a step without new ones. With longer steps a
# saved note is noticed later.
_STEP_MS = 20
# The longest time for which it goes on collecting; a steady stream of events must not delay them further.
_DEBOUNCE_MS = 50

# How long watchfiles waits for an event before it returns; starting a watch and interrupting it take as long.
_WAIT_MS = 50

# A folder may vanish while the watch starts, and the old watch may hold resources that the new one needs.
_ATTEMPTS = 3
_PAUSE_S = 0.05


class _Plan(NamedTuple):
    """The folders to watch, by their real paths."""

    folders: Mapping[str, tuple[int, int]]
    """Each with its device and inode number, because another folder may take its place."""
    wanted: frozenset[str]
    """The requested folders; where one cannot be watched, the closest folder above it is watched."""
    leading: frozenset[str]
    """The requested folders and all folders above them."""
    unreadable: tuple[str, ...]
    """Requested folders that exist but may not be read."""


class FolderWatch:
    """Notices changes in folders, with one watch for each folder and none for the content of ignored ones.

    The first ``refresh`` starts watching. One thread refreshes and waits; any thread may interrupt and close.
    """

    def __init__(self, wanted: Callable[[], Collection[str]], is_ignored: Callable[[str], bool]) -> None:
        self._wanted = wanted
        self._is_ignored = is_ignored
        self._lock = threading.Lock()
        self._interrupted = threading.Event()
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
        first, *others = self._plan.unreadable
        more = f" and {len(others)} more" if others else ""
        return f"Changes in {first}{more} are not noticed: no permission to read it; change its permissions."

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
        try:
            changes = _start(plan.folders)
            first = next(changes)
        except Exception as error:
            self._end()
            self._failure = explain_failure(error)
            return False
        self._end()
        self._changes = changes
        self._filter(first)
        return True

    def _end(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _collect(self) -> frozenset[str]:
        """Return what was touched since the last call."""
        if self._changes is not None and not self._touched:
            try:
                self._filter(next(self._changes))
            except Exception as error:
                self._end()
                self._failure = explain_failure(error)
                self._touched.update(self._plan.folders)
        touched, self._touched = frozenset(self._touched), set()
        return touched

    def _filter(self, changes: "_Changes") -> None:
        """Note the relevant paths among the changes."""
        from watchfiles import Change

        for change, path in changes:
            if path in self._plan.leading:
                self._touched.add(path)
                self._stale = self._stale or change is not Change.modified
            elif self._is_relevant(path):
                self._touched.add(path)

    def _is_relevant(self, path: str) -> bool:
        """True for a note or a folder of notes; beside a folder that does not exist yet, for nothing."""
        folder, name = os.path.split(path)
        if folder in self._plan.folders and folder not in self._plan.wanted:
            return False
        return name.endswith(".md") or (_inode(path) is not None and not self._is_ignored(name))


def _start(folders: Collection[str]) -> "Generator[_Changes, None, None]":
    """Return the changes in these folders, an empty set while there are none; it starts with the first ``next``."""
    from watchfiles import watch

    return watch(
        *folders,
        watch_filter=None,
        debounce=_DEBOUNCE_MS,
        step=_STEP_MS,
        rust_timeout=_WAIT_MS,
        yield_on_timeout=True,
        recursive=False,
        ignore_permission_denied=False,
    )


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


def _with_parents(path: str) -> Iterator[str]:
    """Yield a path and all folders above it."""
    yield path
    while (above := os.path.dirname(path)) != path:
        path = above
        yield path


def _inode(path: str) -> tuple[int, int] | None:
    """Return the device and inode number of a folder; None if it does not exist or is a link."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def explain_failure(error: Exception) -> str:
    """Return what went wrong, and what to do."""
    text = str(error) or type(error).__name__
    if "watch limit reached" in text:
        return "Changes are not noticed: too many folders are watched here; raise fs.inotify.max_user_watches."
    if re.search(r"\b(?:os error|Errno) 2[34]\b", text):
        what = "raise the limit of open files (ulimit -n) or fs.inotify.max_user_instances"
        return f"Changes are not noticed: too many files are open; {what}."
    return f"Changes are not noticed: {text.rstrip('.')}; set WATCHFILES_FORCE_POLLING=1 to poll the files instead."
