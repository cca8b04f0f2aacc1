"""The memory files of a workspace: which there are, and each as a document.

``MEMORY.md``, ``memory.md``, everything below ``memory/``, then the extra paths. Symbolic links are not followed.
A root that is missing or cannot be listed is reported and remembered as *lost*, so that nothing indexed from it
is thrown away because a disk was not there.
"""

import fnmatch
import os
import stat
import time
from contextlib import suppress
from typing import NamedTuple

from mdrecall.config.settings import ExtraPath, Settings
from mdrecall.sources.opening import decode, read_below, stamp_of
from mdrecall.types import Document, Issue, Listing, SourceName, Stamp

ROOT_FILES = ("MEMORY.md", "memory.md")
MEMORY_FOLDER = "memory"

_TRIES = 3
_LINK = "is a symbolic link, which is not followed"


class Root(NamedTuple):
    """A place that memory files may be in."""

    folder: str
    """The folder that files are opened relative to."""
    inside: str
    """What of it counts: a file name, a folder below it, or everything (empty)."""
    is_file: bool
    pattern: str | None
    """A glob, relative to ``inside``, that files of a folder must fit."""
    prefix: str
    """The path of ``folder`` as results show it: relative to the workspace, with ``/``."""
    optional: bool = False
    """Whether it is fine for it not to be there."""


class _Seen:
    """A listing in the making."""

    def __init__(self) -> None:
        self.stamps: dict[str, Stamp] = {}
        self.issues: list[Issue] = []
        self.lost: list[str] = []
        self.places: dict[str, tuple[str, str]] = {}
        self.folders: dict[str, None] = {}
        self.moved = False

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
        """Whether the workspace is a plain folder of Markdown: no OpenClaw about, and no memory files in it.

        Never a whole disk or a whole home: nobody who types a search there means that.
        """
        workspace = self._settings.workspace
        if not self._settings.standalone or os.path.realpath(workspace) in (os.sep, os.path.realpath(self._home)):
            return False
        return not any(os.path.lexists(os.path.join(workspace, name)) for name in (*ROOT_FILES, MEMORY_FOLDER))

    def scan(self) -> Listing:
        """List every memory file once, with its stamp."""
        for _ in range(_TRIES):
            seen = _Seen()
            for root in self.roots():
                self._scan_root(root, seen)
            if not seen.moved:
                break
        self._note_neighbours(seen)
        _drop_unspeakable(seen)
        _drop_twins(seen)
        return Listing(seen.stamps, tuple(seen.issues), tuple(seen.lost), seen.places, tuple(seen.folders))

    def _note_neighbours(self, seen: _Seen) -> None:
        """Say that notes beside the memory files are not searched, where one might expect that they are."""
        if not self._settings.standalone or self.is_whole_folder():
            return
        with suppress(OSError):
            names = {name for name in os.listdir(self._settings.workspace) if name.endswith(".md")}
            beside = sorted(names - seen.stamps.keys() - set(ROOT_FILES))
            if beside:
                more = f"and {len(beside) - 1} more beside it are" if len(beside) > 1 else "is"
                seen.note(beside[0], f"{more} not searched: only MEMORY.md, memory/ and extraPaths are")

    def read(self, path: str, listing: Listing) -> Document:
        """A listed file as a document; raises a ``ReadError`` that names it."""
        import hashlib

        seen_ns = time.time_ns()
        folder, prefix = listing.places[path.rpartition("/")[0]]
        inside = path[len(prefix) + 1 :] if prefix else path
        opened = read_below(folder, inside, shown=path, max_bytes=self._settings.mdrecall.max_file_bytes)
        digest = hashlib.sha256(opened.data).hexdigest()
        return Document(self.name, path, decode(opened.data), digest, opened.stamp, seen_ns)

    def _extra_root(self, extra: ExtraPath) -> Root:
        """An extra path inside the workspace is opened from the workspace, any other from the folder that holds it."""
        workspace = self._settings.workspace
        path = extra.path
        if path == "~" or path.startswith(("~/", "~\\")):
            path = self._home + path[1:]
        path = os.path.normpath(os.path.join(workspace, path))
        path = "/" + path.lstrip("/")
        inside = _relative(path, workspace)
        if os.path.commonpath([path, workspace]) == path and inside:
            folder, inside = path, ""
        elif inside.startswith("../"):
            folder, inside = os.path.split(path)
        else:
            folder = workspace
        is_file = os.path.isfile(path) or (path.endswith(".md") and not os.path.isdir(path))
        return Root(folder, inside, is_file, extra.pattern, _relative(folder, workspace))

    def _scan_root(self, root: Root, seen: _Seen) -> None:
        place = os.path.join(root.folder, root.inside)
        shown = _join(root.prefix, root.inside) or "."
        seen.folders[root.folder if root.is_file else place] = None
        above = root.inside.split("/")[:-1]
        if any(os.path.islink(os.path.join(root.folder, *above[:depth])) for depth in range(1, len(above) + 1)):
            seen.note(shown, "is reached through a symbolic link, which is not followed")
            return
        try:
            found = os.lstat(place)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            if not (missing and root.optional):
                seen.note(shown, "is missing" if missing else f"cannot be looked at: {error.strerror}")
            if not (root.is_file and missing and os.path.isdir(os.path.dirname(place))):
                seen.lost.append(shown)
            return
        if stat.S_ISLNK(found.st_mode) and root.inside:
            seen.note(shown, _LINK)
        elif stat.S_ISREG(found.st_mode):
            if root.inside.endswith(".md"):
                seen.stamps.setdefault(shown, stamp_of(found))
                seen.places.setdefault(shown.rpartition("/")[0], (root.folder, root.prefix))
            elif not root.optional:
                seen.note(shown, "is not a Markdown file (.md)")
        elif stat.S_ISDIR(found.st_mode) and not (root.is_file and root.optional):
            self._walk(root, seen)

    def _walk(self, root: Root, seen: _Seen) -> None:
        """List a root and the folders below it; it runs over every file before every search, so it does little."""
        waiting = [(os.path.join(root.folder, root.inside), root.inside)]
        while waiting:
            folder, inside = waiting.pop()
            shown = _join(root.prefix, inside)
            try:
                with os.scandir(folder) as listing:
                    entries = list(listing)
                seen.folders[folder] = None
            except OSError as error:
                if isinstance(error, FileNotFoundError) and inside != root.inside:
                    # It was there a moment ago: whatever it has become is found by looking once more.
                    seen.moved = True
                    continue
                seen.note(shown or ".", f"cannot be listed: {error.strerror}")
                seen.lost.append(shown or ".")
                continue
            seen.places.setdefault(shown, (root.folder, root.prefix))
            waiting += self._list(entries, root, inside, shown, seen)

    def _list(
        self, entries: list[os.DirEntry[str]], root: Root, inside: str, shown: str, seen: _Seen
    ) -> list[tuple[str, str]]:
        """Note the files of one folder; gives the folders in it."""
        above, within = f"{shown}/" if shown else "", f"{inside}/" if inside else ""
        pattern, add, folders = root.pattern, seen.stamps.setdefault, []
        for entry in entries:
            name = entry.name
            try:
                if name.endswith(".md"):
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        if pattern is None or matches(below(root, within + name), pattern):
                            add(above + name, stamp_of(found))
                        continue
                if entry.is_dir(follow_symlinks=False):
                    if name.lower() not in self._settings.mdrecall.ignore:
                        folders.append((entry.path, within + name))
                elif entry.is_symlink():
                    if name.endswith(".md") or entry.is_dir():
                        seen.note(above + name, _LINK)
                elif name.endswith(".md"):
                    seen.note(above + name, "is not a regular file")
            except FileNotFoundError:
                continue
            except OSError as error:
                seen.note(above + name, f"cannot be looked at: {error.strerror}")
                seen.lost.append(above + name)
        return folders


