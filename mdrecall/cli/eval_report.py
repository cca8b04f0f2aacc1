"""The output of ``mdrecall eval``: figures, questions and comparisons, for people and as JSON."""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mdrecall.cli.output import plural, print_issues, printable, style
from mdrecall.config.settings import is_secret
from mdrecall.core.eval_metrics import Difference, Figures, Reached, ScoreBin, compare, means
from mdrecall.evaluate import Evaluation, Outcome
from mdrecall.types import Issue
from mdrecall.wire import to_json


class Run(NamedTuple):
    """The settings of one run and its outcome."""

    settings: Mapping[str, Any]
    evaluation: Evaluation


class Report(NamedTuple):
    """Everything that is printed."""

    names: Sequence[str]
    first: Run
    second: Run | None
    failures_only: bool

    @property
    def issues(self) -> tuple[Issue, ...]:
        second = self.second.evaluation.issues if self.second else ()
        return tuple(dict.fromkeys(self.first.evaluation.issues + second))


class Below(NamedTuple):
    """A figure that is lower than required."""

    figure: str
    value: float
    least: float


class _Group(NamedTuple):
    """The questions of one category, or all, that a note answers."""

    category: str | None
    first: list[Reached]
    second: list[Reached]


class _Change(NamedTuple):
    """A question whose right answer changed its rank."""

    outcome: Outcome
    before: int | None
    after: int | None


def report_to_json(report: Report, below: Sequence[Below] | None) -> dict[str, Any]:
    """Return the first run, and under ``against`` the second with the differences."""
    everything, *groups = _group_questions(report)
    record = {"questions": len(report.first.evaluation.outcomes)} | _run_to_json(report, report.first)
    record["categories"] = [_group_to_json(report, group, group.first) for group in groups]
    if report.second:
        better, worse = _find_changes(report.first, report.second)
        record["against"] = _run_to_json(report, report.second) | {
            "categories": [
                _group_to_json(report, group, group.second) | {"differences": _differences_to_json(report, group)}
                for group in groups
            ],
            "differences": _differences_to_json(report, everything),
            "better": [_change_to_json(change) for change in better],
            "worse": [_change_to_json(change) for change in worse],
        }
    if below is not None:
        record["below"] = [to_json(entry._replace(value=_round(entry.value))) for entry in below]
    if report.issues:
        record["issues"] = to_json(report.issues)
    return record


def print_report(report: Report, below: Sequence[Below]) -> None:
    """Print the questions or their changes, then the figures; warnings go to standard error."""
    if report.second is None or report.failures_only:
        _print_questions(report)
    if report.second is None:
        _print_table(_figure_rows(report))
        _print_scores(report.first.evaluation)
    else:
        _print_comparison(report, report.second)
    sys.stdout.flush()
    print_issues(report.issues)
    for name, value, least in below:
        print(f"{style('!', 'red', stream=sys.stderr)} {name} is {value:.3f}, below {least:g}", file=sys.stderr)


def _group_questions(report: Report) -> list[_Group]:
    """Return all questions, then those of each category in the order of the file."""
    first = report.first.evaluation.answerable
    second = report.second.evaluation.answerable if report.second else first
    groups = [_Group(None, [], [])]
    by_category: dict[str, _Group] = {}
    for before, after in zip(first, second, strict=True):
        belongs = [groups[0]]
        if name := before.question.category:
            belongs.append(by_category.setdefault(name, _Group(name, [], [])))
        for group in belongs:
            group.first.append(before.reached)
            group.second.append(after.reached)
    return groups + list(by_category.values())


def _find_changes(first: Run, second: Run) -> tuple[list[_Change], list[_Change]]:
    """Return the questions whose first right result ranks higher in the second run, and those where it ranks lower."""
    pairs = zip(first.evaluation.answerable, second.evaluation.answerable, strict=True)
    changes = [_Change(after, before.rank, after.rank) for before, after in pairs]
    better = [change for change in changes if (change.after or math.inf) < (change.before or math.inf)]
    worse = [change for change in changes if (change.after or math.inf) > (change.before or math.inf)]
    return better, worse


