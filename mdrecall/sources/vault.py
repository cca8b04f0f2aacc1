"""What other programs say about a folder of notes: Obsidian's note of the day, and folders that hold no notes."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from mdrecall.errors import ReadError
from mdrecall.sources.opening import decode, read_below, stamp_of
from mdrecall.types import Stamp

_OBSIDIAN = ".obsidian"
_DAILY, _TEMPLATES, _IGNORED = f"{_OBSIDIAN}/daily-notes.json", f"{_OBSIDIAN}/templates.json", ".gitignore"
#: Such a file has some hundred bytes; a larger one than this is not read.
_MAX_BYTES = 1 << 16
_DAY_FORMAT = "YYYY-MM-DD"
#: The parts of a format of moment.js: a text in brackets, the marks of a day, anything else.
_PARTS = re.compile(r"\[[^\]]*\]|Y+|M+|D+|[^YMD\[]+|\[")
#: A line of ``.gitignore`` that names a folder without a wildcard, or takes one out again.
_FOLDER_LINE = re.compile(r"(!?)(/?[^/*?\[\]!#\\][^*?\[\]\\]*)/")


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


def stamp_sources(workspace: str) -> tuple[Stamp | None, ...]:
    """Return what changes whenever ``find_left_out`` may."""
    stamps: list[Stamp | None] = []
    for name in (_IGNORED, _OBSIDIAN, _TEMPLATES):
        try:
            stamps.append(stamp_of(os.lstat(os.path.join(workspace, name))))
        except OSError:
            stamps.append(None)
    return tuple(stamps)


def _format_day(form: str, day: str) -> str:
    """Return a day in a format of moment.js; empty if that has other marks than those of year, month and day."""
    year, month, number = day.split("-")
    marks = {"YYYY": year, "YY": year[2:], "MM": month, "M": str(int(month)), "DD": number, "D": str(int(number))}
    name = ""
    for part in _PARTS.findall(form):
        if part.startswith("["):
            name += part[1:-1]
        elif part not in marks and any(map(str.isalpha, part)):
            return ""
        else:
            name += marks.get(part, part)
    return name


def _read_settings(workspace: str, name: str) -> Mapping[str, Any] | None:
    """Return the settings in a file of Obsidian; None if there is none."""
    try:
        settings = json.loads(_read(workspace, name))
    except (ValueError, RecursionError):
        return None
    return settings if isinstance(settings, dict) else None


def _text(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    return value.strip() if isinstance(value, str) else ""


def _read(workspace: str, name: str) -> str:
    """Return the text of a file; empty if it is missing, a link or not readable for another reason."""
    try:
        return decode(read_below(workspace, name, shown=name, max_bytes=_MAX_BYTES).data)
    except ReadError:
        return ""
