"""``mdrecall get``: print a memory file, or some of its lines."""

import argparse
import sys

from mdrecall.cli.options import add_common, add_no_warm, open_memory, parse_positive
from mdrecall.cli.output import plural, print_json, print_text, printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> int:
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
