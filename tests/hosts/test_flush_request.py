"""Asking the host's model to write down what matters: when, how often, and never where it would disturb."""

import json
import os
import re
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.settings import Settings
from mdrecall.hosts import digest
from mdrecall.hosts.digest import ask_for_flush
from mdrecall.hosts.events import HookEvent
from mdrecall.hosts.table import find_host
from tests.conftest import Workspace
from tests.hosts.conversation import NOW, Conversation, settings_of
from tests.sessions.host_transcripts import LINES, SESSIONS, write_host

#: The default threshold is 176,000 of 200,000 tokens.
FULL = 180_000


@pytest.fixture
def settings(workspace: Workspace) -> Settings:
    return settings_of(workspace)


@pytest.fixture
def talk(tmp_path: Path) -> Conversation:
    return Conversation(tmp_path)


def ask(talk: Conversation, settings: Settings, **more: Any) -> str:
    return ask_for_flush(talk.event("stop", **more), settings, NOW)


def test_the_model_is_asked_once_when_its_context_is_nearly_full(settings: Settings, talk: Conversation) -> None:
    talk.turn("fix the pool", tokens=1_000)
    assert ask(talk, settings) == ""
    talk.turn("and the queue", tokens=FULL)
    request = ask(talk, settings)
    assert f"{settings.workspace}/memory/2026-02-10.md" in request
    assert "NO_REPLY" in request
    talk.turn("go on", tokens=FULL + 5_000)
    assert ask(talk, settings) == ""


def test_a_long_transcript_is_read_in_parts_and_each_is_kept(
    settings: Settings, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "MAX_BYTES", 1_000)
    for _ in range(4):
        talk.turn("x" * 2_000, tokens=1_000)
    talk.turn("and the queue", tokens=FULL)
    asked = [ask(talk, settings) for _ in range(6)]
    assert [bool(text) for text in asked] == [False, False, False, False, True, False]


def test_after_a_compaction_it_is_asked_again_only_when_its_context_is_full_again(
    settings: Settings, talk: Conversation
) -> None:
    talk.turn("one", tokens=FULL)
    assert ask(talk, settings)
    talk.compact()
    assert ask(talk, settings) == ""
    talk.turn("two", tokens=9_000)
    assert ask(talk, settings) == ""
    talk.turn("three", tokens=FULL)
    assert ask(talk, settings)
    assert ask(talk, settings) == ""


def test_a_compaction_that_was_not_seen_at_a_stop_counts(settings: Settings, talk: Conversation) -> None:
    talk.turn("one", tokens=FULL)
    assert ask(talk, settings)
    talk.compact()
    talk.turn("two", tokens=FULL)
    assert ask(talk, settings)


@pytest.mark.parametrize("host", LINES)
def test_the_tokens_are_read_in_the_transcripts_of_all_hosts(workspace: Workspace, tmp_path: Path, host: str) -> None:
    """Each conversation counts 100 tokens; a quarter of the window is reserved, and half of the rest is enough."""
    row = find_host(host)
    assert row is not None
    compaction = "compact|compress|state_snapshot"
    lines = list(takewhile(lambda line: not re.search(compaction, json.dumps(line)), LINES[host]()))
    event = HookEvent(row, "stop", SESSIONS[host], transcript=write_host(tmp_path, host, lines=lines))
    for window, is_asked in ((267, False), (266, True), (266, False)):
        settings = settings_of(workspace, agents={"defaults": {"contextTokens": window}})
        assert bool(ask_for_flush(event, settings, NOW)) == is_asked


@pytest.mark.parametrize(
    "more",
    [{"is_stop_active": True}, {"is_subagent": True}, {"is_headless": True}, {"session": ""}, {"transcript": ""}],
)
def test_nobody_is_asked_where_it_would_disturb(settings: Settings, talk: Conversation, more: dict[str, Any]) -> None:
    talk.turn("one", tokens=FULL)
    assert ask(talk, settings, **more) == ""
    assert ask_for_flush(talk.event("before-compaction"), settings, NOW) == ""
    assert ask(talk, settings)


@pytest.mark.parametrize(
    ("config", "is_headless", "is_asked"),
    [
        ({"mdrecall": {"hosts": {"flush": False}}}, False, False),
        ({"mdrecall": {"hosts": {"flushHeadless": True}}}, True, True),
        ({"agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": False}}}}}, False, False),
        ({"agents": {"defaults": {"contextTokens": 1_000_000}}}, False, False),
    ],
)
def test_settings_decide(
    workspace: Workspace, talk: Conversation, config: dict[str, Any], is_headless: bool, is_asked: bool
) -> None:
    talk.turn("one", tokens=FULL)
    assert bool(ask(talk, settings_of(workspace, **config), is_headless=is_headless)) == is_asked


def test_a_custom_prompt_is_used(workspace: Workspace, talk: Conversation) -> None:
    flush = {"prompt": "Note the birds."}
    settings = settings_of(workspace, agents={"defaults": {"compaction": {"memoryFlush": flush}}})
    talk.turn("one", tokens=FULL)
    assert ask(talk, settings).startswith("Note the birds.")


def test_a_damaged_record_counts_as_none(settings: Settings, talk: Conversation) -> None:
    talk.turn("one", tokens=FULL)
    assert ask(talk, settings)
    folder = Path(settings.state_dir, "mdrecall-hosts")
    (found,) = [name for name in os.listdir(folder) if name.endswith(".flush")]
    (folder / found).write_text('{"number": "x", "asked_at"')
    assert ask(talk, settings)
