"""The hosts, one row each: how a host is recognised, its events and answers."""

import os
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Event = Literal[
    "session-start", "prompt", "before-compaction", "after-compaction", "stop", "subagent-stop", "session-end"
]
#: How text for the model is written: in ``hookSpecificOutput``, as ``additionalContext`` at the top, or as plain text.
Shape = Literal["specific", "top", "text"]

#: Claude Code injects up to 10,000 characters, and beyond that a preview of 2 KB. The rest is for what it adds itself.
#: The limits of hosts that state none are not known, so they get the same.
_MAX_CHARS = 9_000
#: Codex injects up to 2,500 tokens and cuts the middle out of more. It counts four bytes as a token, in any language.
_MAX_CODEX_BYTES = 8_000
#: The hooks that are installed, and the seconds after which the host ends them. The hook itself answers well before. At
#: the end of a session Codex warns about more than three seconds, and one was too little on a busy machine: Claude Code
#: told the person that the hook was cancelled.
TIMEOUTS: Mapping[Event, int] = {
    "session-start": 5, "prompt": 5, "before-compaction": 10, "stop": 10, "session-end": 3
}  # fmt: skip


class Host(NamedTuple):
    """A coding agent that calls mdrecall at its events."""

    name: str
    events: Mapping[Event, str]
    """What the host calls each event. An event that is missing is never answered."""
    shapes: Mapping[Event, Shape]
    """The events whose answer may hold text for the model, and how it is written."""
    transcript: str = ""
    """A pattern that the paths of its transcripts match, and those of no other host; empty if it gives none."""
    variable: str = ""
    """An environment variable that it sets for its hooks, and that the hosts above it in the table do not set."""
    headless_variable: tuple[str, str] = ("", "")
    """A variable, and the value that it has if nobody sits in front of the host."""
    headless_transcript: str = ""
    """A text in the beginning of a transcript if nobody sits in front of the host."""
    refusal: str = "block"
    """The ``decision`` that lets the model go on instead of stopping."""
    granted: tuple[str, ...] = ()
    """The scopes whose installation allows the reading tools in advance; empty if the host never asks for them."""
    timeout_unit: Literal["s", "ms"] = "s"
    """The unit of ``timeout`` in its configuration of hooks."""
    max_chars: int = _MAX_CHARS
    """How long a text for the model may be; a character outside of ASCII counts as four, and has at most four bytes."""


def render_hooks(host: Host, command: str, *, is_named: bool = True) -> dict[str, Any]:
    """Return the hooks of a host in the shape that most have; ``is_named`` writes its name into the commands."""
    unit = 1000 if host.timeout_unit == "ms" else 1
    name = f" --host {host.name}" if is_named else ""
    return {
        host.events[event]: {
            "hooks": [{"type": "command", "command": f"{command} hook {event}{name}", "timeout": seconds * unit}]
        }
        for event, seconds in TIMEOUTS.items()
        if event in host.events
    }


_CLAUDE_EVENTS: Mapping[Event, str] = {
    "session-start": "SessionStart", "prompt": "UserPromptSubmit", "before-compaction": "PreCompact",
    "after-compaction": "PostCompact", "stop": "Stop", "subagent-stop": "SubagentStop", "session-end": "SessionEnd",
}  # fmt: skip
_SPECIFIC: Mapping[Event, Shape] = {"session-start": "specific", "prompt": "specific"}

#: In the order in which their variables are looked at: a host that was started by another one inherits its variables.
HOSTS = (
    Host("copilot", {event: name for event, name in _CLAUDE_EVENTS.items() if event != "after-compaction"},
         {"session-start": "top", "prompt": "top"},
         r"/session-state/[^/]+/events\.jsonl$", "COPILOT_CLI"),
    Host("codex", _CLAUDE_EVENTS, _SPECIFIC, r"(?:^|/)rollout-[^/]+\.jsonl$",
         headless_transcript='"source":"exec"', max_chars=_MAX_CODEX_BYTES),
    # It says that it is about to compact before each request to the model, so that event means nothing.
    Host("gemini", {"session-start": "SessionStart", "prompt": "BeforeAgent", "stop": "AfterAgent",
                    "session-end": "SessionEnd"},
         _SPECIFIC, r"/\.gemini/tmp/.+/chats/", "GEMINI_SESSION_ID", refusal="deny",
         granted=("user",), timeout_unit="ms"),
    Host("qwen", _CLAUDE_EVENTS, _SPECIFIC, r"/\.qwen/projects/.+/chats/", "QWEN_PROJECT_DIR",
         granted=("user", "project"), timeout_unit="ms"),
    Host("claude-code", _CLAUDE_EVENTS, {**_SPECIFIC, "before-compaction": "text"},
         r"/\.claude/projects/", "CLAUDECODE", headless_variable=("CLAUDE_CODE_SESSION_ATTENDED", "0"),
         granted=("user", "project")),
    # mdrecall's own plugin runs inside the host and calls the command, with the names that it likes.
    Host("opencode", {event: event for event in _CLAUDE_EVENTS},
         {"session-start": "top", "prompt": "top", "before-compaction": "top"}),
)  # fmt: skip


def find_host(name: str) -> Host | None:
    """Return the host with a name."""
    return next((host for host in HOSTS if host.name == name), None)


def recognise_host(transcript: str, env: Mapping[str, str]) -> Host | None:
    """Return the host that a hook runs for, by the path of its transcript, else by its environment."""
    path = transcript.replace(os.sep, "/")
    by_path = (host for host in HOSTS if host.transcript and re.search(host.transcript, path))
    by_variable = (host for host in HOSTS if host.variable and env.get(host.variable))
    return next(by_path, None) or next(by_variable, None)
