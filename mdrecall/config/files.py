"""Configuration files with everything that stands elsewhere: files named by ``$include``, and variables.

Both follow OpenClaw's rules. A file that is included must be in the folder of the configuration file, or in one that
``OPENCLAW_INCLUDE_ROOTS`` names. A variable that is set in the environment is never replaced.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mdrecall.config.environment import Locations, expand, is_openclaws_file, is_within, shorten
from mdrecall.config.layers import Layer
from mdrecall.errors import ConfigError, message_with_hint
from mdrecall.patterns import compile_later

_INCLUDE = "$include"
#: OpenClaw's limits; without them a circle or a wrong path could take all memory.
_MAX_DEPTH = 10
_MAX_BYTES = 2 * 1024 * 1024
#: The limit of the parser of JSON5. A configuration has ten or so.
_MAX_LEVELS = 32
#: A name, then a value: in quotes, possibly over several lines, or the rest of the line.
_LINE = (
    r"""(?ms)^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"""
    r"""(?:("(?:[^"\\]|\\.)*"|'[^']*'|`[^`]*`)[ \t]*(?:\#[^\n]*)?|([^\n]*))$"""
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_VARIABLE = compile_later(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = compile_later(r"[A-Za-z_][A-Za-z0-9_]*")
#: What is resolved when it is used, so that a secret is in memory no longer than needed, and its origin is known.
_RESOLVED_LATER = ("apiKey", "auth", "baseUrl", "dbPath", "env", "headers", "models", "secrets")
#: Counts for what a file of OpenClaw does not say because it cannot be read: nothing is sent to anybody, and no
#: conversation is shown to another person.
_CAUTIOUS = {
    "memory": {"search": {"provider": "offline"}},
    "session": {"dmScope": "per-account-channel-peer"},
    "tools": {"sessions": {"visibility": "self"}},
}


def read_files(locations: Locations, env: Mapping[str, str], cwd: str, config: str | None) -> list[Layer]:
    """Return the configuration files, strongest first; only the file ``config`` if the caller names one.

    OpenClaw's own file may be unreadable. Then cautious settings count for what it would say.
    """
    paths = [locations.own_config_path, locations.config_path]
    if config is not None:
        paths = [expand(config, locations.home, cwd)]
    files: list[Layer] = []
    for path in filter(None, paths):
        label, is_openclaws = shorten(path, locations.home), is_openclaws_file(path, locations)
        try:
            files.append(Layer(label, "", read_config(path, env), is_openclaws))
        except ConfigError as error:
            if config is not None or path == locations.own_config_path:
                raise
            problem = f"{message_with_hint(error)} It is ignored until this is fixed."
            files.append(Layer(label, "", _CAUTIOUS, is_lenient=True, problem=problem))
    return files


def read_file(path: str) -> dict[str, Any]:
    """Return the object in a JSON5 file; raise ``ConfigError`` if there is none."""
    if os.path.exists(path) and not os.path.isfile(path):
        # Reading a pipe might never end.
        raise ConfigError(f"{path} is not a file.", hint="Move it away.")
    try:
        with open(path, encoding="utf-8-sig") as file:
            content = file.read()
    except FileNotFoundError as missing:
        raise ConfigError(f"There is no configuration file {path}.", hint="Check the path.") from missing
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"Cannot read the configuration file {path}: {reason}.") from error
    value = _parse(path, content)
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must contain one object in braces.", hint="An empty configuration is {}.")
    return value


def _parse(path: str, content: str) -> Any:
    import json

    if not content.strip():
        return {}
    try:
        value = json.loads(content)
        if not _is_too_deep(value):
            return value
    except (ValueError, RecursionError):
        pass
    import pyjson5

    try:
        return pyjson5.decode(content)
    except pyjson5.Json5Exception as error:
        raise ConfigError(f"{path} is not JSON5{_locate(content, str(error))}.", hint="Fix the file there.") from error


def _is_too_deep(value: Any) -> bool:
    """True if a value has more levels than the parser of JSON5 takes; those that read it would use up the stack."""
    level = [value]
    for _ in range(_MAX_LEVELS):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
        ]
    return bool(level)


