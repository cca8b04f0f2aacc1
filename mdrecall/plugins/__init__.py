"""The memory slot: the setting ``plugins.slots.memory`` names the plugin with an agent's memory tools and hooks.

A broken plugin is reported and takes nothing down. The names in ``__all__`` are public.
"""

import logging
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall.config.environment import find_locations
from mdrecall.config.load import Loaded
from mdrecall.config.settings import Plugins
from mdrecall.errors import RecallError, install_command, suggest_name
from mdrecall.memory import Memory
from mdrecall.optional import import_extra
from mdrecall.tools.toolset import Toolset

if TYPE_CHECKING:
    from mdrecall.life.forget import Forgetting

__all__ = ["Hooks", "open_slot"]

_log = logging.getLogger(__name__)
#: The plugin of the notes in Markdown, its id in OpenClaw's slot, and the plugin of long-term memories in LanceDB.
CORE, _OWN, _LANCEDB = "memory-core", "memory-mdrecall", "memory-lancedb"
PLUGINS = (CORE, _LANCEDB)


class Hooks:
    """What an agent loop calls around a turn; these do nothing. Hooks never raise: a turn does not need the memory."""

    def before_agent_start(self, prompt: str, session_key: str = "") -> str:
        """Return a text to put before the prompt; empty for none."""
        return ""

    def agent_end(self, messages: Sequence[Any], success: bool, session_key: str = "") -> None:
        """Take note of a finished turn; ``messages`` is the whole run, oldest first, each with role and content."""


class Diagnostic(NamedTuple):
    """A problem with the plugin in the memory slot."""

    level: str
    """``warning``: it is as configured, but perhaps not as meant. ``error``: the plugin cannot be used."""
    plugin: str
    problem: str
    hint: str = ""


class Slot(NamedTuple):
    """What the memory slot gives to a conversation."""

    toolset: Toolset = Toolset(())
    hooks: Hooks = Hooks()
    diagnostics: tuple[Diagnostic, ...] = ()
    plugin: str = ""
    """The id of the open plugin; empty if there is none."""
    close: Callable[[], None] = lambda: None
    """Closes everything that was opened for the slot; may be called twice."""


def import_lancedb() -> Any:
    """Return the module of long-term memories, which needs the extra ``lancedb`` once memories are opened."""
    return import_extra("lancedb", "plugin")


def choose_plugin(plugins: Plugins) -> tuple[str, str]:
    """Return the plugin that the settings choose, and why there is none although the slot names one."""
    wanted = plugins.slots.memory.strip()
    if wanted.lower() == "none":
        return "", ""
    if not plugins.enabled:
        return "", "plugins.enabled is false"
    if wanted in (name.strip() for name in plugins.deny):
        return "", f"plugins.deny has {wanted}"
    allowed = [name.strip() for name in plugins.allow]
    if allowed and wanted not in allowed:
        return "", f"plugins.allow does not have {wanted}"
    return CORE if wanted == _OWN else wanted, ""


def diagnose(loaded: Loaded) -> tuple[str, tuple[Diagnostic, ...]]:
    """Return which plugin is the memory, and what is wrong with it as far as can be seen without opening it."""
    plugin, why = choose_plugin(loaded.settings.plugins)
    if why:
        slot = loaded.settings.plugins.slots.memory
        return plugin, (Diagnostic("warning", slot, f"There is no memory plugin: {why}."),)
    if plugin and plugin not in PLUGINS:
        known = suggest_name(plugin, [*PLUGINS, "none"])
        problem = f"plugins.slots.memory names {plugin}, which is not installed{known}."
        return plugin, (Diagnostic("warning", plugin, problem, "Correct the name."),)
    if plugin == _LANCEDB and (missing := [name for name in ("lancedb", "pyarrow") if find_spec(name) is None]):
        problem = f"The plugin {plugin} needs the Python package {missing[0]}: it is not installed."
        return plugin, (Diagnostic("error", plugin, problem, f"Install it with `{install_command('lancedb')}`."),)
    return plugin, ()


def open_slot(loaded: Loaded, session_key: str = "", *, memory: Memory | None = None) -> Slot:
    """Open the plugin in the memory slot. Nothing is raised: ``diagnostics`` says what is wrong.

    ``memory``, if it is open already, is used and not closed.
    """
    plugin, diagnostics = diagnose(loaded)
    if not plugin or diagnostics:
        return Slot(diagnostics=diagnostics)
    try:
        if plugin == _LANCEDB:
            tools, hooks, close = import_lancedb().open_plugin(loaded, session_key)
            return Slot(Toolset(tools), hooks, (), plugin, close)
        from mdrecall.tools.notes import memory_tools

        notes = memory or Memory.of(loaded)
        slot = Slot(Toolset(memory_tools(notes, session_key)), plugin=CORE)
        return slot if memory else slot._replace(close=notes.close)
    except RecallError as error:
        return Slot(diagnostics=(Diagnostic("error", plugin, str(error), error.hint),))
    except Exception as error:
        _log.warning("The plugin %s could not be opened.", plugin, exc_info=error)
        problem = f"The plugin {plugin} could not be opened: {type(error).__name__}: {error}."
        return Slot(diagnostics=(Diagnostic("error", plugin, problem, "This is a bug; the log has the details."),))


def open_forgetting(memory: Memory) -> "Forgetting":
    """Return what forgets in every place that mdrecall knows, the long-term memories and the log of hooks included."""
    from mdrecall.life.forget import Forgetting

    assert memory.loaded is not None, "a memory with plugins is opened by its settings"
    lancedb = import_lancedb()
    uri = lancedb.find_database(memory.loaded)
    others = [lancedb.LongTermPlaces(memory.loaded)] if uri and ("://" in uri or os.path.isdir(uri)) else []
    log = find_locations(memory.loaded.environment, memory.settings.workspace).hook_log
    return Forgetting(memory, others, [log])
