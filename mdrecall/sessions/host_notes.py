"""The Markdown that coding agents keep themselves: their memories and instructions, searched and never written.

It is read for hosts whose conversations are followed. What is for all projects is shown as ``hosts/<host>/~/``. The
memory of one project, and the instructions in a repository where a conversation took place, are shown as
``hosts/<host>/<project>/`` and found in that project alone.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from mdrecall.config.settings import Settings
from mdrecall.notes.files import Root
from mdrecall.notes.repository import find_main_root, find_root, name_project
from mdrecall.patterns import NOTE_ENDING, host_of
from mdrecall.sessions.host_conversations import AboutCache, FollowedHost, HostState, list_wanted
from mdrecall.sessions.hosts import OPENCODE, find_host_files, make_folder_name
from mdrecall.types.documents import Origin
from mdrecall.types.search import SearchResult

#: Projects of each host that are read, the last used first: every file costs each search a look.
_MAX_PROJECTS = 50
_AGENTS, _MEMORIES = "AGENTS.md", "memories"
#: What each host has for all projects, below its own folder, and in a repository. Codex remembers all projects in one
#: place, where each file may say which folder it is about.
_KEPT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "claude-code": (("CLAUDE.md",), ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", _AGENTS)),
    "codex": ((_AGENTS, _MEMORIES), (_AGENTS,)),
    "copilot": ((), (".github/copilot-instructions.md", _AGENTS)),
    "gemini": (("GEMINI.md",), ("GEMINI.md",)),
    "qwen": (("QWEN.md", _MEMORIES), ("QWEN.md", _AGENTS)),
    OPENCODE: ((), (_AGENTS,)),
}
#: What a host loads of its memory.
_INDEXES = ("MEMORY.md", "memory_summary.md")


def is_loaded_by(found: SearchResult, host: str) -> bool:
    """True if a result is from a file that this host puts before its model by itself, or that a repository has."""
    is_index = found.path.rpartition("/")[2] in _INDEXES
    is_own = host_of(found.path) == host and (is_index or found.origin != "agent")
    return is_own or (found.origin == "untrusted" and bool(host_of(found.path)))


def list_roots(settings: Settings) -> Iterator[Root]:
    """Yield the files and folders of all followed hosts that exist. Links are left out."""
    cache = AboutCache(settings.agent_folder)
    for host, wanted in HostState(settings.agent_folder).list_followed().items():
        # A folder may vanish meanwhile.
        with suppress(OSError):
            yield from _list_host(host, wanted, cache, settings.workspace)
    cache.save()


def _list_host(host: str, wanted: FollowedHost, cache: AboutCache, workspace: str) -> Iterator[Root]:
    own, repository = _KEPT.get(host, ((), ()))
    for name in own:
        about = "" if (host, name) == ("codex", _MEMORIES) else None
        yield from _find_root(host, os.path.dirname(wanted.root), name, about, "agent" if name == _MEMORIES else "")
    row = find_host_files(host)
    for folder, at in _find_places(host, wanted, cache):
        main = find_main_root(find_root(folder)) or folder
        if row and row.by_folder:
            # Worktrees may share the memory of their repository, or have one each.
            for name, about in ((os.path.relpath(at, wanted.root), folder), (make_folder_name(main), main)):
                place = os.path.join(wanted.root, name.split(os.sep)[0])
                yield from _find_root(host, place, "memory", about, "agent")
        for name in repository if main != workspace else ():
            # A repository may be a clone, and its files the words of others.
            yield from _find_root(host, main, name, main, "untrusted")


def _find_root(host: str, folder: str, inside: str, project: str | None, origin: Origin) -> Iterator[Root]:
    """Yield a root if it exists. To name its project loads a library of hashes, as slow as all else that is read."""
    place = os.path.join(folder, inside)
    if os.path.exists(place) and not os.path.islink(place):
        prefix = f"hosts/{host}/{name_project(project) if project else '~'}"
        yield Root(folder, inside, inside.endswith(NOTE_ENDING), None, prefix, True, project=project, origin=origin)


def _find_places(host: str, wanted: FollowedHost, cache: AboutCache) -> list[tuple[str, str]]:
    """Return the folders that conversations were about, the last used first, each with where a transcript of it is."""
    known = [(os.path.dirname(file), about) for file, about in cache.list_known(wanted.root) if wanted.wants(about)]
    found = known or [(each.folder, each.about) for each in list_wanted(host, wanted, cache, [])]
    places = {(at, about.folder) for at, about in found if os.path.isabs(about.folder) and os.path.exists(at)}
    newest: dict[str, str] = {}
    for at, folder in sorted(places, key=lambda place: (-os.path.getmtime(place[0]), place)):
        newest.setdefault(folder, at)
    return list(newest.items())[:_MAX_PROJECTS]
