"""``mdrecall eval``: measure search quality with your own questions, and compare two configurations."""

import argparse
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from mdrecall.cli.options import CommandParser, add_common, parse_fraction, parse_positive
from mdrecall.cli.output import plural, print_issues, print_json, printable, progress_line, style
from mdrecall.config.settings import is_secret
from mdrecall.errors import ConfigError, QuestionsError, suggest_name
from mdrecall.eval_metrics import compare, figure_names, means
from mdrecall.evaluate import (
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
from mdrecall.types import MODES, ProgressCallback
from mdrecall.wire import to_json

#: Results asked for at most: deeper ranks say nothing about what a person or a model reads.
_MAX_RESULTS = 1000
_FIGURE = re.compile(r"(?:hit|recall)@[1-9]\d{0,2}|mrr")


def add_eval(parser: CommandParser) -> None:
    about = 'JSON lines such as {"query": "…", "expect": ["MEMORY.md#L3-L9"]}; - reads stdin'
    parser.value("file", "FILE", about)
    parser.value("--k", "N,…", "measure after N results (default: 1,3,6,10)", type=_parse_cuts, default=CUTS)
    parser.flag("--failures", "show only the questions without a right answer")
    changes: dict[str, Any] = {"type": _parse_setting, "action": "append", "default": []}
    parser.value("--set", "KEY=VALUE", "use this memorySearch setting (or mode=…)", **changes)
    parser.value("--against", "KEY=VALUE", "run again with this setting and compare the two", **changes)
    about = "exit with 1 if this figure, such as hit@6, is lower"
    parser.value("--fail-under", "FIGURE=VALUE", about, type=_parse_minimum, action="append", default=[])
    add_common(parser)


def run_eval(options: argparse.Namespace) -> int:
    questions = _read_questions(options.file)
    runs = [_make_run(options.set)] + ([_make_run(options.against)] if options.against else [])
    cuts = {*options.k, *(int(name.partition("@")[2]) for name, _ in options.fail_under if "@" in name)}
    names = figure_names(cuts)
    with progress_line("Evaluating") as progress:
        first, *rest = _evaluate(options, runs, questions, max(cuts), progress)
    figures = first.figures(cuts)
    below = [(name, figures[name], least) for name, least in options.fail_under if figures[name] < least - 1e-9]
    issues = tuple(dict.fromkeys(issue for evaluation in (first, *rest) for issue in evaluation.issues))
    if options.json:
        record = _report_to_json(options, names, runs, first, rest)
        if options.fail_under:
            record["below"] = [{"figure": name, "value": _round(value), "least": least} for name, value, least in below]
        print_json(record | ({"issues": to_json(issues)} if issues else {}))
        return 1 if below else 0
    if not rest or options.failures:
        _print_questions(first, failures_only=options.failures)
    if rest:
        _print_comparison(names, runs, first, rest[0])
    else:
        _print_figures(names, first)
    sys.stdout.flush()
    print_issues(issues)
    for name, value, least in below:
        print(f"{style('!', 'red', stream=sys.stderr)} {name} is {value:.3f}, below {least:g}", file=sys.stderr)
    return 1 if below else 0


def _read_questions(file: str) -> tuple[Question, ...]:
    if file != "-":
        return read_questions(file)
    if sys.stdin is None:
        raise QuestionsError("There is no standard input.", hint="Give a file of questions instead of -.")
    return parse_questions(sys.stdin.buffer.read(), "standard input")


def _make_run(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the settings of a run, with ``mode``, which is an argument of the search, among them."""
    settings = dict(pairs)
    mode = str(settings.get("mode", MODES[0]))
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
    chosen = {"workspace": options.workspace, "agent": options.agent, "config": options.config}
    with ExitStack() as stack:
        searches = []
        for settings in runs:
            overrides = {name: value for name, value in settings.items() if name != "mode"}
            memory = stack.enter_context(memory_with(overrides, progress=progress, **chosen))
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
        raise argparse.ArgumentTypeError(f"{text!r} is not FIGURE=VALUE, such as hit@6=0.9 or mrr=0.7")
    return name, parse_fraction(value)


def _report_to_json(
    options: argparse.Namespace,
    names: list[str],
    runs: list[dict[str, Any]],
    first: Evaluation,
    rest: Sequence[Evaluation],
) -> dict[str, Any]:
    """Return the first run, and under ``against`` the second with the differences."""
    groups = _group_questions(first)
    record: dict[str, Any] = {"questions": len(first.outcomes)}
    record |= _run_to_json(names, runs[0], first, failures_only=options.failures)
    record["categories"] = [_group_to_json(names, name, first, places) for name, places in groups.items() if name]
    for second in rest:
        moved = [(_question_to_json(after), _ranks_to_json(before, after)) for before, after in _pair(first, second)]
        categories = [
            _group_to_json(names, name, second, places) | {"differences": _differences(names, first, second, places)}
            for name, places in groups.items()
            if name
        ]
        record["against"] = _run_to_json(names, runs[1], second, failures_only=options.failures) | {
            "categories": categories,
            "differences": _differences(names, first, second, groups[None]),
            "better": [question | ranks for question, ranks in moved if _is_better(ranks)],
            "worse": [question | ranks for question, ranks in moved if _is_better(ranks, "after", "before")],
        }
    return record


def _group_questions(evaluation: Evaluation) -> dict[str | None, list[int]]:
    """Return the places of all questions that a note answers, and of those of each category in the file's order."""
    groups: dict[str | None, list[int]] = {None: []}
    for place, outcome in enumerate(evaluation.answerable):
        for name in dict.fromkeys((None, outcome.question.category)):
            groups.setdefault(name, []).append(place)
    return groups


def _pair(first: Evaluation, second: Evaluation) -> Iterable[tuple[Outcome, Outcome]]:
    return zip(first.answerable, second.answerable, strict=True)


def _ranks_to_json(before: Outcome, after: Outcome) -> dict[str, int]:
    ranks = {"before": before.rank, "after": after.rank}
    return {name: rank for name, rank in ranks.items() if rank is not None}


def _is_better(ranks: Mapping[str, int], before: str = "before", after: str = "after") -> bool:
    return ranks.get(after, math.inf) < ranks.get(before, math.inf)


def _round(value: Any) -> Any:
    return round(value, 4) + 0.0 if isinstance(value, float) else value


def _round_all(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _round(value) for name, value in record.items()}


def _hide_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without secrets; a group may contain one."""
    return {
        name: "***" if is_secret(f"memorySearch.{name}") or isinstance(value, dict) else value
        for name, value in settings.items()
    }


def _run_to_json(
    names: list[str], settings: Mapping[str, Any], evaluation: Evaluation, *, failures_only: bool
) -> dict[str, Any]:
    shown = [one for one in evaluation.outcomes if not failures_only or (one.question.expect and one.rank is None)]
    return {
        "settings": _hide_secrets(settings),
        "mode": evaluation.mode,
        "figures": _round_all(means(names, [outcome.ranks for outcome in evaluation.answerable])),
        "results": [_outcome_to_json(outcome) for outcome in shown],
    }


def _group_to_json(names: list[str], name: str | None, evaluation: Evaluation, places: list[int]) -> dict[str, Any]:
    ranks = [evaluation.answerable[place].ranks for place in places]
    return {"category": name, "questions": len(ranks), "figures": _round_all(means(names, ranks))}


def _differences(names: list[str], first: Evaluation, second: Evaluation, places: list[int]) -> list[dict[str, Any]]:
    pairs = ([one.answerable[place].ranks for place in places] for one in (first, second))
    return [_round_all(entry) for entry in compare(names, *pairs)]


def _question_to_json(outcome: Outcome) -> dict[str, Any]:
    question = outcome.question
    record: dict[str, Any] = to_json(question._replace(expect=()))
    return record | {"expect": [expected.citation for expected in question.expect]}


def _outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    more = {
        "rank": outcome.rank,
        "cameFirst": outcome.came_first or None,
        "score": _round(outcome.score) if outcome.came_first else None,
        "confidence": outcome.confidence if outcome.came_first else None,
        "reason": outcome.reason or None,
    }
    present = {name: value for name, value in more.items() if value is not None}
    return _question_to_json(outcome) | {"ranks": list(outcome.ranks)} | present


def _print_questions(evaluation: Evaluation, *, failures_only: bool) -> None:
    """Print the misses first, then the other questions in the order of the file."""
    outcomes = evaluation.answerable
    missed = [outcome for outcome in outcomes if outcome.rank is None]
    print(style(f"{plural(len(outcomes), 'question')}, {len(missed) or 'none'} missed", "bold"))
    print()
    for outcome in missed if failures_only else missed + [entry for entry in outcomes if entry.rank is not None]:
        rank = f"{outcome.rank or '–':>3}"
        print(f"{style(rank, 'green') if outcome.rank else style(rank, 'red', 'bold')}  {_format_question(outcome)}")
        if outcome.rank != 1:
            expected = ", ".join(printable(entry.citation) for entry in outcome.question.expect)
            first = f"the first result was {printable(outcome.came_first)}"
            first = first if outcome.came_first else f"no results ({outcome.reason})"
            print(style(f"       expected {expected}; {first}", "dim"))
    if missed or not failures_only:
        print()


def _format_question(outcome: Outcome) -> str:
    query = " ".join(printable(outcome.question.query).split())
    query = query if len(query) <= 100 else query[:99] + "…"
    return query + (style(f"  [{printable(outcome.question.id)}]", "dim") if outcome.question.id else "")


def _print_figures(names: list[str], evaluation: Evaluation) -> None:
    """Print the figures of all questions and of each category, and what becomes of questions without an answer."""
    rows = [["", "questions", *names]]
    for name, places in _group_questions(evaluation).items():
        group = _group_to_json(names, name, evaluation, places)
        values = [f"{group['figures'][figure]:.3f}" for figure in names]
        rows.append([printable(name or "all"), str(len(places)), *values])
    _print_table(rows)
    if without := evaluation.unanswerable:
        warned = sum(outcome.confidence == "low" for outcome in without)
        print(f"\n{plural(len(without), 'question')} without an answer, {warned or 'none'} with low confidence.")


def _print_comparison(names: list[str], runs: list[dict[str, Any]], first: Evaluation, second: Evaluation) -> None:
    groups = _group_questions(first)
    print(style(plural(len(groups[None]), "question"), "bold"))
    for label, settings in zip(("first", "second"), runs, strict=True):
        pairs = _hide_secrets(settings).items()
        texts = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for _, value in pairs)
        told = ", ".join(f"{name}={text}" for (name, _), text in zip(pairs, texts, strict=True))
        print(f"{label + ':':8} {printable(told) or 'as configured'}")
    for name, places in groups.items():
        print()
        if name:
            print(style(f"{printable(name)} ({plural(len(places), 'question')})", "bold"))
        rows = [_difference_row(entry) for entry in _differences(names, first, second, places)]
        _print_table([["", "first", "second", "difference", "95 % interval", ""], *rows])
    moved = [(after, _ranks_to_json(before, after)) for before, after in _pair(first, second)]
    for label, colour, order in (("Better", "green", ("before", "after")), ("Worse", "red", ("after", "before"))):
        changes = [(outcome, ranks) for outcome, ranks in moved if _is_better(ranks, *order)]
        print("\n" + style(f"{label}: {len(changes) or 'none'}", "bold"))
        for outcome, ranks in changes:
            arrow = f"{ranks.get('before', '–'):>3} → {ranks.get('after', '–'):<3}"
            print(f"{style(arrow, colour)}  {_format_question(outcome)}")


def _difference_row(entry: Mapping[str, Any]) -> list[str]:
    verdict = "could be chance" if entry["couldBeChance"] else "more than chance"
    if entry["low"] == entry["high"] == 0:
        verdict = "no difference"
    values = [f"{entry['first']:.3f}", f"{entry['second']:.3f}", f"{entry['difference']:+.3f}"]
    return [entry["figure"], *values, f"{entry['low']:+.3f} … {entry['high']:+.3f}", f"{verdict:<16}"]


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print columns of equal width, the first aligned left and the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, (first, *others) in enumerate(rows):
        cells = [f"{first:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))]
        line = "  ".join(cells).rstrip()
        print(line if number else style(line, "dim"))
