"""Refit the curves that make a score of a worth: ``python -m training.calibrate --eval DIR``, or ``… FILE.json …``.

The score of the best result should be the share of questions whose best result is right. So every question of the sets
in DIR (``benchmarks/eval_sets.py`` describes one) is asked by keywords, by vectors and by both, and a logistic
regression is fitted to the best results, each set with the same weight; questions without an answer are wrong, with a
quarter of it. There are two curves, and each has its own tables:

* *words*: slope * worth + offset - trust * the share of the query that the embedder reads - commonness * how common its
  words are + unspaced for a query without spaces,
* *vectors*, for a search by vectors only: slope * likeness + offset.

The first table has each coefficient as it ships and as it is fitted on all sets, with a 95 % interval over the sets
(sets are drawn with replacement: questions of one set are alike) and the range while each set is left out; then the
same *alone*, while the others stay as they ship: they move together, and what ships is rounded. The second has for each
set what the curve as it ships and the one that was fitted without this set say about it: log loss, calibration error
(ECE) and how often a question with an answer scores above one without (AUC).

``--json FILE`` keeps the answers, and such files can be fitted again. The options ``--provider``, ``--model-path`` and
``--base-url`` choose the embedder; an embedder behind ``--base-url`` is of unknown range, which is then measured.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from benchmarks.eval_sets import load
from benchmarks.measure import format_table
from benchmarks.metrics import area_under_curve, calibration_error, reliability
from benchmarks.quality import Scorer, Task, add_task_options, collect, plan, prepare, top
from benchmarks.quality_report import Run, first_kinds
from mdrecall import Memory
from mdrecall.search.score import probabilities, query_cost
from mdrecall.types.search import Mode

# What the questions without an answer weigh in each set, beside 1 for those with one: most questions can be answered.
_WITHOUT_ANSWER = 0.25
# Newton's method is done long before; this many steps only bound a fit that does not converge.
_STEPS = 50
# A longer step may leap over the minimum and never return, if a draw holds hardly any set.
_LONGEST = 2.0
# Log-odds beyond this are certainty, and larger ones would overflow.
_FARTHEST = 30.0
# A step smaller than this changes nothing that is printed.
_ENOUGH = 1e-6
# Keeps a coefficient that the sets say nothing about, such as the script in English sets, where it ships.
_PENALTY = 1e-3
# Draws of sets for an interval: its ends then move by less than what is printed.
_DRAWS = 500
# Probabilities of 0 and 1 have no log-odds.
_LEAST = 1e-6

Vector = NDArray[numpy.float64]


class Curve(NamedTuple):
    """A curve: the names of its coefficients, their values as shipped, and the modes that it is judged in."""

    name: str
    coefficients: tuple[str, ...]
    shipped: Vector
    modes: tuple[Mode, ...]


class Example(NamedTuple):
    """The best result of a question."""

    set: str
    mode: str
    features: tuple[float, ...]
    """What the coefficients are multiplied with."""
    right: float
    """1 if it is right."""
    weight: float
    has_answer: bool


class Judgement(NamedTuple):
    """What a curve says about a set."""

    log_loss: float
    ece: float
    auc: float | None


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    if options.eval:
        runs = ask_all(options)
        if options.json:
            options.json.write_text(json.dumps({"runs": runs}, ensure_ascii=False) + "\n", encoding="utf-8")
        print_tables("all", runs)
    for path in options.files:
        print_tables(path.stem, json.loads(path.read_text(encoding="utf-8"))["runs"])
    return 0


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.calibrate", description=__doc__)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="what --json has written")
    parser.add_argument("--eval", type=Path, metavar="DIR", help="the folder that holds the sets")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the answers here")
    add_task_options(parser)
    options = parser.parse_args(arguments)
    if not options.eval and not options.files:
        parser.error("name a FILE, or the folder of the sets with --eval DIR")
    return options


def ask_all(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Ask every set in every mode, each in the way that is also asked what it cannot answer."""
    options.kind, options.mode = None, ["keyword", "hybrid", "vector"]
    seen: dict[str, str] = {}
    tasks = [task for task in plan(options) if seen.setdefault(task.name, task.kind) == task.kind]
    with ProcessPoolExecutor(options.jobs) as pool:
        return collect(tasks, list(pool.map(ask, tasks)))


