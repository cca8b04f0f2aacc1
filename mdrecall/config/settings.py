"""The settings that only mdrecall has, every setting by its name, and the value that carries those of an agent."""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from mdrecall.config import openclaw_settings as openclaw
from mdrecall.config.declare import (
    Section,
    Setting,
    choice,
    each_setting,
    flag,
    hide_text,
    list_of,
    map_of,
    number,
    record,
    setting,
    size_bytes,
    text,
    whole,
)
from mdrecall.config.layers import ResolvedValue
from mdrecall.config.openclaw_settings import SECRET, ExtraPath

# ``.trash`` is where Obsidian keeps notes that were deleted.
IGNORED_FOLDERS = (".git", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__", ".trash", ".obsidian")


class WatchOptions(Section):  # mdrecall.watch
    scan_seconds: int = setting(whole(1), 60, "How often a watcher checks all files even if no change was reported.")


class WarmOptions(Section):  # mdrecall.warm
    enabled: bool = setting(flag(), True, "Let a process that has the memory open answer the commands of this user.")
    idle_minutes: int = setting(whole(1), 30, "Minutes after which a process that only waits for commands ends.")


class RemoteRequests(Section):  # mdrecall.remote
    concurrency: int = setting(whole(1), 1, "How many requests run at once; a killed process pays for as many again.")
    batch_min_chunks: int = setting(whole(1), 1, "Embed fewer chunks than this directly, even with batch jobs on.")


class QmdOptions(Section):  # mdrecall.qmd
    session: bool = setting(flag(), True, "Keep `qmd mcp` running to answer searches while a memory stays open.")
    first_retry_seconds: int = setting(whole(1), 15, "How long qmd rests after a failure; doubled, up to 10 minutes.")


class ToolOptions(Section):  # mdrecall.tools
    max_chars: int = setting(whole(200), 4_000, "How many characters of notes one memory_search returns to a model.")
    append: bool = setting(flag(), False, "Offer memory_append, which writes notes. MCP servers do unless it is false.")


class ForgetOptions(Section, dropped=("tool",)):  # mdrecall.forget
    trash_days: int = setting(whole(1), 30, "How many days the trash keeps what was removed from notes.")


class RerankOptions(Section):
    """``mdrecall.rerank``: a model that reads the query with each of the best passages and reorders them."""

    provider: str | None = setting(
        choice("cohere", "jina", "voyage", "llama.cpp", "local"), None, "Who reorders; nobody if not set."
    )
    base_url: str | None = setting(text(), None, "The address above `/rerank`, if not the provider's own.")
    api_key: Any = setting(SECRET, None, "The key, a string with `${VAR}`, or a reference.", hide=hide_text)
    model: str = setting(text(), "", "The model, if not the default one; for `local`, a GGUF file, `hf:` or a URL.")
    top_n: int = setting(whole(1, 100), 40, "How many passages are reordered; never fewer than are returned.")
    timeout_ms: int = setting(whole(1), 3000, "How long a search waits for the new order, in milliseconds.")


class StoreOptions(Section, dropped=("fallback",)):  # mdrecall.store
    kind: str = setting(choice("sqlite", "postgres"), "sqlite", "In a file here, or in a database that machines share.")
    dsn: Any = setting(SECRET, None, "`${VAR}`, or a reference; the variable MDRECALL_STORE_DSN wins.", hide=hide_text)
    workspace: str = setting(text(), "", "The name of this memory in the database; agent and folder if not set.")


class HostOptions(Section):  # mdrecall.hosts
    session_start: bool = setting(flag(), True, "Show the model what matters of the memory when a session starts.")
    prompt: bool = setting(flag(), False, "Search the memory for each prompt, and show the model what surely fits.")
    digest: bool = setting(flag(), True, "Write what was asked, done and decided into the note of the day.")
    flush: bool = setting(flag(), True, "Ask the model to write down what matters before its context is full.")
    flush_headless: bool = setting(flag(), False, "Do so also where nobody sits in front of the agent.")
    max_chars: int = setting(whole(500), 6_000, "How many characters are shown to the model when a session starts.")


class RecallOptions(Section):  # mdrecall.recalls
    record: bool = setting(flag(), False, "Note which lines of dated notes searches find, and when. No text is kept.")


# Its other thresholds are OpenClaw's: plugins.entries.memory-core.config.dreaming.phases.deep.
_OPENCLAWS = ("limit", "minScore", "minRecallCount", "minUniqueQueries", "maxAgeDays")


class PromoteOptions(Section, dropped=("schedule", *_OPENCLAWS)):  # mdrecall.promote
    min_days: int = setting(whole(0), 2, "On how many different days it must have been found.")
    max_chars: int = setting(whole(0), 10_000, "Promote nothing that makes `MEMORY.md` longer than this.")


class SessionOptions(Section):  # mdrecall.sessions
    visibility: str = setting(
        choice("private", "openclaw"), "private", "Private chats see each other and no chat others, or as in OpenClaw."
    )
    with_notes: bool | None = setting(flag(), None, "Also find conversations; if not set, if `sources` has `sessions`.")


_COLLECTION = record({"path": text(), "pattern": text(), "weight": number(0.1, 10)}, required=("path",))


def _read_collections(values: Mapping[str, Any]) -> dict[str, tuple[ExtraPath, float]]:
    """Return where each collection is, and what it weighs."""
    return {
        name: (ExtraPath(entry["path"].strip(), entry.get("pattern") or None), entry.get("weight", 1.0))
        for name, entry in values.items()
    }


class MdrecallSettings(Section, dropped=("activity", "flush", "vectors")):
    """``mdrecall``: the settings that only mdrecall has."""

    max_file_bytes: int = setting(size_bytes(), 32 * 1024 * 1024, "Skip files larger than this and report them.")
    ignore: tuple[str, ...] = setting(list_of(text()), IGNORED_FOLDERS, "Names of folders to skip.")
    max_per_file: int | None = setting(whole(1), None, "The most results from one file; unlimited if not set.")
    query_timeout_ms: int = setting(whole(1), 3000, "How long a search waits for a remote embedder, in milliseconds.")
    search_wait_ms: int = setting(whole(0), 250, "How long a search waits for changed files, in milliseconds.")
    first_index_wait_ms: int = setting(whole(0), 30_000, "How many milliseconds a search waits for the first index.")
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
        "Named parts of the notes: `{name: {path, pattern, weight}}`. They are searched, can be searched by themselves,"
        " and the odds of their notes are multiplied by the weight (0.1 to 10).",
        fix=_read_collections,
    )
    sessions: SessionOptions = SessionOptions()


