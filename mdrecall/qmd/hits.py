"""Parses the search results of qmd and of its server."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mdrecall.errors import ProgramUnreadable

# How much of an unexpected output a message shows.
_SHOWN_CHARS = 120


class RawHit(NamedTuple):
    """A file that qmd found, as qmd names it."""

    collection: str
    path: str
    """Relative to the collection."""
    score: float
    line: int
    """The line that matches best, from 1."""


def parse_output(stdout: str, stderr: str) -> tuple[RawHit, ...]:
    """Return the hits in the output of a search, whatever is logged around them; raise ``ProgramUnreadable``."""
    found = next(_find_lists(stdout), None)
    if found is None:
        shown = " ".join((stdout.strip() or stderr).split())[:_SHOWN_CHARS]
        raise ProgramUnreadable(
            f"qmd did not print a list of results{f', but: {shown}' if shown else ''}.",
            hint="Check the output of `qmd search --json`.",
        )
    return _parse_items(found)


def parse_answer(answer: Mapping[str, Any]) -> tuple[RawHit, ...]:
    """Return the hits in the answer of qmd's server; raise ``ProgramUnreadable``."""
    items = answer.get("results")
    if not isinstance(items, list):
        raise ProgramUnreadable("qmd's server did not answer with a list of results.")
    return _parse_items(items)


def _find_lists(text: str) -> Iterator[list[Any]]:
    """Yield the lists of hits in a text. An empty list counts only if it is alone on its line."""
    at = text.find("[")
    while at >= 0:
        try:
            parsed, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("[", at + 1)
            continue
        line = text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0].strip()
        if any(map(_is_hit, parsed)) or line == "[]":
            yield parsed
        at = text.find("[", end)


def _parse_items(items: list[Any]) -> tuple[RawHit, ...]:
    return tuple(_parse_hit(item) for item in items if _is_hit(item))


def _is_hit(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(file := item.get("file"), str) and "/" in file


def _parse_hit(item: Mapping[str, Any]) -> RawHit:
    """Return a hit. Its file is ``qmd://notes/a/b.md`` from the program, and ``notes/a/b.md`` from the server."""
    collection, _, path = item["file"].removeprefix("qmd://").partition("/")
    line, score = item.get("line"), item.get("score")
    is_number = isinstance(score, int | float) and math.isfinite(score)
    return RawHit(collection, path, float(score or 0) if is_number else 0.0, line if isinstance(line, int) else 1)
