"""The settings under ``memorySearch``."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mdrecall.config.declare import hide_text, hide_values, section, setting
from mdrecall.config.rules import choice, either, flag, list_of, map_of, number, record, text, whole
from mdrecall.types import SourceName

PROVIDERS = ("offline", "minilm", "openai", "openai-compatible", "local", "gemini", "voyage", "mistral", "ollama")
DEFAULT_MODELS = {
    "openai": "text-embedding-3-small",
    "gemini": "gemini-embedding-001",
    "voyage": "voyage-4-large",
    "mistral": "mistral-embed",
    "ollama": "nomic-embed-text",
}

_SECRET = either(
    text(), record({"source": choice("env", "file", "exec"), "provider": text(), "id": text()}, ("source", "id"))
)
_EXTRA_PATH = either(text(), record({"path": text(), "pattern": text()}, ("path",)))


def _clamp(least: int, most: int) -> Callable[[int], int]:
    return lambda value: max(least, min(most, value))


class Batch(NamedTuple):
    """``memorySearch.remote.batch``: the provider's batch API."""

    enabled: bool = setting(flag(), False, "Whether large jobs go through the provider's batch API.")
    wait: bool = setting(flag(), True, "Whether indexing waits for the batch to finish.")
    concurrency: int = setting(whole(1), 2, "How many batches at once.")
    poll_interval_ms: int = setting(whole(0), 2000, "How often a batch is asked after, in milliseconds.")
    timeout_minutes: int = setting(whole(1), 60, "How long a batch may take, in minutes.")


class Remote(NamedTuple):
    """``memorySearch.remote``: how a remote provider is reached."""

    base_url: str | None = setting(text(), None, "Where the provider answers, if not at its own address.")
    api_key: Any = setting(_SECRET, None, "The key, a text with `${VAR}`, or a reference.", hide=hide_text)
    headers: Mapping[str, Any] = setting(map_of(text()), {}, "More headers for every request.", hide=hide_values)
    batch: Batch = section(Batch)


class Local(NamedTuple):
    """``memorySearch.local``: models on this machine."""

    model_path: str | None = setting(
        text(), None, "A GGUF file, an `hf:` reference or an address; for minilm, a folder with its files."
    )
    model_cache_dir: str | None = setting(text(), None, "Where downloaded models are kept.")


class VectorStore(NamedTuple):
    """``memorySearch.store.vector``."""

    enabled: bool = setting(flag(), True, "Whether vectors are kept and searched.")
    extension_path: str | None = setting(text(), None, "A sqlite-vec library to load instead of the bundled one.")


class StoreSettings(NamedTuple):
    """``memorySearch.store``: the index."""

    driver: str = setting(choice("sqlite"), "sqlite", "What keeps the index.")
    path: str | None = setting(text(), None, "The index file; `{agentId}` stands for the agent.")
    vector: VectorStore = section(VectorStore)


class Chunking(NamedTuple):
    """``memorySearch.chunking``."""

    tokens: int = setting(whole(1), 400, "How long a chunk may be, in tokens of about four characters.")
    overlap: int = setting(whole(0), 80, "How much neighbouring chunks share; less than `tokens`.")


class SessionSync(NamedTuple):
    """``memorySearch.sync.sessions``: when a grown transcript is indexed."""

    delta_bytes: int = setting(
        whole(0), 100_000, "A transcript is indexed after growing by this much; 0 is by anything."
    )
    delta_messages: int = setting(whole(0), 50, "Or after this many messages.")
    post_compaction_force: bool = setting(flag(), True, "Whether a compaction has its transcript indexed.")


class SyncSettings(NamedTuple):
    """``memorySearch.sync``: when the index is brought up to date."""

    on_session_start: bool = setting(flag(), True, "Whether a new session brings the index up to date.")
    on_search: bool = setting(flag(), True, "Whether a search first indexes what changed.")
    watch: bool = setting(flag(), True, "Whether files are watched.")
    watch_debounce_ms: int = setting(whole(0), 1500, "How long files must be quiet before they are indexed.")
    interval_minutes: int = setting(whole(0), 0, "How often to look for changes anyway; 0 is never.")
    sessions: SessionSync = section(SessionSync)


