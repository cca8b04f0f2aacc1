"""``mdrecall note``: write something down, and say where it went."""

import argparse
import sys

from mdrecall.cli.options import add_common, open_memory
from mdrecall.cli.output import print_json, printable
from mdrecall.errors import RecallError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="TEXT", help="what to write down; - reads standard input")
    parser.add_argument(
        "--file",
        metavar="NAME",
        help="a day (YYYY-MM-DD), the name of a note in memory/, or MEMORY.md (default: today's note)",
    )
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    text = _standard_input() if options.words == ["-"] else " ".join(options.words)
    with open_memory(options) as memory:
        done = memory.append(text, file=options.file)
    if options.json:
        from mdrecall.wire import appended_to_json

        print_json(appended_to_json(done))
    elif done.bytes:
        print(f"Noted in {printable(done.citation)}.")
    else:
        print(f"{printable(done.path)} has that already.")
    for section in done.skipped if done.bytes else ():
        print(f"Left out, because it is there already: {printable(section)}", file=sys.stderr)
    return 0


def _standard_input() -> str:
    if not sys.stdin:
        return ""
    if sys.stdin.isatty():
        print("Write the note; Ctrl-D on a line of its own ends it.", file=sys.stderr)
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        hint = "Nothing was written. Convert it first, for example with iconv."
        raise RecallError("Standard input is not text in UTF-8.", hint=hint) from error
