"""The qmd collections of an agent: planned from its settings, set up in qmd, and their files on disk.

Collections that were added by somebody else are not touched.
"""

import os
import re
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from mdrecall import errors
from mdrecall.config.environment import expand
from mdrecall.config.settings import ExtraPath, Settings
from mdrecall.extras.qmd.database import QmdDatabase, quarantine_if_damaged
from mdrecall.notes.files import MEMORY_FOLDER, ROOT_FILES, USER_FILE, MemoryFiles
from mdrecall.notes.opening import decode, read_stamped
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.patterns import NOTE_ENDING, is_note_file, matches_glob
from mdrecall.state_files import make_private_folder
from mdrecall.types.documents import Issue, SourceName
from mdrecall.types.sync import Stop, never

if TYPE_CHECKING:
    from mdrecall.extras.qmd.process import Program

Kind: TypeAlias = Literal["memory", "custom", "sessions"]

ALL_NOTES = f"**/*{NOTE_ENDING}"
#: The beginning of the path of a file outside the workspace; the name of its collection follows.
PREFIX = "qmd/"
_NOT_ALLOWED = re.compile(r"[^a-z0-9-]+")
_GLOB = re.compile(r"[*?\[\]{}()!,\\+@|]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_NAME_IN_USE = re.compile(r"^Collection '[^'\n]+' already exists\.?$", re.MULTILINE)
_FOLDER_IN_USE = re.compile(
    r"^A collection already exists for this path and pattern:\s*^\s*Name: (?P<name>\S+)", re.MULTILINE
)
_NOT_FOUND = re.compile(r"^Collection not found: ", re.MULTILINE)


class Collection(NamedTuple):
    """A folder, and a pattern for the files in it that are searched."""

    name: str
    root: str
    """Absolute."""
    pattern: str
    kind: Kind

    @property
    def source(self) -> SourceName:
        """The source of its results."""
        return "sessions" if self.kind == "sessions" else "memory"

    @property
    def file(self) -> str:
        """The only file it can contain; empty if the pattern is a glob."""
        return "" if _GLOB.search(self.pattern) else self.pattern


def plan_collections(settings: Settings, home: str) -> tuple[Collection, ...]:
    """Return the collections that the settings ask for, under OpenClaw's names, without duplicates.

    Extra paths become collections too, although OpenClaw searches them only without qmd.
    """
    found = _memory_collections(settings, home) if settings.memory.qmd.include_default_memory else []
    for number, custom in enumerate(settings.memory.qmd.paths, 1):
        path = expand(custom["path"], home, settings.workspace)
        name = custom.get("name", "").strip() or f"custom-{number}"
        found.append(_collection_at(name, path, custom.get("pattern", "").strip()))
    extras = [(f"extra-{number}", extra) for number, extra in enumerate(settings.memory_search.extra_paths, 1)]
    found += _plan_uncovered(extras, found, settings, home)
    named = [(name, extra) for name, (extra, _) in settings.mdrecall.collections.items()]
    found += _plan_uncovered(named, found, settings, home)
    if settings.memory.qmd.sessions.enabled:
        found.append(Collection("sessions", export_dir(settings, home), ALL_NOTES, "sessions"))
    by_name: dict[str, Collection] = {}
    seen = set()
    for entry in found:
        if (entry.root, entry.pattern) not in seen:
            seen.add((entry.root, entry.pattern))
            name = unique = sanitize_name(f"{entry.name}-{sanitize_name(settings.agent_id, 'agent')}")
            number = 2
            while unique in by_name:
                unique, number = f"{name}-{number}", number + 1
            by_name[unique] = entry._replace(name=unique)
    return tuple(by_name.values())


def list_folders(collections: Sequence[Collection], ignored: Container[str]) -> tuple[str, ...]:
    """Return every folder of the collections that contains notes or may come to contain some."""
    found: dict[str, None] = {}
    for entry in collections:
        found[entry.root] = None
        for folder, folders, _ in () if entry.file or entry.kind == "sessions" else os.walk(entry.root):
            folders[:] = [name for name in folders if not name.startswith(".") and name.lower() not in ignored]
            found.update((os.path.join(folder, name), None) for name in folders)
    return tuple(found)


