"""Commands about notes: ``get``, ``note``, ``list`` and ``conflicts``."""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, add_no_warm, open_memory, parse_positive
from mdrecall.cli.output import plural, print_json, print_text, print_warning, printable, shorten_home, style
from mdrecall.errors import RecallError

if TYPE_CHECKING:
    from mdrecall.core.life.statements import Claim, Conflict
    from mdrecall.core.text.notes import NoteLink, NoteLinks
    from mdrecall.life.supersede import ConflictReport, OldLine
    from mdrecall.memory import Memory
    from mdrecall.types import Appended, NoteFile


def add_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", help="a memory file, such as memory/2026-02-10.md, or memory/2026-02-10.md#L3-L9"
    )
    parser.add_argument("--from", dest="from_line", type=parse_positive, metavar="LINE", help="start at this line")
    parser.add_argument(
        "--from-char", type=parse_positive, default=0, metavar="N", help="skip N characters of the first line"
    )
    parser.add_argument("--lines", type=parse_positive, metavar="N", help="print at most N lines")
    add_no_warm(parser)
    add_common(parser)


def run_get(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        result = memory.read(
            options.path, from_line=options.from_line, lines=options.lines, from_char=options.from_char
        )
    if options.json:
        from mdrecall.wire import read_to_json

        print_json(read_to_json(result))
        return 0 if result.line_count else 1
    print_text(result.text if result.text.endswith("\n") or not result.text else result.text + "\n")
    if not result.line_count:
        print(f"{printable(result.path)} has only {plural(result.total_lines, 'line')}.", file=sys.stderr)
        return 1
    if result.is_from_index:
        print("The note is on another machine; this is what the shared index holds of it.", file=sys.stderr)
    if result.truncated:
        more = f" Continue with --from {result.next_from}." if result.next_from else ""
        if result.next_char:
            more = f" Read on in the same line with --from {result.from_line} --from-char {result.next_char}."
        print(f"Cut after {len(result.text):,} characters.{more}", file=sys.stderr)
    return 0


#: Keeps a line and marks those that it replaces.
KEEP_COMMAND = "mdrecall conflicts --keep"


def add_note(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="TEXT", help="the text of the note; - reads standard input")
    parser.add_argument(
        "--file",
        metavar="NAME",
        help="a day (YYYY-MM-DD), a note such as people/priya, or MEMORY.md (default: today's note)",
    )
    parser.add_argument(
        "--supersedes",
        metavar="CITATION",
        help="the line that this note replaces, such as memory/2026-02-10.md#L3, or its text; it is kept and marked",
    )
    add_no_warm(parser)
    add_common(parser)


def run_note(options: argparse.Namespace) -> int:
    text = _read_stdin() if options.words == ["-"] else " ".join(options.words)
    with open_memory(options) as memory:
        if options.supersedes is None:
            appended = memory.append(text, file=options.file)
            more = _suggest(memory, text, appended)
        else:
            from mdrecall.life.supersede import add_replacement

            appended, old = add_replacement(memory, text, options.supersedes, file=options.file)
            more = {"superseded": old.to_json()}
    if options.json:
        from mdrecall.wire import appended_to_json

        print_json(appended_to_json(appended) | more)
    else:
        _print_appended(appended, more)
    return 0


def _suggest(memory: "Memory", text: str, appended: "Appended") -> dict[str, Any]:
    """Return the lines that a new note seems to replace; empty if there are none. Nothing is marked."""
    from mdrecall.life.supersede import find_replaced

    found = find_replaced(memory, text, appended) if appended.bytes else []
    return {"mayReplace": [line.to_json() for line in found]} if found else {}


def _print_appended(appended: "Appended", more: dict[str, Any]) -> None:
    if appended.bytes:
        print(f"Added to {printable(appended.citation)}.")
    else:
        print(f"{printable(appended.path)} already says that.")
    if old := more.get("superseded"):
        print(f"Marked as superseded: {printable(old['citation'])}: {printable(old['text'].strip())}")
    for section in appended.skipped if appended.bytes else ():
        print(f"Skipped, because it is already there: {printable(section)}", file=sys.stderr)
    for old in more.get("mayReplace", ()):
        print(f"It seems to replace {printable(old['citation'])}: {printable(old['text'].strip())}", file=sys.stderr)
    if more.get("mayReplace"):
        from shlex import quote

        print(f"To mark that as superseded: {KEEP_COMMAND} {quote(appended.citation)}", file=sys.stderr)


def _read_stdin() -> str:
    if not sys.stdin:
        return ""
    if sys.stdin.isatty():
        print("Type the note, then press Ctrl-D on a new line.", file=sys.stderr)
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        hint = "Nothing was written. Convert the text first, for example with iconv."
        raise RecallError("Standard input is not UTF-8 text.", hint=hint) from error


def add_list(parser: argparse.ArgumentParser) -> None:
    add_common(parser)


def run_list(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        notes = memory.notes()
        workspace = memory.settings.workspace
    if options.json:
        print_json(notes_to_json(notes))
    else:
        print_notes(notes)
    if not notes:
        print(f"There are no notes in {shorten_home(workspace)}.", file=sys.stderr)
    return 0 if notes else 1


def notes_to_json(notes: "tuple[NoteFile, ...]") -> list[Any]:
    """Return the notes as every command prints them with ``--json``."""
    from mdrecall.wire import to_json

    return [to_json(note) for note in notes]


def print_notes(notes: "tuple[NoteFile, ...]", indent: str = "") -> None:
    """Print a line for each note: when it changed, its size, its path."""
    for note in notes:
        changed_at = time.strftime("%Y-%m-%d %H:%M", time.localtime(note.changed_s))
        print(f"{indent}{changed_at}  {_format_size(note.bytes):>11}  {style(printable(note.path), 'bold')}")


def _format_size(size: int) -> str:
    return f"{size:,} B" if size < 1000 else f"{size / 1000:,.1f} kB"


def add_links(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="NOTE", help="the path of a note, its name, or an alias")
    add_common(parser)


def run_links(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        found = memory.links(options.path)
    if options.json:
        print_json(links_to_json(found))
    else:
        print(style(printable(found.path), "bold"))
        for line in _format_links(found):
            print(printable(line))
    if not found.links and not found.backlinks:
        print("No note links to it, and it links to none.", file=sys.stderr)
    return 0


def links_to_json(found: "NoteLinks") -> dict[str, Any]:
    """Return the links of a note; what is empty is left out of each."""
    return {
        "path": found.path,
        "links": [_link_to_json(link) for link in found.links],
        "backlinks": [_link_to_json(link) for link in found.backlinks],
    }


def _link_to_json(link: "NoteLink") -> dict[str, Any]:
    from mdrecall.wire import to_json

    return {name: value for name, value in to_json(link).items() if value not in ("", False)}


def _format_links(found: "NoteLinks") -> Iterator[str]:
    for link in found.links:
        place = f"{link.target}#{link.heading}" if link.heading else link.target
        yield f"  -> {place}  (line {link.line}{', no such note' if link.is_broken else ''})"
    for link in found.backlinks:
        yield f"  <- {link.path}#L{link.line}{f'  (to #{link.heading})' if link.heading else ''}"


def add_conflicts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep",
        metavar="CITATION",
        help="keep this line, such as memory/2026-11-16.md#L4, and mark the lines that contradict it as superseded",
    )
    add_no_warm(parser)
    add_common(parser)


def run_conflicts(options: argparse.Namespace) -> int:
    from mdrecall.life.supersede import keep_line, list_conflicts

    with open_memory(options) as memory:
        if options.keep is not None:
            return _print_marked(keep_line(memory, options.keep), options)
        report = list_conflicts(memory)
    found = report.conflicts.found
    if options.json:
        left_out = {"leftOut": report.left_out} if report.left_out else {}
        complete = {} if report.conflicts.is_complete else {"isComplete": False}
        print_json(
            {"conflicts": [_conflict_to_json(one) for one in found], "notes": report.notes} | left_out | complete
        )
    else:
        _print_conflicts(report)
    return 0 if found else 1


def _print_conflicts(report: "ConflictReport") -> None:
    for conflict in report.conflicts.found:
        old, new = conflict.old, conflict.new
        print(f"{style(printable(_cite_claim(old)), 'bold')}  {printable(old.statement.text)}")
        note = "  (newer)" if conflict.is_ordered else ""
        print(f"{style(printable(_cite_claim(new)), 'bold')}  {printable(new.statement.text)}{note}\n")
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


def _cite_claim(claim: "Claim") -> str:
    return f"{claim.place.path}#L{claim.place.line}"


def _conflict_to_json(conflict: "Conflict") -> dict[str, Any]:
    sides = {name: _side_to_json(claim) for name, claim in (("old", conflict.old), ("new", conflict.new))}
    sides["old"]["value"], sides["new"]["value"] = conflict.change.old, conflict.change.new
    return {"kind": conflict.change.kind, "isOrdered": conflict.is_ordered, **sides}


def _side_to_json(claim: "Claim") -> dict[str, Any]:
    return {"citation": _cite_claim(claim), "text": claim.statement.text}
