"""``mdrecall context``: print the notes an agent should read first in a session."""

import argparse
import os
import sys
from datetime import date
from typing import TYPE_CHECKING

from mdrecall.cli.options import add_common, add_no_warm, open_memory, parse_positive
from mdrecall.cli.output import print_issues, print_json, print_text

if TYPE_CHECKING:
    from mdrecall.life.triggers import Recalled


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "the session key, which names the conversation (default: main)"
    parser.add_argument("--session-key", metavar="KEY", default="main", help=about)
    parser.add_argument(
        "--chars", type=parse_positive, metavar="N", help="print at most N characters of notes (default: 12000)"
    )
    parser.add_argument("--prompt", action="store_true", help="print the memory section of the system prompt instead")
    parser.add_argument(
        "--message",
        metavar="TEXT",
        help="instead, print the entries of MEMORY.md and USER.md whose triggers occur in this message",
    )
    parser.add_argument(
        "--project",
        action="append",
        metavar="KEY",
        help="leave out entries of other projects than this, such as github.com/ana/app; repeat it for several"
        " (default: the repository of the current folder)",
    )
    about = "also print users/ID/USER.md in a private session"
    parser.add_argument("--profile", type=_parse_profile, metavar="ID", help=about)
    parser.add_argument("--today", type=_parse_day, metavar="DAY", help="use this day as today (YYYY-MM-DD)")
    add_no_warm(parser)
    add_common(parser)
    # A program runs it, wherever that is: the notes of a cloned repository must not become what an agent remembers.
    parser.set_defaults(is_automatic=True)


def run(options: argparse.Namespace) -> int:
    from mdrecall.context import prompt_section, session_context
    from mdrecall.sources.repository import project_keys

    with open_memory(options) as memory:
        projects = options.project or project_keys(options.caller.cwd or os.getcwd(), memory.settings.workspace)
        if options.message is not None:
            from mdrecall.life.triggers import recall_triggers

            return _print_recalled(recall_triggers(memory, options.session_key, options.message, projects), options)
        if options.prompt:
            return _print_prompt(prompt_section(memory, options.session_key), options)
        context = session_context(
            memory,
            options.session_key,
            today=options.today or date.today(),
            max_chars=options.chars,
            projects=projects,
            profile=options.profile or "",
        )
    if options.json:
        from mdrecall.wire import to_json

        print_json(
            {"text": context.text, "parts": to_json(context.parts), "leftOut": to_json(context.left_out)}
            | ({"projectEntries": list(context.project_entries)} if context.project_entries else {})
        )
    else:
        print_text(context.text)
        print_issues(context.left_out)
        if not context.parts:
            print("There is no note from today or yesterday, and no MEMORY.md for this session.", file=sys.stderr)
    return 0 if context.parts else 1


def _print_recalled(entries: "tuple[Recalled, ...]", options: argparse.Namespace) -> int:
    if options.json:
        from mdrecall.wire import to_json

        print_json({"entries": [to_json(entry) | {"citation": entry.citation} for entry in entries]})
    else:
        for entry in entries:
            print_text(f"{entry.render()}\n")
        if not entries:
            print("No entry for this session has a trigger that occurs in the message.", file=sys.stderr)
    return 0 if entries else 1


def _print_prompt(text: str, options: argparse.Namespace) -> int:
    if options.json:
        print_json({"prompt": text})
    else:
        print_text(text)
    return 0 if text else 1


def _parse_profile(text: str) -> str:
    from mdrecall.context import PROFILE

    if not PROFILE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a folder in users/: letters, digits, - and _")
    return text


def _parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-02-10") from error
