"""The settings under ``memorySearch``."""

from collections.abc import Callable, Mapping
from typing import Any

from mdrecall.config.declare import (
    choice,
    either,
    flag,
    hide_text,
    hide_values,
    list_of,
    map_of,
    number,
    record,
    section,
    setting,
    text,
    whole,
)
from mdrecall.named_tuple import NamedTuple
from mdrecall.types import SourceName

PROVIDERS = ("offline", "minilm", "openai", "openai-compatible", "local", "gemini", "voyage", "mistral", "ollama")
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


def _clamp(least: int, most: int) -> Callable[[int], int]:
    return lambda value: max(least, min(most, value))


class Batch(NamedTuple):
    """``memorySearch.remote.batch``: the provider's batch API."""

    enabled: bool = setting(flag(), False, "Send large jobs through the provider's batch API.")
    wait: bool = setting(flag(), True, "Make indexing wait until the batch is done.")
    concurrency: int = setting(whole(1), 2, "How many batches run at once.")
    poll_interval_ms: int = setting(whole(0), 2000, "How often a batch is polled, in milliseconds.")
    timeout_minutes: int = setting(whole(1), 60, "How long a batch may take, in minutes.")


class Remote(NamedTuple):
    """``memorySearch.remote``: how a remote provider is reached."""

    base_url: str | None = setting(text(), None, "The provider's address, if not its default one.")
    api_key: Any = setting(SECRET, None, "The key, a string with `${VAR}`, or a reference.", hide=hide_text)
    headers: Mapping[str, Any] = setting(map_of(text()), {}, "Additional headers for every request.", hide=hide_values)
    batch: Batch = section(Batch)


class Local(NamedTuple):
    """``memorySearch.local``: models on this machine."""

    model_path: str | None = setting(
        text(), None, "A GGUF file, an `hf:` reference or a URL; for minilm, the folder with its files."
    )
    model_cache_dir: str | None = setting(text(), None, "The folder for downloaded models.")


class VectorStore(NamedTuple):
    """``memorySearch.store.vector``."""

    enabled: bool = setting(flag(), True, "Let sqlite-vec search vectors; if off, they are searched in this process.")
    extension_path: str | None = setting(text(), None, "A sqlite-vec library to load instead of the bundled one.")


class Fts(NamedTuple):
    """``memorySearch.store.fts``."""

    tokenizer: str = setting(
        choice("unicode61", "trigram"), "unicode61", "Has no effect: one index serves both.", is_used=False
    )


class StoreSettings(NamedTuple):
    """``memorySearch.store``: the index."""

    driver: str = setting(choice("sqlite"), "sqlite", "The database for the index.")
    path: str | None = setting(text(), None, "The index file; `{agentId}` stands for the agent.")
    fts: Fts = section(Fts)
    vector: VectorStore = section(VectorStore)


class Chunking(NamedTuple):
    """``memorySearch.chunking``."""

    tokens: int = setting(whole(1), 400, "The longest chunk, in tokens of about four characters.")
    overlap: int = setting(whole(0), 80, "How many tokens neighbouring chunks share; less than `tokens`.")


class SessionSync(NamedTuple):
    """``memorySearch.sync.sessions``: when a grown transcript is indexed."""

    delta_bytes: int = setting(
        whole(0), 100_000, "Index a transcript after it grew by this many bytes; 0 means any growth."
    )
    delta_messages: int = setting(whole(0), 50, "Index a transcript after it grew by this many messages.")
    post_compaction_force: bool = setting(flag(), True, "Index a session's transcript after its compaction.")


class SyncSettings(NamedTuple):
    """``memorySearch.sync``: when the index is brought up to date."""

    on_session_start: bool = setting(flag(), True, "Update the index when a session starts.")
    on_search: bool = setting(flag(), True, "Index changed files before a search.")
    watch: bool = setting(flag(), True, "Watch files for changes.")
    watch_debounce_ms: int = setting(
        whole(0), 1500, "How long files must stay unchanged before they are indexed, in milliseconds."
    )
    interval_minutes: int = setting(
        whole(0), 0, "How often to check for changes even without events, in minutes; 0 means never."
    )
    sessions: SessionSync = section(SessionSync)


class Mmr(NamedTuple):
    """``memorySearch.query.hybrid.mmr``: maximal marginal relevance, for varied results."""

    enabled: bool = setting(flag(), False, "Rank results lower that repeat better ones (maximal marginal relevance).")
    lambda_: float = setting(number(0, 1), 0.7, "The balance of MMR: 1 is relevance only, 0 is diversity only.")


