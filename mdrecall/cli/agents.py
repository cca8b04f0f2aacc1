"""Commands that an agent's program runs: ``context`` prints what to read first, ``flush`` saves memories in time."""

import argparse
import os
import sys
from datetime import date
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import CommandParser, add_common, check_actions, load_settings, open_memory, parse_count
from mdrecall.cli.output import plural, print_issues, print_json, print_text, printable, show
from mdrecall.context import PROFILE, prompt_section, session_context
from mdrecall.errors import RecallError
from mdrecall.life.triggers import recall_triggers
from mdrecall.notes.repository import project_keys
from mdrecall.types.documents import Issue
from mdrecall.wire import to_json

if TYPE_CHECKING:
    from mdrecall.flush import Flush

#: Numbers that a loop may know about its session: the actions that they are for, and what they count.
_NUMBERS = {
    "context-window": ("check", "the context window of the model, in tokens"),
    "reserve-tokens": ("check", "tokens that compaction keeps free"),
    "total-tokens": ("check", "tokens in the session"),
    "prompt-tokens": ("check", "tokens of the last prompt"),
    "output-tokens": ("check", "tokens of the last answer"),
    "estimated-tokens": ("check", "tokens that the next prompt will add"),
    "transcript-bytes": ("check done", "size of the transcript"),
    "compaction-count": ("check done failed", "compactions of the session so far"),
}
_FLAGS = {
    "stale": "the total is older than the last turn",
    "heartbeat": "the turn is a heartbeat",
    "cli-provider": "the model is a command-line program",
    "sandboxed": "the session runs in a sandbox",
    "begin": "if a flush is due, record the attempt at once",
}


def add_context(parser: CommandParser) -> None:
    parser.value("--session-key", "KEY", "the conversation (default: main)", default="main")
    parser.value("--chars", "N", "print at most N characters of notes (default: 12000)")
    parser.flag("--prompt", "print the system prompt's section instead")
    parser.value("--message", "TEXT", "print the entries that this message triggers instead")
    about = "leave out entries of other projects; repeatable (default: the current one)"
    parser.value("--project", "KEY", about, action="append")
    parser.value("--profile", "ID", "also print users/ID/USER.md in a private session", type=_parse_profile)
    parser.value("--today", "DAY", "another today (YYYY-MM-DD)", type=_parse_day)
    add_common(parser, warm=True, automatic=True)


