"""Which memories a server answers for, by the names that clients use."""

import logging
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from mdrecall.config.load import Loaded, list_agent_ids, load
from mdrecall.config.settings import Plugins, Settings, Slots
from mdrecall.config.workspace import CURRENT_FOLDER
from mdrecall.errors import ConfigError, MemoryDisabled, RecallError, WorkspaceError
from mdrecall.types.transcripts import normalize_agent_id

_log = logging.getLogger(__name__)
_NAME_AND_FOLDER = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,63})=(.+)", re.DOTALL)
_DEFAULT_PLUGINS = Plugins(enabled=True, allow=(), deny=(), slots=Slots("memory-core"))


class Selection(NamedTuple):
    """The memories that the command line asks for."""

    workspaces: tuple[str, ...] = ()
    """Folders, each optionally with a name: ``DIR`` or ``NAME=DIR``."""
    agents: tuple[str, ...] = ()
    all_agents: bool = False
    config: str | None = None
    read_only: bool = False
    """True to offer no tool that writes."""
    is_automatic: bool = False
    """True if a program starts the server, wherever that is."""


class ServedMemory(NamedTuple):
    """One memory of a server: its name, and what is needed to open it."""

    name: str
    workspace: str | None
    """The folder, if it was named or is where the server was started; None if the configuration names it."""
    agent: str
    config: str | None
    home: str
    plugin: str
    """The id of the plugin in the memory slot; empty if there is none."""
    can_append: bool
    """True if the configuration lets agents append to its notes."""
    settings: Settings
    shared_store: tuple[str, str] | None = None
    """The database that holds the index, and its name there; None if it is in a file."""
    is_foreign: bool = False
    """True if it is the folder of a repository that is shared with others, and that nobody has named as a memory."""


def select_memories(selection: Selection, env: Mapping[str, str] | None = None) -> tuple[ServedMemory, ...]:
    """Return the selected memories, the default one first; raise now for one that cannot be used."""
    return _refuse_shared_names(_select(selection, env))


def _refuse_shared_names(served: tuple[ServedMemory, ...]) -> tuple[ServedMemory, ...]:
    """Raise if two folders would be indexed under one name in a database: each would replace what the other has."""
    folders: dict[tuple[str, str], str] = {}
    for each in served:
        if each.shared_store is not None:
            folder = os.path.realpath(each.settings.workspace)
            if folders.setdefault(each.shared_store, folder) != folder:
                message = f"Two folders have the same name {each.shared_store[1]!r} in the database."
                hint = "Give each folder to an agent of its own, and do not set mdrecall.store.workspace."
                raise ConfigError(message, hint=hint)
    return served


def _select(selection: Selection, env: Mapping[str, str] | None) -> tuple[ServedMemory, ...]:
    if selection.all_agents and (selection.agents or selection.workspaces):
        message = "--all-agents cannot be combined with --agent or --workspace."
        raise RecallError(message, hint="Leave out --agent and --workspace.")
    if len(selection.agents) > 1 and selection.workspaces:
        hint = "Name one agent, whose settings apply to every workspace, or no workspace."
        raise RecallError("Several agents and workspaces cannot be matched to each other.", hint=hint)
    if selection.all_agents:
        ids = tuple(list_agent_ids(env=env, config=selection.config))
        return _select_agents(ids, selection.config, env, skip_unusable=True)
    if len(selection.workspaces) > 1 or (selection.workspaces and _split_name(selection.workspaces[0])[0]):
        return _select_workspaces(selection, env)
    if len(selection.agents) > 1:
        return _select_agents(tuple(dict.fromkeys(selection.agents)), selection.config, env)
    folder = selection.workspaces[0] if selection.workspaces else None
    agent = selection.agents[0] if selection.agents else None
    loaded = load(env=env, workspace=folder, agent=agent, config=selection.config, is_automatic=selection.is_automatic)
    _require_enabled(loaded)
    is_fixed = folder is not None or loaded.values["workspace"].origin == CURRENT_FOLDER
    workspace = loaded.settings.workspace if is_fixed else None
    served = _describe(loaded, loaded.settings.agent_id, workspace, selection.config)
    if selection.is_automatic and is_fixed:
        # Most servers have a configured memory, and do not pay for loading this.
        from mdrecall.sources.repository import is_foreign

        served = served._replace(is_foreign=is_foreign(loaded))
    return (served,)


