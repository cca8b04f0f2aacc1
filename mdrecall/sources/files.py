"""The memory files of a workspace: which there are, and each as a document.

``MEMORY.md``, ``memory.md``, everything below ``memory/``, then the extra paths. Symbolic links are not followed.
A root that is missing or cannot be listed is reported and remembered as *lost*, so that nothing indexed from it
is thrown away because a disk was not there.
"""

import fnmatch
import hashlib
import os
import stat
import time
from operator import attrgetter
from typing import NamedTuple

from mdrecall.config.settings import ExtraPath, Settings
from mdrecall.sources.opening import read_below, stamp_of
from mdrecall.sources.text import decode
from mdrecall.types import Document, Issue, SourceName, Stamp

ROOT_FILES = ("MEMORY.md", "memory.md")
MEMORY_FOLDER = "memory"

_LINK = "is a symbolic link, which is not followed"
_NAME = attrgetter("name")


class Root(NamedTuple):
    """A place that memory files may be in."""

    folder: str
    """The folder that files are opened relative to."""
    inside: str
    """What of it counts: a file name, a folder below it, or everything (empty)."""
    is_file: bool
    pattern: str | None
    prefix: str
    """The path of ``folder`` as results show it: relative to the workspace, with ``/``."""
    optional: bool = False
    """Whether it is fine for it not to be there."""


class FoundFile(NamedTuple):
    """A memory file on disk."""

    path: str
    root: Root
    inside: str
    stamp: Stamp


class Scan(NamedTuple):
    """What a walk over all roots found."""

    files: tuple[FoundFile, ...]
    issues: tuple[Issue, ...]
    lost: tuple[str, ...]
    """Path prefixes that could not be looked at; nothing is known of what is below them."""


class _Seen:
    """A scan in the making."""

    def __init__(self) -> None:
        self.files: list[FoundFile] = []
        self.issues: list[Issue] = []
        self.lost: list[str] = []

    def note(self, path: str, problem: str) -> None:
        self.issues.append(Issue(path, problem))


