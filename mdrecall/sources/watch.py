"""Notices that memory files may have changed: that something happened, never what to read because of it.

Every folder has a watch of its own, so what lies below an ignored folder costs nothing. A watch belongs to a folder,
not to its path: one that is renamed, or deleted and made again, is not watched any more; ``refresh`` begins anew.
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

# The library looks whether something came at every step, and gives it out once a step brought nothing more.
_STEP_MS = 20
_DEBOUNCE_MS = 50

# One look without an event lasts this long; so do the beginning of a watch and an interruption.
_LOOK_MS = 50

# A folder may vanish while the watch begins, and the old watch may hold what the new one needs.
_TRIES = 3
_PAUSE_S = 0.05


class _Plan(NamedTuple):
    """Which folders to watch, all by their real paths."""

    folders: Mapping[str, tuple[int, int]]
    """Each with its device and number, because another folder may take its place."""
    wanted: frozenset[str]
    """What was asked for; for what cannot be watched, the closest folder above it is."""
    leading: frozenset[str]
    """What was asked for and everything above it."""
    closed: tuple[str, ...]
    """Folders that were asked for and are there, but may not be read."""


class FolderWatch:
    """Notices changes in folders, each watched for itself: one watch per folder, none for what is below an ignored one.

    The first ``refresh`` begins. One thread refreshes and waits; ``interrupt`` and ``close`` may come from any.
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
        """How many folders are watched."""
        return len(self._plan.folders) if self._changes is not None else 0

    @property
    def problem(self) -> str:
        """Why some or all folders are not watched, and the way out; empty if all are."""
        if self._failure or not self._plan.closed:
            return self._failure
        first, *others = self._plan.closed
        more = f" and {len(others)} more" if others else ""
        return f"Changes in {first}{more} are not noticed, because you may not read it; give yourself permission."

    def wait(self, timeout_s: float) -> frozenset[str]:
        """Paths that were touched since the last call, waiting at most so long for the first.

        Empty if nothing relevant happened. If watching broke off, every folder counts as touched.
        """
        end = time.monotonic() + timeout_s
        while not (self._closed or self._interrupted.is_set()):
            with self._lock:
                touched = self._look()
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
        """Watch what is wanted now; whether that is new, so that only a scan tells what happened meanwhile."""
        with self._lock:
            if self._closed:
                return False
            plan = _plan(self._wanted())
            differs = self._stale or plan != self._plan
            if not differs and self._changes is not None:
                return False
            for _ in range(_TRIES):
                began = self._begin(plan)
                plan = _plan(self._wanted())
                if began:
                    break
                time.sleep(_PAUSE_S)
            # A folder that came after the listing and before the watch gave no event.
            self._touched.update(plan.folders.keys() ^ self._plan.folders.keys())
            return differs or self._changes is not None

    def close(self) -> None:
        """Stop watching for good; a running ``wait`` returns."""
        self._closed = True
        self._interrupted.set()
        with self._lock:
            self._end()

    def _begin(self, plan: _Plan) -> bool:
        """Put a watch of these folders in place of the one before; whether there is nothing left to try."""
        self._plan, self._stale, self._failure = plan, False, ""
        if not plan.folders:
            self._end()
            return True
        try:
            changes = _start(plan.folders)
            first = next(changes)
        except Exception as error:
            self._end()
            self._failure = _sentence(error)
            return False
        self._end()
        self._changes = changes
        self._sift(first)
        return True

    def _end(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _look(self) -> frozenset[str]:
        """What was touched since the last look."""
        if self._changes is not None and not self._touched:
            try:
                self._sift(next(self._changes))
            except Exception as error:
                self._end()
                self._failure = _sentence(error)
                self._touched.update(self._plan.folders)
        touched, self._touched = frozenset(self._touched), set()
        return touched

    def _sift(self, changes: "_Changes") -> None:
        """Keep the relevant paths."""
        from watchfiles import Change

        for change, path in changes:
            if path in self._plan.leading:
                self._touched.add(path)
                self._stale = self._stale or change is not Change.modified
            elif self._is_relevant(path):
                self._touched.add(path)

    def _is_relevant(self, path: str) -> bool:
        """Whether it is a note or a folder of notes; beside a folder that is not there yet, nothing is."""
        folder, name = os.path.split(path)
        if folder in self._plan.folders and folder not in self._plan.wanted:
            return False
        return name.endswith(".md") or (_number(path) is not None and not self._is_ignored(name))


def _start(folders: Collection[str]) -> "Generator[_Changes, None, None]":
    """Changes in these folders, an empty set when there are none; it begins when it is first asked."""
    from watchfiles import watch

    return watch(
        *folders,
        watch_filter=None,
        debounce=_DEBOUNCE_MS,
        step=_STEP_MS,
        rust_timeout=_LOOK_MS,
        yield_on_timeout=True,
        recursive=False,
        ignore_permission_denied=False,
    )


def _plan(paths: Collection[str]) -> _Plan:
    wanted = frozenset(os.path.realpath(path) for path in paths)
    folders: dict[str, tuple[int, int]] = {}
    for path in wanted:
        for place in _upwards(path):
            number = folders.get(place) or (_number(place) if os.access(place, os.R_OK) else None)
            if number is not None:
                folders[place] = number
                break
    leading = frozenset(place for path in wanted for place in _upwards(path))
    closed = sorted(path for path in wanted if path not in folders and _number(path) is not None)
    return _Plan(folders, wanted, leading, tuple(closed))


def _upwards(path: str) -> Iterator[str]:
    """A path and everything above it."""
    yield path
    while (above := os.path.dirname(path)) != path:
        path = above
        yield path


def _number(path: str) -> tuple[int, int] | None:
    """The device and number of a folder; nothing if there is none, or only a link to one."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _sentence(error: Exception) -> str:
    """What went wrong, and the way out."""
    text = str(error) or type(error).__name__
    if "watch limit reached" in text:
        return "Changes are not noticed, because too many folders are watched here; raise fs.inotify.max_user_watches."
    if re.search(r"\b(?:os error|Errno) 2[34]\b", text):
        what = "raise the limit of open files (ulimit -n), or fs.inotify.max_user_instances"
        return f"Changes are not noticed, because too many files are open; {what}."
    return f"Changes are not noticed: {text.rstrip('.')}; WATCHFILES_FORCE_POLLING=1 looks at the files instead."
