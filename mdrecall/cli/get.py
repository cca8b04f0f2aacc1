"""``mdrecall get``: print lines of a memory file."""

import argparse
import sys

from mdrecall.cli.options import add_common, open_memory, whole_number
from mdrecall.cli.output import counted, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a memory file, such as memory/2026-02-10.md")
    parser.add_argument("--from", dest="from_line", type=whole_number, metavar="LINE", help="the first line")
    parser.add_argument("--lines", type=whole_number, metavar="N", help="how many lines")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        read = memory.read(options.path, from_line=options.from_line, lines=options.lines)
    if options.json:
        from mdrecall.wire import read_to_json

        print_json(read_to_json(read))
        return 0 if read.line_count else 1
    sys.stdout.write(read.text if read.text.endswith("\n") or not read.text else read.text + "\n")
    if not read.line_count:
        print(f"{read.path} has only {counted(read.total_lines, 'line')}.", file=sys.stderr)
        return 1
    if read.truncated:
        more = f"; go on with --from {read.next_from}" if read.next_from else ""
        print(f"Cut after {len(read.text):,} characters{more}.", file=sys.stderr)
    return 0
