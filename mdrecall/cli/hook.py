"""``mdrecall hook``: answer an event of a coding agent. ``cli/start`` reads what it says, and hides every failure."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from mdrecall.cli.options import Caller, CommandParser, add_common, load_quietly
from mdrecall.config.environment import find_locations, shorten
from mdrecall.config.load import Loaded
from mdrecall.errors import RecallError, message_with_hint
from mdrecall.hosts.events import EVENTS, Answer, HookCall, HookEvent, find_log, log_problem, read_event
from mdrecall.hosts.table import HOSTS, find_host

#: The time of an event that does not come from a host, such as that of a test.
_SECONDS = 1.0


def add_hook(parser: CommandParser) -> None:
    parser.value("event", "EVENT", f"what happened: {', '.join(EVENTS)}")
    names = ", ".join(sorted(host.name for host in HOSTS))
    parser.value("--host", "HOST", f"the coding agent: {names} (default: detected)", default="")
    parser.add_argument("--input", help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--begun", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--terminal", action="store_true", help=argparse.SUPPRESS)
    add_common(parser, warm=True, automatic=True, json=False)
    parser.set_defaults(is_told=True)


def run_hook(options: argparse.Namespace) -> int:
    if options.input is None:
        hint = "A coding agent runs it when something happens, and says what as JSON on standard input."
        raise RecallError("This command is not for people.", hint=hint)
    caller: Caller = options.caller
    env = os.environ if caller.env is None else caller.env
    cwd = caller.cwd or os.getcwd()
    now = datetime.now(UTC)

    def log(problem: str) -> None:
        log_problem(find_log(env, cwd), now, f"{options.host or 'unknown host'} {options.event}", problem)

    try:
        sys.stdout.write(_answer(options, env, cwd, now, log))
    except Exception as error:
        if caller.open:
            # This is a warm process. The hook that asked it then does the work itself, and logs what goes wrong.
            raise
        log(message_with_hint(error) if isinstance(error, RecallError) else f"{type(error).__name__}: {error}")
    return 0


def log_failure(arguments: list[str], error: BaseException) -> None:
    """Write down that a hook could not be run at all."""
    internal = ("--input=", "--deadline=", "--begun=", "--terminal")
    shown = " ".join(argument for argument in arguments[1:] if not argument.startswith(internal))
    reason = "it cannot be understood" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    log_problem(find_log(os.environ, os.getcwd()), datetime.now(UTC), shown, f"The command did not run: {reason}.")


def _answer(
    options: argparse.Namespace, env: Mapping[str, str], cwd: str, now: datetime, log: Callable[[str], None]
) -> str:
    """Return what the host reads; empty if there is no memory, or nothing to say."""
    event = _read_event(options, env, cwd)
    if event is None:
        return ""
    caller: Caller = options.caller
    options.caller = caller._replace(cwd=event.cwd)
    loaded = load_quietly(options, options.agent)
    if loaded.problem:
        log(loaded.problem)
    if not _has_memory(loaded):
        return ""
    from mdrecall.hosts.hook import answer_event, render_answer
    from mdrecall.notes.repository import is_foreign

    if is_foreign(loaded):
        return render_answer(event, Answer(_explain_foreign(event, env)))
    if caller.open:
        caller.open(loaded)
    deadline = time.monotonic() + _SECONDS if options.deadline is None else options.deadline
    call = HookCall(event, loaded.settings, lambda: caller.open_memory(loaded), now, deadline, log, options.begun)
    return render_answer(event, answer_event(call))


def _explain_foreign(event: HookEvent, env: Mapping[str, str]) -> str:
    """Return why the folder is not used, once per session. The model reads it, because a hook cannot reach the user."""
    if event.event != "session-start" or event.source in ("resume", "compact", "fork") or event.is_subagent:
        return ""
    from mdrecall.hosts.hook import mark_memory

    locations = find_locations(env, event.cwd)
    return mark_memory(
        "The notes in this folder are in a repository with a remote, so mdrecall does not use them as a memory. To have"
        " one, the user can name a folder, this one or another, as agents.defaults.workspace in"
        f" {shorten(locations.own_config, locations.home)}."
    )


def _read_event(options: argparse.Namespace, env: Mapping[str, str], cwd: str) -> HookEvent | None:
    """Return the event that a host describes; None if it means nothing. Raise if it cannot be understood."""
    try:
        payload = json.loads(options.input.strip() or "{}")
    except (ValueError, RecursionError) as error:
        raise RecallError("The input of the hook is not JSON.", hint="Report it to the makers of the host.") from error
    if not isinstance(payload, dict):
        raise RecallError("The input of the hook is not a JSON object.", hint="Report it to the makers of the host.")
    event = read_event(options.event, payload, env, host=options.host, has_terminal=options.terminal)
    if event is None and options.event not in EVENTS:
        raise RecallError(f"There is no event {options.event!r}.", hint=f"The events are {', '.join(EVENTS)}.")
    if event is None and (not options.host or find_host(options.host) is None):
        hint = "Name it with --host."
        raise RecallError(f"The host {options.host!r} is not known." if options.host else "Unknown host.", hint=hint)
    return event and event._replace(cwd=event.cwd if os.path.isabs(event.cwd) else cwd)


def _has_memory(loaded: Loaded) -> bool:
    """True if somebody wants a memory here: a workspace is configured, or the session's folder holds one."""
    from mdrecall.config.workspace import CURRENT_FOLDER, has_memory

    folder, origin = loaded.values["workspace"]
    is_wanted = origin != CURRENT_FOLDER or has_memory(folder, loaded.home)
    return is_wanted and loaded.settings.memory_search.enabled
