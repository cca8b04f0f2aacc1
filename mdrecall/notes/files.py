"""The memory files of a workspace: which there are, and each as a document.

These are ``MEMORY.md``, ``memory.md``, ``USER.md``, everything below ``memory/``, without OpenClaw the other Markdown
files of the folder, then the extra paths. Symbolic links are not followed. A root that is missing or cannot be listed
is reported as *lost*, so that nothing indexed from it is removed only because a disk is not mounted.
"""

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from mdrecall import platform
from mdrecall.config.environment import is_disk, is_within, relative_path
from mdrecall.config.settings import ExtraPath, Settings
from mdrecall.errors import NotMarkdown, ReadError
from mdrecall.notes.opening import LARGEST, decode, is_binary, read_below, read_stamped, stamp_of
from mdrecall.patterns import NOTE_ENDING, NOTE_ENDINGS, compile_later, host_of, is_note_file, matches_glob
from mdrecall.types.documents import Collection, Document, Issue, Listing, Marks, Origin, SourceName, Stamp

_OBSIDIAN = ".obsidian"
_DAILY, _TEMPLATES, _IGNORED = f"{_OBSIDIAN}/daily-notes.json", f"{_OBSIDIAN}/templates.json", ".gitignore"
#: What decides which folders are left out.
_SIGNS = (_IGNORED, _OBSIDIAN, _TEMPLATES)
#: Such a file has some hundred bytes; a larger one than this is not read.
_MAX_BYTES = 1 << 16
_DAY_FORMAT = "YYYY-MM-DD"
#: The parts of a format of moment.js: a text in brackets, the marks of a day, anything else.
_PARTS = compile_later(r"\[[^\]]*\]|Y+|M+|D+|[^YMD\[]+|\[")
#: A line of ``.gitignore`` that names a folder without a wildcard, or takes one out again.
_FOLDER_LINE = compile_later(r"(!?)(/?[^/*?\[\]!#\\][^*?\[\]\\]*)/")

#: How a memory of Codex names the folder that it is about.
_ABOUT = compile_later(r"(?:^cwd:|^applies_to:[ \t]*cwd=)([^;\n]+)", re.MULTILINE)

ROOT_FILES = ("MEMORY.md", "memory.md")
#: What an agent knows about its user.
USER_FILE = "USER.md"
MEMORY_FOLDER = "memory"
#: Files that agents read as instructions when they start in a folder: OpenClaw's, and those of coding agents.
AGENT_FILES = frozenset(
    f"{name}{NOTE_ENDING}"
    for name in ("agents", "bootstrap", "claude", "gemini", "heartbeat", "identity", "skill", "soul", "tools", "user")
)

#: A folder may be moved while it is listed. If that happens this often in a row, the last listing is used.
_TRIES = 3
#: An empty answer names this many notes that are not searched, and looks into this many folders for them.
_MAX_NAMED, _MAX_LOOKED_INTO = 3, 200
#: The bits of a file's mode that say what it is.
_KIND = 0o170000
_LINK = "is a symbolic link, which is not followed"


def find_daily_note(workspace: str, day: str) -> str:
    """Return the path of Obsidian's note of a day (``YYYY-MM-DD``), without ``.md``; empty if Obsidian has none."""
    settings = _read_settings(workspace, _DAILY)
    if settings is None:
        return ""
    name = _format_day(_text(settings, "format") or _DAY_FORMAT, day) or day
    return "/".join(filter(None, f"{_text(settings, 'folder')}/{name}".split("/")))


