"""``mdrecall promote-explain``: show why a statement is promoted or not."""

import argparse
import sys
from typing import TYPE_CHECKING

from mdrecall.cli.options import add_common, load_settings
from mdrecall.cli.output import plural, print_json, printable, style
from mdrecall.types.documents import format_citation

if TYPE_CHECKING:
    from mdrecall.core.life.promotion import Gates
    from mdrecall.life.promote import Judged


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "the key of a candidate, or a part of its path or text"
    parser.add_argument("words", nargs="+", metavar="KEY|PATH|TEXT", help=about)
    parser.add_argument("--include-promoted", action="store_true", help="reconsider what was promoted before")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.life import promote
    from mdrecall.life.promotion_json import explanation_to_json

    loaded = load_settings(options)
    settings = loaded.settings
    choice = promote.choose(settings, include_promoted=options.include_promoted, lists_all=True)
    selector = " ".join(options.words)
    found = promote.find_judged(promote.plan(settings, loaded.home, choice), selector)
    if found is None:
        print(f"No statement that was recalled or repeated matches {printable(selector)!r}.", file=sys.stderr)
        if options.json:
            print_json({"workspaceDir": settings.workspace, "candidate": None})
        return 1
    if options.json:
        print_json(explanation_to_json(settings, found, choice.gates))
    else:
        _print_judged(found, choice.gates)
    return 0


def _print_judged(found: "Judged", gates: "Gates") -> None:
    candidate = found.candidate
    record = candidate.record
    print(style(printable(format_citation(record.path, found.start_line, found.end_line)), "cyan"))
    print(f"    {printable(found.text or record.snippet or '(not in the note any more)')}")
    print(f"    key {printable(record.key)}\n")
    signals = f"{plural(record.recalls, 'recall')}, {plural(record.daily, 'recent note')}, {record.grounded} grounded"
    rows = [
        (candidate.score >= gates.min_score, f"score {candidate.score:.3f}", f"{gates.min_score:g} or more"),
        (record.signals >= gates.min_signals, f"{plural(record.signals, 'signal')} ({signals})", gates.min_signals),
        (record.queries >= gates.min_queries, plural(record.queries, "query", "queries"), gates.min_queries),
        (len(set(record.recall_days)) >= gates.min_days, plural(len(set(record.recall_days)), "day"), gates.min_days),
        (
            gates.max_age_days is None or candidate.age_days <= gates.max_age_days,
            f"last recalled {candidate.age_days:.1f} days ago",
            "any" if gates.max_age_days is None else f"{gates.max_age_days:g} or fewer",
        ),
    ]
    for passes, value, needed in rows:
        mark = style("✓", "green") if passes else style("✗", "red")
        print(f"  {mark} {value}; needed: {needed}")
    parts = (f"{name} {value:.2f}" for name, value in candidate.components._asdict().items())
    print(f"    {style(', '.join(parts), 'dim')}\n")
    print(f"Not promoted: {printable(found.refusal)}." if found.refusal else "Would be promoted now.")
