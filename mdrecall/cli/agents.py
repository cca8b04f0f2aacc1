"""Commands that an agent's program runs: ``context`` prints what to read first, ``flush`` saves memories in time."""

import argparse
import os
import sys
from datetime import date
from typing import TYPE_CHECKING

from mdrecall.cli.options import (
    CommandParser,
    add_common,
    check_actions,
    load_settings,
    open_memory,
    parse_count,
    parse_positive,
)
from mdrecall.cli.output import plural, print_issues, print_json, print_text, printable, show
from mdrecall.errors import RecallError

if TYPE_CHECKING:
    from mdrecall.flush import Appended, Flush, State

#: The actions of ``flush`` that each option works with.
_ACTIONS_OF = {
    "context_window": "check", "reserve_tokens": "check", "total_tokens": "check", "stale": "check",
    "prompt_tokens": "check", "output_tokens": "check", "estimated_tokens": "check", "heartbeat": "check",
    "cli_provider": "check", "sandboxed": "check", "workspace_access": "check", "flushed_count": "check",
    "flushed_bytes": "check", "attempts": "check", "begin": "check", "transcript": "check done",
    "transcript_bytes": "check done", "session_key": "check done failed", "compaction_count": "check done failed",
    "part": "prompt", "path": "append", "zone": "prompt append",
}  # fmt: skip
_NUMBERS = {
    "context-window": "check: the context window of the model, in tokens",
    "reserve-tokens": "check: tokens that compaction keeps free",
    "total-tokens": "check: tokens in the session",
    "prompt-tokens": "check: tokens of the last prompt",
    "output-tokens": "check: tokens of the last answer",
    "estimated-tokens": "check: tokens that the next prompt will add",
    "transcript-bytes": "check, done: size of the transcript",
    "compaction-count": "check, done, failed: compactions of the session so far",
    "flushed-count": "check without a session key: compactions at the last flush",
    "flushed-bytes": "check without a session key: size of the transcript at the last flush",
    "attempts": "check without a session key: failed attempts since the last compaction",
}
_FLAGS = {
    "stale": "the total is older than the last turn",
    "heartbeat": "the turn is a heartbeat",
    "cli-provider": "the model is a command-line program",
    "sandboxed": "the session runs in a sandbox",
    "begin": "if a flush is due, record the attempt at once",
}
#: What the record of a session already has.
_IN_SESSION = ("flushed_count", "flushed_bytes", "attempts")


def add_context(parser: CommandParser) -> None:
    about = "the session key, which names the conversation (default: main)"
    parser.value("--session-key", "KEY", about, default="main")
    parser.value("--chars", "N", "print at most N characters of notes (default: 12000)", type=parse_positive)
    parser.flag("--prompt", "print the memory section of the system prompt instead")
    about = "instead, print the entries of MEMORY.md and USER.md whose triggers occur in this message"
    parser.value("--message", "TEXT", about)
    about = (
        "leave out entries of other projects than this, such as github.com/ana/app; repeat it for several"
        " (default: the repository of the current folder)"
    )
    parser.value("--project", "KEY", about, action="append")
    parser.value("--profile", "ID", "also print users/ID/USER.md in a private session", type=_parse_profile)
    parser.value("--today", "DAY", "use this day as today (YYYY-MM-DD)", type=_parse_day)
    add_common(parser, warm=True, automatic=True)


def run_context(options: argparse.Namespace) -> int:
    from mdrecall.context import prompt_section, session_context
    from mdrecall.notes.repository import project_keys
    from mdrecall.wire import to_json

    with open_memory(options) as memory:
        projects = options.project or project_keys(options.caller.cwd or os.getcwd(), memory.settings.workspace)
        if options.message is not None:
            from mdrecall.life.triggers import recall_triggers

            entries = recall_triggers(memory, options.session_key, options.message, projects)
            if options.json:
                print_json({"entries": [to_json(entry) | {"citation": entry.citation} for entry in entries]})
            for entry in entries if not options.json else ():
                print_text(f"{entry.render()}\n")
            if not entries and not options.json:
                print("No entry for this session has a trigger that occurs in the message.", file=sys.stderr)
            return 0 if entries else 1
        if options.prompt:
            text = prompt_section(memory, options.session_key)
            print_json({"prompt": text}) if options.json else print_text(text)
            return 0 if text else 1
        context = session_context(
            memory,
            options.session_key,
            today=options.today or date.today(),
            max_chars=options.chars,
            projects=projects,
            profile=options.profile or "",
        )
    if options.json:
        record = {"text": context.text, "parts": to_json(context.parts), "leftOut": to_json(context.left_out)}
        more = {"projectEntries": list(context.project_entries)} if context.project_entries else {}
        print_json(record | more)
        return 0 if context.parts else 1
    print_text(context.text)
    print_issues(context.left_out)
    if not context.parts:
        print("There is no note from today or yesterday, and no MEMORY.md for this session.", file=sys.stderr)
    return 0 if context.parts else 1


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


