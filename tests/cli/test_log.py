"""``mdrecall log``: what agents were shown, and lines that are silenced."""

import pytest

from tests.cli.conftest import Run
from tests.conftest import Workspace
from tests.hosts.calls import Hooks

PROMPT = "how many connections does the database pool have?"


@pytest.fixture
def hooks(workspace: Workspace) -> Hooks:
    workspace.write("memory/pool.md", "# Database pool\n\nThe database pool has twelve connections.\n")
    workspace.memory().sync()
    return Hooks(workspace, [])


def test_the_log_shows_per_session_what_was_shown_when_and_why(hooks: Hooks, run: Run) -> None:
    hooks.answer("prompt", prompt=PROMPT)
    hooks.answer("prompt", prompt=PROMPT, session_id="s2")
    hooks.answer("prompt", prompt="thanks, go ahead", session_id="s2")
    ran = run("log")
    assert ran.code == 0
    first, second = ran.out.split("\nclaude-code", 1)
    assert first.startswith(f"claude-code  {hooks.workspace.path.name}  session s1\n")
    assert "session s2" in second
    assert "prompt  0 ms  a question, at least 0." in first
    assert "\n     1  memory/pool.md#L" in first
    assert "twelve connections" in first
    assert "\n     2  memory/pool.md#L" in second
    assert "1 prompt got nothing (nothing to look for: 1)" in second
    assert run("log", "-n", "2").out == f"claude-code{second}"
    assert "s2" not in run("log", "--session", "s1").out


def test_a_line_is_silenced_and_taken_back(hooks: Hooks, run: Run) -> None:
    hooks.answer("prompt", prompt=PROMPT)
    assert run("log", "--silence", "1")[:2] == (0, "Line 1 is silenced. A search still finds it.\n")
    assert hooks.answer("prompt", prompt=PROMPT, session_id="s2").context == ""
    assert "twelve" in run("search", PROMPT).out
    shown, _, silenced = run("log").out.partition("\nSilenced:\n")
    assert shown.count("  silenced\n") == 1
    assert "   2  memory/pool.md#L" in silenced
    assert "twelve" in silenced
    assert run("log", "--silence", "2")[:2] == (0, "Line 2 may be shown again.\n")
    assert "twelve" in hooks.answer("prompt", prompt=PROMPT, session_id="s3").context


@pytest.mark.parametrize("number", ["0", "2", "99999999999999999999", "x"])
def test_a_number_that_no_line_has_is_an_error(hooks: Hooks, run: Run, number: str) -> None:
    hooks.answer("prompt", prompt=PROMPT)
    ran = run("log", f"--silence={number}")
    assert ran.code == 2
    assert f"line {number}" in ran.err or "is not a whole number" in ran.err


def test_a_line_that_has_changed_is_marked(hooks: Hooks, run: Run) -> None:
    hooks.answer("prompt", prompt=PROMPT)
    hooks.workspace.write("memory/pool.md", "# Database pool\n\nIt was closed.\n")
    assert "changed since" in run("log").out


def test_control_characters_of_a_host_never_reach_the_terminal(hooks: Hooks, run: Run) -> None:
    hooks.answer("prompt", prompt=PROMPT, session_id="s\x1b[2J")
    assert "\x1b" not in run("log").out
