"""What the hosts say, as one event: by name, by transcript, by environment."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mdrecall.hosts.events import EVENTS, HookEvent, read_event
from mdrecall.hosts.table import HOSTS, find_host

TRANSCRIPTS = {
    "copilot": "/home/ada/.copilot/session-state/46a/events.jsonl",
    "codex": "/home/ada/.codex/sessions/2026/02/10/rollout-2026-02-10T09-00-00-01a.jsonl",
    "gemini": "/home/ada/.gemini/tmp/shop/chats/session-2026-02-10T09-00-08ab.jsonl",
    "qwen": "/home/ada/.qwen/projects/-home-ada-shop/chats/5f0c.jsonl",
    "claude-code": "/home/ada/.claude/projects/-home-ada-shop/5f0c.jsonl",
}
VARIABLES = {
    "copilot": "COPILOT_CLI",
    "gemini": "GEMINI_SESSION_ID",
    "qwen": "QWEN_PROJECT_DIR",
    "claude-code": "CLAUDECODE",
}


def read(name: str, payload: dict[str, Any], env: dict[str, str] | None = None, host: str = "") -> HookEvent:
    event = read_event(name, payload, env or {}, host=host)
    assert event is not None
    return event


@pytest.mark.parametrize("host", TRANSCRIPTS)
def test_a_host_is_recognised_by_the_path_of_its_transcript(host: str) -> None:
    others = dict.fromkeys(VARIABLES.values(), "1")
    assert read("stop", {"transcript_path": TRANSCRIPTS[host]}, others).host.name == host


@pytest.mark.parametrize("host", VARIABLES)
def test_without_a_transcript_the_environment_decides(host: str) -> None:
    assert read("stop", {}, {VARIABLES[host]: "1", "CLAUDE_PROJECT_DIR": "/home/ada/shop"}).host.name == host


def test_the_name_of_the_host_wins_over_everything_else() -> None:
    event = read("stop", {"transcript_path": TRANSCRIPTS["codex"]}, {"CLAUDECODE": "1"}, host="opencode")
    assert event.host.name == "opencode"


@pytest.mark.parametrize(
    ("name", "host"), [("stop", "emacs"), ("stop", ""), ("tool-use", "codex"), ("before-compaction", "gemini")]
)
def test_an_unknown_host_or_event_is_no_event(name: str, host: str) -> None:
    assert read_event(name, {}, {"CLAUDE_PROJECT_DIR": "/"}, host=host) is None


@pytest.mark.parametrize(
    ("name", "host", "payload", "fields"),
    [
        ("stop", "claude-code",
         {"session_id": "5f0c", "cwd": "/home/ada/shop", "hook_event_name": "Stop", "stop_hook_active": True},
         {"session": "5f0c", "cwd": "/home/ada/shop", "host_event": "Stop", "is_stop_active": True,
          "is_subagent": False}),
        ("prompt", "", {"sessionId": "46a", "transcriptPath": TRANSCRIPTS["copilot"], "prompt": "fix the pool"},
         {"session": "46a", "prompt": "fix the pool", "host_event": "UserPromptSubmit"}),
        ("prompt", "codex", {"agent_id": "a3", "prompt": "look"}, {"is_subagent": True}),
        ("subagent-stop", "claude-code", {"agent_type": ""}, {"is_subagent": True}),
        ("prompt", "qwen", {"cwd": 3, "prompt": None, "stop_hook_active": "yes"},
         {"cwd": "", "prompt": "", "is_stop_active": False}),
        ("prompt", "qwen", {}, {"cwd": "", "prompt": "", "is_stop_active": False}),
    ],
    ids=["Claude Code", "camel case of Copilot", "sub-agent begins", "sub-agent ends", "wrong types", "nothing"],
)  # fmt: skip
def test_the_fields_of_a_payload_are_read(
    name: str, host: str, payload: dict[str, Any], fields: dict[str, Any]
) -> None:
    event = read(name, payload, host=host)._asdict()
    assert event | fields == event


def test_a_transcript_that_the_host_does_not_name_is_found(tmp_path: Path) -> None:
    path = tmp_path / ".copilot" / "session-state" / "46a" / "events.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{}\n")
    env = {"HOME": str(tmp_path)}
    assert read("session-start", {"session_id": "46a"}, env, host="copilot").transcript == str(path)
    assert read("session-start", {"session_id": "46b"}, env, host="copilot").transcript == ""


@pytest.mark.parametrize(("attended", "is_headless"), [("0", True), ("1", False)])
def test_claude_code_says_if_somebody_is_there(attended: str, is_headless: bool) -> None:
    env = {"CLAUDE_CODE_SESSION_ATTENDED": attended}
    assert read("stop", {}, env, host="claude-code").is_headless is is_headless


@pytest.mark.parametrize(("source", "is_headless"), [("exec", True), ("cli", False)])
def test_the_transcript_of_codex_says_if_somebody_is_there(tmp_path: Path, source: str, is_headless: bool) -> None:
    transcript = tmp_path / "rollout-2026-02-10T09-00-00-01a.jsonl"
    line = {"type": "session_meta", "payload": {"source": source, "base_instructions": {"text": "be good" * 9999}}}
    transcript.write_text(json.dumps(line) + "\n")
    event = read("stop", {"transcript_path": str(transcript)})
    assert (event.host.name, event.is_headless) == ("codex", is_headless)


def test_a_pipe_in_place_of_a_transcript_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert read("stop", {"transcript_path": str(tmp_path / "pipe.jsonl")}, {}, host="codex").is_headless is False


@pytest.mark.parametrize("has_terminal", [True, False])
def test_a_host_that_says_nothing_is_headless_without_a_terminal(has_terminal: bool) -> None:
    event = read_event("stop", {}, {}, host="gemini", has_terminal=has_terminal)
    assert event
    assert event.is_headless is not has_terminal


def test_every_row_names_only_events_of_ours_and_shapes_only_for_its_events() -> None:
    assert len({host.name for host in HOSTS}) == len(HOSTS) == 6
    for host in HOSTS:
        assert set(host.shapes) <= set(host.events) <= set(EVENTS)
        assert find_host(host.name) is host
