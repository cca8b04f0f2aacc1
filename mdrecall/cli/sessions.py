"""``mdrecall sessions``: the transcripts of an agent, for a person to read."""

import argparse
import sys
import time

from mdrecall.cli.options import add_common, open_memory, whole_number
from mdrecall.cli.output import counted, home_short, print_json, printable, style


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("list", "show", "save"),
        help="list: which there are; show: what is said in one; save: make its last messages a note",
    )
    parser.add_argument("session", nargs="?", metavar="ID", help="a session, as `list` names it")
    parser.add_argument("--from", dest="from_line", type=whole_number, metavar="LINE", help="show: the first record")
    parser.add_argument("--lines", type=whole_number, metavar="N", help="show: how many records")
    parser.add_argument("--messages", type=whole_number, metavar="N", help="save: how many messages (default: 15)")
    parser.add_argument("--slug", metavar="WORDS", default="", help="save: a few words for the note's name")
    parser.add_argument("--session-key", metavar="KEY", default="", help="save: the key to write into the note")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    if options.action == "list":
        return _list(options)
    if not options.session:
        from mdrecall.errors import QueryError

        hint = f"`mdrecall sessions list` names them: mdrecall sessions {options.action} ID"
        raise QueryError("Which session?", hint=hint)
    return _show(options) if options.action == "show" else _save(options)


def _list(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        found = memory.sessions()
        where = memory.settings.sessions_dir
    if options.json:
        from mdrecall.wire import to_json

        print_json(to_json(found))
    for entry in found if not options.json else ():
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.changed_s))
        ended = "  ended by a reset" if entry.archived else ""
        name = entry.path.rpartition("/")[2] if entry.archived else entry.session
        print(f"{when}  {entry.bytes / 1000:10,.1f} kB  {style(printable(name), 'bold')}{ended}")
    if not found:
        print(f"There is no transcript in {home_short(where)}.", file=sys.stderr)
    return 0 if found else 1


def _show(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        read = memory.read_session(options.session, from_line=options.from_line, lines=options.lines)
    if options.json:
        from mdrecall.wire import read_to_json

        print_json(read_to_json(read))
        return 0 if read.line_count else 1
    for line in read.text.split("\n") if read.text else ():
        print(printable(line))
    if not read.line_count:
        print(f"Nothing is said there; {read.path} has {counted(read.total_lines, 'record')}.", file=sys.stderr)
        return 1
    if read.next_from:
        print(f"Go on with --from {read.next_from}.", file=sys.stderr)
    return 0


def _save(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from mdrecall.context import save_session
    from mdrecall.core.conversation.session_note import DEFAULT_MESSAGES

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
