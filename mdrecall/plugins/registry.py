"""Which plugin holds the memory slot, and what it gives; one that is broken is told of and takes nothing down."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mdrecall.config.load import Loaded
from mdrecall.config.settings import Plugins
from mdrecall.errors import EmbedderUnavailable, PluginError, RecallError
from mdrecall.interfaces import Embedder
from mdrecall.memory import Memory
from mdrecall.plugins.contract import GROUP, Diagnostic, Hooks, MemoryPlugin, NoHooks, OpenedPlugin, PluginContext
from mdrecall.tools.toolset import Tool, Toolset, ToolSpec

_log = logging.getLogger(__name__)
#: The plugin of the notes in Markdown.
CORE = "memory-core"
_HOW = "See docs/plugins.md for what a plugin has to be."
#: What may be raised while a plugin is loaded and opened; that it wants to end the program is no reason to do so.
_BROKEN = (Exception, SystemExit)


class _Absent(PluginError):
    """No package has the plugin; OpenClaw only warns of that."""


class Choice(NamedTuple):
    """Which plugin is the memory."""

    id: str
    """Empty if there is none."""
    why: str = ""
    """Why there is none although the slot names one."""


class Slot(NamedTuple):
    """What the memory slot gives to a conversation."""

    toolset: Toolset
    hooks: Hooks
    diagnostics: tuple[Diagnostic, ...]
    plugin: str
    """The id of the plugin that is at work; empty if none is."""
    close: Callable[[], None]
    """Lets go of everything that was opened for it; may be called twice."""


def choose_plugin(plugins: Plugins) -> Choice:
    """The plugin that the settings choose; ``plugins.enabled``, ``deny`` and ``allow`` overrule the slot."""
    wanted = plugins.slots.memory.strip()
    if wanted.lower() == "none":
        return Choice("")
    if not plugins.enabled:
        return Choice("", "plugins.enabled is false")
    if wanted in (name.strip() for name in plugins.deny):
        return Choice("", f"plugins.deny has {wanted}")
    allowed = [name.strip() for name in plugins.allow]
    if allowed and wanted not in allowed:
        return Choice("", f"plugins.allow does not have {wanted}")
    return Choice(wanted)


def find_plugin(wanted: str) -> MemoryPlugin:
    """The plugin with an id: one of ours, or what an entry point gives. ``PluginError`` says why there is none."""
    if wanted == CORE:
        from mdrecall.plugins.markdown import MemoryCore

        return MemoryCore()
    if wanted == "memory-lancedb":
        from mdrecall.plugins.lancedb.plugin import MemoryLanceDb

        return MemoryLanceDb()
    return _foreign(wanted)


def diagnose(loaded: Loaded) -> tuple[Choice, tuple[Diagnostic, ...]]:
    """Which plugin is the memory, and what is wrong with it as far as can be told without opening it."""
    choice = choose_plugin(loaded.settings.plugins)
    slot = loaded.settings.plugins.slots.memory
    if choice.why:
        return choice, (Diagnostic("warning", slot, f"There is no memory plugin: {choice.why}."),)
    if not choice.id:
        return choice, ()
    try:
        find_plugin(choice.id)
        if choice.id == "memory-lancedb":
            from mdrecall.plugins.lancedb.extra import installed

            installed()
    except PluginError as error:
        return choice, (_told(choice.id, error),)
    return choice, ()


def open_slot(loaded: Loaded, session_key: str = "", *, memory: Memory | None = None) -> Slot:
    """The tools and hooks of the plugin in the slot. Nothing is raised: what is wrong stands in ``diagnostics``.

    ``memory``, if it is open already, is used and not closed.
    """
    choice, diagnostics = diagnose(loaded)
    if not choice.id or diagnostics:
        return Slot(Toolset(()), NoHooks(), diagnostics, "", _nothing)
    shared = _Shared(loaded, memory)
    context = PluginContext(
        loaded, loaded.plugin_configs.get(choice.id, {}), session_key, shared.memory, lambda: _embedder(loaded)
    )
    opened: OpenedPlugin | None = None
    try:
        opened = _opened(choice.id, context)
        tools, hooks = Toolset(_checked_tools(choice.id, opened)), _checked_hooks(choice.id, opened)
    except _BROKEN as error:
        _closed(choice.id, opened)
        shared.close()
        return Slot(Toolset(()), NoHooks(), (_told(choice.id, error),), "", _nothing)

    def close() -> None:
        _closed(choice.id, opened)
        shared.close()

    return Slot(tools, _Guarded(choice.id, hooks), (), choice.id, close)


def _foreign(wanted: str) -> MemoryPlugin:
    from importlib.metadata import entry_points

    points = [point for point in entry_points(group=GROUP) if point.name == wanted]
    if not points:
        from mdrecall.errors import suggest_name

        known = dict.fromkeys(("memory-core", "memory-lancedb", *entry_points(group=GROUP).names, "none"))
        message = f"plugins.slots.memory names {wanted}, which is not there{suggest_name(wanted, known)}."
        raise _Absent(message, plugin=wanted, hint="Mend the name, or install the package that has it.")
    try:
        loaded: Any = points[0].load()
        plugin = loaded() if isinstance(loaded, type) else loaded
        is_plugin = isinstance(plugin, MemoryPlugin) and plugin.id == wanted
    except _BROKEN as error:
        said = f"The plugin {wanted} ({points[0].value}) cannot be loaded: {type(error).__name__}: {error}."
        raise PluginError(said, plugin=wanted, hint="Mend or reinstall its package.") from error
    if not is_plugin:
        said = f"What {points[0].value} gives is no memory plugin with the id {wanted}."
        raise PluginError(said, plugin=wanted, hint=_HOW)
    found: MemoryPlugin = plugin
    return found


def _opened(wanted: str, context: PluginContext) -> OpenedPlugin:
    opened: Any = find_plugin(wanted).open(context)
    if not isinstance(opened, OpenedPlugin):
        raise PluginError(f"The plugin {wanted} gave no tools(), hooks() and close().", plugin=wanted, hint=_HOW)
    return opened


def _checked_tools(wanted: str, opened: OpenedPlugin) -> list[Tool]:
    tools = list(opened.tools())
    for tool in tools:
        spec: Any = getattr(tool, "spec", None)
        if not isinstance(spec, ToolSpec) or not spec.name or not callable(getattr(tool, "call", None)):
            raise PluginError(f"A tool of the plugin {wanted} has no spec or no call().", plugin=wanted, hint=_HOW)
        schema: Any = spec.parameters
        if not isinstance(spec.name, str) or not isinstance(schema, dict) or schema.get("type") != "object":
            said = f"The tool {spec.name} of the plugin {wanted} has no schema of an object."
            raise PluginError(said, plugin=wanted, hint=_HOW)
    return tools


def _checked_hooks(wanted: str, opened: OpenedPlugin) -> Hooks:
    hooks: Any = opened.hooks() or NoHooks()
    if not isinstance(hooks, Hooks):
        said = f"The hooks of the plugin {wanted} lack before_agent_start or agent_end."
        raise PluginError(said, plugin=wanted, hint=_HOW)
    return hooks


def _embedder(loaded: Loaded) -> Embedder:
    from mdrecall.backends.embedders import choose_embedders

    chosen_ones = choose_embedders(loaded)
    if not chosen_ones.embedders:
        raise EmbedderUnavailable(
            f"There is no embedder: {chosen_ones.unusable_reason}", hint="See `mdrecall providers`."
        )
    return chosen_ones.embedders[0]


def _told(plugin: str, error: BaseException) -> Diagnostic:
    if isinstance(error, RecallError):
        level = "warning" if isinstance(error, _Absent) else "error"
        return Diagnostic(level, plugin, str(error), error.hint)
    _log.warning("The plugin %s could not be opened.", plugin, exc_info=error)
    said = f"The plugin {plugin} could not be opened: {type(error).__name__}: {error}."
    return Diagnostic("error", plugin, said, "This is a bug in the plugin; the log has the details.")


def _closed(plugin: str, opened: OpenedPlugin | None) -> None:
    try:
        if opened is not None:
            opened.close()
    except Exception:
        _log.warning("The plugin %s could not be closed.", plugin, exc_info=True)


def _nothing() -> None:
    return None


class _Shared:
    """The memory in Markdown, opened when it is first asked for."""

    def __init__(self, loaded: Loaded, memory: Memory | None) -> None:
        self._loaded = loaded
        self._given = memory
        self._own: Memory | None = None

    def memory(self) -> Memory:
        if self._given is not None:
            return self._given
        if self._own is None:
            self._own = Memory.of(self._loaded)
        return self._own

    def close(self) -> None:
        if self._own is not None:
            self._own.close()


class _Guarded:
    """Hooks that never raise: an agent's turn does not depend on its memory."""

    def __init__(self, plugin: str, hooks: Hooks) -> None:
        self._plugin = plugin
        self._hooks = hooks

    def before_agent_start(self, prompt: str, session_key: str = "") -> str:
        try:
            block: Any = self._hooks.before_agent_start(prompt, session_key)
        except Exception as error:
            self._warn("before_agent_start", error)
            return ""
        return block if isinstance(block, str) else ""

    def agent_end(self, messages: Sequence[Any], success: bool, session_key: str = "") -> None:
        try:
            self._hooks.agent_end(messages, success, session_key)
        except Exception as error:
            self._warn("agent_end", error)

    def _warn(self, hook: str, error: Exception) -> None:
        is_known = isinstance(error, RecallError)
        _log.warning("%s of the plugin %s failed: %s", hook, self._plugin, error, exc_info=None if is_known else error)
