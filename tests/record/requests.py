"""What the MCP server answers on pipes: one memory in the older era, several of them in the newer one."""

import json
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mdrecall.mcp_server.answers import Answers
from mdrecall.mcp_server.memories import Memories, Selection, select_memories
from mdrecall.mcp_server.stdio import serve
from tests.record.workspace import CONFIG

_META = "io.modelcontextprotocol/"
_CLIENT = {"name": "record", "version": "1"}
_NEWER = {
    f"{_META}protocolVersion": "2026-07-28",
    f"{_META}clientCapabilities": {},
    f"{_META}clientInfo": _CLIENT,
}
_SESSION = "mdrecall/sessionKey"
_SUBAGENT = {_SESSION: "agent:main:subagent:1"}
_GROUP = {_SESSION: "agent:main:telegram:group:7"}
_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _CLIENT}

Request = tuple[str, dict[str, Any]]


def _call(tool: str, **arguments: Any) -> Request:
    return "tools/call", {"name": tool, "arguments": arguments, "_meta": {"mdrecall/structured": True}}


#: Methods and their parameters, in the order in which they are sent.
OLDER: tuple[Request, ...] = (
    ("tools/list", {}),
    ("initialize", {"protocolVersion": "2025-06-18"}),
    ("initialize", _HELLO | {"protocolVersion": "1999-01-01"}),
    ("ping", {}),
    ("tools/list", {}),
    ("tools/list", {"cursor": 7}),
    ("tools/list", {"_meta": _SUBAGENT}),
    ("tools/list", {"_meta": _GROUP}),
    ("tools/call", {"name": "memory_search", "arguments": {"query": "team pricing"}}),
    _call("memory_search", query="team pricing"),
    _call("memory_search", query="DEC-0054", maxResults=1, minScore=0),
    _call("memory_search", query="billing", maxResults="2", corpus="memory"),
    _call("memory_search", query="zeppelin"),
    _call("memory_search", query=" "),
    _call("memory_search", query=["team"]),
    _call("memory_search", query="team", maxResults=0),
    _call("memory_search", query="team", maxResults="many"),
    _call("memory_search", query="team", corpus="nobody"),
    _call("memory_search", query="team", since="yesterday-ish"),
    _call("memory_search"),
    _call("memory_get", path="MEMORY.md"),
    _call("memory_get", path="memory/garden.md#L3-L5"),
    _call("memory_get", path="memory/garden.md", **{"from": 7, "lines": 3}),
    _call("memory_get", path="memory/garden.md", **{"from": 9_999}),
    _call("memory_get", path="memory/garden.md", lines=-1),
    _call("memory_get", path="memory/large.md"),
    _call("memory_get", path="../secret.md"),
    _call("memory_get", path="elsewhere.md"),
    _call("memory_get", path="memory/none.md"),
    _call("memory_append", text=" "),
    _call("memory_append", text="x", supersedes="memory/none.md#L1"),
    _call("sessions_search", query="lighthouse"),
    _call("sessions_search", query=""),
    _call("sessions_history", sessionKey="talk", limit=2),
    _call("sessions_history", sessionKey="talk", limit=2, offset=1),
    _call("sessions_history", sessionKey="nobody"),
    _call("no_such_tool"),
    ("tools/call", {"name": 7}),
    ("tools/call", {"name": "memory_get", "arguments": []}),
    ("tools/call", {"name": "memory_search", "arguments": {"query": "team", "maxResults": 1}, "_meta": _GROUP}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "mdrecall://main/MEMORY.md"}),
    ("resources/read", {"uri": "mdrecall://main/memory/none.md"}),
    ("resources/read", {"uri": "file:///etc/passwd"}),
    ("server/discover", {}),
    ("no/such", {}),
)
NEWER: tuple[Request, ...] = (
    ("server/discover", {}),
    ("tools/list", {}),
    _call("memory_search", query="chairs", maxResults=1),
    _call("memory_search", query="chairs", workspaces=["*"], maxResults=2),
    _call("memory_search", query="chairs", workspaces=["second", "nobody"]),
    _call("memory_search", query="tea", agent="second"),
    _call("memory_get", path="MEMORY.md", workspace="second"),
    _call("memory_get", path="MEMORY.md", agent="nobody"),
    _call("memory_append", text="x", agent="second"),
    ("initialize", _HELLO),
    ("tools/list", {"_meta": _NEWER | {f"{_META}protocolVersion": "1999-01-01"}}),
    ("tools/list", {"_meta": _NEWER | {f"{_META}clientInfo": {}}}),
)


def record_requests(base: Path) -> Iterator[dict[str, Any]]:
    """Yield each request with its answer. The commands have left an index, which the first search makes again."""
    config, second = base / "all-tools.json", base / "second"
    second.mkdir()
    (second / "MEMORY.md").write_text("# Second\n\nTea and chairs.\n")
    config.write_text(json.dumps(CONFIG))
    one = Selection(workspaces=(str(base / "notes"),), config=str(config))
    yield from _talk(one, OLDER)
    several = Selection(workspaces=(f"first={base / 'notes'}", f"second={second}"), read_only=True)
    yield from _talk(
        several, [(method, params | {"_meta": _NEWER | params.get("_meta", {})}) for method, params in NEWER]
    )


def _talk(selection: Selection, requests: Iterable[Request]) -> Iterator[dict[str, Any]]:
    """Send each request after the answer to the one before."""
    memories = Memories(select_memories(selection))
    answers = Answers(memories, read_only=selection.read_only)
    (stdin, to_server), (from_server, stdout) = os.pipe(), os.pipe()
    server = threading.Thread(target=serve, args=(answers, stdin, stdout), name="mdrecall-record")
    server.start()
    known: list[Any] = []
    with open(to_server, "w", buffering=1) as writer, open(from_server) as reader:
        for number, (method, params) in enumerate(requests):
            writer.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
            answer = json.loads(reader.readline())
            assert (answer.pop("jsonrpc"), answer.pop("id")) == ("2.0", number)
            result = answer.get("result", {})
            if [set(part) for part in result.get("content", ())] == [{"type", "text"}]:
                result["content"] = result["content"][0]["text"]
            if result.get("isError"):
                # The text of an error is made of these two.
                for name in ("error", "action"):
                    if result["structuredContent"].get(name, "") in result["content"]:
                        result["structuredContent"].pop(name, None)
            tools = result.get("tools", [])
            # A tool that was described before, in the same words, is only named.
            new = [tool for tool in tools if tool not in known]
            known += new
            tools[:] = [tool if tool in new else tool["name"] for tool in tools]
            shown = {name: value for name, value in params.items() if name != "_meta"}
            session = params.get("_meta", {}).get(_SESSION, "")
            yield {"request": f"{method} {json.dumps(shown)[:120]} {session}".rstrip(), **answer}
        writer.close()
        server.join()
    answers.close()
    for end in (stdin, stdout):
        os.close(end)
