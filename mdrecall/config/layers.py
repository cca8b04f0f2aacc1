"""Which objects of the configuration files apply to an agent, strongest first."""

from collections.abc import Sequence
from typing import Any

from mdrecall.config.read import Layer
from mdrecall.config.references import look_up
from mdrecall.config.settings.openclaw import PER_AGENT
from mdrecall.errors import ConfigError, suggest_name
from mdrecall.named_tuple import NamedTuple
from mdrecall.types.transcripts import normalize_agent_id


class ConfigFile(NamedTuple):
    """A configuration file that was read."""

    label: str
    """Its path, with ``~`` for the home."""
    values: dict[str, Any]
    is_lenient: bool = False
    """True for OpenClaw's own file: what mdrecall does not understand there is ignored, with a warning."""
    problems: tuple[str, ...] = ()
    """Why all of OpenClaw's own file, or parts of it, could not be read."""


class AgentEntry(NamedTuple):
    """An entry of ``agents.list`` or ``agents.entries``."""

    id: str
    is_default: bool
    at: str
    file: str
    values: dict[str, Any]


def read_agents(files: list[ConfigFile], problems: list[str]) -> list[AgentEntry]:
    """Return every agent entry, those of the strongest file first."""
    agents: list[AgentEntry] = []
    for file in files:
        group = read_object(file, "agents", file.values.get("agents"), problems)
        listed = group.get("list", [])
        if not isinstance(listed, list):
            problems.append(f"{file.label}: agents.list must be a list.")
            listed = []
        entries: list[tuple[str, Any, str | None]] = [
            (f"agents.list[{index}]", entry, None) for index, entry in enumerate(listed)
        ]
        mapped = read_object(file, "agents.entries", group.get("entries"), problems)
        entries += [(f"agents.entries.{name}", entry, name) for name, entry in mapped.items()]
        owner = _find_owner(group)
        for at, entry, name in entries:
            values = _without_bad_workspace(file, at, read_object(file, at, entry, problems), problems)
            agent_id = normalize_agent_id(str(name if name is not None else values.get("id") or ""))
            is_default = agent_id == owner if owner else values.get("default") is True
            agents.append(AgentEntry(agent_id, is_default, at, file.label, values))
        _without_bad_workspace(file, "agents.defaults", group.get("defaults"), problems)
    return agents


def _find_owner(agents: dict[str, Any]) -> str:
    """Return the agent that OpenClaw has named for everything without another one; empty if it has none."""
    owner = look_up([agents], "defaults", "systemAgent", "agentId")
    return normalize_agent_id(owner) if isinstance(owner, str) and owner.strip() else ""


def _without_bad_workspace(file: ConfigFile, at: str, values: Any, problems: list[str]) -> dict[str, Any]:
    """Return an object without a ``workspace`` that is no string, which is a problem."""
    found: dict[str, Any] = values if isinstance(values, dict) else {}
    if isinstance(found.get("workspace") or "", str):
        return found
    problems.append(f"{file.label}: {at}.workspace must be a string.")
    return {name: value for name, value in found.items() if name != "workspace"}


def default_agent(agents: list[AgentEntry]) -> str:
    """Return the agent marked as default, else the first of the weakest file, which is OpenClaw's own."""
    chosen = next((agent.id for agent in agents if agent.is_default), None)
    if chosen is None and agents:
        weakest = agents[-1].file
        chosen = next(agent.id for agent in agents if agent.file == weakest)
    return chosen or "main"


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


def agent_layers(file: ConfigFile, entries: list[AgentEntry], problems: list[str]) -> list[Layer]:
    """Return the search settings that a file has for one agent, the newer place first."""
    layers: list[Layer] = []
    for entry in entries:
        if entry.file == file.label:
            inside = file._replace(values=entry.values)
            for path in ("memory.search", "memorySearch"):
                layers += layers_at([inside], path, problems, entry.at)
    return layers


def default_layers(file: ConfigFile, problems: list[str]) -> list[Layer]:
    """Return the search settings that a file has for all agents, the newest place first, the legacy one last."""
    paths = ("memory.search", "agents.defaults.memorySearch", "memorySearch")
    return [layer for path in paths for layer in layers_at([file], path, problems)]


def agent_default_layers(files: list[ConfigFile], entries: list[AgentEntry], defaults: list[Layer]) -> list[Layer]:
    """Return ``agents.defaults`` of every file, each after what the file has instead of it for one agent."""
    layers: list[Layer] = []
    for file in files:
        for entry in entries:
            if entry.file == file.label and (own := {k: v for k, v in entry.values.items() if k in PER_AGENT}):
                layers.append(Layer(file.label, entry.at, own, file.is_lenient))
        layers += [layer for layer in defaults if layer.file == file.label]
    return layers


def memory_layers(files: list[ConfigFile], problems: list[str]) -> list[Layer]:
    """Return the ``memory`` objects without ``search``, which is read with the search settings."""
    return [
        layer._replace(values={name: value for name, value in layer.values.items() if name != "search"})
        for layer in layers_at(files, "memory", problems)
        if isinstance(layer.values, dict)
    ]


def layers_at(files: list[ConfigFile], path: str, problems: list[str], under: str = "") -> list[Layer]:
    """Return the object at a dotted path from every file that has one."""
    layers: list[Layer] = []
    *groups, last = path.split(".")
    for file in files:
        values: Any = file.values
        for depth, name in enumerate(groups):
            at = ".".join(groups[: depth + 1])
            values = read_object(file, f"{under}.{at}".lstrip("."), values.get(name), problems)
        at = f"{under}.{path}".lstrip(".")
        if last in values and f"{file.label}: {at} must be an object." not in problems:
            layers.append(Layer(file.label, at, values[last], file.is_lenient))
    return layers


def read_object(file: ConfigFile, at: str, value: Any, problems: list[str]) -> dict[str, Any]:
    """Return the value if it is an object; otherwise an empty one, with a problem unless the value is missing."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    problem = f"{file.label}: {at} must be an object."
    if problem not in problems:
        problems.append(problem)
    return {}
