"""Which objects of the configuration files apply to an agent, strongest first, and the settings that they make."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mdrecall.config.declare import InvalidValue, Section, Setting
from mdrecall.config.settings import PER_AGENT, ResolvedValue
from mdrecall.errors import ConfigError, suggest_name
from mdrecall.patterns import compile_later

_AGENT_ID = compile_later(r"[a-z0-9][a-z0-9_-]{0,63}")
#: Where search settings are: of one agent, in its entry, and of all.
_OF_AGENT = ("memory.search", "memorySearch")
_OF_ALL = ("memory.search", "agents.defaults.memorySearch", "memorySearch")
#: Takes the place of a secret that cannot be read: a reference that leads nowhere.
_UNREADABLE: dict[str, str] = {"source": "", "id": ""}


class Layer(NamedTuple):
    """A configuration file, or an object in it that sets part of a section."""

    file: str
    """The path of the file, with ``~`` for the home."""
    at: str
    """The dotted path of the object; empty for the whole file."""
    values: Any
    is_lenient: bool = False
    """True in OpenClaw's own file: a value that is not understood is ignored there, with a warning."""
    problem: str = ""
    """Why OpenClaw's own file could not be read."""


class AgentEntry(NamedTuple):
    """An entry of ``agents.list`` or ``agents.entries``."""

    id: str
    is_default: bool
    at: str
    file: str
    values: dict[str, Any]


def look_up(files: Sequence[Mapping[str, Any]], *path: str) -> Any:
    """Return the value at a path from the first file that has one; anything but objects on the way is skipped."""
    for values in files:
        found: Any = values
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is not None:
            return found
    return None


def resolve(section: type[Section], layers: list[Layer], prefix: str, problems: list[str]) -> dict[str, ResolvedValue]:
    """Return each configured setting of a section by its full name, from the first layer that has it."""
    resolved: dict[str, ResolvedValue] = {}
    for layer in layers:
        for name, setting, value in _read_layer(section, layer.values, layer, "", problems):
            full_name = f"{prefix}.{name}"
            if full_name not in resolved:
                fixed = setting.fix(value) if setting.fix and value is not None else value
                resolved[full_name] = ResolvedValue(fixed, f"{layer.file}: {layer.at}.{name}")
    return resolved


def build(section: type[Section], resolved: Mapping[str, ResolvedValue], prefix: str) -> Any:
    """Return the typed value of a section from its configured settings, with secrets wrapped."""
    made: dict[str, Any] = {}
    inner: dict[str, type[Section]] = {}
    for full_name, (value, _) in resolved.items():
        name, _, rest = full_name.removeprefix(f"{prefix}.").partition(".")
        entry = section.entries.get(name) if full_name.startswith(f"{prefix}.") else None
        if isinstance(entry, Setting):
            made[section.fields[name]] = entry.hide(value) if entry.hide and value is not None else value
        elif entry is not None and rest:
            inner[name] = entry
    for name, entry in inner.items():
        made[section.fields[name]] = build(entry, resolved, f"{prefix}.{name}")
    return section(**made)


def _read_layer(
    section: type[Section], values: Any, layer: Layer, prefix: str, problems: list[str]
) -> Iterator[tuple[str, Setting, Any]]:
    """Yield the settings in an object with their dotted names."""
    at = f"{layer.at}.{prefix}".rstrip(".")
    if not isinstance(values, dict):
        problems.append(f"{layer.file}: {at} must be an object with {', '.join(section.entries)}.")
        return
    for name, value in values.items():
        entry = section.entries.get(name)
        where = f"{layer.file}: {at}.{name}"
        if entry is None:
            if section.is_strict and name not in section.dropped:
                problems.append(f"{where} is not a known setting{suggest_name(name, section.entries)}.")
        elif not isinstance(entry, Setting):
            yield from _read_layer(entry, value, layer, f"{prefix}{name}.", problems)
        else:
            try:
                yield prefix + name, entry, entry.rule.read(value)
            except InvalidValue as invalid:
                shown = f" has the wrong type; it must be {entry.rule.accepts}"
                problems.append(f"{where}{shown if entry.hide else f'{invalid.at} {invalid}'}.")
                if entry.hide and layer.is_lenient:
                    # A key that cannot be read must not be replaced by another one that is found elsewhere.
                    yield prefix + name, entry, _UNREADABLE if entry.default is None else entry.default


