"""``memory-core``: the memory in Markdown as a plugin, which is what the slot holds by default."""

from collections.abc import Sequence

from mdrecall.plugins.contract import Hooks, PluginContext
from mdrecall.tools.toolset import Tool


class MemoryCore:
    """Gives the tools that search and read notes."""

    id = "memory-core"

    def open(self, context: PluginContext) -> "OpenedCore":
        from mdrecall.tools.notes import memory_tools

        return OpenedCore(memory_tools(context.memory(), context.session_key))


class OpenedCore:
    """The tools of one conversation."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def hooks(self) -> Hooks | None:
        return None

    def close(self) -> None:
        """The memory belongs to who has opened it."""
