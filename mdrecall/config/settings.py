"""Every setting by its name: those that OpenClaw has as well, and mdrecall's own; and the value that carries them."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from mdrecall.config.declare import (
    Section,
    Setting,
    choice,
    duration_ms,
    each_setting,
    either,
    flag,
    hide_text,
    hide_values,
    list_of,
    map_of,
    number,
    record,
    setting,
    size_bytes,
    text,
    whole,
)
from mdrecall.types.documents import SourceName

PROVIDERS = ("offline", "openai", "openai-compatible", "local", "gemini", "voyage", "mistral", "ollama")
DEFAULT_MODELS = {
    "openai": "text-embedding-3-small",
    "gemini": "gemini-embedding-001",
    "voyage": "voyage-4-large",
    "mistral": "mistral-embed",
    "ollama": "nomic-embed-text",
    "deepinfra": "BAAI/bge-m3",
}

#: A key as it stands in a file: a text, or a reference to one.
SECRET = either(
    text(),
    record({"source": choice("env", "file", "exec", "store"), "provider": text(), "id": text()}, ("source", "id")),
)
_EXTRA_PATH = either(text(), record({"path": text(), "pattern": text()}, ("path",)))


class Batch(Section):  # memorySearch.remote.batch
    enabled: bool = setting(flag(), False, "Send large jobs through the provider's batch API.")
    wait: bool = setting(flag(), True, "Make indexing wait until the batch is done.")
    concurrency: int = setting(whole(1), 2, "How many batches run at once.")
    poll_interval_ms: int = setting(whole(0), 2000, "Milliseconds between two polls of a batch.")
    timeout_minutes: int = setting(whole(1), 60, "Minutes that a batch may take.")


class Remote(Section):  # memorySearch.remote
    base_url: str | None = setting(text(), None, "The provider's address, if not its default one.")
    api_key: Any = setting(SECRET, None, "The key, or a reference to it.", hide=hide_text)
    headers: Mapping[str, Any] = setting(map_of(text()), {}, "Additional headers for every request.", hide=hide_values)
    batch: Batch = Batch()


class Local(Section):  # memorySearch.local
    model_path: str | None = setting(text(), None, "A GGUF file, an `hf:` reference or a URL.")
    model_cache_dir: str | None = setting(text(), None, "The folder for downloaded models.")


class VectorStore(Section):  # memorySearch.store.vector
    enabled: bool = setting(flag(), True, "Let sqlite-vec search the vectors.")
    extension_path: str | None = setting(text(), None, "Another sqlite-vec library than the bundled one.")


class StoreSettings(Section, dropped=("driver", "fts")):  # memorySearch.store
    path: str | None = setting(text(), None, "The index file; `{agentId}` stands for the agent.")
    vector: VectorStore = VectorStore()


class Chunking(Section):  # memorySearch.chunking
    tokens: int = setting(whole(1), 400, "The longest chunk, in tokens of about four characters.")
    overlap: int = setting(whole(0), 80, "How many tokens neighbouring chunks share; less than `tokens`.")


class SessionSync(Section):  # memorySearch.sync.sessions
    delta_bytes: int = setting(whole(0), 100_000, "Index a transcript once it has this many new bytes; 0 means any.")
    delta_messages: int = setting(whole(0), 50, "Index a transcript once it has this many new messages.")
    post_compaction_force: bool = setting(flag(), True, "Index a session's transcript after its compaction.")


class SyncSettings(Section):  # memorySearch.sync
    on_session_start: bool = setting(flag(), True, "Update the index when a session starts.")
    on_search: bool = setting(flag(), True, "Index changed files before a search.")
    watch: bool = setting(flag(), True, "Watch files for changes.")
    watch_debounce_ms: int = setting(whole(0), 1500, "Milliseconds that files must rest before they are indexed.")
    interval_minutes: int = setting(whole(0), 0, "Minutes between regular checks for changes; 0 means none.")
    sessions: SessionSync = SessionSync()


class Mmr(Section):  # memorySearch.query.hybrid.mmr
    enabled: bool = setting(flag(), False, "Rank results that repeat better ones lower (MMR).")
    lambda_: float = setting(number(0, 1), 0.7, "The balance of MMR: 1 is relevance only, 0 is diversity only.")


class TemporalDecay(Section):  # memorySearch.query.hybrid.temporalDecay
    enabled: bool = setting(flag(), False, "Rank older dated notes lower.")
    half_life_days: int = setting(whole(1), 30, "After how many days a dated note counts half.")


class Hybrid(Section):  # memorySearch.query.hybrid
    enabled: bool = setting(flag(), True, "Combine keyword and vector search; if off, vectors only.")
    vector_weight: float = setting(number(0, 1), 0.35, "The weight of vector search; both are divided by their sum.")
    text_weight: float = setting(number(0, 1), 0.65, "The weight of keyword search.")
    candidate_multiplier: int = setting(whole(1), 4, "Candidates ranked per result, at most 20.", fix=partial(min, 20))
    mmr: Mmr = Mmr()
    temporal_decay: TemporalDecay = TemporalDecay()


class QuerySettings(Section):  # memorySearch.query
    max_results: int | None = setting(whole(1), None, "The number of results; if not set, as many as carry the answer.")
    min_score: float = setting(number(0, 1), 0.01, "Leave out results below this score.")
    hybrid: Hybrid = Hybrid()

    @property
    def stops(self) -> bool:
        """True if an answer may end where its results get weak. With temporal decay a low score may be due to age."""
        return self.max_results is None and not self.hybrid.temporal_decay.enabled


class Cache(Section):  # memorySearch.cache
    enabled: bool = setting(flag(), True, "Embed no text twice: keep a cache.")
    max_entries: int | None = setting(whole(1), None, "The most embeddings in the cache; unlimited if not set.")


class Experimental(Section):  # memorySearch.experimental
    session_memory: bool = setting(flag(), False, "Allow `sessions` among the sources.")


class ExtraPath(NamedTuple):
    """A folder or file besides the memory files; ``pattern`` limits a folder to some of its files."""

    path: str
    pattern: str | None = None


def _read_extra_paths(values: tuple[Any, ...]) -> tuple[ExtraPath, ...]:
    """Return extra paths, each given as a text or an object; a blank one is none."""
    entries = ({"path": value} if isinstance(value, str) else value for value in values)
    return tuple(ExtraPath(entry["path"].strip(), entry.get("pattern")) for entry in entries if entry["path"].strip())


class MemorySearch(Section, dropped=("multimodal",)):  # memorySearch
    enabled: bool = setting(flag(), True, "Give this agent a memory.")
    sources: tuple[SourceName, ...] = setting(
        list_of(choice("memory", "sessions")), ("memory",), "Search notes (`memory`), transcripts (`sessions`)."
    )
    extra_paths: tuple[ExtraPath, ...] = setting(
        list_of(_EXTRA_PATH), (), "More Markdown files or folders; `pattern` is a glob.", fix=_read_extra_paths
    )
    experimental: Experimental = Experimental()
    remember_across_conversations: bool | None = setting(
        flag(), None, "Let private chats see each other; if not set, `session.dmScope` decides."
    )
    provider: str | None = setting(
        choice("auto", *PROVIDERS, "none"), None, "The provider, else the first with a key, else offline; or `none`."
    )
    model: str = setting(text(), "", "The embedding model; if not set, the provider's default.")
    input_type: str | None = setting(text(), None, "The `input_type` of every request to an embedding API.")
    query_input_type: str | None = setting(text(), None, "The `input_type` for queries, if another one.")
    document_input_type: str | None = setting(text(), None, "The `input_type` for notes, if another one.")
    fallback: str = setting(choice(*PROVIDERS, "none"), "none", "The provider to use when the first one fails.")
    remote: Remote = Remote()
    local: Local = Local()
    store: StoreSettings = StoreSettings()
    chunking: Chunking = Chunking()
    sync: SyncSettings = SyncSettings()
    query: QuerySettings = QuerySettings()
    cache: Cache = Cache()
    output_dimensionality: int | None = setting(whole(1), None, "The length of the vectors, if a model offers several.")


DEFAULT_SCOPE = {"default": "deny", "rules": [{"action": "allow", "match": {"chatType": "direct"}}]}

_CHAT_TYPES = choice("direct", "group", "channel", "dm")
_SCOPE_MATCH = record({"channel": text(), "chatType": _CHAT_TYPES, "keyPrefix": text(), "rawKeyPrefix": text()})
_SCOPE_RULE = record({"action": choice("allow", "deny"), "match": _SCOPE_MATCH}, ("action",))
_SCOPE = record({"default": choice("allow", "deny"), "rules": list_of(_SCOPE_RULE)})
_QMD_PATH = record({"path": text(), "name": text(), "pattern": text()}, ("path",))


def _strip_or(default: str) -> Callable[[str], str]:
    return lambda value: value.strip() or default


def _blank_is_none(value: str) -> str | None:
    return value.strip() or None


class QmdSessions(Section):  # memory.qmd.sessions
    enabled: bool = setting(flag(), False, "Export transcripts for qmd.")
    export_dir: str | None = setting(text(), None, "The folder for exported transcripts.")
    retention_days: int = setting(whole(0), 0, "Days after which transcripts are left out; 0: never.")


class QmdUpdate(Section):  # memory.qmd.update
    interval: int = setting(duration_ms(), 300_000, "How often qmd updates its index; 0 means never.")
    debounce_ms: int = setting(whole(0), 15_000, "Milliseconds between two updates.")
    on_boot: bool = setting(flag(), True, "Update qmd's index at the start.")
    wait_for_boot_sync: bool = setting(flag(), False, "Make the start wait for that update.")
    embed_interval: int = setting(duration_ms(), 3_600_000, "How often qmd embeds.")
    command_timeout_ms: int = setting(whole(0), 30_000, "Milliseconds for a command.", fix=lambda ms: ms or 30_000)
    update_timeout_ms: int = setting(whole(0), 120_000, "Milliseconds for an update.", fix=lambda ms: ms or 120_000)
    embed_timeout_ms: int = setting(whole(0), 120_000, "Milliseconds for embedding.", fix=lambda ms: ms or 120_000)

    @property
    def waits_at_start(self) -> bool:
        """True if nothing is answered before the update at the start is done."""
        return self.on_boot and self.wait_for_boot_sync


class QmdLimits(Section):  # memory.qmd.limits
    max_results: int = setting(whole(1), 6, "The maximum number of results from qmd.")
    max_snippet_chars: int = setting(whole(1), 700, "Characters of a snippet.")
    max_injected_chars: int = setting(whole(1), 4000, "Characters of all snippets.")
    timeout_ms: int = setting(whole(1), 4000, "Milliseconds that a search may take.")


class Mcporter(Section):  # memory.qmd.mcporter
    enabled: bool = setting(flag(), False, "Send searches through mcporter.")
    server_name: str = setting(text(), "qmd", "The name of the qmd server in mcporter.", fix=_strip_or("qmd"))
    start_daemon: bool = setting(flag(), True, "Start mcporter's daemon.")


class Qmd(Section):  # memory.qmd
    command: str = setting(text(), "qmd", "The command for qmd; quotes work as in a shell.", fix=_strip_or("qmd"))
    search_mode: str = setting(choice("search", "vsearch", "query"), "search", "Which qmd command answers a search.")
    include_default_memory: bool = setting(flag(), True, "Make the memory files a collection.")
    paths: tuple[dict[str, str], ...] = setting(list_of(_QMD_PATH), (), "More folders to use as collections.")
    sessions: QmdSessions = QmdSessions()
    update: QmdUpdate = QmdUpdate()
    limits: QmdLimits = QmdLimits()
    scope: dict[str, Any] = setting(_SCOPE, DEFAULT_SCOPE, "Which conversations may search; it replaces the default.")
    mcporter: Mcporter = Mcporter()


class MemoryBackend(Section, dropped=("search",)):  # memory; memory.search is read with memorySearch
    backend: str = setting(choice("builtin", "qmd"), "builtin", "The backend that answers searches.")
    citations: str = setting(choice("auto", "on", "off"), "auto", "Cite sources in answers; `auto`: in direct chats.")
    qmd: Qmd = Qmd()


class MemoryFlush(Section):  # agents.defaults.compaction.memoryFlush
    enabled: bool = setting(flag(), True, "Save memories before compaction.")
    soft_threshold_tokens: int = setting(whole(0), 4000, "How many tokens before compaction to save them.")
    force_flush_transcript_bytes: int = setting(size_bytes(), 2 * 1024 * 1024, "Also after this much growth; 0: never.")
    model: str | None = setting(text(), None, "The model to flush with, as `provider/model`.", fix=_blank_is_none)
    prompt: str | None = setting(text(), None, "The user prompt of the flush, if not the default.", fix=_blank_is_none)
    system_prompt: str | None = setting(text(), None, "The system prompt, if not the default.", fix=_blank_is_none)


class Compaction(Section, is_strict=False):  # agents.defaults.compaction
    reserve_tokens: int | None = setting(whole(0), None, "The tokens that compaction keeps free; 16384 if not set.")
    reserve_tokens_floor: int = setting(whole(0), 20_000, "The fewest tokens that compaction keeps free.")
    memory_flush: MemoryFlush = MemoryFlush()
    post_index_sync: str = setting(choice("off", "async", "await"), "async", "Index the transcript after compaction.")


class StartupContext(Section, dropped=("applyOn", "maxFileBytes")):  # agents.defaults.startupContext
    enabled: bool = setting(flag(), True, "Show the newest daily notes when a new session starts.")
    daily_memory_days: int = setting(whole(1, 14), 2, "Days whose notes a session starts with, today included.")
    max_file_chars: int = setting(whole(1, 10_000), 1_200, "Characters of one of these notes.")
    max_total_chars: int = setting(whole(1, 50_000), 2_800, "Characters of all these notes.")


class AgentDefaults(Section, is_strict=False):
    """``agents.defaults``, as far as mdrecall reads it; an agent may have its own of what ``PER_AGENT`` names."""

    context_tokens: int | None = setting(whole(1), None, "The model's context window; 200000 if not set.")
    user_timezone: str | None = setting(text(), None, "The user's time zone, such as Europe/Zurich, if another one.")
    time_format: str = setting(choice("auto", "12", "24"), "auto", "The format of times in prompts; `auto`: 24 hours.")
    bootstrap_max_chars: int = setting(whole(1), 20_000, "Characters shown of one file; of USER.md at most 4000.")
    bootstrap_total_max_chars: int = setting(whole(1), 60_000, "Characters of all files that a session starts with.")
    startup_context: StartupContext = StartupContext()


#: What ``agents.entries.<id>`` may set for one agent.
PER_AGENT = ("bootstrapMaxChars", "bootstrapTotalMaxChars")


class SessionTools(Section):  # tools.sessions
    visibility: str = setting(
        choice("self", "tree", "agent", "all"), "all", "Which conversations one may see; `tree`: those it started too."
    )


class AgentToAgent(Section):  # tools.agentToAgent
    enabled: bool = setting(flag(), True, "Let agents see the conversations of other agents.")
    allow: tuple[str, ...] = setting(list_of(text()), (), "The agents that may see others; if empty, all.")


class ToolRules(Section, is_strict=False):  # tools
    sessions: SessionTools = SessionTools()
    agent_to_agent: AgentToAgent = AgentToAgent()


class SessionRules(Section, is_strict=False):  # session
    dm_scope: str = setting(
        choice("main", "per-peer", "per-channel-peer", "per-account-channel-peer"), "main", "Who shares a direct chat."
    )
    scope: str = setting(choice("per-sender", "global"), "per-sender", "Whether all senders share one conversation.")
    store: str | None = setting(text(), None, "OpenClaw's sessions, if not in the agent's folder.")


class Slots(Section, is_strict=False):  # plugins.slots
    memory: str = setting(text(), "memory-core", "The plugin in the slot, or `none`.", fix=_strip_or("memory-core"))


class Plugins(Section, is_strict=False):  # plugins
    enabled: bool = setting(flag(), True, "Use plugins.")
    allow: tuple[str, ...] = setting(list_of(text()), (), "If not empty, the only plugins that are used.")
    deny: tuple[str, ...] = setting(list_of(text()), (), "Plugins that are never used.")
    slots: Slots = Slots()


class DeepDreaming(Section, is_strict=False):  # plugins.entries.memory-core.config.dreaming.phases.deep
    limit: int = setting(whole(0), 10, "How many statements are promoted at once.")
    min_score: float = setting(number(0, 1), 0.75, "The least score of a statement.")
    min_recall_count: int = setting(whole(0), 3, "The least number of signals: recalls, and notes that repeat it.")
    min_unique_queries: int = setting(whole(0), 3, "How many different queries must have found it.")
    max_age_days: int = setting(whole(1), 30, "How many days ago it may have been found last.")
    recency_half_life_days: int = setting(whole(1), 14, "After how many days a recall counts half.")


class LanceDbEmbedding(Section):  # plugins.entries.memory-lancedb.config.embedding
    api_key: Any = setting(SECRET, None, "The key, or a reference to it.", hide=hide_text)
    model: str = setting(text(), "text-embedding-3-small", "The embedding model.")
    base_url: str | None = setting(text(), None, "The address of the embeddings API.")
    dimensions: int | None = setting(whole(1), None, "The length of the model's vectors.")
    provider: str | None = setting(text(), None, "If not set, openai, or openai-compatible with another address.")


class LanceDb(Section, dropped=("storageOptions",)):  # plugins.entries.memory-lancedb.config
    embedding: LanceDbEmbedding = LanceDbEmbedding()
    db_path: str | None = setting(text(), None, "The path or address of the database.")
    auto_capture: bool = setting(flag(), False, "Save what a user says if it sounds worth remembering.")
    auto_recall: bool = setting(flag(), True, "Put relevant memories before the prompt.")
    capture_max_chars: int = setting(number(100, 10_000), 500, "Do not save messages with more characters.", fix=int)
    recall_max_chars: int = setting(number(100, 10_000), 1000, "Characters of a prompt, and of each memory.", fix=int)
    custom_triggers: tuple[str, ...] = setting(list_of(text(100), 50), (), "More phrases that make it save a message.")


class Logging(Section, is_strict=False):  # logging
    redact_patterns: tuple[str, ...] = setting(list_of(text()), (), "Regular expressions of secrets, or `/…/flags`.")


# ``.trash`` is where Obsidian keeps notes that were deleted.
IGNORED_FOLDERS = (".git", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__", ".trash", ".obsidian")


class WatchOptions(Section):  # mdrecall.watch
    scan_seconds: int = setting(whole(1), 60, "Seconds between a watcher's regular checks.")


class WarmOptions(Section):  # mdrecall.warm
    enabled: bool = setting(flag(), True, "Let a process that has the memory open answer commands.")
    idle_minutes: int = setting(whole(1), 30, "Minutes after which a process without commands ends.")


class RemoteRequests(Section):  # mdrecall.remote
    concurrency: int = setting(whole(1), 1, "How many requests run at once.")
    batch_min_chunks: int = setting(whole(1), 1, "The fewest chunks for a batch job.")


class QmdOptions(Section):  # mdrecall.qmd
    session: bool = setting(flag(), True, "Keep `qmd mcp` running while a memory stays open.")
    first_retry_seconds: int = setting(whole(1), 15, "How long qmd rests after a failure; doubled, up to 10 minutes.")


class ToolOptions(Section):  # mdrecall.tools
    max_chars: int = setting(whole(200), 4_000, "Characters of notes that one memory_search returns.")
    append: bool = setting(flag(), False, "Offer memory_append; MCP servers do unless it is false.")


class ForgetOptions(Section, dropped=("tool",)):  # mdrecall.forget
    trash_days: int = setting(whole(1), 30, "Days that the trash keeps what was removed.")


class RerankOptions(Section):
    """``mdrecall.rerank``: a model that reads the query with each of the best passages and reorders them."""

    provider: str | None = setting(
        choice("cohere", "jina", "voyage", "llama.cpp", "local"), None, "The reranking provider; none if not set."
    )
    base_url: str | None = setting(text(), None, "The server's address, above `/rerank`.")
    api_key: Any = setting(SECRET, None, "The key, or a reference to it.", hide=hide_text)
    model: str = setting(text(), "", "The model; for `local`, a GGUF file, `hf:` or a URL.")
    top_n: int = setting(whole(1, 100), 40, "How many passages are reordered.")
    timeout_ms: int = setting(whole(1), 3000, "Milliseconds that a search waits for the new order.")


class StoreOptions(Section, dropped=("fallback",)):  # mdrecall.store
    kind: str = setting(choice("sqlite", "postgres"), "sqlite", "A file here, or a database that machines share.")
    dsn: Any = setting(SECRET, None, "The database; MDRECALL_STORE_DSN overrides it.", hide=hide_text)
    workspace: str = setting(text(), "", "The memory's name in the database; else agent and folder.")


class HostOptions(Section, dropped=("flushHeadless",)):  # mdrecall.hosts
    session_start: bool = setting(flag(), True, "Show the model what matters when a session starts.")
    prompt: bool = setting(flag(), True, "Show what fits a prompt; for that, keep what you say in sessions.")
    digest: bool = setting(flag(), True, "Write what was done and decided into the day's note.")
    flush: bool = setting(flag(), True, "Ask the model once in a session to confirm wishes.")
    max_chars: int = setting(whole(500), 2_400, "Characters that a hook shows; one outside of ASCII counts as four.")


class RecallOptions(Section):  # mdrecall.recalls
    record: bool = setting(flag(), False, "Note which lines of dated notes searches find, without their text.")


# Its other thresholds are OpenClaw's: plugins.entries.memory-core.config.dreaming.phases.deep.
_OPENCLAWS = ("limit", "minScore", "minRecallCount", "minUniqueQueries", "maxAgeDays")


class PromoteOptions(Section, dropped=("schedule", *_OPENCLAWS)):  # mdrecall.promote
    min_days: int = setting(whole(0), 2, "On how many different days it must have been found.")
    max_chars: int = setting(whole(0), 10_000, "Promote nothing that makes `MEMORY.md` longer than this.")


class SessionOptions(Section):  # mdrecall.sessions
    visibility: str = setting(
        choice("private", "openclaw"), "private", "Private chats see each other, or as in OpenClaw."
    )
    with_notes: bool | None = setting(flag(), None, "Also find conversations; if not set, as `sources` says.")


_COLLECTION = record({"path": text(), "pattern": text(), "weight": number(0.1, 10)}, required=("path",))


def _read_collections(values: Mapping[str, Any]) -> dict[str, tuple[ExtraPath, float]]:
    """Return where each collection is, and what it weighs."""
    return {
        name: (ExtraPath(entry["path"].strip(), entry.get("pattern") or None), entry.get("weight", 1.0))
        for name, entry in values.items()
    }


class MdrecallSettings(Section, dropped=("activity", "flush", "vectors")):
    """``mdrecall``: the settings that only mdrecall has."""

    max_file_bytes: int = setting(size_bytes(), 32 * 1024 * 1024, "Skip and report larger files.")
    ignore: tuple[str, ...] = setting(list_of(text()), IGNORED_FOLDERS, "Names of folders to skip.")
    max_per_file: int | None = setting(whole(1), None, "The most results from one file; unlimited if not set.")
    query_timeout_ms: int = setting(whole(1), 3000, "Milliseconds that a search waits for a remote embedder.")
    search_wait_ms: int = setting(whole(0), 250, "Milliseconds that a search waits for changed files.")
    first_index_wait_ms: int = setting(whole(0), 30_000, "Milliseconds that a search waits for the first index.")
    encoder: bool = setting(flag(), True, "Also compare passages by the encoder.")
    watch: WatchOptions = WatchOptions()
    warm: WarmOptions = WarmOptions()
    remote: RemoteRequests = RemoteRequests()
    qmd: QmdOptions = QmdOptions()
    tools: ToolOptions = ToolOptions()
    forget: ForgetOptions = ForgetOptions()
    store: StoreOptions = StoreOptions()
    rerank: RerankOptions = RerankOptions()
    hosts: HostOptions = HostOptions()
    recalls: RecallOptions = RecallOptions()
    promote: PromoteOptions = PromoteOptions()
    collections: Mapping[str, tuple[ExtraPath, float]] = setting(
        map_of(_COLLECTION),
        {},
        "Parts of the notes, `{name: {path, pattern, weight}}`; the weight (0.1 to 10) multiplies the odds of a note.",
        fix=_read_collections,
    )
    sessions: SessionOptions = SessionOptions()


#: Every section by the path of its settings in a configuration file.
SECTIONS: dict[str, type[Section]] = {
    "memorySearch": MemorySearch,
    "memory": MemoryBackend,
    "agents.defaults.compaction": Compaction,
    "agents.defaults": AgentDefaults,
    "plugins": Plugins,
    "plugins.entries.memory-lancedb.config": LanceDb,
    "plugins.entries.memory-core.config.dreaming.phases.deep": DeepDreaming,
    "logging": Logging,
    "tools": ToolRules,
    "session": SessionRules,
    "mdrecall": MdrecallSettings,
}


class ResolvedValue(NamedTuple):
    """The value of a setting after all layers, and where it came from."""

    value: Any
    origin: str


class Values(Mapping[str, ResolvedValue]):
    """Every setting by its full name, with its value and origin. Only those that are not defaults are kept."""

    def __init__(self, found: dict[str, ResolvedValue]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> ResolvedValue:
        return self._found[name] if name in self._found else ResolvedValue(list_settings()[name].default, "default")

    def __iter__(self) -> Iterator[str]:
        return iter(("agent", "workspace", "index", *list_settings()))

    def __len__(self) -> int:
        return 3 + len(list_settings())


@cache
def list_settings() -> dict[str, Setting]:
    """Return every setting by its full name."""
    return dict(found for prefix, section in SECTIONS.items() for found in each_setting(section, f"{prefix}."))


class Settings(NamedTuple):
    """All settings of one agent's memory."""

    agent_id: str
    workspace: str
    index_path: str
    index_path_is_ours: bool
    """True if only mdrecall writes to the path; False if it comes from ``store.path``."""
    sessions_dir: str
    """The folder with this agent's transcripts and ``sessions.json``."""
    agent_dir: str
    """The folder with this agent's keys: ``agentDir`` of OpenClaw's configuration, else beside the transcripts."""
    session_database: str
    """The database with this agent's conversations: the one in ``agent_dir``, or where ``session.store`` says."""
    state_dir: str
    """OpenClaw's state folder; for a workspace that is not OpenClaw's, a folder of its own in mdrecall's."""
    shared_dir: str
    """OpenClaw's state folder, or mdrecall's without OpenClaw, for what belongs to an agent and not to a workspace."""
    qmd_dir: str
    """The folder with qmd's configuration, its index and the exported transcripts of this agent."""
    standalone: bool
    """True if the workspace is not one of OpenClaw's, so that a plain folder of Markdown may be the memory."""
    memory_search: MemorySearch
    memory: MemoryBackend
    compaction: Compaction
    defaults: AgentDefaults
    plugins: Plugins
    lancedb: LanceDb
    dreaming: DeepDreaming
    logging: Logging
    tools: ToolRules
    session: SessionRules
    mdrecall: MdrecallSettings

    @property
    def searches_sessions(self) -> bool:
        """True if conversations are indexed by the backend or by the one that answers for it."""
        # While qmd cannot answer, the builtin backend does.
        by_qmd = self.memory.backend == "qmd" and self.memory.qmd.sessions.enabled
        return by_qmd or "sessions" in self.memory_search.sources

    @property
    def wishes_state(self) -> str:
        """The file with the hashes of written wishes, what models were asked, and how many requests sessions had."""
        return os.path.join(self.state_dir, "mdrecall-wishes.json")

    @property
    def agent_folder(self) -> str:
        """The folder for what mdrecall keeps about this agent beside what OpenClaw has."""
        return os.path.join(self.state_dir, "agents", self.agent_id)
