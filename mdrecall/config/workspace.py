"""Which folder is the workspace, and where its index, its conversations and its other state are.

Strongest first: the folder that the caller names, the current folder if it has notes and a person is in it, the folder
that ``mdrecall.json`` names, OpenClaw's workspace, the current folder. OpenClaw's state belongs to its own workspace.
Any other folder has its own in mdrecall's state folder, so that no workspace sees the conversations of another.
"""

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from mdrecall.config.environment import Locations, default_workspace, expand, is_disk, is_within, shorten
from mdrecall.config.layers import AgentEntry, Layer, layers_at, look_up
from mdrecall.config.settings import ResolvedValue
from mdrecall.errors import WorkspaceError
from mdrecall.patterns import is_note_file

#: The origin of a workspace that is neither configured nor given by the caller.
CURRENT_FOLDER = "the current folder"
#: The origin of a workspace that the caller gives.
_NAMED = "--workspace"
#: The file in an agent's folder that says which coding agents' conversations were switched on for its memory.
HOSTS_FILE = "hosts.json"
#: In the place of a host: what all hosts of a user, or of a project, have in common. It goes with the last one of them.
SHARED = "shared"
#: Folders below ``memory/`` that are looked into for a note; a workspace with notes has one in the first few.
_MAX_FOLDERS = 100
_DATABASE = "openclaw-agent.sqlite"
_ENDING = ".sqlite"
#: OpenClaw's list of sessions before it had a database; a store is still named by it.
_LIST = "sessions.json"


class WorkspaceRequest(NamedTuple):
    """Everything that decides which folder is the workspace."""

    locations: Locations
    env: Mapping[str, str]
    cwd: str
    files: list[Layer]
    entries: list[AgentEntry]
    """The entries of the agent."""
    agent_id: str
    is_default_agent: bool
    is_agents_own: bool
    """True if the agent's own workspace is meant, wherever the caller is: because the agent is named, or because no
    person chose the current folder, which may be a repository that somebody else has written."""
    folder: str | None
    """The folder that the caller names."""
    config: str | None
    """The only configuration file to read, if the caller names one."""


class Workspace(NamedTuple):
    """The folder with an agent's notes, and the places of everything that is kept about it."""

    folder: ResolvedValue
    index_path: ResolvedValue
    index_is_ours: bool
    state_dir: str
    shared_dir: str
    qmd_dir: str
    is_openclaws: bool
    """True if it is the workspace of one of OpenClaw's agents."""
    is_elsewhere: bool
    """True if the caller neither named it nor is in it."""


def find_workspace(request: WorkspaceRequest, store_path: ResolvedValue) -> Workspace:
    """Return the workspace and the places of its state; ``store_path`` is the configured index. Nothing is created."""
    agents_folder = _find_agents_folder(request)
    folder = _choose_folder(request, agents_folder)
    labels = ("default", *(f"{file.file}: " for file in request.files if file.is_lenient))
    problems = [file.problem for file in request.files if file.problem]
    _require_folder(folder, problems, is_openclaws=folder == agents_folder and folder.origin.startswith(labels))
    is_agents = agents_folder is not None and os.path.realpath(agents_folder.value) == os.path.realpath(folder.value)
    is_openclaws = is_agents and _has_openclaw(request)
    locations, agent_id = request.locations, request.agent_id
    shared_dir = locations.state_dir if _has_openclaw(request) else locations.own_state_dir
    own_dir = os.path.join(locations.own_state_dir, "workspaces", _folder_id(folder.value))
    state_dir = locations.state_dir if is_openclaws else own_dir
    index_path, index_is_ours = _locate_index(request, store_path, folder.value, is_openclaws)
    qmd_dir = os.path.join(state_dir, "agents", agent_id, "qmd")
    if index_path.origin == "default" and not is_openclaws:
        qmd_dir = f"{index_path.value.removesuffix('.sqlite')}.qmd"
    is_elsewhere = folder.origin != _NAMED and not _is_inside(request.cwd, folder.value)
    return Workspace(folder, index_path, index_is_ours, state_dir, shared_dir, qmd_dir, is_openclaws, is_elsewhere)


