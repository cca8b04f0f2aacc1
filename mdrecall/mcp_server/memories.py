"""The memories of a server: chosen by the command line, opened on first use, kept up to date, closed at the end."""

import logging
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mdrecall import errors
from mdrecall.config.layers import normalize_agent_id
from mdrecall.config.load import Loaded, list_agent_ids, load
from mdrecall.config.settings import Plugins
from mdrecall.config.workspace import CURRENT_FOLDER
from mdrecall.errors import ArgumentError, ConfigError, RecallError, message_with_hint
from mdrecall.types.sync import Progress

if TYPE_CHECKING:
    from mdrecall.memory import Memory

_log = logging.getLogger(__name__)
_NAME_AND_FOLDER = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,63})=(.+)", re.DOTALL)
_DEFAULT_PLUGINS = Plugins()
_SWITCH_ON = "Set memorySearch.enabled to true to use it."
#: How long closing waits for a thread that indexes; a sync stops at the next file.
_JOIN_S = 5.0
#: A client may name a memory with a text of any length; the error quotes this much of it.
_MAX_NAME_CHARS = 80


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
    config: str | None
    loaded: Loaded
    plugin: str
    """The id of the plugin in the memory slot; empty if there is none."""
    is_foreign: bool = False
    """True if it is the folder of a repository that is shared with others, and that nobody has named as a memory."""


def select_memories(selection: Selection, env: Mapping[str, str] | None = None) -> tuple[ServedMemory, ...]:
    """Return the selected memories, the default one first; raise now for one that cannot be used."""
    served = _select(selection, env)
    # Two folders under one name in a database would each replace what the other has indexed.
    folders: dict[tuple[str, str], str] = {}
    for each in served:
        if (store := each.loaded.shared_store) is not None:
            folder = os.path.realpath(each.loaded.settings.workspace)
            if folders.setdefault(store, folder) != folder:
                message = f"Two folders have the same name {store[1]!r} in the database."
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
    agents = list_agent_ids(env=env, config=selection.config) if selection.all_agents else selection.agents
    folders = [_split_name(text) for text in selection.workspaces]
    if len(folders) > 1 or (folders and folders[0][0]):
        return _select_workspaces(selection, folders, env)
    if selection.all_agents or len(agents) > 1:
        return _select_agents(selection, tuple(dict.fromkeys(agents)), env)
    folder, agent = folders[0][1] if folders else None, agents[0] if agents else None
    loaded = load(env=env, workspace=folder, agent=agent, config=selection.config, is_automatic=selection.is_automatic)
    is_fixed = folder is not None or loaded.values["workspace"].origin == CURRENT_FOLDER
    served = _describe(loaded, loaded.settings.agent_id, selection, is_fixed=is_fixed)
    if selection.is_automatic and is_fixed:
        # Most servers have a configured memory, and do not pay for loading this.
        from mdrecall.notes.repository import is_foreign

        served = served._replace(is_foreign=is_foreign(loaded))
    return (served,)


def _select_agents(
    selection: Selection, agents: tuple[str, ...], env: Mapping[str, str] | None
) -> tuple[ServedMemory, ...]:
    """Return the memories of agents; of all agents, without those that are switched off or were never used."""
    served = []
    failure: RecallError = errors.MemoryDisabled("The memory of every agent is switched off.", hint=_SWITCH_ON)
    for agent in agents:
        try:
            loaded = load(env=env, agent=agent, config=selection.config)
            served.append(_describe(loaded, loaded.settings.agent_id, selection))
        except (errors.WorkspaceError, errors.MemoryDisabled) as error:
            # OpenClaw makes the folder of an agent when that is first used.
            is_unused = isinstance(error, errors.WorkspaceError) and error.is_openclaws
            if not selection.all_agents or not (is_unused or isinstance(error, errors.MemoryDisabled)):
                raise
            failure = error if is_unused else failure
    if not served:
        raise failure
    return tuple(served)


