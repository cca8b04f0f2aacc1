"""What qmd says it has found, in each of the forms in which its versions and its server say it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mdrecall.errors import ProgramUnreadable

_SCHEME = "qmd://"
_INDEX = re.compile(r"\?index=[^/?]*$")
_HEADER = re.compile(r"@@ ?-(\d+)(?:,(\d+))?(?: @@| |$)[^\n]*")
_NUMBERED = re.compile(r"\d+: ?")
# ``[tag]`` and any number of words such as ``warn:`` may stand before it.
_NOTHING = re.compile(r"(?:\[[^\]]*\] *)?(?:(?:warn|warning|info|error|qmd): *)*no results found\.?", re.IGNORECASE)
_TOLD_CHARS = 120


class RawHit(NamedTuple):
    """A file that qmd names, as it names it."""

    collection: str
    """Empty if qmd did not say."""
    path: str
    """Inside the collection; empty if qmd gave only a docid."""
    docid: str
    """The first digits of the hash of its text; two files with the same text have the same."""
    score: float
    line: int
    """Where it matches best, from 1; 0 if that is not known."""
    snippet: str
    """Without header and line numbers."""
    title: str


def parse_output(stdout: str, stderr: str) -> tuple[RawHit, ...]:
    """The hits in what a search has printed, whatever stands around them; raises ``ProgramUnreadable``."""
    text = stdout.strip()
    items = _whole(text) if text else None
    if items is None:
        items = next(_inside(text), None)
    if items is None:
        if _says_nothing(text or stderr):
            return ()
        said = " ".join((text or stderr).split())[:_TOLD_CHARS]
        raise ProgramUnreadable(
            f"qmd did not answer with a list of results{f', but with: {said}' if said else '; it said nothing'}.",
            hint="Try `qmd search --json` by hand; qmd 1.0.7 or newer is needed.",
        )
    return parse_items(items)


def parse_answer(answer: Any) -> tuple[RawHit, ...]:
    """The hits in the answer of a tool of qmd's server; raises ``ProgramUnreadable``."""
    inner = answer.get("structuredContent", answer) if isinstance(answer, Mapping) else answer
    items = inner.get("results") if isinstance(inner, Mapping) else inner
    if not isinstance(items, list):
        raise ProgramUnreadable("qmd's server did not answer with a list of results.")
    return parse_items(items)


def parse_items(items: Sequence[Any]) -> tuple[RawHit, ...]:
    """Hits from JSON; what names neither a file nor a document is passed over."""
    return tuple(_hit(item) for item in items if _is_hit(item))


def snippet_lines(snippet: str) -> tuple[int, int]:
    """The first and last line that a snippet shows: as its header says, else counted from 1."""
    text = _unnumbered(snippet)
    header = _HEADER.search(text)
    if header and header[2]:
        start = int(header[1])
        return start, start + max(1, int(header[2])) - 1
    shown = text.replace(header[0], "", 1).strip("\n") if header else text
    return 1, max(1, len(shown.split("\n")))


def _hit(item: Mapping[str, Any]) -> RawHit:
    collection, path = _place(item)
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
        snippet=_HEADER.sub("", _unnumbered(snippet), count=1).strip("\n"),
        title=_text(item.get("title")),
    )


def _place(item: Mapping[str, Any]) -> tuple[str, str]:
    """The collection and the path in it: ``qmd://notes/a/b.md``, ``notes/a/b.md``, or two fields."""
    file, collection = _text(item.get("file")).strip(), _text(item.get("collection")).strip()
    if file.startswith(_SCHEME):
        collection, _, path = _INDEX.sub("", file[len(_SCHEME) :]).partition("/")
    elif collection:
        path = file.removeprefix(f"{collection}/")
    else:
        collection, _, path = file.partition("/")
    return (collection, path) if path else ("", "")


def _whole(text: str) -> list[Any] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(parsed, dict):
        parsed = parsed.get("results")
    return parsed if isinstance(parsed, list) and _are_hits(parsed) else None


def _inside(text: str) -> Iterator[list[Any]]:
    """Every list of hits in a text; an empty one only where it has a line to itself."""
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


def _says_nothing(text: str) -> bool:
    return any(_NOTHING.fullmatch(" ".join(line.split())) for line in text.splitlines())


def _unnumbered(snippet: str) -> str:
    """A snippet without the numbers before its lines: those count from the header, and so are wrong."""
    first = _NUMBERED.match(snippet)
    if not first or not snippet[first.end() :].startswith("@@"):
        return snippet
    return "\n".join(_NUMBERED.sub("", line, count=1) for line in snippet.split("\n"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if -1e9 < number < 1e9 else 0.0