#: Every section by the path of its settings in a configuration file.
SECTIONS: dict[str, type[Section]] = {
    "memorySearch": openclaw.MemorySearch,
    "memory": openclaw.MemoryBackend,
    "agents.defaults.compaction": openclaw.Compaction,
    "agents.defaults": openclaw.AgentDefaults,
    "plugins": openclaw.Plugins,
    "plugins.entries.memory-lancedb.config": openclaw.LanceDb,
    "plugins.entries.memory-core.config.dreaming.phases.deep": openclaw.DeepDreaming,
    "logging": openclaw.Logging,
    "tools": openclaw.ToolRules,
    "session": openclaw.SessionRules,
    "mdrecall": MdrecallSettings,
}


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


def is_secret(name: str) -> bool:
    """True if the setting with this full name must not be shown."""
    return name in list_settings() and list_settings()[name].secret


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
    memory_search: openclaw.MemorySearch
    memory: openclaw.MemoryBackend
    compaction: openclaw.Compaction
    defaults: openclaw.AgentDefaults
    plugins: openclaw.Plugins
    lancedb: openclaw.LanceDb
    dreaming: openclaw.DeepDreaming
    logging: openclaw.Logging
    tools: openclaw.ToolRules
    session: openclaw.SessionRules
    mdrecall: MdrecallSettings

    @property
    def searches_sessions(self) -> bool:
        """True if conversations are indexed by the backend or by the one that answers for it."""
        # While qmd cannot answer, the builtin backend does.
        by_qmd = self.memory.backend == "qmd" and self.memory.qmd.sessions.enabled
        return by_qmd or "sessions" in self.memory_search.sources

    @property
    def agent_folder(self) -> str:
        """The folder for what mdrecall keeps about this agent beside what OpenClaw has."""
        return os.path.join(self.state_dir, "agents", self.agent_id)
