"""Patterns: regular expressions that are compiled at their first use, globs for paths, and names of notes and fields.

A search imports 60 regular expressions and uses a quarter: to compile them all takes 8 ms, as long as Python takes to
start.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, AnyStr, cast

#: How the names of notes end; a new note gets the first one. Nothing else says which file type a note has.
NOTE_ENDINGS = (".md",)
NOTE_ENDING = NOTE_ENDINGS[0]
#: The same in a regular expression.
NOTE_ENDING_PATTERN = f"(?:{'|'.join(NOTE_ENDINGS)})".replace(".", r"\.")


def is_note_file(path: str) -> bool:
    """True if a file is a note by its name."""
    return path.endswith(NOTE_ENDINGS)


def drop_ending(path: str) -> str:
    """Return the path of a note without its ending; any other path as it is."""
    return next((path.removesuffix(ending) for ending in NOTE_ENDINGS if path.endswith(ending)), path)


@cache
def camel_case(name: str) -> str:
    """Return ``start_line`` as ``startLine``."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in rest)


def host_of(path: str) -> str:
    """Return the coding agent that keeps a file itself, by the path that results show; empty for any other file."""
    return found[1] if (found := _HOST_FILE.match(path)) else ""


class _LatePattern:
    """Stands for a compiled pattern. Each method is looked up once and then found here."""

    _compiled: Any = None

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        if self._compiled is None:
            self._compiled = re.compile(*self._source)
        value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value


def compile_later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what a compiled pattern is used for: its methods. A wrong pattern is reported only when it is used."""
    return cast("re.Pattern[AnyStr]", _LatePattern(pattern, flags))


_HOST_FILE = compile_later(r"hosts/(claude-code|codex|copilot|gemini|opencode|qwen)/[^/]+/")


def matches_glob(path: str, pattern: str) -> bool:
    """True if a relative path matches a glob. ``*`` stays inside a folder, ``**`` spans any number of folders."""
    from fnmatch import fnmatchcase

    return _match_parts(path.split("/"), pattern.split("/"), fnmatchcase)


def _match_parts(parts: list[str], globs: list[str], matches: Callable[[str, str], bool]) -> bool:
    if not globs:
        return not parts
    if globs[0] == "**":
        return any(_match_parts(parts[skipped:], globs[1:], matches) for skipped in range(len(parts) + 1))
    return bool(parts) and matches(parts[0], globs[0]) and _match_parts(parts[1:], globs[1:], matches)


#: The paths of files of wishes: for all projects, and of one, whose name and hash follow.
WISHES_FILE = compile_later(rf"memory/wishes(-.+-[0-9a-f]{{8}})?{NOTE_ENDING_PATTERN}", re.IGNORECASE)
