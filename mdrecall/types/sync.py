"""What a memory reports about its work and its state."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from mdrecall.types.documents import Issue, SourceName


class Progress(NamedTuple):
    """How far a sync has come."""

    completed: int
    total: int
    label: str


ProgressCallback: TypeAlias = Callable[[Progress], None]
#: Called repeatedly by long work; once it returns True, the work ends where it can be resumed.
Stop: TypeAlias = Callable[[], bool]


def never() -> bool:
    """A ``Stop`` for work that is not stopped early."""
    return False


class FileChange(NamedTuple):
    """A change of one file."""

    path: str
    kind: Literal["added", "changed", "removed"]


class SyncReport(NamedTuple):
    """The result of a sync."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    left: int = 0
    """The number of changed files that are not indexed yet, because the sync was stopped."""
    failed: tuple[Issue, ...] = ()
    kept: tuple[Issue, ...] = ()
    """Folders that could not be read; what was indexed from them is kept."""
    issues: tuple[Issue, ...] = ()
    changes: tuple[FileChange, ...] = ()
    rebuilt: bool = False
    unembedded: int = 0
    """Chunks that have no vector because the embedder failed, or there is none; keyword search finds them."""
    unencoded: int = 0
    """Chunks that the encoder has not read yet; until then the table alone tells what they mean."""

    def merge(self, other: "SyncReport") -> "SyncReport":
        """Return one report of two syncs: counts and lists are added up, and a flag is set if either sets it."""
        pairs: Iterable[tuple[Any, Any]] = zip(self, other, strict=True)
        merged: Iterable[Any] = (one or two if isinstance(one, bool) else one + two for one, two in pairs)
        return SyncReport(*merged)


class WatchEvent(NamedTuple):
    """An event of a watcher."""

    kind: str
    """``watching``, ``synced``, ``failed`` or ``problem``."""
    report: SyncReport | None = None
    folders: int = 0
    error: str = ""


class Holder(NamedTuple):
    """The process that holds a lock."""

    pid: int
    doing: str
    since_s: float
    more: dict[str, Any]
    host: str = ""
    """The computer that the process runs on; empty if it is not known."""


class SourceStatus(NamedTuple):
    """What is indexed of a source and what is there to index, with OpenClaw's names; None if it is not known."""

    source: SourceName
    files: int
    chunks: int
    chunk_bytes: int | None = None
    """The bytes that the texts of the chunks take in the index, which compresses them."""
    dirty: bool | None = None
    eligible: int | None = None
    issues: tuple[str, ...] = ()


class ContentSizes(NamedTuple):
    """What an index holds, in bytes."""

    texts: Mapping[SourceName, int]
    cache: int
    cached: int
    """How many embeddings are cached."""
    reusable: int


class Probe(NamedTuple):
    """The result of checking that a part works."""

    ok: bool
    error: str = ""
    ms: float = 0.0
    dims: int = 0


class Status(NamedTuple):
    """The whole record of a backend, with OpenClaw's names and meanings."""

    backend: str
    provider: str
    model: str | None
    requested_provider: str
    files: int
    chunks: int
    dirty: bool
    workspace_dir: str
    db_path: str
    extra_paths: tuple[str, ...]
    sources: tuple[SourceName, ...]
    source_counts: tuple[SourceStatus, ...]
    cache: dict[str, Any]
    fts: dict[str, Any]
    fallback: dict[str, Any] | None
    vector: dict[str, Any]
    batch: dict[str, Any]
    custom: dict[str, Any]
    storage: dict[str, int] | None = None