def has_notes(folder: str, home: str) -> bool:
    """True if a folder has notes directly in it or in ``memory/``; a home folder or a whole disk never counts.

    A name in capitals, such as README.md or AGENTS.md, is that of a project's document: a program that is started in a
    project must not take it for a memory. MEMORY.md is one.
    """
    notes = (name for name in _list_markdown(folder) if not name.split(".")[0].isupper())
    return has_memory(folder, home) or (any(notes) and not _is_too_wide(folder, home))


def has_memory(folder: str, home: str) -> bool:
    """True if a folder has ``MEMORY.md``, or notes in ``memory/``: somebody keeps a memory there.

    Unlike in ``has_notes``, other Markdown does not count: most repositories have some, and a program that is started
    there by itself must not write to them.
    """
    folders = (path for path, _, _ in islice(os.walk(os.path.join(folder, "memory")), _MAX_FOLDERS))
    has_any = "MEMORY.md" in _list_markdown(folder) or any(any(_list_markdown(path)) for path in folders)
    return has_any and not _is_too_wide(folder, home)


def _is_too_wide(folder: str, home: str) -> bool:
    real = os.path.realpath(folder)
    return is_disk(real) or real == os.path.realpath(home)


def locate_receipt(own_state_dir: str, host: str, project: str = "") -> str:
    """Return the path of the file that tells what is installed for a host: for the user, or in a project."""
    suffix = f"-{zlib.crc32(os.path.realpath(project).encode()):08x}" if project else ""
    return os.path.join(own_state_dir, "installed", f"{host}{suffix}.json")


def find_agent_folder(entries: Iterable[Mapping[str, Any]], default: str, home: str, relative_to: str) -> str:
    """Return the folder with an agent's keys: the first ``agentDir`` among its entries, else the default."""
    paths = (entry.get("agentDir") for entry in entries)
    path = next((path for path in paths if isinstance(path, str) and path.strip()), default)
    return expand(path, home, relative_to)


def find_agent_folders(
    store: str | None, entries: list[AgentEntry], locations: Locations, agent_id: str, place: Workspace
) -> tuple[str, str, str]:
    """Return the folder with an agent's keys, that with its transcripts, and the database with its conversations.

    A workspace that is not OpenClaw's has none of OpenClaw's conversations. A relative ``store`` is below OpenClaw's
    state folder: the folder that OpenClaw was started in is not known.
    """
    default = os.path.join(place.state_dir, "agents", agent_id)
    own = (entry.values for entry in entries if place.is_openclaws)
    agent_dir = find_agent_folder(own, os.path.join(default, "agent"), locations.home, locations.state_dir)
    sessions_dir = os.path.join(default, "sessions")
    named = (store or "").replace("{agentId}", agent_id)
    path = expand(named, locations.home, locations.state_dir)
    if not named.strip() or not place.is_openclaws or path == os.path.join(sessions_dir, _LIST):
        return agent_dir, sessions_dir, os.path.join(agent_dir, _DATABASE)
    folder = os.path.dirname(path)
    # As OpenClaw does, for a database in the folder of an agent.
    sessions = os.path.join(os.path.dirname(folder), "sessions") if os.path.basename(folder) == "agent" else folder
    return agent_dir, sessions, _find_database(path, agent_id)


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


def _choose_folder(request: WorkspaceRequest, agents_folder: ResolvedValue | None) -> ResolvedValue:
    if request.folder is not None:
        return ResolvedValue(expand(request.folder, request.locations.home, request.cwd), _NAMED)
    here = ResolvedValue(request.cwd, CURRENT_FOLDER)
    if agents_folder is None:
        return here
    is_named = request.is_agents_own or (request.config is not None and agents_folder.origin != "default")
    if is_named or _is_inside(request.cwd, agents_folder.value):
        return agents_folder
    return here if has_notes(request.cwd, request.locations.home) else agents_folder