def _hide_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without secrets; a group may contain one."""
    return {
        name: "***" if is_secret(f"memorySearch.{name}") or isinstance(value, dict) else value
        for name, value in settings.items()
    }


def _round(value: float) -> float:
    return round(value, 4) + 0.0


def _run_to_json(report: Report, run: Run) -> dict[str, Any]:
    evaluation = run.evaluation
    selected = [outcome for outcome in evaluation.outcomes if _is_missed(outcome) or not report.failures_only]
    return {
        "settings": _hide_secrets(run.settings),
        "mode": evaluation.mode,
        "figures": _figures_to_json(means(report.names, [outcome.reached for outcome in evaluation.answerable])),
        "scores": _scores_to_json(evaluation),
        "results": [_outcome_to_json(outcome) for outcome in selected],
    }


def _is_missed(outcome: Outcome) -> bool:
    """True if a note answers the question and no result is right."""
    return bool(outcome.question.expect) and outcome.rank is None


def _scores_to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return what the best scores tell, and the table behind it."""
    table = [
        {name: _round(value) if isinstance(value, float) else value for name, value in to_json(entry).items()}
        for entry in evaluation.reliability()
    ]
    return _figures_to_json(evaluation.score_figures()) | {"reliability": table}


def _figures_to_json(figures: Figures) -> dict[str, float]:
    return {name: _round(value) for name, value in figures.items()}


def _group_to_json(report: Report, group: _Group, reached: list[Reached]) -> dict[str, Any]:
    figures = _figures_to_json(means(report.names, reached))
    return {"category": group.category, "questions": len(reached), "figures": figures}


def _differences_to_json(report: Report, group: _Group) -> list[dict[str, Any]]:
    return [
        {name: _round(value) if isinstance(value, float) else value for name, value in to_json(entry).items()}
        for entry in compare(report.names, group.first, group.second)
    ]


def _question_to_json(outcome: Outcome) -> dict[str, Any]:
    question = outcome.question
    record: dict[str, Any] = to_json(question._replace(expect=()))
    return record | {"expect": [expected.citation for expected in question.expect]}


def _outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    score = _round(outcome.score) if outcome.came_first else None
    more = {
        "rank": outcome.rank,
        "cameFirst": outcome.came_first or None,
        "score": score,
        "confidence": outcome.confidence if outcome.came_first else None,
        "reason": outcome.reason or None,
    }
    present = {name: value for name, value in more.items() if value is not None}
    return _question_to_json(outcome) | {"ranks": list(outcome.ranks), "shown": list(outcome.shown)} | present


def _change_to_json(change: _Change) -> dict[str, Any]:
    ranks = {"before": change.before, "after": change.after}
    return _question_to_json(change.outcome) | {name: rank for name, rank in ranks.items() if rank is not None}


def _print_questions(report: Report) -> None:
    """Print the misses first, then the other questions in the order of the file."""
    outcomes = report.first.evaluation.answerable
    missed = [outcome for outcome in outcomes if outcome.rank is None]
    print(style(f"{plural(len(outcomes), 'question')}, {len(missed) or 'none'} missed", "bold"))
    print()
    for outcome in missed if report.failures_only else missed + [entry for entry in outcomes if entry.rank is not None]:
        rank = f"{outcome.rank or '–':>3}"
        print(f"{style(rank, 'green') if outcome.rank else style(rank, 'red', 'bold')}  {_format_question(outcome)}")
        if outcome.rank != 1:
            print(style(f"       {_format_miss(outcome)}", "dim"))
    if missed or not report.failures_only:
        print()


def _format_question(outcome: Outcome) -> str:
    query = " ".join(printable(outcome.question.query).split())
    query = query if len(query) <= 100 else query[:99] + "…"
    return query + (style(f"  [{printable(outcome.question.id)}]", "dim") if outcome.question.id else "")


