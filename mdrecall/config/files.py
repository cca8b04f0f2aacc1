"""Configuration files with everything that stands elsewhere: files named by ``$include``, variables, and secrets.

All follow OpenClaw's rules. A file that is included must be in the folder of the configuration file, or in one that
``OPENCLAW_INCLUDE_ROOTS`` names. A variable that is set in the environment is never replaced.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mdrecall.config.environment import Locations, expand, is_openclaws_file, shorten
from mdrecall.config.layers import Layer, look_up
from mdrecall.errors import ConfigError, message_with_hint
from mdrecall.patterns import compile_later

_INCLUDE = "$include"
#: OpenClaw's limits; without them a circle or a wrong path could take all memory.
_MAX_DEPTH = 10
_MAX_BYTES = 2 * 1024 * 1024
#: A file of secrets is a few kilobytes; a larger one is a wrong path, and is not read into memory.
_MAX_SECRET_BYTES = 1024 * 1024
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

    OpenClaw's own file may be unreadable, in full or in part. Then cautious settings count for what it would say.
    """
    paths = [locations.own_config_path, locations.config_path]
    if config is not None:
        paths = [expand(config, locations.home, cwd)]
    files: list[Layer] = []
    for path in filter(None, paths):
        label, is_openclaws = shorten(path, locations.home), is_openclaws_file(path, locations)
        problems: list[str] | None = [] if config is None and path != locations.own_config_path else None
        files.append(Layer(label, "", read_config(path, env, problems), is_openclaws))
        if problems:
            told = tuple(f"{problem} It is ignored until this is fixed." for problem in problems)
            files.append(Layer(label, "", _CAUTIOUS, is_lenient=True, problems=told))
    return files


def read_file(path: str) -> dict[str, Any]:
    """Return the object in a JSON5 file; raise ``ConfigError`` if there is none."""
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


def read_config(path: str, env: Mapping[str, str], problems: list[str] | None = None) -> dict[str, Any]:
    """Return the object in a configuration file with everything that it includes.

    Raise ``ConfigError`` if any of that cannot be read; given ``problems``, add it there and return the rest.
    """
    more = env.get("OPENCLAW_INCLUDE_ROOTS", "").split(os.pathsep)
    roots = (os.path.dirname(path), *(root.strip() for root in more if os.path.isabs(root.strip())))
    includes = _Includes(tuple(map(os.path.realpath, roots)), problems)
    try:
        if problems is not None:
            _require_regular(path)
        resolved = includes.resolve(read_file(path), (path,))
        if not isinstance(resolved, dict):
            raise ConfigError(f"{path} must include one object in braces.", hint="An empty configuration is {}.")
    except ConfigError as error:
        return includes.leave_out(error)
    return resolved


