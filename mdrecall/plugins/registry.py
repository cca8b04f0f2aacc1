"""Finds and opens the plugin in the memory slot; a broken one is reported and takes nothing down.

The memory slot is the setting ``plugins.slots.memory``, which names the one plugin that is an agent's memory.
"""

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
_LANCEDB = "memory-lancedb"
_SEE_DOCS = "See docs/plugins.md for what a plugin has to be."
#: What may be raised while a plugin is loaded and opened. A plugin that calls sys.exit() must not end the program.
_ANY_FAILURE = (Exception, SystemExit)


class _PluginMissing(PluginError):
    """No installed package has the plugin. As in OpenClaw, that is only a warning."""


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
    """The id of the open plugin; empty if there is none."""
    close: Callable[[], None]
    """Closes everything that was opened for the slot; may be called twice."""


def choose_plugin(plugins: Plugins) -> Choice:
    """Return the plugin that the settings choose; ``plugins.enabled``, ``deny`` and ``allow`` overrule the slot."""
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
    """Return the plugin with an id, one of ours or an entry point's; raise ``PluginError`` if there is none."""
    if wanted == CORE:
        return MemoryCore()
    if wanted == _LANCEDB:
        from mdrecall.plugins.lancedb.plugin import MemoryLanceDb

        return MemoryLanceDb()
    return _load_entry_point(wanted)


def list_known() -> dict[str, None]:
    """Return the id of every plugin that is installed, ours first."""
    from importlib.metadata import entry_points

    return dict.fromkeys((CORE, _LANCEDB, *entry_points(group=GROUP).names))


def diagnose(loaded: Loaded) -> tuple[Choice, tuple[Diagnostic, ...]]:
    """Return which plugin is the memory, and what is wrong with it as far as can be seen without opening it."""
    choice = choose_plugin(loaded.settings.plugins)
    slot = loaded.settings.plugins.slots.memory
    if choice.why:
        return choice, (Diagnostic("warning", slot, f"There is no memory plugin: {choice.why}."),)
    if not choice.id:
        return choice, ()
    try:
        find_plugin(choice.id)
        if choice.id == _LANCEDB:
            from mdrecall.plugins.lancedb.table import require_packages

            require_packages()
    except PluginError as error:
        return choice, (_describe_failure(choice.id, error),)
    return choice, ()


def open_slot(loaded: Loaded, session_key: str = "", *, memory: Memory | None = None) -> Slot:
    """Open the plugin in the memory slot. Nothing is raised: ``diagnostics`` says what is wrong.

    ``memory``, if it is open already, is used and not closed.
    """
    choice, diagnostics = diagnose(loaded)
    if not choice.id or diagnostics:
        return Slot(Toolset(()), NoHooks(), diagnostics, "", _do_nothing)
    notes = _LazyMemory(loaded, memory)
    context = PluginContext(
        loaded, loaded.plugin_configs.get(choice.id, {}), session_key, notes.get, lambda: _make_embedder(loaded)
    )
    opened: OpenedPlugin | None = None
    try:
        opened = _open_plugin(choice.id, context)
        tools, hooks = Toolset(_validate_tools(choice.id, opened)), _validate_hooks(choice.id, opened)
    except _ANY_FAILURE as error:
        _close_plugin(choice.id, opened)
        notes.close()
        return Slot(Toolset(()), NoHooks(), (_describe_failure(choice.id, error),), "", _do_nothing)

    def close() -> None:
        _close_plugin(choice.id, opened)
        notes.close()

    return Slot(tools, _SafeHooks(choice.id, hooks), (), choice.id, close)


class MemoryCore:
    """``memory-core``, the default plugin: the tools that search and read the notes."""

    id = CORE

    def open(self, context: PluginContext) -> "OpenedCore":
        from mdrecall.tools.notes import memory_tools

        return OpenedCore(memory_tools(context.memory(), context.session_key))


