"""Which memories a server answers for, by the names that clients use."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from mdrecall.config.load import CURRENT_FOLDER, Loaded, list_agent_ids, load
from mdrecall.config.settings import Plugins, Slots
from mdrecall.errors import ConfigError, MemoryDisabled, RecallError
from mdrecall.types.agents import normal_agent_id

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,63})=(.+)", re.DOTALL)
_USUAL = Plugins(enabled=True, allow=(), deny=(), slots=Slots("memory-core"))


class Asked(NamedTuple):
    """What was asked for on the command line."""

    workspaces: tuple[str, ...] = ()
    """Folders, each perhaps with a name: ``DIR`` or ``NAME=DIR``."""
    agents: tuple[str, ...] = ()
    all_agents: bool = False
    config: str | None = None


class Place(NamedTuple):
    """One memory: what it is called, and what opens it."""

    name: str
    workspace: str | None
    """The folder, if it was named or is where the server was started; None if the configuration names it."""
    agent: str
    config: str | None
    home: str
    plugin: str
    """The one that holds the memory slot; empty if none does."""


def find_places(asked: Asked, env: Mapping[str, str] | None = None) -> tuple[Place, ...]:
    """Every memory that was asked for, the default one first; what cannot be used raises now and not later."""
    if asked.all_agents and (asked.agents or asked.workspaces):
        raise RecallError("--all-agents stands alone.", hint="Leave out --agent and --workspace.")
    if len(asked.agents) > 1 and asked.workspaces:
        hint = "Name one agent, whose settings count for every workspace, or no workspace."
        raise RecallError("Several agents and workspaces cannot be matched to each other.", hint=hint)
    if asked.all_agents:
        return _of_agents(tuple(list_agent_ids(env=env, config=asked.config)), asked.config, env, skip_disabled=True)
    if len(asked.workspaces) > 1 or (asked.workspaces and _split(asked.workspaces[0])[0]):
        return _of_workspaces(asked, env)
    if len(asked.agents) > 1:
        return _of_agents(tuple(dict.fromkeys(asked.agents)), asked.config, env)
    named = asked.workspaces[0] if asked.workspaces else None
    agent = asked.agents[0] if asked.agents else None
    loaded = _checked(load(env=env, workspace=named, agent=agent, config=asked.config))
    is_own = named is not None or loaded.values["workspace"].origin == CURRENT_FOLDER
    workspace = loaded.settings.workspace if is_own else None
    return (_place(loaded, loaded.settings.agent_id, workspace, asked.config),)


def _of_agents(
    agents: tuple[str, ...], config: str | None, env: Mapping[str, str] | None, *, skip_disabled: bool = False
) -> tuple[Place, ...]:
    places = []
    for agent in agents:
        loaded = load(env=env, agent=agent, config=config)
        if skip_disabled and not loaded.settings.memory_search.enabled:
            continue
        places.append(_place(_checked(loaded), loaded.settings.agent_id, None, config))
    if not places:
        raise MemoryDisabled("The memory of every agent is switched off.", hint="Set memorySearch.enabled to true.")
    return tuple(places)


def _of_workspaces(asked: Asked, env: Mapping[str, str] | None) -> tuple[Place, ...]:
    places: dict[str, Place] = {}
    for text in asked.workspaces:
        name, folder = _split(text)
        agent = asked.agents[0] if asked.agents else None
        loaded = _checked(load(env=env, workspace=folder, agent=agent, config=asked.config))
        folder = loaded.settings.workspace
        name = normal_agent_id(name or os.path.basename(os.path.realpath(folder)))
        if name in places:
            hint = "Give each a name of its own: --workspace NAME=DIR."
            raise ConfigError(f"Two workspaces are called {name!r}.", hint=hint)
        places[name] = _place(loaded, name, folder, asked.config)
    return tuple(places.values())


def _split(text: str) -> tuple[str, str]:
    """A name and a folder; the name is empty if there is none, or if a folder of the whole name is there."""
    found = _NAMED.fullmatch(text)
    return ("", text) if found is None or os.path.isdir(text) else (found[1], found[2])


def _checked(loaded: Loaded) -> Loaded:
    if not loaded.settings.memory_search.enabled:
        origin = loaded.values["memorySearch.enabled"].origin
        message = f"The memory of agent {loaded.settings.agent_id} is switched off ({origin})."
        raise MemoryDisabled(message, hint="Set memorySearch.enabled to true to use it.")
    return loaded


def _place(loaded: Loaded, name: str, workspace: str | None, config: str | None) -> Place:
    return Place(name, workspace, loaded.settings.agent_id, config, loaded.home, _plugin(loaded.settings.plugins))


def _plugin(plugins: Plugins) -> str:
    if plugins == _USUAL:
        return plugins.slots.memory
    # It takes as long to load as half of a start.
    from mdrecall.plugins.registry import chosen

    return chosen(plugins).id
