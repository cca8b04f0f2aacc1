"""Frozen values that cross the borders between rooms."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

SourceName: TypeAlias = Literal["memory", "sessions"]
Mode: TypeAlias = Literal["keyword", "vector", "hybrid"]
MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
Reason: TypeAlias = Literal["", "no_match", "below_min_score", "index_empty", "no_searchable_words"]

# Size, time of the last change to the content and to the entry (both in ns), and number of a file: while these stay
# the same, so does what is in it. A plain tuple, because thousands are made before every search.
Stamp: TypeAlias = tuple[int, int, int, int]


class Secret:
    """A text that is shown only to those who ask for it by name, and never written down."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self, spec: str = "") -> str:
        return "***"

    __format__ = __repr__

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce_ex__(self, protocol: object) -> str:
        raise TypeError("A Secret is not written down.")


class Issue(NamedTuple):
    """Something about the files that a person may want to know; nothing stopped because of it."""

    path: str
    problem: str


class Listing(NamedTuple):
    """What a source has at one moment."""

    stamps: Mapping[str, Stamp]
    """Every document's path with its stamp."""
    issues: tuple[Issue, ...]
    lost: tuple[str, ...]
    """Path prefixes that could not be looked at; nothing is known of what is below them."""
    places: Mapping[str, tuple[str, str]]
    """For every folder that documents are in: the trusted folder to open them from, and its own path prefix."""
    folders: tuple[str, ...] = ()
    """Every folder that documents are or might come to be in, as the system names it."""


class Document(NamedTuple):
    """A file as text, with what is needed to notice that it changed."""

    source: SourceName
    path: str
    text: str
    hash: str
    stamp: Stamp
    seen_ns: int
    """When the stamp was taken."""


class Chunk(NamedTuple):
    """A line range of a document, with the text of exactly those lines."""

    start_line: int
    end_line: int
    text: str
    overlap: int
    """How many leading characters of ``text`` are also the end of the chunk before."""
    trail: tuple[str, ...]
    """The Markdown heading lines this chunk stands under, outermost first; last the fence, if it begins inside one."""


class IndexedChunk(NamedTuple):
    """A chunk with the terms it is found by."""

    chunk: Chunk
    words: str
    names: str
    title: str
    """Terms of the file name, the date in it and the headings above."""


class KnownDocument(NamedTuple):
    """What the store remembers of a document."""

    hash: str
    recipe: str


class StoredChunk(NamedTuple):
    """A chunk as the store gives it back."""

    id: int
    source: SourceName
    path: str
    start_line: int
    end_line: int
    text: str
    trail: tuple[str, ...]
    mtime_ns: int = 0


class Embedding(NamedTuple):
    """A chunk's place in the space of an embedder."""

    vector: bytes
    """Little-endian 32-bit floats of unit length; all zero if the embedder knows no word of the text."""
    windows: bytes = b""
    """The directions of the chunk's windows, a signed byte per number, end to end; empty if there are none."""


class Space(NamedTuple):
    """What vectors must share to be comparable."""

    provider: str
    model: str
    fingerprint: str
    dimensions: int

    @property
    def key(self) -> tuple[str, int]:
        """What tells one space from another; names may change."""
        return self.fingerprint, self.dimensions


class StoredSpace(NamedTuple):
    """A space that the store has vectors of."""

    id: int
    space: Space
    is_filled: bool
    """Whether every chunk has its vector."""
    was_filled: bool
    """Whether every chunk had one at some time."""


class PendingChunk(NamedTuple):
    """A chunk that has no vector yet."""

    id: int
    path: str
    trail: tuple[str, ...]
    text: str


class Passage(NamedTuple):
    """A text to embed, with what it stands under."""

    title: str
    text: str


class Traits(NamedTuple):
    """What to know of an embedder besides its vectors."""

    instant: bool = False
    """Whether it never waits for anything: no deadline is needed, and nothing is gained by a cache."""
    latin_only: bool = False
    """Whether only words in Latin letters mean anything to it."""
    unrelated: float = 0.0
    """The cosine that a query typically has with a chunk of no concern to it; as little counts as nothing."""
    related: float = 1.0
    """The cosine with a chunk that answers it; as much counts as everything."""
    input_bytes: int = 8_000
    """Longer texts are cut, and their vector is the mean of the parts."""
    request_bytes: int = 8_000
    """How much text goes into one request."""


class Why(NamedTuple):
    """Why a result stands where it does."""

    complete: bool
    """Whether it holds every rare term of the query, if there are any."""
    strength: float
    """What its terms are worth."""
    passage_coverage: float
    """How much of the query's weight its best passage holds."""
    terms: tuple[tuple[str, float, bool], ...]
    """Each query term with its share of the query's weight and whether this result holds it."""
    keyword_score: float
    """What it is worth by words alone."""
    keyword_rank: int | None
    """Its place by words alone among the candidates; nothing if it holds no term."""
    vector_score: float | None
    """How close in meaning it is, 0 to 1; nothing without vectors."""
    vector_rank: int | None
    """Its place by meaning alone among the candidates."""
    cosine: float | None
    """Of the whole chunk."""
    window_cosine: float | None
    """Of the window of lines that is closest."""
    vector_weight: float
    """The share of meaning in the mix for this query."""
    decay: float
    """What age has left of its worth; 1 without decay."""


class SearchResult(NamedTuple):
    """One answer: where it is, how good it is, and what it says there."""

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: SourceName
    match_start_line: int
    match_end_line: int
    heading: str
    """The headings above the match, outermost first, joined with `` › ``; empty without any."""
    why: Why | None = None

    @property
    def citation(self) -> str:
        """``path#L3`` or ``path#L3-L9``."""
        lines = f"L{self.start_line}"
        if self.end_line != self.start_line:
            lines += f"-L{self.end_line}"
        return f"{self.path}#{lines}"


class SearchAnswer:
    """The results of one search, best first; when there are none, ``reason`` and ``action`` say why and what to do.

    ``mode`` is how the answer was found. ``degraded`` says why meaning was left out when it was asked for; ``stale``,
    which changes of the files are not in the index yet.
    ``issues`` tells what could not be looked at or is not as new as it should be; the results stand nevertheless.
    """

    __slots__ = ("action", "degraded", "issues", "mode", "reason", "results", "stale")

    results: tuple[SearchResult, ...]
    reason: Reason
    action: str
    mode: Mode
    degraded: str
    issues: tuple[Issue, ...]
    stale: str

    def __init__(
        self,
        results: tuple[SearchResult, ...],
        *,
        reason: Reason = "",
        action: str = "",
        mode: Mode = "keyword",
        degraded: str = "",
        stale: str = "",
        issues: tuple[Issue, ...] = (),
    ) -> None:
        for name, value in zip(self.__slots__, (action, degraded, issues, mode, reason, results, stale), strict=True):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A SearchAnswer does not change; {name} cannot be set.")

    def __iter__(self) -> Iterator[SearchResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> SearchResult:
        return self.results[index]

    def __repr__(self) -> str:
        return f"SearchAnswer({len(self.results)} results, reason={self.reason!r})"


class ReadResult(NamedTuple):
    """Lines of a memory file."""

    path: str
    text: str
    from_line: int
    line_count: int
    total_lines: int
    truncated: bool
    next_from: int | None
    """The line to go on from, when there is more."""


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


class Happened(NamedTuple):
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
