"""From the text of configuration files to settings, collecting every problem on the way."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mdrecall.config.declare import InvalidValue, Section, Setting, each_setting
from mdrecall.errors import ConfigError, suggest_name
from mdrecall.named_tuple import NamedTuple

#: Takes the place of a secret that cannot be read: a reference that leads nowhere.
_UNREADABLE: dict[str, str] = {"source": "", "id": ""}


#: The limit of the parser of JSON5. A configuration has ten or so.
_MAX_LEVELS = 32


class Layer(NamedTuple):
    """An object of a configuration file that sets part of a section."""

    file: str
    at: str
    values: Any
    is_lenient: bool = False
    """True if a value that is not understood is ignored, with a warning."""


class ResolvedValue(NamedTuple):
    """The value of a setting after all layers, and where it came from."""

    value: Any
    origin: str


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


def resolve(section: Section, layers: list[Layer], prefix: str, problems: list[str]) -> dict[str, ResolvedValue]:
    """Return each setting of a section by its full name: from the first layer that has it, else its default."""
    by_layer = [dict(_read_layer(section, layer.values, layer, "", problems)) for layer in layers]
    resolved: dict[str, ResolvedValue] = {}
    for name, setting in each_setting(section):
        default = ResolvedValue(setting.default, "default")
        value, origin = next((values[name] for values in by_layer if name in values), default)
        if setting.fix and value is not None:
            value = setting.fix(value)
        resolved[f"{prefix}.{name}"] = ResolvedValue(value, origin)
    return resolved


def first_with(layers: list[Layer], section: Section, name: str) -> ResolvedValue | None:
    """Return one setting from the first layer that has it; None if no layer does."""
    by_layer = (dict(_read_layer(section, layer.values, layer, "", [])) for layer in layers)
    return next((values[name] for values in by_layer if name in values), None)


def build(section: Section, resolved: Mapping[str, ResolvedValue], prefix: str) -> Any:
    """Return the typed value of a section from its resolved settings, with secrets wrapped."""
    return section.shape(
        *(_build_entry(entry, resolved, f"{prefix}.{name}") for name, entry in section.entries.items())
    )


def _build_entry(entry: Setting | Section, resolved: Mapping[str, ResolvedValue], name: str) -> Any:
    if isinstance(entry, Section):
        return build(entry, resolved, name)
    if not entry.is_used:
        return entry.default
    value = resolved[name].value
    return entry.hide(value) if entry.hide and value is not None else value


def _read_layer(
    section: Section, values: Any, layer: Layer, prefix: str, problems: list[str]
) -> Iterator[tuple[str, ResolvedValue]]:
    at = f"{layer.at}.{prefix}".rstrip(".")
    if not isinstance(values, dict):
        problems.append(f"{layer.file}: {at} must be an object with {', '.join(section.entries)}.")
        return
    for name, value in values.items():
        entry = section.entries.get(name)
        where = f"{at}.{name}"
        if entry is None:
            if section.strict:
                problems.append(f"{layer.file}: {where} is not a known setting{suggest_name(name, section.entries)}.")
        elif isinstance(entry, Section):
            yield from _read_layer(entry, value, layer, f"{prefix}{name}.", problems)
        else:
            try:
                yield prefix + name, ResolvedValue(entry.rule.read(value), f"{layer.file}: {where}")
            except InvalidValue as invalid:
                shown = f"{invalid.at} {invalid}"
                if entry.secret:
                    shown = f" has the wrong type; it must be {entry.rule.accepts}"
                problems.append(f"{layer.file}: {where}{shown}.")
                if entry.secret and layer.is_lenient:
                    # A key that cannot be read must not be replaced by another one that is found elsewhere.
                    unreadable = _UNREADABLE if entry.default is None else entry.default
                    yield prefix + name, ResolvedValue(unreadable, f"{layer.file}: {where}")
