"""``mdrecall sessions``: list, read or save past conversations."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from mdrecall.cli.options import add_common, open_memory, parse_positive
from mdrecall.cli.output import plural, print_json, printable, shorten_home, style

if TYPE_CHECKING:
    from mdrecall.types import Conversation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("list", "show", "save"),
        help="list: list the sessions; show: print what was said in one; save: turn its last messages into a note",
    )
    parser.add_argument("session", nargs="?", metavar="ID", help="a session from `mdrecall sessions list`")
    parser.add_argument(
        "--from", dest="from_line", type=parse_positive, metavar="LINE", help="show: start at this record"
    )
    parser.add_argument(
        "--from-char", type=parse_positive, default=0, metavar="N", help="show: skip N characters of the first record"
    )
    parser.add_argument("--lines", type=parse_positive, metavar="N", help="show: print at most N records")
    parser.add_argument(
        "--messages", type=parse_positive, metavar="N", help="save: keep the last N messages (default: 15)"
    )
    parser.add_argument("--slug", metavar="WORDS", default="", help="save: a few words for the name of the note")
    about = "save: the session key (the name of the conversation) to write into the note"
    parser.add_argument("--session-key", metavar="KEY", default="", help=about)
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    if options.action == "list":
        return _list(options)
    if not options.session:
        from mdrecall.errors import QueryError

        hint = f"Run `mdrecall sessions list`, then `mdrecall sessions {options.action} ID`."
        raise QueryError("Which session?", hint=hint)
    return _show(options) if options.action == "show" else _save(options)


def _list(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        sessions = memory.sessions()
        folder = memory.settings.sessions_dir
    if options.json:
        from mdrecall.wire import to_json

        print_json(to_json(sessions))
    for entry in sessions if not options.json else ():
        changed_at = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.changed_s))
        ended = "  ended by a reset" if entry.archived else ""
        name = entry.path.rpartition("/")[2] if entry.archived else entry.session
        about = _describe_host(entry) if entry.host else ""
        print(f"{changed_at}  {entry.bytes / 1000:10,.1f} kB  {style(printable(name), 'bold')}{ended}{about}")
    if not sessions:
        print(f"There are no sessions in {shorten_home(folder)}.", file=sys.stderr)
    return 0 if sessions else 1


def _describe_host(entry: "Conversation") -> str:
    """Return where a conversation of a coding agent took place, and what it began with."""
    place = " ".join(part for part in (entry.host, shorten_home(entry.folder), entry.branch) if part)
    return printable(f"  {place}  {entry.title}".rstrip())


def _show(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        result = memory.read_session(
            options.session, from_line=options.from_line, lines=options.lines, from_char=options.from_char
        )
    if options.json:
        from mdrecall.wire import read_to_json

        print_json(read_to_json(result))
        return 0 if result.line_count else 1
    for line in result.text.split("\n") if result.text else ():
        print(printable(line))
    if not result.line_count:
        records = plural(result.total_lines, "record")
        print(f"No messages there; {result.path} has {records}.", file=sys.stderr)
        return 1
    if result.next_char:
        print(f"Read on in this record with --from {result.from_line} --from-char {result.next_char}.", file=sys.stderr)
    elif result.next_from:
        print(f"Continue with --from {result.next_from}.", file=sys.stderr)
    return 0


def _save(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from mdrecall.context import save_session
    from mdrecall.core.conversation.session_notes import DEFAULT_MESSAGES

    with open_memory(options) as memory:
        path = save_session(
            memory,
            options.session,
            now=datetime.now(UTC),
            session_key=options.session_key,
            slug=options.slug,
            messages=options.messages or DEFAULT_MESSAGES,
        )
    if options.json:
        print_json({"path": path})
    else:
        print(f"Saved as {path}.")
    return 0