def ask(task: Task) -> dict[str, Any]:
    """Return the best score of each question of a workspace, and what it was made of."""
    questions = load(task.root / task.name)
    own = {query: questions.queries[query]["text"] for query in task.asked}
    others = {
        "unanswerable": {query: questions.unanswerable[query]["text"] for query in task.unanswerable},
        "foreign": {f"{task.scope}<{query}": text for query, text in task.foreign.items()},
    }
    records: dict[str, Any] = {}
    with prepare(task) as (workspace, env), Memory.open(workspace, env=env, overrides=task.overrides) as memory:
        memory.sync()
        scorer = Scorer(memory, workspace, task, questions)
        for mode in task.modes:
            records[mode] = {
                part: {query: top(memory.search(text, mode=mode, explain=True)) for query, text in texts.items()}
                for part, texts in others.items()
            }
            records[mode]["questions"] = asked = {}
            for query, text in own.items():
                answer = memory.search(text, mode=mode, explain=True)
                asked[query] = top(answer) | {"right@1": scorer.score(query, scorer.credit(answer))["hit@1"]}
    return records


def _read_line(*, by_vectors_only: bool) -> tuple[float, float]:
    """Return where a curve in use begins, and how steep it is, in log odds."""
    offset, end = map(log_odds, probabilities([0.0, 1.0], by_vectors_only=by_vectors_only))
    return offset, end - offset


def shipped_curves() -> tuple[Curve, Curve]:
    """Return the two curves with the coefficients that are in use."""
    offset, slope = _read_line(by_vectors_only=False)
    words = (
        slope,
        offset,
        slope * query_cost(1.0, 0.0, is_unspaced=False),
        slope * query_cost(0.0, 1.0, is_unspaced=False),
        -slope * query_cost(0.0, 0.0, is_unspaced=True),
    )
    vector_offset, vector_slope = _read_line(by_vectors_only=True)
    vectors = vector_slope, vector_offset
    names = ("slope", "offset", "trust", "commonness", "unspaced")
    return (
        Curve("words", names, numpy.array(words), ("hybrid", "keyword")),
        Curve("vectors", names[:2], numpy.array(vectors), ("vector",)),
    )


def read_examples(runs: Sequence[Run], curve: Curve) -> list[Example]:
    """Return the best results that a curve has scored, of every set and mode."""
    found: list[Example] = []
    for run in first_kinds(runs):
        own = [entry for entry in run["questions"].values() if is_of(entry["curve"], curve)]
        others = [*run["unanswerable"].values(), *run["foreign"].values()]
        for used, total in ((own, 1.0), ([entry for entry in others if is_of(entry["curve"], curve)], _WITHOUT_ANSWER)):
            found += [
                Example(
                    run["set"],
                    run["mode"],
                    to_features(entry["curve"], curve),
                    entry.get("right@1", 0.0),
                    total / len(used),
                    "right@1" in entry,
                )
                for entry in used
            ]
    # A set that asks across scripts has scores of this curve only where nothing was found.
    usual = {example.set for example in found if example.mode == curve.modes[0] and example.has_answer}
    return [example for example in found if example.set in usual]


def is_of(made: dict[str, float] | None, curve: Curve) -> bool:
    """True if a score was made by this curve, and of a text in the script of its query."""
    return made is not None and not made["translated"] and bool(made["vectors"]) == (curve.name == "vectors")


def to_features(made: dict[str, float], curve: Curve) -> tuple[float, ...]:
    every = (made["worth"], 1.0, -made["trust"], -made["commonness"], made["unspaced"])
    return every[: len(curve.coefficients)]


def fit(examples: Sequence[Example], start: Vector, free: Sequence[int] | None = None) -> Vector:
    """Fit the coefficients by Newton's method; only those at the places ``free``, if given."""
    places = list(range(len(start)) if free is None else free)
    rows = numpy.array([example.features for example in examples])
    right = numpy.array([example.right for example in examples])
    weight = numpy.array([example.weight for example in examples])
    weight = weight / weight.sum()
    found = start.copy()
    for _ in range(_STEPS):
        likely = to_probabilities(rows, found)
        slope = (rows.T @ (weight * (likely - right)) + _PENALTY * (found - start))[places]
        curvature = (rows * (weight * likely * (1 - likely))[:, None]).T @ rows + _PENALTY * numpy.eye(len(start))
        step = numpy.linalg.solve(curvature[numpy.ix_(places, places)], slope)
        size = numpy.abs(step).max()
        found[places] -= step * min(1.0, _LONGEST / size) if size else step
        if size < _ENOUGH:
            break
    return found


def to_probabilities(rows: Vector, coefficients: Vector) -> Vector:
    return 1 / (1 + numpy.exp(-numpy.clip(rows @ coefficients, -_FARTHEST, _FARTHEST)))