def read_agents(files: list[Layer], problems: list[str]) -> list[AgentEntry]:
    """Return every agent entry, those of the strongest file first."""
    agents: list[AgentEntry] = []
    for file in files:
        group = _read_object(file, "agents", file.values.get("agents"), problems)
        listed = group.get("list", [])
        if not isinstance(listed, list):
            problems.append(f"{file.file}: agents.list must be a list.")
            listed = []
        entries: list[tuple[str, Any, str | None]] = []
        entries += [(f"agents.list[{index}]", entry, None) for index, entry in enumerate(listed)]
        mapped = _read_object(file, "agents.entries", group.get("entries"), problems)
        entries += [(f"agents.entries.{name}", entry, name) for name, entry in mapped.items()]
        owner = look_up([group], "defaults", "systemAgent", "agentId")
        owner = normalize_agent_id(owner) if isinstance(owner, str) and owner.strip() else ""
        for at, entry, name in entries:
            values = _read_object(file, at, entry, problems)
            _check_workspace(file, at, values, problems)
            agent_id = normalize_agent_id(str(name if name is not None else values.get("id") or ""))
            # OpenClaw may have named the agent for everything without another one.
            is_default = agent_id == owner if owner else values.get("default") is True
            agents.append(AgentEntry(agent_id, is_default, at, file.file, values))
        _check_workspace(file, "agents.defaults", group.get("defaults"), problems)
    return agents


def _check_workspace(file: Layer, at: str, values: Any, problems: list[str]) -> None:
    if isinstance(values, dict) and not isinstance(values.get("workspace") or "", str):
        problems.append(f"{file.file}: {at}.workspace must be a string.")


def default_agent(agents: list[AgentEntry]) -> str:
    """Return the agent marked as default, else the first of the weakest file, which is OpenClaw's own."""
    marked = [agent.id for agent in agents if agent.is_default]
    weakest = [agent.id for agent in agents if agent.file == agents[-1].file]
    return next(iter(marked or weakest), None) or "main"


def choose_agent(agents: list[AgentEntry], requested: str | None, problems: Sequence[str] = ()) -> str:
    """Return the id of the requested agent, or of the default one; raise ``ConfigError`` if there is no such agent.

    ``problems`` are those of the files that may name it.
    """
    default = default_agent(agents)
    if requested is None:
        return default
    known = dict.fromkeys([default, *(agent.id for agent in agents)])
    if normalize_agent_id(requested) not in known:
        message = f"There is no agent {requested!r}{suggest_name(requested, known)}."
        raise ConfigError(message, hint=" ".join(["Choose one of these agents.", *problems]))
    return normalize_agent_id(requested)


def agent_layers(file: Layer, entries: list[AgentEntry], problems: list[str]) -> list[Layer]:
    """Return the search settings that a file has for one agent, the newer place first."""
    own = (file._replace(at=entry.at, values=entry.values) for entry in entries if entry.file == file.file)
    return [layer for each in own for path in _OF_AGENT for layer in layers_at([each], path, problems)]


def default_layers(file: Layer, problems: list[str]) -> list[Layer]:
    """Return the search settings that a file has for all agents, the newest place first, the legacy one last."""
    return [layer for path in _OF_ALL for layer in layers_at([file], path, problems)]


def agent_default_layers(files: list[Layer], entries: list[AgentEntry], defaults: list[Layer]) -> list[Layer]:
    """Return ``agents.defaults`` of every file; what a file says about this agent alone comes before its defaults."""
    layers: list[Layer] = []
    for file in files:
        for entry in entries:
            if entry.file == file.file and (own := {k: v for k, v in entry.values.items() if k in PER_AGENT}):
                layers.append(file._replace(at=entry.at, values=own))
        layers += [layer for layer in defaults if layer.file == file.file]
    return layers


def layers_at(files: list[Layer], path: str, problems: list[str]) -> list[Layer]:
    """Return the object at a dotted path from every file, or object of a file, that has one."""
    layers: list[Layer] = []
    *groups, last = path.split(".")
    for file in files:
        at, values = file.at, file.values
        for name in groups:
            at = f"{at}.{name}".lstrip(".")
            values = _read_object(file, at, values.get(name), problems)
        at = f"{at}.{last}".lstrip(".")
        if last in values and f"{file.file}: {at} must be an object." not in problems:
            layers.append(file._replace(at=at, values=values[last]))
    return layers


def _read_object(file: Layer, at: str, value: Any, problems: list[str]) -> dict[str, Any]:
    """Return the value if it is an object; otherwise an empty one, with a problem unless the value is missing."""
    problem = f"{file.file}: {at} must be an object."
    if value is not None and not isinstance(value, dict) and problem not in problems:
        problems.append(problem)
    return value if isinstance(value, dict) else {}


def normalize_agent_id(agent_id: str) -> str:
    """Return an agent id as OpenClaw writes it: at most 64 lower-case letters, digits, ``_`` and ``-``."""
    bare = agent_id.strip().lower()
    if _AGENT_ID.fullmatch(bare):
        return bare
    bare = re.sub(r"[^a-z0-9_-]+", "-", bare).strip("-")[:64]
    return bare or "main"
