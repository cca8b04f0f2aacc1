"""Check and refit the curve that makes a score of a worth: ``python -m training.calibrate QUALITY.json``.

The file is what ``python -m benchmarks.quality --json`` writes. The score of the best result should be the share of
questions whose best result is right, so the log-odds of the scores are fitted to that by a logistic regression, each
set with the same weight, and questions that cannot be answered as wrong. A slope of 1 and an offset of 0 mean that the
curve in ``core/ranking/score`` is right as it is; otherwise multiply its slope, and move its middle. Every set is also
left out in turn, and its calibration error is measured with the curve that the others give.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from mdrecall.core.eval_metrics import calibration_error, reliability

# Scores of 0 and 1 have no log-odds.
_LEAST = 1e-4
# The share of a set's weight that its unanswerable and foreign questions have: most questions can be answered.
_UNANSWERABLE_SHARE = 1 / 3
_STEPS = 50
# Keeps the regression from running away if a set is told apart perfectly.
_PENALTY = 1e-3


class Curve(NamedTuple):
    """What the log-odds of a score are multiplied with, and what is added to them."""

    slope: float
    offset: float

    def apply(self, score: float) -> float:
        return 1 / (1 + math.exp(-(self.slope * log_odds(score) + self.offset)))


class Example(NamedTuple):
    """The best result of a question: its set, its score, 1 if it is right, and the weight of the question."""

    name: str
    score: float
    right: float
    weight: float
    is_own: bool


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.calibrate", description=__doc__)
    parser.add_argument("quality", type=Path, help="what benchmarks.quality --json has written")
    options = parser.parse_args(arguments)
    examples = read_examples(json.loads(options.quality.read_text(encoding="utf-8"))["runs"])
    curve = fit(examples)
    print(f"all sets: slope {curve.slope:.2f}, offset {curve.offset:+.2f}")
    for name in dict.fromkeys(example.name for example in examples):
        others = fit([example for example in examples if example.name != name])
        own = [example for example in examples if example.name == name and example.is_own]
        as_is, refitted = (
            calibration_error(reliability([(convert(example.score), bool(example.right)) for example in own])) or 0.0
            for convert in (float, others.apply)
        )
        print(
            f"{name:32} slope {others.slope:.2f}, offset {others.offset:+.2f} without it;"
            f" calibration error {as_is:.3f}, refitted without it {refitted:.3f}"
        )
    return 0


def read_examples(runs: list[dict[str, Any]]) -> list[Example]:
    found = []
    for run in runs:
        name = f"{run['set']} {run['kind']} {run['mode']}"
        own = list(run["questions"].values())
        without = [*run.get("unanswerable", {}).values(), *run.get("foreign", {}).values()]
        weight = (1 - _UNANSWERABLE_SHARE) / len(own) if without else 1 / len(own)
        found += [Example(name, entry["score"], entry["right@1"], weight, True) for entry in own]
        found += [Example(name, entry["score"], 0.0, _UNANSWERABLE_SHARE / len(without), False) for entry in without]
    return found


def fit(examples: list[Example]) -> Curve:
    """Fit a logistic regression by Newton's method."""
    rows = numpy.array([[log_odds(example.score), 1.0] for example in examples])
    right = numpy.array([example.right for example in examples])
    weight = numpy.array([example.weight for example in examples])
    found = numpy.array([1.0, 0.0])
    for _ in range(_STEPS):
        likely = 1 / (1 + numpy.exp(-rows @ found))
        slope = rows.T @ (weight * (likely - right)) + _PENALTY * (found - [1.0, 0.0])
        curvature = (rows * (weight * likely * (1 - likely))[:, None]).T @ rows + _PENALTY * numpy.eye(2)
        found = found - numpy.linalg.solve(curvature, slope)
    return Curve(float(found[0]), float(found[1]))


def log_odds(score: float) -> float:
    score = min(1 - _LEAST, max(_LEAST, score))
    return math.log(score / (1 - score))


if __name__ == "__main__":
    sys.exit(main())
