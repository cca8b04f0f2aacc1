"""``mdrecall note``: add a note, and print where it was written."""

import argparse
import sys
from shlex import quote
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, add_no_warm, open_memory
from mdrecall.cli.output import print_json, printable
from mdrecall.errors import RecallError

if TYPE_CHECKING:
    from mdrecall.memory import Memory
    from mdrecall.types import Appended

#: Keeps a line and marks those that it replaces.
KEEP_COMMAND = "mdrecall conflicts --keep"


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> int:
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
