"""Several memories as one search: each is searched by itself, and the best results of all make one answer.

A score is the probability that a passage answers the query, so scores of different memories can be compared.
"""

from collections.abc import Mapping, Sequence

from mdrecall.errors import RecallError
from mdrecall.types import Issue, MemoryReport, Reason, SearchAnswer, SearchResult

#: If no memory has found anything, the first of these that one of them gives is the reason of the whole answer: the
#: nearest to a result comes first.
_REASONS: tuple[Reason, ...] = ("below_min_score", "no_match", "no_searchable_words", "index_empty", "scope_denied")
_NOTICES = ("degraded", "fallback", "stale", "not_reranked", "withheld")


def merge_memories(
    outcomes: Mapping[str, SearchAnswer | RecallError], max_results: int, places: Mapping[str, str]
) -> SearchAnswer:
    """Return one answer of several memories, each given by its name; those that failed are named in it.

    ``places`` says where the notes of a memory are: two memories of one place have the same notes. If every memory
    failed, the error is raised.
    """
    answers = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, SearchAnswer)}
    if not answers:
        raise _join_errors({name: outcome for name, outcome in outcomes.items() if isinstance(outcome, RecallError)})
    results = _drop_repeated(_put_in_order(answers), places)[:max_results]
    first = answers[results[0].workspace] if results else min(answers.values(), key=_rank_reason)
    notices = {notice: _join_texts({n: getattr(each, notice) for n, each in answers.items()}) for notice in _NOTICES}
    return first.replace(
        results=tuple(results),
        action="" if results else _join_texts({name: each.action for name, each in answers.items()}),
        issues=tuple(_name_issue(name, issue) for name, each in answers.items() for issue in each.issues),
        memories=tuple(_report(name, outcome, results) for name, outcome in outcomes.items()),
        **notices,
    )


def _put_in_order(answers: Mapping[str, SearchAnswer]) -> list[SearchResult]:
    """Return all results, best first; those of one memory stay in its order, and of equals the names decide.

    A memory may have put a better score below, because it is of the same file or was superseded. So no result comes
    before one that its own memory has put above it.
    """
    ranked: list[tuple[float, str, int, SearchResult]] = []
    for name, answer in answers.items():
        lowest = float("inf")
        for place, result in enumerate(answer.results):
            lowest = min(lowest, result.score)
            ranked.append((-lowest, name, place, result._replace(workspace=name)))
    return [result for *_, result in sorted(ranked, key=lambda entry: entry[:3])]


def _drop_repeated(results: Sequence[SearchResult], places: Mapping[str, str]) -> list[SearchResult]:
    """Return each note's passage once, also if it is in two memories of one place, such as agents that share notes."""
    kept: dict[tuple[object, ...], SearchResult] = {}
    for result in results:
        # The same path is another transcript for another agent.
        place = places.get(result.workspace, "") if result.source == "memory" else ""
        key = (place or result.workspace, result.source, result.citation, result.snippet)
        kept.setdefault(key, result)
    return list(kept.values())


def _report(name: str, outcome: SearchAnswer | RecallError, results: Sequence[SearchResult]) -> MemoryReport:
    if isinstance(outcome, RecallError):
        return MemoryReport(name, error=str(outcome), action=outcome.hint)
    count = sum(result.workspace == name for result in results)
    return MemoryReport(name, count, outcome.reason, outcome.action if outcome.reason else "")


def _join_errors(errors: Mapping[str, RecallError]) -> RecallError:
    """Return one error for memories that all failed: the error itself if it is the same for all."""
    first, *more = errors.values()
    if all((type(error), str(error)) == (type(first), str(first)) for error in more):
        return first
    reasons = " ".join(f"{name}: {str(error).rstrip('.')}." for name, error in errors.items())
    return RecallError(f"None of the memories can be searched. {reasons}", hint=first.hint)


def _rank_reason(answer: SearchAnswer) -> int:
    return _REASONS.index(answer.reason) if answer.reason in _REASONS else len(_REASONS)


def _join_texts(texts: Mapping[str, str]) -> str:
    """Return what memories say, each with its name; once if all say the same."""
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return " ".join(f"{name}: {text.rstrip('.')}." for name, text in texts.items() if text)


def _name_issue(name: str, issue: Issue) -> Issue:
    problem = f"{name}: {issue.problem}" if issue.problem.startswith(issue.path) else issue.problem
    return Issue(f"{name}: {issue.path}", problem)
