"""Metrics of an evaluation: ranks, evidence shown, separation and calibration of scores, and tests against chance."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from mdrecall.types import SearchResult

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
# Evidence counts as shown with this much of one of its lines: enough to tell which line it is, and no more than a
# snippet that begins or ends within the line still holds.
_LINE_END = 60
# Shorter lines, such as a closing brace, are in many places; they count only if the evidence has no longer one.
_MIN_LINE = 10
# Ten bins are what reliability tables usually have; a bin is then wide enough to hold questions of a small set.
_BINS = 10


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
        if self.lines is None:
            return self.path
        first, last = self.lines
        return f"{self.path}#L{first}" + (f"-L{last}" if last != first else "")


class ScoreBin(NamedTuple):
    """The questions whose best score lies from ``low`` to ``high``."""

    low: float
    high: float
    questions: int
    mean_score: float
    share_right: float
    """The share of them whose best result is right."""


class Difference(NamedTuple):
    """One figure of two runs over the same questions."""

    figure: str
    first: float
    second: float
    difference: float
    low: float
    """The lower end of the 95 % interval of the difference."""
    high: float
    could_be_chance: bool


def rank_all(expectations: Iterable[Expectation], results: Sequence[SearchResult]) -> Ranks:
    """Return the rank of the first result that meets each expectation."""
    return tuple(
        next((place for place, result in enumerate(results, 1) if expected.is_met_by(result)), None)
        for expected in expectations
    )


def shown_within(results: Iterable[SearchResult], limit: int) -> dict[str, str]:
    """Return the text of each file that is shown if the snippets are read in order and cut at ``limit`` characters."""
    shown: dict[str, list[str]] = {}
    for result in results:
        if limit <= 0:
            break
        shown.setdefault(result.path, []).append(_squeeze(result.snippet[:limit]))
        limit -= len(result.snippet)
    return {path: "\n".join(texts) for path, texts in shown.items()}


def is_shown(lines: Iterable[str], text: str) -> bool:
    """True if a text shows the first or the last 60 characters of one of the lines."""
    stripped = [line for line in (_squeeze(line).lstrip("#-*+> ") for line in lines) if line]
    long = [line for line in stripped if len(line) >= _MIN_LINE]
    return any(line[:_LINE_END] in text or line[-_LINE_END:] in text for line in long or stripped)


def _squeeze(text: str) -> str:
    """Return the text with every run of white space as one space: a snippet may be wrapped or indented otherwise."""
    return " ".join(text.split())


def area_under_curve(higher: Sequence[float], lower: Sequence[float]) -> float | None:
    """Return how often a score of the first kind is above one of the second; ties count half. None if one is empty."""
    if not higher or not lower:
        return None
    ordered = sorted(lower)
    wins = math.fsum(bisect_left(ordered, score) + bisect_right(ordered, score) for score in higher)
    return wins / 2 / (len(higher) * len(lower))


def reliability(answers: Iterable[tuple[float, bool]]) -> list[ScoreBin]:
    """Return the table of best scores and the share of right best results; empty bins are left out."""
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for score, right in answers:
        bins[min(int(max(score, 0.0) * _BINS), _BINS - 1)].append((score, right))
    return [
        ScoreBin(
            number / _BINS,
            (number + 1) / _BINS,
            len(entries),
            math.fsum(score for score, _ in entries) / len(entries),
            sum(right for _, right in entries) / len(entries),
        )
        for number, entries in enumerate(bins)
        if entries
    ]


def calibration_error(bins: Sequence[ScoreBin]) -> float | None:
    """Return the expected calibration error: how far scores are from the share of right answers, on average."""
    count = sum(entry.questions for entry in bins)
    distances = (entry.questions * abs(entry.mean_score - entry.share_right) for entry in bins)
    return math.fsum(distances) / count if count else None


def best_rank(ranks: Ranks) -> int | None:
    """Return the rank of the first right result."""
    return min((rank for rank in ranks if rank is not None), default=None)


def figure_names(cuts: Iterable[int]) -> list[str]:
    """Return the names of the figures for these numbers of results, in the order in which they are shown."""
    cuts = sorted(set(cuts))
    return [f"{kind}@{cut}" for kind in ("hit", "recall") for cut in cuts] + ["mrr"]


def figure(name: str, ranks: Ranks) -> float:
    """Return one figure of one question."""
    kind, _, cut = name.partition("@")
    if kind == "mrr":
        return 1 / (best_rank(ranks) or math.inf)
    met = sum(rank is not None and rank <= int(cut) for rank in ranks)
    return met / len(ranks) if kind == "recall" else float(met > 0)


def means(names: Iterable[str], questions: Sequence[Ranks]) -> Figures:
    """Return the mean of each figure over the questions."""
    return {name: math.fsum(figure(name, ranks) for ranks in questions) / len(questions) for name in names}


def compare(names: Sequence[str], first: Sequence[Ranks], second: Sequence[Ranks]) -> list[Difference]:
    """Compare two runs, with the interval of each difference from a paired bootstrap over the questions."""
    columns = [
        [figure(name, after) - figure(name, before) for before, after in zip(first, second, strict=True)]
        for name in names
    ]
    before, after, intervals = means(names, first), means(names, second), _bootstrap(columns)
    return [
        Difference(
            name,
            before[name],
            after[name],
            after[name] - before[name],
            low,
            high,
            could_be_chance=low <= 0 <= high or sum(map(bool, column)) < _MIN_CHANGED,
        )
        for name, column, (low, high) in zip(names, columns, intervals, strict=True)
    ]


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
    return [_interval(values) for values in drawn]


def _interval(values: list[float]) -> tuple[float, float]:
    values.sort()
    outside = int(len(values) * _TAIL)
    return values[outside], values[-1 - outside]
