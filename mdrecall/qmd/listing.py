"""Parses the collections in qmd's configuration.

None means unknown. Nothing is guessed, because a collection that seems to differ from the plan is removed.
"""

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

_YAML_KEY = re.compile(r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[A-Za-z0-9_./][^:#"']*?):(?:[ ]+(?P<value>.*))?""")
# A plain scalar that begins like this is a string to every YAML parser.
_PLAIN = re.compile(r"[A-Za-z0-9_./][^\t]*")
_NOT_TEXT = re.compile(r"(?i)null|true|false|yes|no|on|off|[0-9.]+(e[0-9]+)?|0x[0-9a-f]+|0o[0-7]+")


class ListedCollection(NamedTuple):
    """A collection that qmd has. What it does not tell is None."""

    name: str
    path: str | None = None
    pattern: str | None = None


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
