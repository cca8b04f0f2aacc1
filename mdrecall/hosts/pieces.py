"""The pieces of an installation: each can be added to the text of a file and taken out again, and keeps the rest."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from mdrecall.mcp_server import config_text
from mdrecall.mcp_server.config_text import Place

#: What mdrecall's hooks have in common, whatever the path of the command is and whichever version wrote them.
_OUR_HOOK = re.compile(r"mdrecall['\"]? hook [a-z]")
_SECTION_START, _SECTION_END = "<!-- mdrecall -->", "<!-- /mdrecall -->"
_FIRST_NOTE = "# Memory\n\nLasting facts: decisions, people, preferences.\n"


class Piece(NamedTuple):
    """What is installed in one file. Both functions raise ``ValueError`` if something else would be lost."""

    path: str
    add: Callable[[str], str]
    """Returns a text with the piece."""
    take: Callable[[str], str | None]
    """Returns a text without the piece; None if no file is left."""
    kind: str = ""
    """``file`` if the file is mdrecall's alone, ``server``, ``hooks``, or empty."""
    place: Place = Place("", "", "")
    """Where a server is in its file."""
    values: Mapping[str, Any] = MappingProxyType({})
    """The values of a server, or the hooks of each event."""


def own_file(path: str, text: str) -> Piece:
    """Return a file that is mdrecall's alone."""

    def add(before: str) -> str:
        if before and "mdrecall" not in before:
            raise ValueError("it belongs to something else")
        return text

    return Piece(path, add, lambda text: None if "mdrecall" in text else text, "file")


def first_note(path: str) -> Piece:
    """Return a note for a folder that has none. It is the user's: only a receipt takes it back, if it is untouched."""
    return Piece(path, lambda before: before or _FIRST_NOTE, lambda text: text)


def server_entry(path: str, place: Place, values: Mapping[str, Any]) -> Piece:
    """Return the MCP server in a table of a configuration file; in one of YAML, a person adds and removes it."""

    def take(text: str) -> str:
        left = config_text.remove(text, place)
        return left if left == text else config_text.remove_empty(left, place)

    return Piece(path, lambda before: config_text.put(before, place, values), take, "server", place, values)


def json_value(path: str, keys: tuple[str, ...], value: Any, previous: Any) -> Piece:
    """Return one setting in a JSON file; ``previous`` is what it was before, None if it was not set."""

    def add(before: str) -> str:
        return before if config_text.get_value(before, keys) == value else config_text.set_value(before, keys, value)

    def take(text: str) -> str:
        if config_text.get_value(text, keys) != value:
            return text
        if previous is not None:
            return config_text.set_value(text, keys, previous)
        *table, name = keys
        return config_text.remove_empty(config_text.remove_value(text, keys), Place("json", ".".join(table), name))

    return Piece(path, add, take)


def allowed_tools(path: str, names: Iterable[str]) -> Piece:
    """Return tools in ``permissions.allow`` of a JSON file, a list that may hold those of others."""
    keys, ours = ("permissions", "allow"), tuple(names)

    def read(text: str) -> list[Any]:
        found = config_text.get_value(text, keys)
        if not isinstance(found, list | None):
            raise ValueError("permissions.allow is not a list")
        return found or []

    def add(before: str) -> str:
        missing = [name for name in ours if name not in read(before)]
        return config_text.set_value(before, keys, [*read(before), *missing]) if missing else before

    def take(text: str) -> str:
        left = [name for name in read(text) if name not in ours]
        if left:
            return text if left == read(text) else config_text.set_value(text, keys, left)
        return config_text.remove_empty(config_text.remove_value(text, keys), Place("json", *keys))

    return Piece(path, add, take)


def hook_entries(path: str, groups: Mapping[str, Any]) -> Piece:
    """Return hooks in a JSON file that may hold those of others; a group is added to the list of each event."""

    def add(before: str) -> str:
        if config_text.list_items(before, "hooks", _is_ours) == {name: [group] for name, group in groups.items()}:
            return before
        return config_text.append_items(config_text.remove_items(before, "hooks", _is_ours), "hooks", groups)

    return Piece(path, add, lambda text: config_text.remove_items(text, "hooks", _is_ours), "hooks", values=groups)


def approvals(path: str, hooks: str) -> Piece:
    """Return what Codex writes about a file of hooks when its user approves them. It is mdrecall's only to remove."""

    def take(text: str) -> str:
        left, states = text, config_text.get_value(text, ("hooks", "state"), "toml")
        for name in states if isinstance(states, dict) else ():
            if name.startswith(f"{hooks}:"):
                left = config_text.remove_value(left, ("hooks", "state", name), "toml")
        return left if left == text else config_text.remove_empty(left, Place("toml", "hooks.state", ""))

    return Piece(path, lambda before: before, take)


def section(path: str, content: str) -> Piece:
    """Return a section in an instructions file, between two comments."""

    def take(text: str) -> str:
        return re.sub(rf"\n?{_SECTION_START}.*?{_SECTION_END}\n?", "", text, flags=re.DOTALL)

    def add(before: str) -> str:
        rest = take(before)
        gap = "" if not rest else "\n" if rest.endswith("\n") else "\n\n"
        return f"{rest}{gap}{_SECTION_START}\n{content}{_SECTION_END}\n"

    return Piece(path, add, take)


def are_all_ours(text: str) -> bool:
    """True if a JSON file has no hooks but mdrecall's, or none at all."""
    try:
        return not config_text.list_items(text, "hooks", lambda group: not _is_ours(group))
    except ValueError:
        return False


def _is_ours(group: Any) -> bool:
    return bool(_OUR_HOOK.search(json.dumps(group, ensure_ascii=False).replace('\\"', "")))
