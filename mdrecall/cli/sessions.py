"""``mdrecall sessions``: list, search, read or save past conversations, and follow those of coding agents."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import CommandParser, add_common, load_settings, open_memory, parse_positive
from mdrecall.cli.output import (
    confirm_deletion,
    plural,
    print_json,
    printable,
    progress_line,
    shorten_home,
    show,
    style,
)
from mdrecall.errors import QueryError

if TYPE_CHECKING:
    from mdrecall.sessions.host_conversations import HostChoice, HostSummary


def add_sessions(parser: CommandParser) -> None:
    about = (
        "list: list the sessions; search: find messages by their words; history: print the last messages of a"
        " session; show: print its records; save: turn its last messages into a note"
    )
    parser.value("action", "", about, choices=("list", "search", "history", "show", "save"))
    about = "a session from `mdrecall sessions list`, also by its session key; search: the words to look for"
    parser.value("session", "ID", about, nargs="*", default=[])
    number: dict[str, Any] = {"type": parse_positive}
    parser.value("--from", "LINE", "show: start at this record", dest="from_line", **number)
    parser.value("--from-char", "N", "show: skip N characters of the first record", default=0, **number)
    parser.value("--lines", "N", "show: print at most N records", **number)
    parser.value("--in", "ID", "search: only in this session", dest="within", default="")
    about = "search: print at most N messages, up to 25 (default: 10); history: up to 1000 (default: 100)"
    parser.value("-n --limit", "N", about, **number)
    parser.value("--offset", "N", "history: leave out the N newest messages", default=0, **number)
    parser.value("--message", "RECORD", "history: print the messages around this record", **number)
    parser.flag("--tools", "history: also print tool calls and their results")
    parser.value("--messages", "N", "save: keep the last N messages (default: 15)", **number)
    parser.value("--slug", "WORDS", "save: a few words for the name of the note", default="")
    about = (
        "the session key (the name of a conversation) that asks: only what it may see is listed, searched and shown;"
        " save: the one to write into the note"
    )
    parser.value("--session-key", "KEY", about, default="")
    add_common(parser)


def run_sessions(options: argparse.Namespace) -> int:
    if options.action == "list":
        return _list(options)
    if not options.session or (len(options.session) > 1 and options.action != "search"):
        if options.action == "search":
            raise QueryError("The query is empty.", hint='Say what to look for: mdrecall sessions search "blue door"')
        hint = f"Run `mdrecall sessions list`, then `mdrecall sessions {options.action} ID`."
        raise QueryError("Which session?", hint=hint)
    options.session = " ".join(options.session)
    return {"search": _search, "history": _history, "show": _show, "save": _save}[options.action](options)


def _list(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        sessions = memory.sessions(options.session_key)
    if options.json:
        from mdrecall.wire import to_json

        print_json(to_json(sessions))
    for entry in sessions if not options.json else ():
        changed_at = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.changed_s))
        ended = "  ended by a reset" if entry.archived else ""
        name = entry.path.rpartition("/")[2] if entry.archived else entry.session
        place = " ".join(filter(None, (entry.host, shorten_home(entry.folder), entry.branch)))
        # Where a conversation of a coding agent took place, and what it began with.
        about = printable(f"  {place}  {entry.title}".rstrip()) if entry.host else ""
        print(f"{changed_at}  {entry.bytes / 1000:10,.1f} kB  {style(printable(name), 'bold')}{ended}{about}")
    if options.session_key.strip():
        print(f"This list shows what {printable(options.session_key.strip())} may see.", file=sys.stderr)
    elif not sessions:
        print(f"There are no sessions in {shorten_home(memory.settings.sessions_dir)}.", file=sys.stderr)
    return 0 if sessions else 1


def _search(options: argparse.Namespace) -> int:
    from mdrecall.tools.sessions import DEFAULT_HITS, MAX_HITS, search_sessions

    limit = min(options.limit or DEFAULT_HITS, MAX_HITS)
    limits = {"session": options.within, "limit": limit, "session_key": options.session_key}
    with open_memory(options) as memory, progress_line("Indexing") as progress:
        found = search_sessions(memory, options.session, progress=progress, **limits)
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
    for note in filter(None, (found.get("withheld", {}).get("reason"), found.get("warning"))):
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
    lines = []
    for message in found["messages"]:
        who = f"{message['id']}  {message['role']}  {message.get('date', '')}".rstrip()
        lines.append(f"{style(who, 'bold')}\n    {printable(message['content'])}")
    show(options, found, *lines)
    if found["hasMore"] and not options.json:
        print(f"Read earlier ones with --offset {found['nextOffset']}.", file=sys.stderr)
    if "warning" in found and not options.json:
        print(found["warning"], file=sys.stderr)
    return 0 if found["messages"] else 1


def _show(options: argparse.Namespace) -> int:
    lines = {"from_line": options.from_line, "lines": options.lines, "from_char": options.from_char}
    with open_memory(options) as memory:
        result = memory.read_session(options.session, session_key=options.session_key, **lines)
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

    more = {"messages": options.messages} if options.messages else {}
    with open_memory(options) as memory:
        path = save_session(
            memory, options.session, now=datetime.now(UTC), session_key=options.session_key, slug=options.slug, **more
        )
    show(options, {"path": path}, f"Saved as {path}.")
    return 0


def add_hosts(parser: CommandParser) -> None:
    about = (
        "list: show what each host has; import: copy its past conversations once; follow: read its conversations "
        "from now on, old ones too; forget: stop following, and delete what was imported"
    )
    parser.value("action", "", about, choices=("list", "import", "follow", "forget"))
    parser.value("host", "HOST", "a host from `mdrecall sessions hosts list`", nargs="?")
    about = "conversations of every folder, not only of this project"
    parser.add_argument("--all", dest="everywhere", action="store_true", help=about)
    parser.value("--since", "DAY", "import: only conversations of this day (2026-02-10) or later")
    parser.flag("-y --yes", "forget: delete without asking")
    add_common(parser)


def run_hosts(options: argparse.Namespace) -> int:
    from mdrecall.sessions.host_conversations import HOST_NAMES, HostChoice, summarise_hosts

    loaded = load_settings(options)
    env = {"HOME": loaded.home, **(os.environ if options.caller.env is None else options.caller.env)}
    folder = options.caller.cwd or os.getcwd()
    if options.action == "list":
        summaries = summarise_hosts(loaded, env, folder)
        show(options, [_host_to_json(each) for each in summaries], *map(_describe_host, summaries))
        return 0
    if options.host not in HOST_NAMES:
        asked = f"{options.host!r} is not a host." if options.host else "Which host?"
        raise QueryError(asked, hint=f"Name one of: {', '.join(HOST_NAMES)}.")
    choice = HostChoice(options.host, loaded, env, "" if options.everywhere else folder)
    return {"forget": _forget_host, "follow": _follow_host, "import": _import_host}[options.action](options, choice)


def _describe_host(summary: "HostSummary") -> str:
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
    folders = ", ".join(shorten_home(folder) for folder in followed.folders) or "every folder"
    record = {"host": choice.host, "root": followed.root, "folders": list(followed.folders)}
    show(options, record, f"Conversations of {choice.host} are searched from now on, for {printable(folders)}.")
    if not options.json:
        hint = (
            "Run `mdrecall index` to index them now; a search does so once a conversation grows or is idle for a while."
        )
        print(hint, file=sys.stderr)
    return 0


def _import_host(options: argparse.Namespace, choice: "HostChoice") -> int:
    imported, messages, issues = choice.copy_all(options.since or "")
    record = {"host": choice.host, "imported": imported, "messages": messages, "issues": issues}
    for issue in issues if not options.json else ():
        print(printable(issue), file=sys.stderr)
    said = plural(messages, "message")
    show(options, record, f"Imported {plural(imported, 'conversation')} of {choice.host} with {said}.")
    if not imported and not options.everywhere and not options.json:
        print("Add --all to import those of other folders too.", file=sys.stderr)
    return 0 if imported else 1


def _forget_host(options: argparse.Namespace, choice: "HostChoice") -> int:
    copies = choice.count_copies()
    question = f"Delete {plural(copies, 'imported conversation')} of {choice.host}?"
    if copies and not confirm_deletion(question, options, nothing="Nothing was changed"):
        print("Nothing was changed.")
        return 1
    choice.forget()
    told = f"Conversations of {choice.host} are no longer searched. The host's own files were not touched."
    show(options, {"host": choice.host, "deleted": copies}, told)
    return 0
