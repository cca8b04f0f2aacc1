"""The settings that OpenClaw's file has outside ``memorySearch``: the backend, compaction, plugins and logging."""

from collections.abc import Callable
from typing import Any, NamedTuple

from mdrecall.config.declare import (
    choice,
    duration_ms,
    flag,
    list_of,
    number,
    record,
    section,
    setting,
    size_bytes,
    text,
    whole,
)
from mdrecall.types import Secret

DEFAULT_SCOPE = {"default": "deny", "rules": [{"action": "allow", "match": {"chatType": "direct"}}]}

_SCOPE_MATCH = record(
    {
        "channel": text(),
        "chatType": choice("direct", "group", "channel", "dm"),
        "keyPrefix": text(),
        "rawKeyPrefix": text(),
    }
)
_SCOPE = record(
    {
        "default": choice("allow", "deny"),
        "rules": list_of(record({"action": choice("allow", "deny"), "match": _SCOPE_MATCH}, ("action",))),
    }
)


def _strip_or(default: str) -> Callable[[str], str]:
    return lambda value: value.strip() or default


def _blank_is_none(value: str) -> str | None:
    return value.strip() or None


class QmdSessions(NamedTuple):
    """``memory.qmd.sessions``."""

    enabled: bool = setting(flag(), False, "Export transcripts for qmd.")
    export_dir: str | None = setting(text(), None, "The folder for exported transcripts.")
    retention_days: int = setting(whole(0), 0, "Leave out transcripts older than this many days; 0 keeps all.")


class QmdUpdate(NamedTuple):
    """``memory.qmd.update``."""

    interval: int = setting(duration_ms(), 300_000, "How often qmd updates its index; 0 means never.")
    debounce_ms: int = setting(
        whole(0), 15_000, "Skip an update if the last one is more recent than this, in milliseconds."
    )
    on_boot: bool = setting(flag(), True, "Update qmd's index at the start.")
    wait_for_boot_sync: bool = setting(flag(), False, "Make the start wait for that update.")
    embed_interval: int = setting(duration_ms(), 3_600_000, "How often qmd embeds.")
    command_timeout_ms: int = setting(
        whole(0), 30_000, "The timeout for a short command, in milliseconds.", fix=lambda ms: ms or 30_000
    )
    update_timeout_ms: int = setting(
        whole(0), 120_000, "The timeout for an update, in milliseconds.", fix=lambda ms: ms or 120_000
    )
    embed_timeout_ms: int = setting(
        whole(0), 120_000, "The timeout for embedding, in milliseconds.", fix=lambda ms: ms or 120_000
    )

    @property
    def waits_at_start(self) -> bool:
        """True if nothing is answered before the update at the start is done."""
        return self.on_boot and self.wait_for_boot_sync


class QmdLimits(NamedTuple):
    """``memory.qmd.limits``."""

    max_results: int = setting(whole(1), 6, "The maximum number of results from qmd.")
    max_snippet_chars: int = setting(whole(1), 700, "The longest snippet, in characters.")
    max_injected_chars: int = setting(whole(1), 4000, "The longest total of all snippets, in characters.")
    timeout_ms: int = setting(whole(1), 4000, "The timeout for a search, in milliseconds.")


class Mcporter(NamedTuple):
    """``memory.qmd.mcporter``."""

    enabled: bool = setting(flag(), False, "Send searches through mcporter.")
    server_name: str = setting(text(), "qmd", "The name of the qmd server in mcporter.", fix=_strip_or("qmd"))
    start_daemon: bool = setting(flag(), True, "Start mcporter's daemon.")


class Qmd(NamedTuple):
    """``memory.qmd``: the qmd backend."""

    command: str = setting(
        text(), "qmd", "The command for qmd; quotes and backslashes work as in a shell.", fix=_strip_or("qmd")
    )
    search_mode: str = setting(choice("search", "vsearch", "query"), "search", "Which qmd command answers a search.")
    include_default_memory: bool = setting(flag(), True, "Make the memory files a collection.")
    paths: tuple[dict[str, str], ...] = setting(
        list_of(record({"path": text(), "name": text(), "pattern": text()}, ("path",))),
        (),
        "More folders to use as collections.",
    )
    sessions: QmdSessions = section(QmdSessions)
    update: QmdUpdate = section(QmdUpdate)
    limits: QmdLimits = section(QmdLimits)
    scope: dict[str, Any] = setting(
        _SCOPE, DEFAULT_SCOPE, "Which conversations may search; if set, it replaces the default."
    )
    mcporter: Mcporter = section(Mcporter)


