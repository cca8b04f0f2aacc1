"""Several queries as one search: each is answered by itself, and a passage keeps the best of its scores."""

from collections.abc import Sequence

from mdrecall.errors import QueryError
from mdrecall.types import SearchAnswer, SearchResult

#: Each query is a search of its own, so this bounds what one call may cost.
MAX_QUERIES = 5


def list_queries(query: str, more: Sequence[str]) -> list[str]:
    """Return the different queries of a request, in their order; raise ``QueryError`` if one is blank or too many."""
    if isinstance(more, str):
        raise QueryError("The further queries are a text.", hint="Give them as a list of texts.", name="queries")
    every = [query, *more]
    if any(not isinstance(entry, str) or not entry.strip() for entry in more):
        hint = "Leave it out, or say what to look for."
        raise QueryError("One of the queries is blank or not a text.", hint=hint, name="queries")
    if len(every) > MAX_QUERIES:
        raise QueryError(f"There are {len(every)} queries.", hint=f"Ask at most {MAX_QUERIES} at once.", name="queries")
    return list(dict.fromkeys(entry.strip() for entry in every))


def fuse_answers(queries: Sequence[str], answers: Sequence[SearchAnswer], max_results: int) -> SearchAnswer:
    """Return one answer to several queries: the best results of all, each passage once, with the query that it suits.

    A passage keeps its best score rather than a sum, so that a score goes on meaning what it means for one query.
    """
    found = [
        result._replace(query=query)
        for query, answer in zip(queries, answers, strict=True)
        for result in answer.results
    ]
    kept: list[SearchResult] = []
    for result in sorted(found, key=lambda entry: -entry.score):
        if not any(_is_same_passage(result, other) for other in kept):
            kept.append(result)
    first = next((answer for answer in answers if answer.results), answers[0])
    best = max(answers, key=lambda answer: max((entry.score for entry in answer.results), default=-1.0))
    return first.replace(
        results=tuple(kept[:max_results]),
        caution=best.caution,
        **{name: _first_of(answers, name) for name in ("degraded", "fallback", "stale", "not_reranked")},
        issues=tuple(dict.fromkeys(issue for answer in answers for issue in answer.issues)),
    )


def _is_same_passage(one: SearchResult, other: SearchResult) -> bool:
    """True if two results match some of the same lines."""
    return (
        (one.source, one.path) == (other.source, other.path)
        and one.match_start_line <= other.match_end_line
        and other.match_start_line <= one.match_end_line
    )


def _first_of(answers: Sequence[SearchAnswer], name: str) -> str:
    return next((value for answer in answers if (value := getattr(answer, name))), "")
