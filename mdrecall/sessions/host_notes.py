"""The Markdown that coding agents keep themselves: their memories and instructions, searched and never written.

It is read for hosts whose conversations are followed. What is for all projects is shown as ``hosts/<host>/~/``. The
memory of one project, and the instructions in a repository where a conversation took place, are shown as
``hosts/<host>/<project>/`` and found in that project alone. If the project of a memory is not known, no project finds
it, only a search that is not limited to one.
"""

import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.config.workspace import HOSTS_FILE
from mdrecall.notes.files import Root, path_inside
from mdrecall.notes.repository import find_main_root, find_root, project_of
from mdrecall.notes.tombstones import open_masks
from mdrecall.patterns import HOST_FOLDER, NOTE_ENDING, host_of
from mdrecall.sessions.host_conversations import CACHE_FILE, AboutCache, FollowedHost, HostState, list_wanted
from mdrecall.sessions.host_formats import About
from mdrecall.sessions.hosts import OPENCODE, find_host_files, make_folder_name
from mdrecall.types import Marks, Origin, SearchResult

#: Repositories and memories of each host that are read, the last used first: every file costs each search a look.
_MAX_PROJECTS = 50
#: The folder that shows what is for all projects; no project has this name.
_ALL = "~"
_AGENTS, _INDEX = "AGENTS.md", "MEMORY.md"
_CODEX_INDEX, _CODEX_SUMMARIES = "memories/MEMORY.md", "memories/rollout_summaries"
#: In Codex, how a group of memories, or the summary of a session, names the folder that it is about.
_ABOUT = re.compile(r"(?:applies_to:\s*cwd=|^cwd:\s*)([^;\n]+)", re.MULTILINE)


class _Kept(NamedTuple):
    """What a host keeps or reads as Markdown."""

    own: tuple[str, ...]
    """Files and folders below the folder of the host."""
    repository: tuple[str, ...]
    """Files below the root of a repository."""


