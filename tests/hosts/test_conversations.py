"""What the real hosts write is what the readers read, without what was injected; and a search finds it."""

import json
from pathlib import Path
from typing import Any

import pytest

from mdrecall.sessions.hosts import locate_transcript, read_steps
from mdrecall.sessions.messages import wrap_memory
from mdrecall.types.transcripts import Step
from tests.hosts.conftest import OpenHost
from tests.hosts.model import Model
from tests.hosts.programs import HOSTS, Host, call_shell

_CANARY = "zebrafinch"


def _add_hooks(host: Host) -> tuple[str, ...]:
    """Let the host inject a marked text where it has hooks; return the arguments that this needs."""
    text = json.dumps(wrap_memory(f"the {_CANARY} of memory", "5e1f09ab"))[1:-1]
    top = f'{{"additionalContext": "{text}"}}'
    specific = f'{{"hookSpecificOutput": {{"hookEventName": "EVENT", "additionalContext": "{text}"}}}}'
    script = host.home / "hook.sh"
    script.write_text(f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{top if host.name == 'copilot' else specific}\nEND\n")
    events = ("SessionStart", "BeforeAgent" if host.name == "gemini" else "UserPromptSubmit")
    commands = {event: f"sh {script} | sed s/EVENT/{event}/" for event in events}
    entry = {event: [{"hooks": [{"type": "command", "command": run}]}] for event, run in commands.items()}
    own = {"userPromptSubmitted": [{"type": "command", "bash": f"sh {script}", "timeoutSec": 5}]}
    files: dict[str, tuple[str, dict[str, Any]]] = {
        "claude-code": (".claude/settings.json", {"hooks": entry}),
        "codex": (".codex/hooks.json", {"hooks": entry}),
        "copilot": (".copilot/hooks/memory.json", {"version": 1, "hooks": own}),
        "gemini": (".gemini/settings.json", {"hooks": entry}),
        "qwen": (".qwen/settings.json", {"hooks": entry}),
    }
    if host.name in files:
        name, added = files[host.name]
        file = host.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        before: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(before | added))
    return ("--dangerously-bypass-hook-trust",) if host.name == "codex" else ()


def _read(host: Host) -> list[Step]:
    listed = json.loads(host.mdrecall("sessions", "list", "--json", cwd=host.home).out)
    [session] = {entry["session"] for entry in listed}
    transcript = locate_transcript(host.name, session, host.env)
    return [step for record in read_steps(host.name, transcript) for step in record.steps]


@pytest.mark.parametrize("name", HOSTS)
def test_a_session_of_a_real_host_is_read_and_found(
    name: str, real_host: OpenHost, model: Model, tmp_path: Path
) -> None:
    host, shop = real_host(name), tmp_path / "shop"
    shop.mkdir()
    more = _add_hooks(host)
    model.teach("how many connections", call_shell(name, "echo counted; exit 3"), say="We keep 12 connections.")
    asked = host.ask("how many connections does the flamingo pool have", shop, *more)
    assert asked.code == 0, asked.err
    if name != "opencode":
        assert _CANARY in model.requests_with("flamingo pool")[-1].text
    (host.home / "MEMORY.md").write_text("# Notes\n")
    followed = host.mdrecall("hosts", "follow", name, "--all", cwd=host.home)
    assert followed.code == 0, followed.err
    steps = _read(host)
    said = [(step.kind, step.text.strip()) for step in steps if step.kind in ("user", "assistant")]
    assert said == [
        ("user", "how many connections does the flamingo pool have"),
        ("assistant", "We keep 12 connections."),
    ]
    [call] = [step for step in steps if step.kind == "call"]
    [result] = [step for step in steps if step.kind == "result"]
    assert (call.text, call.call, result.is_ok) == ("echo counted; exit 3", result.call, False)
    assert "counted" in result.text
    assert host.mdrecall("index", cwd=host.home).code == 0
    found = host.mdrecall("search", "flamingo pool", "--source", "sessions", "--json", cwd=host.home)
    assert json.loads(found.out)["results"][0]["path"].startswith(f"sessions/{name}/")
    [listed] = json.loads(host.mdrecall("sessions", "list", "--json", cwd=host.home).out)
    assert (listed["host"], listed["folder"]) == (name, str(shop))
    shown = host.mdrecall("sessions", "show", listed["session"], cwd=host.home).out
    assert "We keep 12 connections." in shown
    assert _CANARY not in shown


@pytest.mark.hosts
@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_what_was_said_before_a_fork_is_found_once(
    name: str, real_host: OpenHost, model: Model, tmp_path: Path
) -> None:
    host, shop = real_host(name), tmp_path / "shop"
    shop.mkdir()
    (host.home / "MEMORY.md").write_text("# Notes\n")
    model.teach("flamingo", say="Twelve flamingos.")
    model.teach("ostrich", say="One ostrich.")
    model.teach("pelican", say="No pelican.")
    host.ask("count each flamingo", shop)
    host.mdrecall("hosts", "follow", name, "--all", cwd=host.home)
    [first] = json.loads(host.mdrecall("sessions", "list", "--json", cwd=host.home).out)
    session = first["session"]
    resume = ("resume", session) if name == "codex" else ("--resume", session)
    fork = ("fork", session) if name == "codex" else ("--resume", session, "--fork-session")
    host.ask("count each ostrich", shop, *resume)
    host.ask("count each pelican", shop, *fork)
    listed = json.loads(host.mdrecall("sessions", "list", "--json", cwd=host.home).out)
    shown = {
        entry["session"]: host.mdrecall("sessions", "show", entry["session"], cwd=host.home).out for entry in listed
    }
    assert len(shown) == 2
    original = shown.pop(session)
    [copied] = shown.values()
    assert [line.partition("  ")[2] for line in original.splitlines()] == [
        "User: count each flamingo",
        "Assistant: Twelve flamingos.",
        "User: count each ostrich",
        "Assistant: One ostrich.",
    ]
    assert [line.partition("  ")[2] for line in copied.splitlines()] == [
        "User: count each pelican",
        "Assistant: No pelican.",
    ]