def _locate(content: str, message: str) -> str:
    """Return where the parser failed, without the text there, which may be a secret."""
    offset = re.search(r"near (\d+)", message)
    if offset is None:
        return ""
    before = content[: max(0, int(offset[1]) - 1)]
    place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
    return f": what begins at {place} is never closed" if "Unclosed" in message else f": syntax error at {place}"


def read_config(path: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the object in a configuration file with everything that it includes; raise ``ConfigError`` otherwise."""
    more = env.get("OPENCLAW_INCLUDE_ROOTS", "").split(os.pathsep)
    roots = (os.path.dirname(path), *(root.strip() for root in more if os.path.isabs(root.strip())))
    resolved: dict[str, Any] = _resolve(read_file(path), (path,), tuple(map(os.path.realpath, roots)))
    return resolved


def _resolve(value: Any, chain: tuple[str, ...], roots: tuple[str, ...]) -> Any:
    """Return a value with every ``$include`` in it replaced; ``chain`` has the files that led there, in order."""
    if isinstance(value, list):
        return [_resolve(item, chain, roots) for item in value]
    if not isinstance(value, dict):
        return value
    beside = {name: _resolve(item, chain, roots) for name, item in value.items() if name != _INCLUDE}
    if _INCLUDE not in value:
        return beside
    named = value[_INCLUDE]
    names = [named] if isinstance(named, str) else named
    if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
        raise ConfigError(f"{chain[-1]}: $include must be a path or a list of paths.", hint="Name a file.")
    included: dict[str, Any] = {}
    for name in names:
        included = _merge(included, _read_included(name, chain, roots))
    return _merge(included, beside)


def _read_included(name: str, chain: tuple[str, ...], roots: tuple[str, ...]) -> Any:
    path = os.path.normpath(os.path.join(os.path.dirname(chain[-1]), name.replace("\0", "").strip()))
    real, shown = os.path.realpath(path), f"{chain[-1]}: $include {name!r}"
    if not any(is_within(real, root) for root in roots):
        hint = "Move the file there, or name its folder in OPENCLAW_INCLUDE_ROOTS."
        raise ConfigError(f"{shown} is outside the folder of the configuration file.", hint=hint)
    if real in map(os.path.realpath, chain):
        raise ConfigError(f"{shown} includes itself.", hint="Remove one of the files from the circle.")
    if len(chain) > _MAX_DEPTH:
        raise ConfigError(f"{shown} is nested more than {_MAX_DEPTH} levels deep.", hint="Use fewer levels.")
    if os.path.isfile(path) and os.path.getsize(path) > _MAX_BYTES:
        raise ConfigError(f"{shown} is larger than 2 MB.", hint="A configuration file is a few kilobytes.")
    return _resolve(read_file(path), (*chain, path), roots)


def _merge(one: Any, other: Any) -> Any:
    """Return two values as one: objects key by key, lists one after the other; otherwise the second wins."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one | {name: _merge(one[name], value) if name in one else value for name, value in other.items()}
    return one + other if isinstance(one, list) and isinstance(other, list) else other


def read_variables(
    env: Mapping[str, str], files: Sequence[Mapping[str, Any]], env_files: Sequence[str]
) -> tuple[Mapping[str, str], list[str]]:
    """Return the environment with the variables of ``.env`` files and of the files; and warnings."""
    variables = {name: value for name, value in env.items() if value.strip()}
    warnings: list[str] = []
    for path in env_files:
        for name, value in _read_env_file(path, warnings):
            variables.setdefault(name, value)
    for name, value in _configured_variables(files):
        with suppress(UnresolvedValue):
            variables.setdefault(name, resolve_text(value, variables, name))
    return {**env, **variables}, warnings


def _configured_variables(files: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the variables of every file, the strongest first: those in ``env.vars``, then those in ``env`` itself."""
    for values in files:
        env = values.get("env")
        groups = (env.get("vars"), env) if isinstance(env, Mapping) else ()
        for group in groups:
            entries = group.items() if isinstance(group, Mapping) else ()
            yield from ((name, value) for name, value in entries if isinstance(value, str) and value.strip())


def _read_env_file(path: str, warnings: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables of a file, if there is one and it can be used."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        warnings.append(f"{path} is not used: {getattr(error, 'strerror', None) or 'it is not UTF-8'}.")
        return
    if len(content) > _MAX_BYTES:
        warnings.append(f"{path} is not used: it is larger than 2 MB.")
        return
    for name, quoted, bare in re.findall(_LINE, content):
        value = quoted[1:-1] if quoted else re.split(r"(?:^|\s)\#", bare, maxsplit=1)[0].strip()
        if quoted.startswith('"'):
            value = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), value)
        if value.strip():
            yield name, value


class UnresolvedValue(Exception):
    """A setting has no usable value; the message says which and why, and never contains a secret."""


def substitute(value: Any, env: Mapping[str, str]) -> Any:
    """Return a value with every ``${VAR}`` in it replaced, except in settings that are resolved when they are used.

    A variable that is not set stays as it is.
    """
    if isinstance(value, list):
        return [substitute(item, env) for item in value]
    if isinstance(value, dict):
        return {name: item if name in _RESOLVED_LATER else substitute(item, env) for name, item in value.items()}
    if not isinstance(value, str) or "${" not in value:
        return value
    return _VARIABLE.sub(lambda found: found[0][1:] if found[1] else env.get(found[2], "").strip() or found[0], value)


def resolve_text(value: Any, env: Mapping[str, str], setting: str) -> str:
    """Return a text with every ``${VAR}`` replaced; ``$${VAR}`` stands for a literal ``${VAR}``.

    Raise ``UnresolvedValue`` if it is not a text, or a variable is not set.
    """
    if not isinstance(value, str):
        raise UnresolvedValue(f"{setting} must be a string.")

    def replace(match: re.Match[str]) -> str:
        return match[0][1:] if match[1] else _read_variable(match[2], env, setting, match[0])

    return _VARIABLE.sub(replace, value).strip()


def resolve_secret(value: Any, env: Mapping[str, str], setting: str) -> str:
    """Return a secret given as a text or a reference; raise ``UnresolvedValue`` if a header cannot carry it."""
    found = _follow(value, env, setting) if isinstance(value, Mapping) else resolve_text(value, env, setting)
    if not all(" " <= char <= "~" or "\xa0" <= char <= "\xff" for char in found):
        raise UnresolvedValue(f"{setting} contains a character that cannot be sent in a header. Copy the value again.")
    return found


def _follow(reference: Mapping[str, Any], env: Mapping[str, str], setting: str) -> str:
    """Return the variable that a reference names; OpenClaw's encrypted store is named by the same variable."""
    source, name = reference.get("source"), reference.get("id")
    if source == "exec":
        problem = "refers to a secret of source exec, but mdrecall does not run programs for secrets."
        raise UnresolvedValue(f"{setting} {problem} Use one of source env or file.")
    if source not in ("env", "store"):
        problem = "must be a string or a reference with source and id; the source is env or file."
        raise UnresolvedValue(f"{setting} {problem}")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UnresolvedValue(f"{setting} refers to a secret of source {source}, but has no valid id.")
    if source == "store" and not env.get(name, "").strip():
        problem = f"refers to {name} in OpenClaw's encrypted store, which mdrecall cannot open."
        raise UnresolvedValue(f"{setting} {problem} Set the variable {name}.")
    return _read_variable(name, env, setting, name)


def _read_variable(name: str, env: Mapping[str, str], setting: str, shown: str) -> str:
    if value := env.get(name, "").strip():
        return value
    raise UnresolvedValue(f"{setting} refers to {shown}, which is not set. Set it, or change the setting.")


def mask_url(url: str) -> str:
    """Return an address without the parts that may be secret: user, password and query."""
    address, mark, _ = url.partition("?")
    return re.sub(r"//[^/@]*@", "//***@", address) + (mark and "?***")
