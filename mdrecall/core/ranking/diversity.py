"""Diversity: results that do not repeat each other, and sources that take turns."""

from collections.abc import Sequence, Set

from mdrecall.types import SearchResult

# Three results of a file count fully: a fact and what belongs to it. Each further one counts this much of the one
# before, because a file that was shown several times has probably said what it knows.
_FULL_RESULTS = 3
_REPEATED_FILE = 0.8


def diversify(scores: Sequence[float], words: Sequence[Set[str]], weight: float) -> list[int]:
    """Return the order of results by maximal marginal relevance (MMR): high scores that repeat no earlier result.

    ``weight`` is the share of the score, the rest is the overlap of words; 1 leaves the order to the scores.
    """
    left = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    if weight >= 1 or len(left) <= 1:
        return left
    least, most = min(scores), max(scores)
    relevance = [(score - least) / (most - least) if most > least else 1.0 for score in scores]
    repetition = [0.0] * len(scores)
    taken: list[int] = []
    while left:
        best = max(
            left, key=lambda place: (weight * relevance[place] - (1 - weight) * repetition[place], scores[place])
        )
        left.remove(best)
        taken.append(best)
        for place in left:
            repetition[place] = max(repetition[place], overlap(words[place], words[best]))
    return taken


def places_in_files(files: Sequence[str]) -> list[int]:
    """Return the place of each result among those of its file, counted from 0."""
    counts: dict[str, int] = {}
    places = []
    for file in files:
        places.append(counts.get(file, 0))
        counts[file] = places[-1] + 1
    return places


def file_factors(files: Sequence[str]) -> list[float]:
    """Return what each result counts, best first, where a file counts less from its fourth result on."""
    return [_REPEATED_FILE ** max(0, place + 1 - _FULL_RESULTS) for place in places_in_files(files)]


def spread(scores: Sequence[float], factors: Sequence[float]) -> list[int]:
    """Return the order of results, best first, by what each counts."""
    return sorted(range(len(scores)), key=lambda place: -scores[place] * factors[place])


def overlap(left: Set[str], right: Set[str]) -> float:
    """Return the share of words that two texts have in common; two texts without words are the same."""
    if not left and not right:
        return 1.0
    return len(left & right) / len(left | right)


def interleave_sources(results: Sequence[SearchResult], most: int) -> list[SearchResult]:
    """Return the first ``most`` results; of several sources one result each in turn, beginning with the best."""
    by_source: dict[str, list[SearchResult]] = {}
    for result in results:
        by_source.setdefault(result.source, []).append(result)
    if len(by_source) < 2:
        return list(results[:most])
    groups = sorted(by_source.values(), key=lambda group: -group[0].score)
    longest = max(map(len, groups))
    turns = [group[turn] for turn in range(longest) for group in groups if turn < len(group)]
    return turns[:most]