def export_dir(settings: Settings, home: str) -> str:
    """Return the folder that transcripts are exported to."""
    configured = settings.memory.qmd.sessions.export_dir
    own = os.path.join(settings.qmd_dir, "sessions")
    return expand(configured, home, settings.workspace) if configured else own


def sanitize_name(name: str, default: str = "collection") -> str:
    """Return a name in the form that collection names have."""
    return _NOT_ALLOWED.sub("-", name.lower()).strip("-") or default


def _memory_collections(settings: Settings, home: str) -> list[Collection]:
    workspace = settings.workspace
    if MemoryFiles(settings, home).is_whole_folder():
        return [Collection("workspace", workspace, ALL_NOTES, "memory")]
    upper, lower = ROOT_FILES
    found = [Collection("memory-root", workspace, upper, "memory")]
    if not _are_same_file(os.path.join(workspace, upper), os.path.join(workspace, lower)):
        found.append(Collection("memory-alt", workspace, lower, "memory"))
    elif lower in os.listdir(workspace):
        found = [Collection("memory-root", workspace, lower, "memory")]
    if os.path.isfile(os.path.join(workspace, USER_FILE)):
        found.append(Collection("memory-user", workspace, USER_FILE, "memory"))
    return [*found, Collection("memory-dir", os.path.join(workspace, MEMORY_FOLDER), ALL_NOTES, "memory")]


def _are_same_file(path: str, other: str) -> bool:
    """True if two spellings of a name are the same file, as on a disk that ignores case."""
    with suppress(OSError):
        return os.path.samestat(os.lstat(path), os.lstat(other))
    return False


def _plan_uncovered(
    named: Sequence[tuple[str, ExtraPath]], found: list[Collection], settings: Settings, home: str
) -> list[Collection]:
    """Return collections for the paths that no collection covers yet."""
    whole = [entry.root for entry in found if entry.pattern == ALL_NOTES]
    fresh = []
    for name, extra in named:
        path = expand(extra.path, home, settings.workspace)
        if not any(path == root or path.startswith(root.rstrip("/") + "/") for root in whole):
            fresh.append(_collection_at(name, path, extra.pattern or ""))
    return fresh


def _collection_at(name: str, path: str, pattern: str) -> Collection:
    """Return a collection for a folder, or for one file as a pattern in its folder: qmd accepts folders only."""
    if os.path.isfile(path) or (not pattern and is_note_file(path) and not os.path.isdir(path)):
        folder, file = os.path.split(path)
        return Collection(name, folder, _GLOB.sub("?", file), "custom")
    return Collection(name, path, pattern or ALL_NOTES, "custom")


