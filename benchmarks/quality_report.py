"""The tables of ``benchmarks.quality``: figures of each set, how often the best result is right by its score, and two
runs side by side, with 95 % intervals from a paired bootstrap over the questions.

Questions of one conversation are not independent, so the intervals of conversations are somewhat too narrow.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import format_table
from benchmarks.metrics import ScoreBin, area_under_curve, calibration_error, reliability

RANKED = ("hit@6", "recall@5", "recall@6", "recall@10", "files@10", "cited@8500", "ndcg@10", "mrr", "chars@6")
READ = ("shown@2000", "shown@4000", "filled@2000", "filled@4000", "loose@4000", "chars", "right@1", "mrr")
DEFAULT = ("results", "precision", "found", "lines", "empty")
UNSURE = ("recall@5", "recall@6", "files@10", "ndcg@10", "shown@4000", "filled@4000", "right@1")
SCORED = ("unansw", "foreign", "fconf", "ece", "ece-all")
# Rounds of a bootstrap: the ends of a 95 % interval then move by less than what is printed.
ROUNDS = 1000
NAMES = tuple(dict.fromkeys((*RANKED, *READ, *DEFAULT, *SCORED)))

Run = Mapping[str, Any]


def format_runs(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the tables, each as one text."""
    scored = first_kinds(runs)
    for title, (head, *rows) in (
        ("Ranks", figure_rows(runs, RANKED)),
        ("What a model reads", figure_rows(runs, READ)),
        ("What comes unasked", figure_rows(runs, DEFAULT)),
        ("95 % intervals of some of them", interval_rows(runs)),
        ("What the best score tells", figure_rows(scored, SCORED)),
        ("Best score and share of right first results, own questions, each set with the same weight",
         reliability_rows(scored)),
    ):  # fmt: skip
        yield f"\n{title}\n\n{format_table(head, rows)}"


def first_kinds(runs: Sequence[Run]) -> list[Run]:
    """Return one run of each set and mode: only its first kind is asked what it cannot answer."""
    return list({(run["set"], run["mode"]): run for run in reversed(runs)}.values())[::-1]


def figure_rows(runs: Sequence[Run], names: Sequence[str]) -> list[list[str]]:
    """Return a row for each run, and the means over the first kinds of the sets."""
    values = [figures(run) for run in runs]
    first = [own for run, own in zip(runs, values, strict=True) if run in first_kinds(runs)]
    rows = [["set", "kind", "mode", "questions", *names]]
    for run, own in zip(runs, values, strict=True):
        head = [run["set"], run["kind"], run["mode"], f"{len(run['questions']):,}"]
        rows.append(head + [format_figure(own.get(name)) for name in names])
    columns = ([own.get(name) for own in first] for name in names)
    means = [mean_of([value for value in column if value is not None]) for column in columns]
    return [*rows, ["mean of sets", "", "", "", *map(format_figure, means)]]


def interval_rows(runs: Sequence[Run]) -> list[list[str]]:
    """Return the 95 % bootstrap intervals of means over questions."""
    rows = [["set", "kind", "mode", *UNSURE]]
    for run in runs:
        questions = list(run["questions"].values())
        columns = ([entry[name] for entry in questions if name in entry] for name in UNSURE)
        rows.append([run["set"], run["kind"], run["mode"], *map(format_interval, columns)])
    return rows


def format_interval(values: Sequence[float]) -> str:
    if not values:
        return "–"
    draw = np.random.default_rng(0)
    column = np.array(values)
    means = [column[draw.integers(0, len(column), len(column))].mean() for _ in range(ROUNDS)]
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{low:.3f} … {high:.3f}"


def format_figure(value: float | None) -> str:
    if value is None:
        return "–"
    # A figure is a share, or a number of results or characters.
    return f"{value:.3f}" if value <= 1 else f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def mean_of(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def figures(run: Run) -> dict[str, float | None]:
    """Return every figure of a set: the means over its questions, and what the scores tell."""
    questions = list(run["questions"].values())
    names = [name for name in questions[0] if name != "curve"]
    found: dict[str, float | None] = {name: mean_of([entry[name] for entry in questions]) for name in names}
    found["unansw"] = separation(questions, list(run["unanswerable"].values()))
    found["foreign"] = separation(questions, list(run["foreign"].values()))
    found["fconf"] = mean_of([entry["confident"] for entry in run["foreign"].values()])
    found["ece"] = calibration_error(reliability(judged(questions)))
    others = [*run["unanswerable"].values(), *run["foreign"].values()]
    found["ece-all"] = calibration_error(reliability(judged([*questions, *others]))) if others else None
    return found


def separation(questions: Sequence[Run], others: Sequence[Run]) -> float | None:
    return area_under_curve([entry["score"] for entry in questions], [entry["score"] for entry in others])


def judged(questions: Sequence[Run]) -> list[tuple[float, bool]]:
    """Return the best score of each question that has results, and if its best result is right."""
    return [(entry["score"], bool(entry.get("right@1", 0))) for entry in questions if not entry["empty"]]


def reliability_rows(runs: Sequence[Run]) -> list[list[str]]:
    """Return a row for each height of the score, with the mean over the sets of what is found there."""
    shares: dict[float, list[tuple[float, ScoreBin]]] = {}
    for run in runs:
        for entry in reliability(judged(list(run["questions"].values()))):
            shares.setdefault(entry.low, []).append((entry.questions / len(run["questions"]), entry))
    rows = [["score", "questions", "mean score", "right"]]
    for low, entries in sorted(shares.items()):
        whole = sum(share for share, _ in entries)
        score = sum(share * entry.mean_score for share, entry in entries) / whole
        right = sum(share * entry.share_right for share, entry in entries) / whole
        count = sum(entry.questions for _, entry in entries)
        rows.append([f"{low:.1f}–{low + 0.1:.1f}", f"{count:,}", f"{score:.3f}", f"{right:.3f}"])
    return rows


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


def format_comparison(before: Run, after: Run) -> str:
    """Return a table of every figure of every set, and the means over the sets; a star marks intervals without 0."""
    changes = list(find_changes(before["runs"], after["runs"]))
    first = {describe(run) for run in first_kinds(before["runs"])}
    changes += mean_changes([change for change in changes if change.run in first])
    head = ["set", "figure", "before", "after", "difference", "95 % interval", ""]
    return format_table(head, [change.row() for change in changes])


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