def _select_agents(
    agents: tuple[str, ...], config: str | None, env: Mapping[str, str] | None, *, skip_unusable: bool = False
) -> tuple[ServedMemory, ...]:
    """Return the memories of agents; ``skip_unusable`` leaves out those that are switched off or were never used."""
    served = []
    missing: WorkspaceError | None = None
    for agent in agents:
        try:
            loaded = load(env=env, agent=agent, config=config)
        except WorkspaceError as error:
            # OpenClaw makes the folder of an agent when that is first used.
            if not (skip_unusable and error.is_openclaws):
                raise
            missing = error
            continue
        if skip_unusable and not loaded.settings.memory_search.enabled:
            continue
        served.append(_describe(_require_enabled(loaded), loaded.settings.agent_id, None, config))
    if not served and missing:
        raise missing
    if not served:
        raise MemoryDisabled("The memory of every agent is switched off.", hint="Set memorySearch.enabled to true.")
    return tuple(served)


def _select_workspaces(selection: Selection, env: Mapping[str, str] | None) -> tuple[ServedMemory, ...]:
    served: dict[str, ServedMemory] = {}
    agent = selection.agents[0] if selection.agents else None
    for text in selection.workspaces:
        name, folder = _split_name(text)
        loaded = _require_enabled(load(env=env, workspace=folder, agent=agent, config=selection.config))
        folder = loaded.settings.workspace
        name = normalize_agent_id(name or os.path.basename(os.path.realpath(folder)))
        if name in served:
            hint = "Give each a name of its own: --workspace NAME=DIR."
            raise ConfigError(f"Two workspaces are called {name!r}.", hint=hint)
        served[name] = _describe(loaded, name, folder, selection.config)
    return tuple(served.values())


def _split_name(text: str) -> tuple[str, str]:
    """Return name and folder; the name is empty if there is none, or if the whole text is an existing folder."""
    match = _NAME_AND_FOLDER.fullmatch(text)
    return ("", text) if match is None or os.path.isdir(text) else (match[1], match[2])


def _require_enabled(loaded: Loaded) -> Loaded:
    if not loaded.settings.memory_search.enabled:
        origin = loaded.values["memorySearch.enabled"].origin
        message = f"The memory of agent {loaded.settings.agent_id} is switched off ({origin})."
        raise MemoryDisabled(message, hint="Set memorySearch.enabled to true to use it.")
    return loaded


def keep_tools(loaded: Loaded) -> Loaded:
    """Return the settings of a server, which has its tools also where the slot is OpenClaw's business.

    ``none`` in the slot of OpenClaw's file says that OpenClaw loads no memory, not that nobody does. A plugin that is
    not installed, in whichever file, may be one of OpenClaw's.
    """
    plugins, slot = loaded.settings.plugins, loaded.values["plugins.slots.memory"]
    if plugins.slots == _DEFAULT_PLUGINS.slots:
        return loaded
    if slot.value.strip().lower() == "none":
        keeps = bool(loaded.openclaw_file) and slot.origin.startswith(f"{loaded.openclaw_file}: ")
    else:
        from mdrecall.plugins.registry import list_known

        keeps = slot.value.strip() not in list_known()
    # The list of what OpenClaw may load names the plugin that is in its slot.
    plugins = plugins._replace(slots=_DEFAULT_PLUGINS.slots, allow=())
    return loaded._replace(settings=loaded.settings._replace(plugins=plugins)) if keeps else loaded


def _describe(loaded: Loaded, name: str, workspace: str | None, config: str | None) -> ServedMemory:
    if loaded.problem:
        _log.warning(loaded.problem)
    kept = keep_tools(loaded)
    if kept is not loaded:
        from mdrecall.plugins.registry import diagnose

        for found in diagnose(loaded)[1]:
            _log.warning("%s This server has the tools of the notes.", found.problem)
    loaded = kept
    agent, plugin = loaded.settings.agent_id, _plugin_id(loaded.settings.plugins)
    return ServedMemory(
        name,
        workspace,
        agent,
        config,
        loaded.home,
        plugin,
        may_append(loaded),
        loaded.settings,
        loaded.shared_store,
    )


def may_append(loaded: Loaded) -> bool:
    """True if agents may append to notes: a server lets them unless the configuration says otherwise."""
    value = loaded.values["mdrecall.tools.append"]
    return bool(value.value) or value.origin == "default"


def _plugin_id(plugins: Plugins) -> str:
    if plugins == _DEFAULT_PLUGINS:
        return plugins.slots.memory
    # Importing it takes as long as half of a start, and most servers have the default plugin.
    from mdrecall.plugins.registry import choose_plugin

    return choose_plugin(plugins).id