class Collections:
    """The collections of one agent in one qmd. Safe to use from several threads."""

    def __init__(
        self,
        program: "Program",
        planned: tuple[Collection, ...],
        settings: Settings,
        database: QmdDatabase,
        require: Callable[[float], object],
    ) -> None:
        """``require`` raises ``ProgramMissing`` for a qmd that is too old, within some seconds."""
        self.planned = planned
        self.database = database
        self.require = require
        self._program = program
        self._workspace = settings.workspace
        self._timeout_s = settings.memory.qmd.update.command_timeout_ms / 1000
        self._lock = threading.RLock()
        self.issues: tuple[Issue, ...] = ()
        """What the last ``ensure`` could not do, and why."""

    def ensure(self, *, stop: Stop = never) -> tuple[Issue, ...]:
        """Add the planned collections that qmd lacks, and return what could not be added and why.

        If qmd fails for every planned collection, its first failure is raised: then there is nothing to search.
        A collection is replaced only if it is known to have another folder or pattern. One with another name for the
        same files is renamed.
        """
        with self._lock:
            self.require(self._timeout_s)
            issues: list[Issue] = []
            quarantine_if_damaged(self.database, issues)
            known = self._list_collections()
            for entry in self.planned:
                path, pattern = known.get(entry.name, (entry.root, entry.pattern))
                is_other = pattern != entry.pattern or os.path.realpath(path) != os.path.realpath(entry.root)
                if is_other and not self._make_root(entry):
                    self._try(issues, entry, partial(self._remove, entry.name, stop))
                    del known[entry.name]
            failures = [
                error
                for entry in self.planned
                if entry.name not in known
                and (error := self._try(issues, entry, partial(self._add, entry, issues, stop)))
            ]
            for entry in self.planned:
                if entry.file and os.path.islink(path := os.path.join(entry.root, entry.file)):
                    issues.append(Issue(path, "is a symbolic link, which qmd does not follow"))
            self.issues = tuple(issues)
            if failures and len(failures) == len(self.planned):
                raise failures[0]
            return self.issues

    def rebuild(self, *, stop: Stop = never) -> tuple[Issue, ...]:
        """Remove every managed collection and add it again, except those whose folder is missing."""
        with self._lock:
            issues: list[Issue] = []
            for entry in self.planned:
                if os.path.isdir(entry.root):
                    self._try(issues, entry, partial(self._remove, entry.name, stop))
                    self._try(issues, entry, partial(self._add, entry, issues, stop))
            return tuple(issues)

    def _list_collections(self) -> dict[str, tuple[str, str]]:
        """Return the folder and the pattern of each collection in qmd's index; nothing if that cannot be read.

        Then nothing is removed, and adding a collection that exists says so.
        """
        with suppress(errors.BackendUnavailable):
            return self.database.collections()
        return {}

    def _add(self, entry: Collection, issues: list[Issue], stop: Stop) -> None:
        if problem := self._make_root(entry):
            issues.append(Issue(entry.root, problem))
            return
        command = ["collection", "add", entry.root, "--name", entry.name, "--mask", entry.pattern]
        try:
            self._run(command, stop)
        except errors.ProgramTimedOut:
            # qmd records the collection before it reads the files; the next update reads the rest.
            if entry.name not in self._list_collections():
                raise
        except errors.ProgramFailed as error:
            other = _FOLDER_IN_USE.search(error.output)
            if other and other["name"] not in (planned.name for planned in self.planned):
                self._run(["collection", "rename", other["name"], entry.name], stop)
            elif not _NAME_IN_USE.search(error.output):
                raise

    def _remove(self, name: str, stop: Stop) -> None:
        try:
            self._run(["collection", "remove", name], stop)
        except errors.ProgramFailed as error:
            if not _NOT_FOUND.search(error.output):
                raise

    def _run(self, arguments: list[str], stop: Stop) -> None:
        self._program.run(arguments, timeout_s=self._timeout_s, stop=stop)

    def _try(self, issues: list[Issue], entry: Collection, act: Callable[[], None]) -> errors.BackendUnavailable | None:
        """Report and return the failure of one collection; raise only what stops all of them."""
        try:
            act()
            return None
        except (errors.ProgramMissing, errors.ProgramStopped):
            raise
        except errors.BackendUnavailable as error:
            issues.append(Issue(entry.name, f"could not be set up in qmd: {errors.message_with_hint(error)}"))
            return error

    def _make_root(self, entry: Collection) -> str:
        """Create a folder that is ours to create; return what is wrong if there is none afterwards."""
        if os.path.isdir(entry.root):
            return ""
        if entry.kind == "custom" or (entry.kind == "memory" and os.path.dirname(entry.root) != self._workspace):
            return "is not a folder, so qmd cannot search it"
        try:
            make: Callable[[str], object] = make_private_folder if entry.kind == "sessions" else os.mkdir
            make(entry.root)
        except OSError as error:
            return f"cannot be created: {error.strerror}"
        return ""


class CollectionFile(NamedTuple):
    """A file of a collection."""

    collection: Collection
    inside: str
    """Its path below the root, with ``/``."""
    shown: str
    """Relative to the workspace if it is inside, else ``qmd/<collection>/<path below the root>``."""