def run_context(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        projects = options.project or project_keys(options.caller.cwd or os.getcwd(), memory.settings.workspace)
        if options.message is not None:
            entries = recall_triggers(memory, options.session_key, options.message, projects)
            text = "".join(f"{entry.render()}\n" for entry in entries)
            record: dict[str, Any] = {"entries": [to_json(entry) | {"citation": entry.citation} for entry in entries]}
            nothing = "No entry for this session has a trigger that occurs in the message."
            return _print_context(options, record, text, bool(entries), nothing=nothing)
        if options.prompt:
            text = prompt_section(memory, options.session_key)
            return _print_context(options, {"prompt": text}, text, bool(text))
        today, profile = options.today or date.today(), options.profile or ""
        limits: dict[str, Any] = {"max_chars": options.chars, "projects": projects, "profile": profile}
        context = session_context(memory, options.session_key, today=today, **limits)
    record = {"text": context.text, "parts": to_json(context.parts), "leftOut": to_json(context.left_out)}
    record |= {"projectEntries": list(context.project_entries)} if context.project_entries else {}
    nothing = "There is no note from today or yesterday, and no MEMORY.md for this session."
    return _print_context(options, record, context.text, bool(context.parts), context.left_out, nothing)


def _print_context(
    options: argparse.Namespace,
    record: dict[str, Any],
    text: str,
    found: bool,
    left_out: tuple[Issue, ...] = (),
    nothing: str = "",
) -> int:
    """Print what an agent reads, as it is, and what was left out, or say that there is nothing."""
    if options.json:
        print_json(record)
    else:
        print_text(text)
        print_issues(left_out)
        if not found and nothing:
            print(nothing, file=sys.stderr)
    return 0 if found else 1


def _parse_profile(text: str) -> str:
    if not PROFILE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a folder in users/: letters, digits, - and _")
    return text


def _parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-02-10") from error


def add_flush(parser: CommandParser) -> None:
    about = "check: exit with 0 if a flush is due, else with 1; prompt: print what to ask the model; "
    about += "append: add standard input to today's note; done, failed: record how the flush ended"
    parser.action(about, "check", "prompt", "append", "done", "failed")
    for name, (actions, about) in _NUMBERS.items():
        parser.value(f"--{name}", "N", about, only=actions, type=parse_count)
    for name, about in _FLAGS.items():
        parser.flag(f"--{name}", about, only="check")
    parser.value("--workspace-access", "", "what the sandbox may do there", only="check", choices=("none", "ro", "rw"))
    parser.value("--session-key", "KEY", "the conversation's key in sessions.json", only="check done failed")
    parser.value("--part", "", "print only this one", only="prompt", choices=("system", "user"))
    parser.value("--path", "PATH", "where the model wants to write", only="append")
    parser.value("--zone", "ZONE", "the time zone, such as Europe/Zurich", only="prompt append")
    add_common(parser, automatic=True)


def run_flush(options: argparse.Namespace) -> int:
    from mdrecall.flush import Flush, FlushHistory, State

    check_actions(options)
    if options.session_key is not None and not options.session_key.strip():
        hint = "Give a session key from sessions.json, such as agent:main:main."
        raise RecallError("--session-key is empty.", hint=hint)
    if options.session_key is None and (options.begin or options.action in ("done", "failed")):
        raise RecallError("Which session?", hint="Name it with --session-key.")
    numbers = {name: getattr(options, name) for name in (name.replace("-", "_") for name in _NUMBERS)}
    options.state = State(
        **{name: number for name, number in numbers.items() if number is not None},
        total_is_fresh=False if options.stale else None,
        is_heartbeat=options.heartbeat,
        is_cli_provider=options.cli_provider,
        is_sandboxed=options.sandboxed,
        workspace_access=options.workspace_access or "rw",
    )
    # Without a session key nothing is recorded, so that only the numbers decide.
    options.history = None if options.session_key else FlushHistory()
    actions = {"check": _check, "prompt": _prompt, "append": _append}
    flush = Flush(load_settings(options), options.session_key or "")
    return actions.get(options.action, _record_end)(flush, options)


def _check(flush: "Flush", options: argparse.Namespace) -> int:
    decision = flush.check(options.state, history=options.history)
    if decision.run and options.begin:
        flush.begin()
    told = f"{'Flush now' if decision.run else 'No flush'} ({decision.why})."
    return show(options, decision._asdict(), told, code=0 if decision.run else 1)


def _prompt(flush: "Flush", options: argparse.Namespace) -> int:
    prompt = flush.prompt(zone=options.zone)
    model = f"Model: {prompt.model}\n\n" if prompt.model else ""
    whole = f"{model}System prompt:\n\n{prompt.system}\n\nUser prompt:\n\n{prompt.user}"
    return show(options, prompt._asdict(), {"system": prompt.system, "user": prompt.user}.get(options.part, whole))


def _append(flush: "Flush", options: argparse.Namespace) -> int:
    text = sys.stdin.buffer.read().decode("utf-8-sig", "replace") if sys.stdin else ""
    added = flush.append(text, zone=options.zone, path=options.path)
    place = f"{added.path}#L{added.start_line}-L{added.end_line}  {plural(added.bytes, 'byte')}"
    skipped = (f"Skipped, because it is already there: {printable(section)}" for section in added.skipped)
    return show(options, to_json(added), place if added.bytes else f"Nothing new for {added.path}.", notes=skipped)


def _record_end(flush: "Flush", options: argparse.Namespace) -> int:
    flush.expect(options.state)
    is_done = options.action == "done"
    flush.done() if is_done else flush.failed()
    record = {"sessionKey": flush.session_key, "action": options.action}
    told = f"Recorded: the flush of {printable(flush.session_key)} {'is done' if is_done else 'failed'}."
    return show(options, record, told)
