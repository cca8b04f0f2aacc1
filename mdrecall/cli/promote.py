"""``mdrecall promote``: show what would become long-term memory and why, and write it on request."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import CommandParser, add_common, load_settings, parse_count, parse_fraction, parse_positive
from mdrecall.cli.output import plural, print_json, printable, style
from mdrecall.errors import QueryError

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.life.promote import Judged, Plan
    from mdrecall.life.promotion import Choice

#: Refused candidates that are listed for people; the rest is counted.
_MAX_REFUSED = 10


def add_promote(parser: CommandParser) -> None:
    parser.flag("--apply", "write to MEMORY.md; without it nothing is changed")
    parser.flag("--undo", "take the last promotion back, byte for byte")
    about = "show why one statement is promoted or not; TEXT is its key, or a part of its path or text"
    parser.value("--explain", "TEXT", about)
    parser.value("--limit", "N", "promote at most N statements", type=parse_positive)
    parser.value("--min-score", "S", "the least score (0 to 1)", type=parse_fraction)
    parser.value("--min-recall-count", "N", "the least number of signals", type=parse_count)
    parser.value("--min-unique-queries", "N", "found by at least N queries", type=parse_count)
    parser.flag("--include-promoted", "reconsider what was promoted before")
    add_common(parser)


def run_promote(options: argparse.Namespace) -> int:
    from mdrecall.life import promote

    if (options.explain is not None) + options.apply + options.undo > 1:
        raise QueryError("--apply, --undo and --explain exclude each other.", hint="Give one of them.", name="undo")
    loaded = load_settings(options)
    settings = loaded.settings
    if options.undo:
        return _undo(options, loaded)
    choice = promote.choose(
        settings,
        limit=options.limit,
        min_score=options.min_score,
        min_signals=options.min_recall_count,
        min_queries=options.min_unique_queries,
        include_promoted=options.include_promoted,
        lists_all=options.explain is not None,
    )
    if options.explain is not None:
        return _explain(options, loaded, choice)
    act = promote.apply if options.apply else promote.plan
    made = act(settings, loaded.home, choice)
    if options.json:
        print_json(_plan_to_json(loaded, made, is_applied=options.apply))
    else:
        _print_plan(loaded, made, choice.max_chars, is_applied=options.apply)
    return 0


def _undo(options: argparse.Namespace, loaded: "Loaded") -> int:
    from mdrecall.life.promote import undo

    undone = undo(loaded.settings)
    if options.json:
        print_json({"workspaceDir": loaded.settings.workspace, "undone": undone})
    elif undone:
        entries = plural(undone["entries"], "entry", "entries")
        print(f"Took back {entries} of {undone['day']}; {undone['path']} is as before.")
    else:
        print("There is no promotion to undo.", file=sys.stderr)
    return 0 if undone else 1


def _explain(options: argparse.Namespace, loaded: "Loaded", choice: "Choice") -> int:
    from mdrecall.life import promote

    settings = loaded.settings
    found = promote.find_judged(promote.plan(settings, loaded.home, choice), options.explain)
    if found is None:
        print(f"No statement that was recalled or repeated matches {printable(options.explain)!r}.", file=sys.stderr)
        if options.json:
            print_json({"workspaceDir": settings.workspace, "candidate": None})
        return 1
    if options.json:
        print_json({"workspaceDir": settings.workspace, "candidate": promote.judged_to_json(found)})
    else:
        _print_judged(found, choice)
    return 0


def _print_judged(found: "Judged", gates: "Choice") -> None:
    from mdrecall.life.promote import cite

    candidate = found.candidate
    record = candidate.record
    print(style(printable(cite(found)), "cyan"))
    print(f"    {printable(found.text or record.snippet or '(not in the note any more)')}")
    print(f"    key {printable(record.key)}\n")
    signals = f"{plural(record.recalls, 'recall')}, {plural(record.daily, 'recent note')}"
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
    parts = (f"{name} {value:.2f}" for name, value in candidate.components.items())
    print(f"    {style(', '.join(parts), 'dim')}\n")
    print(f"Not promoted: {printable(found.refusal)}." if found.refusal else "Would be promoted now.")


def _print_plan(loaded: "Loaded", made: "Plan", max_chars: int, *, is_applied: bool) -> None:
    chosen = made.promotions
    size = len(made.text) + len(made.section)
    entries = plural(len(chosen), "entry", "entries")
    if chosen:
        verb = "Added" if is_applied else "Would add"
        print(f"{verb} {entries} to {made.path} ({size:,} of {max_chars:,} characters).")
    for one in chosen:
        print(f"\n{_headline(one)}\n    {printable(one.text)}\n    {style(_signals(one), 'dim')}")
    refused = [one for one in made.judged if one.refusal]
    if refused:
        print(f"{chr(10) * bool(chosen)}Not promoted:")
    for one in refused[:_MAX_REFUSED]:
        print(f"  {_headline(one)}: {printable(one.refusal)}")
    if len(refused) > _MAX_REFUSED:
        print(f"  … and {len(refused) - _MAX_REFUSED} more")
    _print_advice(loaded, made, is_applied=is_applied)


def _print_advice(loaded: "Loaded", made: "Plan", *, is_applied: bool) -> None:
    """Say on standard error what a person may want to do next."""
    if made.promotions:
        do = "To take it back, run `mdrecall promote --undo`." if is_applied else "To write it, add --apply."
        print(do, file=sys.stderr)
        return
    recalled = sum(bool(record.recalls) for record, _ in made.located)
    print(f"Nothing to promote; {plural(recalled, 'recalled statement')}.", file=sys.stderr)
    if not recalled and not loaded.settings.mdrecall.recalls.record:
        print("Searches are not recorded: set mdrecall.recalls.record to true to begin.", file=sys.stderr)
    elif recalled and not made.judged:
        print("Run `mdrecall promote --explain` with a word of a statement to see what it lacks.", file=sys.stderr)


def _headline(one: "Judged") -> str:
    from mdrecall.life.promote import cite

    return f"{style(f'{one.candidate.score:.3f}', 'green')}  {printable(cite(one))}"


def _signals(one: "Judged") -> str:
    record = one.candidate.record
    days = plural(len(set(record.recall_days)), "day")
    queries = plural(record.queries, "different query", "different queries")
    repeated = f", in {plural(record.daily, 'recent note')}" if record.daily else ""
    return f"{plural(record.recalls, 'recall')} on {days} by {queries}{repeated}"


def _plan_to_json(loaded: "Loaded", made: "Plan", *, is_applied: bool) -> dict[str, Any]:
    from mdrecall.life.promote import judged_to_json
    from mdrecall.life.recalls import lock_path, recalls_path

    settings = loaded.settings
    judged = [judged_to_json(one) for one in made.judged]
    json: dict[str, Any] = {
        "workspaceDir": settings.workspace,
        "storePath": recalls_path(settings.index_path),
        "lockPath": lock_path(settings.index_path),
        "candidates": judged,
    }
    if not is_applied:
        return json | {"section": made.section}
    applied = [one for one in judged if "refused" not in one]
    json["apply"] = {
        "applied": len(applied),
        "appended": len(applied),
        "reconciledExisting": len(made.reconciled),
        "memoryPath": made.path,
        "appliedCandidates": applied,
        "rejectedCandidates": [{"candidate": one, "reason": one["refused"]} for one in judged if "refused" in one],
    }
    return json
