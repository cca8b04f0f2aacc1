"""Results that do not repeat each other, by their words in any script or by where they are from."""

from collections.abc import Sequence, Set

from mdrecall.types import SearchResult


def diversify(scores: Sequence[float], words: Sequence[Set[str]], weight: float) -> list[int]:
    """The order in which to take results: each time the best after what is like those already taken is held off.

    ``weight`` is the share of the score, the rest is the likeness; 1 leaves the order as the scores have it.
    """
    left = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    if weight >= 1 or len(left) <= 1:
        return left
    least, most = min(scores), max(scores)
    relevance = [(score - least) / (most - least) if most > least else 1.0 for score in scores]
    likeness = [0.0] * len(scores)
    taken: list[int] = []
    while left:
        best = max(left, key=lambda place: (weight * relevance[place] - (1 - weight) * likeness[place], scores[place]))
        left.remove(best)
        taken.append(best)
        for place in left:
            likeness[place] = max(likeness[place], overlap(words[place], words[best]))
    return taken


def overlap(left: Set[str], right: Set[str]) -> float:
    """The share of words that two texts have in common; texts without words are alike."""
    if not left and not right:
        return 1.0
    return len(left & right) / len(left | right)


def interleave_sources(results: Sequence[SearchResult], most: int) -> list[SearchResult]:
    """The first so many; where there are several sources, one of each in turn, the source of the best first."""
    by_source: dict[str, list[SearchResult]] = {}
    for result in results:
        by_source.setdefault(result.source, []).append(result)
    if len(by_source) < 2:
        return list(results[:most])
    groups = sorted(by_source.values(), key=lambda group: -group[0].score)
    longest = max(map(len, groups))
    turns = [group[turn] for turn in range(longest) for group in groups if turn < len(group)]
    return turns[:most]
