"""Plans the qmd collections of an agent from its settings."""

import os
import re
from collections.abc import Container, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.config.environment import expand
from mdrecall.config.settings import ExtraPath, Settings
from mdrecall.patterns import NOTE_ENDING, is_note_file
from mdrecall.sources.files import MEMORY_FOLDER, ROOT_FILES, USER_FILE, MemoryFiles
from mdrecall.types import SourceName

Kind: TypeAlias = Literal["memory", "custom", "sessions"]

ALL_NOTES = f"**/*{NOTE_ENDING}"
_NOT_ALLOWED = re.compile(r"[^a-z0-9-]+")
_GLOB = re.compile(r"[*?\[\]{}()!,\\+@|]")


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
    found += _custom_collections(settings, home)
    extras = [(f"extra-{number}", extra) for number, extra in enumerate(settings.memory_search.extra_paths, 1)]
    found += _plan_uncovered(extras, found, settings, home)
    found += _plan_uncovered(
        [(name, extra) for name, (extra, _) in settings.mdrecall.collections.items()], found, settings, home
    )
    if settings.memory.qmd.sessions.enabled:
        found.append(Collection("sessions", export_dir(settings, home), ALL_NOTES, "sessions"))
    by_name: dict[str, Collection] = {}
    seen = set()
    for entry in found:
        if (entry.root, entry.pattern) not in seen:
            seen.add((entry.root, entry.pattern))
            name = _unique_name(sanitize_name(f"{entry.name}-{sanitize_name(settings.agent_id, 'agent')}"), by_name)
            by_name[name] = entry._replace(name=name)
    return tuple(by_name.values())


def list_folders(collections: Sequence[Collection], ignored: Container[str]) -> tuple[str, ...]:
    """Return every folder of the collections that contains notes or may come to contain some."""
    return tuple(dict.fromkeys(folder for entry in collections for folder in _walk_folders(entry, ignored)))


def export_dir(settings: Settings, home: str) -> str:
    """Return the folder that transcripts are exported to."""
    configured = settings.memory.qmd.sessions.export_dir
    if configured:
        return expand(configured, home, settings.workspace)
    return os.path.join(settings.qmd_dir, "sessions")


def sanitize_name(name: str, default: str = "collection") -> str:
    """Return a name in the form that collection names have."""
    return _NOT_ALLOWED.sub("-", name.lower()).strip("-") or default


def is_case_insensitive(folder: str) -> bool:
    """True if names in a folder that differ only in case are the same file, tested with an existing name."""
    try:
        names = [name for name in os.listdir(folder) if name.swapcase() != name]
    except OSError:
        names = []
    if not names:
        folder, name = os.path.split(os.path.realpath(folder))
        names = [name]
    try:
        return os.path.samefile(os.path.join(folder, names[0]), os.path.join(folder, names[0].swapcase()))
    except OSError:
        return False


def _walk_folders(entry: Collection, ignored: Container[str]) -> Iterator[str]:
    yield entry.root
    if entry.file or entry.kind == "sessions":
        return
    for folder, folders, _ in os.walk(entry.root):
        folders[:] = [name for name in folders if not name.startswith(".") and name.lower() not in ignored]
        yield from (os.path.join(folder, name) for name in folders)


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
    """True if two spellings of a name are the same file, or would be if it existed."""
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:
        return is_case_insensitive(os.path.dirname(path))


def _custom_collections(settings: Settings, home: str) -> list[Collection]:
    found = []
    for number, entry in enumerate(settings.memory.qmd.paths, 1):
        name = entry.get("name", "").strip() or f"custom-{number}"
        path = expand(entry["path"], home, settings.workspace)
        found.append(_collection_at(name, path, entry.get("pattern", "").strip()))
    return found


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


def _unique_name(name: str, used: dict[str, Collection]) -> str:
    number = 2
    unique = name
    while unique in used:
        unique = f"{name}-{number}"
        number += 1
    return unique
