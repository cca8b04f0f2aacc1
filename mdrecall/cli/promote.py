"""``mdrecall promote``: show what would become long-term memory and why, and write it on request."""

import argparse
import sys
from typing import Any

from mdrecall.cli.options import CommandParser, add_common, load_settings, parse_count
from mdrecall.cli.output import plural, printable, show, style
from mdrecall.config.load import Loaded
from mdrecall.errors import QueryError
from mdrecall.life import promote
from mdrecall.life.promotion import Candidate
from mdrecall.life.recalls import lock_path, recalls_path

#: Refused candidates that are listed for people; the rest is counted.
_MAX_REFUSED = 10


def add_promote(parser: CommandParser) -> None:
    parser.flag("--apply", "write to MEMORY.md; without it nothing changes")
    parser.flag("--undo", "take the last promotion back")
    parser.value("--explain", "TEXT", "show why a statement is promoted or not")
    parser.value("--limit", "N", "promote at most N statements")
    parser.value("--min-score", "S", "the least score (0 to 1)")
    parser.value("--min-recall-count", "N", "the least number of signals", dest="min_signals", type=parse_count)
    parser.value("--min-unique-queries", "N", "found by at least N queries", dest="min_queries", type=parse_count)
    parser.flag("--include-promoted", "reconsider what was promoted before")
    add_common(parser)


def run_promote(options: argparse.Namespace) -> int:
    if (options.explain is not None) + options.apply + options.undo > 1:
        raise QueryError("--apply, --undo and --explain exclude each other.", hint="Give one of them.", name="undo")
    loaded = load_settings(options)
    settings = loaded.settings
    if options.undo:
        return _undo(options, loaded)
    names = ("limit", "min_score", "min_signals", "min_queries", "include_promoted")
    changes = {name: getattr(options, name) for name in names}
    choice = promote.choose(settings, **changes, lists_all=options.explain is not None)
    act = promote.apply if options.apply else promote.plan
    made = act(settings, loaded.home, choice)
    if options.explain is not None:
        return _explain(options, loaded, promote.find_judged(made, options.explain))
    lines, notes = _format_plan(made, choice.max_chars, is_applied=options.apply), _advise(loaded, made, options.apply)
    return show(options, _plan_to_json(loaded, made, is_applied=options.apply), *lines, notes=notes)


def _undo(options: argparse.Namespace, loaded: Loaded) -> int:
    undone = promote.undo(loaded.settings)
    told, nothing = "", ["There is no promotion to undo."]
    if undone:
        entries = plural(undone["entries"], "entry", "entries")
        told, nothing = f"Took back {entries} of {undone['day']}; {undone['path']} is as before.", []
    record = {"workspaceDir": loaded.settings.workspace, "undone": undone}
    return show(options, record, told, notes=nothing, code=0 if undone else 1)


def _explain(options: argparse.Namespace, loaded: Loaded, found: Candidate | None) -> int:
    candidate = found and promote.candidate_to_json(found)
    record = {"workspaceDir": loaded.settings.workspace, "candidate": candidate}
    if found is None:
        print(f"No statement that was recalled matches {printable(options.explain)!r}.", file=sys.stderr)
        return show(options, record, code=1)
    parts = ", ".join(f"{name} {value:.2f}" for name, value in found.components.items())
    verdict = f"Not promoted: {printable(found.refusal)}." if found.refusal else "Would be promoted now."
    return show(options, record, _format_judged(found), f"    {style(parts, 'dim')}", verdict)


def _format_judged(one: Candidate) -> str:
    """Return a statement with its score, its place, and what speaks for it."""
    record = one.record
    days = plural(len(set(record.recall_days)), "day")
    queries = plural(len(record.queries), "different query", "different queries")
    signals = f"{plural(record.recalls, 'recall')} on {days} by {queries}"
    signals += f", in {plural(record.daily, 'recent note')}" if record.daily else ""
    text = printable(one.text or record.snippet or "(not in the note any more)")
    return f"{_headline(one)}\n    {text}\n    {style(signals, 'dim')}"


def _format_plan(made: promote.Plan, max_chars: int, *, is_applied: bool) -> list[str]:
    chosen, lines = made.promotions, []
    if chosen:
        entries = plural(len(chosen), "entry", "entries")
        size = f"{len(made.text) + len(made.section):,} of {max_chars:,} characters"
        lines.append(f"{'Added' if is_applied else 'Would add'} {entries} to {made.path} ({size}).")
    for one in chosen:
        lines.append(f"\n{_format_judged(one)}")
    refused = [one for one in made.judged if one.refusal]
    if refused:
        lines.append(f"{chr(10) * bool(chosen)}Not promoted:")
    lines += [f"  {_headline(one)}: {printable(one.refusal)}" for one in refused[:_MAX_REFUSED]]
    return lines + ([f"  … and {len(refused) - _MAX_REFUSED} more"] if len(refused) > _MAX_REFUSED else [])


def _advise(loaded: Loaded, made: promote.Plan, is_applied: bool) -> list[str]:
    """Return what a person may want to do next."""
    if made.promotions:
        return ["To take it back, run `mdrecall promote --undo`." if is_applied else "To write it, add --apply."]
    recalled = made.recalled
    notes = [f"Nothing to promote; {plural(recalled, 'recalled statement')}."]
    if not recalled and not loaded.settings.mdrecall.recalls.record:
        notes.append("Searches are not recorded: set mdrecall.recalls.record to true to begin.")
    elif recalled and not made.judged:
        notes.append("Run `mdrecall promote --explain` with a word of a statement to see what it lacks.")
    return notes


def _headline(one: Candidate) -> str:
    return f"{style(f'{one.score:.3f}', 'green')}  {printable(one.citation)}"


def _plan_to_json(loaded: Loaded, made: promote.Plan, *, is_applied: bool) -> dict[str, Any]:
    settings = loaded.settings
    judged = [promote.candidate_to_json(one) for one in made.judged]
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
