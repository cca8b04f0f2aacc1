"""What a memory plugin is, for those who write one.

An object like ``MemoryPlugin`` stands in the group ``mdrecall.memory`` of a package's entry points. Nothing that a
plugin raises reaches the agent: while it is opened it is reported and there is no memory plugin; in a tool it is an
answer that says so; in a hook it is a line in the log.
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
    """What stands at ``plugins.entries.<id>.config``, unchecked."""
    session_key: str
    """The conversation that the tools are for; empty if it is not known."""
    memory: Callable[[], Memory]
    """The memory in Markdown, opened at the first call; it is not the plugin's to close."""
    embedder: Callable[[], Embedder]
    """An embedder of its own as ``memorySearch`` asks for it, offline by default; the plugin closes it."""

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def state_dir(self) -> str:
        """The folder under which things are kept."""
        return self.loaded.settings.state_dir


@runtime_checkable
class Hooks(Protocol):
    """What happens around a turn of the agent."""

    def before_agent_start(self, prompt: str, session_key: str = "") -> str:
        """What is put before the prompt; empty if nothing."""
        ...

    def agent_end(self, messages: Sequence[Any], success: bool, session_key: str = "") -> None:
        """The turn is over; ``messages`` are those of the whole run, oldest first, each with role and content."""
        ...


@runtime_checkable
class OpenedPlugin(Protocol):
    """A plugin at work."""

    def tools(self) -> Sequence[Tool]: ...

    def hooks(self) -> Hooks | None: ...

    def close(self) -> None:
        """Let go of everything; may be called twice."""
        ...


@runtime_checkable
class MemoryPlugin(Protocol):
    """What an entry point gives: an object like this, or a class that makes one without arguments."""

    @property
    def id(self) -> str:
        """The name of the entry point."""
        ...

    def open(self, context: PluginContext) -> OpenedPlugin: ...


class Diagnostic(NamedTuple):
    """Something to know about the slot."""

    level: str
    """``warning``: it is as configured, but perhaps not as meant; ``error``: the plugin cannot be used."""
    plugin: str
    problem: str
    hint: str = ""


class NoHooks:
    """The hooks of a plugin that has none."""

    def before_agent_start(self, prompt: str, session_key: str = "") -> str:
        return ""

    def agent_end(self, messages: Sequence[Any], success: bool, session_key: str = "") -> None:
        return None
