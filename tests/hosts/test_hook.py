"""The pipeline of a hook: in time, in the host's own form, and whatever fails."""

import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mdrecall.errors import ReadError
from mdrecall.hosts import hook
from mdrecall.hosts.digest import lock_progress
from mdrecall.hosts.events import MAX_BYTES, Answer, HookCall, check_log, log_problem, read_event
from mdrecall.hosts.hook import answer_event, render_answer
from mdrecall.hosts.table import HOSTS
from tests.conftest import Workspace
from tests.hosts.calls import NOW, Hooks
from tests.hosts.conversation import Conversation
from tests.processes import until

SHOWN = Answer("<mdrecall-memory>\nfact\n</mdrecall-memory>")
ASKED = SHOWN._replace(ask="write it down")
OTHERS = [host.name for host in HOSTS if host.name != "gemini"]


@pytest.fixture
def hooks(workspace: Workspace) -> Hooks:
    workspace.write("MEMORY.md", "Ana prefers green tea.\n")
    return Hooks(workspace, [])


def specific(event: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": SHOWN.context}}


@pytest.mark.parametrize(
    ("hosts", "event", "answer", "said"),
    [
        (["claude-code", "codex", "qwen"], "prompt", SHOWN, specific("UserPromptSubmit")),
        (["gemini"], "prompt", SHOWN, specific("BeforeAgent")),
        (["copilot", "opencode"], "session-start", SHOWN, {"additionalContext": SHOWN.context}),
        (OTHERS, "stop", ASKED, {"decision": "block", "reason": "write it down"}),
        (["gemini"], "stop", ASKED, {"decision": "deny", "reason": "write it down"}),
        (["claude-code"], "before-compaction", ASKED, SHOWN.context),
        (["codex", "copilot"], "before-compaction", SHOWN, ""),
        ([*OTHERS, "gemini"], "stop", Answer(), ""),
    ],
)
def test_every_host_gets_an_answer_in_its_own_form(hosts: list[str], event: str, answer: Answer, said: object) -> None:
    for host in hosts:
        found = read_event(event, {}, {}, host=host)
        assert found
        text = render_answer(found, answer)
        assert (json.loads(text) if isinstance(said, dict) else text) == said, host


def test_the_name_of_the_event_is_the_one_that_the_host_used() -> None:
    event = read_event("session-start", {"hook_event_name": "sessionStart"}, {}, host="codex")
    assert event
    assert json.loads(render_answer(event, SHOWN)) == specific("sessionStart")


def test_when_the_time_is_over_the_answer_is_what_is_there(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()

    def hang(call: HookCall) -> Iterator[Answer]:
        yield Answer("first")
        end.wait()
        yield Answer("too late")

    monkeypatch.setattr(hook, "_HANDLERS", {"stop": (hang,)})
    call = hooks.call("stop", seconds=0.5)
    try:
        answer = answer_event(call)
    finally:
        end.set()
    assert "first" in answer.context
    assert "too late" not in answer.context
    assert hooks.problems == ["The time was over before everything was done."]


def test_a_part_that_fails_does_not_stop_the_others(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(call: HookCall) -> Iterator[Answer]:
        yield Answer("half")
        raise ReadError("The disk is gone.", path="x", hint="Mount it.")

    def break_down(call: HookCall) -> Iterator[Answer]:
        raise ZeroDivisionError("a bug")

    def ask(call: HookCall) -> Iterator[Answer]:
        yield Answer(ask="write it down")

    monkeypatch.setattr(hook, "_HANDLERS", {"stop": (fail, break_down, ask)})
    answer = hooks.answer("stop")
    assert "half" in answer.context
    assert "write it down" in answer.ask
    assert hooks.problems == ["The disk is gone. Mount it.", "ZeroDivisionError: a bug"]


def test_the_log_is_bounded_private_and_on_lines_with_times_in_utc(tmp_path: Path) -> None:
    path, now = tmp_path / "state" / "hooks.log", datetime(2026, 2, 10, 12, tzinfo=UTC).astimezone()
    for number in range(3 * MAX_BYTES // 100):
        log_problem(str(path), now, "codex stop", f"problem {number}\nin two lines {'x' * 60}")
    text = path.read_text()
    assert MAX_BYTES // 3 < len(text) <= MAX_BYTES + 500
    assert all(line.startswith("2026-02-10T12:00:00Z codex stop: problem ") for line in text.splitlines())
    assert f"problem {3 * MAX_BYTES // 100 - 1} in two lines" in text.splitlines()[-1]
    assert path.stat().st_mode & 0o077 == 0


def test_the_log_holds_no_secret_and_no_page(tmp_path: Path) -> None:
    path = tmp_path / "hooks.log"
    secret = "sk-" + "ant-api03-" + "q7Zx1Lm4" * 6
    log_problem(str(path), NOW, "codex stop", f"key {secret} " + "x" * 10_000)
    assert secret not in path.read_text()
    assert len(path.read_text()) < 500


def test_a_log_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log_problem(str(tmp_path / "file" / "hooks.log"), NOW, "codex stop", "problem")


def test_doctor_shows_what_failed_in_the_last_days(tmp_path: Path) -> None:
    path = str(tmp_path / "hooks.log")
    assert list(check_log(path, NOW)) == []
    log_problem(path, NOW - timedelta(days=30), "codex stop", "long ago")
    assert list(check_log(path, NOW)) == []
    log_problem(path, NOW - timedelta(days=1), "codex stop", "The disk is full.")
    log_problem(path, NOW, "gemini prompt", "The configuration is broken.")
    [finding] = check_log(path, NOW)
    assert finding.verdict == "note"
    assert "2 times" in finding.message
    assert "gemini prompt: The configuration is broken." in finding.message
    assert path in finding.fix


def answer(hooks: Hooks, talk: Conversation, event: str, **more: Any) -> Answer:
    """Answer an event of a session that has a transcript."""
    said = {"session_id": talk.session, "cwd": talk.folder, "transcript_path": str(talk.file)}
    given = hooks.answer(event, **{**said, **more})
    assert hooks.problems == []
    return given


def read_notes(hooks: Hooks) -> str:
    return "\n".join(path.read_text() for path in sorted(hooks.workspace.path.glob("memory/*.md")))


def test_a_stop_writes_nothing_and_asks_about_a_wish(hooks: Hooks, talk: Conversation) -> None:
    talk.turn("I prefer short answers.")
    said = answer(hooks, talk, "stop")
    assert said.context == ""
    assert re.match(r"<mdrecall-memory [0-9a-f]{8}>\nBefore you stop, ", said.ask)
    talk.add("assistant", [{"type": "text", "text": "NO_REPLY"}])
    assert answer(hooks, talk, "stop", stop_hook_active=True) == Answer()
    assert "## Session" not in read_notes(hooks)


@pytest.mark.parametrize("has_stopped", [False, True])
def test_before_compaction_the_summary_is_told_where_the_digest_is(
    hooks: Hooks, talk: Conversation, has_stopped: bool
) -> None:
    talk.turn("fix the pool")
    if has_stopped:
        answer(hooks, talk, "stop")
    said = answer(hooks, talk, "before-compaction")
    assert "word for word" in said.context
    assert f"is in {hooks.workspace.path}/memory/2026-02-10.md." in said.context
    assert answer(hooks, talk, "before-compaction", agent_id="a3") == Answer()


def test_a_start_shows_the_notes_and_then_finishes_what_the_session_before_was_killed_with(
    hooks: Hooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in hooks.workspace.env.items():
        monkeypatch.setenv(name, value)
    killed, following = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb")
    answer(hooks, killed, "session-start", source="startup")
    killed.turn("open the staging server")
    killed.turn("The staging port should be 8123.")
    shown = answer(hooks, following, "session-start", source="startup").context
    assert "green tea" in shown
    assert "port should be 8123" not in shown
    assert until(lambda: "The staging port should be 8123." in read_notes(hooks))
    shown = answer(hooks, following, "session-start", source="clear").context
    assert "The staging port should be 8123." in shown


def test_a_start_shows_the_notes_though_others_hold_what_it_has_to_register(hooks: Hooks, talk: Conversation) -> None:
    with lock_progress(hooks.call("stop").settings):
        assert "green tea" in answer(hooks, talk, "session-start", source="startup").context


def test_the_start_of_a_sub_agent_is_not_registered(hooks: Hooks, talk: Conversation) -> None:
    for more in ({"agent_id": "a3"}, {"session_id": ""}):
        answer(hooks, talk, "session-start", **more)
    assert not list(hooks.workspace.state.rglob("mdrecall-hosts/*.json"))


def test_digests_can_be_switched_off(hooks: Hooks, talk: Conversation) -> None:
    hooks.workspace.configure("{mdrecall: {hosts: {digest: false, flush: false}}}")
    talk.turn("I prefer short answers.")
    for event in ("session-start", "stop", "session-end"):
        assert answer(hooks, talk, event, source="resume") == Answer()
    assert read_notes(hooks) == ""
    assert not list(hooks.workspace.state.rglob("mdrecall-hosts"))