def _find_agents_folder(request: WorkspaceRequest) -> ResolvedValue | None:
    """Return the agent's own workspace: the configured one, else OpenClaw's default; None without OpenClaw."""
    if configured := _configured_folder(request):
        return configured
    if not _has_openclaw(request):
        return None
    if request.is_default_agent:
        return ResolvedValue(default_workspace(request.locations, request.env), "default")
    # Newer OpenClaws have the default folder of a further agent below that of all agents.
    locations, agent_id = request.locations, request.agent_id
    root = look_up([file.values for file in request.files], "agents", "defaults", "workspace")
    if isinstance(root, str) and (bare := root.replace("\0", "").strip()):
        folder = expand(os.path.join(bare, agent_id), locations.home, locations.state_dir)
        if os.path.isdir(folder):
            return ResolvedValue(folder, "default")
    return ResolvedValue(os.path.join(locations.state_dir, f"workspace-{agent_id}"), "default")


def _configured_folder(request: WorkspaceRequest) -> ResolvedValue | None:
    places = [(entry.values, entry.file, entry.at) for entry in request.entries]
    if request.is_default_agent:
        places += [(layer.values, layer.file, layer.at) for layer in layers_at(request.files, "agents.defaults", [])]
    for values, file, at in places:
        path = values.get("workspace") if isinstance(values, dict) else None
        if isinstance(path, str) and (bare := path.replace("\0", "").strip()):
            folder = expand(bare, request.locations.home, request.locations.state_dir)
            return ResolvedValue(folder, f"{file}: {at}.workspace")
    return None


def _has_openclaw(request: WorkspaceRequest) -> bool:
    """True if OpenClaw is set up here; its configuration does not count when the caller names another file."""
    has_config = request.locations.config_path is not None and request.config is None
    return has_config or os.path.isdir(default_workspace(request.locations, request.env))


def _require_folder(folder: ResolvedValue, problems: list[str], *, is_openclaws: bool) -> None:
    path = folder.value
    if "\0" in path or not os.path.exists(path):
        hint = " ".join(["Create it, or choose another folder.", *problems])
        message = f"There is no workspace folder {path!r} (from {folder.origin})."
        raise WorkspaceError(message, hint=hint, is_openclaws=is_openclaws)
    if not os.path.isdir(path):
        hint = "Choose the folder with MEMORY.md or memory/, not a file."
        raise WorkspaceError(f"The workspace {path!r} is not a folder (from {folder.origin}).", hint=hint)


def _locate_index(
    request: WorkspaceRequest, configured: ResolvedValue, folder: str, is_openclaws: bool
) -> tuple[ResolvedValue, bool]:
    """Return the path of the index, and True if only mdrecall writes there."""
    locations, agent_id = request.locations, request.agent_id
    openclaws = shorten(locations.config_path or "", locations.home)
    is_shared = bool(openclaws) and configured.origin.startswith(f"{openclaws}: ")
    if configured.value is not None and configured.value.strip() and (is_openclaws or not is_shared):
        path = configured.value.replace("{agentId}", agent_id).replace("\0", "")
        path = expand(path, locations.home, locations.state_dir)
        if is_shared:
            # Neither program can use the other's.
            stem, extension = os.path.splitext(path)
            beside = f"{stem}.mdrecall{extension or '.sqlite'}"
            return ResolvedValue(beside, f"{configured.origin}, beside OpenClaw's own"), True
        return ResolvedValue(path, configured.origin), False
    if is_openclaws and os.path.isdir(locations.state_dir):
        path = os.path.join(locations.state_dir, "memory", f"{agent_id}.mdrecall.sqlite")
    else:
        suffix = "" if agent_id == "main" else f"-{agent_id}"
        path = os.path.join(locations.own_state_dir, "index", f"{_folder_id(folder)}{suffix}.sqlite")
    return ResolvedValue(path, "default"), True


def _folder_id(folder: str) -> str:
    """Return a file name that stands for a folder."""
    real = os.path.realpath(folder)
    digest = f"{zlib.crc32(os.fsencode(real)):08x}"
    # 40 characters show which folder it is; the digest tells equal names apart, and file names stay below 255 bytes.
    name = "".join(char if char.isalnum() or char in "._-" else "-" for char in os.path.basename(real))[:40]
    return f"{name or 'root'}-{digest}"


def _list_markdown(folder: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as found:
        yield from (entry.name for entry in found if is_note_file(entry.name) and entry.is_file(follow_symlinks=False))


def _is_inside(path: str, folder: str) -> bool:
    """True if a path is a folder or lies in it, whatever links lead there."""
    return is_within(os.path.realpath(path), os.path.realpath(folder))
