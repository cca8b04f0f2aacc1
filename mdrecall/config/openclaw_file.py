"""What OpenClaw's own file may hold that mdrecall does not have: providers under other names, and keys without a use.

OpenClaw decides what its file may hold, so nothing in it stops mdrecall: see ``docs/config.md``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mdrecall.config.declare import Section, Setting
from mdrecall.config.read import Layer, ResolvedValue
from mdrecall.config.references import look_up
from mdrecall.config.settings import PROVIDERS, SECTIONS
from mdrecall.config.settings.openclaw import PER_AGENT
from mdrecall.named_tuple import NamedTuple

_OWN_NAMES = ("auto", "none", *PROVIDERS)
#: OpenClaw's providers that speak the wire of OpenAI.
_OPENAI_LIKE = ("lmstudio", "deepinfra")
#: Wires of ``models.providers.<id>.api`` with an embeddings API like OpenAI's; a provider without ``api`` has it too.
_OPENAI_WIRES = ("openai", "openai-completions", "openai-responses")
#: What takes the place of a provider that cannot be used: it sends nothing to anybody.
_OFFLINE = "offline"

#: Counts for what a file of OpenClaw does not say because it cannot be read: nothing is sent to anybody, and no
#: conversation is shown to another person.
CAUTIOUS = {
    "memory": {"search": {"provider": _OFFLINE}},
    "session": {"dmScope": "per-account-channel-peer"},
    "tools": {"sessions": {"visibility": "self"}},
}

#: Marks a branch of ``_USED`` in which every key is used, or is reported by the check of its section.
_ALL = True
Branch = Mapping[str, Any] | bool


class Translation(NamedTuple):
    """A layer of OpenClaw's file with mdrecall's names of providers."""

    layer: Layer
    aliases: dict[str, str]
    """OpenClaw's name of a provider by the origin of the setting that names it."""
    warnings: tuple[str, ...]


def translate_providers(layer: Layer, files: Sequence[Mapping[str, Any]]) -> Translation:
    """Replace the names of providers that mdrecall knows under another name, or does not have."""
    if not layer.is_lenient or not isinstance(layer.values, dict):
        return Translation(layer, {}, ())
    values, aliases, warnings = dict(layer.values), {}, []
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
    return Translation(layer._replace(values=values), aliases, tuple(warnings))


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


def _branch(section: Section) -> dict[str, Any]:
    """Return the used keys of a section. An unknown key of a strict one has been reported already."""
    branch: dict[str, Any] = {"*": _ALL} if section.strict else {}
    for name, entry in section.entries.items():
        if isinstance(entry, Section):
            inner = _branch(entry)
            branch[name] = inner if _has_used(entry) else None
        else:
            branch[name] = _ALL if entry.is_used else None
    return branch


def _has_used(section: Section) -> bool:
    entries = section.entries.values()
    return any(entry.is_used if isinstance(entry, Setting) else _has_used(entry) for entry in entries)


def choose_sources(values: Mapping[str, ResolvedValue], files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of what is indexed and searched, after the rules that involve several of them.

    Conversations that are to be remembered are indexed, and found by a search that asks for them. OpenClaw's default is
    not enough for that: an embedding provider would be sent every conversation, and nobody has asked for it.
    """
    explicit = values["memorySearch.rememberAcrossConversations"].value
    remembers = _remembers_by_default(values, files) if explicit is None else explicit
    # In the older places of 2.x it takes more than a default to have conversations searched.
    is_newer = values["memorySearch.sources"].origin.endswith("memory.search.sources")
    has_sessions = values["memorySearch.experimental.sessionMemory"].value or (remembers and (is_newer or explicit))
    allowed = ("memory", "sessions") if has_sessions else ("memory",)
    named = [name for name in values["memorySearch.sources"].value if name in allowed] or ["memory"]
    with_notes = values["mdrecall.sessions.withNotes"].value
    return {
        "memorySearch.rememberAcrossConversations": remembers,
        "memorySearch.sources": tuple(dict.fromkeys([*named, "sessions"] if explicit else named)),
        "mdrecall.sessions.withNotes": "sessions" in named if with_notes is None else with_notes,
    }


def _remembers_by_default(values: Mapping[str, ResolvedValue], files: Sequence[Mapping[str, Any]]) -> bool:
    """True unless senders are kept apart: then one must not hear what another has said."""
    bindings = look_up(files, "bindings")
    each = [item for item in bindings if isinstance(item, dict)] if isinstance(bindings, list) else []
    keeps_apart = any(look_up([binding], "session", "dmScope") for binding in each)
    return values["session.dmScope"].value == "main" and not keeps_apart
