"""The report of ``mdrecall eval``, line by line."""

from typing import Any

import pytest

from mdrecall.cli.eval import Below, Report, Run, print_report, report_to_json
from mdrecall.core.eval_metrics import Expectation, Ranks, figure_names
from mdrecall.evaluate import Evaluation, Outcome, Question
from mdrecall.types import Confidence, Issue

ISSUE = Issue("memory/a.md", "is missing.")


def outcome(query: str, *ranks: int | None, first: str = "memory/x.md#L1", **more: Any) -> Outcome:
    reason = "" if first else "no_match"
    expected = tuple(Expectation("memory/a.md", (number, number)) for number, _ in enumerate(ranks, 1))
    score = 0.75 if first else 0.0
    return Outcome(Question(query, expected, **more), ranks, first, reason, score=score)


def unanswerable(query: str, score: float) -> Outcome:
    first, reason = ("memory/x.md#L1", "") if score else ("", "no_match")
    confidence: Confidence = "high" if score > 0.25 else "low"
    return Outcome(Question(query, ()), (), first, reason, (), score, confidence)


def run(*outcomes: Outcome, **settings: object) -> Run:
    return Run(settings, Evaluation(outcomes, "hybrid", (ISSUE,)))


def report(first: Run, second: Run | None = None, *, failures_only: bool = False) -> Report:
    return Report(figure_names([1]), first, second, failures_only)


def printed(given: Report, capsys: pytest.CaptureFixture[str], *below: Below) -> tuple[list[str], list[str]]:
    print_report(given, below)
    out, err = capsys.readouterr()
    return out.splitlines(), err.splitlines()


MIXED = run(
    outcome("where is\nthe walrus", 1, id="q1", category="zoo"),
    outcome("x" * 101, 3, None),
    outcome("y" * 100, None, first="", category="zoo"),
)


def test_questions_are_listed_with_the_misses_first_and_then_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = printed(report(MIXED), capsys, Below("hit@1", 0.33333, 0.5))
    assert out == [
        "3 questions, 1 missed",
        "",
        "  –  " + "y" * 100,
        "       expected memory/a.md#L1; no results (no_match)",
        "  1  where is\ufffdthe walrus  [q1]",
        "  3  " + "x" * 99 + "…",
        "       expected memory/a.md#L1, memory/a.md#L2; the first result was memory/x.md#L1",
        "",
        "     questions  hit@1  recall@1    mrr",
        "all          3  0.333     0.333  0.444",
        "zoo          2  0.500     0.500  0.500",
        "",
        "Best score and share of right first results (calibration error 0.250)",
        "score    questions  mean score  right",
        "0.7–0.8          2       0.750  0.500",
    ]
    assert err == ["! memory/a.md is missing.", "! hit@1 is 0.333, below 0.5"]


def test_only_failures_are_listed_if_only_they_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = printed(report(MIXED, failures_only=True), capsys)
    assert out[:5] == [
        "3 questions, 1 missed",
        "",
        "  –  " + "y" * 100,
        "       expected memory/a.md#L1; no results (no_match)",
        "",
    ]
    out, _ = printed(report(run(outcome("q", 1)), failures_only=True), capsys)
    assert out[:3] == ["1 question, none missed", "", "     questions  hit@1  recall@1    mrr"]


def compared(*ranks: tuple[Ranks, Ranks]) -> tuple[Run, Run]:
    first = [outcome(f"q{number}", *before) for number, (before, _) in enumerate(ranks)]
    second = [outcome(f"q{number}", *after) for number, (_, after) in enumerate(ranks)]
    return run(*first), run(*second, mode="keyword", maxResults=3, remote={"apiKey": "secret"})


def test_a_comparison_names_both_settings_and_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = compared(((1,), (1,)), ((2,), (1,)), ((1,), (None,)))
    out, err = printed(report(first, second), capsys)
    assert out[:3] == ["3 questions", "first:   as configured", "second:  mode=keyword, maxResults=3, remote=***"]
    assert out[3:5] == ["", "          first  second  difference    95 % interval"]
    assert out[5].startswith("hit@1     0.667   0.667      +0.000  -")
    assert out[5].endswith("could be chance")
    assert out[-10:-5] == ["", "Best scores", "     first  second  difference", "ece  0.083   0.083      +0.000", ""]
    assert out[-5:] == ["Better: 1", "  2 → 1    q1", "", "Worse: 1", "  1 → –    q2"]
    assert err == ["! memory/a.md is missing."]


