"""``mdrecall context``: what an agent should read first in a session."""

import argparse
import sys
from datetime import date

from mdrecall.cli.options import add_common, open_memory, whole_number
from mdrecall.cli.output import print_issues, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session-key", metavar="KEY", default="main", help="whose session it is (default: main)")
    parser.add_argument(
        "--chars", type=whole_number, metavar="N", help="at most so many characters of notes (default: 12000)"
    )
    parser.add_argument("--prompt", action="store_true", help="print the system prompt's section on memory instead")
    parser.add_argument("--today", type=_day, metavar="DAY", help="the day that counts as today (YYYY-MM-DD)")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.context import DEFAULT_CHARS, prompt_section, session_context

    with open_memory(options) as memory:
        if options.prompt:
            return _print_prompt(prompt_section(memory, options.session_key), options)
        found = session_context(
            memory,
            options.session_key,
            today=options.today or date.today(),
            max_chars=options.chars or DEFAULT_CHARS,
        )
    if options.json:
        from mdrecall.wire import to_json

        print_json({"text": found.text, "parts": to_json(found.parts), "leftOut": to_json(found.left_out)})
    else:
        sys.stdout.write(found.text)
        print_issues(found.left_out)
        if not found.parts:
            print("There is no note of today or yesterday, and no MEMORY.md for this session.", file=sys.stderr)
    return 0 if found.parts else 1


def _print_prompt(text: str, options: argparse.Namespace) -> int:
    if options.json:
        print_json({"prompt": text})
    else:
        sys.stdout.write(text)
    return 0 if text else 1


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day, which is written as 2026-02-10") from error
