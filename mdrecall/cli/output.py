"""Writing for people and for programs: colour where there is a terminal, JSON where it was asked for."""

import os
import re
import sys
from typing import Any, TextIO

from mdrecall.errors import ConfigError, QuestionsError, RecallError
from mdrecall.types import Issue

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def style(text: str, *names: str, stream: TextIO | None = None) -> str:
    """The text in a style, if ``stream`` (standard output) is a terminal and NO_COLOR is not set."""
    stream = stream or sys.stdout
    if not text or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{';'.join(_STYLES[name] for name in names)}m{text}\x1b[0m"


def print_json(value: Any) -> None:
    """A value as JSON on standard output."""
    import json

    json.dump(value, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def print_error(error: RecallError, *, as_json: bool) -> None:
    """What went wrong and the way out, on standard error; with ``as_json`` also as an object on standard output."""
    if as_json:
        print_json({"error": {"type": type(error).__name__, "message": str(error), "hint": error.hint}})
    lines = error.problems if isinstance(error, ConfigError | QuestionsError) else (str(error),)
    for line in lines:
        print(f"{style('mdrecall:', 'red', stream=sys.stderr)} {printable(line)}", file=sys.stderr)
    if error.hint:
        print(f"          {error.hint}", file=sys.stderr)


def print_issues(issues: tuple[Issue, ...], most: int = 20) -> None:
    """What there is to say about files, on standard error."""
    for issue in issues[:most]:
        said = printable(issue.problem if issue.problem.startswith(issue.path) else f"{issue.path} {issue.problem}")
        print(f"{style('!', 'yellow', stream=sys.stderr)} {homes_short(said)}", file=sys.stderr)
    if len(issues) > most:
        print(f"  … and {len(issues) - most} more", file=sys.stderr)


def printable(text: str) -> str:
    """Text without control characters, which could move the cursor or fake a line."""
    return "".join(char if char == "\t" or (char.isprintable() and char != "\x7f") else "\ufffd" for char in text)


def counted(count: int, noun: str, several: str = "") -> str:
    """``1 file``, ``2,000 files``; ``several`` is the plural, where it is not the noun with an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {several or noun + 's'}"


def homes_short(text: str) -> str:
    """A text with ``~`` for the home folder wherever a path begins with it."""
    home = os.path.expanduser("~").rstrip(os.sep) + os.sep
    return re.sub(rf"(?<![^\s(]){re.escape(home)}", f"~{os.sep}", text) if len(home) > 1 else text


def home_short(path: str) -> str:
    """A path with ``~`` for the home folder."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path.startswith(home + os.sep) else path