_KEPT = {
    "claude-code": _Kept(("CLAUDE.md",), ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", _AGENTS)),
    "codex": _Kept((_AGENTS, _CODEX_INDEX, "memories/memory_summary.md", _CODEX_SUMMARIES), (_AGENTS,)),
    "copilot": _Kept((), (".github/copilot-instructions.md", _AGENTS)),
    "gemini": _Kept(("GEMINI.md",), ("GEMINI.md",)),
    "qwen": _Kept(("QWEN.md", "memories"), ("QWEN.md", _AGENTS)),
    OPENCODE: _Kept((), (_AGENTS,)),
}


def is_loaded_by(found: SearchResult, host: str) -> bool:
    """True if a result is from a file that this host puts before its model by itself, or that a repository has."""
    if not host_of(found.path):
        return False
    names = {each.rpartition("/")[2] for each in (*_KEPT[host].own, *_KEPT[host].repository, _INDEX)}
    return found.origin == "untrusted" or found.path.rpartition("/")[2] in names


class HostNotes:
    """What the followed hosts of one agent's memory keep as Markdown."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: object = None
        self._found: tuple[Root, ...] = ()

    def roots(self) -> tuple[Root, ...]:
        """Return every file and folder that exists. Links are left out."""
        seen = self._look_at_state()
        if self._seen != seen:
            self._found = tuple(self._find())
            # To look for conversations may write the cache.
            self._seen = self._look_at_state()
        return tuple(filter(_is_there, self._found))

    def read(self, folder: str, inside: str, text: str) -> tuple[str, tuple[tuple[int, Marks], ...]]:
        """Return a text without secrets, and from which line on it is of which project and of whom."""
        place = os.path.join(folder, inside)
        root = next((each for each in self._found if path_inside(place, each) is not None), None)
        if root is None:
            return "", ((1, Marks()),)
        marks = Marks(origin=root.origin, project="" if root.project is None else project_of(root.project))
        parts = tuple(_split_codex(text, marks)) if root.origin == "agent" and root.host == "codex" else ((1, marks),)
        return open_masks(self._settings).redact(text), parts

    def _look_at_state(self) -> list[int]:
        return [_changed_ns(os.path.join(self._settings.agent_folder, name)) for name in (HOSTS_FILE, CACHE_FILE)]

    def _find(self) -> Iterator[Root]:
        cache, notes = AboutCache(self._settings.agent_folder), self._settings.workspace
        for host, wanted in HostState(self._settings.agent_folder).list_followed().items():
            if host in _KEPT:
                places = _find_places(host, wanted, cache)
                main_of = {folder: find_main_root(find_root(folder)) for _, folder in places}
                yield from _list_own(host, os.path.dirname(wanted.root))
                for at, folder in _find_memories(host, wanted, places, main_of):
                    yield _make_root(host, at, "memory", folder or at, folder, "agent")
                repositories = dict.fromkeys(root for root in main_of.values() if root not in ("", notes))
                for folder in islice(repositories, _MAX_PROJECTS):
                    # A repository may be a clone, and its files the words of others.
                    for name in _KEPT[host].repository:
                        yield _make_root(host, folder, name, folder, folder, "untrusted")
        cache.save()


def _find_places(host: str, wanted: FollowedHost, cache: AboutCache) -> list[tuple[str, str]]:
    """Return where the transcripts of a host are and which folders they are about, the last used first."""
    known = [(os.path.dirname(file), about) for file, about in cache.list_known(wanted.root) if wanted.wants(about)]
    found = known or [(each.folder, each.about) for each in list_wanted(host, wanted, cache, [])]
    places = dict.fromkeys((at, about.folder) for at, about in found if os.path.isabs(about.folder))
    return sorted(places, key=lambda place: -_changed_ns(place[0]))


def _find_memories(
    host: str, wanted: FollowedHost, places: Iterable[tuple[str, str]], main_of: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the folders that may have a memory of one project, and the project's folder; empty if it is not known.

    Such a folder is named after the project, but only conversations tell which one that is. Worktrees may share the
    memory of their repository, though no conversation took place there.
    """
    row = find_host_files(host)
    named = {make_folder_name(folder): folder for folder in (*main_of.values(), *main_of)}
    beside = {os.path.relpath(at, wanted.root).split(os.sep)[0]: folder for at, folder in places}
    with suppress(OSError):
        entries = os.scandir(wanted.root) if row and row.by_folder else ()
        paths = sorted((each.path for each in entries if each.is_dir(follow_symlinks=False)), key=_changed_ns)
        for at in paths[: -_MAX_PROJECTS - 1 : -1]:
            name = os.path.basename(at)
            folder = named.get(name) or beside.get(name, "")
            if wanted.wants(About(folder)):
                yield at, folder


def _list_own(host: str, folder: str) -> Iterator[Root]:
    """Yield what a host keeps for all projects; what Codex remembers of each project is among it."""
    has_index = os.path.exists(os.path.join(folder, _CODEX_INDEX))
    for name in _KEPT[host].own:
        is_memory = name.startswith("memories")
        if not (has_index and name == _CODEX_SUMMARIES):
            yield _make_root(host, folder, name, _ALL, None, "agent" if is_memory else "")


def _make_root(host: str, folder: str, inside: str, about: str, project: str | None, origin: Origin) -> Root:
    # Two projects may have the same name.
    name = about if about == _ALL else f"{os.path.basename(about)}-{zlib.crc32(os.fsencode(about)) & 0xFFFF:04x}"
    prefix = f"{HOST_FOLDER}/{host}/{name}"
    return Root(folder, inside, inside.endswith(NOTE_ENDING), None, prefix, True, frozenset(), host, project, origin)


def _split_codex(text: str, marks: Marks) -> Iterator[tuple[int, Marks]]:
    """Yield the first line of each group in a text of Codex, and the project that the group says it is about."""
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if not number or line.startswith("# ")]
    for start, end in zip(starts, (*starts[1:], len(lines)), strict=True):
        about = _ABOUT.search("\n".join(lines[start:end]))
        folder = about[1].strip() if about else ""
        yield start + 1, marks._replace(project=project_of(folder if os.path.isabs(folder) else ""))


def _is_there(root: Root) -> bool:
    """True if a root exists and no link leads to it."""
    place = os.path.join(root.folder, root.inside)
    is_linked = os.path.islink(place) or ("/" in root.inside and os.path.islink(os.path.dirname(place)))
    return not is_linked and os.path.exists(place)


def _changed_ns(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_mtime_ns
    return 0
