"""``mdrecall hosts``: search the past conversations of coding agents."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, load_settings
from mdrecall.cli.output import confirm, plural, print_json, printable, shorten_home, style
from mdrecall.errors import ConfirmationMissing, QueryError

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.sources.transcripts.host_conversations import HostChoice, HostSummary


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> int:
    loaded = load_settings(options)
    if options.action == "list":
        return _list(options, loaded)
    choice = _choose(options, loaded)
    if options.action == "forget":
        return _forget(options, choice)
    if options.action == "follow":
        return _follow(options, choice)
    return _import(options, choice)


def _choose(options: argparse.Namespace, loaded: "Loaded") -> "HostChoice":
    from mdrecall.sources.transcripts.host_conversations import HOST_NAMES, HostChoice

    names = ", ".join(HOST_NAMES)
    if options.host not in HOST_NAMES:
        asked = f"{options.host!r} is not a host." if options.host else "Which host?"
        raise QueryError(asked, hint=f"Name one of: {names}.")
    env = os.environ if options.caller.env is None else options.caller.env
    folder = options.caller.cwd or os.getcwd()
    return HostChoice(options.host, loaded, {"HOME": loaded.home, **env}, "" if options.everywhere else folder)


def _list(options: argparse.Namespace, loaded: "Loaded") -> int:
    from mdrecall.sources.transcripts.host_conversations import summarise_hosts

    env = os.environ if options.caller.env is None else options.caller.env
    summaries = summarise_hosts(loaded, {"HOME": loaded.home, **env}, options.caller.cwd or os.getcwd())
    if options.json:
        print_json([_to_json(each) for each in summaries])
    for each in summaries if not options.json else ():
        print(_describe(each))
    return 0


def _describe(summary: "HostSummary") -> str:
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


def _to_json(summary: "HostSummary") -> dict[str, Any]:
    followed = summary.followed
    return {
        "host": summary.host,
        "root": summary.root or None,
        "conversations": summary.conversations,
        "ofThisProject": summary.of_folder,
        "followed": None if followed is None else {"folders": list(followed.folders)},
        "imported": summary.imported,
    }


def _follow(options: argparse.Namespace, choice: "HostChoice") -> int:
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


def _import(options: argparse.Namespace, choice: "HostChoice") -> int:
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


def _forget(options: argparse.Namespace, choice: "HostChoice") -> int:
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
