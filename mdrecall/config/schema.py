"""A JSON Schema of every setting, for editors."""

from typing import Any

from mdrecall.config.declare import Section, Setting
from mdrecall.config.settings import SECTIONS


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


def _section(section: Section) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _entry(entry) for name, entry in section.entries.items()},
    }
    return schema | {"additionalProperties": False} if section.strict else schema


def _entry(entry: Setting | Section) -> dict[str, Any]:
    if isinstance(entry, Section):
        return _section(entry)
    described = {**entry.rule.schema, "description": entry.about}
    if entry.default is None:
        return described
    return described | {"default": list(entry.default) if isinstance(entry.default, tuple) else entry.default}
