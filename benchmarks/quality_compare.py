"""Two runs of ``benchmarks.quality`` side by side, with 95 % intervals from a paired bootstrap over the questions.

Questions of one conversation are not independent, so the intervals of conversations are somewhat too narrow.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.quality_report import RANKED, READ, ROUNDS, SCORED, Run, figures, first_kinds, format_figure

NAMES = tuple(dict.fromkeys((*RANKED, *READ, *SCORED)))


class Change(NamedTuple):
    """One figure of two runs."""

    run: str
    figure: str
    before: float
    after: float
    differences: Any
    """The difference in every round of the bootstrap."""

    def row(self) -> list[str]:
        low, high = np.quantile(self.differences, (0.025, 0.975))
        digits = 0 if abs(self.before) > 1 or abs(self.after) > 1 else 3
        sure = "" if low <= 0 <= high else "*"
        return [
            self.run,
            self.figure,
            format_figure(self.before),
            format_figure(self.after),
            f"{self.after - self.before:+,.{digits}f}",
            f"{low:+,.{digits}f} … {high:+,.{digits}f}",
            sure,
        ]


def comparison_rows(before: Run, after: Run) -> list[list[str]]:
    """Return every figure of every set, and the means over the sets; a star marks intervals without 0."""
    changes = list(find_changes(before["runs"], after["runs"]))
    first = {describe(run) for run in first_kinds(before["runs"])}
    changes += mean_changes([change for change in changes if change.run in first])
    head = ["set", "figure", "before", "after", "difference", "95 % interval", ""]
    return [head, *(change.row() for change in changes)]


def describe(run: Run) -> str:
    return f"{run['set']} {run['kind']} {run['mode']}"


def find_changes(before: Sequence[Run], after: Sequence[Run]) -> Iterator[Change]:
    later = {describe(run): run for run in after}
    for run in before:
        if describe(run) not in later:
            continue
        first, second = common(run, later[describe(run)])
        if not first["questions"]:
            continue
        was, now = figures(first), figures(second)
        for name in NAMES:
            old, new = was.get(name), now.get(name)
            if old is not None and new is not None:
                yield Change(describe(run), name, old, new, resample(first, second, name))


def mean_changes(changes: Sequence[Change]) -> Iterator[Change]:
    """Yield the mean of each figure over the sets that have it."""
    for name in NAMES:
        if own := [change for change in changes if change.figure == name]:
            differences = np.mean([change.differences for change in own], axis=0)
            before, after = (sum(values) / len(own) for values in zip(*((c.before, c.after) for c in own), strict=True))
            yield Change("mean of sets", name, before, after, differences)


def common(first: Run, second: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both runs with the questions that both have, in one order."""
    kept: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for part in ("questions", "unanswerable", "foreign"):
        names = sorted(first[part].keys() & second[part].keys())
        for run, target in zip((first, second), kept, strict=True):
            target[part] = {name: run[part][name] for name in names}
    return kept


def resample(first: Run, second: Run, name: str) -> Any:
    """Return the difference of a figure in every round of a paired bootstrap with a fixed seed."""
    draw = np.random.default_rng(0)
    if name in ("unansw", "foreign"):
        return separation_differences(first, second, "unanswerable" if name == "unansw" else name, draw)
    if name in ("ece", "ece-all"):
        return calibration_differences(first, second, name, draw)
    part = "foreign" if name == "fconf" else "questions"
    column = "confident" if name == "fconf" else name
    pairs = zip(first[part].values(), second[part].values(), strict=True)
    changes = np.array([new[column] - old[column] for old, new in pairs], float)
    return np.array([changes[draw.integers(0, len(changes), len(changes))].mean() for _ in range(ROUNDS)])


def separation_differences(first: Run, second: Run, part: str, draw: np.random.Generator) -> Any:
    own = [np.array([entry["score"] for entry in run["questions"].values()]) for run in (first, second)]
    other = [np.array([entry["score"] for entry in run[part].values()]) for run in (first, second)]
    wins = [
        (np.greater.outer(high, low) + 0.5 * np.equal.outer(high, low)).astype(np.float32)
        for high, low in zip(own, other, strict=True)
    ]
    difference = wins[1] - wins[0]
    rows, columns = difference.shape
    found = []
    for _ in range(ROUNDS):
        row = np.bincount(draw.integers(0, rows, rows), minlength=rows).astype(np.float32)
        column = np.bincount(draw.integers(0, columns, columns), minlength=columns).astype(np.float32)
        found.append(float(row @ difference @ column) / (rows * columns))
    return np.array(found)


def calibration_differences(first: Run, second: Run, name: str, draw: np.random.Generator) -> Any:
    parts = ("questions",) if name == "ece" else ("questions", "unanswerable", "foreign")
    entries = [[entry for part in parts for entry in run[part].values()] for run in (first, second)]
    measure: list[Callable[[Any], float]] = [calibration_measure(own) for own in entries]
    count = len(entries[0])
    found = []
    for _ in range(ROUNDS):
        picked = draw.integers(0, count, count)
        found.append(measure[1](picked) - measure[0](picked))
    return np.array(found)


def calibration_measure(entries: Sequence[Run]) -> Callable[[Any], float]:
    """Return a function that gives the ECE of a resample, by the same bins as ``reliability``."""
    scores = np.array([entry["score"] for entry in entries], float)
    right = np.array([bool(entry.get("right@1", 0)) for entry in entries], float)
    counted = np.array([not entry["empty"] for entry in entries], float)
    bins = np.clip((scores * 10).astype(int), 0, 9)

    def measure(picked: Any) -> float:
        weights = counted[picked]
        gaps = np.bincount(bins[picked], weights * (scores[picked] - right[picked]), minlength=10)
        return float(np.abs(gaps).sum() / max(weights.sum(), 1))

    return measure
