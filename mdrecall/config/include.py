"""Parts of the configuration that stand elsewhere: files named by ``$include``, and variables in ``env`` and ``.env``.

Both follow OpenClaw's rules. A file that is included must be in the folder of the configuration file, or in one that
``OPENCLAW_INCLUDE_ROOTS`` names. A variable that is set in the environment is never replaced.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mdrecall.config.environment import Locations, expand, is_openclaws_file, shorten
from mdrecall.config.layers import ConfigFile
from mdrecall.config.openclaw_file import CAUTIOUS
from mdrecall.config.read import read_file
from mdrecall.config.references import References, UnresolvedValue
from mdrecall.errors import ConfigError, message_with_hint
from mdrecall.named_tuple import NamedTuple

_INCLUDE = "$include"
#: OpenClaw's limits; without them a circle or a wrong path could take all memory.
_MAX_DEPTH = 10
_MAX_BYTES = 2 * 1024 * 1024
#: A name, then a value: in quotes, possibly over several lines, or the rest of the line.
_LINE = (
    r"""(?ms)^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"""
    r"""(?:("(?:[^"\\]|\\.)*"|'[^']*'|`[^`]*`)[ \t]*(?:\#[^\n]*)?|([^\n]*))$"""
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class _Including(NamedTuple):
    """The file that is being read."""

    path: str
    roots: tuple[str, ...]
    above: tuple[str, ...] = ()
    """The files that led here, the first one first."""
    problems: list[str] | None = None


def read_files(locations: Locations, env: Mapping[str, str], cwd: str, config: str | None) -> list[ConfigFile]:
    """Return the configuration files, strongest first; only the file ``config`` if the caller names one.

    OpenClaw's own file may be unreadable, in full or in part. Then cautious settings count for what it would say.
    """
    paths = [locations.own_config_path, locations.config_path]
    if config is not None:
        paths = [expand(config, locations.home, cwd)]
    files: list[ConfigFile] = []
    for path in filter(None, paths):
        label, is_openclaws = shorten(path, locations.home), is_openclaws_file(path, locations)
        problems: list[str] | None = [] if config is None and path != locations.own_config_path else None
        files.append(ConfigFile(label, read_config(path, env, problems), is_openclaws))
        if problems:
            told = tuple(f"{problem} It is ignored until this is fixed." for problem in problems)
            files.append(ConfigFile(label, CAUTIOUS, is_lenient=True, problems=told))
    return files


def read_config(path: str, env: Mapping[str, str], problems: list[str] | None = None) -> dict[str, Any]:
    """Return the object in a configuration file with everything that it includes.

    Raise ``ConfigError`` if any of that cannot be read; given ``problems``, add it there and return the rest.
    """
    more = env.get("OPENCLAW_INCLUDE_ROOTS", "").split(os.pathsep)
    roots = (os.path.dirname(path), *(root.strip() for root in more if os.path.isabs(root.strip())))
    including = _Including(path, tuple(map(os.path.realpath, roots)), problems=problems)
    try:
        if problems is not None:
            _require_regular(path)
        resolved = _resolve(read_file(path), including)
        if not isinstance(resolved, dict):
            raise ConfigError(f"{path} must include one object in braces.", hint="An empty configuration is {}.")
    except ConfigError as error:
        return _leave_out(error, including)
    return resolved


def _leave_out(error: ConfigError, including: _Including) -> dict[str, Any]:
    """Return an empty object for a part that cannot be read; raise the error if problems are not collected."""
    if including.problems is None:
        raise error
    including.problems.append(message_with_hint(error))
    return {}


def _require_regular(path: str) -> None:
    """Raise if a path is something that reading might never end of, such as a pipe."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError(f"{path} is not a file.", hint="Move it away.")


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


def _resolve(value: Any, including: _Including) -> Any:
    """Return a value with every ``$include`` in it replaced."""
    if isinstance(value, list):
        return [_resolve(item, including) for item in value]
    if not isinstance(value, dict):
        return value
    beside = {name: _resolve(item, including) for name, item in value.items() if name != _INCLUDE}
    if _INCLUDE not in value:
        return beside
    try:
        included = _include(value[_INCLUDE], including)
        if beside and not isinstance(included, dict):
            hint = "Let the file contain one object, or remove the keys beside $include."
            raise ConfigError(f"{including.path}: $include has keys beside it, but includes no object.", hint=hint)
    except ConfigError as error:
        included = _leave_out(error, including)
    return _merge(included, beside) if beside else included


def _include(named: Any, including: _Including) -> Any:
    if isinstance(named, str):
        return _read_included(named, including)
    if not (isinstance(named, list) and named and all(isinstance(name, str) for name in named)):
        raise ConfigError(f"{including.path}: $include must be a path or a list of paths.", hint="Name a file.")
    result: Any = {}
    for name in named:
        result = _merge(result, _read_included(name, including))
    return result


def _read_included(name: str, including: _Including) -> Any:
    path = os.path.normpath(os.path.join(os.path.dirname(including.path), name.replace("\0", "").strip()))
    real, chain = os.path.realpath(path), (*including.above, including.path)
    shown = f"{including.path}: $include {name!r}"
    if not any(os.path.commonpath([real, root]) == root for root in including.roots):
        hint = "Move the file there, or name its folder in OPENCLAW_INCLUDE_ROOTS."
        raise ConfigError(f"{shown} is outside the folder of the configuration file.", hint=hint)
    if real in map(os.path.realpath, chain):
        raise ConfigError(f"{shown} includes itself.", hint="Remove one of the files from the circle.")
    if len(chain) > _MAX_DEPTH:
        raise ConfigError(f"{shown} is nested more than {_MAX_DEPTH} levels deep.", hint="Use fewer levels.")
    _require_regular(path)
    if os.path.isfile(path) and os.path.getsize(path) > _MAX_BYTES:
        raise ConfigError(f"{shown} is larger than 2 MB.", hint="A configuration file is a few kilobytes.")
    return _resolve(read_file(path), _Including(path, including.roots, chain, including.problems))


def _merge(one: Any, other: Any) -> Any:
    """Return two values as one: objects key by key, lists one after the other; otherwise the second wins."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one | {name: _merge(one[name], value) if name in one else value for name, value in other.items()}
    return one + other if isinstance(one, list) and isinstance(other, list) else other


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