class TemporalDecay(NamedTuple):
    """``memorySearch.query.hybrid.temporalDecay``."""

    enabled: bool = setting(flag(), False, "Rank older dated notes lower.")
    half_life_days: int = setting(whole(1), 30, "After how many days a dated note counts half.")


class Hybrid(NamedTuple):
    """``memorySearch.query.hybrid``: keyword and vector search together."""

    enabled: bool = setting(flag(), True, "Combine keyword and vector search; if off, vectors only.")
    vector_weight: float = setting(
        number(0, 1), 0.35, "The weight of vector search; both weights are divided by their sum."
    )
    text_weight: float = setting(number(0, 1), 0.65, "The weight of keyword search.")
    candidate_multiplier: int = setting(
        whole(1), 4, "How many candidates are ranked per result, 1 to 20.", fix=_clamp(1, 20)
    )
    mmr: Mmr = section(Mmr)
    temporal_decay: TemporalDecay = section(TemporalDecay)


class QuerySettings(NamedTuple):
    """``memorySearch.query``."""

    max_results: int = setting(whole(1), 20, "The maximum number of results, each a passage of a few lines.")
    min_score: float = setting(number(0, 1), 0.01, "Leave out results below this score, which is a probability.")
    hybrid: Hybrid = section(Hybrid)


class Cache(NamedTuple):
    """``memorySearch.cache``: the embedding cache."""

    enabled: bool = setting(flag(), True, "Keep a cache of embeddings, so that a known text is not embedded again.")
    max_entries: int | None = setting(whole(1), None, "The largest number of cached embeddings; unlimited if not set.")


class Experimental(NamedTuple):
    """``memorySearch.experimental``."""

    session_memory: bool = setting(flag(), False, "Allow `sessions` among the sources.")


class Multimodal(NamedTuple):
    """``memorySearch.multimodal``."""

    enabled: bool = setting(flag(), False, "Has no effect: images and audio files are not indexed.", is_used=False)
    modalities: tuple[str, ...] = setting(
        list_of(choice("image", "audio", "all")), ("all",), "Has no effect.", is_used=False
    )
    max_file_bytes: int = setting(whole(1), 10 * 1024 * 1024, "Has no effect.", is_used=False)


class ExtraPath(NamedTuple):
    """A folder or file besides the memory files; ``pattern`` limits a folder to some of its files."""

    path: str
    pattern: str | None = None


class MemorySearch(NamedTuple):
    """``memorySearch``: the settings of an agent's search."""

    enabled: bool = setting(flag(), True, "Give this agent a memory.")
    sources: tuple[SourceName, ...] = setting(
        list_of(choice("memory", "sessions")),
        ("memory",),
        "What is searched: notes (`memory`), transcripts (`sessions`).",
    )
    extra_paths: tuple[ExtraPath, ...] = setting(
        list_of(_EXTRA_PATH), (), "More Markdown files or folders; `{path, pattern}` limits a folder to a glob pattern."
    )
    experimental: Experimental = section(Experimental)
    remember_across_conversations: bool | None = setting(
        flag(),
        None,
        "Let private chats know of each other; if not set, unless `session.dmScope` or a binding keeps them apart.",
    )
    provider: str | None = setting(
        choice("auto", *PROVIDERS, "none"),
        None,
        "The embedding provider; if not set, the first one with a key, else offline. With `none`, keywords only.",
    )
    model: str = setting(text(), "", "The embedding model; if not set, the provider's default.")
    input_type: str | None = setting(text(), None, "The `input_type` of every request to an embedding API.")
    query_input_type: str | None = setting(text(), None, "The `input_type` for queries, if another one.")
    document_input_type: str | None = setting(text(), None, "The `input_type` for notes, if another one.")
    fallback: str = setting(choice(*PROVIDERS, "none"), "none", "The provider to use when the first one fails.")
    remote: Remote = section(Remote)
    local: Local = section(Local)
    store: StoreSettings = section(StoreSettings)
    chunking: Chunking = section(Chunking)
    sync: SyncSettings = section(SyncSettings)
    query: QuerySettings = section(QuerySettings)
    cache: Cache = section(Cache)
    output_dimensionality: int | None = setting(
        whole(1), None, "The length of the vectors, for models that offer a choice."
    )
    multimodal: Multimodal = section(Multimodal)
