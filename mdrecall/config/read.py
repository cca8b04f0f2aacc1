"""Configuration files to values: JSON5 text, layers of settings, and everything that is wrong with them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mdrecall.config.declare import Section, Setting, each_setting
from mdrecall.config.rules import Refused
from mdrecall.errors import ConfigError, suggest_name


class Layer(NamedTuple):
    """One object of a configuration file that sets part of a section."""

    file: str
    at: str
    values: Any


class Found(NamedTuple):
    """A setting as it stands after all layers: the value and where it came from."""

    value: Any
    origin: str


def read_file(path: str) -> dict[str, Any]:
    """The object in a JSON5 file."""
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
        raise ConfigError(f"{path} must hold one object in braces.", hint="An empty configuration is {}.")
    return value


def _parse(path: str, content: str) -> Any:
    import json

    if not content.strip():
        return {}
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        import pyjson5
    try:
        return pyjson5.decode(content)
    except pyjson5.Json5Exception as error:
        raise ConfigError(f"{path} is not JSON5{_where(content, str(error))}.", hint="Mend the file there.") from error


def _where(content: str, message: str) -> str:
    """The place that the parser stumbled over; what stands there may be a secret and is not shown."""
    offset = re.search(r"near (\d+)", message)
    if offset is None:
        return ""
    before = content[: max(0, int(offset[1]) - 1)]
    place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
    return f": what begins at {place} is never closed" if "Unclosed" in message else f": it goes wrong at {place}"


def resolve(section: Section, layers: list[Layer], prefix: str, problems: list[str]) -> dict[str, Found]:
    """Each setting of a section by its full name: the first layer that has it wins, else the default."""
    read = [dict(_leaves(section, layer.values, layer, "", problems)) for layer in layers]
    found: dict[str, Found] = {}
    for name, key in each_setting(section):
        chosen = next((values[name] for values in read if name in values), None) or Found(key.default, "default")
        value = key.fix(chosen.value) if key.fix and chosen.value is not None else chosen.value
        found[f"{prefix}.{name}"] = Found(value, chosen.origin)
    return found


def first_with(layers: list[Layer], section: Section, name: str) -> Found | None:
    """One setting from the first layer that has it."""
    read = (dict(_leaves(section, layer.values, layer, "", [])) for layer in layers)
    return next((values[name] for values in read if name in values), None)


def build(section: Section, found: Mapping[str, Found], prefix: str) -> Any:
    """The typed value of a section from its resolved settings, with secrets wrapped."""
    return section.shape(*(_build_entry(entry, found, f"{prefix}.{name}") for name, entry in section.entries.items()))


def _build_entry(entry: Setting | Section, found: Mapping[str, Found], name: str) -> Any:
    if isinstance(entry, Section):
        return build(entry, found, name)
    value = found[name].value
    return entry.hide(value) if entry.hide and value is not None else value


def _leaves(
    section: Section, values: Any, layer: Layer, prefix: str, problems: list[str]
) -> Iterator[tuple[str, Found]]:
    place = f"{layer.at}.{prefix}".rstrip(".")
    if not isinstance(values, dict):
        problems.append(f"{layer.file}: {place} must be an object with {', '.join(section.entries)}.")
        return
    for name, value in values.items():
        entry = section.entries.get(name)
        where = f"{place}.{name}"
        if entry is None:
            if section.strict:
                problems.append(f"{layer.file}: {where} is not a known setting{suggest_name(name, section.entries)}.")
        elif isinstance(entry, Section):
            yield from _leaves(entry, value, layer, f"{prefix}{name}.", problems)
        else:
            try:
                yield prefix + name, Found(entry.rule.read(value), f"{layer.file}: {where}")
            except Refused as refused:
                shown = f"{refused.at} {refused}"
                if entry.secret:
                    shown = f" is not what it takes: {entry.rule.accepts}"
                problems.append(f"{layer.file}: {where}{shown}.")