class Mmr(NamedTuple):
    """``memorySearch.query.hybrid.mmr``: maximal marginal relevance, for varied results."""

    enabled: bool = setting(flag(), False, "Whether results that repeat each other give way.")
    lambda_: float = setting(number(0, 1), 0.7, "1 is relevance only, 0 is variety only.")


class TemporalDecay(NamedTuple):
    """``memorySearch.query.hybrid.temporalDecay``."""

    enabled: bool = setting(flag(), False, "Whether older notes count less.")
    half_life_days: int = setting(whole(1), 30, "After how many days a dated note counts half.")


class Hybrid(NamedTuple):
    """``memorySearch.query.hybrid``: keyword and vector search together."""

    enabled: bool = setting(flag(), True, "Whether words count too; if not, vectors alone.")
    vector_weight: float = setting(
        number(0, 1), 0.35, "How much vectors count; the two weights are divided by their sum."
    )
    text_weight: float = setting(number(0, 1), 0.65, "How much words count.")
    candidate_multiplier: int = setting(
        whole(1), 4, "How many candidates are looked at for each result, 1 to 20.", fix=_clamp(1, 20)
    )
    mmr: Mmr = section(Mmr)
    temporal_decay: TemporalDecay = section(TemporalDecay)


class QuerySettings(NamedTuple):
    """``memorySearch.query``."""

    max_results: int = setting(whole(1), 6, "How many results a search gives.")
    min_score: float = setting(number(0, 1), 0.35, "Results below this score are left out.")
    hybrid: Hybrid = section(Hybrid)


class Cache(NamedTuple):
    """``memorySearch.cache``: the embedding cache."""

    enabled: bool = setting(flag(), True, "Whether embeddings are kept for text that comes again.")
    max_entries: int | None = setting(whole(1), None, "How many are kept; without it, all.")


class Experimental(NamedTuple):
    """``memorySearch.experimental``."""

    session_memory: bool = setting(flag(), False, "Allows `sessions` among the sources.")


class Multimodal(NamedTuple):
    """``memorySearch.multimodal``."""

    enabled: bool = setting(flag(), False, "Whether images and audio under extra paths are indexed.")
    modalities: tuple[str, ...] = setting(list_of(choice("image", "audio", "all")), ("all",), "Which kinds.")
    max_file_bytes: int = setting(whole(1), 10 * 1024 * 1024, "Larger files are left out.")


class ExtraPath(NamedTuple):
    """A folder or file beyond the memory files; ``pattern`` limits which files of a folder count."""

    path: str
    pattern: str | None = None


class MemorySearch(NamedTuple):
    """``memorySearch``: the settings of an agent's search."""

    enabled: bool = setting(flag(), True, "Whether this agent has a memory at all.")
    sources: tuple[SourceName, ...] = setting(
        list_of(choice("memory", "sessions")), ("memory",), "What is searched: notes, transcripts."
    )
    extra_paths: tuple[ExtraPath, ...] = setting(
        list_of(_EXTRA_PATH), (), "More files or folders of Markdown; `{path, pattern}` limits a folder to a glob."
    )
    experimental: Experimental = section(Experimental)
    provider: str | None = setting(
        choice("auto", *PROVIDERS), None, "Who embeds; without it, who has a key, or the offline one."
    )
    model: str = setting(text(), "", "The embedding model; without it, the provider's own default.")
    fallback: str = setting(choice(*PROVIDERS, "none"), "none", "Who makes the embeddings when the provider fails.")
    remote: Remote = section(Remote)
    local: Local = section(Local)
    store: StoreSettings = section(StoreSettings)
    chunking: Chunking = section(Chunking)
    sync: SyncSettings = section(SyncSettings)
    query: QuerySettings = section(QuerySettings)
    cache: Cache = section(Cache)
    output_dimensionality: int | None = setting(
        whole(1), None, "How long the vectors are to be, where the model gives a choice."
    )
    multimodal: Multimodal = section(Multimodal)
