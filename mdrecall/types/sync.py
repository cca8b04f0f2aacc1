"""What a memory tells of its work and its state."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

from mdrecall.types.documents import Issue, SourceName


class Progress(NamedTuple):
    """How far a sync is."""

    completed: int
    total: int
    label: str


ProgressCallback: TypeAlias = Callable[[Progress], None]
#: Asked again and again by work that may take long; once it says yes, the work ends where it can be taken up again.
Stop: TypeAlias = Callable[[], bool]


def never() -> bool:
    """Work that is not to be stopped."""
    return False


class FileChange(NamedTuple):
    """What happened to one file."""

    path: str
    kind: Literal["added", "changed", "removed"]


class SyncReport(NamedTuple):
    """What a sync did."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    left: int = 0
    """Changed files that are not indexed yet, because the sync was stopped."""
    failed: tuple[Issue, ...] = ()
    """Files that could not be indexed, and why."""
    kept: tuple[Issue, ...] = ()
    """Folders that could not be looked at; what was indexed from them is kept."""
    issues: tuple[Issue, ...] = ()
    """What else there is to say about the files."""
    changes: tuple[FileChange, ...] = ()
    """What happened to which file, for the first hundred."""
    rebuilt: bool = False
    """Whether a whole new index has taken the place of the old one."""
    unembedded: int = 0
    """Chunks that have no vector because the embedder failed, or there is none; they are found by their words."""


class WatchEvent(NamedTuple):
    """Something to tell those who look on."""

    kind: str
    """``watching``, ``synced``, ``failed`` or ``problem``."""
    report: SyncReport | None = None
    folders: int = 0
    error: str = ""


class Holder(NamedTuple):
    """Who holds a lock."""

    pid: int
    doing: str
    since_s: float
    more: dict[str, Any]
    """What else the holder has written down."""


class SourceCount(NamedTuple):
    source: SourceName
    files: int
    chunks: int


class Probe(NamedTuple):
    """Whether a part works, and if not, why."""

    ok: bool
    error: str = ""
    ms: float = 0.0
    """How long it took."""
    dims: int = 0
    """How long the vector was that came of it."""


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
    source_counts: tuple[SourceCount, ...]
    cache: dict[str, Any]
    fts: dict[str, Any]
    fallback: dict[str, Any] | None
    vector: dict[str, Any]
    batch: dict[str, Any]
    custom: dict[str, Any]
