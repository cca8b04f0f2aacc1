"""The refit of the curves: it finds the coefficients that answers were made with, and leaves out every set in turn."""

import json
import random
from math import exp
from pathlib import Path
from typing import Any

import numpy
import pytest

from training.calibrate import Example, fit, judge, main, read_examples, shipped_curves

WORDS, VECTORS = shipped_curves()


def example(draw: random.Random, curve: list[float], name: str = "a") -> Example:
    features = (draw.random(), 1.0, -draw.random(), -draw.uniform(0, 6), float(draw.random() < 0.5))[: len(curve)]
    likely = 1 / (1 + exp(-sum(map(float.__mul__, features, curve))))
    return Example(name, "hybrid", features, float(draw.random() < likely), 1.0, True)


def question(worth: float, right: float | None, *, common: float = 1.0, by_vectors: bool = False) -> dict[str, Any]:
    """An entry of ``benchmarks.quality --json``: an answer if ``right`` is known."""
    made = {"worth": worth, "trust": 1.0, "commonness": common, "unspaced": 0.0, "translated": 0.0}
    entry = {"score": 0.5, "curve": made | {"vectors": float(by_vectors)}, "empty": 0}
    return entry if right is None else entry | {"right@1": right}


def run(name: str, mode: str = "hybrid") -> dict[str, Any]:
    by_vectors = mode == "vector"
    asked = {str(place): question(place / 10, float(place > 4), by_vectors=by_vectors) for place in range(10)}
    other = {"x": question(0.1, None, by_vectors=by_vectors), "y": question(0.2, None, by_vectors=by_vectors)}
    return {"set": name, "kind": "spans", "mode": mode, "questions": asked, "unanswerable": {}, "foreign": other}


def test_the_curves_are_those_of_the_documentation() -> None:
    text = (Path(__file__).parent.parent / "docs" / "ranking.md").read_text(encoding="utf-8")
    assert "exp(-(8 × worth - 3 - trust - 0.3 × commonness))" in text
    assert "script without spaces gains 0.5" in text
    assert "`3.7 × likeness - 3.5`" in text
    assert WORDS.shipped == pytest.approx([8.0, -3.0, 1.0, 0.3, 0.5], abs=1e-3)
    assert VECTORS.shipped == pytest.approx([3.7, -3.515], abs=1e-3)


def test_a_fit_finds_the_coefficients_that_the_answers_were_made_with() -> None:
    draw = random.Random(1)
    true = [6.0, -2.0, 0.5, 0.6, 1.0]
    found = fit([example(draw, true) for _ in range(20_000)], WORDS.shipped)
    assert found == pytest.approx(true, abs=0.45)
    only_offset = fit([example(draw, true) for _ in range(2_000)], WORDS.shipped, [1])
    assert only_offset[[0, 2, 3, 4]] == pytest.approx(WORDS.shipped[[0, 2, 3, 4]])
    assert only_offset[1] != pytest.approx(WORDS.shipped[1], abs=0.1)


def test_what_the_answers_say_nothing_about_stays_as_it_ships() -> None:
    draw = random.Random(2)
    spaced = [
        one._replace(features=(*one.features[:4], 0.0))
        for one in (example(draw, [6.0, -2, 0, 0, 0]) for _ in range(500))
    ]
    assert fit(spaced, WORDS.shipped)[4] == pytest.approx(0.5)


def test_each_set_has_the_same_weight_and_questions_without_an_answer_a_quarter_of_it() -> None:
    small = run("small")
    small["questions"] = {"0": question(0.5, 1.0)}
    examples = read_examples([run("large"), small], WORDS)
    for name in ("large", "small"):
        own, others = (
            sum(one.weight for one in examples if one.set == name and one.has_answer is has) for has in (True, False)
        )
        assert (own, others) == pytest.approx((1.0, 0.25))


def test_each_curve_takes_the_scores_that_it_has_made_and_leaves_out_what_was_translated() -> None:
    across = run("across")
    for entry in across["questions"].values():
        entry["curve"]["translated"] = 1.0
    runs = [run("a"), run("a", "vector"), across]
    assert {(one.set, one.mode) for one in read_examples(runs, WORDS)} == {("a", "hybrid")}
    assert {(one.set, one.mode) for one in read_examples(runs, VECTORS)} == {("a", "vector")}


def test_a_better_curve_has_a_smaller_log_loss_and_calibration_error() -> None:
    draw = random.Random(3)
    true = [6.0, -2.0, 0.5, 0.6, 1.0]
    examples = [example(draw, true) for _ in range(3_000)]
    good, bad = judge(examples, numpy.array(true)), judge(examples, numpy.array([6.0, -4.0, 0.5, 0.6, 1.0]))
    assert good.log_loss < bad.log_loss
    assert good.ece < 0.05 < bad.ece
    assert good.auc is None


def test_the_tables_leave_out_every_set_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "family.json"
    runs = [run(name, mode) for name in ("first", "second", "third") for mode in ("keyword", "hybrid", "vector")]
    file.write_text(json.dumps({"runs": runs}))
    assert main([str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("slope", "offset")) for line in lines) == 4
    assert sum(line.startswith("commonness") and "+0.30" in line for line in lines) == 1
    assert [line.split()[1] for line in lines if line.startswith(("| first", "| second", "| third"))] == [
        "first", "second", "third"
    ] * 3  # fmt: skip


def test_without_a_file_or_a_folder_it_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    assert "--eval DIR" in capsys.readouterr().err