class OpenedCore:
    """The note tools of one conversation."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def hooks(self) -> Hooks | None:
        return None

    def close(self) -> None:
        """Do nothing: the memory is closed by its opener."""


def _load_entry_point(wanted: str) -> MemoryPlugin:
    from importlib.metadata import entry_points

    points = [point for point in entry_points(group=GROUP) if point.name == wanted]
    if not points:
        from mdrecall.errors import suggest_name

        known = suggest_name(wanted, [*list_known(), "none"])
        message = f"plugins.slots.memory names {wanted}, which is not installed{known}."
        raise _PluginMissing(message, plugin=wanted, hint="Correct the name, or install the package that has it.")
    try:
        loaded: Any = points[0].load()
        plugin = loaded() if isinstance(loaded, type) else loaded
        is_plugin = isinstance(plugin, MemoryPlugin) and plugin.id == wanted
    except _ANY_FAILURE as error:
        message = f"The plugin {wanted} ({points[0].value}) cannot be loaded: {type(error).__name__}: {error}."
        raise PluginError(message, plugin=wanted, hint="Fix or reinstall its package.") from error
    if not is_plugin:
        message = f"{points[0].value} is not a memory plugin with the id {wanted}."
        raise PluginError(message, plugin=wanted, hint=_SEE_DOCS)
    found: MemoryPlugin = plugin
    return found


def _open_plugin(wanted: str, context: PluginContext) -> OpenedPlugin:
    opened: Any = find_plugin(wanted).open(context)
    if not isinstance(opened, OpenedPlugin):
        message = f"open() of the plugin {wanted} did not return tools(), hooks() and close()."
        raise PluginError(message, plugin=wanted, hint=_SEE_DOCS)
    return opened


def _validate_tools(wanted: str, opened: OpenedPlugin) -> list[Tool]:
    tools = list(opened.tools())
    for tool in tools:
        spec: Any = getattr(tool, "spec", None)
        if not isinstance(spec, ToolSpec) or not spec.name or not callable(getattr(tool, "call", None)):
            message = f"A tool of the plugin {wanted} has no spec or no call()."
            raise PluginError(message, plugin=wanted, hint=_SEE_DOCS)
        schema: Any = spec.parameters
        if not isinstance(spec.name, str) or not isinstance(schema, dict) or schema.get("type") != "object":
            message = f"The parameters of the tool {spec.name} of the plugin {wanted} are not the schema of an object."
            raise PluginError(message, plugin=wanted, hint=_SEE_DOCS)
    return tools


def _validate_hooks(wanted: str, opened: OpenedPlugin) -> Hooks:
    hooks: Any = opened.hooks() or NoHooks()
    if not isinstance(hooks, Hooks):
        message = f"The hooks of the plugin {wanted} lack before_agent_start or agent_end."
        raise PluginError(message, plugin=wanted, hint=_SEE_DOCS)
    return hooks


def _make_embedder(loaded: Loaded) -> Embedder:
    from mdrecall.backends.embedders import choose_embedders

    choice = choose_embedders(loaded)
    if not choice.embedders:
        message = f"There is no embedder: {choice.unusable_reason}"
        raise EmbedderUnavailable(message, hint="Check memorySearch.provider and its key.")
    return choice.embedders[0]


def _describe_failure(plugin: str, error: BaseException) -> Diagnostic:
    if isinstance(error, RecallError):
        level = "warning" if isinstance(error, _PluginMissing) else "error"
        return Diagnostic(level, plugin, str(error), error.hint)
    _log.warning("The plugin %s could not be opened.", plugin, exc_info=error)
    problem = f"The plugin {plugin} could not be opened: {type(error).__name__}: {error}."
    return Diagnostic("error", plugin, problem, "This is a bug in the plugin; the log has the details.")


def _close_plugin(plugin: str, opened: OpenedPlugin | None) -> None:
    try:
        if opened is not None:
            opened.close()
    except Exception:
        _log.warning("The plugin %s could not be closed.", plugin, exc_info=True)


def _do_nothing() -> None:
    return None


class _LazyMemory:
    """The memory in Markdown: the one that was passed in, or one of its own that is opened at the first use."""

    def __init__(self, loaded: Loaded, memory: Memory | None) -> None:
        self._loaded = loaded
        self._shared = memory
        self._own: Memory | None = None

    def get(self) -> Memory:
        if self._shared is not None:
            return self._shared
        if self._own is None:
            self._own = Memory.of(self._loaded)
        return self._own

    def close(self) -> None:
        if self._own is not None:
            self._own.close()


class _SafeHooks:
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