def add_flush(parser: CommandParser) -> None:
    about = (
        "check: is a flush due (exit code 0) or not (1); prompt: print what to ask the model; append: add standard"
        " input to today's note; done, failed: record how the flush ended"
    )
    parser.value("action", "", about, choices=("check", "prompt", "append", "done", "failed"))
    for name, about in _NUMBERS.items():
        parser.value(f"--{name}", "N", about, type=parse_count)
    for name, about in _FLAGS.items():
        parser.flag(f"--{name}", f"check: {about}")
    about = "check: what the sandbox may do with the workspace"
    parser.value("--workspace-access", "", about, choices=("none", "ro", "rw"))
    parser.value("--session-key", "KEY", "the session key: the name of the conversation in sessions.json")
    parser.value("--transcript", "FILE", "check, done: the transcript, to measure its size")
    parser.value("--part", "", "prompt: print only this one", choices=("system", "user"))
    parser.value("--path", "PATH", "append: the path the model wants to write to; it must be today's note")
    parser.value("--zone", "ZONE", "prompt, append: the time zone, such as Europe/Zurich")
    add_common(parser, automatic=True)


def run_flush(options: argparse.Namespace) -> int:
    from mdrecall.flush import Flush

    check_actions(options, _ACTIONS_OF)
    _check_session(options)
    flush = Flush(load_settings(options), options.session_key or "")
    actions = {"check": _check, "prompt": _prompt, "append": _append}
    return actions.get(options.action, _record_end)(flush, options)


def _check_session(options: argparse.Namespace) -> None:
    for name in _IN_SESSION:
        if getattr(options, name) is not None and options.session_key:
            option = "--" + name.replace("_", "-")
            message = f"{option} and --session-key exclude each other: the session has its own record."
            raise RecallError(message, hint="Leave one of them out.")
    if options.session_key is not None and not options.session_key.strip():
        hint = "Give a session key from sessions.json, such as agent:main:main."
        raise RecallError("--session-key is empty.", hint=hint)
    if options.session_key is None and (options.begin or options.action in ("done", "failed")):
        raise RecallError("Which session?", hint="Name it with --session-key.")


def _make_state(options: argparse.Namespace) -> "State":
    from mdrecall.flush import State

    size = options.transcript_bytes
    if options.transcript is not None:
        try:
            size = os.stat(options.transcript).st_size
        except OSError as error:
            message = f"Cannot read the transcript {options.transcript}: {error.strerror}."
            raise RecallError(message, hint="Check the path, or give --transcript-bytes.") from error
    return State(
        context_window=options.context_window,
        total_tokens=options.total_tokens,
        total_is_fresh=False if options.stale else None,
        prompt_tokens=options.prompt_tokens or 0,
        output_tokens=options.output_tokens or 0,
        estimated_tokens=options.estimated_tokens or 0,
        transcript_bytes=size,
        compaction_count=options.compaction_count,
        reserve_tokens=options.reserve_tokens,
        is_heartbeat=options.heartbeat,
        is_cli_provider=options.cli_provider,
        is_sandboxed=options.sandboxed,
        workspace_access=options.workspace_access or "rw",
    )


def _check(flush: "Flush", options: argparse.Namespace) -> int:
    from mdrecall.sessions.flush import FlushHistory

    compacted = options.compaction_count or 0
    own = FlushHistory(True, options.flushed_count, options.flushed_bytes or 0, options.attempts or 0, compacted)
    decision = flush.check(_make_state(options), history=None if flush.session_key else own)
    if decision.run and options.begin:
        flush.begin()
    show(options, decision._asdict(), f"{'Flush now' if decision.run else 'No flush'} ({decision.why}).")
    return 0 if decision.run else 1


def _prompt(flush: "Flush", options: argparse.Namespace) -> int:
    prompt = flush.prompt(zone=options.zone)
    model = f"Model: {prompt.model}\n\n" if prompt.model else ""
    whole = f"{model}System prompt:\n\n{prompt.system}\n\nUser prompt:\n\n{prompt.user}"
    show(options, prompt._asdict(), {"system": prompt.system, "user": prompt.user}.get(options.part, whole))
    return 0


def _append(flush: "Flush", options: argparse.Namespace) -> int:
    text = sys.stdin.buffer.read().decode("utf-8-sig", "replace") if sys.stdin else ""
    return _print_appended(flush.append(text, zone=options.zone, path=options.path), options)


def _print_appended(appended: "Appended", options: argparse.Namespace) -> int:
    from mdrecall.wire import to_json

    size = plural(appended.bytes, "byte")
    place = f"{appended.path}#L{appended.start_line}-L{appended.end_line}  {size}"
    show(options, to_json(appended), place if appended.bytes else f"Nothing new for {appended.path}.")
    for section in appended.skipped if not options.json else ():
        print(f"Skipped, because it is already there: {printable(section)}", file=sys.stderr)
    return 0


def _record_end(flush: "Flush", options: argparse.Namespace) -> int:
    flush.expect(_make_state(options))
    if options.action == "done":
        flush.done()
    else:
        flush.failed()
    outcome = "is done" if options.action == "done" else "failed"
    record = {"sessionKey": flush.session_key, "action": options.action}
    show(options, record, f"Recorded: the flush of {printable(flush.session_key)} {outcome}.")
    return 0
