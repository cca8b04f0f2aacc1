"""What a host says when it calls a hook, the same for every host."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from mdrecall.hosts.table import Event, Host, find_host, recognise_host
from mdrecall.sources.opening import read_beginning

if TYPE_CHECKING:
    from datetime import datetime

    from mdrecall.config.settings import Settings
    from mdrecall.memory import Memory

EVENTS: tuple[Event, ...] = get_args(Event)
#: Codex says within its first 600 bytes who started it, and then repeats its instructions.
_BEGINNING_BYTES = 4_096


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


class HookCall(NamedTuple):
    """An event, and all that is needed to answer it."""

    event: HookEvent
    settings: "Settings"
    open: "Callable[[], AbstractContextManager[Memory]]"
    """Opens the memory of the workspace."""
    now: "datetime"
    deadline: float
    """When the host must have its answer, by the monotonic clock."""
    log: Callable[[str], None]
    """Writes down what went wrong."""


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
    return HookEvent(
        host=row,
        event=event,
        session=session,
        cwd=_get_text(payload, "cwd"),
        transcript=transcript or _locate(row, session, env),
        prompt=_get_text(payload, "prompt"),
        source=_get_text(payload, "source"),
        host_event=_get_text(payload, "hook_event_name", "hookEventName") or row.events[event],
        is_subagent=event == "subagent-stop" or bool(_get_text(payload, "agent_id", "agentId")),
        is_stop_active=any(payload.get(name) is True for name in ("stop_hook_active", "stopHookActive")),
        is_headless=_is_headless(row, transcript, env, has_terminal),
    )


def _locate(host: Host, session: str, env: Mapping[str, str]) -> str:
    """Return the transcript of a session whose host does not say where it is."""
    if not session:
        return ""
    from mdrecall.errors import RecallError
    from mdrecall.sources.transcripts.hosts import locate_transcript

    try:
        return locate_transcript(host.name, session, env)
    except (RecallError, OSError):
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
