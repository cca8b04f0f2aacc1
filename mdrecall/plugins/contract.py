"""What a memory plugin is.

A package offers one as an object like ``MemoryPlugin`` in the group ``mdrecall.memory`` of its entry points. Nothing
that a plugin raises reaches the agent. While it is opened, an error is reported and there is no memory plugin. In a
tool, it becomes an answer that says so. In a hook, it becomes a line in the log.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from mdrecall.config.load import Loaded
from mdrecall.config.settings import Settings
from mdrecall.interfaces import Embedder
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Tool

#: The group of entry points in which plugins are found; an entry point's name is the plugin's id.
GROUP = "mdrecall.memory"


class PluginContext(NamedTuple):
    """What a plugin may use."""

    loaded: Loaded
    config: Mapping[str, Any]
    """The value of ``plugins.entries.<id>.config``, unchecked."""
    session_key: str
    """The key of the conversation that the tools are for; empty if it is not known."""
    memory: Callable[[], Memory]
    """Returns the memory in Markdown, opened at the first call; the plugin must not close it."""
    embedder: Callable[[], Embedder]
    """Returns a new embedder as ``memorySearch`` configures it, offline by default; the plugin closes it."""

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def state_dir(self) -> str:
        """The folder for everything that is kept."""
        return self.loaded.settings.shared_dir


@runtime_checkable
class Hooks(Protocol):
    """What an agent loop calls around a turn."""

    def before_agent_start(self, prompt: str, session_key: str = "") -> str:
        """Return a text to put before the prompt; empty for none."""
        ...

    def agent_end(self, messages: Sequence[Any], success: bool, session_key: str = "") -> None:
        """Take note of a finished turn; ``messages`` is the whole run, oldest first, each with role and content."""
        ...


@runtime_checkable
class OpenedPlugin(Protocol):
    """A plugin at work."""

    def tools(self) -> Sequence[Tool]: ...

    def hooks(self) -> Hooks | None: ...

    def close(self) -> None:
        """Release everything; may be called twice."""
        ...


@runtime_checkable
class MemoryPlugin(Protocol):
    """What an entry point leads to: an object like this, or a class that makes one without arguments."""

    @property
    def id(self) -> str:
        """The name of the entry point."""
        ...

    def open(self, context: PluginContext) -> OpenedPlugin: ...


class Diagnostic(NamedTuple):
    """A problem with the plugin in the memory slot."""

    level: str
    """``warning``: it is as configured, but perhaps not as meant. ``error``: the plugin cannot be used."""
    plugin: str
    problem: str
    hint: str = ""


class NoHooks:
    """The hooks of a plugin that has none."""

    def before_agent_start(self, prompt: str, session_key: str = "") -> str:
        return ""

    def agent_end(self, messages: Sequence[Any], success: bool, session_key: str = "") -> None:
        return None