class _Includes:
    """Replaces every ``$include`` in the values of a file. A chain has the files that led there, the last one last."""

    def __init__(self, roots: tuple[str, ...], problems: list[str] | None) -> None:
        self._roots = roots
        self._problems = problems

    def leave_out(self, error: ConfigError) -> dict[str, Any]:
        """Return an empty object for a part that cannot be read; raise the error if problems are not collected."""
        if self._problems is None:
            raise error
        self._problems.append(message_with_hint(error))
        return {}

    def resolve(self, value: Any, chain: tuple[str, ...]) -> Any:
        """Return a value with every ``$include`` in it replaced."""
        if isinstance(value, list):
            return [self.resolve(item, chain) for item in value]
        if not isinstance(value, dict):
            return value
        beside = {name: self.resolve(item, chain) for name, item in value.items() if name != _INCLUDE}
        if _INCLUDE not in value:
            return beside
        try:
            included = self._include(value[_INCLUDE], chain)
            if beside and not isinstance(included, dict):
                hint = "Let the file contain one object, or remove the keys beside $include."
                raise ConfigError(f"{chain[-1]}: $include has keys beside it, but includes no object.", hint=hint)
        except ConfigError as error:
            included = self.leave_out(error)
        return _merge(included, beside) if beside else included

    def _include(self, named: Any, chain: tuple[str, ...]) -> Any:
        if isinstance(named, str):
            return self._read(named, chain)
        if not (isinstance(named, list) and named and all(isinstance(name, str) for name in named)):
            raise ConfigError(f"{chain[-1]}: $include must be a path or a list of paths.", hint="Name a file.")
        result: Any = {}
        for name in named:
            result = _merge(result, self._read(name, chain))
        return result

    def _read(self, name: str, chain: tuple[str, ...]) -> Any:
        path = os.path.normpath(os.path.join(os.path.dirname(chain[-1]), name.replace("\0", "").strip()))
        real, shown = os.path.realpath(path), f"{chain[-1]}: $include {name!r}"
        if not any(os.path.commonpath([real, root]) == root for root in self._roots):
            hint = "Move the file there, or name its folder in OPENCLAW_INCLUDE_ROOTS."
            raise ConfigError(f"{shown} is outside the folder of the configuration file.", hint=hint)
        if real in map(os.path.realpath, chain):
            raise ConfigError(f"{shown} includes itself.", hint="Remove one of the files from the circle.")
        if len(chain) > _MAX_DEPTH:
            raise ConfigError(f"{shown} is nested more than {_MAX_DEPTH} levels deep.", hint="Use fewer levels.")
        _require_regular(path)
        if os.path.isfile(path) and os.path.getsize(path) > _MAX_BYTES:
            raise ConfigError(f"{shown} is larger than 2 MB.", hint="A configuration file is a few kilobytes.")
        return self.resolve(read_file(path), (*chain, path))


def _require_regular(path: str) -> None:
    """Raise if a path is something that reading might never end of, such as a pipe."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError(f"{path} is not a file.", hint="Move it away.")


def _merge(one: Any, other: Any) -> Any:
    """Return two values as one: objects key by key, lists one after the other; otherwise the second wins."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one | {name: _merge(one[name], value) if name in one else value for name, value in other.items()}
    return one + other if isinstance(one, list) and isinstance(other, list) else other


def read_variables(
    env: Mapping[str, str], files: Sequence[Mapping[str, Any]], env_files: Sequence[str], home: str
) -> tuple[Mapping[str, str], str]:
    """Return the environment with the variables of ``.env`` files and of the files; and the problems, if any."""
    variables = {name: value for name, value in env.items() if value.strip()}
    problems: list[str] = []
    for path in env_files:
        content, problem = _read_env_file(path)
        problems += [problem] if problem else []
        for name, value in _parse_env(content):
            variables.setdefault(name, value)
    for name, value in _configured_variables(files):
        try:
            variables.setdefault(name, References(variables, files, home).text(value, name))
        except UnresolvedValue:
            continue
    return {**env, **variables}, " ".join(problems)


def _configured_variables(files: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the variables of every file, the strongest first: those in ``env.vars``, then those in ``env`` itself."""
    for values in files:
        env = values.get("env")
        groups = (env.get("vars"), env) if isinstance(env, Mapping) else ()
        for group in groups:
            entries = group.items() if isinstance(group, Mapping) else ()
            yield from ((name, value) for name, value in entries if isinstance(value, str) and value.strip())


def _read_env_file(path: str) -> tuple[str, str]:
    """Return the text of a file of variables, empty if there is none; and why it is not used."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return "", ""
    except (OSError, ValueError) as error:
        return "", f"{path} is not used: {getattr(error, 'strerror', None) or 'it is not UTF-8'}."
    return ("", f"{path} is not used: it is larger than 2 MB.") if len(content) > _MAX_BYTES else (content, "")


def _parse_env(content: str) -> Iterator[tuple[str, str]]:
    if not content:
        return
    for name, quoted, bare in re.findall(_LINE, content):
        value = quoted[1:-1] if quoted else re.split(r"(?:^|\s)\#", bare, maxsplit=1)[0].strip()
        if quoted.startswith('"'):
            value = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), value)
        if value.strip():
            yield name, value


class UnresolvedValue(Exception):
    """A setting has no usable value; the message says which and why, and never contains a secret."""


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
            content = file.read(_MAX_SECRET_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UnresolvedValue(f"{shown}, which cannot be read: {reason}.") from None
    if len(content) > _MAX_SECRET_BYTES:
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
