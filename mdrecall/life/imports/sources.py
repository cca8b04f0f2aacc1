"""The sources of an import: who reads each, and where it usually is."""

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.errors import FileMissing, suggest_name
from mdrecall.life.imports.reading import Read, Request
from mdrecall.sources.clock import user_time
from mdrecall.sources.files import MemoryFiles


class Source(NamedTuple):
    """A program whose memory can be imported."""

    name: str
    about: str
    module: str
    usual: str = ""
    """Where it keeps its memory; empty if a path has to be given."""
    is_markdown: bool = False
    """True if mdrecall can read it where it is."""
    keeps_comments: bool = False
    """True if its comments are annotations that mdrecall understands, written by the same person."""


SOURCES = {
    source.name: source
    for source in (
        Source(
            "openclaw",
            "a workspace with MEMORY.md, USER.md or memory/",
            "markdown",
            "~/.openclaw/workspace",
            True,
            True,
        ),
        Source("claude-mem", "its database", "claude_mem", "~/.claude-mem/claude-mem.db"),
        Source("basic-memory", "its folder of Markdown", "markdown", "~/basic-memory", True),
        Source("mem0", "its memories as JSON, or OpenMemory's archive", "mem0"),
        Source("memsearch", "its folder of Markdown, or the project with it", "markdown", ".memsearch/memory", True),
        Source("chatgpt", "its export: the archive, the folder, or conversations.json", "chats"),
        Source("claude", "its export: the archive, the folder, or conversations.json", "chats"),
    )
}


def find_path(source: Source, path: str, *, home: str, cwd: str, env: Mapping[str, str]) -> str:
    """Return the file or folder to read: the given one, else the usual one. Raise ``FileMissing`` if there is none."""
    if path:
        expanded = home + path[1:] if path == "~" or path.startswith("~/") else path
        return os.path.normpath(os.path.join(cwd, expanded))
    if not source.usual:
        hint = f"Give the path of {source.about}."
        raise FileMissing(f"{source.name} has no usual place to import from.", path=source.name, hint=hint)
    usual = source.usual
    if source.name == "claude-mem" and (folder := env.get("CLAUDE_MEM_DATA_DIR", "").strip()):
        usual = os.path.join(folder, "claude-mem.db")
    usual = os.path.normpath(os.path.join(cwd, home + usual[1:] if usual.startswith("~/") else usual))
    if not os.path.exists(usual):
        raise FileMissing(f"There is no {usual}.", path=usual, hint=f"Give the path of {source.about}.")
    return usual


def find_source(name: str) -> Source:
    """Return a source by its name. Raise ``FileMissing`` if there is none."""
    if name not in SOURCES:
        known = suggest_name(name, (*SOURCES, "backup"))
        raise FileMissing(f"Nothing can be imported from {name!r}{known}.", path=name)
    return SOURCES[name]


def make_reader(source: Source, path: str, settings: Settings) -> Callable[[], Iterator[Read]]:
    """Return what yields the items of a source, from the beginning at each call."""
    read = getattr(import_module(f"mdrecall.life.imports.{source.module}"), f"read_{source.name.replace('-', '_')}")
    zone = settings.defaults.user_timezone

    def local(moment: datetime) -> datetime:
        return user_time(moment, None, zone)

    request = Request(path, local, settings.mdrecall.max_file_bytes, f"{datetime.now(UTC):%Y-%m-%d}")
    return lambda: read(request)


def is_read_in_place(source: Source, path: str, settings: Settings, home: str) -> bool:
    """True if a folder of Markdown is searched where it is already, so that an import would only double it."""
    if not source.is_markdown:
        return False
    real = os.path.realpath(path)
    inner = os.path.join(real, ".memsearch", "memory")
    folder = inner if source.name == "memsearch" and os.path.isdir(inner) else real
    roots = [os.path.join(root.folder, root.inside) for root in MemoryFiles(settings, home).roots() if not root.is_file]
    places = [settings.workspace, *roots] if source.name == "openclaw" else roots
    return any(_is_inside(folder, os.path.realpath(place)) for place in places)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
