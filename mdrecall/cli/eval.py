"""``mdrecall eval``: measure search quality with your own questions."""

import argparse
import math
import re
import sys
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from mdrecall import evaluate
from mdrecall.cli.options import CommandParser, add_common, load_settings, parse_fraction
from mdrecall.cli.output import plural, print_issues, print_json, print_warning, printable, progress_line, style
from mdrecall.memory import Memory
from mdrecall.wire import to_json

#: Characters of a bar for all questions: with its name and number it fits into 80 columns.
_BAR_WIDTH = 60
_FIGURE = re.compile(r"(?:hit|recall)@[1-9]\d{0,2}|mrr")


def add_eval(parser: CommandParser) -> None:
    about = 'JSON lines such as {"query": "…", "expect": ["MEMORY.md#L3-L9"]}'
    parser.value("file", "FILE", about)
    about = "exit with 1 if this figure, such as hit@6, is lower; repeatable"
    parser.value("--fail-under", "FIGURE=VALUE", about, type=_parse_minimum, action="append", default=[])
    add_common(parser)


def run_eval(options: argparse.Namespace) -> int:
    cuts = {*evaluate.CUTS, *(int(name.partition("@")[2]) for name, _ in options.fail_under if "@" in name)}
    questions = evaluate.read_questions(options.file)
    with progress_line("Evaluating") as progress, Memory.of(load_settings(options)) as memory:
        found = evaluate.evaluate(memory, questions, depth=max(evaluate.DEPTH, *cuts), progress=progress)
    figures = found.figures(cuts)
    below = [(name, figures[name], least) for name, least in options.fail_under if figures[name] < least - 1e-9]
    if options.json:
        record: dict[str, Any] = {
            "questions": len(found.outcomes),
            "mode": found.mode,
            "figures": _round_all(figures),
            "results": [_outcome_to_json(outcome) for outcome in found.outcomes],
        }
        if options.fail_under:
            low = (dict(zip(("figure", "value", "least"), entry, strict=True)) for entry in below)
            record["below"] = [_round_all(entry) for entry in low]
        print_json(record | ({"issues": to_json(found.issues)} if found.issues else {}))
        return 1 if below else 0
    _print_questions(found)
    _print_figures(figures, found)
    sys.stdout.flush()
    print_issues(found.issues)
    for name, value, least in below:
        print_warning(f"{name} is {value:.3f}, below {least:g}")
    return 1 if below else 0


def _parse_minimum(text: str) -> tuple[str, float]:
    name, _, value = text.replace(" ", "").partition("=")
    if not _FIGURE.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{text!r} is not FIGURE=VALUE, such as hit@6=0.9 or mrr=0.7")
    return name, parse_fraction(value)


def _round_all(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in record.items()}


def _outcome_to_json(outcome: evaluate.Outcome) -> dict[str, Any]:
    question = outcome.question
    more = {
        "rank": outcome.rank,
        "cameFirst": outcome.came_first or None,
        "score": outcome.score if outcome.came_first else None,
        "confidence": outcome.confidence if outcome.came_first else None,
        "reason": outcome.reason or None,
    }
    record: dict[str, Any] = to_json(question._replace(expect=()))
    record |= {"expect": [expected.citation for expected in question.expect], "ranks": list(outcome.ranks)}
    return record | _round_all({name: value for name, value in more.items() if value is not None})


def _print_questions(found: evaluate.Evaluation) -> None:
    """Print the misses first, then the other questions in the order of the file."""
    outcomes = sorted(found.answerable, key=lambda outcome: outcome.rank is not None)
    missed = sum(outcome.rank is None for outcome in outcomes)
    print(style(f"{plural(len(outcomes), 'question')}, {missed or 'none'} missed", "bold"), end="\n\n")
    for outcome in outcomes:
        rank, question = f"{outcome.rank or '–':>3}", outcome.question
        query = " ".join(printable(question.query).split())
        shown = query if len(query) <= 100 else query[:99] + "…"
        print(f"{style(rank, 'green') if outcome.rank else style(rank, 'red', 'bold')}  {shown}")
        if outcome.rank != 1:
            expected = ", ".join(printable(entry.citation) for entry in question.expect)
            first = f"the first result was {printable(outcome.came_first)}"
            first = first if outcome.came_first else f"no results ({outcome.reason})"
            print(style(f"       expected {expected}; {first}", "dim"))
    print()


def _print_figures(figures: Mapping[str, float], found: evaluate.Evaluation) -> None:
    """Print the figures, a bar for each range of ranks, and how many questions without an answer got low confidence."""
    print("  ".join(style(f"{name:>9}", "dim") for name in figures))
    print("  ".join(f"{value:9.3f}" for value in figures.values()))
    print()
    ranks = [outcome.rank or math.inf for outcome in found.answerable]
    for above, most in pairwise((0, *evaluate.CUTS, math.inf)):
        count = sum(above < rank <= most for rank in ranks)
        name = "missed" if most == math.inf else f"rank {most}" if most == above + 1 else f"{above + 1}–{most}"
        print(f"{name:>9}  {'█' * round(_BAR_WIDTH * count / len(ranks))} {count}")
    if without := found.unanswerable:
        warned = sum(outcome.confidence == "low" for outcome in without)
        print(f"\n{plural(len(without), 'question')} without an answer, {warned or 'none'} with low confidence.")
