"""Parses search results of qmd, in every form that its versions and its server print."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mdrecall.errors import ProgramUnreadable

_SCHEME = "qmd://"
_INDEX = re.compile(r"\?index=[^/?]*$")
_HEADER = re.compile(r"@@ ?-(\d+)(?:,(\d+))?(?: @@| |(?=\r?\n)|$)[^\n]*")
_LINE_NUMBER = re.compile(r"\d+: ?")
# A ``[tag]`` and any number of words such as ``warn:`` may precede it.
_NO_RESULTS = re.compile(r"(?:\[[^\]]*\] *)?(?:(?:warn|warning|info|error|qmd): *)*no results found\.?", re.IGNORECASE)
# How much of an unexpected output a message shows.
_SHOWN_CHARS = 120


class RawHit(NamedTuple):
    """A file that qmd found, as qmd names it."""

    collection: str
    """Empty if qmd did not name it."""
    path: str
    """Relative to the collection; empty if qmd gave only a docid."""
    docid: str
    """The first digits of the hash of its text, so two files with the same text share it."""
    score: float
    line: int
    """The line that matches best, from 1; 0 if unknown."""
    snippet: str
    """Without header and line numbers."""
    title: str


def parse_output(stdout: str, stderr: str) -> tuple[RawHit, ...]:
    """Return the hits in the output of a search, ignoring other output; raise ``ProgramUnreadable``."""
    text = stdout.strip()
    items = _parse_whole(text) if text else None
    if items is None:
        items = next(_find_lists(text), None)
    if items is None:
        if _has_no_results(text or stderr):
            return ()
        shown = " ".join((text or stderr).split())[:_SHOWN_CHARS]
        raise ProgramUnreadable(
            f"qmd did not print a list of results{f', but: {shown}' if shown else ''}.",
            hint="Check the output of `qmd search --json`.",
        )
    return parse_items(items)


def parse_answer(answer: Any) -> tuple[RawHit, ...]:
    """Return the hits in the answer of a tool of qmd's server; raise ``ProgramUnreadable``."""
    inner = answer.get("structuredContent", answer) if isinstance(answer, Mapping) else answer
    items = inner.get("results") if isinstance(inner, Mapping) else inner
    if not isinstance(items, list):
        raise ProgramUnreadable("qmd's server did not answer with a list of results.")
    return parse_items(items)


def parse_items(items: Sequence[Any]) -> tuple[RawHit, ...]:
    """Return the hits in a JSON list. Items that name neither a file nor a docid are skipped."""
    return tuple(_parse_hit(item) for item in items if _is_hit(item))


def snippet_lines(snippet: str) -> tuple[int, int]:
    """Return the first and last line of a snippet: from its header, else counted from 1."""
    text = _strip_line_numbers(snippet)
    header = _HEADER.search(text)
    if header and header[2]:
        start = int(header[1])
        return start, start + max(1, int(header[2])) - 1
    shown = text.replace(header[0], "", 1).strip("\n") if header else text
    return 1, max(1, len(shown.split("\n")))


def _parse_hit(item: Mapping[str, Any]) -> RawHit:
    collection, path = _parse_file(item)
    snippet = _text(item.get("snippet")) or _text(item.get("body"))
    line = item.get("line")
    if not isinstance(line, int) or isinstance(line, bool) or line < 1:
        line = snippet_lines(snippet)[0] if _HEADER.search(snippet) else 0
    return RawHit(
        collection=collection,
        path=path,
        docid=_text(item.get("docid")).strip().removeprefix("#"),
        score=_number(item.get("score")),
        line=line,
        snippet=_HEADER.sub("", _strip_line_numbers(snippet), count=1).strip("\n"),
        title=_text(item.get("title")),
    )


def _parse_file(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return the collection and the path in it, from ``qmd://notes/a/b.md``, ``notes/a/b.md`` or two fields."""
    file, collection = _text(item.get("file")).strip(), _text(item.get("collection")).strip()
    if file.startswith(_SCHEME):
        collection, _, path = _INDEX.sub("", file[len(_SCHEME) :]).partition("/")
    elif collection:
        path = file.removeprefix(f"{collection}/")
    else:
        collection, _, path = file.partition("/")
    return (collection, path) if path else ("", "")


def _parse_whole(text: str) -> list[Any] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(parsed, dict):
        parsed = parsed.get("results")
    return parsed if isinstance(parsed, list) and _are_hits(parsed) else None


def _find_lists(text: str) -> Iterator[list[Any]]:
    """Yield the lists of hits in a text. An empty list counts only if it is alone on its line."""
    decoder = json.JSONDecoder()
    at = text.find("[")
    while at >= 0:
        try:
            parsed, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("[", at + 1)
            continue
        if isinstance(parsed, list) and _are_hits(parsed) and (parsed or _is_alone(text, at, end)):
            yield parsed
        at = text.find("[", end)


def _is_alone(text: str, start: int, end: int) -> bool:
    before, after = text[:start].rpartition("\n")[2], text[end:].partition("\n")[0]
    return not before.strip() and not after.strip()


def _are_hits(items: list[Any]) -> bool:
    return not items or any(_is_hit(item) for item in items)


def _is_hit(item: Any) -> bool:
    return isinstance(item, dict) and any(_text(item.get(name)).strip() for name in ("docid", "file"))


def _has_no_results(text: str) -> bool:
    return any(_NO_RESULTS.fullmatch(" ".join(line.split())) for line in text.splitlines())


def _strip_line_numbers(snippet: str) -> str:
    """Return a snippet without line numbers. They count from the header, so they are not those of the file."""
    first = _LINE_NUMBER.match(snippet)
    if not first or not snippet[first.end() :].startswith("@@"):
        return snippet
    return "\n".join(_LINE_NUMBER.sub("", line, count=1) for line in snippet.split("\n"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if -1e9 < number < 1e9 else 0.0
