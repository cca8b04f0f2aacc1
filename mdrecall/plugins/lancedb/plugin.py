"""``memory-lancedb`` as a plugin: the one place where its parts are put together."""

import time
from collections.abc import Sequence

from mdrecall.config.load import Loaded
from mdrecall.core.conversation.session_key import parse
from mdrecall.core.redact import make_redactor
from mdrecall.plugins.contract import Hooks, PluginContext
from mdrecall.plugins.lancedb.choice import db_uri, has_own_embedder, ltm_embedder
from mdrecall.plugins.lancedb.extra import PLUGIN, need
from mdrecall.plugins.lancedb.hooks import LongTermHooks
from mdrecall.plugins.lancedb.memories import LongTermMemory, Owner
from mdrecall.plugins.lancedb.table import Table
from mdrecall.plugins.lancedb.tools import ltm_tools
from mdrecall.tools.toolset import Tool


def open_memories(loaded: Loaded) -> LongTermMemory:
    """The long-term memory of an agent; the table is made at the first write, the embedder at the first need."""
    need("lancedb")
    settings = loaded.settings
    return LongTermMemory(
        Table(db_uri(loaded)),
        lambda: ltm_embedder(loaded),
        Owner(settings.agent_id, settings.agent_id == loaded.default_agent),
        redact=make_redactor(settings.logging.redact_patterns).redact,
        now_ms=lambda: time.time() * 1000,
        adopts=has_own_embedder(loaded),
    )


class MemoryLanceDb:
    """Gives the tools that store, recall and forget, and the hooks that do so by themselves."""

    id = PLUGIN

    def open(self, context: PluginContext) -> "OpenedLanceDb":
        return OpenedLanceDb(open_memories(context.loaded), context)


class OpenedLanceDb:
    """The tools and hooks of one conversation."""

    def __init__(self, memories: LongTermMemory, context: PluginContext) -> None:
        self._memories = memories
        self._context = context

    def tools(self) -> Sequence[Tool]:
        """A sub-agent has none."""
        return [] if parse(self._context.session_key).kind == "subagent" else ltm_tools(self._memories)

    def hooks(self) -> Hooks | None:
        settings = self._context.settings
        return LongTermHooks(self._memories, settings.lancedb, settings.agent_id)

    def close(self) -> None:
        self._memories.close()
