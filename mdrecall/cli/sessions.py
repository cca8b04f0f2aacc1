"""``mdrecall sessions`` and ``log``: past conversations, those of coding agents, and what was shown in these."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import CommandParser, add_common, load_settings, open_memory
from mdrecall.cli.output import confirm_deletion, plural, printable, progress_line, shorten_home, show, style
from mdrecall.context import save_session
from mdrecall.engine.conversations import open_files
from mdrecall.errors import QueryError
from mdrecall.patterns import host_of
from mdrecall.tools import sessions as tools
from mdrecall.wire import read_to_json, to_json

if TYPE_CHECKING:
    from mdrecall.sessions.host_conversations import HostChoice, HostSummary


#: The entry of the journal by which the last tidying is undone.
_TIDY = "tidy"


def add_sessions(parser: CommandParser) -> None:
    about = "list: list the sessions; search: find messages by their words; history: print the last messages of a"
    about += " session; show: print its records; save: turn its last messages into a note; tidy: merge the digests that"
    about += " earlier versions wrote"
    parser.action(about, "list", "search", "history", "show", "save", "tidy")
    about = "a session from `mdrecall sessions list`, also by its session key; search: the words to look for"
    parser.value("session", "ID", about, nargs="*", default=[])
    parser.value("--from", "LINE", "show: start here", dest="from_line")
    parser.value("--from-char", "N", "show: skip N characters", default=0)
    parser.value("--lines", "N", "show: print at most N")
    parser.value("--in", "ID", "search: only in this session", dest="within", default="")
    about = "search, history: print at most N messages (default: 10, 100)"
    parser.value("-n --limit", "N", about)
    parser.value("--offset", "N", "history: leave out the newest N", default=0)
    parser.value("--message", "RECORD", "history: print what is around this record")
    parser.flag("--tools", "history: also print tool calls")
    parser.value("--messages", "N", "save: keep the last N messages (default: 15)")
    parser.value("--slug", "WORDS", "save: words for the note's name", default="")
    parser.flag("--apply", "tidy: change the notes")
    parser.flag("--undo", "tidy: take the last change back")
    about = "only what this conversation may see; save: the session key to write down"
    parser.value("--session-key", "KEY", about, default="")
    add_common(parser)


def run_sessions(options: argparse.Namespace) -> int:
    if options.action in ("list", "tidy"):
        return _list(options) if options.action == "list" else _tidy(options)
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
    lines = []
    for entry in sessions:
        changed_at = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.changed_s))
        ended = "  ended by a reset" if entry.archived else ""
        name = entry.path.rpartition("/")[2] if entry.archived else entry.session
        place = " ".join(filter(None, (entry.host, shorten_home(entry.folder), entry.branch)))
        # Where a conversation of a coding agent took place, and what it began with.
        about = printable(f"  {place}  {entry.title}".rstrip()) if entry.host else ""
        lines.append(f"{changed_at}  {entry.bytes / 1000:10,.1f} kB  {style(printable(name), 'bold')}{ended}{about}")
    show(options, to_json(sessions), *lines)
    if options.session_key.strip():
        print(f"This list shows what {printable(options.session_key.strip())} may see.", file=sys.stderr)
    elif not sessions:
        print(f"There are no sessions in {shorten_home(memory.settings.sessions_dir)}.", file=sys.stderr)
    return 0 if sessions else 1


def _search(options: argparse.Namespace) -> int:
    limit = min(options.limit or tools.DEFAULT_HITS, tools.MAX_HITS)
    limits = {"session": options.within, "limit": limit, "session_key": options.session_key}
    with open_memory(options) as memory, progress_line("Indexing") as progress:
        found = tools.search_sessions(memory, options.session, progress=progress, **limits)
    lines = []
    for hit in found["results"]:
        place = f"{printable(hit['sessionKey'])}  {printable(hit['sessionId'])}  message {hit['messageId']}"
        head = f"{style(place, 'bold')}  {hit['role']}  {hit.get('date', '')}".rstrip()
        lines.append(f"{head}\n    {printable(hit['snippet'])}")
    if found["results"]:
        first = found["results"][0]
        command = f"mdrecall sessions history {first['sessionId']} --message {first['messageId']}"
        next_step = f"Read around the first one with `{printable(command)}`."
    else:
        next_step = f"No messages ({found['reason']}) in {printable(found['scope'])}. {found['action']}"
    notes = (next_step, found.get("withheld", {}).get("reason", ""), found.get("warning", ""))
    return show(options, found, *lines, notes=notes, code=0 if found["results"] else 1)


def _history(options: argparse.Namespace) -> int:
    limit = min(options.limit or tools.DEFAULT_MESSAGES, tools.MAX_MESSAGES)
    chosen = {"offset": options.offset, "message": options.message, "with_tools": options.tools}
    with open_memory(options) as memory:
        found = tools.read_history(memory, options.session, limit=limit, session_key=options.session_key, **chosen)
    lines = []
    for message in found["messages"]:
        who = f"{message['id']}  {message['role']}  {message.get('date', '')}".rstrip()
        lines.append(f"{style(who, 'bold')}\n    {printable(message['content'])}")
    more = f"Read earlier ones with --offset {found['nextOffset']}." if found["hasMore"] else ""
    notes = (more, found.get("warning", ""))
    return show(options, found, *lines, notes=notes, code=0 if found["messages"] else 1)


def _show(options: argparse.Namespace) -> int:
    lines = {"from_line": options.from_line, "lines": options.lines, "from_char": options.from_char}
    with open_memory(options) as memory:
        result = memory.read_session(options.session, session_key=options.session_key, **lines)
    more = f"Continue with --from {result.next_from}." if result.next_from else ""
    if not result.line_count:
        more = f"No messages there; {printable(result.path)} has {plural(result.total_lines, 'record')}."
    elif result.next_char:
        more = f"Read on in this record with --from {result.from_line} --from-char {result.next_char}."
    text = "\n".join(map(printable, result.text.split("\n")))
    return show(options, read_to_json(result), text, notes=[more], code=0 if result.line_count else 1)


def _tidy(options: argparse.Namespace) -> int:
    """Merge old digests, or take that back."""
    from mdrecall import state_files
    from mdrecall.life.curate import Curator, merge_text
    from mdrecall.life.journal import drop_entry, entry_file
    from mdrecall.notes.editing import hash_content
    from mdrecall.notes.notes import list_days
    from mdrecall.sessions.digest import merge_digests

    with open_memory(options) as memory:
        curator, index = Curator(memory), memory.settings.index_path
        if options.undo:
            kept = state_files.load(entry_file(index, _TIDY)).get("notes", [])
            for path, text, expected_hash in kept:
                # One that was never written is as it was.
                if curator.read(path).text != text:
                    curator.save(path, text, expected_hash)
            drop_entry(index, _TIDY)
            told = f"{plural(len(kept), 'note')} as before." if kept else "There is nothing to undo."
            return show(options, {"undone": [path for path, _, _ in kept]}, told, code=0 if kept else 1)
        notes = [curator.read(path) for path in list_days(memory.settings.workspace)]
        changed = [(note, merged) for note in notes if (merged := merge_digests(note.text)) != note.text]
        if options.apply and changed:
            entries = [
                (note.path, note.text, hash_content(merge_text(note.data, merged, note.path)))
                for note, merged in changed
            ]
            state_files.save(entry_file(index, _TIDY), {"notes": entries})
            for note, merged in changed:
                curator.save(note.path, merged, note.hash)
    lines = [f"{note.path}: {len(note.text):,} to {len(merged):,} characters" for note, merged in changed]
    after = "To take it back, run `mdrecall sessions tidy --undo`." if options.apply else "To do it, add --apply."
    notices = [after if changed else "There are no old digests."]
    return show(options, {"notes": [note.path for note, _ in changed]}, *lines, notes=notices, code=0 if changed else 1)


def _save(options: argparse.Namespace) -> int:
    more: dict[str, Any] = {"messages": options.messages} if options.messages else {}
    more |= {"session_key": options.session_key, "slug": options.slug}
    with open_memory(options) as memory:
        path = save_session(memory, options.session, now=datetime.now(UTC), **more)
    return show(options, {"path": path}, f"Saved as {path}.")


def add_hosts(parser: CommandParser) -> None:
    about = "list: show what each host has; import: copy its past conversations once; follow: read its conversations"
    about += " from now on, old ones too; forget: stop following, and delete what was imported"
    parser.action(about, "list", "import", "follow", "forget")
    parser.value("host", "HOST", "a host from `mdrecall sessions hosts list`", nargs="?")
    parser.flag("--all", "conversations of every project", dest="everywhere")
    parser.value("--since", "DAY", "import: only conversations of this day or later")
    parser.flag("-y --yes", "forget: delete without asking")
    add_common(parser)


def run_hosts(options: argparse.Namespace) -> int:
    from mdrecall.sessions.host_conversations import HOST_NAMES, HostChoice, summarise_hosts

    loaded = load_settings(options)
    env, folder = {"HOME": loaded.home, **os.environ}, os.getcwd()
    if options.action == "list":
        summaries = summarise_hosts(loaded, env, folder)
        files = Counter(map(host_of, open_files(loaded.settings, loaded.home).scan().stamps))
        record = [_host_to_json(each) | {"files": files[each.host]} for each in summaries]
        return show(options, record, *(_describe_host(each, files[each.host]) for each in summaries))
    if options.host not in HOST_NAMES:
        asked = f"{options.host!r} is not a host." if options.host else "Which host?"
        raise QueryError(asked, hint=f"Name one of: {', '.join(HOST_NAMES)}.")
    choice = HostChoice(options.host, loaded, env, "" if options.everywhere else folder)
    return {"forget": _forget_host, "follow": _follow_host, "import": _import_host}[options.action](options, choice)


def _describe_host(summary: "HostSummary", files: int) -> str:
    name = style(f"{summary.host:12}", "bold")
    if not summary.root:
        return f"{name}  not found"
    notes = [f"{plural(summary.conversations, 'conversation')}, {summary.of_folder} of this project"]
    notes += [f"followed for {_list_folders(summary.followed.folders)}"] if summary.followed is not None else []
    notes += [f"{summary.imported} imported"] if summary.imported else []
    notes += [f"{plural(files, 'file')} of its own searched"] if files else []
    return f"{name}  {'; '.join(notes)}"


def _list_folders(folders: Sequence[str]) -> str:
    return ", ".join(map(shorten_home, folders)) or "every folder"


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
    record = {"host": choice.host, "root": followed.root, "folders": list(followed.folders)}
    told = f"Conversations of {choice.host} are searched from now on, for {_list_folders(followed.folders)}."
    hint = "Run `mdrecall index` to index them now; a search does so once a conversation grows or is idle for a while."
    return show(options, record, told, notes=[hint])


def _import_host(options: argparse.Namespace, choice: "HostChoice") -> int:
    imported, messages, issues = choice.copy_all(options.since or "")
    record = {"host": choice.host, "imported": imported, "messages": messages, "issues": issues}
    told = f"Imported {plural(imported, 'conversation')} of {choice.host} with {plural(messages, 'message')}."
    is_narrow = not imported and not options.everywhere
    notes = [*map(printable, issues), "Add --all to import those of other folders too." if is_narrow else ""]
    return show(options, record, told, notes=notes, code=0 if imported else 1)


def _forget_host(options: argparse.Namespace, choice: "HostChoice") -> int:
    copies = sum(host == choice.host for host, _, _ in choice.state.list_copies())
    question = f"Delete {plural(copies, 'imported conversation')} of {choice.host}?"
    if copies and not confirm_deletion(question, options, nothing="Nothing was changed"):
        print("Nothing was changed.")
        return 1
    choice.state.forget(choice.host)
    told = f"Conversations of {choice.host} are no longer searched. The host's own files were not touched."
    return show(options, {"host": choice.host, "deleted": copies}, told)


def add_log(parser: CommandParser) -> None:
    parser.value("-n --limit", "N", "print the last N (default: 50)", default=50)
    parser.value("--session", "ID", "print only this session, by the first characters of its id", default="")
    parser.value("--silence", "N", "never show line N again; repeat it to undo that")
    add_common(parser)


def run_log(options: argparse.Namespace) -> int:
    from mdrecall.hosts.shown import describe, list_answers, silence

    with open_memory(options) as memory:
        if options.silence:
            is_silenced = silence(memory.settings, options.silence)
            told = "is silenced. A search still finds it." if is_silenced else "may be shown again."
            return show(options, {"silenced": is_silenced}, f"Line {options.silence} {told}")
        *answers, silenced = list_answers(memory.settings)
        speaking = (answer for answer in answers if answer["lines"] or answer["why"])
        wanted = [answer for answer in speaking if answer["session"].startswith(options.session)][-options.limit :]
        records = [describe(memory, answer) for answer in (*wanted, silenced)]
    sessions = groupby(records, lambda answer: (answer["host"], answer["session"]))
    lines = (line for _, answers in sessions for line in _format_answers(list(answers)))
    empty = "No agent was shown anything. `mdrecall status` says which agents are connected, and what is on."
    return show(options, records, *lines, notes=[] if wanted else [empty], code=0 if wanted else 1)


def _format_answers(answers: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what one session was shown, and how many of its prompts got nothing."""
    if answers[0]["host"] or answers[0]["lines"]:
        title = "{host}  {project}  session {session}" if answers[0]["host"] else "Silenced:"
        yield style(printable(title.format(**answers[0])), "bold")
    for answer in (each for each in answers if each["lines"]):
        if answer["host"]:
            yield printable("  {at}  {event}  {ms} ms  {why}".format(**answer).rstrip())
        for line in answer["lines"]:
            why = line["why"] or format(line["score"], ".2f")
            state = "  silenced" if line["silenced"] and answer["host"] else ""
            yield f"  {line['number']:4}  {style(printable(line['citation']), 'cyan')}  {printable(why)}{state}"
            yield f"        {printable(' '.join((line['text'] or 'changed since, or removed').split()))}"
    if nothing := Counter(each["why"] for each in answers if not each["lines"] and each["host"]):
        reasons = "; ".join(f"{printable(why)}: {count}" for why, count in nothing.items())
        yield f"  {plural(nothing.total(), 'prompt')} got nothing ({reasons})"