def _select_workspaces(
    selection: Selection, folders: Sequence[tuple[str, str]], env: Mapping[str, str] | None
) -> tuple[ServedMemory, ...]:
    served: dict[str, ServedMemory] = {}
    agent = selection.agents[0] if selection.agents else None
    for name, folder in folders:
        loaded = load(env=env, workspace=folder, agent=agent, config=selection.config)
        name = normalize_agent_id(name or os.path.basename(os.path.realpath(loaded.settings.workspace)))
        if name in served:
            hint = "Give each a name of its own: --workspace NAME=DIR."
            raise ConfigError(f"Two workspaces are called {name!r}.", hint=hint)
        served[name] = _describe(loaded, name, selection, is_fixed=True)
    return tuple(served.values())


def _split_name(text: str) -> tuple[str, str]:
    """Return name and folder; the name is empty if there is none, or if the whole text is an existing folder."""
    match = _NAME_AND_FOLDER.fullmatch(text)
    return ("", text) if match is None or os.path.isdir(text) else (match[1], match[2])


def keep_tools(loaded: Loaded) -> Loaded:
    """Return the settings of a server, which has its tools also where the slot is OpenClaw's business.

    ``none`` in the slot of OpenClaw's file says that OpenClaw loads no memory, not that nobody does. A plugin that is
    not installed, in whichever file, may be one of OpenClaw's.
    """
    plugins, slot = loaded.settings.plugins, loaded.values["plugins.slots.memory"]
    if plugins.slots == _DEFAULT_PLUGINS.slots:
        return loaded
    if slot.value.strip().lower() == "none":
        keeps = any(each.is_lenient and slot.origin.startswith(f"{each.file}: ") for each in loaded.layers)
    else:
        from mdrecall.plugins import PLUGINS

        keeps = slot.value.strip() not in PLUGINS
    # The list of what OpenClaw may load names the plugin that is in its slot.
    plugins = plugins._replace(slots=_DEFAULT_PLUGINS.slots, allow=())
    return loaded._replace(settings=loaded.settings._replace(plugins=plugins)) if keeps else loaded


def _describe(loaded: Loaded, name: str, selection: Selection, *, is_fixed: bool = False) -> ServedMemory:
    if not loaded.settings.memory_search.enabled:
        origin = loaded.values["memorySearch.enabled"].origin
        message = f"The memory of agent {loaded.settings.agent_id} is switched off ({origin})."
        raise errors.MemoryDisabled(message, hint=_SWITCH_ON)
    if loaded.problem:
        _log.warning(loaded.problem)
    kept = keep_tools(loaded)
    if kept is not loaded:
        from mdrecall.plugins import diagnose

        for found in diagnose(loaded)[1]:
            _log.warning("%s This server has the tools of the notes.", found.problem)
    workspace = loaded.settings.workspace if is_fixed else None
    return ServedMemory(name, workspace, selection.config, kept, find_plugin(kept))


def find_plugin(loaded: Loaded) -> str:
    """Return the id of the plugin in the memory slot; empty if there is none."""
    if loaded.settings.plugins == _DEFAULT_PLUGINS:
        return str(_DEFAULT_PLUGINS.slots.memory)
    # Importing it takes as long as half of a start, and most servers have the default plugin.
    from mdrecall.plugins import choose_plugin

    return choose_plugin(loaded.settings.plugins)[0]


def may_append(loaded: Loaded) -> bool:
    """True if agents may append to notes: a server lets them unless the configuration says otherwise."""
    value = loaded.values["mdrecall.tools.append"]
    return bool(value.value) or value.origin == "default"


def open_served(served: ServedMemory) -> "Memory":
    # Imported here, so that the server answers the client's greeting before this is loaded.
    from mdrecall.memory import Memory

    return Memory.of(served.loaded)


class IndexRun(NamedTuple):
    """How far a memory has been brought up to date, or how that ended."""

    is_running: bool = False
    progress: Progress | None = None
    problem: str = ""
    """Why it could not be brought up to date."""


