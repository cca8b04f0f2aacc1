"""Where OpenClaw keeps an agent's database and conversations: in the agent's folder, or as ``session.store`` says."""

import os

from mdrecall.config.credentials import find_agent_folder
from mdrecall.config.environment import Locations, expand
from mdrecall.config.layers import AgentEntry
from mdrecall.config.workspace import Workspace
from mdrecall.named_tuple import NamedTuple

_DATABASE = "openclaw-agent.sqlite"
_ENDING = ".sqlite"
#: OpenClaw's list of sessions before it had a database; a store is still named by it.
_LIST = "sessions.json"


class AgentFolders(NamedTuple):
    """Where the data of one agent are."""

    agent_dir: str
    """With the database that has the agent's keys."""
    sessions_dir: str
    """With transcripts, archives and ``sessions.json``."""
    session_database: str
    """Has the conversations; often that of ``agent_dir``."""


def find_agent_folders(
    store: str | None, entries: list[AgentEntry], locations: Locations, agent_id: str, place: Workspace
) -> AgentFolders:
    """Return where an agent's data are. What is not OpenClaw's has none of OpenClaw's conversations.

    A relative ``store`` is below OpenClaw's state folder: the folder that OpenClaw was started in is not known.
    """
    default = os.path.join(place.state_dir, "agents", agent_id)
    own = (entry.values for entry in entries if place.is_openclaws)
    agent_dir = find_agent_folder(own, os.path.join(default, "agent"), locations.home, locations.state_dir)
    sessions_dir = os.path.join(default, "sessions")
    if not store or not store.strip() or not place.is_openclaws:
        return AgentFolders(agent_dir, sessions_dir, os.path.join(agent_dir, _DATABASE))
    path = expand(store.replace("{agentId}", agent_id), locations.home, locations.state_dir)
    if path == os.path.join(sessions_dir, _LIST):
        return AgentFolders(agent_dir, sessions_dir, os.path.join(agent_dir, _DATABASE))
    folder = os.path.dirname(path)
    # As OpenClaw does, for a database in the folder of an agent.
    sessions = os.path.join(os.path.dirname(folder), "sessions") if os.path.basename(folder) == "agent" else folder
    return AgentFolders(agent_dir, sessions, _find_database(path, agent_id))


def _find_database(store: str, agent_id: str) -> str:
    """Return the database that belongs to a store: itself, or one whose name is derived from that of a list."""
    if store.endswith(_ENDING):
        return store
    folder, name = os.path.split(store)
    base = os.path.splitext(name)[0]
    if name == _LIST:
        parent = os.path.dirname(folder)
        if os.path.basename(folder) == "sessions" and os.path.basename(os.path.dirname(parent)) == "agents":
            return os.path.join(parent, "agent", _DATABASE)
        base = _DATABASE.removesuffix(_ENDING)
    # Agents that share a list have a database each, all but the first one with their name in it.
    own = os.path.join(folder, f"{base}.{agent_id}{_ENDING}")
    return own if os.path.lexists(own) else os.path.join(folder, base + _ENDING)
