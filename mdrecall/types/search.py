"""A search from both ends: the request, the answer, and the lines that a read gives back."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar, dataclass_transform

from mdrecall.types.documents import Issue, SourceName, cited
from mdrecall.types.sync import ProgressCallback

Mode: TypeAlias = Literal["keyword", "vector", "hybrid"]
MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
Reason: TypeAlias = Literal["", "no_match", "below_min_score", "index_empty", "no_searchable_words", "scope_denied"]


_T = TypeVar("_T")


class SearchOptions(TypedDict, total=False):
    """The keyword arguments of ``Memory.search``; ``SearchRequest`` explains each."""

    max_results: int | None
    min_score: float | None
    mode: Mode | None
    explain: bool
    source: SourceName | None
    session_key: str
    progress: ProgressCallback | None


class SearchRequest(NamedTuple):
    """One search, handed as it is from the door that took it to the part that answers it."""

    query: str
    max_results: int | None = None
    """At most this many results; None means the setting."""
    min_score: float | None = None
    """Leave out results below this score; None means the setting."""
    mode: Mode | None = None
    """Search by keywords, by vectors or both; None means the setting."""
    explain: bool = False
    """Attach a ``Why`` to each result."""
    source: SourceName | None = None
    """Search only this source; None means every configured source."""
    session_key: str = ""
    """The conversation that asks. A new one may start a sync, and scope rules may deny it."""
    progress: ProgressCallback | None = None
    """Called with the progress of indexing changed files, which comes before the search."""


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
        return cited(self.path, self.start_line, self.end_line)


class FallbackNotice(NamedTuple):
    """Why another backend answered than the one that the settings ask for."""

    backend: str
    """The one that was asked for."""
    reason: str
    since: str
    """When it stopped answering, as ISO 8601 in UTC."""
    next_try: str
    """When it will be asked again."""


@dataclass_transform(frozen_default=True)
def _frozen(cls: type[_T]) -> type[_T]:
    """Make a class of annotated fields what ``dataclass(frozen=True)`` makes of it.

    Importing ``dataclasses`` loads ``inspect``, which adds 9 ms to every command.
    """
    names = tuple(cls.__annotations__)
    defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}

    def init(self: _T, *given: Any, **by_name: Any) -> None:
        values = defaults | dict(zip(names, given, strict=False)) | by_name
        if len(given) > len(names) or values.keys() != set(names):
            raise TypeError(f"{cls.__name__} takes {', '.join(names)}.")
        vars(self).update(values)

    def refuse(self: _T, name: str, value: object) -> None:
        raise AttributeError(f"{cls.__name__} is frozen: {name} cannot be set.")

    def equals(self: _T, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, cls) else NotImplemented

    for name, method in {"__init__": init, "__setattr__": refuse, "__eq__": equals}.items():
        setattr(cls, name, method)
    return cls


@_frozen
class SearchAnswer:
    """The results of one search, best first; if there are none, ``reason`` and ``action`` say why and what to do."""

    results: tuple[SearchResult, ...]
    reason: Reason = ""
    action: str = ""
    mode: Mode = "keyword"
    """How the results were found."""
    provider: str = ""
    """Whose vectors were searched; empty if none were."""
    model: str = ""
    fallback: str = ""
    """Why ``provider`` is not the configured one."""
    degraded: str = ""
    """Why vectors were left out although they were asked for."""
    stale: str = ""
    """Which changed files are not in the index yet."""
    issues: tuple[Issue, ...] = ()
    """Files and folders that could not be read or are out of date. The results hold nevertheless."""
    backend: str = "builtin"
    """The backend that answered."""
    answered_for: FallbackNotice | None = None
    """The configured backend that could not answer, and why; None if it did answer."""

    def replace(self, **changes: Any) -> "SearchAnswer":
        """Return a copy with some fields changed."""
        return SearchAnswer(**vars(self) | changes)

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
