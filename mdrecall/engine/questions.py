"""The questions of an evaluation: JSON lines, each with a query and where its answer stands."""

import json
import posixpath
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mdrecall.core.eval_metrics import Expectation
from mdrecall.errors import QuestionsError, suggest_name

_KEYS = {"query": "", "expect": "", "id": "", "category": ""}
_LINES = re.compile(r"L(\d{1,9})(?:-L?(\d{1,9}))?")
_HINT = 'Write one object a line: {"query": "where do we meet?", "expect": ["memory/2026-01-02.md", "MEMORY.md#L3-L9"]}'
_MOST_PROBLEMS = 20


class Question(NamedTuple):
    """What is asked, and what a right answer is."""

    query: str
    expect: tuple[Expectation, ...]
    id: str | None = None
    category: str | None = None
    line: int = 0
    """The line of the file it stands in."""


class _Wrong(ValueError):
    """What is wrong with a line."""


def read_questions(path: str) -> tuple[Question, ...]:
    """The questions of a file; raises a ``QuestionsError`` that names every line that is wrong."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        message = f"Cannot read the questions {path}: {error.strerror or error}."
        raise QuestionsError(message, hint="Name a file of JSON lines, or - for standard input.") from error
    return parse_questions(data, path)


def parse_questions(data: bytes | str, name: str = "questions") -> tuple[Question, ...]:
    """The questions of JSON lines; blank lines and those that begin with ``//`` or ``#`` are left out."""
    questions: list[Question] = []
    problems: list[str] = []
    for number, line in enumerate(_decoded(data, name).split("\n"), 1):
        if (bare := line.strip()) and not bare.startswith(("//", "#")):
            try:
                questions.append(_question(bare, number))
            except _Wrong as wrong:
                problems.append(f"{name}:{number}: {wrong}.")
    if problems:
        raise _error(problems, name)
    if not questions:
        raise QuestionsError(f"There is no question in {name}.", hint=_HINT)
    return tuple(questions)


def _error(problems: list[str], name: str) -> QuestionsError:
    more = len(problems) - 1
    message = problems[0] + (f" ({more} more)" if more else "")
    shown = problems[:_MOST_PROBLEMS]
    if len(problems) > _MOST_PROBLEMS:
        shown.append(f"… and {len(problems) - _MOST_PROBLEMS} more lines of {name}.")
    return QuestionsError(message, hint=_HINT, problems=tuple(shown))


def _decoded(data: bytes | str, name: str) -> str:
    try:
        return data if isinstance(data, str) else data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise QuestionsError(f"{name}:{number}: this is not UTF-8.", hint="Save the file as UTF-8.") from error


def _question(line: str, number: int) -> Question:
    values = _object(line)
    for key in values:
        if key not in _KEYS:
            raise _Wrong(f"{key!r} is not a known key{suggest_name(key, _KEYS)}")
    query = values.get("query")
    if not isinstance(query, str) or not query.strip():
        raise _Wrong("query must say what to look for" if "query" in values else "query is missing")
    return Question(query, tuple(_expectations(values)), _label(values, "id"), _label(values, "category"), number)


def _object(line: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise _Wrong(f"this is not JSON ({error.msg.lower()} at column {error.colno})") from None
    except (ValueError, RecursionError):
        raise _Wrong("this is not JSON that can be read") from None
    if not isinstance(values, dict):
        raise _Wrong("this is not an object in braces")
    return values


def _label(values: dict[str, Any], key: str) -> str | None:
    value = values.get(key)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise _Wrong(f"{key} must be a text or a whole number")
    return str(value).strip()


def _expectations(values: dict[str, Any]) -> Iterator[Expectation]:
    expect = values.get("expect")
    if "expect" not in values or expect in ("", []):
        raise _Wrong("expect is missing: name the files, or their lines, that a right answer cites")
    for text in expect if isinstance(expect, list) else [expect]:
        if not isinstance(text, str) or not text.strip():
            raise _Wrong(
                f"expect holds {json.dumps(text, ensure_ascii=False)}, but it takes paths such as MEMORY.md#L3-L9"
            )
        yield _expectation(text.strip())


def _expectation(text: str) -> Expectation:
    """``memory/a.md``, ``memory/a.md#L7`` or ``memory/a.md#L3-L9``; a name may hold a ``#`` of its own."""
    path, sign, fragment = text.rpartition("#")
    if not sign or text.endswith(".md"):
        return Expectation(posixpath.normpath(text))
    lines = _LINES.fullmatch(fragment)
    first, last = (int(lines[1]), int(lines[2] or lines[1])) if lines else (0, 0)
    if not path or not 1 <= first <= last:
        raise _Wrong(f"{text!r} has no line range after #: write MEMORY.md#L7 or MEMORY.md#L3-L9, counted from 1")
    return Expectation(posixpath.normpath(path), (first, last))
