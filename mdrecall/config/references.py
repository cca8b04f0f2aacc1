"""What a setting refers to: ``${VAR}`` in a text, and references to secrets in the environment or a file."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mdrecall.config.locations import expand, shorten

_VARIABLE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_BYTES = 1024 * 1024


class NoValue(Exception):
    """A setting leads to nothing; says which and why, never what a secret is."""


def look_up(files: Sequence[Mapping[str, Any]], *path: str) -> Any:
    """The value at a path in the first file that has one; whatever is no object on the way is passed over."""
    for values in files:
        found: Any = values
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is not None:
            return found
    return None


def sendable(value: str, setting: str) -> str:
    """The value without the blanks around it, if it may go into a header."""
    value = value.strip()
    if not all(" " <= char <= "~" or "\xa0" <= char <= "\xff" for char in value):
        raise NoValue(f"{setting} holds a character that cannot be sent in a header. Copy the value again.")
    return value


class References:
    """Follows what the settings refer to."""

    def __init__(self, env: Mapping[str, str], files: Sequence[Mapping[str, Any]], home: str) -> None:
        self._env = env
        self._files = files
        self._home = home

    def variable(self, name: str, setting: str, shown: str) -> str:
        """What a variable holds, without the blanks around it."""
        if value := self._env.get(name, "").strip():
            return value
        raise NoValue(f"{setting} refers to {shown}, which is not set. Set it, or change the setting.")

    def text(self, value: Any, setting: str) -> str:
        """A text with every ``${VAR}`` replaced; ``$${VAR}`` is ``${VAR}`` itself."""
        if not isinstance(value, str):
            raise NoValue(f"{setting} must be a text.")

        def replaced(match: re.Match[str]) -> str:
            return match[0][1:] if match[1] else self.variable(match[2], setting, match[0])

        return _VARIABLE.sub(replaced, value).strip()

    def secret(self, value: Any, setting: str) -> str:
        """A secret that stands there as a text or is referred to, if it may go into a header."""
        found = self._referred(value, setting) if isinstance(value, Mapping) else self.text(value, setting)
        return sendable(found, setting)

    def _referred(self, reference: Mapping[str, Any], setting: str) -> str:
        source, name = reference.get("source"), reference.get("id")
        if source == "exec":
            said = "refers to a secret of source exec, but mdrecall does not run programs for secrets."
            raise NoValue(f"{setting} {said} Use one of source env or file.")
        if source == "env" and isinstance(name, str) and _NAME.fullmatch(name):
            return self.variable(name, setting, name)
        if source == "file" and isinstance(name, str):
            return self._from_file(reference.get("provider"), name, setting)
        if source in ("env", "file"):
            raise NoValue(f"{setting} refers to a secret of source {source}, but its id names none.")
        raise NoValue(f"{setting} must be a text or a reference with source and id; the source is env or file.")

    def _from_file(self, provider: Any, name: str, setting: str) -> str:
        provider = provider or look_up(self._files, "secrets", "defaults", "file") or "default"
        place = f"secrets.providers.{provider}"
        entry = look_up(self._files, "secrets", "providers", str(provider))
        if not isinstance(entry, Mapping) or entry.get("source") != "file" or not entry.get("path"):
            raise NoValue(f"{setting} refers to {place}, which is not there with source file and a path.")
        path = expand(self.text(entry["path"], f"{place}.path"), self._home, self._home)
        shown = f"{setting} refers to {shorten(path, self._home)} ({place})"
        content = _content(path, shown)
        value = content.strip() if entry.get("mode") == "singleValue" else _pointed(content, name, shown)
        if not value:
            raise NoValue(f"{shown}, where the secret is blank. Put it there.")
        return value


def _content(path: str, shown: str) -> str:
    """The text of a small ordinary file."""
    try:
        if not os.path.isfile(path):
            raise NoValue(f"{shown}, but there is no such file.")
        with open(path, encoding="utf-8-sig") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise NoValue(f"{shown}, which cannot be read: {reason}.") from None
    if len(content) > _MOST_BYTES:
        raise NoValue(f"{shown}, which is too large for a file of secrets.")
    return content


def _pointed(content: str, pointer: str, shown: str) -> str:
    """The text that a JSON pointer such as ``/providers/openai/apiKey`` leads to."""
    import json

    if not pointer.startswith("/"):
        raise NoValue(f"{shown}, but its id is not a JSON pointer such as /providers/openai/apiKey.")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise NoValue(f"{shown}, which is not JSON.") from None
    for part in pointer[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = dict(zip(map(str, range(len(value))), value, strict=True))
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise NoValue(f"{shown}, which holds no text at {pointer}.")
    return value.strip()


def masked(url: str) -> str:
    """An address without what may be secret in it: user, password, and the values of its query."""
    address, mark, _ = url.partition("?")
    return re.sub(r"//[^/@]*@", "//***@", address) + (mark and "?***")
