"""Digests and flush requests as answers to the events of a host."""

import re
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from mdrecall import Memory
from mdrecall.hosts.digest import lock_progress
from mdrecall.hosts.events import Answer, HookCall, HookEvent
from mdrecall.hosts.hook import answer_event
from tests.conftest import Workspace
from tests.hosts.conversation import DAY, NOW, Conversation, settings_of
from tests.processes import PATIENCE_S, until


@pytest.fixture
def talk(tmp_path: Path) -> Conversation:
    return Conversation(tmp_path)


def answer(workspace: Workspace, event: HookEvent, **config: object) -> Answer:
    settings, problems = settings_of(workspace, **config), list[str]()

    def open_memory() -> AbstractContextManager[Memory]:
        return Memory.open(workspace.path, env=workspace.env)

    call = HookCall(event, settings, open_memory, NOW, time.monotonic() + PATIENCE_S, problems.append)
    said = answer_event(call)
    assert problems == []
    return said


def note(workspace: Workspace) -> str:
    path = workspace.path / "memory" / f"{DAY}.md"
    return path.read_text() if path.exists() else ""


def test_a_stop_asks_about_a_wish(workspace: Workspace, talk: Conversation) -> None:
    talk.turn("I prefer short answers.")
    said = answer(workspace, talk.event("stop"))
    assert said.context == ""
    assert re.match(r"<mdrecall-memory [0-9a-f]{8}>\nBefore you stop, ", said.ask)
    talk.add("assistant", [{"type": "text", "text": "NO_REPLY"}])
    assert answer(workspace, talk.event("stop", is_stop_active=True)) == Answer()
    assert note(workspace) == ""


@pytest.mark.parametrize("has_stopped", [False, True])
def test_before_compaction_the_summary_is_told_where_the_digest_is(
    workspace: Workspace, talk: Conversation, has_stopped: bool
) -> None:
    talk.turn("fix the pool")
    if has_stopped:
        answer(workspace, talk.event("stop"))
    said = answer(workspace, talk.event("before-compaction"))
    assert "word for word" in said.context
    assert f"{workspace.path}/memory/{DAY}.md" in said.context
    assert answer(workspace, talk.event("before-compaction", is_subagent=True)) == Answer()


def test_a_start_shows_the_notes_and_then_finishes_what_the_session_before_was_killed_with(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in workspace.env.items():
        monkeypatch.setenv(name, value)
    killed, following = Conversation(tmp_path, "aaa"), Conversation(tmp_path, "bbb")
    workspace.write("MEMORY.md", "# Memory\n\nAna prefers green tea.\n")
    answer(workspace, killed.event("session-start", source="startup"))
    killed.turn("open the staging server")
    killed.turn("The staging port should be 8123.")
    shown = answer(workspace, following.event("session-start", source="startup")).context
    assert "green tea" in shown
    assert "port should be 8123" not in shown
    assert until(lambda: "The staging port should be 8123." in note(workspace))
    shown = answer(workspace, following.event("session-start", source="clear")).context
    assert "The staging port should be 8123." in shown


def test_a_start_shows_the_notes_though_others_hold_what_it_has_to_register(
    workspace: Workspace, talk: Conversation
) -> None:
    workspace.write("MEMORY.md", "# Memory\n\nAna prefers green tea.\n")
    with lock_progress(settings_of(workspace)):
        assert "green tea" in answer(workspace, talk.event("session-start", source="startup")).context


def test_the_start_of_a_sub_agent_is_not_registered(workspace: Workspace, talk: Conversation) -> None:
    for more in ({"is_subagent": True}, {"session": ""}):
        answer(workspace, talk.event("session-start", **more))
    assert not list(workspace.state.rglob("mdrecall-hosts/*.json"))


def test_digests_can_be_switched_off(workspace: Workspace, talk: Conversation) -> None:
    off = {"mdrecall": {"hosts": {"digest": False, "flush": False}}}
    talk.turn("I prefer short answers.")
    for name in ("session-start", "stop", "session-end"):
        assert answer(workspace, talk.event(name, source="resume"), **off) == Answer()
    assert note(workspace) == ""
    assert not list(workspace.state.rglob("mdrecall-hosts"))
