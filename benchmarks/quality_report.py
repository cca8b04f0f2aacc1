"""The tables of ``benchmarks.quality``: figures of each set, reliability, and two runs side by side."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdrecall.core.eval_metrics import ScoreBin, area_under_curve, calibration_error, reliability

RANKED = ("hit@6", "recall@5", "recall@6", "recall@10", "files@10", "cited@8500", "ndcg@10", "mrr", "chars@6")
READ = ("shown@2000", "shown@4000", "filled@2000", "filled@4000", "loose@4000", "chars", "right@1", "mrr", "empty")
SCORED = ("unansw", "foreign", "fconf", "ece", "ece-all")
# Rounds of the bootstrap: the ends of a 95 % interval then move by less than what is printed.
ROUNDS = 1000

Run = Mapping[str, Any]


def format_runs(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the tables, each as one text."""
    yield "Ranks, as before\n" + table(runs, RANKED)
    yield "\nWhat a model reads, with default settings\n" + table(runs, READ)
    scored = first_kinds(runs)
    yield (
        "\nBest score: AUC against unanswerable and foreign questions, foreign with more than low confidence, ECE\n"
        + (table(scored, SCORED))
    )
    yield "\nReliability, own questions of all sets, each set with the same weight\n" + reliability_table(scored)


def first_kinds(runs: Sequence[Run]) -> list[Run]:
    """Return one run of each set and mode: only its first kind is asked what it cannot answer."""
    return list({(run["set"], run["mode"]): run for run in reversed(runs)}.values())[::-1]


def table(runs: Sequence[Run], names: Sequence[str]) -> str:
    rows = [f"{'set':17}{'kind':10}{'mode':8}{'n':>5}" + "".join(f"{name:>12}" for name in names)]
    values = [figures(run) for run in runs]
    for run, own in zip(runs, values, strict=True):
        head = f"{run['set']:17}{run['kind']:10}{run['mode']:8}{len(run['questions']):>5}"
        rows.append(head + "".join(cell(own.get(name)) for name in names))
    columns = ([own.get(name) for own in values] for name in names)
    means = [mean_of([value for value in column if value is not None]) for column in columns]
    rows.append(f"{'mean':40}" + "".join(map(cell, means)))
    return "\n".join(rows)


def cell(value: float | None) -> str:
    if value is None:
        return f"{'–':>12}"
    return f"{value:12.0f}" if value > 1.5 else f"{value:12.4f}"


def mean_of(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def figures(run: Run) -> dict[str, float | None]:
    """Return every figure of a set: the means over its questions, and what the scores tell."""
    questions = list(run["questions"].values())
    found: dict[str, float | None] = {name: mean_of([entry[name] for entry in questions]) for name in questions[0]}
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


def reliability_table(runs: Sequence[Run]) -> str:
    rows = [f"{'score':12}{'questions':>10}{'mean score':>12}{'right':>8}"]
    bins: dict[float, list[ScoreBin]] = {}
    for run in runs:
        for entry in reliability(judged(list(run["questions"].values()))):
            bins.setdefault(entry.low, []).append(entry._replace(high=len(run["questions"])))
    for low, entries in sorted(bins.items()):
        weights = [entry.questions / entry.high for entry in entries]
        score = sum(weight * entry.mean_score for weight, entry in zip(weights, entries, strict=True)) / sum(weights)
        right = sum(weight * entry.share_right for weight, entry in zip(weights, entries, strict=True)) / sum(weights)
        count = sum(entry.questions for entry in entries)
        rows.append(f"{low:.1f}–{low + 0.1:<8.1f}{count:>10}{score:>12.3f}{right:>8.3f}")
    return "\n".join(rows)


def print_comparison(before: Run, after: Run) -> None:
    """Print every figure of both runs with the 95 % interval of the paired difference over common questions."""
    later = {(run["set"], run["kind"], run["mode"]): run for run in after["runs"]}
    names = list(dict.fromkeys((*RANKED, *READ, *SCORED)))
    for run in before["runs"]:
        key = run["set"], run["kind"], run["mode"]
        if key not in later:
            continue
        first, second = common(run, later[key])
        if not first["questions"]:
            continue
        print(f"\n{' '.join(key)}, {len(first['questions'])} questions")
        print(f"{'':14}{'before':>10}{'after':>10}{'difference':>12}   95 % interval")
        was, now = figures(first), figures(second)
        for name in names:
            old, new = was.get(name), now.get(name)
            if old is not None and new is not None:
                low, high = interval(first, second, name)
                mark = "" if low <= 0 <= high else " *"
                print(f"{name:14}{old:10.4g}{new:10.4g}{new - old:+12.4f}   {low:+.4f} … {high:+.4f}{mark}")


def common(first: Run, second: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both runs with the questions that both have, in one order."""
    kept: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for part in ("questions", "unanswerable", "foreign"):
        names = sorted(first[part].keys() & second[part].keys())
        for run, target in zip((first, second), kept, strict=True):
            target[part] = {name: run[part][name] for name in names}
    return kept


def interval(first: Run, second: Run, name: str) -> tuple[float, float]:
    """Return the 95 % interval of the difference of a figure, from a paired bootstrap with a fixed seed."""
    draw = np.random.default_rng(0)
    if name in ("unansw", "foreign"):
        differences = separation_differences(first, second, "unanswerable" if name == "unansw" else name, draw)
    elif name in ("ece", "ece-all"):
        differences = calibration_differences(first, second, name, draw)
    else:
        part = "foreign" if name == "fconf" else "questions"
        column = "confident" if name == "fconf" else name
        pairs = zip(first[part].values(), second[part].values(), strict=True)
        changes = np.array([new[column] - old[column] for old, new in pairs], float)
        picked = draw.integers(0, len(changes), (ROUNDS, len(changes)), dtype=np.int32)
        differences = changes[picked].mean(axis=1)
    low, high = np.quantile(differences, (0.025, 0.975))
    return float(low), float(high)


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