def _format_miss(outcome: Outcome) -> str:
    expected = ", ".join(printable(entry.citation) for entry in outcome.question.expect)
    first = (
        f"the first result was {printable(outcome.came_first)}"
        if outcome.came_first
        else f"no results ({outcome.reason})"
    )
    return f"expected {expected}; {first}"


def _figure_rows(report: Report) -> list[list[str]]:
    rows = [["", "questions", *report.names]]
    for group in _group_questions(report):
        figures = means(report.names, group.first)
        values = [f"{figures[name]:.3f}" for name in report.names]
        rows.append([printable(group.category or "all"), str(len(group.first)), *values])
    return rows


def _print_scores(evaluation: Evaluation) -> None:
    """Print how often the best score of each height was right, and how it tells questions without an answer."""
    figures = evaluation.score_figures()
    if bins := evaluation.reliability():
        print(f"\nBest score and share of right first results (calibration error {figures['ece']:.3f})")
        _print_table([["score", "questions", "mean score", "right"], *map(_bin_row, bins)])
    if without := evaluation.unanswerable:
        warned = sum(outcome.confidence == "low" for outcome in without)
        print(
            f"\n{plural(len(without), 'question')} without an answer, {warned or 'none'} answered with low confidence."
            f" The best score of the other questions is higher in {figures['auc']:.1%} of all pairs (AUC)."
        )


def _bin_row(entry: ScoreBin) -> list[str]:
    span = f"{entry.low:.1f}–{entry.high:.1f}"
    return [span, str(entry.questions), f"{entry.mean_score:.3f}", f"{entry.share_right:.3f}"]


def _score_rows(first: Evaluation, second: Evaluation) -> list[list[str]]:
    """Return the figures of the best scores of both runs."""
    before, after = first.score_figures(), second.score_figures()
    return [
        [name, f"{before[name]:.3f}", f"{after[name]:.3f}", f"{after[name] - before[name] + 0.0:+.3f}"]
        for name in before
        if name in after
    ]


def _print_comparison(report: Report, second: Run) -> None:
    everything, *groups = _group_questions(report)
    print(style(plural(len(everything.first), "question"), "bold"))
    for label, run in (("first", report.first), ("second", second)):
        print(f"{label + ':':8} {_format_settings(run)}")
    for group in (everything, *groups):
        print()
        if group.category:
            print(style(f"{printable(group.category)} ({plural(len(group.first), 'question')})", "bold"))
        rows = map(_difference_row, compare(report.names, group.first, group.second))
        _print_table([["", "first", "second", "difference", "95 % interval", ""], *rows])
    if scores := _score_rows(report.first.evaluation, second.evaluation):
        print("\n" + style("Best scores", "bold"))
        _print_table([["", "first", "second", "difference"], *scores])
    for label, colour, changes in zip(
        ("Better", "Worse"), ("green", "red"), _find_changes(report.first, second), strict=True
    ):
        print("\n" + style(f"{label}: {len(changes) or 'none'}", "bold"))
        for change in changes:
            moved = f"{change.before or '–':>3} → {change.after or '–':<3}"
            print(f"{style(moved, colour)}  {_format_question(change.outcome)}")


def _format_settings(run: Run) -> str:
    parts = [
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in _hide_secrets(run.settings).items()
    ]
    return printable(", ".join(parts)) or "as configured"


def _difference_row(entry: Difference) -> list[str]:
    verdict = "could be chance" if entry.could_be_chance else "more than chance"
    if entry.low == entry.high == 0:
        verdict = "no difference"
    first, second, difference = f"{entry.first:.3f}", f"{entry.second:.3f}", f"{entry.difference + 0.0:+.3f}"
    return [
        entry.figure,
        first,
        second,
        difference,
        f"{entry.low + 0.0:+.3f} … {entry.high + 0.0:+.3f}",
        f"{verdict:<16}",
    ]


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print columns of equal width, the first aligned left and the others right."""
    for number, line in enumerate(_align(rows)):
        print(style(line, "dim") if number == 0 else line)


def _align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [f"{first:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))]
        yield "  ".join(cells).rstrip()
