"""Importance: of entries that hold the same words of a query, those that somebody called important come first."""

from collections.abc import Hashable, Sequence

from mdrecall.core.ranking.stages import Candidate, RankingContext


def importance_factor(importance: int | None) -> float:
    """Return what an entry counts beside others: 0.8 for an importance of 1, 1.25 for 10, 1 without one."""
    return 1.0 if importance is None else 0.75 + 0.05 * importance


def prefer_important(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Order candidates that hold the same words by score and importance, among the places that they have.

    No score changes: it says how likely an entry answers the query, which does not depend on how important it is.
    """
    ordered = list(candidates)
    if all(entry.chunk.marks.importance is None for entry in candidates):
        return ordered
    groups: dict[Hashable, list[int]] = {}
    for place, entry in enumerate(candidates):
        groups.setdefault(_words_of(entry), []).append(place)
    for places in groups.values():
        best_first = sorted(places, key=lambda place: (-_weighted_score(candidates[place]), place))
        for place, chosen in zip(places, best_first, strict=True):
            ordered[place] = candidates[chosen]
    return ordered


def _weighted_score(entry: Candidate) -> float:
    return entry.score * importance_factor(entry.chunk.marks.importance)


def _words_of(entry: Candidate) -> Hashable:
    """Return what must be equal for importance to decide: the words of the query, its names, and the source."""
    features = entry.features
    held = (features.held, features.identified, features.naming) if features else ()
    return entry.chunk.source, held
