"""``memory-lancedb`` as a plugin: where memories are kept, what embeds them, its hooks, and its parts put together."""

import hashlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from mdrecall.config.environment import expand
from mdrecall.config.files import UnresolvedValue, resolve_text
from mdrecall.config.load import Loaded
from mdrecall.config.openclaw_file import find_wire
from mdrecall.config.settings import PROVIDERS, LanceDb
from mdrecall.engine.embedders import EmbedderChooser, choose_embedders
from mdrecall.errors import ArgumentError, ConfigError, PluginError, RecallError
from mdrecall.extras.lancedb.capture import compile_triggers, list_user_texts, pick_newest
from mdrecall.extras.lancedb.memories import DEFAULT_IMPORTANCE, PROMPT, LongTermMemory, parse_id
from mdrecall.extras.lancedb.table import PLUGIN, Row, Table, import_package, quote
from mdrecall.extras.lancedb.tools import ltm_tools, relevant_block
from mdrecall.interfaces import Embedder
from mdrecall.life.forget_places import Place
from mdrecall.notes.tombstones import open_masks
from mdrecall.plugins import Hooks
from mdrecall.sessions.visibility import parse
from mdrecall.text.markdown import utf16_units
from mdrecall.text.tombstones import Tombstones
from mdrecall.tools.toolset import Tool

_SETTING = f"plugins.entries.{PLUGIN}.config"
_OPENAI_URL = "https://api.openai.com"
_log = logging.getLogger(__name__)
# The first three are OpenClaw's limits.
_MIN_PROMPT_UNITS = 5
_MAX_RECALLED = 3
_MAX_CAPTURED = 3
#: Bounds the memory of a long-running process; messages older than this many may be captured a second time.
_MAX_SEEN = 20_000


class LongTermHooks(Hooks):
    """Recalls before a turn and captures after it, in private conversations of one agent."""

    def __init__(self, memories: LongTermMemory, settings: LanceDb, agent: str) -> None:
        self._memories = memories
        self._settings = settings
        self._agent = agent
        self._triggers = compile_triggers(settings.custom_triggers)
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def before_agent_start(self, prompt: str, session_key: str = "") -> str:
        """Return up to three memories that would help with a prompt, as a block of data to put before it."""
        is_long_enough = utf16_units(prompt) >= _MIN_PROMPT_UNITS
        if not (self._settings.auto_recall and is_long_enough and self._is_private(session_key)):
            return ""
        try:
            found, _ = self._memories.recall(prompt, _MAX_RECALLED, share=PROMPT)
        except Exception as error:
            _log.warning("No memories could be recalled: %s", error)
            return ""
        return relevant_block(found, self._settings.recall_max_chars)

    def agent_end(self, messages: Sequence[Any], success: bool, session_key: str = "") -> None:
        """Store up to three of the user's newest messages that are worth keeping, none of them twice."""
        if not self._settings.auto_capture or not success or not self._is_private(session_key):
            return
        texts = [text for text in list_user_texts(messages) if self._is_new(text, session_key)]
        waiting = pick_newest(texts, _MAX_CAPTURED, self._settings.capture_max_chars, self._triggers)
        try:
            while waiting:
                self._memories.store(waiting[0], source="capture")
                del waiting[0]
        except Exception as error:
            _log.warning("A message could not be kept as a memory: %s", error)
        for text in waiting:
            # The next turn brings it again, and storing it may work then.
            self._seen.pop(_digest(text, session_key), None)

    def _is_private(self, session_key: str) -> bool:
        """True if one person talks with this agent; without a session key it is the person who runs it."""
        return not session_key.strip() or parse(session_key).is_private_of(self._agent)

    def _is_new(self, text: str, session_key: str) -> bool:
        digest = _digest(text, session_key)
        if digest in self._seen:
            return False
        self._seen[digest] = None
        while len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)
        return True


def _digest(text: str, session_key: str) -> bytes:
    return hashlib.sha256(f"{session_key}\0{text}".encode("utf-8", "surrogatepass")).digest()[:16]


def open_memories(loaded: Loaded) -> LongTermMemory:
    """Return the long-term memory of an agent; table and embedder are created when they are first needed."""
    import_package("lancedb")
    settings = loaded.settings
    return LongTermMemory(
        Table(database_uri(loaded)),
        lambda: make_embedder(loaded),
        settings.agent_id,
        is_default_agent=settings.agent_id == loaded.default_agent,
        redact=open_masks(settings).redact,
        now_ms=lambda: time.time() * 1000,
        adopt_unlabelled=has_own_embedder(loaded),
        recall_units=settings.lancedb.recall_max_chars,
    )