class CollectionPaths:
    """The files of the managed collections. Nothing else is ever opened, and no symbolic link is followed."""

    def __init__(self, settings: Settings, collections: Sequence[Collection]) -> None:
        self.by_name = {entry.name: entry for entry in collections}
        self._workspace = settings.workspace
        self._max_bytes = settings.mdrecall.max_file_bytes
        self._forgotten = open_tombstones(settings)

    def resolve_hit(self, name: str, path: str) -> CollectionFile | None:
        """Return the file that a hit refers to; None if it is in no managed collection or does not exist any more."""
        collection = self.by_name.get(name)
        inside = os.path.normpath(path).replace(os.sep, "/")
        if collection is None or inside.startswith(("../", "/")):
            return None
        is_file = os.path.isfile(os.path.join(collection.root, inside))
        return self._locate(collection, inside) if is_file else None

    def resolve_path(self, path: str) -> CollectionFile | None:
        """Return the file that a path of an answer refers to: ``qmd/<collection>/…`` or a path in a collection.

        None if no collection covers it. Raise ``PathOutside`` if it names an unknown collection.
        """
        if path.startswith(PREFIX) and not os.path.lexists(os.path.join(self._workspace, path)):
            return self._resolve_prefixed(path)
        target = os.path.normpath(os.path.join(self._workspace, path))
        for collection in self.by_name.values():
            inside = os.path.relpath(target, collection.root).replace(os.sep, "/")
            if collection.kind != "sessions" and covers(collection, inside):
                return self._locate(collection, inside)
        return None

    def display_path(self, name: str, path: str) -> str:
        """Return the path that answers show for a path in a collection, which may be unknown."""
        collection = self.by_name.get(name)
        return self._locate(collection, path).shown if collection else f"{PREFIX}{name}/{path}"

    def read(self, file: CollectionFile) -> tuple[str, int]:
        """Return the text of a file without what was forgotten, and when it was changed, in ns; raise ``ReadError``."""
        data, stamp = read_stamped(file.collection.root, file.inside, shown=file.shown, max_bytes=self._max_bytes)
        return self._forgotten.load().mask(decode(data), file.shown), stamp[1]

    def _resolve_prefixed(self, path: str) -> CollectionFile:
        name, _, inside = path.removeprefix(PREFIX).partition("/")
        collection = self.by_name.get(name)
        if collection is None:
            hint = f"The collections are {', '.join(self.by_name)}." if self.by_name else ""
            raise errors.PathOutside(f"There is no collection {name or '(none)'}.", path=path, hint=hint)
        inside = os.path.normpath(inside).replace(os.sep, "/")
        if not is_note_file(inside):
            message = f"{path} is not a Markdown file (.md)."
            raise errors.NotMarkdown(message, path=path, hint="Only .md files are read.")
        if collection.kind == "sessions":
            message = f"{path} is an exported transcript, not an allowed Markdown memory file."
            raise errors.TranscriptRefused(message, path=path, hint="Read it as a session instead.")
        if not covers(collection, inside):
            raise errors.PathOutside(f"{path} is not in the collection {name}.", path=path)
        return self._locate(collection, inside)

    def _locate(self, collection: Collection, inside: str) -> CollectionFile:
        relative = os.path.relpath(os.path.join(collection.root, inside), self._workspace).replace(os.sep, "/")
        is_within = not relative.startswith("../") and relative != ".."
        return CollectionFile(collection, inside, relative if is_within else f"{PREFIX}{collection.name}/{inside}")


def covers(collection: Collection, inside: str) -> bool:
    """True if a path below the root of a collection matches its pattern."""
    if inside.startswith("../") or inside in ("..", ".") or os.path.isabs(inside):
        return False
    return any(matches_glob(inside, pattern) for pattern in _expand_pattern(collection.pattern))


def _expand_pattern(pattern: str) -> Iterator[str]:
    """Yield the plain patterns of one with commas and braces."""
    if braces := _BRACES.search(pattern):
        for choice in braces[1].split(","):
            yield from _expand_pattern(pattern[: braces.start()] + choice + pattern[braces.end() :])
        return
    yield from (part.strip() for part in pattern.split(",") if part.strip())