def test_a_comparison_says_how_sure_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = printed(report(*compared(((1,), (1,)))), capsys)
    assert out[5] == "hit@1     1.000   1.000      +0.000  +0.000 … +0.000  no difference"
    assert out[-1] == "Worse: none"
    out, _ = printed(report(*compared(*[((None,), (1,))] * 6)), capsys)
    assert out[5] == "hit@1     0.000   1.000      +1.000  +1.000 … +1.000  more than chance"
    out, _ = printed(report(*compared(*[((None,), (1,))] * 5)), capsys)
    assert out[5] == "hit@1     0.000   1.000      +1.000  +1.000 … +1.000  could be chance"


def test_the_json_has_what_was_found_and_no_more() -> None:
    record = report_to_json(report(MIXED), None)
    assert set(record) == {"questions", "settings", "mode", "figures", "scores", "results", "categories", "issues"}
    assert record["scores"] == {
        "ece": 0.25,
        "reliability": [{"low": 0.7, "high": 0.8, "questions": 2, "meanScore": 0.75, "shareRight": 0.5}],
    }
    assert record["figures"] == {"hit@1": 0.3333, "recall@1": 0.3333, "mrr": 0.4444}
    assert record["categories"] == [
        {"category": "zoo", "questions": 2, "figures": {"hit@1": 0.5, "recall@1": 0.5, "mrr": 0.5}}
    ]
    first, _, missed = record["results"]
    assert (first["rank"], first["ranks"], first["cameFirst"], first["id"]) == (1, [1], "memory/x.md#L1", "q1")
    assert first["expect"] == ["memory/a.md#L1"]
    assert "reason" not in first
    assert (missed["reason"], "rank" in missed, "cameFirst" in missed) == ("no_match", False, False)
    only = report_to_json(report(MIXED, failures_only=True), [Below("mrr", 0.44444, 0.5)])
    assert [entry["query"] for entry in only["results"]] == ["y" * 100]
    assert only["below"] == [{"figure": "mrr", "value": 0.4444, "least": 0.5}]


def test_the_json_of_a_comparison_has_the_changes() -> None:
    record = report_to_json(report(*compared(((1,), (1,)), ((2,), (1,)), ((1,), (None,)))), None)["against"]
    assert record["settings"] == {"mode": "keyword", "maxResults": 3, "remote": "***"}
    assert [(entry["query"], entry["before"], entry["after"]) for entry in record["better"]] == [("q1", 2, 1)]
    assert [(entry["query"], entry["before"], "after" in entry) for entry in record["worse"]] == [("q2", 1, False)]
    assert [entry["figure"] for entry in record["differences"]] == ["hit@1", "recall@1", "mrr"]
    assert record["differences"][0]["first"] == 0.6667


def test_questions_without_an_answer_are_told_apart_and_do_not_change_the_figures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = [unanswerable("nowhere", 0.2), unanswerable("never", 0.3), unanswerable("nobody", 0)]
    given = report(run(*MIXED.evaluation.outcomes, *more))
    record = report_to_json(given, None)
    assert record["figures"] == report_to_json(report(MIXED), None)["figures"]
    assert (record["questions"], record["scores"]["auc"], record["scores"]["warned"]) == (6, 0.7222, 0.6667)
    assert [entry["expect"] for entry in record["results"][3:]] == [[], [], []]
    out, _ = printed(given, capsys)
    assert out[0] == "3 questions, 1 missed"
    assert out[-1] == (
        "3 questions without an answer, 2 answered with low confidence. The best score of the other questions is higher"
        " in 72.2% of all pairs (AUC)."
    )
    only = report_to_json(report(given.first, failures_only=True), None)
    assert [entry["query"] for entry in only["results"]] == ["y" * 100]
    compared_runs = report_to_json(report(given.first, given.first), None)["against"]
    assert compared_runs["scores"]["auc"] == 0.7222
