"""The settings as typed, frozen values. Defaults, rules and descriptions stand in ``keys``."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mdrecall.types import Secret, SourceName


class Batch(NamedTuple):
    enabled: bool
    wait: bool
    concurrency: int
    poll_interval_ms: int
    timeout_minutes: int


class Remote(NamedTuple):
    base_url: str | None
    api_key: Any
    headers: Mapping[str, Any]
    batch: Batch


class Local(NamedTuple):
    model_path: str | None
    model_cache_dir: str | None


class VectorStore(NamedTuple):
    enabled: bool
    extension_path: str | None


class StoreSettings(NamedTuple):
    driver: str
    path: str | None
    vector: VectorStore


class Chunking(NamedTuple):
    tokens: int
    overlap: int


class SessionSync(NamedTuple):
    delta_bytes: int
    delta_messages: int
    post_compaction_force: bool


class SyncSettings(NamedTuple):
    on_session_start: bool
    on_search: bool
    watch: bool
    watch_debounce_ms: int
    interval_minutes: int
    sessions: SessionSync


class Mmr(NamedTuple):
    enabled: bool
    lambda_: float


class TemporalDecay(NamedTuple):
    enabled: bool
    half_life_days: int


class Hybrid(NamedTuple):
    enabled: bool
    vector_weight: float
    text_weight: float
    candidate_multiplier: int
    mmr: Mmr
    temporal_decay: TemporalDecay


class QuerySettings(NamedTuple):
    max_results: int
    min_score: float
    hybrid: Hybrid


class Cache(NamedTuple):
    enabled: bool
    max_entries: int | None


class Experimental(NamedTuple):
    session_memory: bool


class Multimodal(NamedTuple):
    enabled: bool
    modalities: tuple[str, ...]
    max_file_bytes: int


class ExtraPath(NamedTuple):
    """A folder or file beyond the memory files; ``pattern`` limits which files of a folder count."""

    path: str
    pattern: str | None = None


class MemorySearch(NamedTuple):
    enabled: bool
    sources: tuple[SourceName, ...]
    extra_paths: tuple[ExtraPath, ...]
    experimental: Experimental
    provider: str | None
    model: str
    fallback: str
    remote: Remote
    local: Local
    store: StoreSettings
    chunking: Chunking
    sync: SyncSettings
    query: QuerySettings
    cache: Cache
    output_dimensionality: int | None
    multimodal: Multimodal


class QmdSessions(NamedTuple):
    enabled: bool
    export_dir: str | None
    retention_days: int


class QmdUpdate(NamedTuple):
    interval: int
    debounce_ms: int
    on_boot: bool
    wait_for_boot_sync: bool
    embed_interval: int
    command_timeout_ms: int
    update_timeout_ms: int
    embed_timeout_ms: int


class QmdLimits(NamedTuple):
    max_results: int
    max_snippet_chars: int
    max_injected_chars: int
    timeout_ms: int


class Mcporter(NamedTuple):
    enabled: bool
    server_name: str
    start_daemon: bool


class Qmd(NamedTuple):
    command: str
    search_mode: str
    include_default_memory: bool
    paths: tuple[dict[str, str], ...]
    sessions: QmdSessions
    update: QmdUpdate
    limits: QmdLimits
    scope: dict[str, Any]
    mcporter: Mcporter


class MemoryBackend(NamedTuple):
    backend: str
    citations: str
    qmd: Qmd


class MemoryFlush(NamedTuple):
    enabled: bool
    soft_threshold_tokens: int
    force_flush_transcript_bytes: int
    prompt: str | None
    system_prompt: str | None


class AgentDefaults(NamedTuple):
    context_tokens: int | None
    user_timezone: str | None
    time_format: str


class Compaction(NamedTuple):
    reserve_tokens: int | None
    reserve_tokens_floor: int
    memory_flush: MemoryFlush
    post_index_sync: str


class Slots(NamedTuple):
    memory: str


class Plugins(NamedTuple):
    enabled: bool
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    slots: Slots


class LanceDbEmbedding(NamedTuple):
    api_key: Secret | None
    model: str
    base_url: str | None
    dimensions: int | None


class LanceDb(NamedTuple):
    embedding: LanceDbEmbedding
    db_path: str | None
    auto_capture: bool
    auto_recall: bool
    capture_max_chars: int


class Vectors(NamedTuple):
    engine: str
    max_bytes: int


class WatchSettings(NamedTuple):
    scan_seconds: int


class OwnRemote(NamedTuple):
    concurrency: int
    batch_min_chunks: int


class OwnQmd(NamedTuple):
    session: bool
    first_retry_seconds: int


class OwnTools(NamedTuple):
    max_chars: int
    append: bool


class OwnFlush(NamedTuple):
    checkpoint: bool


class Own(NamedTuple):
    """What only mdrecall knows."""

    max_file_bytes: int
    ignore: tuple[str, ...]
    max_per_file: int | None
    query_timeout_ms: int
    search_wait_ms: int
    first_index_wait_ms: int
    watch: WatchSettings
    remote: OwnRemote
    flush: OwnFlush
    qmd: OwnQmd
    tools: OwnTools
    vectors: Vectors


class Logging(NamedTuple):
    redact_patterns: tuple[str, ...]


class Settings(NamedTuple):
    """Everything that one agent's memory needs to know."""

    agent_id: str
    workspace: str
    index_path: str
    index_path_is_ours: bool
    """Whether the path is one that only mdrecall writes to, rather than one from ``store.path``."""
    sessions_dir: str
    """Where this agent's transcripts and its ``sessions.json`` are; without OpenClaw, in mdrecall's own folder."""
    state_dir: str
    """OpenClaw's folder for what it keeps; without OpenClaw, mdrecall's own."""
    qmd_dir: str
    """Where this agent's qmd keeps its configuration, its index and the exported transcripts."""
    standalone: bool
    """Whether there is no OpenClaw configuration, so that a plain folder of Markdown may be the memory."""
    memory_search: MemorySearch
    memory: MemoryBackend
    compaction: Compaction
    defaults: AgentDefaults
    plugins: Plugins
    lancedb: LanceDb
    logging: Logging
    mdrecall: Own