class MemoryFiles:
    """The source ``memory``: Markdown files of one workspace."""

    name: SourceName = "memory"

    def __init__(self, settings: Settings, home: str) -> None:
        self._settings = settings
        self._home = home

    def roots(self) -> tuple[Root, ...]:
        """Every place that memory files may be in, in the order they are listed."""
        workspace = self._settings.workspace
        roots = [Root(workspace, name, True, None, "", optional=True) for name in ROOT_FILES]
        roots.append(Root(workspace, MEMORY_FOLDER, False, None, "", optional=True))
        if self.is_whole_folder():
            roots.append(Root(workspace, "", False, None, ""))
        roots += [self._extra_root(extra) for extra in self._settings.memory_search.extra_paths]
        return tuple(dict.fromkeys(roots))

    def is_whole_folder(self) -> bool:
        """Whether the workspace is a plain folder of Markdown: no OpenClaw about, and no memory files in it."""
        workspace = self._settings.workspace
        names = (*ROOT_FILES, MEMORY_FOLDER)
        return self._settings.standalone and not any(os.path.lexists(os.path.join(workspace, name)) for name in names)

    def scan(self) -> Scan:
        """List every memory file once, with its stamp."""
        seen = _Seen()
        for root in self.roots():
            self._scan_root(root, seen)
        return Scan(_once(seen.files), tuple(seen.issues), tuple(seen.lost))

    def read(self, found: FoundFile) -> Document:
        """The file as a document; raises a ``ReadError`` that names it."""
        seen_ns = time.time_ns()
        limit = self._settings.mdrecall.max_file_bytes
        opened = read_below(found.root.folder, found.inside, shown=found.path, max_bytes=limit)
        text = decode(opened.data)
        digest = hashlib.sha256(opened.data).hexdigest()
        return Document(self.name, found.path, text, digest, opened.stamp, seen_ns)

    def _extra_root(self, extra: ExtraPath) -> Root:
        workspace = self._settings.workspace
        path = extra.path
        if path == "~" or path.startswith(("~/", "~\\")):
            path = self._home + path[1:]
        path = os.path.normpath(os.path.join(workspace, path))
        if os.path.isdir(path) and not os.path.islink(path):
            return Root(path, "", False, extra.pattern, _relative(path, workspace))
        folder, name = os.path.split(path)
        return Root(folder, name, True, extra.pattern, _relative(folder, workspace))

    def _scan_root(self, root: Root, seen: _Seen) -> None:
        place = os.path.join(root.folder, root.inside)
        shown = _join(root.prefix, root.inside) or "."
        try:
            found = os.lstat(place)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            if not (missing and root.optional):
                seen.note(shown, "is missing" if missing else f"cannot be looked at: {error.strerror}")
            if not (root.is_file and missing and root.optional):
                seen.lost.append(shown)
            return
        if stat.S_ISLNK(found.st_mode) and root.inside:
            seen.note(shown, _LINK)
        elif stat.S_ISREG(found.st_mode):
            if root.inside.endswith(".md"):
                seen.files.append(FoundFile(shown, root, root.inside, stamp_of(found)))
            elif not root.optional:
                seen.note(shown, "is not a Markdown file (.md)")
        elif stat.S_ISDIR(found.st_mode) and not (root.is_file and root.optional):
            self._walk(place, root, root.inside, seen)

    def _walk(self, folder: str, root: Root, inside: str, seen: _Seen) -> None:
        """List a folder and those below it. This runs before every search over every file, so it does only what it must."""
        shown = _join(root.prefix, inside)
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=_NAME)
        except OSError as error:
            seen.note(shown or ".", f"cannot be listed: {error.strerror}")
            seen.lost.append(shown or ".")
            return
        above, within = f"{shown}/" if shown else "", f"{inside}/" if inside else ""
        pattern, files = root.pattern, seen.files
        for entry in entries:
            name = entry.name
            try:
                if name.endswith(".md"):
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        if pattern is None or matches(within + name, pattern):
                            files.append(FoundFile(above + name, root, within + name, stamp_of(found)))
                        continue
                if entry.is_dir(follow_symlinks=False):
                    if name.lower() not in self._settings.mdrecall.ignore:
                        self._walk(entry.path, root, within + name, seen)
                elif entry.is_symlink() and (name.endswith(".md") or entry.is_dir()):
                    seen.note(above + name, _LINK)
            except OSError as error:
                seen.note(above + name, f"cannot be looked at: {error.strerror}")


def matches(path: str, pattern: str) -> bool:
    """Whether a relative path fits a glob in which ``**/`` is any number of folders, none included."""
    if fnmatch.fnmatchcase(path, pattern):
        return True
    return pattern.startswith("**/") and matches(path, pattern[3:])


def _once(files: list[FoundFile]) -> tuple[FoundFile, ...]:
    """Each file once, though it may be reached by two roots or by two spellings on a disk that ignores case."""
    if len({found.stamp.inode for found in files}) == len(files):
        return tuple(files)
    by_inode: dict[int, list[FoundFile]] = {}
    for found in files:
        twins = by_inode.setdefault(found.stamp.inode, [])
        if not any(_same_place(found, twin) for twin in twins):
            twins.append(found)
    kept = {found.path for twins in by_inode.values() for found in twins}
    return tuple(found for found in files if found.path in kept)


def _same_place(one: FoundFile, other: FoundFile) -> bool:
    places = (os.path.realpath(os.path.join(found.root.folder, found.inside)).casefold() for found in (one, other))
    return next(places) == next(places)


def _relative(path: str, workspace: str) -> str:
    relative = os.path.relpath(path, workspace).replace(os.sep, "/")
    return "" if relative == "." else relative


def _join(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix and name else prefix or name
