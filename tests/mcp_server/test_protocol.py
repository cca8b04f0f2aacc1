"""The server on pipes answers as the SDK's server does, message by message, whatever a client sends."""

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
from typing import Any, TextIO

import anyio
import mcp_types.version as sdk_versions
import pytest
from mcp.server.stdio import stdio_server

from mdrecall.mcp_server.http import MemoryServer
from mdrecall.mcp_server.memories import Memories, Selection, select_memories
from mdrecall.mcp_server.protocol import HANDSHAKE_VERSIONS, STATELESS_VERSIONS
from mdrecall.mcp_server.tools import Toolbox
from tests.conftest import examples
from tests.mcp_server.servers import Home, process_env, start_on_pipes
from tests.mcp_server.test_stdio import HELLO

#: What takes long to load, and a start does without.
HEAVY = ("mcp", "mcp_types", "pydantic", "anyio", "numpy", "asyncio")
META = "io.modelcontextprotocol/"
ENVELOPE = {
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientCapabilities": {},
    f"{META}clientInfo": {"name": "test", "version": "1"},
}
_BAD_TOKENS: tuple[Any, ...] = ([], None, 1.5)
_BAD_VALUES: tuple[Any, ...] = (1, [], "1999-01-01")
SUBAGENT = {"mdrecall/sessionKey": "agent:main:subagent:1"}


def request(method: Any, params: Any = None, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}) | more


def start_sdk_on_pipes(built: MemoryServer) -> tuple[TextIO, TextIO]:
    (stdin, to_server), (from_server, stdout) = os.pipe(), os.pipe()

    async def run() -> None:
        with open(stdin, encoding="utf-8", errors="replace") as reader, open(stdout, "w", encoding="utf-8") as writer:
            async with stdio_server(anyio.wrap_file(reader), anyio.wrap_file(writer)) as (received, sent):
                await built.server.run(received, sent, built.server.create_initialization_options())

    threading.Thread(target=lambda: asyncio.run(run()), name="mdrecall-test", daemon=True).start()
    return open(to_server, "w", buffering=1, encoding="utf-8"), open(from_server, encoding="utf-8")


def talk(pipes: tuple[TextIO, TextIO], messages: list[Any]) -> list[Any]:
    """Send messages, each after the answer to the one before; return every answer, an error without its words."""
    writer, reader = pipes
    answers: list[Any] = []
    with writer, reader:
        for number, message in enumerate(messages):
            is_request = isinstance(message, dict) and "id" not in message and message.get("jsonrpc") == "2.0"
            is_request = is_request and not str(message.get("method")).startswith("notifications/")
            line = message if isinstance(message, str) else json.dumps(message | ({"id": number} if is_request else {}))
            writer.write(line + "\n")
            # Answered by both servers, whatever they think of the message before it.
            writer.write(json.dumps({"jsonrpc": "2.0", "id": f"after {number}", "method": "no/such"}) + "\n")
            waiting = {f"after {number}", *([number] if is_request else [])}
            while waiting:
                answer = json.loads(reader.readline())
                if answer.get("id") in waiting:
                    waiting.discard(answer["id"])
                answer.get("error", {}).pop("message", None)
                # What is logged says how long something took.
                if "method" not in answer and not str(answer["id"]).startswith("after"):
                    answers.append(answer)
        writer.close()
        reader.read()
    return answers


