"""``memory-lancedb`` as a plugin: where the memories are kept, what embeds them, and its parts put together."""

import os
import time
from collections.abc import Sequence

from mdrecall.backends.embedders import EmbedderChooser, choose_embedders
from mdrecall.config.load import Loaded
from mdrecall.config.locations import expand
from mdrecall.config.references import References, UnresolvedValue
from mdrecall.core.conversation.session_key import parse
from mdrecall.core.redact import make_redactor
from mdrecall.errors import ConfigError, PluginError
from mdrecall.interfaces import Embedder
from mdrecall.plugins.contract import Hooks, PluginContext
from mdrecall.plugins.lancedb.hooks import LongTermHooks
from mdrecall.plugins.lancedb.memories import LongTermMemory, Owner
from mdrecall.plugins.lancedb.table import PLUGIN, Table, import_package
from mdrecall.plugins.lancedb.tools import ltm_tools
from mdrecall.tools.toolset import Tool

_SETTING = f"plugins.entries.{PLUGIN}.config"
_OPENAI_URL = "https://api.openai.com"


def open_memories(loaded: Loaded) -> LongTermMemory:
    """Return the long-term memory of an agent; table and embedder are created when they are first needed."""
    import_package("lancedb")
    settings = loaded.settings
    return LongTermMemory(
        Table(database_uri(loaded)),
        lambda: make_embedder(loaded),
        Owner(settings.agent_id, settings.agent_id == loaded.default_agent),
        redact=make_redactor(settings.logging.redact_patterns).redact,
        now_ms=lambda: time.time() * 1000,
        adopt_unlabelled=has_own_embedder(loaded),
    )


class MemoryLanceDb:
    """The plugin with the tools that store, recall and forget, and the hooks that recall and capture."""

    id = PLUGIN

    def open(self, context: PluginContext) -> "OpenedLanceDb":
        return OpenedLanceDb(open_memories(context.loaded), context)


class OpenedLanceDb:
    """The tools and hooks of one conversation."""

    def __init__(self, memories: LongTermMemory, context: PluginContext) -> None:
        self._memories = memories
        self._context = context

    def tools(self) -> Sequence[Tool]:
        """Return the tools; a sub-agent has none."""
        return [] if parse(self._context.session_key).kind == "subagent" else ltm_tools(self._memories)

    def hooks(self) -> Hooks | None:
        settings = self._context.settings
        return LongTermHooks(self._memories, settings.lancedb, settings.agent_id)

    def close(self) -> None:
        self._memories.close()


def database_uri(loaded: Loaded) -> str:
    """Return a path or the address of an object store; by default ``<state folder>/memory/lancedb``."""
    setting = loaded.settings.lancedb.db_path
    if setting is None or not setting.strip():
        return os.path.join(loaded.settings.shared_dir, "memory", "lancedb")
    try:
        path = References(loaded.environment, (), loaded.home).text(setting, f"{_SETTING}.dbPath")
    except UnresolvedValue as reason:
        raise ConfigError(str(reason), hint="Correct it in the configuration file.") from None
    return path if "://" in path else expand(path, loaded.home, loaded.settings.shared_dir)


def has_own_embedder(loaded: Loaded) -> bool:
    """True if the plugin's own configuration names an embedder, as OpenClaw's always does."""
    names = ("apiKey", "model", "baseUrl", "dimensions")
    return any(loaded.values[f"{_SETTING}.embedding.{name}"].origin != "default" for name in names)


def make_embedder(loaded: Loaded) -> Embedder:
    """Return the embedder of the plugin's configuration, else that of ``memorySearch``, offline by default."""
    if has_own_embedder(loaded):
        return _make_own_embedder(loaded)
    choice = choose_embedders(loaded)
    if not choice.embedders:
        hint = f"Set memorySearch.provider, or {_SETTING}.embedding."
        raise PluginError(f"There is no embedder for memories: {choice.unusable_reason}", plugin=PLUGIN, hint=hint)
    return choice.embedders[0]


def _make_own_embedder(loaded: Loaded) -> Embedder:
    own = loaded.settings.lancedb.embedding
    search = loaded.settings.memory_search
    key = own.api_key.reveal() if own.api_key else None
    remote = search.remote._replace(base_url=own.base_url, api_key=key, headers={})
    # A server at another address needs no key, and must not be sent OpenAI's.
    provider = "openai-compatible" if own.base_url and not own.base_url.startswith(_OPENAI_URL) else "openai"
    search = search._replace(
        provider=provider, model=own.model, remote=remote, output_dimensionality=own.dimensions, fallback="none"
    )
    settings = loaded.settings._replace(memory_search=search)
    credentials = loaded.credentials.with_remote(remote, f"{_SETTING}.embedding")
    chooser = EmbedderChooser(loaded._replace(settings=settings, credentials=credentials))
    return chooser.create(provider, uses_remote=True, uses_model=True)
