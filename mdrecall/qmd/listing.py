"""Parses qmd's lists of collections, in every form that its versions print or write.

None means unknown. Nothing is guessed, because a collection that seems to differ from the plan is removed.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_HEAD = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\s+\(qmd://[^)]*\).*)?")
_FIELD = re.compile(r"\s*(?P<key>path|pattern|mask)\s*:\s*(?P<value>.+?)\s*", re.IGNORECASE)
_YAML_KEY = re.compile(r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[A-Za-z0-9_./][^:#"']*?):(?:[ ]+(?P<value>.*))?""")
# A plain scalar that begins like this is a string to every YAML parser.
_PLAIN = re.compile(r"[A-Za-z0-9_./][^\t]*")
_NOT_TEXT = re.compile(r"(?i)null|true|false|yes|no|on|off|[0-9.]+(e[0-9]+)?|0x[0-9a-f]+|0o[0-7]+")


class ListedCollection(NamedTuple):
    """A collection as qmd lists it. What qmd does not print is None."""

    name: str
    path: str | None = None
    pattern: str | None = None


def parse_listing(text: str) -> tuple[ListedCollection, ...]:
    """Parse the output of ``qmd collection list``, which is JSON in some versions and text in others."""
    try:
        parsed = json.loads(text)
    except ValueError:
        return tuple(_parse_lines(text.splitlines()))
    return parse_names(parsed) if isinstance(parsed, list) else ()


def parse_names(items: Iterable[Any]) -> tuple[ListedCollection, ...]:
    """Parse collections from JSON: names, or objects with a name. Anything else is skipped."""
    found = []
    for item in items:
        if isinstance(item, str) and item:
            found.append(ListedCollection(item))
        elif isinstance(item, dict) and isinstance(name := item.get("name"), str) and name:
            pattern = item.get("pattern", item.get("mask"))
            found.append(ListedCollection(name, _text(item.get("path")), _text(pattern)))
    return tuple(found)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _parse_lines(lines: Iterable[str]) -> Iterator[ListedCollection]:
    current: ListedCollection | None = None
    for line in lines:
        if not line.strip():
            if current:
                yield current
            current = None
        elif line.lower().startswith("collections"):
            continue
        elif field := _FIELD.fullmatch(line):
            if current:
                key = "path" if field["key"].lower() == "path" else "pattern"
                current = current._replace(**{key: field["value"]})
        elif head := _HEAD.fullmatch(line.rstrip()):
            if current:
                yield current
            current = ListedCollection(head["name"])
    if current:
        yield current


def parse_config(text: str) -> tuple[ListedCollection, ...] | None:
    """Parse the collections of an ``index.yml`` in the shape that qmd writes; None for any other shape."""
    found: list[ListedCollection] = []
    inside = False
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip() or (inside and indent > 4) or (not inside and indent > 0):
            continue
        if line.lstrip(" ").startswith("#"):
            continue
        entry = _YAML_KEY.fullmatch(line.strip(" "))
        key = _parse_scalar(entry["key"]) if entry else None
        if entry is None or key is None:
            return None
        value = (entry["value"] or "").strip()
        if indent == 0:
            inside = key == "collections"
            if inside and value not in ("", "{}"):
                return None
        elif indent == 2 and not value:
            found.append(ListedCollection(key))
        elif indent == 4 and found:
            if key in ("path", "pattern"):
                if (parsed := _parse_scalar(value)) is None:
                    return None
                found[-1] = found[-1]._replace(**{key: parsed})
        else:
            return None
    return tuple(found) if all(entry.path for entry in found) else None


def drop_collections(text: str, names: Iterable[str]) -> str | None:
    """Return the same ``index.yml`` without some of its collections; None if it has an unknown shape."""
    dropped = set(names)
    if parse_config(text) is None:
        return None
    kept: list[str] = []
    inside = is_dropping = False
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        entry = _YAML_KEY.fullmatch(line.strip()) if line.strip() and indent in (0, 2) else None
        if entry and indent == 0:
            inside, is_dropping = _parse_scalar(entry["key"]) == "collections", False
        elif entry and inside and indent == 2:
            is_dropping = _parse_scalar(entry["key"]) in dropped
        if not is_dropping:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _parse_scalar(text: str) -> str | None:
    """Return a one-line YAML scalar as a string; None if a YAML parser could read it as something else."""
    if text.startswith('"'):
        try:
            value = json.loads(text)
        except ValueError:
            return None
        return value if isinstance(value, str) else None
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        inner = text[1:-1].replace("''", "\0")
        return None if "'" in inner else inner.replace("\0", "'")
    if not _PLAIN.fullmatch(text) or _NOT_TEXT.fullmatch(text) or " #" in text or ": " in text or text.endswith(":"):
        return None
    return text
