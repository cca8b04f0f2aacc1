"""``mdrecall conflicts``: list notes that contradict each other, and mark those that a newer line replaces."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, add_no_warm, open_memory
from mdrecall.cli.output import plural, print_json, print_warning, printable, style

if TYPE_CHECKING:
    from mdrecall.core.life.statements import Claim, Conflict
    from mdrecall.life.supersede import ConflictReport, OldLine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep",
        metavar="CITATION",
        help="keep this line, such as memory/2026-11-16.md#L4, and mark the lines that contradict it as superseded",
    )
    add_no_warm(parser)
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.life.supersede import keep_line, list_conflicts

    with open_memory(options) as memory:
        if options.keep is not None:
            return _print_marked(keep_line(memory, options.keep), options)
        report = list_conflicts(memory)
    found = report.conflicts.found
    if options.json:
        left_out = {"leftOut": report.left_out} if report.left_out else {}
        complete = {} if report.conflicts.is_complete else {"isComplete": False}
        print_json({"conflicts": [_to_json(one) for one in found], "notes": report.notes} | left_out | complete)
    else:
        _print_conflicts(report)
    return 0 if found else 1


def _print_conflicts(report: "ConflictReport") -> None:
    for conflict in report.conflicts.found:
        old, new = conflict.old, conflict.new
        print(f"{style(printable(_cite(old)), 'bold')}  {printable(old.statement.text)}")
        note = "  (newer)" if conflict.is_ordered else ""
        print(f"{style(printable(_cite(new)), 'bold')}  {printable(new.statement.text)}{note}\n")
    count = len(report.conflicts.found)
    if count:
        print("To keep a line and mark the other as superseded: mdrecall conflicts --keep CITATION", file=sys.stderr)
    else:
        print(f"No contradictions in {plural(report.notes, 'note')}.", file=sys.stderr)
    if report.left_out:
        print_warning(f"{plural(report.left_out, 'note')} not compared: the notes that changed last come first.")
    if not report.conflicts.is_complete:
        print_warning("There was too much to compare; there may be more contradictions.")


def _print_marked(marked: "list[OldLine]", options: argparse.Namespace) -> int:
    if options.json:
        print_json({"superseded": [line.to_json() for line in marked]})
    else:
        for line in marked:
            print(f"Marked as superseded: {printable(line.citation)}: {printable(line.to_json()['text'].strip())}")
        if not marked:
            print("No line contradicts it.", file=sys.stderr)
    return 0 if marked else 1


def _cite(claim: "Claim") -> str:
    return f"{claim.place.path}#L{claim.place.line}"


def _to_json(conflict: "Conflict") -> dict[str, Any]:
    sides = {name: _side_to_json(claim) for name, claim in (("old", conflict.old), ("new", conflict.new))}
    sides["old"]["value"], sides["new"]["value"] = conflict.change.old, conflict.change.new
    return {"kind": conflict.change.kind, "isOrdered": conflict.is_ordered, **sides}


def _side_to_json(claim: "Claim") -> dict[str, Any]:
    return {"citation": _cite(claim), "text": claim.statement.text}