def print_tables(family: str, runs: Sequence[Run]) -> None:
    for curve in shipped_curves():
        examples = read_examples(runs, curve)
        sets = list(dict.fromkeys(example.set for example in examples))
        if len(sets) < 2:
            continue
        fitted = {name: fit([example for example in examples if example.set != name], curve.shipped) for name in sets}
        print(f"\n{family}: the curve for {curve.name}, {len(examples):,} best results of {len(sets)} sets")
        head, *rows = coefficient_rows(curve, examples, fitted)
        print(format_table(head, rows))
        for mode in curve.modes:
            print(f"\nwhat it says in mode {mode} as it ships, and fitted without the set")
            some = [example for example in examples if example.mode == mode]
            head, *rows = judgement_rows(curve, some, fitted)
            print(format_table(head, rows))


def coefficient_rows(curve: Curve, examples: Sequence[Example], fitted: dict[str, Vector]) -> Iterator[list[str]]:
    yield ["coefficient", "shipped", "fitted", "95 % over sets", "leaving a set out", "alone", "95 % over sets"]
    every = fit(examples, curve.shipped)
    drawn = draw_fits(examples, lambda some: fit(some, curve.shipped))
    left_out = numpy.array(list(fitted.values()))
    for place, name in enumerate(curve.coefficients):

        def fit_alone(some: Sequence[Example], place: int = place) -> Vector:
            return fit(some, curve.shipped, [place])[place : place + 1]

        yield [
            name,
            f"{curve.shipped[place]:+.2f}",
            f"{every[place]:+.2f}",
            format_range(numpy.quantile(drawn[:, place], (0.025, 0.975))),
            format_range(left_out[:, place]),
            f"{fit_alone(examples)[0]:+.2f}",
            format_range(numpy.quantile(draw_fits(examples, fit_alone), (0.025, 0.975))),
        ]


def draw_fits(examples: Sequence[Example], fit_some: Callable[[Sequence[Example]], Vector]) -> Vector:
    """Return the fits of sets that are drawn with replacement, as many as there are."""
    by_set: dict[str, list[Example]] = {}
    for example in examples:
        by_set.setdefault(example.set, []).append(example)
    draw = numpy.random.default_rng(0)
    fits = []
    for _ in range(_DRAWS):
        counts = numpy.bincount(draw.integers(0, len(by_set), len(by_set)), minlength=len(by_set))
        some = [
            example._replace(weight=example.weight * int(count))
            for count, entries in zip(counts, by_set.values(), strict=True)
            for example in entries
            if count
        ]
        fits.append(fit_some(some))
    return numpy.array(fits)


def judgement_rows(curve: Curve, examples: Sequence[Example], fitted: dict[str, Vector]) -> Iterator[list[str]]:
    yield ["set", "questions", "right@1", "log loss", "without it", "ECE", "without it", "AUC", "without it"]
    pairs: list[tuple[Judgement, Judgement]] = []
    for name, coefficients in fitted.items():
        own = [example for example in examples if example.set == name]
        pair = judge(own, curve.shipped), judge(own, coefficients)
        pairs.append(pair)
        asked = [example for example in own if example.has_answer]
        right = sum(example.right for example in asked) / len(asked)
        yield [name, f"{len(asked):,}", f"{right:.3f}", *format_pair(pair)]
    means = [Judgement(*(mean_of(column) for column in zip(*side, strict=True))) for side in zip(*pairs, strict=True)]
    yield ["mean of sets", "", "", *format_pair((means[0], means[1]))]


def judge(examples: Sequence[Example], coefficients: Vector) -> Judgement:
    likely = to_probabilities(numpy.array([example.features for example in examples]), coefficients)
    scores = [float(score) for score in likely]
    losses = [
        -math.log(max(_LEAST, score if example.right else 1 - score))
        for score, example in zip(scores, examples, strict=True)
    ]
    weights = [example.weight for example in examples]
    own = [(score, example) for score, example in zip(scores, examples, strict=True) if example.has_answer]
    others = [score for score, example in zip(scores, examples, strict=True) if not example.has_answer]
    return Judgement(
        sum(map(float.__mul__, losses, weights)) / sum(weights),
        calibration_error(reliability((score, bool(example.right)) for score, example in own)) or 0.0,
        area_under_curve([score for score, _ in own], others),
    )


def format_pair(pair: tuple[Judgement, Judgement]) -> Iterator[str]:
    for as_shipped, refitted in zip(*pair, strict=True):
        yield from ("–" if value is None else f"{value:.3f}" for value in (as_shipped, refitted))


def format_range(values: Vector) -> str:
    return f"{values.min():+.2f} … {values.max():+.2f}"


def mean_of(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known)


def log_odds(score: float) -> float:
    score = min(1 - _LEAST, max(_LEAST, score))
    return math.log(score / (1 - score))


if __name__ == "__main__":
    sys.exit(main())
