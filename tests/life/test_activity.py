"""The activity log: what each call leaves in it, what never does, its bounds, and that forgetting deletes it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mdrecall.life import activity
from mdrecall.life.activity import Activity, activity_path, describe_session, read_activity, record_activity
from mdrecall.life.forget import ForgetRequest, Forgetting
from mdrecall.memory import Memory
from mdrecall.tools.activity import _cite
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.several import SeveralSearch
from mdrecall.tools.toolset import Toolset
from tests.conftest import Workspace
from tests.life.test_forget import NOW
from tests.life.traces import find_traces

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def memory(workspace: Workspace) -> Iterator[Memory]:
    workspace.write("MEMORY.md", "# Team\n\nThe staging database is called heron.\n")
    with workspace.memory() as memory:
        yield memory


def tools(memory: Memory, session_key: str = "", client: str = "") -> Toolset:
    return Toolset(memory_tools(memory, session_key, can_append=True, author=client))


def logged(memory: Memory) -> list[Activity]:
    return list(read_activity(memory.settings.index_path))


def test_a_search_a_read_and_a_write_are_in_the_log_the_newest_first(memory: Memory) -> None:
    called = tools(memory, "agent:main:main", "claude-code")
    called.call("memory_search", {"query": "staging database"})
    called.call("memory_get", {"path": "MEMORY.md", "from": 2, "lines": 2})
    called.call("memory_append", {"text": "The port is 5433.", "file": "2026-02-10"})
    written, read, searched = logged(memory)
    assert (searched.tool, searched.query, searched.results) == ("memory_search", "staging database", 1)
    assert searched.path.startswith("MEMORY.md#L")
    assert searched.confidence in ("high", "medium", "low")
    assert (searched.who, searched.client) == ("main", "claude-code")
    assert (read.tool, read.path) == ("memory_get", "MEMORY.md#L2-L3")
    assert written.tool == "memory_append"
    assert written.path.startswith("memory/2026-02-10.md#L")


@pytest.mark.parametrize(
    ("found", "citation"),
    [
        ({"citation": "a.md#L3-L9", "path": "a.md", "startLine": 3, "endLine": 9}, "a.md#L3-L9"),
        ({"path": "a.md", "startLine": 3, "endLine": 9}, "a.md#L3-L9"),
        ({"path": "a.md", "from": 3, "lines": 2}, "a.md#L3-L4"),
        ({"path": "a.md", "from": 3}, "a.md#L3"),
        ({"path": "a.md"}, "a.md"),
        ({"path": "a.md", "startLine": 3}, "a.md"),
        ({"sessionKey": "agent:main:main"}, "agent:main:main"),
        ({"from": 3, "lines": 2}, ""),
        ({}, ""),
    ],
)
def test_a_place_is_named_by_its_path_and_its_lines(found: dict[str, Any], citation: str) -> None:
    assert _cite(found) == citation


def test_what_was_found_read_or_written_is_never_in_it(memory: Memory) -> None:
    called = tools(memory)
    called.call("memory_search", {"query": "staging"})
    called.call("memory_get", {"path": "MEMORY.md"})
    called.call("memory_append", {"text": "The walrus sings."})
    text = Path(activity_path(memory.settings.index_path)).read_text()
    assert "heron" not in text
    assert "walrus" not in text


def test_a_refused_call_says_how_it_ended(memory: Memory) -> None:
    called = tools(memory)
    assert called.call("memory_get", {"path": "../../etc/passwd"}).is_error
    assert called.call("memory_search", {}).is_error
    assert [(each.path, each.problem) for each in logged(memory)] == [
        ("", "ArgumentError"),
        ("../../etc/passwd", "PathOutside"),
    ]


def test_secrets_are_masked_before_the_query_is_cut(memory: Memory) -> None:
    # Half of the key is too short for the rules.
    tools(memory).call("memory_search", {"query": f"{'x ' * 144}{KEY} and more"})
    text = Path(activity_path(memory.settings.index_path)).read_text()
    assert KEY[:10] not in text
    assert len(logged(memory)[0].query) <= 300


def test_only_its_owner_can_read_it_and_a_link_in_its_place_is_not_followed(memory: Memory, tmp_path: Path) -> None:
    path = activity_path(memory.settings.index_path)
    tools(memory).call("memory_search", {"query": "staging"})
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    os.unlink(path)
    target = tmp_path / "elsewhere"
    target.write_text("")
    os.symlink(target, path)
    assert not tools(memory).call("memory_search", {"query": "staging"}).is_error
    assert target.read_text() == ""


def test_a_log_that_cannot_be_written_disturbs_no_call(memory: Memory) -> None:
    os.makedirs(activity_path(memory.settings.index_path))
    assert tools(memory).call("memory_search", {"query": "staging"}).details["results"]
    assert logged(memory) == []


def test_nothing_is_written_if_the_setting_is_off(workspace: Workspace) -> None:
    workspace.configure('{"mdrecall": {"activity": {"record": false}}}')
    workspace.write("MEMORY.md", "# A\n")
    with workspace.memory() as memory:
        tools(memory).call("memory_search", {"query": "a"})
        record_activity(memory.settings, Activity("2026-02-10T00:00:00Z", "x"))
        assert not os.path.exists(activity_path(memory.settings.index_path))


def test_the_log_keeps_its_newer_half_when_it_is_full(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MAX_BYTES", 4_000)
    for number in range(200):
        record_activity(memory.settings, Activity("2026-02-10T00:00:00Z", "t", f"query {number}"))
        assert os.path.getsize(activity_path(memory.settings.index_path)) <= 4_000
    kept = [int(each.query.split()[1]) for each in logged(memory)]
    assert kept == list(range(199, 199 - len(kept), -1))
    assert len(kept) > 20


@pytest.mark.parametrize(
    "line", [b"{", b"[1]", b"\xff\xfe", b'{"at": 1}', b'{"results": "x", "at": "", "tool": ""}', b"[" * 9_000]
)
def test_a_line_that_is_broken_is_left_out(memory: Memory, line: bytes) -> None:
    record_activity(memory.settings, Activity("2026-02-10T00:00:00Z", "t", "good"))
    with open(activity_path(memory.settings.index_path), "ab") as file:
        file.write(line + b"\n")
    assert [each.query for each in logged(memory)] == ["good"]


@pytest.mark.parametrize(
    ("key", "who"),
    [
        ("", ""),
        ("agent:main:main", "main"),
        ("agent:main:telegram:group:-1001234567890123", "telegram group -10012345678"),
        ("agent:main:telegram:direct:42", "telegram direct 42"),
        ("nonsense:x", "unknown"),
    ],
)
def test_a_conversation_has_its_kind_and_a_short_name(key: str, who: str) -> None:
    assert describe_session(key) == who


def test_a_search_of_several_memories_is_in_the_log_of_each(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    second = Workspace(tmp_path / "second")
    workspace.write("MEMORY.md", "# A\n\nThe staging database is called heron.\n")
    second.write("MEMORY.md", "# B\n\nNothing of that kind.\n")
    with workspace.memory() as one, second.memory() as two:
        memories = {"one": one, "two": two}
        tool = SeveralSearch(
            ("one", "two"), lambda name: (memories[name], tools(memories[name], "main")), one.settings, "main"
        )
        assert not Toolset([tool]).call("memory_search", {"query": "staging database"}).is_error
        (first,) = logged(one)
        (other,) = logged(two)
    assert (first.query, first.results) == ("staging database", 1)
    assert (other.query, other.results) == ("staging database", 0)


def test_forgetting_deletes_the_log_and_what_is_forgotten_does_not_come_back(workspace: Workspace) -> None:
    phrase = "Quibblethorpe is allergic to zorkberries"
    workspace.write("MEMORY.md", f"# A\n\n- {phrase}.\n- The harbour opens at nine.\n")
    with workspace.memory() as memory:
        memory.sync()
        called = tools(memory)
        called.call("memory_search", {"query": f"who said that {phrase}"})
        called.call("memory_search", {"query": "zorkberries allergy of Quibblethorpe"})
        forgetting = Forgetting(memory)
        plan = forgetting.plan(ForgetRequest(phrases=(phrase,)), NOW)
        path = activity_path(memory.settings.index_path)
        assert [place.action for place in plan.places if place.path == path] == ["delete the log"]
        assert forgetting.apply(plan, NOW).is_complete
        assert find_traces([workspace.path, workspace.home, workspace.state], "zorkberries") == []
        called.call("memory_search", {"query": f"is it true that {phrase}?"})
        assert find_traces([workspace.path, workspace.home, workspace.state], phrase) == []


def test_a_text_that_an_agent_asks_to_forget_is_not_in_the_log(workspace: Workspace) -> None:
    workspace.configure('{"mdrecall": {"forget": {"tool": true}}}')
    workspace.write("MEMORY.md", "# A\n\n- The walrus sings at dawn in Norway.\n")
    with workspace.memory() as memory:
        memory.sync()
        called = tools(memory)
        asked: dict[str, Any] = {"text": "The walrus sings at dawn in Norway"}
        token = called.call("memory_forget", asked).details["confirm"]
        assert called.call("memory_forget", asked | {"confirm": token}).details["forgotten"]
        assert [(each.tool, each.query, each.path) for each in logged(memory)] == [("memory_forget", "", "")]


def test_the_log_of_a_workspace_that_is_gone_goes_with_its_index(workspace: Workspace) -> None:
    from mdrecall.store.sqlite.sidecar_files import find_orphans

    workspace.write("MEMORY.md", "# A\n")
    with workspace.memory() as memory:
        memory.sync()
        tools(memory).call("memory_search", {"query": "a"})
        path = Path(activity_path(memory.settings.index_path))
    (workspace.path / "MEMORY.md").unlink()
    workspace.path.rmdir()
    (orphan,) = find_orphans(str(path.parent))
    assert str(path) in {name for name, _ in orphan.files()}
    orphan.delete()
    assert not path.exists()
