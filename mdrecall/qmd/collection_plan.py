"""Which collections an agent's memory has in qmd, by its settings."""

import os
import re
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.config.locations import expand
from mdrecall.config.settings import ExtraPath, Settings
from mdrecall.sources.files import MEMORY_FOLDER, ROOT_FILES, MemoryFiles
from mdrecall.types import SourceName

Kind: TypeAlias = Literal["memory", "custom", "sessions"]

ALL_NOTES = "**/*.md"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_GLOB = re.compile(r"[*?\[\]{}()!,\\+@|]")


class Collection(NamedTuple):
    """A folder, and which files in it are searched."""

    name: str
    root: str
    """Absolute."""
    pattern: str
    kind: Kind

    @property
    def source(self) -> SourceName:
        """The source that its results are of."""
        return "sessions" if self.kind == "sessions" else "memory"

    @property
    def file(self) -> str:
        """The one file that it can have; empty if the pattern is a glob."""
        return "" if _GLOB.search(self.pattern) else self.pattern


def plan_collections(settings: Settings, home: str) -> tuple[Collection, ...]:
    """Every collection that the settings ask for, under OpenClaw's names; each folder and pattern once.

    Extra paths, which OpenClaw searches only without qmd, are collections too.
    """
    found = _memory(settings, home) if settings.memory.qmd.include_default_memory else []
    found += _custom(settings, home)
    found += [_extra(number, extra, settings, home) for number, extra in _numbered(settings, found, home)]
    if settings.memory.qmd.sessions.enabled:
        found.append(Collection("sessions", export_dir(settings, home), ALL_NOTES, "sessions"))
    named: dict[str, Collection] = {}
    places = set()
    for entry in found:
        if (entry.root, entry.pattern) not in places:
            places.add((entry.root, entry.pattern))
            name = _free(sanitize_name(f"{entry.name}-{sanitize_name(settings.agent_id, 'agent')}"), named)
            named[name] = entry._replace(name=name)
    return tuple(named.values())


def export_dir(settings: Settings, home: str) -> str:
    """Where transcripts are exported to."""
    configured = settings.memory.qmd.sessions.export_dir
    if configured:
        return expand(configured, home, settings.workspace)
    return os.path.join(settings.qmd_dir, "sessions")


def sanitize_name(name: str, instead: str = "collection") -> str:
    """A name as collections have them."""
    return _NOT_IN_NAMES.sub("-", name.lower()).strip("-") or instead


def is_case_insensitive(folder: str) -> bool:
    """Whether names in a folder that differ only in case are one, told by a name that is there."""
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


def _memory(settings: Settings, home: str) -> list[Collection]:
    workspace = settings.workspace
    if MemoryFiles(settings, home).is_whole_folder():
        return [Collection("workspace", workspace, ALL_NOTES, "memory")]
    upper, lower = ROOT_FILES
    found = [Collection("memory-root", workspace, upper, "memory")]
    if not _are_one(os.path.join(workspace, upper), os.path.join(workspace, lower)):
        found.append(Collection("memory-alt", workspace, lower, "memory"))
    elif lower in os.listdir(workspace):
        found = [Collection("memory-root", workspace, lower, "memory")]
    return [*found, Collection("memory-dir", os.path.join(workspace, MEMORY_FOLDER), ALL_NOTES, "memory")]


def _are_one(path: str, other: str) -> bool:
    """Whether two spellings of a name are one file; where there is no such file yet, whether they would be."""
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:
        return is_case_insensitive(os.path.dirname(path))


def _custom(settings: Settings, home: str) -> list[Collection]:
    found = []
    for number, entry in enumerate(settings.memory.qmd.paths, 1):
        name = entry.get("name", "").strip() or f"custom-{number}"
        path = expand(entry["path"], home, settings.workspace)
        found.append(_placed(name, path, entry.get("pattern", "").strip()))
    return found


def _numbered(settings: Settings, found: list[Collection], home: str) -> list[tuple[int, ExtraPath]]:
    """The extra paths that no collection covers yet, with their number."""
    whole = [entry.root for entry in found if entry.pattern == ALL_NOTES]
    fresh = []
    for number, extra in enumerate(settings.memory_search.extra_paths, 1):
        path = expand(extra.path, home, settings.workspace)
        if not any(path == root or path.startswith(root.rstrip("/") + "/") for root in whole):
            fresh.append((number, extra))
    return fresh


def _extra(number: int, extra: ExtraPath, settings: Settings, home: str) -> Collection:
    return _placed(f"extra-{number}", expand(extra.path, home, settings.workspace), extra.pattern or "")


def _placed(name: str, path: str, pattern: str) -> Collection:
    """A collection for a folder, or for one file in its folder, since qmd takes folders only."""
    if os.path.isfile(path) or (not pattern and path.endswith(".md") and not os.path.isdir(path)):
        folder, file = os.path.split(path)
        return Collection(name, folder, _GLOB.sub("?", file), "custom")
    return Collection(name, path, pattern or ALL_NOTES, "custom")


def _free(name: str, taken: dict[str, Collection]) -> str:
    number = 2
    free = name
    while free in taken:
        free = f"{name}-{number}"
        number += 1
    return free