def find_left_out(workspace: str) -> frozenset[str]:
    """Return the folders of a vault or repository that hold no notes: templates, and what git ignores.

    A bare name is left out wherever it is, one that begins with ``/`` only there, below the workspace.
    """
    found: dict[str, bool] = {}
    for line in _read(workspace, _IGNORED).splitlines():
        if match := _FOLDER_LINE.fullmatch(line.strip()):
            inner = match[2].strip("/")
            found[f"/{inner}" if "/" in match[2] else inner] = not match[1]
    if os.path.isdir(os.path.join(workspace, _OBSIDIAN)):
        settings = _read_settings(workspace, _TEMPLATES)
        folder = "Templates" if settings is None else _text(settings, "folder").strip("/")
        found |= {f"/{folder}": True} if folder else {}
    return frozenset(name for name, is_left_out in found.items() if is_left_out)


def _format_day(form: str, day: str) -> str:
    """Return a day in a format of moment.js; empty if that has other marks than those of year, month and day."""
    year, month, number = day.split("-")
    marks = {"YYYY": year, "YY": year[2:], "MM": month, "M": str(int(month)), "DD": number, "D": str(int(number))}
    parts = _PARTS.findall(form)
    if any(part[0] != "[" and part not in marks and any(map(str.isalpha, part)) for part in parts):
        return ""
    return "".join(part[1:-1] if part[0] == "[" else marks.get(part, part) for part in parts)


def _read_settings(workspace: str, name: str) -> Mapping[str, Any] | None:
    """Return the settings in a file of Obsidian; None if there is none."""
    with suppress(ValueError, RecursionError):
        if isinstance(settings := json.loads(_read(workspace, name)), dict):
            return settings
    return None


