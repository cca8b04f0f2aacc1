"""Searches and reads: the request, its terms, the answer with its results, and the lines of a file."""

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar, dataclass_transform

from mdrecall.patterns import host_of
from mdrecall.types.documents import Issue, Origin, SourceName, format_citation
from mdrecall.types.sync import ProgressCallback

Mode: TypeAlias = Literal["keyword", "vector", "hybrid"]
MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
Confidence: TypeAlias = Literal["high", "medium", "low"]
Reason: TypeAlias = Literal["", "no_match", "below_min_score", "index_empty", "no_searchable_words", "scope_denied"]


#: Why a result has its score: each part by its name in JSON, its value, and what it means in words. The sentence is
#: empty if the part counted for nothing, or if another one says it.
Why: TypeAlias = tuple[tuple[str, Any, str], ...]

_P = ParamSpec("_P")
_S = TypeVar("_S")
_T = TypeVar("_T")


# Of questions that a memory cannot answer, hardly any have a result above the first; above the second, the best result
# is right in most cases. See docs/ranking.md for the figures.
_MEDIUM_FROM, _HIGH_FROM = 0.5, 0.75


#: Results of a search that names no number, at most: OpenClaw's six chunks hold as much as these passages.
MOST_RESULTS = 20


def confidence_of(score: float) -> Confidence:
    """Return a score in a word."""
    return "high" if score >= _HIGH_FROM else "medium" if score >= _MEDIUM_FROM else "low"


class SearchRequest(NamedTuple):
    """The arguments of one search, passed unchanged from its door to the searcher; None means the setting."""

    query: str
    max_results: int | None = None
    """As many results as there are up to this number. None means as many as carry the answer, or the setting."""
    min_score: float | None = None
    """All results with this score, as many as the settings allow. None means the setting."""
    mode: Mode | None = None
    explain: bool = False
    """Attach a ``Why`` to each result."""
    source: SourceName | None = None
    session_key: str = ""
    """The conversation that asks. A new one may start a sync, scope rules may deny it, and it sees only what it may."""
    progress: ProgressCallback | None = None
    """Called with the progress of indexing changed files, which comes before the search."""
    since: str | date | None = None
    """Leave out what is older than this day, such as ``2026-03-01`` or ``last week``."""
    until: str | date | None = None
    now: datetime | None = None
    """The moment that ages and words such as "yesterday" are measured from; None means the present."""
    queries: Sequence[str] = ()
    """The same question in other words; the results of all queries are merged."""
    tags: Sequence[str] = ()
    """Search only notes with all of these tags; ``work`` holds ``work/travel`` too."""
    paths: Sequence[str] = ()
    collections: Sequence[str] = ()
    projects: Sequence[str] = ()
    """The projects at hand, such as ``github.com/ana/app``; entries of others are left out. None hides nothing."""
    current_projects: Sequence[str] = ()
    """The projects at hand. Of entries that hold the same words, theirs come first and those of others last."""
    session: str = ""
    """Search only this conversation, given by its session key or id; empty means every one that may be seen."""
    is_prompt: bool = False
    """True if the query is what a person typed to an agent, and nobody has asked for a search."""

    @property
    def stops(self) -> bool:
        """True if the answer may stop where the results get weak: the caller names no number and no score."""
        return self.max_results is None and self.min_score is None


def check_like(
    make: Callable[_P, SearchRequest],
) -> Callable[[Callable[Concatenate[_S, ...], _T]], Callable[Concatenate[_S, _P], _T]]:
    """Let type checkers check the arguments of a function, after the first, like those of ``make``."""
    return lambda function: function


class Term(NamedTuple):
    """A word or a name of a query, as it is looked up in the index."""

    text: str
    """The term as the analyser makes it, stemmed."""
    surface: str
    """The same before stemming, for a store that stems by itself."""
    also: tuple[str, ...] = ()
    """Other surfaces of the same term, for a store whose stemmer treats them differently."""
    parts: tuple[str, ...] = ()
    """For a name such as ``dec-0054``: its words before stemming, which match as a phrase."""
    stop: bool = False
    """True for a stop word, which hardly counts."""
    prefix: bool = False
    """True if it may match longer terms that begin with it when nothing matches it whole."""
    always_prefix: bool = False
    """True if it always matches as a prefix: a single character of a script without spaces."""


class ChunkRows(Mapping[int, float]):
    """A value for each of many chunks, as two arrays of numpy: a search adds up thousands of them."""

    def __init__(self, ids: Any, values: Any) -> None:
        """``ids`` are the numbers of the chunks in ascending order, each of which occurs once."""
        self.ids, self.values_of = ids, values

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    def __getitem__(self, chunk_id: int) -> float:
        return self.pick([chunk_id])[chunk_id]

    def pick(self, chunks: Sequence[int]) -> dict[int, float]:
        """Return the values of some chunks; one that has none is left out."""
        places = self.ids.searchsorted(chunks).clip(max=len(self.ids) - 1) if len(self.ids) else self.ids
        found = zip(chunks, self.ids[places].tolist(), self.values_of[places].tolist(), strict=False)
        return {chunk_id: value for chunk_id, there, value in found if there == chunk_id}

    def items(self) -> ItemsView[int, float]:
        return dict(zip(self.ids.tolist(), self.values_of.tolist(), strict=True)).items()


class Match(NamedTuple):
    """The chunks that a term occurs in, each with the term's saturation from 0 to 1."""

    term: Term
    chunks: Mapping[int, float]
    held_by: int
    """How many chunks contain the term: more than ``chunks`` lists if only some chunks were searched for it."""
    loose: bool = False
    """True if the term was only found as the beginning of longer terms."""


