"""Conversations where ``session.store`` puts them, in cold storage, and by the outside program that a hook read."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mdrecall.life.forget import ForgetRequest, Forgetting
from mdrecall.memory import Memory
from tests.conftest import environment
from tests.doors.doors import run_in_process
from tests.life.traces import find_traces
from tests.sessions.openclaw_store import OpenClawStore, message
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
    before = (folder / "shared.sqlite").read_bytes()
    for agent in ("main", "other"):
        with home.open(agent) as memory:
            assert [found.path for found in memory.search("walrus harbour")] == [f"sessions/{agent}/{agent}.jsonl"]
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


@pytest.mark.parametrize(
    "how", [("--hook-source", "gmail"), ("--participant", "user-9"), ("--session", "talk")], ids=lambda how: how[0]
)
def test_a_frozen_conversation_of_a_store_elsewhere_is_forgotten_everywhere(home: Home, how: tuple[str, str]) -> None:
    store = OpenClawStore(home.base / "made")
    store.begin("talk", "agent:main:mail", hook_external_content_source="gmail")
    store.begin("other", "agent:main:main")
    for session in ("talk", "other"):
        store.add(session, message("e1", "user", f"The zorkberries of {session} are in the harbour"))
    store.execute("CREATE TABLE session_participants (session_key TEXT, identity_namespace TEXT, actor_id TEXT)")
    store.execute("INSERT INTO session_participants VALUES ('agent:main:mail', '{}', 'user-9')")
    store.freeze("talk", storage="sqlite")
    folder = home.base / "data"
    folder.mkdir()
    shutil.copy(store.file, folder / "store.sqlite")
    home.configure(session={"store": "~/data/store.sqlite"})
    before = (folder / "store.sqlite").read_bytes()

    def run(*arguments: str) -> Any:
        with environment(home.env, home.workspace):
            code, out = run_in_process([*arguments, "--agent", "main", "--json"])
        return code, json.loads(out)

    def find() -> list[str]:
        (_, answer), (_, talk) = run("search", "zorkberries"), run("sessions", "search", "zorkberries")
        found = [hit["path"] for hit in answer["results"]] + [hit["sessionId"] for hit in talk["results"]]
        return sorted({name.rpartition("/")[2].removesuffix(".jsonl") for name in found})

    assert find() == ["other", "talk"]
    shown = run("forget", *how)[1]
    assert (shown["dryRun"], shown["sessionIds"], find()) == (True, ["talk"], ["other", "talk"])
    assert shown["participantMatches"] == (["user-9"] if how[0] == "--participant" else [])
    assert run("forget", *how, "--apply")[0] == 0
    assert run("index", "--force")[0] == 0
    assert find() == ["other"]
    assert [each["session"] for each in run("sessions", "list")[1]] == ["other"]
    assert [run("sessions", which, "talk")[0] for which in ("show", "history")] == [2, 2]
    assert find_traces([home.state, home.workspace], "zorkberries of talk") == []
    assert (folder / "store.sqlite").read_bytes() == before


def test_what_openclaw_was_told_to_forget_is_in_no_byte_of_the_index(home: Home) -> None:
    store = OpenClawStore(home.state)
    for name in ("talk", *(f"other{number}" for number in range(8))):
        store.begin(name, f"agent:main:telegram:direct:{name}")
        what = "zorkberries of Quibblethorpe" if name == "talk" else "harbour lantern of the walrus"
        store.add(name, *(message(f"{name}{at}", "user", f"The {what}, number {at}, is violet") for at in range(20)))
    with home.open() as memory:
        memory.sync()
        index = Path(memory.settings.index_path)
        assert find_traces([index.parent], "zorkberries")
        store.execute("INSERT INTO memory_session_tombstones VALUES ('talk', 'main', 'forgotten', 1)")
        assert not [hit for hit in memory.search("zorkberries") if "zorkberries" in hit.snippet]
        memory.sync()
        assert find_traces([index.parent], "zorkberries") == []
        assert memory.search("harbour lantern")
        report = memory.sync()
        assert (report.rebuilt, report.left, report.removed) == (False, 0, 0)


def test_what_a_short_search_cannot_erase_the_next_sync_erases(home: Home) -> None:
    store = OpenClawStore(home.state)
    for name in ("talk", "other"):
        store.begin(name, f"agent:main:telegram:direct:{name}")
        store.add(name, message(f"{name}1", "user", f"The zorkberries of {name} are violet"))
    with home.open() as memory:
        memory.sync()
    store.execute("INSERT INTO memory_session_tombstones VALUES ('talk', 'main', 'forgotten', 1)")
    home.configure(mdrecall={"searchWaitMs": 0})
    with Memory.open(env=home.env, one_shot=True) as memory:
        answer = memory.search("zorkberries")
        assert [hit.path for hit in answer] == ["sessions/main/other.jsonl"]
        assert "index again to finish" in answer.stale
        index = Path(memory.settings.index_path)
        assert memory.sync().left == 0
        assert find_traces([index.parent], "zorkberries of talk") == []
