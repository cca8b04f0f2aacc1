"""The pipeline of a hook: in time, in the host's own form, and whatever fails."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mdrecall.errors import ReadError
from mdrecall.hosts import hook
from mdrecall.hosts.digest import finish_digests
from mdrecall.hosts.events import MAX_BYTES, Answer, HookCall, check_log, log_problem, read_event
from mdrecall.hosts.hook import answer_event, render_answer
from mdrecall.hosts.table import HOSTS
from tests.conftest import Workspace
from tests.hosts.calls import NOW, Hooks
from tests.sessions.host_transcripts import LINES, SESSIONS, Lines, write_host

ANSWER = Answer("<mdrecall-memory>\nfact\n</mdrecall-memory>", "write it down")


@pytest.fixture
def hooks(workspace: Workspace) -> Hooks:
    workspace.write("MEMORY.md", "Ana prefers green tea.\n")
    return Hooks(workspace, [])


def render(host: str, event: str, answer: Answer) -> str:
    found = read_event(event, {}, {}, host=host)
    assert found
    return render_answer(found, answer)


@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini", "qwen"])
def test_text_for_the_model_has_a_place_of_its_own_in_most_hosts(host: str) -> None:
    name = {"gemini": "BeforeAgent"}.get(host, "UserPromptSubmit")
    expected = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": ANSWER.context}}
    assert json.loads(render(host, "prompt", ANSWER._replace(ask=""))) == expected


@pytest.mark.parametrize("host", ["copilot", "opencode"])
def test_text_for_the_model_is_at_the_top_in_others(host: str) -> None:
    assert json.loads(render(host, "session-start", ANSWER._replace(ask=""))) == {"additionalContext": ANSWER.context}


@pytest.mark.parametrize("host", [host.name for host in HOSTS])
def test_a_request_at_a_stop_is_a_refusal_with_its_reason_and_nothing_else(host: str) -> None:
    decision = "deny" if host == "gemini" else "block"
    assert json.loads(render(host, "stop", ANSWER)) == {"decision": decision, "reason": "write it down"}


def test_text_for_a_summary_is_plain_where_the_host_takes_it_and_left_out_elsewhere() -> None:
    assert render("claude-code", "before-compaction", ANSWER) == ANSWER.context
    assert render("codex", "before-compaction", Answer(ANSWER.context)) == ""
    assert render("copilot", "before-compaction", Answer(ANSWER.context)) == ""


@pytest.mark.parametrize("host", [host.name for host in HOSTS])
def test_nothing_to_say_is_no_output(host: str) -> None:
    assert render(host, "stop", Answer()) == ""


def test_the_name_of_the_event_is_the_one_that_the_host_used() -> None:
    event = read_event("session-start", {"hook_event_name": "sessionStart"}, {}, host="codex")
    assert event
    assert json.loads(render_answer(event, ANSWER))["hookSpecificOutput"]["hookEventName"] == "sessionStart"


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


def test_the_log_is_bounded_private_and_on_lines(tmp_path: Path) -> None:
    path = tmp_path / "state" / "hooks.log"
    for number in range(3 * MAX_BYTES // 100):
        log_problem(str(path), NOW, "codex stop", f"problem {number}\nin two lines {'x' * 60}")
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


def test_a_moment_in_another_zone_is_logged_in_utc(tmp_path: Path) -> None:
    path = tmp_path / "hooks.log"
    log_problem(str(path), datetime(2026, 2, 10, 12, tzinfo=UTC).astimezone(), "codex stop", "x")
    assert path.read_text() == "2026-02-10T12:00:00Z codex stop: x\n"


def read_notes(hooks: Hooks) -> str:
    return "\n".join(path.read_text() for path in sorted(hooks.workspace.path.glob("memory/*.md")))


def have_conversation(home: Path, host: str, lines: Lines | None = None) -> dict[str, Any]:
    return {"transcript_path": write_host(home, host, lines=lines), "session_id": SESSIONS[host]}


@pytest.mark.parametrize("host", [host.name for host in HOSTS])
def test_stops_gather_what_a_digest_says_once(hooks: Hooks, tmp_path: Path, host: str) -> None:
    said = have_conversation(tmp_path, host)
    for _ in range(2):
        assert hooks.answer("stop", host, **said) == ("", "")
        assert read_notes(hooks) == ""
    for _ in range(2):
        finish_digests(hooks.call("stop", host, **said).settings, NOW)
        assert read_notes(hooks).count("mdrecall:digest host=" + host) == 1
        assert read_notes(hooks).count("mdrecall:digest") == 1
    assert hooks.problems == []


def test_before_a_compaction_the_digest_is_written_and_the_summary_is_told_where(hooks: Hooks, tmp_path: Path) -> None:
    said = have_conversation(tmp_path, "claude-code")
    text = hooks.answer("before-compaction", **said).context
    assert "word for word" in text
    assert f"is in {hooks.workspace.path}/memory/2026-02-10.md." in text
    assert "mdrecall:digest" in read_notes(hooks)


def test_digests_can_be_switched_off(hooks: Hooks, tmp_path: Path) -> None:
    hooks.workspace.configure("{mdrecall: {hosts: {digest: false}}}")
    said = have_conversation(tmp_path, "claude-code")
    for event in ("session-start", "before-compaction", "stop", "session-end"):
        hooks.answer(event, **said)
    assert read_notes(hooks) == ""


def test_a_wish_lets_a_stop_ask_the_model_once(hooks: Hooks, tmp_path: Path) -> None:
    wish = {"type": "user_message", "message": "Always answer in German."}
    said = have_conversation(tmp_path, "codex", [*LINES["codex"](), {"type": "event_msg", "payload": wish}])
    first, second = (hooks.answer("stop", "codex", **said).ask for _ in range(2))
    assert first.startswith("<mdrecall-memory ")
    assert "- Always answer in German.\n" in first
    assert second == ""
