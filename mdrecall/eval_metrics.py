"""Metrics of an evaluation: ranks, evidence shown, separation and calibration of scores, and tests against chance."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from mdrecall.types import SearchResult

#: For each expectation of a question, the rank (from 1) of the first result that meets it; None if none does.
Ranks: TypeAlias = tuple[int | None, ...]

#: Where the expectations of one question are met: their ranks, and for each the characters of the snippets that are
#: read until its text is shown; None if never.
Reached: TypeAlias = tuple[Ranks, tuple[int | None, ...]]

#: Means by the name of the figure: ``hit@6``, ``recall@6``, ``mrr``, ``shown@4000``.
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


def rank_all(expectations: Iterable[Expectation], results: Sequence[SearchResult]) -> Ranks:
    """Return the rank of the first result that meets each expectation."""
    return tuple(
        next((place for place, result in enumerate(results, 1) if expected.is_met_by(result)), None)
        for expected in expectations
    )


def chars_until_shown(path: str, lines: Sequence[str], results: Iterable[SearchResult]) -> int | None:
    """Return how many characters of the snippets are read, in order, until one of a file's lines is shown.

    A line is shown by its first or its last 60 characters. Without lines any snippet from the file will do. None if
    nothing is shown.
    """
    ends = _line_ends(lines)
    read = 0
    for result in results:
        if result.path == path:
            text = _squeeze(result.snippet)
            found = [text.index(end) + len(end) for end in ends if end in text]
            if found or not lines:
                return read + min(found, default=min(len(result.snippet), _LINE_END))
        read += len(result.snippet)
    return None


def _line_ends(lines: Iterable[str]) -> set[str]:
    """Return the beginnings and the ends of the lines that tell which line it is."""
    stripped = [line for line in (_squeeze(line).lstrip("#-*+> ") for line in lines) if line]
    long = [line for line in stripped if len(line) >= _MIN_LINE]
    return {end for line in long or stripped for end in (line[:_LINE_END].strip(), line[-_LINE_END:].strip())}


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
    found = []
    for number, entries in enumerate(bins):
        if count := len(entries):
            mean = math.fsum(score for score, _ in entries) / count
            share = sum(is_right for _, is_right in entries) / count
            found.append(ScoreBin(number / _BINS, (number + 1) / _BINS, count, mean, share))
    return found


def calibration_error(bins: Sequence[ScoreBin]) -> float | None:
    """Return the expected calibration error: how far scores are from the share of right answers, on average."""
    count = sum(entry.questions for entry in bins)
    distances = (entry.questions * abs(entry.mean_score - entry.share_right) for entry in bins)
    return math.fsum(distances) / count if count else None


def best_rank(ranks: Ranks) -> int | None:
    """Return the rank of the first right result."""
    return min((rank for rank in ranks if rank is not None), default=None)


def figure_names(cuts: Iterable[int], chars: Iterable[int] = ()) -> list[str]:
    """Return the figures for these numbers of results and of characters, in the order in which they are shown."""
    cuts = sorted(set(cuts))
    ranked = [f"{kind}@{cut}" for kind in ("hit", "recall") for cut in cuts] + ["mrr"]
    return ranked + [f"shown@{limit}" for limit in sorted(set(chars))]


def figure(name: str, reached: Reached) -> float:
    """Return one figure of one question."""
    kind, _, cut = name.partition("@")
    if kind == "mrr":
        return 1 / (best_rank(reached[0]) or math.inf)
    places = reached[1] if kind == "shown" else reached[0]
    met = sum(place is not None and place <= int(cut) for place in places)
    return float(met > 0) if kind == "hit" else met / len(places)


def means(names: Iterable[str], questions: Sequence[Reached]) -> Figures:
    """Return the mean of each figure over the questions."""
    return {name: math.fsum(figure(name, reached) for reached in questions) / len(questions) for name in names}


def compare(names: Sequence[str], first: Sequence[Reached], second: Sequence[Reached]) -> list[dict[str, Any]]:
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
