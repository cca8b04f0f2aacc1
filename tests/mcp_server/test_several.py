"""One call of ``memory_search`` over the memories of several agents: the rules of each of them hold."""

import json
import os
from typing import Any

import pytest
from mcp import MCPError

from mdrecall.mcp_server.memories import Selection
from tests.conftest import LONG_AGO_NS
from tests.mcp_server.servers import AS_OBJECT, Home
from tests.mcp_server.test_server import with_client

GROUP = "agent:main:telegram:group:7"


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
        built = home.server(Selection(all_agents=True), session_key)
        answer = with_client(built, lambda client: client.call_tool("memory_search", asked, meta=AS_OBJECT))
        return answer.structured_content or {}

    def places(found: dict[str, Any]) -> set[tuple[str, str]]:
        return {(hit["workspace"], hit["source"]) for hit in found["results"]}

    notes = {("main", "memory"), ("work", "memory")}
    assert places(search_as("")) == notes | {("main", "sessions"), ("work", "sessions")}
    group = search_as(GROUP)
    assert places(group) == notes
    assert group["withheld"]
    sub_agent = home.server(Selection(all_agents=True), "agent:main:subagent:x")
    assert with_client(sub_agent, lambda client: client.list_tools()).tools == []
    with pytest.raises(MCPError, match="Unknown tool"):
        with_client(sub_agent, lambda client: client.call_tool("memory_search", asked))
