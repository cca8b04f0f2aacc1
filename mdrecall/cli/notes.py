"""Commands about notes: ``get``, ``note``, ``list`` and ``conflicts``."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import CommandParser, add_common, open_memory
from mdrecall.cli.output import plural, print_json, print_text, printable, shorten_home, show, style
from mdrecall.errors import RecallError

if TYPE_CHECKING:
    from mdrecall.life.supersede import Conflict
    from mdrecall.memory import Memory


def add_get(parser: CommandParser) -> None:
    parser.value("path", "PATH", "a memory file, such as memory/2026-02-10.md, or memory/2026-02-10.md#L3-L9")
    parser.value("--from", "LINE", "start at this line", dest="from_line")
    parser.value("--from-char", "N", "skip N characters of the first line", default=0)
    parser.value("--lines", "N", "print at most N lines")
    add_common(parser, warm=True)


def run_get(options: argparse.Namespace) -> int:
    lines = {"from_line": options.from_line, "lines": options.lines, "from_char": options.from_char}
    with open_memory(options) as memory:
        result = memory.read(options.path, **lines)
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


def add_note(parser: CommandParser) -> None:
    parser.value("words", "TEXT", "the text of the note; - reads standard input", nargs="*")
    parser.value("--file", "NAME", "a day, a note such as people/priya, or MEMORY.md (default: today's note)")
    parser.value("--supersedes", "CITATION", "the line that this replaces, which is marked")
    add_common(parser, warm=True)


def run_note(options: argparse.Namespace) -> int:
    from mdrecall.life.supersede import add_replacement, find_replaced
    from mdrecall.sync.soon import start_soon
    from mdrecall.wire import appended_to_json

    text = _read_stdin() if options.words == ["-"] else " ".join(options.words)
    marked, replaced = [], []
    with open_memory(options) as memory:
        if options.supersedes is None:
            added = memory.append(text, file=options.file)
            # Nothing is marked by itself.
            replaced = [line.to_json() for line in find_replaced(memory, text, added)] if added.bytes else []
        else:
            added, old = add_replacement(memory, text, options.supersedes, file=options.file)
            marked = [old.to_json()]
        start_soon(memory.settings)
    record = appended_to_json(added) | ({"superseded": marked[0]} if marked else {})
    place = printable(added.citation)
    notes = [f"Skipped, because it is already there: {printable(section)}" for section in added.skipped if added.bytes]
    notes += [f"It seems to replace {_describe_line(old)}" for old in replaced]
    if replaced:
        from shlex import quote

        notes.append(f"To mark that as superseded: mdrecall conflicts --keep {quote(added.citation)}")
        record["mayReplace"] = replaced
    told = f"Added to {place}." if added.bytes else f"{printable(added.path)} already says that."
    return show(options, record, told, *(f"Marked as superseded: {_describe_line(old)}" for old in marked), notes=notes)


def _describe_line(line: dict[str, Any]) -> str:
    return f"{printable(line['citation'])}: {printable(line['text'].strip())}"


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


def add_list(parser: CommandParser) -> None:
    parser.value("note", "NOTE", "show the links from this note and to it; its path, its name, or an alias", nargs="?")
    add_common(parser)


def run_list(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        if options.note is not None:
            return _print_links(memory, options)
        notes = memory.notes()
    from mdrecall.wire import to_json

    lines = []
    for note in notes:
        changed_at = time.strftime("%Y-%m-%d %H:%M", time.localtime(note.changed_s))
        size = f"{note.bytes:,} B" if note.bytes < 1000 else f"{note.bytes / 1000:,.1f} kB"
        lines.append(f"{changed_at}  {size:>11}  {style(printable(note.path), 'bold')}")
    show(options, [to_json(note) for note in notes], *lines)
    if not notes:
        print(f"There are no notes in {shorten_home(memory.settings.workspace)}.", file=sys.stderr)
    return 0 if notes else 1


def _print_links(memory: "Memory", options: argparse.Namespace) -> int:
    from mdrecall.wire import to_json

    found = memory.links(options.note)
    record: dict[str, Any] = {"path": found.path}
    for name, links in (("links", found.links), ("backlinks", found.backlinks)):
        # An empty field of a link is left out.
        record[name] = [
            {key: value for key, value in to_json(one).items() if value not in ("", False)} for one in links
        ]
    lines = [style(printable(found.path), "bold")]
    for link in found.links:
        place = f"{link.target}#{link.heading}" if link.heading else link.target
        lines.append(printable(f"  -> {place}  (line {link.line}{', no such note' if link.is_broken else ''})"))
    for link in found.backlinks:
        lines.append(printable(f"  <- {link.path}#L{link.line}{f'  (to #{link.heading})' if link.heading else ''}"))
    show(options, record, *lines)
    if not found.links and not found.backlinks:
        print("No note links to it, and it links to none.", file=sys.stderr)
    return 0


def add_conflicts(parser: CommandParser) -> None:
    parser.value("--keep", "CITATION", "mark the lines that contradict this one as superseded")
    add_common(parser, warm=True)


def run_conflicts(options: argparse.Namespace) -> int:
    from mdrecall.life.supersede import keep_line, list_conflicts

    with open_memory(options) as memory:
        if options.keep is not None:
            marked = [line.to_json() for line in keep_line(memory, options.keep)]
            marks = [f"Marked as superseded: {_describe_line(line)}" for line in marked]
            nothing = [] if marked else ["No line contradicts it."]
            return show(options, {"superseded": marked}, *marks, notes=nothing, code=0 if marked else 1)
        found, is_complete, notes, left_out = list_conflicts(memory)
    record: dict[str, Any] = {"conflicts": [_conflict_to_json(one) for one in found], "notes": notes}
    record |= {"leftOut": left_out} if left_out else {}
    record |= {} if is_complete else {"isComplete": False}
    hint = "To keep a line and mark the other as superseded: mdrecall conflicts --keep CITATION"
    notes_read = plural(notes, "note")
    warnings = (
        f"{plural(left_out, 'note')} not compared: the notes that changed last come first." if left_out else "",
        "" if is_complete else "There was too much to compare; there may be more contradictions.",
    )
    lines, told = map(_format_conflict, found), [hint if found else f"No contradictions in {notes_read}."]
    return show(options, record, *lines, notes=told, warnings=warnings, code=0 if found else 1)


def _format_conflict(conflict: "Conflict") -> str:
    old, new, _, is_ordered = conflict
    sides = ((old, old.text), (new, f"{new.text}  (newer)" if is_ordered else new.text))
    return "".join(f"{style(printable(line.citation), 'bold')}  {printable(text)}\n" for line, text in sides)


def _conflict_to_json(conflict: "Conflict") -> dict[str, Any]:
    old, new, change, is_ordered = conflict
    sides = ((old, change.old), (new, change.new))
    first, second = ({"citation": line.citation, "text": line.text, "value": value} for line, value in sides)
    return {"kind": change.kind, "isOrdered": is_ordered, "old": first, "new": second}
