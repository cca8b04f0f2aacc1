"""``mdrecall sessions``: list, search, read or save past conversations, and follow those of coding agents."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, load_settings, open_memory, parse_positive
from mdrecall.cli.output import confirm, plural, print_json, printable, progress_line, shorten_home, style
from mdrecall.errors import ConfirmationMissing, QueryError

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.sources.transcripts.host_conversations import HostChoice, HostSummary
    from mdrecall.types import Conversation


def add_sessions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("list", "search", "history", "show", "save"),
        help="list: list the sessions; search: find messages by their words; history: print the last messages of a"
        " session; show: print its records; save: turn its last messages into a note",
    )
    about = "a session from `mdrecall sessions list`, also by its session key; search: the words to look for"
    parser.add_argument("session", nargs="*", default=[], metavar="ID", help=about)
    parser.add_argument(
        "--from", dest="from_line", type=parse_positive, metavar="LINE", help="show: start at this record"
    )
    parser.add_argument(
        "--from-char", type=parse_positive, default=0, metavar="N", help="show: skip N characters of the first record"
    )
    parser.add_argument("--lines", type=parse_positive, metavar="N", help="show: print at most N records")
    parser.add_argument("--in", dest="within", metavar="ID", default="", help="search: only in this session")
    about = "search: print at most N messages, up to 25 (default: 10); history: up to 1000 (default: 100)"
    parser.add_argument("-n", "--limit", type=parse_positive, metavar="N", help=about)
    about = "history: leave out the N newest messages"
    parser.add_argument("--offset", type=parse_positive, default=0, metavar="N", help=about)
    about = "history: print the messages around this record"
    parser.add_argument("--message", type=parse_positive, metavar="RECORD", help=about)
    parser.add_argument("--tools", action="store_true", help="history: also print tool calls and their results")
    parser.add_argument(
        "--messages", type=parse_positive, metavar="N", help="save: keep the last N messages (default: 15)"
    )
    parser.add_argument("--slug", metavar="WORDS", default="", help="save: a few words for the name of the note")
    about = (
        "the session key (the name of a conversation) that asks: only what it may see is listed, searched and shown;"
        " save: the one to write into the note"
    )
    parser.add_argument("--session-key", metavar="KEY", default="", help=about)
    add_common(parser)


def run_sessions(options: argparse.Namespace) -> int:
    if options.action == "list":
        return _list(options)
    if not options.session or (len(options.session) > 1 and options.action != "search"):
        from mdrecall.errors import QueryError

        if options.action == "search":
            raise QueryError("The query is empty.", hint='Say what to look for: mdrecall sessions search "blue door"')
        hint = f"Run `mdrecall sessions list`, then `mdrecall sessions {options.action} ID`."
        raise QueryError("Which session?", hint=hint)
    options.session = " ".join(options.session)
    return _ACTIONS[options.action](options)


def _list(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        sessions = memory.sessions(options.session_key)
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
    if options.session_key.strip():
        print(f"This list shows what {printable(options.session_key.strip())} may see.", file=sys.stderr)
    elif not sessions:
        print(f"There are no sessions in {shorten_home(folder)}.", file=sys.stderr)
    return 0 if sessions else 1


def _describe_host(entry: "Conversation") -> str:
    """Return where a conversation of a coding agent took place, and what it began with."""
    place = " ".join(part for part in (entry.host, shorten_home(entry.folder), entry.branch) if part)
    return printable(f"  {place}  {entry.title}".rstrip())


def _search(options: argparse.Namespace) -> int:
    from mdrecall.tools.sessions import DEFAULT_HITS, MAX_HITS, search_sessions

    with open_memory(options) as memory, progress_line("Indexing") as progress:
        found = search_sessions(
            memory,
            options.session,
            session=options.within,
            limit=min(options.limit or DEFAULT_HITS, MAX_HITS),
            session_key=options.session_key,
            progress=progress,
        )
    if options.json:
        print_json(found)
        return 0 if found["results"] else 1
    for hit in found["results"]:
        place = f"{printable(hit['sessionKey'])}  {printable(hit['sessionId'])}  message {hit['messageId']}"
        print(f"{style(place, 'bold')}  {hit['role']}  {hit.get('date', '')}".rstrip())
        print(f"    {printable(hit['snippet'])}")
    if found["results"]:
        first = found["results"][0]
        command = f"mdrecall sessions history {first['sessionId']} --message {first['messageId']}"
        print(f"Read around the first one with `{printable(command)}`.", file=sys.stderr)
    else:
        print(f"No messages ({found['reason']}) in {printable(found['scope'])}. {found['action']}", file=sys.stderr)
    for note in (found.get("withheld", {}).get("reason"), found.get("warning")):
        if note:
            print(note, file=sys.stderr)
    return 0 if found["results"] else 1


def _history(options: argparse.Namespace) -> int:
    from mdrecall.tools.sessions import DEFAULT_MESSAGES, MAX_MESSAGES, read_history

    with open_memory(options) as memory:
        found = read_history(
            memory,
            options.session,
            limit=min(options.limit or DEFAULT_MESSAGES, MAX_MESSAGES),
            offset=options.offset,
            message=options.message,
            session_key=options.session_key,
            with_tools=options.tools,
        )
    if options.json:
        print_json(found)
    for message in found["messages"] if not options.json else ():
        who = f"{message['id']}  {message['role']}  {message.get('date', '')}".rstrip()
        print(f"{style(who, 'bold')}\n    {printable(message['content'])}")
    if found["hasMore"] and not options.json:
        print(f"Read earlier ones with --offset {found['nextOffset']}.", file=sys.stderr)
    if "warning" in found and not options.json:
        print(found["warning"], file=sys.stderr)
    return 0 if found["messages"] else 1


def _show(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        result = memory.read_session(
            options.session,
            from_line=options.from_line,
            lines=options.lines,
            from_char=options.from_char,
            session_key=options.session_key,
        )
    if options.json:
        from mdrecall.wire import read_to_json

        print_json(read_to_json(result))
        return 0 if result.line_count else 1
    for line in result.text.split("\n") if result.text else ():
        print(printable(line))
    if not result.line_count:
        records = plural(result.total_lines, "record")
        print(f"No messages there; {printable(result.path)} has {records}.", file=sys.stderr)
        return 1
    if result.next_char:
        print(f"Read on in this record with --from {result.from_line} --from-char {result.next_char}.", file=sys.stderr)
    elif result.next_from:
        print(f"Continue with --from {result.next_from}.", file=sys.stderr)
    return 0


def _save(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from mdrecall.context import save_session
    from mdrecall.core.conversation.digest import DEFAULT_MESSAGES

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


_ACTIONS = {"search": _search, "history": _history, "show": _show, "save": _save}


def add_hosts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("list", "import", "follow", "forget"),
        help="list: show what each host has; import: copy its past conversations once; follow: read its conversations "
        "from now on, old ones too; forget: stop following, and delete what was imported",
    )
    parser.add_argument("host", nargs="?", metavar="HOST", help="a host from `mdrecall hosts list`")
    parser.add_argument(
        "--all", dest="everywhere", action="store_true", help="conversations of every folder, not only of this project"
    )
    parser.add_argument("--since", metavar="DAY", help="import: only conversations of this day (2026-02-10) or later")
    parser.add_argument("-y", "--yes", action="store_true", help="forget: delete without asking")
    add_common(parser)


def run_hosts(options: argparse.Namespace) -> int:
    loaded = load_settings(options)
    if options.action == "list":
        return _list_hosts(options, loaded)
    choice = _choose_host(options, loaded)
    if options.action == "forget":
        return _forget_host(options, choice)
    if options.action == "follow":
        return _follow_host(options, choice)
    return _import_host(options, choice)


def _choose_host(options: argparse.Namespace, loaded: "Loaded") -> "HostChoice":
    from mdrecall.sources.transcripts.host_conversations import HOST_NAMES, HostChoice

    names = ", ".join(HOST_NAMES)
    if options.host not in HOST_NAMES:
        asked = f"{options.host!r} is not a host." if options.host else "Which host?"
        raise QueryError(asked, hint=f"Name one of: {names}.")
    env = os.environ if options.caller.env is None else options.caller.env
    folder = options.caller.cwd or os.getcwd()
    return HostChoice(options.host, loaded, {"HOME": loaded.home, **env}, "" if options.everywhere else folder)


def _list_hosts(options: argparse.Namespace, loaded: "Loaded") -> int:
    from mdrecall.sources.transcripts.host_conversations import summarise_hosts

    env = os.environ if options.caller.env is None else options.caller.env
    summaries = summarise_hosts(loaded, {"HOME": loaded.home, **env}, options.caller.cwd or os.getcwd())
    if options.json:
        print_json([_host_to_json(each) for each in summaries])
    for each in summaries if not options.json else ():
        print(_describe_summary(each))
    return 0


def _describe_summary(summary: "HostSummary") -> str:
    name = style(f"{summary.host:12}", "bold")
    if not summary.root:
        return f"{name}  not found"
    notes = [f"{plural(summary.conversations, 'conversation')}, {summary.of_folder} of this project"]
    if summary.followed is not None:
        folders = ", ".join(shorten_home(folder) for folder in summary.followed.folders)
        notes.append(f"followed for {printable(folders) or 'every folder'}")
    if summary.imported:
        notes.append(f"{summary.imported} imported")
    return f"{name}  {'; '.join(notes)}"


def _host_to_json(summary: "HostSummary") -> dict[str, Any]:
    followed = summary.followed
    return {
        "host": summary.host,
        "root": summary.root or None,
        "conversations": summary.conversations,
        "ofThisProject": summary.of_folder,
        "followed": None if followed is None else {"folders": list(followed.folders)},
        "imported": summary.imported,
    }


def _follow_host(options: argparse.Namespace, choice: "HostChoice") -> int:
    followed = choice.follow()
    if options.json:
        print_json({"host": choice.host, "root": followed.root, "folders": list(followed.folders)})
        return 0
    folders = ", ".join(shorten_home(folder) for folder in followed.folders) or "every folder"
    print(f"Conversations of {choice.host} are searched from now on, for {printable(folders)}.")
    print(
        "Run `mdrecall index` to index them now; a search does so once a conversation grows or is idle for a while.",
        file=sys.stderr,
    )
    return 0


def _import_host(options: argparse.Namespace, choice: "HostChoice") -> int:
    report = choice.copy_all(options.since or "")
    if options.json:
        print_json(
            {"host": choice.host, "imported": report.imported, "messages": report.messages, "issues": report.issues}
        )
        return 0 if report.imported else 1
    for issue in report.issues:
        print(printable(issue), file=sys.stderr)
    messages = plural(report.messages, "message")
    print(f"Imported {plural(report.imported, 'conversation')} of {choice.host} with {messages}.")
    if not report.imported and not options.everywhere:
        print("Add --all to import those of other folders too.", file=sys.stderr)
    return 0 if report.imported else 1


def _forget_host(options: argparse.Namespace, choice: "HostChoice") -> int:
    copies = choice.count_copies()
    refusal = ConfirmationMissing(
        "Nothing was changed: there is no terminal to confirm on.", hint="Add --yes to delete without asking."
    )
    question = f"Delete {plural(copies, 'imported conversation')} of {choice.host}?"
    if copies and not options.yes and not confirm(question, refusal, as_json=options.json):
        print("Nothing was changed.")
        return 1
    choice.forget()
    if options.json:
        print_json({"host": choice.host, "deleted": copies})
    else:
        print(f"Conversations of {choice.host} are no longer searched. The host's own files were not touched.")
    return 0
