"""``mdrecall eval``: measure search quality with your own questions, and compare two configurations."""

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from mdrecall.cli.options import add_common, parse_fraction, parse_positive
from mdrecall.cli.output import plural, print_issues, print_json, printable, progress_line, style
from mdrecall.config.settings import is_secret
from mdrecall.core.eval_metrics import Difference, Figures, Reached, ScoreBin, compare, figure_names, means
from mdrecall.errors import ConfigError, QuestionsError, suggest_name
from mdrecall.evaluate import (
    CHARS,
    CUTS,
    DEPTH,
    Evaluation,
    Outcome,
    Question,
    evaluate,
    memory_with,
    parse_questions,
    read_questions,
)
from mdrecall.types import MODES, Issue, ProgressCallback
from mdrecall.wire import to_json

#: Results asked for at most: deeper ranks say nothing about what a person or a model reads.
_MAX_RESULTS = 1000
_FIGURE = re.compile(r"(?:hit|recall)@[1-9]\d{0,2}|shown@[1-9]\d{0,5}|mrr|auc|warned")


def add_eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help='JSON lines such as {"query": "…", "expect": ["MEMORY.md#L3-L9"]}; - reads stdin'
    )
    parser.add_argument(
        "--k", type=_parse_cuts, default=CUTS, metavar="N,…", help="measure after N results (default: 1,3,6,10)"
    )
    parser.add_argument(
        "--chars", type=_parse_chars, default=(CHARS,), metavar="N,…",
        help="measure what the first N characters of the snippets show (default: 4000)",
    )  # fmt: skip
    parser.add_argument("--failures", action="store_true", help="show only the questions without a right answer")
    changes: dict[str, Any] = {"type": _parse_setting, "action": "append", "default": [], "metavar": "KEY=VALUE"}
    parser.add_argument("--set", **changes, help="use this memorySearch setting (or mode=…)")
    parser.add_argument("--against", **changes, help="run again with this setting and compare the two")
    parser.add_argument(
        "--fail-under", type=_parse_minimum, action="append", default=[], metavar="FIGURE=VALUE",
        help="exit with 1 if this figure, such as hit@6, is lower",
    )  # fmt: skip
    add_common(parser)


def run_eval(options: argparse.Namespace) -> int:
    questions = _read_questions(options.file)
    runs = [_make_run(options.set)] + ([_make_run(options.against)] if options.against else [])
    cuts = {*options.k, *_places(options, "hit"), *_places(options, "recall")}
    names = figure_names(cuts, {*options.chars, *_places(options, "shown")})
    _require_unanswerable(options, questions)
    with progress_line("Evaluating") as progress:
        evaluations = _evaluate(options, runs, questions, max(cuts), progress)
    first, *second = map(Run._make, zip(runs, evaluations, strict=True))
    report = Report(names, first, second[0] if second else None, options.failures)
    figures = means(names, [outcome.reached for outcome in first.evaluation.answerable])
    figures |= first.evaluation.score_figures()
    below = [Below(name, figures[name], least) for name, least in options.fail_under if figures[name] < least - 1e-9]
    if options.json:
        print_json(report_to_json(report, below if options.fail_under else None))
    else:
        print_report(report, below)
    return 1 if below else 0


def _places(options: argparse.Namespace, kind: str) -> set[int]:
    """Return the numbers of results or characters of one kind of figure that ``--fail-under`` names."""
    named = (name.partition("@") for name, _ in options.fail_under)
    return {int(place) for name, _, place in named if name == kind}


def _require_unanswerable(options: argparse.Namespace, questions: Sequence[Question]) -> None:
    named = [name for name, _ in options.fail_under if name in ("auc", "warned")]
    if named and all(question.expect for question in questions):
        message = f"{named[0]} cannot be measured: every question has an answer."
        raise QuestionsError(message, hint='Add questions that no note answers: {"query": "…", "expect": []}')


def _read_questions(file: str) -> tuple[Question, ...]:
    if file != "-":
        return read_questions(file)
    if sys.stdin is None:
        raise QuestionsError("There is no standard input.", hint="Give a file of questions instead of -.")
    return parse_questions(sys.stdin.buffer.read(), "standard input")


def _make_run(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the settings of a run, with ``mode``, which is an argument of the search, among them."""
    settings = dict(pairs)
    if "mode" in settings:
        mode = str(settings["mode"])
        if mode not in MODES:
            raise ConfigError(f"mode={mode} is not known{suggest_name(mode, MODES)}.", hint="Choose one of them.")
    return settings


def _evaluate(
    options: argparse.Namespace,
    runs: Sequence[dict[str, Any]],
    questions: tuple[Question, ...],
    max_cut: int,
    progress: ProgressCallback | None,
) -> list[Evaluation]:
    """Ask the questions in every run. All memories are opened first, so that no error comes late."""
    with ExitStack() as stack:
        searches = []
        for settings in runs:
            overrides = {name: value for name, value in settings.items() if name != "mode"}
            memory = stack.enter_context(
                memory_with(
                    overrides,
                    workspace=options.workspace,
                    agent=options.agent,
                    config=options.config,
                    progress=progress,
                )
            )
            depth = None if "query.maxResults" in settings else max(DEPTH, max_cut)
            searches.append((memory, depth, settings.get("mode")))
        return [
            evaluate(memory, questions, depth=depth, mode=mode, progress=progress) for memory, depth, mode in searches
        ]


def _parse_cuts(text: str) -> tuple[int, ...]:
    cuts = tuple(parse_positive(part.strip()) for part in text.split(","))
    if max(cuts) > _MAX_RESULTS:
        raise argparse.ArgumentTypeError(f"{max(cuts)} is more than the maximum of {_MAX_RESULTS} results")
    return cuts


def _parse_chars(text: str) -> tuple[int, ...]:
    return tuple(parse_positive(part.strip()) for part in text.split(","))


def _parse_setting(text: str) -> tuple[str, Any]:
    """Parse ``query.minScore=0.1``: a name, with or without ``memorySearch.``, and JSON or a plain word."""
    name, sign, value = text.partition("=")
    name = name.strip().removeprefix("memorySearch.")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as query.minScore=0.1")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value.strip()


def _parse_minimum(text: str) -> tuple[str, float]:
    name, _, value = text.replace(" ", "").partition("=")
    if not _FIGURE.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{text!r} is not FIGURE=VALUE, such as hit@6=0.9, shown@4000=0.8 or mrr=0.7")
    return name, parse_fraction(value)


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
