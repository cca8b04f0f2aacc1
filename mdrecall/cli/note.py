"""``mdrecall note``: add a note, and print where it was written."""

import argparse
import sys

from mdrecall.cli.options import add_common, add_no_warm, open_memory
from mdrecall.cli.output import print_json, printable
from mdrecall.errors import RecallError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="TEXT", help="the text of the note; - reads standard input")
    parser.add_argument(
        "--file",
        metavar="NAME",
        help="a day (YYYY-MM-DD), a note in memory/ such as people/priya, or MEMORY.md (default: today's note)",
    )
    add_no_warm(parser)
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    text = _read_stdin() if options.words == ["-"] else " ".join(options.words)
    with open_memory(options) as memory:
        appended = memory.append(text, file=options.file)
    if options.json:
        from mdrecall.wire import appended_to_json

        print_json(appended_to_json(appended))
    elif appended.bytes:
        print(f"Added to {printable(appended.citation)}.")
    else:
        print(f"{printable(appended.path)} already says that.")
    for section in appended.skipped if appended.bytes else ():
        print(f"Skipped, because it is already there: {printable(section)}", file=sys.stderr)
    return 0


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
