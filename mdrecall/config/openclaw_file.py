"""What may stand in OpenClaw's own file: the JSON Schema of what mdrecall reads, and what it reads otherwise or not.

OpenClaw decides what its file may hold, so nothing in it stops mdrecall: see ``docs/config.md``.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mdrecall.config.declare import Section, Setting
from mdrecall.config.layers import Layer, look_up
from mdrecall.config.settings import PER_AGENT, PROVIDERS, SECTIONS

_OWN_NAMES = ("auto", "none", *PROVIDERS)
#: OpenClaw's providers that speak the wire of OpenAI.
_OPENAI_LIKE = ("lmstudio", "deepinfra")
#: Wires of ``models.providers.<id>.api`` with an embeddings API like OpenAI's; a provider without ``api`` has it too.
_OPENAI_WIRES = ("openai", "openai-completions", "openai-responses")
#: What takes the place of a provider that cannot be used: it sends nothing to anybody.
_OFFLINE = "offline"
_NO_EFFECT = {"description": "Has no effect."}


def translate_providers(
    layer: Layer, files: Sequence[Mapping[str, Any]], aliases: dict[str, str], warnings: list[str], outdated: list[str]
) -> Layer:
    """Return a layer without names of providers that mdrecall knows under another name, or does not have.

    ``aliases`` gets OpenClaw's name of a provider by the origin of the setting that names it, ``outdated`` a message
    for each setting that names a provider of an older version.
    """
    if not isinstance(layer.values, dict):
        return layer
    values = dict(layer.values)
    for setting, otherwise in (("provider", _OFFLINE), ("fallback", "none")):
        name = values.get(setting)
        origin = f"{layer.file}: {layer.at}.{setting}"
        if not layer.is_lenient and name == "minilm":
            del values[setting]
            about = "which this version does not have. Remove this line: the encoder replaces it and needs no setting."
            outdated.append(f'{origin} is "minilm", {about}')
        if not layer.is_lenient or not isinstance(name, str) or name.strip() in _OWN_NAMES:
            continue
        found = find_wire(name.strip(), files)
        values[setting] = found or otherwise
        if found:
            aliases[origin] = name.strip()
        else:
            warnings.append(f"{origin} is {name!r}, which mdrecall cannot use; it uses {otherwise!r} instead.")
    return layer._replace(values=values)


def find_wire(name: str, files: Sequence[Mapping[str, Any]]) -> str:
    """Return mdrecall's provider for one of OpenClaw's; empty if there is none."""
    api = look_up(files, "models", "providers", name, "api")
    if api == "ollama":
        return "ollama"
    if api in _OPENAI_WIRES or name in _OPENAI_LIKE:
        return "openai-compatible"
    has_address = bool(look_up(files, "models", "providers", name, "baseUrl"))
    return "openai-compatible" if api is None and has_address else ""


def list_unused(values: Mapping[str, Any]) -> list[str]:
    """Return the keys of a file that mdrecall accepts and does not use: the outermost ones, each once."""
    return list(dict.fromkeys(_walk(values, json_schema(), "")))


def _walk(values: Mapping[str, Any], schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield the keys of an object that its schema does not have, or that have no effect."""
    for name, value in values.items():
        known = schema["properties"].get(name, schema.get("additionalProperties", _NO_EFFECT))
        if known is _NO_EFFECT:
            yield prefix + name
        # What a strict section does not have has been reported already.
        elif known and "properties" in known and isinstance(value, Mapping):
            yield from _walk(value, known, f"{prefix}{name}.")
        elif known and known.get("type") == "array":
            for index, item in enumerate(value if isinstance(value, list) else ()):
                if isinstance(item, Mapping) and "properties" in known["items"]:
                    yield from _walk(item, known["items"], f"{prefix}{name}[{index}].")


def json_schema() -> dict[str, Any]:
    """Return the schema of ``openclaw.json`` and ``mdrecall.json`` as far as mdrecall reads them."""
    sections = {path: _section(section) for path, section in SECTIONS.items()}
    search, memory, plugins = sections["memorySearch"], sections["memory"], sections["plugins"]
    memory["properties"]["search"] = search
    workspace = {"type": "string", "description": "The folder with MEMORY.md and memory/."}
    defaults, compaction = sections["agents.defaults"], sections["agents.defaults.compaction"]
    agent = _open(
        {
            "id": {"type": "string", "description": "The name of the agent."},
            "default": {"type": "boolean", "description": "Use this agent when none is named."},
            "workspace": workspace,
            "agentDir": {"type": "string", "description": "The folder with its auth-profiles.json."},
            "memorySearch": search,
            "memory": _open({"search": search}),
            **{name: defaults["properties"][name] for name in PER_AGENT},
        }
    )
    defaults["properties"] |= {"workspace": workspace, "memorySearch": search, "compaction": compaction}
    defaults["properties"]["systemAgent"] = _open({"agentId": {"description": "The agent to use when none is named."}})
    agents = {"defaults": defaults, "list": {"type": "array", "items": agent}, "entries": _map(agent)}
    lancedb = _open({"enabled": {}, "config": sections["plugins.entries.memory-lancedb.config"]})
    deep = sections["plugins.entries.memory-core.config.dreaming.phases.deep"]
    core = _open({"enabled": {}, "config": _open({"dreaming": _open({"phases": _open({"deep": deep})})})})
    others = {"active-memory": _NO_EFFECT, "memory-wiki": _NO_EFFECT}
    # What is said about any other plugin is that plugin's business.
    plugins["properties"]["entries"] = _map({}, {"memory-core": core, "memory-lancedb": lancedb, **others})
    provider = _open({name: {} for name in ("api", "apiKey", "baseUrl", "headers")})
    properties = {
        "$schema": {},
        "agents": _open(agents),
        "auth": _open({"order": {}, "profiles": {}}),
        "bindings": {},
        "env": _map({}, {"shellEnv": _NO_EFFECT}),
        "memory": memory,
        "memorySearch": search,
        "models": _open({"providers": _map(provider)}),
        "plugins": plugins,
        "secrets": _open({"providers": {}, "defaults": {}}),
        **{name: sections[name] for name in ("logging", "tools", "session", "mdrecall")},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "OpenClaw configuration, as far as mdrecall reads it",
        **_open(properties),
    }


def _open(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _map(values: dict[str, Any], known: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    return {"type": "object", "properties": dict(known), "additionalProperties": values}


def _section(section: type[Section]) -> dict[str, Any]:
    schema = _open(dict.fromkeys(section.dropped, _NO_EFFECT))
    for name, entry in section.entries.items():
        if not isinstance(entry, Setting):
            schema["properties"][name] = _section(entry)
            continue
        schema["properties"][name] = described = {**entry.rule.schema, "description": entry.about}
        if entry.default is not None:
            described["default"] = list(entry.default) if isinstance(entry.default, tuple) else entry.default
    return schema | {"additionalProperties": False} if section.is_strict else schema
