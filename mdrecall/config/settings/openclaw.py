"""The settings that OpenClaw's file has outside ``memorySearch``: the backend, compaction, plugins and logging."""

from collections.abc import Callable
from typing import Any, NamedTuple

from mdrecall.config.declare import section, setting
from mdrecall.config.rules import choice, duration_ms, flag, list_of, number, record, size_bytes, text, whole
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


def _stripped_or(default: str) -> Callable[[str], str]:
    return lambda value: value.strip() or default


def _blank_is_none(value: str) -> str | None:
    return value.strip() or None


class QmdSessions(NamedTuple):
    """``memory.qmd.sessions``."""

    enabled: bool = setting(flag(), False, "Whether transcripts are exported for qmd.")
    export_dir: str | None = setting(text(), None, "Where to.")
    retention_days: int = setting(whole(0), 0, "Older transcripts are left out; 0 keeps all.")


class QmdUpdate(NamedTuple):
    """``memory.qmd.update``."""

    interval: int = setting(duration_ms(), 300_000, "How often qmd updates; 0 is never.")
    debounce_ms: int = setting(whole(0), 15_000, "An update is skipped if the last is younger.")
    on_boot: bool = setting(flag(), True, "Whether to update at the start.")
    wait_for_boot_sync: bool = setting(flag(), False, "Whether the start waits for it.")
    embed_interval: int = setting(duration_ms(), 3_600_000, "How often qmd embeds.")
    command_timeout_ms: int = setting(whole(0), 30_000, "Time for a short command.", fix=lambda ms: ms or 30_000)
    update_timeout_ms: int = setting(whole(0), 120_000, "Time for an update.", fix=lambda ms: ms or 120_000)
    embed_timeout_ms: int = setting(whole(0), 120_000, "Time for embedding.", fix=lambda ms: ms or 120_000)


class QmdLimits(NamedTuple):
    """``memory.qmd.limits``."""

    max_results: int = setting(whole(1), 6, "How many results.")
    max_snippet_chars: int = setting(whole(1), 700, "How long a snippet may be.")
    max_injected_chars: int = setting(whole(1), 4000, "How long all snippets together may be.")
    timeout_ms: int = setting(whole(1), 4000, "Time for a search.")


class Mcporter(NamedTuple):
    """``memory.qmd.mcporter``."""

    enabled: bool = setting(flag(), False, "Whether searches go through mcporter.")
    server_name: str = setting(text(), "qmd", "The server's name there.", fix=_stripped_or("qmd"))
    start_daemon: bool = setting(flag(), True, "Whether its daemon is started.")


class Qmd(NamedTuple):
    """``memory.qmd``: the qmd backend."""

    command: str = setting(
        text(), "qmd", "The qmd program; quotes and backslashes work as in a shell.", fix=_stripped_or("qmd")
    )
    search_mode: str = setting(choice("search", "vsearch", "query"), "search", "Which qmd command answers.")
    include_default_memory: bool = setting(flag(), True, "Whether the memory files are among the collections.")
    paths: tuple[dict[str, str], ...] = setting(
        list_of(record({"path": text(), "name": text(), "pattern": text()}, ("path",))), (), "More collections."
    )
    sessions: QmdSessions = section(QmdSessions)
    update: QmdUpdate = section(QmdUpdate)
    limits: QmdLimits = section(QmdLimits)
    scope: dict[str, Any] = setting(
        _SCOPE, DEFAULT_SCOPE, "Which conversations may search; given at all, it replaces the default."
    )
    mcporter: Mcporter = section(Mcporter)


class MemoryBackend(NamedTuple):
    """``memory``: which backend answers."""

    backend: str = setting(choice("builtin", "qmd"), "builtin", "Who answers searches.")
    citations: str = setting(
        choice("auto", "on", "off"), "auto", "Whether answers name sources; auto: in direct chats."
    )
    qmd: Qmd = section(Qmd)


class MemoryFlush(NamedTuple):
    """``agents.defaults.compaction.memoryFlush``."""

    enabled: bool = setting(flag(), True, "Whether memories are written down before compaction.")
    soft_threshold_tokens: int = setting(whole(0), 4000, "How many tokens earlier.")
    force_flush_transcript_bytes: int = setting(
        size_bytes(), 2 * 1024 * 1024, "A transcript that grew by so much is flushed too; 0 is never."
    )
    prompt: str | None = setting(
        text(), None, "The user prompt of the flush; blank is the built-in one.", fix=_blank_is_none
    )
    system_prompt: str | None = setting(
        text(), None, "Its system prompt; blank is the built-in one.", fix=_blank_is_none
    )


class Compaction(NamedTuple):
    """``agents.defaults.compaction``, as far as mdrecall reads it."""

    reserve_tokens: int | None = setting(
        whole(0), None, "The room that compaction leaves, if more than the floor; else 16384."
    )
    reserve_tokens_floor: int = setting(whole(0), 20_000, "The least room that compaction leaves.")
    memory_flush: MemoryFlush = section(MemoryFlush)
    post_index_sync: str = setting(
        choice("off", "async", "await"), "async", "Whether compaction has its transcript indexed."
    )


class AgentDefaults(NamedTuple):
    """``agents.defaults``, as far as mdrecall reads it."""

    context_tokens: int | None = setting(
        whole(1), None, "How many tokens the model takes, if nobody says; else 200000."
    )
    user_timezone: str | None = setting(
        text(), None, "The user's time zone, such as Europe/Zurich; else this machine's."
    )
    time_format: str = setting(
        choice("auto", "12", "24"), "auto", "How the time is written in prompts; auto is 24 hours."
    )


class Slots(NamedTuple):
    """``plugins.slots``, as far as mdrecall reads it."""

    memory: str = setting(
        text(), "memory-core", "Which plugin is the memory; `none` is none.", fix=_stripped_or("memory-core")
    )


class Plugins(NamedTuple):
    """``plugins``, as far as mdrecall reads it."""

    enabled: bool = setting(flag(), True, "Whether there are plugins at all.")
    allow: tuple[str, ...] = setting(list_of(text()), (), "If not empty, only these.")
    deny: tuple[str, ...] = setting(list_of(text()), (), "Never these.")
    slots: Slots = section(Slots, strict=False)


class LanceDbEmbedding(NamedTuple):
    """``plugins.entries.memory-lancedb.config.embedding``."""

    api_key: Secret | None = setting(text(), None, "The key; `${VAR}` is taken from the environment.", hide=Secret)
    model: str = setting(text(), "text-embedding-3-small", "The embedding model.")
    base_url: str | None = setting(text(), None, "Where it answers.")
    dimensions: int | None = setting(whole(1), None, "How long its vectors are.")


class LanceDb(NamedTuple):
    """``plugins.entries.memory-lancedb.config``."""

    embedding: LanceDbEmbedding = section(LanceDbEmbedding)
    db_path: str | None = setting(text(), None, "Where the memories are kept.")
    auto_capture: bool = setting(flag(), False, "Whether what a user says is kept when it sounds worth it.")
    auto_recall: bool = setting(flag(), True, "Whether fitting memories are put before the prompt.")
    capture_max_chars: int = setting(number(100, 10_000), 500, "Longer messages are not kept.", fix=int)


class Logging(NamedTuple):
    """``logging``, as far as mdrecall reads it."""

    redact_patterns: tuple[str, ...] = setting(
        list_of(text()), (), "What else is a secret: regular expressions, or `/…/flags`."
    )
