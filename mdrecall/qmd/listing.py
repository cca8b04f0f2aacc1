"""What qmd says of its collections, in each of the forms in which its versions say it.

None means that it is not known; nothing is guessed, because what is taken for another collection would be removed.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_HEAD = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\s+\(qmd://[^)]*\).*)?")
_FIELD = re.compile(r"\s*(?P<key>path|pattern|mask)\s*:\s*(?P<value>.+?)\s*", re.IGNORECASE)
_YAML_KEY = re.compile(r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[A-Za-z0-9_./][^:#"']*?):(?:[ ]+(?P<value>.*))?""")
# What a plain scalar may begin with, so that YAML takes it for nothing but a text.
_PLAIN = re.compile(r"[A-Za-z0-9_./][^\t]*")
_NOT_TEXT = re.compile(r"(?i)null|true|false|yes|no|on|off|[0-9.]+(e[0-9]+)?|0x[0-9a-f]+|0o[0-7]+")


class ListedCollection(NamedTuple):
    """A collection as qmd has it; what qmd did not say is None."""

    name: str
    path: str | None = None
    pattern: str | None = None


def parse_listing(text: str) -> tuple[ListedCollection, ...]:
    """What ``qmd collection list`` has printed: JSON in some versions, text in the others."""
    try:
        parsed = json.loads(text)
    except ValueError:
        return tuple(_from_lines(text.splitlines()))
    return parse_names(parsed) if isinstance(parsed, list) else ()


def parse_names(items: Iterable[Any]) -> tuple[ListedCollection, ...]:
    """Collections from JSON: names, or objects with a name; anything else is passed over."""
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


def _from_lines(lines: Iterable[str]) -> Iterator[ListedCollection]:
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
    """The collections in an ``index.yml`` of the shape that qmd writes; None if it has any other."""
    found: list[ListedCollection] = []
    inside = False
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip() or (inside and indent > 4) or (not inside and indent > 0):
            continue
        if line.lstrip(" ").startswith("#"):
            continue
        entry = _YAML_KEY.fullmatch(line.strip(" "))
        key = _scalar(entry["key"]) if entry else None
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
                if (said := _scalar(value)) is None:
                    return None
                found[-1] = found[-1]._replace(**{key: said})
        else:
            return None
    return tuple(found) if all(entry.path for entry in found) else None


def drop_collections(text: str, names: Iterable[str]) -> str | None:
    """The same ``index.yml`` without some of its collections; None if it is not of the known shape."""
    left_out = set(names)
    if parse_config(text) is None:
        return None
    kept: list[str] = []
    inside = dropping = False
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        entry = _YAML_KEY.fullmatch(line.strip()) if line.strip() and indent in (0, 2) else None
        if entry and indent == 0:
            inside, dropping = _scalar(entry["key"]) == "collections", False
        elif entry and inside and indent == 2:
            dropping = _scalar(entry["key"]) in left_out
        if not dropping:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _scalar(text: str) -> str | None:
    """A YAML scalar on one line as a text; None if it is anything that could mean something else."""
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
