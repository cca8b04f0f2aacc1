"""The sources of an import: who reads each, where it usually is, and what all readers share."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from mdrecall.errors import FileMissing, suggest_name
from mdrecall.extras.imports.items import Item
from mdrecall.notes.clock import user_time
from mdrecall.types.documents import Issue

#: Numbers above this are milliseconds: as seconds they would be in the year 5138.
_LARGEST_SECONDS = 1e11


#: An item, or the name of one that cannot be imported, and why.
Read: TypeAlias = Item | Issue


class Request(NamedTuple):
    """What to import."""

    path: str
    """The file or folder."""
    zone: str | None = None
    """The user's time zone; None for that of the machine."""
    today: str = ""
    """The day in UTC, as YYYY-MM-DD; what expired before it is not imported."""

    def day(self, value: Any, form: str = "%Y-%m-%d") -> str:
        """Return the day of a time as YYYY-MM-DD, or in another form; empty for anything but a time."""
        moment = read_time(value)
        return f"{user_time(moment, None, self.zone):{form}}" if moment else ""


#: Their memory is Markdown, which is searched where it is.
_MARKDOWN = ("openclaw", "basic-memory", "memsearch")
_EXPORT = "its export: the archive, the folder, or conversations.json"
#: The programs whose memory can be imported, and what is read of each.
SOURCES = {"claude-mem": "its database", "mem0": "its memories as JSON", "chatgpt": _EXPORT, "claude": _EXPORT}


def find_path(source: str, path: str, *, home: str, cwd: str, env: Mapping[str, str]) -> str:
    """Return the file or folder to read: the given one, else claude-mem's usual one. Raise ``FileMissing``."""
    if source in _MARKDOWN:
        hint = "Add its folder to memorySearch.extraPaths, or copy it into memory/."
        raise FileMissing(f"The memory of {source} is Markdown and needs no import.", path=source, hint=hint)
    if source not in SOURCES:
        known = suggest_name(source, (*SOURCES, "backup"))
        raise FileMissing(f"Nothing can be imported from {source!r}{known}.", path=source)
    hint = f"Give the path of {SOURCES[source]}."
    if not path and source != "claude-mem":
        raise FileMissing(f"{source} has no usual place to import from.", path=source, hint=hint)
    wanted = path or os.path.join(env.get("CLAUDE_MEM_DATA_DIR", "").strip() or "~/.claude-mem", "claude-mem.db")
    found = os.path.normpath(os.path.join(cwd, home + wanted[1:] if f"{wanted}/".startswith("~/") else wanted))
    if not path and not os.path.exists(found):
        raise FileMissing(f"There is no {found}.", path=found, hint=hint)
    return found


def read_time(value: Any) -> datetime | None:
    """Return a moment from seconds, milliseconds or a text such as ``2026-02-10T09:00:00Z``; None for anything else."""
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
    """Return a time in seconds, for comparisons; 0 for anything but a time."""
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