def open_plugin(loaded: Loaded, session_key: str) -> tuple[list[Tool], "LongTermHooks", Callable[[], None]]:
    """Return the tools of a conversation, its hooks, and what closes both; a sub-agent has no tools."""
    memories = open_memories(loaded)
    tools = [] if parse(session_key).kind == "subagent" else ltm_tools(memories)
    return tools, LongTermHooks(memories, loaded.settings.lancedb, loaded.settings.agent_id), memories.close


def database_uri(loaded: Loaded) -> str:
    """Return a path or the address of an object store; by default ``<state folder>/memory/lancedb``."""
    setting = loaded.settings.lancedb.db_path
    if setting is None or not setting.strip():
        return os.path.join(loaded.settings.shared_dir, "memory", "lancedb")
    try:
        path = resolve_text(setting, loaded.environment, f"{_SETTING}.dbPath")
    except UnresolvedValue as reason:
        raise ConfigError(str(reason), hint="Correct it in the configuration file.") from None
    return path if "://" in path else expand(path, loaded.home, loaded.settings.shared_dir)


def has_own_embedder(loaded: Loaded) -> bool:
    """True if the plugin's own configuration names an embedder, as OpenClaw's always does."""
    names = ("apiKey", "model", "baseUrl", "dimensions", "provider")
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
    remote = search.remote._replace(base_url=own.base_url, api_key=own.api_key, headers={})
    provider, aliases = _choose_provider(loaded)
    search = search._replace(
        provider=provider, model=own.model, remote=remote, output_dimensionality=own.dimensions, fallback="none"
    )
    settings = loaded.settings._replace(memory_search=search)
    credentials = loaded.credentials.with_remote(remote, f"{_SETTING}.embedding", aliases)
    chooser = EmbedderChooser(loaded._replace(settings=settings, credentials=credentials))
    return chooser.create(provider, uses_remote=True, uses_model=True)


def _choose_provider(loaded: Loaded) -> tuple[str, dict[str, str]]:
    """Return the plugin's provider, and OpenClaw's name for it if that is another one."""
    own = loaded.settings.lancedb.embedding
    name = (own.provider or "openai").strip()
    if name == "openai":
        # A server at another address needs no key, and must not be sent OpenAI's.
        is_elsewhere = own.base_url and not own.base_url.startswith(_OPENAI_URL)
        return ("openai-compatible" if is_elsewhere else "openai"), {}
    if name in PROVIDERS:
        return name, {}
    if found := find_wire(name, [layer.values for layer in loaded.layers]):
        return found, {found: name}
    hint = f"Set {_SETTING}.embedding.provider to one of {', '.join(PROVIDERS)}, or to one of models.providers."
    raise PluginError(f"mdrecall cannot use the provider {name!r} of {_SETTING}.embedding.", plugin=PLUGIN, hint=hint)


def find_database(loaded: Loaded) -> str:
    """Return where the long-term memories are; empty if that cannot be told."""
    try:
        return database_uri(loaded)
    except RecallError:
        return ""


class LongTermPlaces:
    """The long-term memories of one agent as a place to forget in: rows go, with all earlier versions of the table."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    @property
    def name(self) -> str:
        """The database as people know it."""
        return f"The database of long-term memories {find_database(self._loaded)}"

    def find(self, forgotten: Tombstones) -> list[Place]:
        """Return the memories that hold what is to be forgotten."""
        uri = find_database(self._loaded)
        rows = self._run(forgotten, delete=False)
        return [Place("memory", f"{uri}#{row.id}", 0, 0, "delete", row.text[:160]) for row in rows]

    def clear(self, forgotten: Tombstones) -> None:
        """Delete them. Earlier versions of the table are deleted even if no row is left to delete."""
        self._run(forgotten, delete=True)

    def _run(self, forgotten: Tombstones, *, delete: bool) -> list[Row]:
        if not forgotten.has_phrases:
            return []
        with closing(open_memories(self._loaded)) as memories:
            rows = [row for row in memories.table.rows(memories.own) if forgotten.find_spans(row.text)]
            for row in rows if delete else ():
                memories.table.delete(f"id = {quote(row.id)}")
            if delete:
                memories.table.purge()
            return rows


def read_backup(value: dict[str, Any]) -> Row | None:
    """Return a memory of a backup; None for anything else."""
    times = [value.get(name) for name in ("created_ms", "updated_ms", "expires_ms")]
    created, updated, expires = (float(one) if isinstance(one, int | float) else None for one in times)
    texts = [value.get(name) for name in ("id", "text", "category", "source")]
    memory_id, text, category, source = (one if isinstance(one, str) else "" for one in texts)
    weight = value.get("importance")
    importance = float(weight) if isinstance(weight, int | float) else DEFAULT_IMPORTANCE
    try:
        name = parse_id(memory_id)
    except ArgumentError:
        return None
    return Row(name, text, importance, category or "other", created or 0.0, None, source, None, updated, expires)
