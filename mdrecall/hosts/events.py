"""What a host says when it calls a hook, the same for every host, and the log of what went wrong in hooks."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from mdrecall import state_files
from mdrecall.config.environment import find_locations
from mdrecall.config.workspace import locate_receipt
from mdrecall.errors import RecallError, message_with_hint
from mdrecall.hosts.table import Event, Host, find_host, recognise_host
from mdrecall.notes.opening import read_beginning
from mdrecall.notes.repository import find_root, list_projects

if TYPE_CHECKING:
    from mdrecall.config.settings import Settings
    from mdrecall.doctor import Finding
    from mdrecall.memory import Memory

EVENTS: tuple[Event, ...] = get_args(Event)
#: What the marks around a text for the model take of a limit.
_MARK_CHARS = 60
#: Codex says within its first 600 bytes who started it, and then repeats its instructions.
_BEGINNING_BYTES = 4_096

#: Some hundred lines, which is more than anyone reads.
MAX_BYTES = 64 * 1024
#: A line is for a person to read; an error of a library may hold pages.
_MAX_LINE_CHARS = 400
#: What went wrong earlier has been repaired since, or would have happened again.
_RECENT = timedelta(days=7)


class HookEvent(NamedTuple):
    """Something that happened in a session of a host."""

    host: Host
    event: Event
    session: str = ""
    """The host's id of the session."""
    cwd: str = ""
    """The folder that the session is in."""
    transcript: str = ""
    """The file with the conversation; empty if the host gives none."""
    prompt: str = ""
    """What the person typed, if the event is a prompt."""
    source: str = ""
    """Why a session starts: startup, resume, clear, compact, fork, or new."""
    host_event: str = ""
    """What the host calls the event: its answer has to repeat that."""
    is_subagent: bool = False
    """True if it happened in a sub-agent."""
    is_stop_active: bool = False
    """True if the model goes on only because a hook asked it to at an earlier stop."""
    is_headless: bool = False
    """True if nobody sits in front of the host, as far as it can be known."""
    may_search: bool = True
    """True if the model may search the memory: where nobody can permit it, an installation must have done so."""


class HookCall(NamedTuple):
    """An event, and all that is needed to answer it."""

    event: HookEvent
    settings: "Settings"
    open: "Callable[[], AbstractContextManager[Memory]]"
    """Opens the memory of the workspace."""
    now: datetime
    deadline: float
    """When the host must have its answer, by the monotonic clock."""
    log: Callable[[str], None]
    """Writes down what went wrong."""
    begun: float = 0.0
    """When the host called, by the monotonic clock; 0 if that is not known."""

    @property
    def room(self) -> int:
        """How long a text for the model may be, in quarters of tokens."""
        return min(self.settings.mdrecall.hosts.max_chars, self.event.host.max_chars) - _MARK_CHARS

    def list_projects(self) -> tuple[str, ...]:
        """Return what the project of the session may be called; nothing in the folder of the notes."""
        return list_projects(self.event.cwd, self.settings.workspace)


class Answer(NamedTuple):
    """What a hook answers to its host."""

    context: str = ""
    """Text for the model to read."""
    ask: str = ""
    """What the model is asked to do before it stops."""


def read_event(
    name: str, payload: Mapping[str, Any], env: Mapping[str, str], *, host: str = "", has_terminal: bool = False
) -> HookEvent | None:
    """Return the event that a payload describes; None if the host or the event is unknown, or the host has no such one.

    ``host`` is the name of the host if the caller knows it. ``has_terminal`` says that the host was started in one.
    Some hosts write their fields in camel case.
    """
    transcript = _get_text(payload, "transcript_path", "transcriptPath")
    row = find_host(host) if host else recognise_host(transcript, env)
    session = _get_text(payload, "session_id", "sessionId")
    event = next((event for event in EVENTS if event == name), None)
    if row is None or event is None or event not in row.events:
        return None
    cwd = _get_text(payload, "cwd")
    return HookEvent(
        host=row,
        event=event,
        session=session,
        cwd=cwd,
        transcript=transcript or _locate(row, session, env),
        prompt=_get_text(payload, "prompt"),
        source=_get_text(payload, "source"),
        host_event=_get_text(payload, "hook_event_name", "hookEventName") or row.events[event],
        is_subagent=event == "subagent-stop" or bool(_get_text(payload, "agent_id", "agentId")),
        is_stop_active=any(payload.get(name) is True for name in ("stop_hook_active", "stopHookActive")),
        is_headless=(is_headless := _is_headless(row, transcript, env, has_terminal)),
        may_search=not is_headless or _may_search(row, env, cwd),
    )


def _may_search(host: Host, env: Mapping[str, str], cwd: str) -> bool:
    """True if a host asks for no tool that only reads, or was told so when mdrecall was installed in it."""
    state, places = find_locations(env, cwd).own_state_dir, {"user": "", "project": find_root(cwd) or cwd}
    receipts = (locate_receipt(state, host.name, places[scope]) for scope in host.granted)
    return not host.granted or any(map(os.path.exists, receipts))


def describe_failure(error: Exception) -> str:
    """Return what the log says about an error."""
    return message_with_hint(error) if isinstance(error, RecallError) else f"{type(error).__name__}: {error}"


def _locate(host: Host, session: str, env: Mapping[str, str]) -> str:
    """Return the transcript of a session whose host does not say where it is."""
    if not session:
        return ""
    from mdrecall.sessions.hosts import locate_transcript

    with suppress(RecallError, OSError):
        return locate_transcript(host.name, session, env)
    return ""


def _is_headless(host: Host, transcript: str, env: Mapping[str, str], has_terminal: bool) -> bool:
    """True if nobody sits in front of the host; a host that does not say so needs a terminal for a person."""
    variable, value = host.headless_variable
    if variable and variable in env:
        return env[variable] == value
    if host.headless_transcript:
        beginning = read_beginning(transcript, _BEGINNING_BYTES).decode(errors="replace")
        return host.headless_transcript in beginning.replace('": ', '":')
    return not has_terminal


def _get_text(payload: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that holds text; empty if none does."""
    return next((value for name in names if isinstance(value := payload.get(name), str)), "")


def find_log(env: Mapping[str, str], cwd: str) -> str:
    """Return the path of the log, in mdrecall's own state folder."""
    return find_locations(env, cwd).hook_log


def log_problem(path: str, now: datetime, where: str, problem: str) -> None:
    """Add a line to the log, without secrets; a log that cannot be written is not a failure."""
    from mdrecall.text.redact import redact

    said = " ".join(redact(f"{where}: {problem}").split())[:_MAX_LINE_CHARS]
    with suppress(OSError):
        state_files.append_line(path, f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ} {said}", MAX_BYTES)


def check_log(path: str, now: datetime) -> "Iterator[Finding]":
    """Yield a finding if hooks have failed in the last days."""
    from mdrecall.doctor import Finding

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(2 * MAX_BYTES).splitlines()
    except OSError:
        return
    since = f"{now.astimezone(UTC) - _RECENT:%Y-%m-%dT%H:%M:%SZ}"
    recent = [line for line in lines if line >= since]
    if recent:
        times = "once" if len(recent) == 1 else f"{len(recent):,} times"
        message = f"failed {times} in the last 7 days and answered nothing instead; the last time: {recent[-1]}"
        yield Finding("hooks", "note", message, f"Every failure is in {path}.")
