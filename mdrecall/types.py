"""Frozen values that cross the borders between rooms."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

SourceName: TypeAlias = Literal["memory", "sessions"]
Reason: TypeAlias = Literal["", "no_match", "below_min_score", "index_empty", "no_searchable_words"]


# Size, time of the last change to the content and to the entry (both in ns), and number of a file: while these stay
# the same, so does what is in it. A plain tuple, because thousands are made before every search.
Stamp: TypeAlias = tuple[int, int, int, int]


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


class Why(NamedTuple):
    """Why a result stands where it does."""

    complete: bool
    """Whether it holds every distinctive term."""
    strength: float
    passage_coverage: float
    terms: tuple[tuple[str, float, bool], ...]
    """Each query term with its share of the query's weight and whether this result holds it."""


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

    ``issues`` tells what could not be looked at or is not as new as it should be; the results stand nevertheless.
    """

    __slots__ = ("action", "issues", "mode", "reason", "results")

    results: tuple[SearchResult, ...]
    reason: Reason
    action: str
    mode: str
    issues: tuple[Issue, ...]

    def __init__(
        self,
        results: tuple[SearchResult, ...],
        *,
        reason: Reason = "",
        action: str = "",
        mode: str = "keyword",
        issues: tuple[Issue, ...] = (),
    ) -> None:
        for name, value in zip(self.__slots__, (action, issues, mode, reason, results), strict=True):
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


class SyncReport(NamedTuple):
    """What a sync did."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    failed: tuple[Issue, ...] = ()
    """Files that could not be read."""
    kept: tuple[Issue, ...] = ()
    """Folders that could not be looked at; what was indexed from them is kept."""
    issues: tuple[Issue, ...] = ()
    """What else there is to say about the files."""


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
