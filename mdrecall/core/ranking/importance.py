"""Importance and projects: which of several entries that hold the same words of a query come first."""

from collections.abc import Hashable, Sequence

from mdrecall.core.ranking.stages import Candidate, RankingContext
from mdrecall.types import Marks

#: As in OpenClaw: what an entry of a project at hand counts beside others, and one of another project.
_CURRENT_PROJECT, _OTHER_PROJECT = 1.15, 0.9


def importance_factor(importance: int | None) -> float:
    """Return what an entry counts beside others: 0.8 for an importance of 1, 1.25 for 10, 1 without one."""
    return 1.0 if importance is None else 0.75 + 0.05 * importance


def project_factor(project: str, current: frozenset[str]) -> float:
    """Return what an entry of some projects counts where others are at hand; 1 if none is, or if it is for all."""
    if not project or not current:
        return 1.0
    return _OTHER_PROJECT if current.isdisjoint(project.split("; ")) else _CURRENT_PROJECT


def prefer_important(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Order candidates that hold the same words by score, importance and project, among the places that they have.

    No score changes: it says how likely an entry answers the query, which does not depend on how important it is.
    """
    ordered, current = list(candidates), context.query.projects
    if all(not _has_weight(entry.chunk.marks, current) for entry in candidates):
        return ordered
    factors = [_weigh(entry.chunk.marks, current) for entry in candidates]
    groups: dict[Hashable, list[int]] = {}
    for place, entry in enumerate(candidates):
        groups.setdefault(_words_of(entry), []).append(place)
    for places in groups.values():
        best_first = sorted(places, key=lambda place: (-candidates[place].score * factors[place], place))
        for place, chosen in zip(places, best_first, strict=True):
            ordered[place] = candidates[chosen]
    return ordered


def _has_weight(marks: Marks, projects: frozenset[str]) -> bool:
    return marks.importance is not None or bool(projects and marks.project)


def _weigh(marks: Marks, projects: frozenset[str]) -> float:
    return importance_factor(marks.importance) * project_factor(marks.project, projects)


def _words_of(entry: Candidate) -> Hashable:
    """Return what must be equal for importance to decide: the words of the query, its names, and the source."""
    features = entry.features
    held = (features.held, features.identified, features.naming) if features else ()
    return entry.chunk.source, held
