"""Every setting: its name, what it accepts, its default, and what it is for."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mdrecall.config import settings as shapes
from mdrecall.config.rules import (
    Rule,
    choice,
    duration_ms,
    either,
    flag,
    list_of,
    map_of,
    number,
    record,
    size_bytes,
    text,
    whole,
)

PROVIDERS = ("offline", "minilm", "openai", "openai-compatible", "local", "gemini", "voyage", "mistral", "ollama")
DEFAULT_MODELS = {
    "openai": "text-embedding-3-small",
    "gemini": "gemini-embedding-001",
    "voyage": "voyage-4-large",
    "mistral": "mistral-embed",
    "ollama": "nomic-embed-text",
}
IGNORED_FOLDERS = (".git", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__")
DEFAULT_SCOPE = {"default": "deny", "rules": [{"action": "allow", "match": {"chatType": "direct"}}]}


class Key(NamedTuple):
    """One setting."""

    rule: Rule
    default: Any
    about: str
    fix: Callable[[Any], Any] | None = None
    """Brings an accepted value into the range that is used."""
    secret: bool = False


class Section(NamedTuple):
    """A group of settings, read into the shape that carries them."""

    shape: Callable[..., Any]
    keys: Mapping[str, "Key | Section"]
    strict: bool = True
    """Whether a key that is not listed is an error; False where OpenClaw keeps other settings in the same object."""


def _clamp(least: float, most: float) -> Callable[[Any], Any]:
    return lambda value: max(least, min(most, value))


def _stripped_or(default: str) -> Callable[[Any], Any]:
    return lambda value: value.strip() or default


def _blank_is_none(value: str | None) -> str | None:
    return (value or "").strip() or None


_SECRET = either(
    text(), record({"source": choice("env", "file", "exec"), "provider": text(), "id": text()}, ("source", "id"))
)
_EXTRA_PATH = either(text(), record({"path": text(), "pattern": text()}, ("path",)))
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

MEMORY_SEARCH = Section(
    shapes.MemorySearch,
    {
        "enabled": Key(flag(), True, "Whether this agent has a memory at all."),
        "sources": Key(list_of(choice("memory", "sessions")), ("memory",), "What is searched: notes, transcripts."),
        "extraPaths": Key(
            list_of(_EXTRA_PATH), (), "More files or folders of Markdown; `{path, pattern}` limits a folder to a glob."
        ),
        "experimental": Section(
            shapes.Experimental,
            {"sessionMemory": Key(flag(), False, "Allows `sessions` among the sources.")},
        ),
        "provider": Key(choice("auto", *PROVIDERS), None, "Who embeds; without it, who has a key, or the offline one."),
        "model": Key(text(), "", "The embedding model; without it, the provider's own default."),
        "fallback": Key(choice(*PROVIDERS, "none"), "none", "Who makes the embeddings when the provider fails."),
        "remote": Section(
            shapes.Remote,
            {
                "baseUrl": Key(text(), None, "Where the provider answers, if not at its own address."),
                "apiKey": Key(_SECRET, None, "The key, a text with `${VAR}`, or a reference.", secret=True),
                "headers": Key(map_of(text()), {}, "More headers for every request.", secret=True),
                "batch": Section(
                    shapes.Batch,
                    {
                        "enabled": Key(flag(), False, "Whether large jobs go through the provider's batch API."),
                        "wait": Key(flag(), True, "Whether indexing waits for the batch to finish."),
                        "concurrency": Key(whole(1), 2, "How many batches at once."),
                        "pollIntervalMs": Key(whole(0), 2000, "How often a batch is asked after, in milliseconds."),
                        "timeoutMinutes": Key(whole(1), 60, "How long a batch may take, in minutes."),
                    },
                ),
            },
        ),
        "local": Section(
            shapes.Local,
            {
                "modelPath": Key(
                    text(), None, "A GGUF file, an `hf:` reference or an address; for minilm, a folder with its files."
                ),
                "modelCacheDir": Key(text(), None, "Where downloaded models are kept."),
            },
        ),
        "store": Section(
            shapes.StoreSettings,
            {
                "driver": Key(choice("sqlite"), "sqlite", "What keeps the index."),
                "path": Key(text(), None, "The index file; `{agentId}` stands for the agent."),
                "vector": Section(
                    shapes.VectorStore,
                    {
                        "enabled": Key(flag(), True, "Whether vectors are kept and searched."),
                        "extensionPath": Key(text(), None, "A sqlite-vec library to load instead of the bundled one."),
                    },
                ),
            },
        ),
        "chunking": Section(
            shapes.Chunking,
            {
                "tokens": Key(whole(1), 400, "How long a chunk may be, in tokens of about four characters."),
                "overlap": Key(whole(0), 80, "How much neighbouring chunks share; less than `tokens`."),
            },
        ),
        "sync": Section(
            shapes.SyncSettings,
            {
                "onSessionStart": Key(flag(), True, "Whether a new session brings the index up to date."),
                "onSearch": Key(flag(), True, "Whether a search first indexes what changed."),
                "watch": Key(flag(), True, "Whether files are watched."),
                "watchDebounceMs": Key(whole(0), 1500, "How long files must be quiet before they are indexed."),
                "intervalMinutes": Key(whole(0), 0, "How often to look for changes anyway; 0 is never."),
                "sessions": Section(
                    shapes.SessionSync,
                    {
                        "deltaBytes": Key(whole(0), 100_000, "A transcript is indexed after growing by this much;"
                                          " 0 is by anything."),
                        "deltaMessages": Key(whole(0), 50, "Or after this many messages."),
                        "postCompactionForce": Key(flag(), True, "Whether a compaction has its transcript indexed."),
                    },
                ),
            },
        ),
        "query": Section(
            shapes.QuerySettings,
            {
                "maxResults": Key(whole(1), 6, "How many results a search gives."),
                "minScore": Key(number(0, 1), 0.35, "Results below this score are left out."),
                "hybrid": Section(
                    shapes.Hybrid,
                    {
                        "enabled": Key(flag(), True, "Whether words count too; if not, vectors alone."),
                        "vectorWeight": Key(number(0, 1), 0.35, "How much vectors count; the two weights are divided"
                                            " by their sum."),
                        "textWeight": Key(number(0, 1), 0.65, "How much words count."),
                        "candidateMultiplier": Key(
                            whole(1), 4, "How many candidates are looked at for each result, 1 to 20.", _clamp(1, 20)
                        ),
                        "mmr": Section(
                            shapes.Mmr,
                            {
                                "enabled": Key(flag(), False, "Whether results that repeat each other give way."),
                                "lambda": Key(number(0, 1), 0.7, "1 is relevance only, 0 is variety only."),
                            },
                        ),
                        "temporalDecay": Section(
                            shapes.TemporalDecay,
                            {
                                "enabled": Key(flag(), False, "Whether older notes count less."),
                                "halfLifeDays": Key(whole(1), 30, "After how many days a dated note counts half."),
                            },
                        ),
                    },
                ),
            },
        ),
        "cache": Section(
            shapes.Cache,
            {
                "enabled": Key(flag(), True, "Whether embeddings are kept for text that comes again."),
                "maxEntries": Key(whole(1), None, "How many are kept; without it, all."),
            },
        ),
        "outputDimensionality": Key(whole(1), None, "How long the vectors are to be, where the model gives a choice."),
        "multimodal": Section(
            shapes.Multimodal,
            {
                "enabled": Key(flag(), False, "Whether images and audio under extra paths are indexed."),
                "modalities": Key(list_of(choice("image", "audio", "all")), ("all",), "Which kinds."),
                "maxFileBytes": Key(whole(1), 10 * 1024 * 1024, "Larger files are left out."),
            },
        ),
    },
)  # fmt: skip

_QMD = Section(
    shapes.Qmd,
    {
        "command": Key(
            text(), "qmd", "The qmd program; quotes and backslashes work as in a shell.", _stripped_or("qmd")
        ),
        "searchMode": Key(choice("search", "vsearch", "query"), "search", "Which qmd command answers."),
        "includeDefaultMemory": Key(flag(), True, "Whether the memory files are among the collections."),
        "paths": Key(
            list_of(record({"path": text(), "name": text(), "pattern": text()}, ("path",))), (), "More collections."
        ),
        "sessions": Section(
            shapes.QmdSessions,
            {
                "enabled": Key(flag(), False, "Whether transcripts are exported for qmd."),
                "exportDir": Key(text(), None, "Where to."),
                "retentionDays": Key(whole(0), 0, "Older transcripts are left out; 0 keeps all."),
            },
        ),
        "update": Section(
            shapes.QmdUpdate,
            {
                "interval": Key(duration_ms(), 300_000, "How often qmd updates; 0 is never."),
                "debounceMs": Key(whole(0), 15_000, "An update is skipped if the last is younger."),
                "onBoot": Key(flag(), True, "Whether to update at the start."),
                "waitForBootSync": Key(flag(), False, "Whether the start waits for it."),
                "embedInterval": Key(duration_ms(), 3_600_000, "How often qmd embeds."),
                "commandTimeoutMs": Key(whole(0), 30_000, "Time for a short command.", lambda ms: ms or 30_000),
                "updateTimeoutMs": Key(whole(0), 120_000, "Time for an update.", lambda ms: ms or 120_000),
                "embedTimeoutMs": Key(whole(0), 120_000, "Time for embedding.", lambda ms: ms or 120_000),
            },
        ),
        "limits": Section(
            shapes.QmdLimits,
            {
                "maxResults": Key(whole(1), 6, "How many results."),
                "maxSnippetChars": Key(whole(1), 700, "How long a snippet may be."),
                "maxInjectedChars": Key(whole(1), 4000, "How long all snippets together may be."),
                "timeoutMs": Key(whole(1), 4000, "Time for a search."),
            },
        ),
        "scope": Key(_SCOPE, DEFAULT_SCOPE, "Which conversations may search; given at all, it replaces the default."),
        "mcporter": Section(
            shapes.Mcporter,
            {
                "enabled": Key(flag(), False, "Whether searches go through mcporter."),
                "serverName": Key(text(), "qmd", "The server's name there.", _stripped_or("qmd")),
                "startDaemon": Key(flag(), True, "Whether its daemon is started."),
            },
        ),
    },
)

MEMORY = Section(
    shapes.MemoryBackend,
    {
        "backend": Key(choice("builtin", "qmd"), "builtin", "Who answers searches."),
        "citations": Key(choice("auto", "on", "off"), "auto", "Whether answers name sources; auto: in direct chats."),
        "qmd": _QMD,
    },
)

COMPACTION = Section(
    shapes.Compaction,
    {
        "reserveTokens": Key(whole(0), None, "The room that compaction leaves, if more than the floor; else 16384."),
        "reserveTokensFloor": Key(whole(0), 20_000, "The least room that compaction leaves."),
        "memoryFlush": Section(
            shapes.MemoryFlush,
            {
                "enabled": Key(flag(), True, "Whether memories are written down before compaction."),
                "softThresholdTokens": Key(whole(0), 4000, "How many tokens earlier."),
                "forceFlushTranscriptBytes": Key(
                    size_bytes(), 2 * 1024 * 1024, "A transcript that grew by so much is flushed too; 0 is never."
                ),
                "prompt": Key(text(), None, "The user prompt of the flush; blank is the built-in one.", _blank_is_none),
                "systemPrompt": Key(text(), None, "Its system prompt; blank is the built-in one.", _blank_is_none),
            },
        ),
        "postIndexSync": Key(
            choice("off", "async", "await"), "async", "Whether compaction has its transcript indexed."
        ),
    },
    strict=False,
)

DEFAULTS = Section(
    shapes.AgentDefaults,
    {
        "contextTokens": Key(whole(1), None, "How many tokens the model takes, if nobody says; else 200000."),
        "userTimezone": Key(text(), None, "The user's time zone, such as Europe/Zurich; else this machine's."),
        "timeFormat": Key(choice("auto", "12", "24"), "auto", "How the time is written in prompts; auto is 24 hours."),
    },
    strict=False,
)

PLUGINS = Section(
    shapes.Plugins,
    {
        "enabled": Key(flag(), True, "Whether there are plugins at all."),
        "allow": Key(list_of(text()), (), "If not empty, only these."),
        "deny": Key(list_of(text()), (), "Never these."),
        "slots": Section(
            shapes.Slots,
            {
                "memory": Key(
                    text(), "memory-core", "Which plugin is the memory; `none` is none.", _stripped_or("memory-core")
                )
            },
            strict=False,
        ),
    },
    strict=False,
)

LANCEDB = Section(
    shapes.LanceDb,
    {
        "embedding": Section(
            shapes.LanceDbEmbedding,
            {
                "apiKey": Key(text(), None, "The key; `${VAR}` is taken from the environment.", secret=True),
                "model": Key(text(), "text-embedding-3-small", "The embedding model."),
                "baseUrl": Key(text(), None, "Where it answers."),
                "dimensions": Key(whole(1), None, "How long its vectors are."),
            },
        ),
        "dbPath": Key(text(), None, "Where the memories are kept."),
        "autoCapture": Key(flag(), False, "Whether what a user says is kept when it sounds worth it."),
        "autoRecall": Key(flag(), True, "Whether fitting memories are put before the prompt."),
        "captureMaxChars": Key(number(100, 10_000), 500, "Longer messages are not kept.", int),
    },
)

OWN = Section(
    shapes.Own,
    {
        "maxFileBytes": Key(size_bytes(), 32 * 1024 * 1024, "Larger files are reported and left out."),
        "ignore": Key(list_of(text()), IGNORED_FOLDERS, "Names of folders that are never walked into."),
        "maxPerFile": Key(whole(1), None, "How many results one file may give; without it, any number."),
        "queryTimeoutMs": Key(whole(1), 3000, "How long a search waits for an embedder that is not on this machine."),
        "searchWaitMs": Key(whole(0), 250, "How long a search waits for changed files to be indexed."),
        "firstIndexWaitMs": Key(whole(0), 30_000, "How long it waits when there is no index to answer from yet."),
        "watch": Section(
            shapes.WatchSettings,
            {"scanSeconds": Key(whole(1), 60, "How often followed files are looked at even if nothing was noticed.")},
        ),
        "remote": Section(
            shapes.OwnRemote,
            {
                "concurrency": Key(
                    whole(1), 1, "How many requests are under way at once; a killed process pays for as many again."
                ),
                "batchMinChunks": Key(whole(1), 1, "Fewer chunks are embedded directly even with batch jobs on."),
            },
        ),
        "flush": Section(
            shapes.OwnFlush,
            {"checkpoint": Key(flag(), False, "Whether the last messages are noted when no model wrote a memory.")},
        ),
        "qmd": Section(
            shapes.OwnQmd,
            {
                "session": Key(flag(), True, "Whether a memory that stays open keeps `qmd mcp` running to answer."),
                "firstRetrySeconds": Key(
                    whole(1),
                    15,
                    "How long qmd is left alone after a failure; doubled each time, to 10 minutes at most.",
                ),
            },
        ),
        "tools": Section(
            shapes.OwnTools,
            {
                "maxChars": Key(whole(200), 10_000, "How many characters of notes one memory_search gives a model."),
                "append": Key(flag(), False, "Whether agents get memory_append, to write notes."),
            },
        ),
        "vectors": Section(
            shapes.Vectors,
            {
                "engine": Key(
                    choice("auto", "matrix", "sqlite-vec"), "auto", "What searches vectors: memory, or SQLite itself."
                ),
                "maxBytes": Key(size_bytes(), 1024 * 1024 * 1024, "With `auto`, more than this is not held in memory."),
            },
        ),
    },
)

LOGGING = Section(
    shapes.Logging,
    {"redactPatterns": Key(list_of(text()), (), "What else is a secret: regular expressions, or `/…/flags`.")},
    strict=False,
)

#: Every section by the path that its settings are called by.
SECTIONS = {
    "memorySearch": MEMORY_SEARCH,
    "memory": MEMORY,
    "agents.defaults.compaction": COMPACTION,
    "agents.defaults": DEFAULTS,
    "plugins": PLUGINS,
    "plugins.entries.memory-lancedb.config": LANCEDB,
    "logging": LOGGING,
    "mdrecall": OWN,
}
