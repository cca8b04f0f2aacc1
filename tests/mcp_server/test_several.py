"""One call of ``memory_search`` over three memories of a server, and reading what it has found."""

import json
import os
from contextlib import closing
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from mdrecall.errors import RecallError
from mdrecall.mcp_server.http import MemoryServer, build_server
from mdrecall.mcp_server.memories import Memories, Selection, ServedMemory, open_served, select_memories
from mdrecall.memory import Memory
from tests.conftest import LONG_AGO_NS
from tests.mcp_server.servers import AS_OBJECT, Home
from tests.mcp_server.test_server import text_of, with_client

GROUP = "agent:main:telegram:group:7"


def three(home: Home) -> Selection:
    for name, text in {"office": "The walrus project.", "private": "The walrus in the zoo.", "club": "Chess."}.items():
        home.workspace(name).write("MEMORY.md", f"# {name}\n\n{text}\n")
    return Selection(workspaces=tuple(f"{name}={home.workspace(name).path}" for name in ("office", "private", "club")))


def call(built: MemoryServer, *calls: tuple[str, dict[str, Any]], **options: Any) -> list[types.CallToolResult]:
    async def act(client: Client) -> list[types.CallToolResult]:
        return [await client.call_tool(tool, arguments, **{"meta": AS_OBJECT} | options) for tool, arguments in calls]

    return with_client(built, act)


def details(result: types.CallToolResult) -> dict[str, Any]:
    found = result.structured_content
    assert isinstance(found, dict)
    return found


def test_a_search_names_the_memories_and_each_result_has_its_own(home: Home) -> None:
    asked: dict[str, Any] = {"query": "walrus", "minScore": 0}
    alone, two, everything = call(
        home.server(three(home)),
        ("memory_search", asked),
        ("memory_search", asked | {"workspaces": ["private", "office", "private"]}),
        ("memory_search", asked | {"workspaces": ["*"]}),
    )
    assert all("workspace" not in hit for hit in details(alone)["results"])
    assert "memories" not in details(alone)
    hits = details(two)["results"]
    assert {hit["workspace"] for hit in hits} == {"office", "private"}
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert [each["workspace"] for each in details(two)["memories"]] == ["private", "office"]
    assert "[workspace private]" in text_of(two)
    assert [each["workspace"] for each in details(everything)["memories"]] == ["office", "private", "club"]


@pytest.mark.parametrize("broken", ["office", "private"])
def test_a_memory_that_cannot_be_opened_does_not_stop_the_others(home: Home, broken: str) -> None:
    def opens(place: ServedMemory) -> Memory:
        if place.name == broken:
            raise RecallError("The index is damaged.")
        return open_served(place)

    with closing(build_server(Memories(select_memories(three(home), home.env), opens))) as built:
        some, none = call(
            built,
            ("memory_search", {"query": "walrus", "workspaces": ["office", "private"]}),
            ("memory_search", {"query": "walrus", "workspaces": [broken]}),
        )
    assert {hit["workspace"] for hit in details(some)["results"]} == {"office", "private"} - {broken}
    assert {"workspace": broken, "results": 0, "error": "The index is damaged."} in details(some)["memories"]
    assert f"{broken} could not be searched: The index is damaged." in text_of(some)
    assert details(none)["disabled"] is True


def test_an_empty_answer_says_why_for_each_memory(home: Home) -> None:
    selection = three(home)
    (home.workspace("club").path / "MEMORY.md").unlink()
    asked = {"query": "zeppelin", "minScore": 0.99, "workspaces": ["*"]}
    (answer,) = call(home.server(selection), ("memory_search", asked))
    reasons = {each["workspace"]: each["reason"] for each in details(answer)["memories"]}
    assert reasons["club"] == "index_empty"
    assert details(answer)["reason"] == reasons["office"] != "index_empty"
    assert "club: index_empty." in text_of(answer)


def test_the_rules_of_each_memory_hold_for_the_conversation_that_asks(home: Home) -> None:
    state = home.workspace().home / ".openclaw"
    for agent, folder in {"main": "workspace", "work": "workspace-work"}.items():
        (state / folder).mkdir(parents=True)
        (state / folder / "MEMORY.md").write_text(f"The walrus of {agent}.\n")
        talk = state / f"agents/{agent}/sessions/{agent}.jsonl"
        talk.parent.mkdir(parents=True)
        record = {"type": "message", "message": {"role": "user", "content": f"The walrus told {agent} a secret."}}
        talk.write_text(json.dumps(record) + "\n")
        (talk.parent / "sessions.json").write_text(json.dumps({f"agent:{agent}:main": {"sessionId": agent}}))
        os.utime(talk, ns=(LONG_AGO_NS, LONG_AGO_NS))
    search = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
    agents = {"defaults": {"memorySearch": search}, "list": [{"id": "main", "default": True}, {"id": "work"}]}
    (state / "openclaw.json").write_text(json.dumps({"agents": agents}))
    asked: dict[str, Any] = {"query": "walrus", "workspaces": ["*"], "minScore": 0}

    def search_as(session_key: str) -> dict[str, Any]:
        (answer,) = call(home.server(Selection(all_agents=True), session_key), ("memory_search", asked))
        return details(answer)

    def places(found: dict[str, Any]) -> set[tuple[str, str]]:
        return {(hit["workspace"], hit["source"]) for hit in found["results"]}

    notes = {("main", "memory"), ("work", "memory")}
    assert places(search_as("")) == notes | {("main", "sessions"), ("work", "sessions")}
    group = search_as(GROUP)
    assert places(group) == notes
    assert group["withheld"]
    sub_agent = home.server(Selection(all_agents=True), "agent:main:subagent:x")
    assert with_client(sub_agent, lambda client: client.list_tools()).tools == []
