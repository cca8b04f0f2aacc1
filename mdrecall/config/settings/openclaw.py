"""The settings that OpenClaw's file has outside ``memorySearch``: the backend, compaction, plugins and logging."""

from collections.abc import Callable
from typing import Any

from mdrecall.config.declare import (
    anything,
    choice,
    duration_ms,
    flag,
    hide_text,
    list_of,
    map_of,
    number,
    record,
    section,
    setting,
    size_bytes,
    text,
    whole,
)
from mdrecall.config.settings.memory_search import SECRET
from mdrecall.named_tuple import NamedTuple

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
    model: str | None = setting(
        text(), None, "The model that the agent should flush with, as `provider/model`.", fix=_blank_is_none
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


class StartupContext(NamedTuple):
    """``agents.defaults.startupContext``: the notes that a new session shows."""

    enabled: bool = setting(flag(), True, "Show the newest daily notes when a new session starts.")
    apply_on: tuple[str, ...] = setting(
        list_of(choice("new", "reset")), ("new", "reset"), "After which command: `/new`, `/reset`."
    )
    daily_memory_days: int = setting(whole(1, 14), 2, "For how many days, today included.")
    max_file_bytes: int = setting(whole(1, 65_536), 16_384, "Has no effect: a large note is cut.", is_used=False)
    max_file_chars: int = setting(whole(1, 10_000), 1_200, "How many characters of one note.")
    max_total_chars: int = setting(whole(1, 50_000), 2_800, "How many characters of all notes.")


class ContextLimits(NamedTuple):
    """``agents.defaults.contextLimits``, as far as mdrecall reads it."""

    memory_get_max_chars: int = setting(
        whole(1, 250_000), 12_000, "How many characters one memory_get returns to a model."
    )


class Sandbox(NamedTuple):
    """``agents.defaults.sandbox``, as far as mdrecall reads it."""

    session_tools_visibility: str = setting(
        choice("spawned", "all"),
        "spawned",
        "Which conversations a sandboxed session may see: those that it started, or those of `tools.sessions`.",
    )


class AgentDefaults(NamedTuple):
    """``agents.defaults``, as far as mdrecall reads it; an agent may have its own of what ``PER_AGENT`` names."""

    context_tokens: int | None = setting(
        whole(1), None, "The model's context window in tokens, if the caller does not give one; 200000 if not set."
    )
    user_timezone: str | None = setting(
        text(), None, "The user's time zone, such as Europe/Zurich; if not set, this machine's."
    )
    time_format: str = setting(
        choice("auto", "12", "24"), "auto", "The format of times in prompts; `auto` is 24 hours."
    )
    bootstrap_max_chars: int = setting(
        whole(1), 20_000, "How many characters of one file are shown when a session starts; of USER.md at most 4000."
    )
    bootstrap_total_max_chars: int = setting(
        whole(1), 60_000, "How many characters of all files are shown when a session starts."
    )
    startup_context: StartupContext = section(StartupContext)
    context_limits: ContextLimits = section(ContextLimits, strict=False)
    sandbox: Sandbox = section(Sandbox, strict=False)


#: What ``agents.entries.<id>`` may set for one agent.
PER_AGENT = ("bootstrapMaxChars", "bootstrapTotalMaxChars", "contextLimits", "sandbox")


class SessionTools(NamedTuple):
    """``tools.sessions``."""

    visibility: str = setting(
        choice("self", "tree", "agent", "all"),
        "all",
        "Which conversations one may see: itself, those it started too, those of its agent, or all.",
    )


class AgentToAgent(NamedTuple):
    """``tools.agentToAgent``: whether an agent may see the conversations of another."""

    enabled: bool = setting(flag(), True, "Let agents see the conversations of other agents.")
    allow: tuple[str, ...] = setting(list_of(text()), (), "The agents that may; if empty, all.")


class ToolRules(NamedTuple):
    """``tools``, as far as mdrecall reads it."""

    sessions: SessionTools = section(SessionTools)
    agent_to_agent: AgentToAgent = section(AgentToAgent)


class SessionRules(NamedTuple):
    """``session``, as far as mdrecall reads it."""

    dm_scope: str = setting(
        choice("main", "per-peer", "per-channel-peer", "per-account-channel-peer"),
        "main",
        "Whether all direct chats are one conversation, or each sender has one.",
    )
    scope: str = setting(choice("per-sender", "global"), "per-sender", "Whether all senders share one conversation.")
    store: str | None = setting(text(), None, "OpenClaw's database or list of sessions, if not in the agent's folder.")


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


class DeepDreaming(NamedTuple):
    """``plugins.entries.memory-core.config.dreaming.phases.deep``: OpenClaw's thresholds of promotion."""

    limit: int = setting(whole(0), 10, "How many statements are promoted at once.")
    min_score: float = setting(number(0, 1), 0.75, "The least score of a statement.")
    min_recall_count: int = setting(whole(0), 3, "The least number of signals: recalls, and notes that repeat it.")
    min_unique_queries: int = setting(whole(0), 3, "How many different queries must have found it.")
    max_age_days: int = setting(whole(1), 30, "How many days ago it may have been found last.")
    recency_half_life_days: int = setting(whole(1), 14, "After how many days a recall counts half.")


class LanceDbEmbedding(NamedTuple):
    """``plugins.entries.memory-lancedb.config.embedding``."""

    api_key: Any = setting(SECRET, None, "The key, a string with `${VAR}`, or a reference.", hide=hide_text)
    model: str = setting(text(), "text-embedding-3-small", "The embedding model.")
    base_url: str | None = setting(text(), None, "The address of the embeddings API.")
    dimensions: int | None = setting(whole(1), None, "The length of the model's vectors.")
    provider: str | None = setting(
        text(), None, "The embedding provider; if not set, openai, or openai-compatible with another address."
    )


class LanceDb(NamedTuple):
    """``plugins.entries.memory-lancedb.config``."""

    embedding: LanceDbEmbedding = section(LanceDbEmbedding)
    db_path: str | None = setting(text(), None, "The path or address of the database.")
    auto_capture: bool = setting(flag(), False, "Save what a user says if it sounds worth remembering.")
    auto_recall: bool = setting(flag(), True, "Put relevant memories before the prompt.")
    capture_max_chars: int = setting(
        number(100, 10_000), 500, "Do not save messages longer than this many characters.", fix=int
    )
    recall_max_chars: int = setting(
        number(100, 10_000), 1000, "Use this many characters of a prompt, and of each recalled memory.", fix=int
    )
    custom_triggers: tuple[str, ...] = setting(
        list_of(text(100), 50), (), "More words or phrases that make a message worth saving."
    )
    storage_options: Any = setting(
        map_of(anything()),
        {},
        "Has no effect: options for an object store come from the environment.",
        hide=hide_text,
        is_used=False,
    )


class Logging(NamedTuple):
    """``logging``, as far as mdrecall reads it."""

    redact_patterns: tuple[str, ...] = setting(
        list_of(text()), (), "Additional patterns of secrets: regular expressions, or `/…/flags`."
    )
