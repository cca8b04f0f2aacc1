"""A JSON Schema of every setting, for editors."""

from typing import Any

from mdrecall.config import keys
from mdrecall.config.keys import Key, Section


def json_schema() -> dict[str, Any]:
    """The schema of ``openclaw.json`` and ``mdrecall.json`` as far as mdrecall reads them."""
    search = _section(keys.MEMORY_SEARCH)
    memory = _section(keys.MEMORY)
    memory["properties"]["search"] = search
    workspace = {"type": "string", "description": "The folder with MEMORY.md and memory/."}
    agent = _open(
        {
            "id": {"type": "string", "description": "The name of the agent."},
            "default": {"type": "boolean", "description": "Whether it is meant when none is named."},
            "workspace": workspace,
            "agentDir": {"type": "string", "description": "The folder with its auth-profiles.json."},
            "memorySearch": search,
            "memory": _open({"search": search}),
        }
    )
    defaults = _section(keys.DEFAULTS)
    defaults["properties"] |= {"workspace": workspace, "memorySearch": search, "compaction": _section(keys.COMPACTION)}
    agents = _open(
        {
            "defaults": defaults,
            "list": {"type": "array", "items": agent},
            "entries": {"type": "object", "additionalProperties": agent},
        }
    )
    plugins = _section(keys.PLUGINS)
    plugins["properties"]["entries"] = _open({"memory-lancedb": _open({"config": _section(keys.LANCEDB)})})
    properties = {"agents": agents, "memory": memory, "memorySearch": search, "plugins": plugins}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "OpenClaw configuration, as far as mdrecall reads it",
        **_open(properties | {"logging": _section(keys.LOGGING), "mdrecall": _section(keys.OWN)}),
    }


def _open(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _section(section: Section) -> dict[str, Any]:
    properties = {
        name: _key(entry) if isinstance(entry, Key) else _section(entry) for name, entry in section.keys.items()
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | {"additionalProperties": False} if section.strict else schema


def _key(key: Key) -> dict[str, Any]:
    described = {**key.rule.schema, "description": key.about}
    if key.default is None:
        return described
    return described | {"default": list(key.default) if isinstance(key.default, tuple) else key.default}