def below(root: Root, inside: str) -> str:
    """A path as the pattern of its root sees it."""
    return inside[len(root.inside) + 1 :] if root.inside else inside


def matches(path: str, pattern: str) -> bool:
    """Whether a relative path fits a glob: ``*`` stays inside a folder, ``**`` is any number of folders, even none."""
    return _fits(path.split("/"), pattern.split("/"))


def _fits(parts: list[str], globs: list[str]) -> bool:
    if not globs:
        return not parts
    if globs[0] == "**":
        return any(_fits(parts[skipped:], globs[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], globs[0]) and _fits(parts[1:], globs[1:])


def _drop_unspeakable(seen: _Seen) -> None:
    """Leave out files whose name is not Unicode: nothing could name them in an answer."""
    for path in [path for path in seen.stamps if not path.isascii()]:
        try:
            path.encode()
        except UnicodeEncodeError:
            del seen.stamps[path]
            seen.note(path.encode("utf-8", "backslashreplace").decode(), "has a name that is not Unicode")


def _drop_twins(seen: _Seen) -> None:
    """Each file once, though two spellings may reach it: through two roots, or on a disk that ignores case."""
    if len({stamp[3] for stamp in seen.stamps.values()}) == len(seen.stamps):
        return
    kept: dict[tuple[int, str], str] = {}
    for path, stamp in list(seen.stamps.items()):
        folder, prefix = seen.places[path.rpartition("/")[0]]
        inside = path[len(prefix) + 1 :] if prefix else path
        real = os.path.realpath(os.path.join(folder, inside)).casefold()
        if kept.setdefault((stamp[3], real), path) != path:
            del seen.stamps[path]


def _relative(path: str, workspace: str) -> str:
    relative = os.path.relpath(path, workspace).replace(os.sep, "/")
    return "" if relative == "." else relative


def _join(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix and name else prefix or name
