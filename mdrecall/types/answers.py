"""What callers get: results of a search, lines of a file."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from mdrecall.types.notes import Issue, SourceName, cited

Mode: TypeAlias = Literal["keyword", "vector", "hybrid"]
MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
Reason: TypeAlias = Literal["", "no_match", "below_min_score", "index_empty", "no_searchable_words", "scope_denied"]


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


class StandIn(NamedTuple):
    """Why another backend answered than the one that the settings ask for."""

    backend: str
    """The one that was asked for."""
    reason: str
    since: str
    """When it stopped answering, as ISO 8601 in UTC."""
    next_try: str
    """When it will be asked again."""


class SearchAnswer:
    """The results of one search, best first; when there are none, ``reason`` and ``action`` say why and what to do.

    ``mode`` is how the answer was found, ``provider`` and ``model`` whose vectors were searched; they are empty if
    none were. ``fallback`` says why that is not the provider that was asked for; ``degraded``, why meaning was left out
    though it was asked for; ``stale``, which changes of the files are not in the index yet.
    ``backend`` is who answered, and ``instead`` says of whom and why where that is not the one of the settings.
    ``issues`` tells what could not be looked at or is not as new as it should be; the results stand nevertheless.
    """

    __slots__ = (
        "action", "backend", "degraded", "fallback", "instead", "issues", "mode", "model", "provider", "reason",
        "results", "stale",
    )  # fmt: skip

    results: tuple[SearchResult, ...]
    reason: Reason
    action: str
    backend: str
    instead: StandIn | None
    mode: Mode
    provider: str
    model: str
    fallback: str
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
        provider: str = "",
        model: str = "",
        fallback: str = "",
        degraded: str = "",
        stale: str = "",
        issues: tuple[Issue, ...] = (),
        backend: str = "builtin",
        instead: StandIn | None = None,
    ) -> None:
        values = (
            action, backend, degraded, fallback, instead, issues, mode, model, provider, reason, results, stale,
        )  # fmt: skip
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    def replaced(self, **changes: Any) -> "SearchAnswer":
        """The same answer with other values in some places."""
        return SearchAnswer(**{name: getattr(self, name) for name in self.__slots__} | changes)

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
