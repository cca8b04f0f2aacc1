"""Metrics of an evaluation: ranks of right answers and their means."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from mdrecall.types import SearchResult, format_citation

#: For each expectation of a question, the rank (from 1) of the first result that meets it; None if none does.
Ranks: TypeAlias = tuple[int | None, ...]

#: Means by the name of the figure: ``hit@6``, ``recall@6``, ``mrr``.
Figures: TypeAlias = dict[str, float]


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