class MemoryBackend(NamedTuple):
    """``memory``: which backend answers."""

    backend: str = setting(choice("builtin", "qmd"), "builtin", "The backend that answers searches.")
    citations: str = setting(
        choice("auto", "on", "off"), "auto", "Cite sources in answers; `auto` does so in direct chats."
    )
    qmd: Qmd = section(Qmd)


class MemoryFlush(NamedTuple):
    """``agents.defaults.compaction.memoryFlush``."""

    enabled: bool = setting(flag(), True, "Save memories before compaction.")
    soft_threshold_tokens: int = setting(whole(0), 4000, "How many tokens before compaction to save them.")
    force_flush_transcript_bytes: int = setting(
        size_bytes(), 2 * 1024 * 1024, "Also save them when the transcript has grown by this many bytes; 0 means never."
    )
    prompt: str | None = setting(
        text(), None, "The user prompt of the flush; if blank, the built-in one.", fix=_blank_is_none
    )
    system_prompt: str | None = setting(
        text(), None, "The system prompt of the flush; if blank, the built-in one.", fix=_blank_is_none
    )


class Compaction(NamedTuple):
    """``agents.defaults.compaction``, as far as mdrecall reads it."""

    reserve_tokens: int | None = setting(
        whole(0), None, "The tokens that compaction keeps free, if more than the floor; 16384 if not set."
    )
    reserve_tokens_floor: int = setting(whole(0), 20_000, "The fewest tokens that compaction keeps free.")
    memory_flush: MemoryFlush = section(MemoryFlush)
    post_index_sync: str = setting(
        choice("off", "async", "await"),
        "async",
        "How the transcript is indexed after compaction: not at all, in the background, or before going on.",
    )


class AgentDefaults(NamedTuple):
    """``agents.defaults``, as far as mdrecall reads it."""

    context_tokens: int | None = setting(
        whole(1), None, "The model's context window in tokens, if the caller does not give one; 200000 if not set."
    )
    user_timezone: str | None = setting(
        text(), None, "The user's time zone, such as Europe/Zurich; if not set, this machine's."
    )
    time_format: str = setting(
        choice("auto", "12", "24"), "auto", "The format of times in prompts; `auto` is 24 hours."
    )


class Slots(NamedTuple):
    """``plugins.slots``, as far as mdrecall reads it."""

    memory: str = setting(
        text(), "memory-core", "The plugin in the memory slot; `none` for no plugin.", fix=_strip_or("memory-core")
    )


class Plugins(NamedTuple):
    """``plugins``, as far as mdrecall reads it."""

    enabled: bool = setting(flag(), True, "Use plugins.")
    allow: tuple[str, ...] = setting(list_of(text()), (), "If not empty, the only plugins that are used.")
    deny: tuple[str, ...] = setting(list_of(text()), (), "Plugins that are never used.")
    slots: Slots = section(Slots, strict=False)


class LanceDbEmbedding(NamedTuple):
    """``plugins.entries.memory-lancedb.config.embedding``."""

    api_key: Secret | None = setting(text(), None, "The key; `${VAR}` is taken from the environment.", hide=Secret)
    model: str = setting(text(), "text-embedding-3-small", "The embedding model.")
    base_url: str | None = setting(text(), None, "The address of the embeddings API.")
    dimensions: int | None = setting(whole(1), None, "The length of the model's vectors.")


class LanceDb(NamedTuple):
    """``plugins.entries.memory-lancedb.config``."""

    embedding: LanceDbEmbedding = section(LanceDbEmbedding)
    db_path: str | None = setting(text(), None, "The path or address of the database.")
    auto_capture: bool = setting(flag(), False, "Save what a user says if it sounds worth remembering.")
    auto_recall: bool = setting(flag(), True, "Put relevant memories before the prompt.")
    capture_max_chars: int = setting(
        number(100, 10_000), 500, "Do not save messages longer than this many characters.", fix=int
    )


class Logging(NamedTuple):
    """``logging``, as far as mdrecall reads it."""

    redact_patterns: tuple[str, ...] = setting(
        list_of(text()), (), "Additional patterns of secrets: regular expressions, or `/…/flags`."
    )
