"""Metrics of the benchmarks: evidence shown, and the separation and calibration of scores."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple

from mdrecall.cli.output import count_rows
from mdrecall.cli.search import print_answer
from mdrecall.types.search import SearchAnswer, SearchResult

# Evidence counts as shown with this much of one of its lines: enough to tell which line it is, and no more than a
# snippet that begins or ends within the line still holds.
_LINE_END = 60
# Shorter lines, such as a closing brace, are in many places; they count only if the evidence has no longer one.
_MIN_LINE = 10
# Ten bins are what reliability tables usually have; a bin is then wide enough to hold questions of a small set.
_BINS = 10


class ScoreBin(NamedTuple):
    """The questions whose best score lies from ``low`` to ``high``."""

    low: float
    high: float
    questions: int
    mean_score: float
    share_right: float
    """The share of them whose best result is right."""


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


def count_printed(answer: SearchAnswer, query: str) -> int:
    """Return how many lines of a terminal with 80 columns the answer to a query fills."""
    with redirect_stdout(StringIO()) as printed, redirect_stderr(printed):
        print_answer(answer, query)
    return count_rows(printed.getvalue().rstrip("\n"))


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
