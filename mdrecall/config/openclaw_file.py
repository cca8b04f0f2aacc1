"""What may stand in OpenClaw's own file: the JSON Schema of what mdrecall reads, and what it reads otherwise or not.

OpenClaw decides what its file may hold, so nothing in it stops mdrecall: see ``docs/config.md``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mdrecall.config.declare import Section, Setting
from mdrecall.config.layers import Layer, look_up
from mdrecall.config.openclaw_settings import PER_AGENT, PROVIDERS
from mdrecall.config.settings import SECTIONS

_OWN_NAMES = ("auto", "none", *PROVIDERS)
#: OpenClaw's providers that speak the wire of OpenAI.
_OPENAI_LIKE = ("lmstudio", "deepinfra")
#: Wires of ``models.providers.<id>.api`` with an embeddings API like OpenAI's; a provider without ``api`` has it too.
_OPENAI_WIRES = ("openai", "openai-completions", "openai-responses")
#: What takes the place of a provider that cannot be used: it sends nothing to anybody.
_OFFLINE = "offline"

#: Marks a branch of ``_USED`` in which every key is used, or is reported by the check of its section.
_ALL = True
Branch = Mapping[str, Any] | bool


def translate_providers(
    layer: Layer, files: Sequence[Mapping[str, Any]], aliases: dict[str, str], warnings: list[str]
) -> Layer:
    """Return a layer without names of providers that mdrecall knows under another name, or does not have.

    ``aliases`` gets OpenClaw's name of a provider by the origin of the setting that names it.
    """
    if not layer.is_lenient or not isinstance(layer.values, dict):
        return layer
    values = dict(layer.values)
    for setting, otherwise in (("provider", _OFFLINE), ("fallback", "none")):
        name = values.get(setting)
        if not isinstance(name, str) or name.strip() in _OWN_NAMES:
            continue
        origin = f"{layer.file}: {layer.at}.{setting}"
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
    return list(dict.fromkeys(_walk(values, _used_keys(), "")))


def is_used(at: str, values: Mapping[str, Any]) -> bool:
    """True if a key of a file is used; the configuration of a plugin is only while that is in the memory slot."""
    slot = look_up([values], "plugins", "slots", "memory")
    plugin = f"plugins.entries.{slot}."
    if at.startswith("plugins.entries.") and not at.startswith(plugin):
        return False
    return not any(at == name or at.startswith((f"{name}.", f"{name}[")) for name in list_unused(values))


def _walk(values: Mapping[str, Any], used: Branch, prefix: str) -> Iterator[str]:
    for name, value in values.items():
        branch = used if isinstance(used, bool) else used.get(name, used.get("*"))
        if branch is None:
            yield prefix + name
        elif isinstance(branch, Mapping):
            if isinstance(value, Mapping):
                yield from _walk(value, branch, f"{prefix}{name}.")
            for index, item in enumerate(value if isinstance(value, list) else ()):
                if isinstance(item, Mapping):
                    yield from _walk(item, branch, f"{prefix}{name}[{index}].")


def _used_keys() -> dict[str, Any]:
    """Return every key that mdrecall uses, as a tree; ``*`` stands for any name."""
    search = _branch(SECTIONS["memorySearch"])
    agent: dict[str, Any] = dict.fromkeys(("id", "default", "workspace", "agentDir"), _ALL)
    agent |= {name: _branch(SECTIONS["agents.defaults"])[name] for name in PER_AGENT}
    agent |= {"memorySearch": search, "memory": {"search": search}}
    defaults = _branch(SECTIONS["agents.defaults"]) | {"workspace": _ALL, "memorySearch": search}
    defaults |= {"compaction": _branch(SECTIONS["agents.defaults.compaction"]), "systemAgent": {"agentId": _ALL}}
    provider = dict.fromkeys(("api", "apiKey", "auth", "baseUrl", "headers"), _ALL)
    lancedb = _branch(SECTIONS["plugins.entries.memory-lancedb.config"])
    deep = _branch(SECTIONS["plugins.entries.memory-core.config.dreaming.phases.deep"])
    # What a plugin's own configuration means is that plugin's business; two of OpenClaw's are not in mdrecall.
    plugins: dict[str, Any] = dict.fromkeys(("active-memory", "memory-wiki"))
    plugins["memory-core"] = {"enabled": _ALL, "config": {"dreaming": {"phases": {"deep": deep}}}}
    plugins |= {"memory-lancedb": {"enabled": _ALL, "config": lancedb}, "*": {"enabled": _ALL, "config": _ALL}}
    return {
        "$schema": _ALL,
        "agents": {"defaults": defaults, "list": agent, "entries": {"*": agent}},
        "auth": {"order": _ALL, "profiles": _ALL},
        "env": {"shellEnv": {}, "*": _ALL},
        "models": {"providers": {"*": provider}},
        "secrets": {"providers": _ALL, "defaults": _ALL},
        "bindings": _ALL,
        "memory": _branch(SECTIONS["memory"]) | {"search": search},
        "memorySearch": search,
        "plugins": _branch(SECTIONS["plugins"]) | {"entries": plugins},
        **{name: _branch(SECTIONS[name]) for name in ("logging", "mdrecall", "tools", "session")},
    }


def _branch(section: type[Section]) -> dict[str, Any]:
    """Return the used keys of a section. An unknown key of a strict one has been reported already."""
    branch: dict[str, Any] = {"*": _ALL} if section.is_strict else {}
    branch |= dict.fromkeys(section.dropped)
    for name, entry in section.entries.items():
        branch[name] = _ALL if isinstance(entry, Setting) else _branch(entry)
    return branch


def json_schema() -> dict[str, Any]:
    """Return the schema of ``openclaw.json`` and ``mdrecall.json`` as far as mdrecall reads them."""
    sections = {path: _section(section) for path, section in SECTIONS.items()}
    search, memory, plugins = sections["memorySearch"], sections["memory"], sections["plugins"]
    memory["properties"]["search"] = search
    workspace = {"type": "string", "description": "The folder with MEMORY.md and memory/."}
    agent = _open(
        {
            "id": {"type": "string", "description": "The name of the agent."},
            "default": {"type": "boolean", "description": "Use this agent when none is named."},
            "workspace": workspace,
            "agentDir": {"type": "string", "description": "The folder with its auth-profiles.json."},
            "memorySearch": search,
            "memory": _open({"search": search}),
        }
    )
    defaults, compaction = sections["agents.defaults"], sections["agents.defaults.compaction"]
    defaults["properties"] |= {"workspace": workspace, "memorySearch": search, "compaction": compaction}
    agents = _open(
        {
            "defaults": defaults,
            "list": {"type": "array", "items": agent},
            "entries": {"type": "object", "additionalProperties": agent},
        }
    )
    lancedb = _open({"config": sections["plugins.entries.memory-lancedb.config"]})
    deep = sections["plugins.entries.memory-core.config.dreaming.phases.deep"]
    core = _open({"config": _open({"dreaming": _open({"phases": _open({"deep": deep})})})})
    plugins["properties"]["entries"] = _open({"memory-core": core, "memory-lancedb": lancedb})
    properties = {"agents": agents, "memory": memory, "memorySearch": search, "plugins": plugins}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "OpenClaw configuration, as far as mdrecall reads it",
        **_open(properties | {name: sections[name] for name in ("logging", "tools", "session", "mdrecall")}),
    }


def _open(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _section(section: type[Section]) -> dict[str, Any]:
    dropped: dict[str, Any] = {name: {"description": "Has no effect."} for name in section.dropped}
    schema = _open(dropped | {name: _entry(entry) for name, entry in section.entries.items()})
    return schema | {"additionalProperties": False} if section.is_strict else schema


def _entry(entry: Setting | type[Section]) -> dict[str, Any]:
    if not isinstance(entry, Setting):
        return _section(entry)
    described = {**entry.rule.schema, "description": entry.about}
    if entry.default is None:
        return described
    return described | {"default": list(entry.default) if isinstance(entry.default, tuple) else entry.default}
