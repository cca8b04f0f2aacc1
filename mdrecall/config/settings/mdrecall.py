"""The settings under ``mdrecall``, which only mdrecall has."""

from typing import NamedTuple

from mdrecall.config.declare import section, setting
from mdrecall.config.rules import choice, flag, list_of, size_bytes, text, whole

IGNORED_FOLDERS = (".git", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__")


class WatchOptions(NamedTuple):
    """``mdrecall.watch``."""

    scan_seconds: int = setting(whole(1), 60, "How often followed files are looked at even if nothing was noticed.")


class RemoteRequests(NamedTuple):
    """``mdrecall.remote``."""

    concurrency: int = setting(
        whole(1), 1, "How many requests are under way at once; a killed process pays for as many again."
    )
    batch_min_chunks: int = setting(whole(1), 1, "Fewer chunks are embedded directly even with batch jobs on.")


class FlushOptions(NamedTuple):
    """``mdrecall.flush``."""

    checkpoint: bool = setting(flag(), False, "Whether the last messages are noted when no model wrote a memory.")


class QmdOptions(NamedTuple):
    """``mdrecall.qmd``."""

    session: bool = setting(flag(), True, "Whether a memory that stays open keeps `qmd mcp` running to answer.")
    first_retry_seconds: int = setting(
        whole(1), 15, "How long qmd is left alone after a failure; doubled each time, to 10 minutes at most."
    )


class ToolOptions(NamedTuple):
    """``mdrecall.tools``."""

    max_chars: int = setting(whole(200), 10_000, "How many characters of notes one memory_search gives a model.")
    append: bool = setting(flag(), False, "Whether agents get memory_append, to write notes.")


class VectorOptions(NamedTuple):
    """``mdrecall.vectors``."""

    engine: str = setting(
        choice("auto", "matrix", "sqlite-vec"), "auto", "What searches vectors: memory, or SQLite itself."
    )
    max_bytes: int = setting(size_bytes(), 1024 * 1024 * 1024, "With `auto`, more than this is not held in memory.")


class MdrecallSettings(NamedTuple):
    """``mdrecall``: the settings that only mdrecall has."""

    max_file_bytes: int = setting(size_bytes(), 32 * 1024 * 1024, "Larger files are reported and left out.")
    ignore: tuple[str, ...] = setting(list_of(text()), IGNORED_FOLDERS, "Names of folders that are never walked into.")
    max_per_file: int | None = setting(whole(1), None, "How many results one file may give; without it, any number.")
    query_timeout_ms: int = setting(
        whole(1), 3000, "How long a search waits for an embedder that is not on this machine."
    )
    search_wait_ms: int = setting(whole(0), 250, "How long a search waits for changed files to be indexed.")
    first_index_wait_ms: int = setting(whole(0), 30_000, "How long it waits when there is no index to answer from yet.")
    watch: WatchOptions = section(WatchOptions)
    remote: RemoteRequests = section(RemoteRequests)
    flush: FlushOptions = section(FlushOptions)
    qmd: QmdOptions = section(QmdOptions)
    tools: ToolOptions = section(ToolOptions)
    vectors: VectorOptions = section(VectorOptions)
