"""Metrics of an evaluation: ranks of right answers, and tests against chance."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from mdrecall.types import SearchResult, format_citation

#: For each expectation of a question, the rank (from 1) of the first result that meets it; None if none does.
Ranks: TypeAlias = tuple[int | None, ...]

#: Means by the name of the figure: ``hit@6``, ``recall@6``, ``mrr``.
Figures: TypeAlias = dict[str, float]

# Bootstrap rounds. More would make the interval more exact, and take longer.
_ROUNDS = 2000
# What lies outside a 95 % interval on each side.
_TAIL = 0.025
# Fewer changed questions than this may be chance: five coins fall alike once in sixteen times.
_MIN_CHANGED = 6


class Expectation(NamedTuple):
    """A right answer: any result from a file, or only one that overlaps these lines."""

    path: str
    lines: tuple[int, int] | None = None

    def is_met_by(self, result: SearchResult) -> bool:
        """True if a result is from this file and overlaps the lines, if there are any."""
        if result.path != self.path:
            return False
        return self.lines is None or (result.start_line <= self.lines[1] and self.lines[0] <= result.end_line)

    @property
    def citation(self) -> str:
        """``path``, ``path#L3`` or ``path#L3-L9``."""
        return format_citation(self.path, *(self.lines or (None, None)))


def rank_all(expectations: Iterable[Expectation], results: Sequence[SearchResult]) -> Ranks:
    """Return the rank of the first result that meets each expectation."""
    return tuple(
        next((place for place, result in enumerate(results, 1) if expected.is_met_by(result)), None)
        for expected in expectations
    )


def best_rank(ranks: Ranks) -> int | None:
    """Return the rank of the first right result."""
    return min((rank for rank in ranks if rank is not None), default=None)


def figure_names(cuts: Iterable[int]) -> list[str]:
    """Return the figures for these numbers of results, in the order in which they are shown."""
    cuts = sorted(set(cuts))
    return [f"{kind}@{cut}" for kind in ("hit", "recall") for cut in cuts] + ["mrr"]


def figure(name: str, ranks: Ranks) -> float:
    """Return one figure of one question."""
    kind, _, cut = name.partition("@")
    if kind == "mrr":
        return 1 / (best_rank(ranks) or math.inf)
    met = sum(rank is not None and rank <= int(cut) for rank in ranks)
    return float(met > 0) if kind == "hit" else met / len(ranks)


def means(names: Iterable[str], questions: Sequence[Ranks]) -> Figures:
    """Return the mean of each figure over the questions."""
    return {name: math.fsum(figure(name, ranks) for ranks in questions) / len(questions) for name in names}


def compare(names: Sequence[str], first: Sequence[Ranks], second: Sequence[Ranks]) -> list[dict[str, Any]]:
    """Compare two runs, with the interval of each difference from a paired bootstrap over the questions.

    Each figure has the means of both runs, their difference, the ends of its 95 % interval, and if it could be chance.
    """
    columns = [
        [figure(name, after) - figure(name, before) for before, after in zip(first, second, strict=True)]
        for name in names
    ]
    before, after, intervals = means(names, first), means(names, second), _bootstrap(columns)
    found = []
    for name, column, (low, high) in zip(names, columns, intervals, strict=True):
        could_be_chance = low <= 0 <= high or sum(map(bool, column)) < _MIN_CHANGED
        means_of_both = {"first": before[name], "second": after[name], "difference": after[name] - before[name]}
        interval = {"low": low, "high": high, "couldBeChance": could_be_chance}
        found.append({"figure": name, **means_of_both, **interval})
    return found


def _bootstrap(columns: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Return the 95 % interval of the mean of each column; the seed is fixed, so that it is the same every time."""
    import random

    draw = random.Random(0)
    count = len(columns[0])
    drawn: list[list[float]] = [[] for _ in columns]
    for _ in range(_ROUNDS):
        picked = draw.choices(range(count), k=count)
        for column, values in zip(columns, drawn, strict=True):
            values.append(math.fsum(map(column.__getitem__, picked)) / count)
    outside = int(_ROUNDS * _TAIL)
    return [(values[outside], values[-1 - outside]) for values in map(sorted, drawn)]
