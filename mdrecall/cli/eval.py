"""``mdrecall eval``: measure search quality with your own questions, and compare two configurations."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from mdrecall.cli.eval_report import Below, Report, Run, print_report, report_to_json
from mdrecall.cli.options import add_common, parse_fraction, parse_positive
from mdrecall.cli.output import print_json, progress_line
from mdrecall.core.eval_metrics import figure_names, means
from mdrecall.errors import ConfigError, QuestionsError, suggest_name
from mdrecall.evaluate import (
    CHARS,
    CUTS,
    DEPTH,
    Evaluation,
    Question,
    evaluate,
    memory_with,
    parse_questions,
    read_questions,
)
from mdrecall.types import MODES, ProgressCallback

#: Results asked for at most: deeper ranks say nothing about what a person or a model reads.
_MAX_RESULTS = 1000
_FIGURE = re.compile(r"(?:hit|recall)@[1-9]\d{0,2}|shown@[1-9]\d{0,5}|mrr|auc|warned")


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> int:
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