METHODS = [
    request("tools/list"),
    request("tools/list", {"cursor": "x"}),
    request("tools/call", {"name": "memory_search", "arguments": {"query": "walrus"}}),
    request("tools/call", {"name": "memory_search", "arguments": {"query": ""}}),
    request("tools/call", {"name": "memory_get", "arguments": {"path": "MEMORY.md"}, "more": 1}),
    request("tools/call", {"name": "memory_get", "arguments": {"path": "../secret"}}),
    request("tools/call", {"name": "memory_get", "arguments": None}),
    request("tools/call", {"name": "no_such_tool"}),
    request("resources/list"),
    request("resources/list", {"cursor": "nonsense"}),
    request("resources/templates/list"),
    request("resources/read", {"uri": "mdrecall://main/MEMORY.md"}),
    request("resources/read", {"uri": "mdrecall://main/missing.md"}),
    request("tools/list", {"_meta": SUBAGENT}),
    request("resources/read", {"uri": "mdrecall://main/MEMORY.md", "_meta": SUBAGENT}),
]
#: Of these only the newer or only the older era has each, and the server has some of them in neither.
OTHERS = [
    *map(request, ("ping", "server/discover", "no/such", "", "initialize", "tools/call/more")),
    request("prompts/list"),
    request("logging/setLevel", {"level": "debug"}),
    request("resources/subscribe", {"uri": "mdrecall://main/MEMORY.md"}),
    request(
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "recall"}, "argument": {"name": "question", "value": "W"}},
    ),
]
MALFORMED = [
    request("tools/list", {"cursor": 1}),
    request("tools/list", {"_meta": []}),
    *(request("tools/list", {"_meta": {"progressToken": token}}) for token in _BAD_TOKENS),
    request("tools/list", {"_meta": {"mdrecall/sessionKey": 7}}),
    request("tools/call"),
    request("tools/call", {"name": 1}),
    request("tools/call", {"name": "memory_get", "arguments": []}),
    request("resources/read"),
    request("resources/read", {"uri": None}),
    request("initialize", {}),
    request("initialize", HELLO | {"clientInfo": {"name": 1}}),
    request("initialize", HELLO | {"capabilities": None}),
]
#: No request that could be answered.
RUBBISH = [
    "", "{", "[]", "null", "1", '"text"', "\ufeff{}", "[" * 100_000, '{"jsonrpc": "2.0", "id": 1', "\x00",
    json.dumps([request("tools/list", id=1)]),
    request("tools/list", id=None), request("tools/list", id=1.5), request("tools/list", id=True),
    request("tools/list", id=[]), request("tools/list", [], id=1), request("tools/list", "x", id=1),
    request(1, id=1), request(None, id=1), {"jsonrpc": "1.0", "id": 1, "method": "tools/list"},
    {"id": 1, "method": "tools/list"}, {"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "2.0", "id": 1, "result": {}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
    request("notifications/no/such"), request("notifications/cancelled"),
    request("notifications/cancelled", {"requestId": 99}), request("notifications/cancelled", {"requestId": []}),
    request("notifications/progress", {"progressToken": 1}),
]  # fmt: skip


def with_envelope(message: Any) -> Any:
    if isinstance(message, str) or not isinstance(message.get("params", {}), dict):
        return message
    meta = message.get("params", {}).get("_meta", {})
    meta = {**meta, **ENVELOPE} if isinstance(meta, dict) else meta
    return {**message, "params": {**message.get("params", {}), "_meta": meta}}


def compare(home: Home, messages: list[Any], selection: Selection | None = None, **options: Any) -> list[Any]:
    """Assert that both servers answer alike; return the answers."""
    home.workspace().write("MEMORY.md", "# Walrus\n\nThe walrus likes ice.\n")
    built = home.server(selection, **options)
    # Indexed before, so that both find the same.
    built.answers.memories.get(built.answers.memories.default).sync()
    own = talk(start_on_pipes(built.answers), messages)
    assert own == talk(start_sdk_on_pipes(built), messages)
    return own


def hello(version: str = HANDSHAKE_VERSIONS[-1]) -> list[Any]:
    return [request("initialize", HELLO | {"protocolVersion": version}), request("notifications/initialized")]


@pytest.mark.parametrize("era", ["older", "newer"])
def test_every_method_is_answered_as_the_sdk_does(home: Home, era: str) -> None:
    messages = [*hello(), *METHODS, *OTHERS, *hello()]
    if era == "newer":
        newer = [request("server/discover"), *METHODS, *OTHERS]
        messages = [*map(with_envelope, newer), *hello(), *METHODS[:3]]
    answers = compare(home, messages)
    assert sum("result" in each for each in answers) > len(METHODS) / 2
    assert era == "older" or answers[0]["result"]["supportedVersions"] == list(STATELESS_VERSIONS)


def test_malformed_requests_are_refused_as_the_sdk_does(home: Home) -> None:
    answers = compare(home, [*hello(), *MALFORMED])
    assert sum("error" in each for each in answers) == len(MALFORMED) - 1


def test_malformed_requests_are_refused_as_the_sdk_does_in_the_newer_era(home: Home) -> None:
    envelopes: list[Any] = [
        {}, None, [], "x", {f"{META}protocolVersion": "2026-07-28"}, {f"{META}clientCapabilities": {}},
        *({**ENVELOPE, key: value} for key in ENVELOPE for value in _BAD_VALUES),
        {**ENVELOPE, f"{META}logLevel": "loud"}, {**ENVELOPE, f"{META}logLevel": "error"},
    ]  # fmt: skip
    first, bad = with_envelope(request("tools/list")), [request("tools/list", {"_meta": meta}) for meta in envelopes]
    compare(home, [first, *map(with_envelope, MALFORMED), *bad, request("tools/list")])


@pytest.mark.parametrize("era", ["older", "newer"])
def test_what_is_no_request_is_dropped_as_by_the_sdk(home: Home, era: str) -> None:
    first = hello() if era == "older" else [with_envelope(request("tools/list"))]
    answers = compare(home, [*first, *RUBBISH, first[0]])
    assert len(answers) == 2


@pytest.mark.parametrize("first", [*METHODS[:1], *OTHERS, *RUBBISH[:3], with_envelope(request("initialize", HELLO))])
def test_the_first_request_decides_on_the_era_as_with_the_sdk(home: Home, first: Any) -> None:
    compare(home, [first, with_envelope(METHODS[0]), *METHODS[:1], *hello(), *METHODS[:1]])


_NAMES = ["name", "arguments", "_meta", "uri", "cursor", "level", "protocolVersion", "capabilities", "clientInfo"]
_META_NAMES = ["progressToken", "mdrecall/sessionKey", f"{META}logLevel", "version"]
_VALUES = [None, True, 1, 1.0, -1.5, "", "x", "mdrecall://main/MEMORY.md", 10**30, "memory_get", "recall", "debug"]


def draw_value(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.randrange(9) if depth < 4 else 0
    if kind < 3:
        return draw.choice(_VALUES)
    if kind < 7:
        names = (draw.choice(_NAMES + _META_NAMES) for _ in range(draw.randrange(4)))
        return {name: draw_value(draw, depth + 1) for name in names}
    return [draw_value(draw, depth + 1) for _ in range(draw.randrange(3))]


@pytest.mark.parametrize("era", ["older", "newer"])
def test_requests_drawn_at_random_are_answered_as_the_sdk_does(home: Home, era: str) -> None:
    draw = random.Random(era)
    methods = [each["method"] for each in [*METHODS, *OTHERS, *MALFORMED]]
    messages = [
        request(draw.choice(methods), {name: draw_value(draw) for name in draw.sample(_NAMES, draw.randrange(4))})
        for _ in range(examples(60))
    ]
    # The SDK also looks at the parameters of methods that nobody serves.
    unserved = ("completion/complete", "logging/setLevel", "prompts/list", "resources/subscribe")
    messages = [each for each in messages if each["method"] not in unserved]
    if era == "older":
        compare(home, [*hello(), *messages])
    else:
        compare(home, [with_envelope(each) for each in (METHODS[0], *messages)])


@pytest.mark.parametrize("version", [*HANDSHAKE_VERSIONS, *STATELESS_VERSIONS, "1999-01-01", ""])
def test_the_version_is_settled_as_with_the_sdk(home: Home, version: str) -> None:
    (answer,) = compare(home, hello(version))
    expected = version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    assert answer["result"]["protocolVersion"] == expected


def test_the_versions_are_those_of_the_sdk() -> None:
    assert HANDSHAKE_VERSIONS == sdk_versions.HANDSHAKE_PROTOCOL_VERSIONS
    assert STATELESS_VERSIONS == sdk_versions.MODERN_PROTOCOL_VERSIONS


def selections(home: Home) -> dict[str, Selection]:
    folders = [str(home.workspace(name).path) for name in ("notes", "office")]
    config = home.workspace().path.parent / "sessions.json"
    config.write_text('{"memorySearch": {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": true}}}')
    return {
        "one": Selection(workspaces=(folders[0],)),
        "several": Selection(workspaces=(f"a={folders[0]}", f"b={folders[1]}")),
        "read only": Selection(workspaces=(folders[0],), read_only=True),
        "transcripts": Selection(workspaces=(folders[0],), config=str(config)),
    }


@pytest.mark.parametrize("name", ["one", "several", "read only", "transcripts"])
def test_a_server_says_the_same_of_itself_as_the_sdks_also_before_a_memory_is_open(home: Home, name: str) -> None:
    selection = selections(home)[name]
    compare(home, [*hello(), request("tools/list")], selection, read_only=selection.read_only)
    memories = Memories(select_memories(selection, home.env))
    tools = Toolbox(memories, read_only=selection.read_only)
    for served in memories.names:
        assert tuple(tools._specs(served, "")) == tools.toolset(served, "").specs
    memories.close()


def test_nothing_heavy_is_loaded_for_the_first_answers(home: Home) -> None:
    code = f"""
import os, sys, threading
from mdrecall.mcp_server import start
from mdrecall.mcp_server.answers import Answers
from mdrecall.mcp_server.memories import Memories, Selection, select_memories
from mdrecall.mcp_server.protocol import Request
from mdrecall.mcp_server.stdio import serve
answers = Answers(Memories(select_memories(Selection())))
assert answers.initialize("2025-11-25")
print([name for name in {("mdrecall.memory", "mdrecall.plugins", *HEAVY)!r} if name in sys.modules])
assert answers.answer(Request("tools/list"))
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=process_env(home.env), cwd=home.workspace().path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("[]\n[]\n", "")