class Memories:
    """Memories by name; safe to use from several threads."""

    def __init__(
        self,
        served: Sequence[ServedMemory],
        open_memory: "Callable[[ServedMemory], Memory] | None" = None,
        share: "Callable[[Memory], Callable[[], None]] | None" = None,
    ) -> None:
        """``share`` lets other processes use a memory that is open and up to date; it returns what ends that."""
        self._share = share
        self._ends: list[Callable[[], None]] = []
        self._served = {each.name: each for each in served}
        self._open_memory = open_memory or open_served
        self._locks = {name: threading.Lock() for name in self._served}
        self._runs = dict.fromkeys(self._served, IndexRun())
        self._open: dict[str, Memory] = {}
        self._index_threads: list[threading.Thread] = []
        self._is_closed = False

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, that of the default memory first."""
        return tuple(self._served)

    @property
    def plugins(self) -> frozenset[str]:
        """The ids of the plugins in the memory slots; an empty text if a slot is empty."""
        return frozenset(served.plugin for served in self._served.values())

    @property
    def can_append(self) -> bool:
        """True if the configuration lets agents append to the notes of every memory."""
        return all(may_append(served.loaded) for served in self._served.values())

    @property
    def default(self) -> str:
        return next(iter(self._served))

    def describe(self, name: str, argument: str = "agent") -> ServedMemory:
        """Return what is known of a memory without opening it; ``argument`` is where a client has named it."""
        try:
            return self._served[name]
        except KeyError:
            message = f"There is no {argument.removesuffix('s')} {name[:_MAX_NAME_CHARS]!r} here."
            raise ArgumentError(message, name=argument, hint=f"There are: {', '.join(self._served)}.") from None

    def get(self, name: str) -> "Memory":
        """Return a memory, opened if it is not open yet."""
        served = self.describe(name)
        with self._locks[name]:
            memory = self._open.get(name)
            if memory is None:
                memory = self._open[name] = self._open_memory(served)
                run = partial(self._index_and_watch, name, memory)
                thread = threading.Thread(target=run, name="mdrecall-index", daemon=True)
                thread.start()
                # Only now, because a thread that is not running yet cannot be waited for.
                self._index_threads.append(thread)
                if self._is_closed:
                    memory.close()
        return memory

    def index_run(self, name: str) -> IndexRun:
        """Return how far a memory has been brought up to date."""
        return self._runs[self.describe(name).name]

    def _index_and_watch(self, name: str, memory: "Memory") -> None:
        """Bring a memory up to date, then watch its files; a search that comes meanwhile waits as it would anyway."""
        if memory.settings.memory_search.sync.watch:
            self._sync(name, memory)
        if self._is_closed:
            return
        try:
            memory.watch()
        except Exception:
            self._log_unexpected("The files of %s are not watched; each search checks for changes.", name)
        if self._share and not self._is_closed:
            self._ends.append(self._share(memory))

    def _sync(self, name: str, memory: "Memory") -> None:
        def report(progress: Progress) -> None:
            self._runs[name] = IndexRun(is_running=True, progress=progress)

        self._runs[name] = IndexRun(is_running=True)
        try:
            memory.sync(progress=report, stop=lambda: self._is_closed)
            self._runs[name] = IndexRun()
        except RecallError as error:
            self._runs[name] = IndexRun(problem=message_with_hint(error))
            if not self._is_closed:
                _log.warning("The memory of %s is not up to date: %s", name, message_with_hint(error))
        except Exception:
            self._runs[name] = IndexRun(problem="Something unexpected went wrong; the log says more.")
            self._log_unexpected("The memory of %s could not be brought up to date.", name)

    def _log_unexpected(self, message: str, name: str) -> None:
        # A memory that is closed in the middle of the work may fail in any way.
        if not self._is_closed:
            _log.exception(message, name)

    def close(self) -> None:
        """Close every open memory; may be called twice."""
        self._is_closed = True
        for end in list(self._ends):
            end()
        for memory in list(self._open.values()):
            memory.close()
        for thread in self._index_threads:
            thread.join(_JOIN_S)
