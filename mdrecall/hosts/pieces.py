"""The pieces of an installation: each can be added to the text of a file and taken out again, and keeps the rest."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mdrecall.mcp_server.config_text import (
    Place,
    append_items,
    get_value,
    list_items,
    put,
    remove,
    remove_empty,
    remove_items,
    remove_value,
    set_value,
)

#: What mdrecall's hooks have in common, whatever the path of the command is and whichever version wrote them.
_OUR_HOOK = re.compile(r"mdrecall['\"]? hook [a-z]")
_SECTION_START, _SECTION_END = "<!-- mdrecall -->", "<!-- /mdrecall -->"


class OwnFile(NamedTuple):
    """A file that is mdrecall's alone."""

    path: str
    text: str

    def add(self, before: str) -> str:
        """Return the text of the file; raise ``ValueError`` if another one has its name."""
        if before and "mdrecall" not in before:
            raise ValueError("it belongs to something else")
        return self.text

    def take(self, text: str) -> str | None:
        """Return None, unless another file has its name."""
        return None if "mdrecall" in text else text


class FirstNote(NamedTuple):
    """A note for a folder that has none. It is the user's: only a receipt takes it back, if nobody has touched it."""

    path: str

    def add(self, before: str) -> str:
        """Return the text of the note, whatever has become of it."""
        return before or "# Memory\n\nLasting facts: decisions, people, preferences.\n"

    def take(self, text: str) -> str | None:
        """Return the text as it is: somebody has touched it."""
        return text


class ServerEntry(NamedTuple):
    """The MCP server in a table of a configuration file; in one of YAML, a person adds and removes it."""

    path: str
    place: Place
    values: Mapping[str, Any]

    def add(self, before: str) -> str:
        """Return the text with the server; raise ``ValueError`` if that would lose anything."""
        return put(before, self.place, self.values)

    def take(self, text: str) -> str | None:
        """Return the text without the server; raise ``ValueError`` if that would lose anything."""
        left = remove(text, self.place)
        return left if left == text else remove_empty(left, self.place)


class JsonValue(NamedTuple):
    """One setting in a JSON file."""

    path: str
    keys: tuple[str, ...]
    value: Any
    previous: Any = None
    """What it was before; None if it was not set."""

    def add(self, before: str) -> str:
        """Return the text with the setting; raise ``ValueError`` if that would lose anything."""
        return before if get_value(before, self.keys) == self.value else set_value(before, self.keys, self.value)

    def take(self, text: str) -> str | None:
        """Return the text with what the setting was before, unless somebody has changed it since."""
        if get_value(text, self.keys) != self.value:
            return text
        if self.previous is not None:
            return set_value(text, self.keys, self.previous)
        return remove_empty(remove_value(text, self.keys), Place("json", ".".join(self.keys[:-1]), self.keys[-1]))


class HookEntries(NamedTuple):
    """Hooks in a JSON file that may hold the hooks of others."""

    path: str
    groups: Mapping[str, Any]
    """What is added to the list of each event."""

    def add(self, before: str) -> str:
        """Return the text with the hooks behind those of others; raise ``ValueError`` if that would lose anything."""
        if list_items(before, "hooks", _is_ours) == {name: [group] for name, group in self.groups.items()}:
            return before
        return append_items(remove_items(before, "hooks", _is_ours), "hooks", self.groups)

    def take(self, text: str) -> str | None:
        """Return the text without mdrecall's hooks; raise ``ValueError`` if that would lose anything."""
        return remove_items(text, "hooks", _is_ours)


class Approvals(NamedTuple):
    """What Codex writes about a file of hooks when its user approves them. It is mdrecall's only to remove."""

    path: str
    hooks: str
    """The file of the hooks, of which all are mdrecall's."""

    def add(self, before: str) -> str:
        """Return the text as it is: to approve is for the user."""
        return before

    def take(self, text: str) -> str | None:
        """Return the text without the approvals of this file, and without their table if it is empty then."""
        left, states = text, get_value(text, ("hooks", "state"), "toml")
        for name in states if isinstance(states, dict) else ():
            if name.startswith(f"{self.hooks}:"):
                left = remove_value(left, ("hooks", "state", name), "toml")
        return left if left == text else remove_empty(left, Place("toml", "hooks.state", ""))


class Section(NamedTuple):
    """A section in an instructions file, between two comments."""

    path: str
    text: str

    def add(self, before: str) -> str:
        """Return the text with the section at its end."""
        rest = self.take(before) or ""
        gap = "" if not rest else "\n" if rest.endswith("\n") else "\n\n"
        return f"{rest}{gap}{_SECTION_START}\n{self.text}{_SECTION_END}\n"

    def take(self, text: str) -> str | None:
        """Return the text without the section."""
        return re.sub(rf"\n?{_SECTION_START}.*?{_SECTION_END}\n?", "", text, flags=re.DOTALL)


Piece = OwnFile | FirstNote | ServerEntry | JsonValue | HookEntries | Approvals | Section


def has_hooks(text: str) -> bool:
    """True if a text has a hook of mdrecall in it."""
    return bool(_OUR_HOOK.search(text))


def are_all_ours(text: str) -> bool:
    """True if a JSON file has no hooks but mdrecall's, or none at all."""
    try:
        return not list_items(text, "hooks", lambda group: not _is_ours(group))
    except ValueError:
        return False


def _is_ours(group: Any) -> bool:
    return has_hooks(json.dumps(group, ensure_ascii=False).replace('\\"', ""))