class SearchResult(NamedTuple):
    """One result: a passage, its lines and its score."""

    path: str
    start_line: int
    end_line: int
    score: float
    """How likely it is that the passage answers the query, 0 to 1."""
    snippet: str
    source: SourceName
    match_start_line: int
    match_end_line: int
    heading: str
    """The headings above the match, outermost first, joined with `` › ``; empty if there are none."""
    why: Why = ()
    confidence: Confidence = "low"
    speaker: str = ""
    date: str = ""
    """The day that it is about, as ``YYYY-MM-DD``; empty if the file does not tell."""
    query: str = ""
    """The query that it answers best, if there were several."""
    scored_by: str = ""
    """The reranker whose score ``score`` is; empty if it is mdrecall's own. ``confidence`` is always mdrecall's."""
    importance: int | None = None
    triggers: tuple[str, ...] = ()
    """Phrases that should bring this entry to mind, as an annotation says."""
    project: str = ""
    """The projects that it belongs to, joined with ``; ``; empty if it is for all."""
    origin: Origin = ""
    superseded: bool = False
    superseded_by: str = ""
    """The path or citation of what replaces it, if the notes say so."""
    was: str = ""
    """The value that it has replaced, such as ``1,200 until 2026-05-03 (MEMORY.md#L4)``."""
    workspace: str = ""
    """The name of the memory that it is from, if several were searched."""

    @property
    def citation(self) -> str:
        """The place to cite: ``path#L3`` or ``path#L3-L9``."""
        return format_citation(self.path, self.start_line, self.end_line)


class FallbackNotice(NamedTuple):
    """Why the configured backend did not answer."""

    backend: str
    reason: str
    since: str
    """When it stopped answering, as ISO 8601 in UTC."""
    next_try: str
    """When it will be tried again, as ISO 8601 in UTC."""


class MemoryReport(NamedTuple):
    """How one of several memories answered a search."""

    workspace: str
    results: int = 0
    reason: Reason = ""
    """Why it found nothing; empty if it found something."""
    action: str = ""
    error: str = ""
    """Why it could not be searched; empty if it was."""


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


class Visible(NamedTuple):
    """What the conversation that asks may see of the transcripts."""

    paths: frozenset[str] | None = None
    """The paths of those that it may see; None means every transcript."""
    withheld: str = ""
    """A sentence that says that some were withheld, and not which; empty if none were."""

    def has(self, path: str) -> bool:
        """True if a transcript may be seen."""
        return self.paths is None or path in self.paths

    def filter_issues(self, issues: Sequence[Issue]) -> tuple[Issue, ...]:
        """Return the issues that name neither a transcript which may not be seen, nor the project of a coding agent."""
        some = (issue for issue in issues if not host_of(issue.path))
        return tuple(issue for issue in some if not issue.path.startswith("sessions/") or self.has(issue.path))


#: Every transcript is visible.
EVERYTHING = Visible()


@_frozen
class SearchAnswer:
    """The results of one search, best first; if there are none, ``reason`` and ``action`` say why and what to do."""

    results: tuple[SearchResult, ...]
    reason: Reason = ""
    action: str = ""
    mode: Mode = "keyword"
    provider: str = ""
    """Whose vectors were searched; empty if none were."""
    model: str = ""
    fallback: str = ""
    """Why ``provider`` is not the configured one."""
    degraded: str = ""
    """Why vectors were not searched although the mode asks for them."""
    not_reranked: str = ""
    """Why the configured reranker has not put the results in order; empty if it has, and if there is none."""
    stale: str = ""
    """Which changed files are not in the index yet."""
    issues: tuple[Issue, ...] = ()
    """Files and folders that could not be read or are out of date. The results are valid nevertheless."""
    backend: str = "builtin"
    answered_for: FallbackNotice | None = None
    """The configured backend that could not answer, and why; None if it did answer."""
    caution: str = ""
    """Why the results should be doubted, as a sentence; empty if there is no reason to."""
    withheld: str = ""
    """A sentence if conversations or entries of other projects were left out, without saying which."""
    memories: tuple[MemoryReport, ...] = ()
    weaker: int = 0
    """How many more results there are, left out because they are much weaker than the best."""

    @property
    def confidence(self) -> Confidence:
        """How sure it is that the memory holds an answer: the confidence of the best result."""
        found = {result.confidence for result in self.results}
        return "high" if "high" in found else "medium" if "medium" in found else "low"

    def replace(self, **changes: Any) -> "SearchAnswer":
        """Return a copy with some fields changed."""
        return SearchAnswer(**vars(self) | changes)

    def keep(self, results: Sequence[SearchResult]) -> "SearchAnswer":
        """Return a copy with some of the results; the others count as weaker ones."""
        return self.replace(results=tuple(results), weaker=self.weaker + len(self.results) - len(results))

    def __iter__(self) -> Iterator[SearchResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> SearchResult:
        return self.results[index]

    def __repr__(self) -> str:
        return f"SearchAnswer({len(self.results)} results, reason={self.reason!r})"


class ReadResult(NamedTuple):
    """Lines of a memory file, or of a session."""

    path: str
    text: str
    from_line: int
    line_count: int
    total_lines: int
    truncated: bool
    next_from: int | None
    """The line to continue from; None if this was the end."""
    next_char: int | None = None
    """If ``from_line`` is so long that it was cut: how many of its characters to skip to read on in it."""
    is_from_index: bool = False
    """True if the file is on another machine, and its text comes from the index that both share."""
