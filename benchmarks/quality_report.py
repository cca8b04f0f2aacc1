"""The tables of ``benchmarks.quality``: figures of each set, and how often the best result is right by its score."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.metrics import ScoreBin, area_under_curve, calibration_error, reliability

RANKED = ("hit@6", "recall@5", "recall@6", "recall@10", "files@10", "cited@8500", "ndcg@10", "mrr", "chars@6")
READ = ("shown@2000", "shown@4000", "filled@2000", "filled@4000", "loose@4000", "chars", "right@1", "mrr", "empty")
UNSURE = ("recall@5", "recall@6", "files@10", "ndcg@10", "shown@4000", "filled@4000", "right@1")
SCORED = ("unansw", "foreign", "fconf", "ece", "ece-all")
# Rounds of a bootstrap: the ends of a 95 % interval then move by less than what is printed.
ROUNDS = 1000

Run = Mapping[str, Any]


def format_runs(runs: Sequence[Run], *, markdown: bool = False) -> Iterator[str]:
    """Yield the tables, each as one text."""
    yield "Ranks\n" + layout(figure_rows(runs, RANKED), markdown=markdown)
    yield "\nWhat a model reads\n" + layout(figure_rows(runs, READ), markdown=markdown)
    yield "\n95 % intervals of some of them\n" + layout(interval_rows(runs), markdown=markdown)
    scored = first_kinds(runs)
    yield "\nWhat the best score tells\n" + layout(figure_rows(scored, SCORED), markdown=markdown)
    yield "\nBest score and share of right first results, own questions, each set with the same weight\n" + layout(
        reliability_rows(scored), markdown=markdown
    )


def layout(rows: Sequence[Sequence[str]], *, markdown: bool = False) -> str:
    """Return rows, the first of them the header, as aligned columns or as Markdown."""
    if markdown:
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join((lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]))
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    # Columns of words read from the left; figures stand under each other.
    signs = ["<" if column[1][:1].isalpha() else ">" for column in columns]
    aligned = (zip(row, signs, widths, strict=True) for row in rows)
    return "\n".join("  ".join(f"{cell:{sign}{width}}" for cell, sign, width in line) for line in aligned)


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
    # A figure is a share, or a number of characters.
    return f"{value:,.0f}" if value > 1 else f"{value:.3f}"


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
