"""Conversations where ``session.store`` puts them, in cold storage, and by the outside program that a hook read."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mdrecall.life.forget import ForgetRequest, Forgetting
from tests.sources.openclaw_store import OpenClawStore, message
from tests.test_conversations import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_store_that_agents_share_is_searched_for_the_own_agent_only(home: Home) -> None:
    store = OpenClawStore(home.base / "made")
    for agent in ("main", "other"):
        store.begin(agent, f"agent:{agent}:main")
        store.add(agent, message("e1", "user", f"The walrus of {agent} is in the harbour"))
    folder = home.base / "data"
    folder.mkdir()
    shutil.copy(store.file, folder / "shared.sqlite")
    home.configure(session={"store": "~/data/shared.sqlite"})
    for agent in ("main", "other"):
        with home.open(agent) as memory:
            assert [found.path for found in memory.search("walrus harbour")] == [f"sessions/{agent}/{agent}.jsonl"]
    before = (folder / "shared.sqlite").read_bytes()
    assert [path.name for path in folder.iterdir()] == ["shared.sqlite"]
    assert (folder / "shared.sqlite").read_bytes() == before


def test_transcripts_beside_another_list_of_sessions_are_found(home: Home) -> None:
    folder = home.base / "data" / "main"
    folder.mkdir(parents=True)
    talk = home.say("talk", "Where is the lighthouse key?", "In the blue drawer.")
    shutil.move(talk, folder / "talk.jsonl")
    (folder / "sessions.json").write_text(json.dumps({"agent:main:main": {"sessionId": "talk", "chatType": "direct"}}))
    home.configure(session={"store": "~/data/{agentId}/sessions.json"})
    with home.open() as memory:
        assert [found.path for found in memory.search("lighthouse key")] == ["sessions/talk.jsonl"]
        assert [each.session_key for each in memory.sessions()] == ["agent:main:main"]


def test_a_conversation_is_still_found_when_it_was_moved_to_cold_storage(home: Home) -> None:
    store = OpenClawStore(home.state)
    store.begin("s1")
    store.add("s1", message("e1", "user", "The walrus is in the harbour"))
    store.freeze("s1")
    with home.open() as memory:
        assert [found.citation for found in memory.search("walrus harbour")] == ["sessions/main/s1.jsonl#L2"]
        assert "walrus" in memory.read_session("s1").text


@pytest.mark.parametrize(("source", "sessions"), [("gmail", ["s1"]), ("GMail", ["s1"]), ("hooky", ["s2"]), ("s3", [])])
def test_sessions_are_forgotten_by_the_program_that_a_hook_read(home: Home, source: str, sessions: list[str]) -> None:
    store = OpenClawStore(home.state)
    store.begin("s1", "agent:main:work", hook_external_content_source="gmail")
    store.begin("s2", "agent:main:hook:hooky")
    store.begin("s3", "agent:main:s3")
    for session in ("s1", "s2", "s3"):
        store.add(session, message("e1", "user", f"The walrus of {session} is in the harbour"))
    with home.open() as memory:
        plan = Forgetting(memory).plan(ForgetRequest(hook_sources=(source,)), datetime.now(UTC))
    assert [match.session for match in plan.sessions] == sessions