def _text(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    return value.strip() if isinstance(value, str) else ""


def _read(workspace: str, name: str) -> str:
    """Return the text of a file; empty if it is missing, a link or not readable for another reason."""
    try:
        return decode(read_below(workspace, name, shown=name, max_bytes=_MAX_BYTES))
    except ReadError:
        return ""


class Root(NamedTuple):
    """A file or folder where memory files may be."""

    folder: str
    """The folder that files are opened relative to."""
    inside: str
    """The part of it to search: a file name, a folder below it, or everything (empty)."""
    is_file: bool
    pattern: str | None
    """A glob, relative to ``inside``, that the files of a folder must match."""
    prefix: str
    """The path of ``folder`` as results show it: relative to the workspace, with ``/``."""
    optional: bool = False
    """True if it is not a problem when it is missing."""
    left_out: frozenset[str] = frozenset()
    """Folders that hold no notes: a name anywhere, or a path below ``folder`` that begins with ``/``."""
    project: str | None = None
    """The folder of the project that a file of a coding agent is about; empty if its text says it, None for all."""
    origin: Origin = ""

    def leaves_out(self, path: str) -> bool:
        """True if a folder, given by its path below ``folder``, holds no notes."""
        return f"/{path}" in self.left_out or path.rpartition("/")[2] in self.left_out


ListRoots: TypeAlias = Callable[[], Iterable[Root]]


class _Scan:
    """A listing while it is being built."""

    def __init__(self, enter: Callable[[str], None] | None) -> None:
        self.enter = enter
        self.stamps: dict[str, Stamp] = {}
        self.issues: list[Issue] = []
        self.lost: list[str] = []
        self.places: dict[str, tuple[str, str]] = {}
        self.folders: dict[str, None] = {}
        self.walked: set[str] = set()
        """Folders of which every Markdown file is listed already."""
        self.left_out: list[str] = []
        self.moved = False

    def add_issue(self, path: str, problem: str, *, is_lost: bool = False) -> None:
        """Report a problem; of a path that is lost, nothing is removed from the index."""
        self.issues.append(Issue(path, problem))
        self.lost += [path] if is_lost else []


class MemoryFiles:
    """The source ``memory``: Markdown files of one workspace."""

    name: SourceName = "memory"

    def __init__(
        self, settings: Settings, home: str, hosts: ListRoots = tuple, projects: Iterable[str] = (), *, only: str = ""
    ) -> None:
        """``hosts`` returns what coding agents keep for some ``projects``; leave it out when you only write notes.

        ``only`` is the folder of the workspace to list, if not all.
        """
        self._settings = settings
        self._home = home
        self._list_hosts, self._projects, self._only = hosts, projects, only
        self._of_hosts: list[Root] = []
        self._holds_no_notes: tuple[object, frozenset[str]] = (None, frozenset())
        self.left_out: tuple[str, ...] = ()
        """The folders that the last scan left out because they hold no notes."""

    def roots(self) -> tuple[Root, ...]:
        """Return every place where memory files may be, in the order in which they are listed."""
        workspace = self._settings.workspace
        if self._only:
            return (Root(workspace, self._only, False, None, "", optional=True),)
        roots = [Root(workspace, name, True, None, "", optional=True) for name in (*ROOT_FILES, USER_FILE)]
        roots.append(Root(workspace, MEMORY_FOLDER, False, None, "", optional=True))
        if self.is_whole_folder():
            roots.append(Root(workspace, "", False, None, "", left_out=self._find_left_out()))
        # A file outside of every other root is searched because it is in a collection.
        collections = (self._extra_root(extra) for extra, _ in self._settings.mdrecall.collections.values())
        self._of_hosts = list(self._list_hosts())
        return tuple(dict.fromkeys([*roots, *self._extra_roots(), *collections, *self._of_hosts]))

    def is_whole_folder(self) -> bool:
        """True if every Markdown file of the workspace is searched, because nothing says which ones are notes.

        OpenClaw says so, and an extra path with a pattern does for a part of the workspace. A whole disk or a whole
        home folder never is: a search there does not mean every file in it.
        """
        workspace = self._settings.workspace
        if not self._settings.standalone or is_disk(real := os.path.realpath(workspace)):
            return False
        if real == os.path.realpath(self._home):
            return False
        return all(root.pattern is None or root.folder != workspace for root in self._extra_roots())

    def _find_left_out(self) -> frozenset[str]:
        workspace, stamps = self._settings.workspace, dict[str, Stamp]()
        for name in _SIGNS:
            with suppress(OSError):
                stamps[name] = stamp_of(os.lstat(os.path.join(workspace, name)))
        if self._holds_no_notes[0] != stamps:
            self._holds_no_notes = stamps, find_left_out(workspace)
        return self._holds_no_notes[1]

    def list_signs(self) -> list[Root]:
        """Return the files that decide which folders are left out, as roots, so that a change of one is noticed."""
        workspace = self._settings.workspace
        return [Root(workspace, name, name != _OBSIDIAN, None, "") for name in _SIGNS]

    def is_plain_folder(self) -> bool:
        """True if the workspace is a folder of Markdown that has neither ``MEMORY.md`` nor ``memory/``."""
        workspace = self._settings.workspace
        return self.is_whole_folder() and not any(
            os.path.lexists(os.path.join(workspace, name)) for name in (*ROOT_FILES, MEMORY_FOLDER)
        )

    def scan(self, enter: Callable[[str], None] | None = None) -> Listing:
        """List every memory file once, with its stamp; ``enter`` is called with each folder before it is listed."""
        for _ in range(_TRIES):
            scan = _Scan(enter)
            for root in self.roots():
                self._scan_root(root, scan)
            if not scan.moved:
                break
        workspace = self._settings.workspace
        self.left_out = tuple(path for path in scan.left_out if os.path.join(workspace, path) not in scan.walked)
        _drop_undecodable_names(scan)
        _drop_duplicates(scan)
        return Listing(scan.stamps, tuple(scan.issues), tuple(scan.lost), scan.places, tuple(scan.folders))

    def name_unsearched(self) -> str:
        """Return a sentence with a few notes of the workspace that no root covers; empty if there are none.

        Files that agents read as instructions are not named, nor is a name that could pass for something else.
        """
        names: list[str] = []
        roots, walk, ignored = self.roots(), os.walk(self._settings.workspace), self._settings.mdrecall.ignore
        for folder, folders, files in () if self.is_whole_folder() else islice(walk, _MAX_LOOKED_INTO):
            folders[:] = sorted(name for name in folders if name[0] != "." and name.lower() not in ignored)
            for name in sorted(filter(is_note_file, files)):
                path = os.path.join(folder, name)
                is_named = name.isprintable() and name.casefold() not in AGENT_FILES
                if is_named and all(path_inside(path, root) is None for root in roots):
                    names.append(_relative(path, self._settings.workspace))
            if len(names) >= _MAX_NAMED:
                break
        if not names:
            return ""
        others, remedy = ", ".join(names[:_MAX_NAMED]), "add files or folders to memorySearch.extraPaths"
        return f"Only MEMORY.md, USER.md and memory/ are searched, not {others}: to search more, {remedy}."

    def read(self, path: str, listing: Listing) -> Document:
        """Return a listed file as a document. Raise a ``ReadError`` that names it."""
        import hashlib

        seen_ns = time.time_ns()
        folder, inside = listing.locate(path)
        data, stamp = read_stamped(folder, inside, shown=path, max_bytes=self._settings.mdrecall.max_file_bytes)
        if is_binary(data):
            raise NotMarkdown(f"{path} is not text.", path=path, hint="Give it another ending, or save it as UTF-8.")
        digest = hashlib.sha256(data).hexdigest()
        text, marks = self.clean(path, folder, inside, decode(data))
        return Document(self.name, path, text, digest, stamp, seen_ns, marks=marks)

    def clean(self, path: str, folder: str, inside: str, text: str) -> tuple[str, Marks | None]:
        """Return a text as it is shown: what a coding agent keeps is without secrets, and has marks for all of it."""
        if not host_of(path) or folder == self._settings.workspace:
            return text, None
        place = os.path.join(folder, inside)
        root = next((root for root in self._of_hosts if path_inside(place, root) is not None), None)
        if root is None:
            # It has just been switched off: nobody knows any more who may see it.
            return "", None
        from mdrecall.notes.repository import project_of
        from mdrecall.notes.tombstones import open_masks
        from mdrecall.text.annotations import is_for, read_projects

        named = {root.project} if root.project else {each.strip() for each in _ABOUT.findall(text)}
        # A memory that is about several projects is of none that could ask for it.
        about = named.pop() if len(named) == 1 else ""
        project = "" if root.project is None else project_of(about if os.path.isabs(about) else "")
        shown = open_masks(self._settings).redact(text) if is_for(project, read_projects(self._projects)) else ""
        return shown, Marks(origin=root.origin, project=project)

    def collections(self) -> tuple[Collection, ...]:
        """Return the named collections of the settings, each with its path as results show it."""
        found = []
        for name, (extra, weight) in self._settings.mdrecall.collections.items():
            root = self._extra_root(extra)
            found.append(Collection(name, _join(root.prefix, root.inside), extra.pattern, weight))
        return tuple(found)

    def _extra_roots(self) -> list[Root]:
        return [self._extra_root(extra) for extra in self._settings.memory_search.extra_paths]

    def find_covering(self, place: str) -> Iterator[tuple[Root, str, str]]:
        """Yield every root that covers a file, with the path inside it and the path as results show it."""
        shown = _relative(place, self._settings.workspace)
        for root in self.roots():
            # What a coding agent keeps is not shown where it lies.
            is_shown = root.prefix and shown.startswith(f"{root.prefix}/")
            inside = path_inside(os.path.join(root.folder, shown[len(root.prefix) + 1 :]) if is_shown else place, root)
            if inside is not None and not self._is_ignored(root, inside):
                yield root, inside, _join(root.prefix, inside)

    def _is_ignored(self, root: Root, inside: str) -> bool:
        """True if a path of a root is in a folder that is left out."""
        folders = path_below(root, inside).split("/")[:-1]
        return not root.is_file and any(
            folder.lower() in self._settings.mdrecall.ignore or root.leaves_out("/".join(folders[:depth]))
            for depth, folder in enumerate(folders, 1)
        )

    def _extra_root(self, extra: ExtraPath) -> Root:
        """Return the root of an extra path: the workspace if the path is inside it, else the folder that holds it."""
        workspace = self._settings.workspace
        is_at_home = extra.path == "~" or extra.path.startswith(("~/", "~\\"))
        path = self._home + extra.path[1:] if is_at_home else extra.path
        path = os.path.normpath(os.path.join(workspace, path))
        path = f"/{path.lstrip('/')}" if path.startswith("/") else path
        inside = _relative(path, workspace)
        if is_within(workspace, path) and inside:
            folder, inside = path, ""
        elif inside.startswith("../") or os.path.isabs(inside):
            folder, inside = os.path.split(path)
        else:
            folder = workspace
        is_file = os.path.isfile(path) or (is_note_file(path) and not os.path.isdir(path))
        return Root(folder, inside, is_file, extra.pattern, _relative(folder, workspace))

    def _scan_root(self, root: Root, scan: _Scan) -> None:
        place = os.path.join(root.folder, root.inside)
        shown = _join(root.prefix, root.inside) or "."
        watched = root.folder if root.is_file else place
        # A single file of a coding agent lies among many others, in a folder where much happens.
        if not (root.is_file and host_of(shown)):
            scan.folders[watched] = None
            if scan.enter:
                scan.enter(watched)
        above = root.inside.split("/")[:-1]
        if any(os.path.islink(os.path.join(root.folder, *above[:depth])) for depth in range(1, len(above) + 1)):
            scan.add_issue(shown, "is reached through a symbolic link, which is not followed")
            return
        try:
            found = os.lstat(place)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            if not (missing and root.optional):
                scan.add_issue(shown, "is missing" if missing else f"cannot be read: {error.strerror}")
            if not (root.is_file and missing and os.path.isdir(os.path.dirname(place))):
                scan.lost.append(shown)
            return
        leads_away = stat.S_ISLNK(found.st_mode) or (platform.IS_WINDOWS and platform.is_junction(found))
        if leads_away and root.inside:
            scan.add_issue(shown, _LINK)
        elif stat.S_ISREG(found.st_mode):
            if is_note_file(root.inside):
                scan.stamps.setdefault(shown, stamp_of(found))
                scan.places.setdefault(shown.rpartition("/")[0], (root.folder, root.prefix))
            elif not root.optional:
                scan.add_issue(shown, "is not a Markdown file (.md)")
        elif stat.S_ISDIR(found.st_mode) and not (root.is_file and root.optional):
            self._walk(root, scan)

    def _walk(self, root: Root, scan: _Scan) -> None:
        """List a root and the folders below it. This runs over every file before every search, so it must be fast."""
        waiting = [(os.path.join(root.folder, root.inside), root.inside)]
        while waiting:
            folder, inside = waiting.pop()
            if folder in scan.walked:
                continue
            shown = _join(root.prefix, inside)
            if scan.enter:
                scan.enter(folder)
            try:
                # Entry by entry: a hundred thousand of them in a list would take as much memory as all the rest.
                # With the folder open, the kernel need not find it again for each of its files.
                opened = platform.open(folder, os.O_RDONLY | platform.FOLDER)
                try:
                    with platform.scandir(opened) as entries:
                        scan.places.setdefault(shown, (root.folder, root.prefix))
                        below = self._list(entries, root, inside, shown, scan)
                finally:
                    os.close(opened)
                waiting += [(os.path.join(folder, name), path) for name, path in below]
                scan.folders[folder] = None
            except OSError as error:
                if isinstance(error, FileNotFoundError) and inside != root.inside:
                    # It existed a moment ago: another scan finds out what became of it.
                    scan.moved = True
                    continue
                scan.add_issue(shown or ".", f"cannot be listed: {error.strerror}", is_lost=True)
                continue
            if root.pattern is None:
                scan.walked.add(folder)

    def _list(
        self, entries: Iterable[os.DirEntry[str]], root: Root, inside: str, shown: str, scan: _Scan
    ) -> list[tuple[str, str]]:
        """Add the files of one folder to the scan. Return the names and paths of the folders in it."""
        above, within = f"{shown}/" if shown else "", f"{inside}/" if inside else ""
        pattern, add, folders = root.pattern, scan.stamps.setdefault, []
        for entry in entries:
            name = entry.name
            try:
                if name.endswith(NOTE_ENDINGS):
                    found = entry.stat(follow_symlinks=False)
                    if found.st_mode & _KIND == stat.S_IFREG:
                        if pattern is None or matches_glob(path_below(root, within + name), pattern):
                            # What `stamp_of` returns: to call it would take a tenth of the time of all this.
                            # Most files were never moved or renamed: then one number in memory is both times.
                            mtime, ctime, inode = found.st_mtime_ns, found.st_ctime_ns, found.st_ino
                            is_usual = 0 <= mtime <= LARGEST and inode <= LARGEST
                            stamp = found.st_size, mtime, mtime if ctime == mtime else ctime, inode
                            add(above + name, stamp if is_usual else stamp_of(found))
                        continue
                # Elsewhere no folder leads to another one, and to ask for its status would take a call of the system.
                leads_away = platform.IS_WINDOWS and platform.is_junction(entry.stat(follow_symlinks=False))
                if entry.is_dir(follow_symlinks=False) and not leads_away:
                    if root.leaves_out(within + name):
                        scan.left_out.append(within + name)
                    elif name.lower() not in self._settings.mdrecall.ignore:
                        folders.append((name, within + name))
                elif entry.is_symlink() or entry.is_dir():
                    if is_note_file(name) or entry.is_dir():
                        scan.add_issue(above + name, _LINK)
                elif is_note_file(name):
                    scan.add_issue(above + name, "is not a regular file")
            except FileNotFoundError:
                continue
            except OSError as error:
                scan.add_issue(above + name, f"cannot be read: {error.strerror}", is_lost=True)
        return folders


def path_inside(target: str, root: Root) -> str | None:
    """Return a path relative to the folder of a root if the root covers it, else None."""
    if target == root.folder or not is_within(target, root.folder):
        return None
    inside = relative_path(target, root.folder)
    is_below = inside == root.inside if root.is_file else not root.inside or inside.startswith(root.inside + "/")
    is_any = root.is_file or root.pattern is None
    return inside if is_below and (is_any or matches_glob(path_below(root, inside), root.pattern or "")) else None


def path_below(root: Root, inside: str) -> str:
    """Return a path relative to the part of a root that is searched, as the root's pattern expects it."""
    return inside[len(root.inside) + 1 :] if root.inside else inside


def _drop_undecodable_names(scan: _Scan) -> None:
    """Remove files whose name is not Unicode: no answer could name them."""
    if "".join(scan.stamps).isascii():
        return
    for path in [path for path in scan.stamps if not path.isascii()]:
        try:
            path.encode()
        except UnicodeEncodeError:
            del scan.stamps[path]
            scan.add_issue(path.encode("utf-8", "backslashreplace").decode(), "has a name that is not Unicode")


def _drop_duplicates(scan: _Scan) -> None:
    """Keep each file once, though two paths may lead to it: by two roots, or on a disk that ignores case."""
    if len({stamp[3] for stamp in scan.stamps.values()}) == len(scan.stamps):
        return
    kept: dict[tuple[int, str], str] = {}
    listing = Listing(scan.stamps, (), (), scan.places)
    for path, stamp in list(scan.stamps.items()):
        real = os.path.realpath(os.path.join(*listing.locate(path))).casefold()
        if kept.setdefault((stamp[3], real), path) != path:
            del scan.stamps[path]


def _relative(path: str, workspace: str) -> str:
    relative = relative_path(path, workspace)
    return "" if relative == "." else relative


def _join(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix and name else prefix or name
