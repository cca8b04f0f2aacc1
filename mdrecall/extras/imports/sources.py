"""The sources of an import: who reads each, where it usually is, and what all readers share."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from mdrecall.config.settings import Settings
from mdrecall.errors import FileMissing, suggest_name
from mdrecall.extras.imports.items import Item
from mdrecall.notes.files import MemoryFiles

#: Numbers above this are milliseconds: as seconds they would be in the year 5138.
_LARGEST_SECONDS = 1e11


class Skipped(NamedTuple):
    """An item that cannot be imported, and why."""

    name: str
    problem: str


Read: TypeAlias = Item | Skipped


class Request(NamedTuple):
    """What to import."""

    path: str
    """The file or folder."""
    local: Callable[[datetime], datetime]
    """Returns a moment in the user's time zone."""
    max_bytes: int
    """The largest Markdown file to read."""
    today: str = ""
    """The day in UTC, as YYYY-MM-DD; what expired before it is not imported."""

    def day(self, value: Any, form: str = "%Y-%m-%d") -> str:
        """Return the day of a time as YYYY-MM-DD, or in another form; empty if it is none."""
        moment = read_time(value)
        return f"{self.local(moment):{form}}" if moment else ""


class Source(NamedTuple):
    """A program whose memory can be imported."""

    name: str
    about: str
    usual: str = ""
    """Where it keeps its memory; empty if a path has to be given."""
    is_markdown: bool = False
    """True if mdrecall can read it where it is."""
    keeps_comments: bool = False
    """True if its comments are annotations that mdrecall understands, written by the same person."""


_EXPORT = "its export: the archive, the folder, or conversations.json"
SOURCES = {
    source.name: source
    for source in (
        Source("openclaw", "a workspace with MEMORY.md, USER.md or memory/", "~/.openclaw/workspace", True, True),
        Source("claude-mem", "its database", "~/.claude-mem/claude-mem.db"),
        Source("basic-memory", "its folder of Markdown", "~/basic-memory", True),
        Source("mem0", "its memories as JSON, or OpenMemory's archive"),
        Source("memsearch", "its folder of Markdown, or the project with it", ".memsearch/memory", True),
        Source("chatgpt", _EXPORT),
        Source("claude", _EXPORT),
    )
}


def find_path(source: Source, path: str, *, home: str, cwd: str, env: Mapping[str, str]) -> str:
    """Return the file or folder to read: the given one, else the usual one. Raise ``FileMissing`` if there is none."""
    usual = path or source.usual
    if not usual:
        hint = f"Give the path of {source.about}."
        raise FileMissing(f"{source.name} has no usual place to import from.", path=source.name, hint=hint)
    if not path and source.name == "claude-mem" and (folder := env.get("CLAUDE_MEM_DATA_DIR", "").strip()):
        usual = os.path.join(folder, "claude-mem.db")
    found = os.path.normpath(os.path.join(cwd, home + usual[1:] if usual == "~" or usual.startswith("~/") else usual))
    if not path and not os.path.exists(found):
        raise FileMissing(f"There is no {found}.", path=found, hint=f"Give the path of {source.about}.")
    return found


def find_source(name: str) -> Source:
    """Return a source by its name. Raise ``FileMissing`` if there is none."""
    if name not in SOURCES:
        known = suggest_name(name, (*SOURCES, "backup"))
        raise FileMissing(f"Nothing can be imported from {name!r}{known}.", path=name)
    return SOURCES[name]


def is_read_in_place(source: Source, path: str, settings: Settings, home: str) -> bool:
    """True if a folder of Markdown is searched where it is already, so that an import would only double it."""
    if not source.is_markdown:
        return False
    real = os.path.realpath(path)
    inner = os.path.join(real, ".memsearch", "memory")
    folder = inner if source.name == "memsearch" and os.path.isdir(inner) else real
    roots = [os.path.join(root.folder, root.inside) for root in MemoryFiles(settings, home).roots() if not root.is_file]
    places = map(os.path.realpath, [settings.workspace, *roots] if source.name == "openclaw" else roots)
    return any(folder == place or folder.startswith(place.rstrip(os.sep) + os.sep) for place in places)


def read_time(value: Any) -> datetime | None:
    """Return a moment from seconds, milliseconds or a text such as ``2026-02-10T09:00:00Z``; None if it is none."""
    try:
        if isinstance(value, str) and value.strip():
            moment = datetime.fromisoformat(value.strip())
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return datetime.fromtimestamp(value / 1000 if value > _LARGEST_SECONDS else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def seconds_of(value: Any) -> float:
    """Return a time in seconds, for comparisons; 0 if it is none."""
    moment = read_time(value)
    return moment.timestamp() if moment else 0.0


def text_of(value: Any) -> str:
    """Return a text; empty for anything else."""
    return value.strip() if isinstance(value, str) else ""


def first_text(values: Mapping[str, Any], *names: str) -> str:
    """Return the first text among some fields of an object."""
    return next(filter(None, (text_of(values.get(name)) for name in names)), "")


def dict_of(value: Any) -> dict[str, Any]:
    """Return an object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def dicts_of(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, empty ones in place of anything else in it."""
    return [dict_of(item) for item in value] if isinstance(value, list) else []
