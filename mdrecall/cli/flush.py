"""``mdrecall flush``: write memories down before a conversation is compacted, for agents in any language."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from mdrecall.cli.options import add_common, count
from mdrecall.cli.output import counted, print_json, printable
from mdrecall.errors import RecallError

if TYPE_CHECKING:
    from mdrecall.flush import Appended, Flush, State

#: The options that belong to some actions only.
_ONLY = {
    "context_window": "check", "reserve_tokens": "check", "total_tokens": "check", "stale": "check",
    "prompt_tokens": "check", "output_tokens": "check", "estimated_tokens": "check", "heartbeat": "check",
    "cli_provider": "check", "sandboxed": "check", "workspace_access": "check", "flushed_count": "check",
    "flushed_bytes": "check", "attempts": "check", "begin": "check", "transcript": "check done checkpoint",
    "transcript_bytes": "check done", "session_key": "check done failed", "compaction_count": "check done failed",
    "part": "prompt", "path": "append", "zone": "prompt append checkpoint",
}  # fmt: skip
_BOOK = ("flushed_count", "flushed_bytes", "attempts")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("check", "prompt", "append", "checkpoint", "done", "failed"),
        help="check: is it time (exit code 0) or not (1); prompt: what to ask the model; append: write standard input"
        " to the day's file; checkpoint: write the transcript's last messages there; done, failed: how it ended",
    )
    _add_numbers(parser)
    flags = {
        "stale": "the total is not of the last turn",
        "heartbeat": "the turn is a heartbeat",
        "cli-provider": "the model is a command-line program",
        "sandboxed": "the session runs in a sandbox",
        "begin": "if it is time, count an attempt at once",
    }
    for name, about in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=f"check: {about}")
    parser.add_argument("--workspace-access", choices=("none", "ro", "rw"), help="check: what the sandbox may do")
    parser.add_argument("--session-key", metavar="KEY", help="the session, as sessions.json has it")
    measured = "check, done: its transcript, to be measured; checkpoint: to be read"
    parser.add_argument("--transcript", metavar="FILE", help=measured)
    parser.add_argument("--part", choices=("system", "user"), help="prompt: print only this one")
    parser.add_argument("--path", metavar="PATH", help="append: where the model means to write; checked")
    parser.add_argument("--zone", metavar="ZONE", help="prompt, append, checkpoint: the zone, such as Europe/Zurich")
    add_common(parser)


def _add_numbers(parser: argparse.ArgumentParser) -> None:
    numbers = {
        "context-window": "check: how many tokens the model takes",
        "reserve-tokens": "check: the room that compaction leaves",
        "total-tokens": "check: how many tokens the session has",
        "prompt-tokens": "check: those of the last prompt",
        "output-tokens": "check: those of the last answer",
        "estimated-tokens": "check: those that the next prompt will add",
        "transcript-bytes": "check, done: how long the transcript is",
        "compaction-count": "check, done, failed: how often the session was compacted",
        "flushed-count": "check without a session key: the count at the last flush",
        "flushed-bytes": "check without a session key: the length at the last flush",
        "attempts": "check without a session key: how many attempts failed since the last compaction",
    }
    for name, about in numbers.items():
        parser.add_argument(f"--{name}", type=count, metavar="N", help=about)


def run(options: argparse.Namespace) -> int:
    from mdrecall.config.load import load
    from mdrecall.flush import Flush

    _refuse_what_does_not_belong(options)
    loaded = load(workspace=options.workspace, agent=options.agent, config=options.config)
    flush = Flush(loaded, options.session_key or "")
    if options.action == "check":
        return _check(flush, options)
    if options.action == "prompt":
        return _prompt(flush, options)
    if options.action == "append":
        return _append(flush, options)
    if options.action == "checkpoint":
        return _checkpoint(flush, options)
    return _book(flush, options)


def _refuse_what_does_not_belong(options: argparse.Namespace) -> None:
    for name, actions in _ONLY.items():
        option = "--" + name.replace("_", "-")
        given = getattr(options, name) not in (None, False)
        if given and options.action not in actions.split():
            raise RecallError(f"{option} is not for `flush {options.action}`.", hint=f"It is for {actions}.")
        if given and name in _BOOK and options.session_key:
            hint = "Leave one of the two out."
            raise RecallError(f"{option} and --session-key contradict each other: the session has its own.", hint=hint)
    if options.session_key is not None and not options.session_key.strip():
        raise RecallError("--session-key is blank.", hint="Give a key of sessions.json, such as agent:main:main.")
    if options.session_key is None and (options.begin or options.action in ("done", "failed")):
        raise RecallError("There is no session to write down a flush of.", hint="Name it with --session-key.")


def _state(options: argparse.Namespace) -> "State":
    from mdrecall.flush import State

    length = options.transcript_bytes
    if options.transcript is not None:
        try:
            length = os.stat(options.transcript).st_size
        except OSError as error:
            message = f"Cannot look at the transcript {options.transcript}: {error.strerror}."
            raise RecallError(message, hint="Check the path, or give --transcript-bytes.") from error
    return State(
        context_window=options.context_window,
        total_tokens=options.total_tokens,
        total_is_fresh=False if options.stale else None,
        prompt_tokens=options.prompt_tokens or 0,
        output_tokens=options.output_tokens or 0,
        estimated_tokens=options.estimated_tokens or 0,
        transcript_bytes=length,
        compaction_count=options.compaction_count,
        reserve_tokens=options.reserve_tokens,
        is_heartbeat=options.heartbeat,
        is_cli_provider=options.cli_provider,
        is_sandboxed=options.sandboxed,
        workspace_access=options.workspace_access or "rw",
    )


def _check(flush: "Flush", options: argparse.Namespace) -> int:
    from mdrecall.core.conversation.flush import FlushHistory

    compacted = options.compaction_count or 0
    own = FlushHistory(True, options.flushed_count, options.flushed_bytes or 0, options.attempts or 0, compacted)
    decision = flush.check(_state(options), history=None if flush.session_key else own)
    if decision.run and options.begin:
        flush.begin()
    if options.json:
        print_json(decision._asdict())
    else:
        print(f"{'Flush now' if decision.run else 'Not now'}: {decision.why}.")
    return 0 if decision.run else 1


def _prompt(flush: "Flush", options: argparse.Namespace) -> int:
    asked = flush.prompt(zone=options.zone)
    if options.json:
        print_json(asked._asdict())
    elif options.part:
        print(asked.system if options.part == "system" else asked.user)
    else:
        print(f"System prompt:\n\n{asked.system}\n\nUser prompt:\n\n{asked.user}")
    return 0


def _append(flush: "Flush", options: argparse.Namespace) -> int:
    text = sys.stdin.buffer.read().decode("utf-8-sig", "replace") if sys.stdin else ""
    return _told(flush.append(text, zone=options.zone, path=options.path), options)


def _checkpoint(flush: "Flush", options: argparse.Namespace) -> int:
    if options.transcript is None:
        raise RecallError("There is no transcript to take the last messages from.", hint="Name it with --transcript.")
    if not flush.settings.mdrecall.flush.checkpoint:
        raise RecallError("Checkpoints are switched off.", hint="Set mdrecall.flush.checkpoint to true to save them.")
    try:
        messages = flush.read_messages(options.transcript)
    except OSError as error:
        message = f"Cannot read the transcript {options.transcript}: {error.strerror}."
        raise RecallError(message, hint="Check the path.") from error
    done = flush.checkpoint(messages, zone=options.zone)
    if done is None:
        raise RecallError(f"Nothing is said in {options.transcript}.", hint="There is nothing to keep.")
    return _told(done, options)


def _told(done: "Appended", options: argparse.Namespace) -> int:
    from mdrecall.wire import to_json

    if options.json:
        print_json(to_json(done))
        return 0
    if done.bytes:
        print(f"{done.path}#L{done.start_line}-L{done.end_line}  {counted(done.bytes, 'byte')}")
    else:
        print(f"Nothing new for {done.path}.")
    for section in done.skipped:
        print(f"Left out, because it is there already: {printable(section)}", file=sys.stderr)
    return 0


def _book(flush: "Flush", options: argparse.Namespace) -> int:
    flush.expect(_state(options))
    if options.action == "done":
        flush.done()
    else:
        flush.failed()
    said = "flushed" if options.action == "done" else "not flushed"
    if options.json:
        print_json({"sessionKey": flush.session_key, "action": options.action})
    else:
        print(f"Noted: {printable(flush.session_key)} was {said}.")
    return 0
