"""Resolve what settings refer to: ``${VAR}`` in a text, and secrets in the environment or a file."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mdrecall.config.environment import expand, shorten
from mdrecall.patterns import compile_later

_VARIABLE = compile_later(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = compile_later(r"[A-Za-z_][A-Za-z0-9_]*")
#: What is resolved when it is used, so that a secret is in memory no longer than needed, and its origin is known.
_RESOLVED_LATER = ("apiKey", "auth", "baseUrl", "dbPath", "env", "headers", "models", "secrets")
#: A file of secrets is a few kilobytes; a larger one is a wrong path, and is not read into memory.
_MAX_BYTES = 1024 * 1024


class UnresolvedValue(Exception):
    """A setting has no usable value; the message says which and why, and never contains a secret."""


def look_up(files: Sequence[Mapping[str, Any]], *path: str) -> Any:
    """Return the value at a path from the first file that has one; anything but objects on the way is skipped."""
    for values in files:
        found: Any = values
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is not None:
            return found
    return None


def check_header_value(value: str, setting: str) -> str:
    """Return the value stripped; raise ``UnresolvedValue`` if an HTTP header cannot carry it."""
    value = value.strip()
    if not all(" " <= char <= "~" or "\xa0" <= char <= "\xff" for char in value):
        raise UnresolvedValue(f"{setting} contains a character that cannot be sent in a header. Copy the value again.")
    return value


def substitute(values: Mapping[str, Any], env: Mapping[str, str], missing: dict[str, str]) -> dict[str, Any]:
    """Return a configuration with every ``${VAR}`` replaced, in any text except those that are resolved when used.

    A variable that is not set stays as it is, and is added to ``missing`` by the place that names it.
    """

    def inside(value: Any, at: str) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(lambda match: replace(match, at), value) if "${" in value else value
        if isinstance(value, list):
            return [inside(item, f"{at}[{index}]") for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {name: keep(name, item, f"{at}.{name}".lstrip(".")) for name, item in value.items()}
        return value

    def keep(name: str, value: Any, at: str) -> Any:
        return value if name in _RESOLVED_LATER else inside(value, at)

    def replace(match: re.Match[str], at: str) -> str:
        if match[1]:
            return match[0][1:]
        if found := env.get(match[2], "").strip():
            return found
        missing.setdefault(at, match[0])
        return match[0]

    return {name: keep(name, value, name) for name, value in values.items()}


class References:
    """Resolves references in settings."""

    def __init__(self, env: Mapping[str, str], files: Sequence[Mapping[str, Any]], home: str) -> None:
        self._env = env
        self._files = files
        self._home = home

    def variable(self, name: str, setting: str, shown: str) -> str:
        """Return the value of a variable, stripped; raise ``UnresolvedValue`` if it is not set."""
        if value := self._env.get(name, "").strip():
            return value
        raise UnresolvedValue(f"{setting} refers to {shown}, which is not set. Set it, or change the setting.")

    def text(self, value: Any, setting: str) -> str:
        """Return a text with every ``${VAR}`` replaced; ``$${VAR}`` stands for a literal ``${VAR}``."""
        if not isinstance(value, str):
            raise UnresolvedValue(f"{setting} must be a string.")

        def replace(match: re.Match[str]) -> str:
            return match[0][1:] if match[1] else self.variable(match[2], setting, match[0])

        return _VARIABLE.sub(replace, value).strip()

    def secret(self, value: Any, setting: str) -> str:
        """Return a secret given as a text or a reference; raise ``UnresolvedValue`` if a header cannot carry it."""
        found = self._follow(value, setting) if isinstance(value, Mapping) else self.text(value, setting)
        return check_header_value(found, setting)

    def _follow(self, reference: Mapping[str, Any], setting: str) -> str:
        source, name = reference.get("source"), reference.get("id")
        if source == "exec":
            problem = "refers to a secret of source exec, but mdrecall does not run programs for secrets."
            raise UnresolvedValue(f"{setting} {problem} Use one of source env or file.")
        if source == "store" and isinstance(name, str) and _NAME.fullmatch(name):
            if value := self._env.get(name, "").strip():
                return value
            problem = f"refers to {name} in OpenClaw's encrypted store, which mdrecall cannot open."
            raise UnresolvedValue(f"{setting} {problem} Set the variable {name}.")
        if source == "env" and isinstance(name, str) and _NAME.fullmatch(name):
            return self.variable(name, setting, name)
        if source == "file" and isinstance(name, str):
            return self._from_file(reference.get("provider"), name, setting)
        if source in ("env", "file", "store"):
            raise UnresolvedValue(f"{setting} refers to a secret of source {source}, but has no valid id.")
        raise UnresolvedValue(
            f"{setting} must be a string or a reference with source and id; the source is env or file."
        )

    def _from_file(self, provider: Any, name: str, setting: str) -> str:
        provider = provider or look_up(self._files, "secrets", "defaults", "file") or "default"
        place = f"secrets.providers.{provider}"
        entry = look_up(self._files, "secrets", "providers", str(provider))
        if not isinstance(entry, Mapping) or entry.get("source") != "file" or not entry.get("path"):
            raise UnresolvedValue(f"{setting} refers to {place}, which must have source file and a path.")
        path = expand(self.text(entry["path"], f"{place}.path"), self._home, self._home)
        shown = f"{setting} refers to {shorten(path, self._home)} ({place})"
        content = _read_text(path, shown)
        value = content.strip() if entry.get("mode") == "singleValue" else _follow_pointer(content, name, shown)
        if not value:
            raise UnresolvedValue(f"{shown}, where the secret is blank. Enter it there.")
        return value


def _read_text(path: str, shown: str) -> str:
    """Return the text of a small regular file."""
    try:
        if not os.path.isfile(path):
            raise UnresolvedValue(f"{shown}, but there is no such file.")
        with open(path, encoding="utf-8-sig") as file:
            content = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UnresolvedValue(f"{shown}, which cannot be read: {reason}.") from None
    if len(content) > _MAX_BYTES:
        raise UnresolvedValue(f"{shown}, which is too large for a file of secrets.")
    return content


def _follow_pointer(content: str, pointer: str, shown: str) -> str:
    """Return the text at a JSON pointer such as ``/providers/openai/apiKey``."""
    import json

    if not pointer.startswith("/"):
        raise UnresolvedValue(f"{shown}, but its id is not a JSON pointer such as /providers/openai/apiKey.")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise UnresolvedValue(f"{shown}, which is not JSON.") from None
    for part in pointer[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = dict(zip(map(str, range(len(value))), value, strict=True))
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise UnresolvedValue(f"{shown}, which has no string at {pointer}.")
    return value.strip()


def mask_url(url: str) -> str:
    """Return an address without the parts that may be secret: user, password and query."""
    address, mark, _ = url.partition("?")
    return re.sub(r"//[^/@]*@", "//***@", address) + (mark and "?***")
