"""A client's first requests are answered before the SDK is loaded, and as the SDK would answer them."""

import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from mcp import Client

from mdrecall.mcp_server.greeting import VERSIONS, EarlyReader, Greeting, Streams
from mdrecall.mcp_server.workspaces import Selection, select_memories
from tests.mcp_server.servers import Home, process_env
from tests.mcp_server.test_server import with_client
from tests.mcp_server.test_stdio import HELLO, lines

NOT_YET = ("mcp", "mcp_types", "pydantic", "anyio", "numpy", "asyncio")


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
def test_the_early_answers_are_those_of_the_sdk(home: Home, name: str) -> None:
    selection = selections(home)[name]

    async def act(client: Client) -> tuple[Any, Any]:
        return client.session.initialize_result, await client.list_tools()

    initialized, listed = with_client(home.server(selection, read_only=selection.read_only), act, mode="legacy")
    greeting = Greeting(select_memories(selection, home.env), read_only=selection.read_only)
    version = initialized.protocol_version
    early = greeting.answer("initialize", HELLO | {"protocolVersion": version})
    assert early == initialized.model_dump(by_alias=True, exclude_none=True, mode="json", exclude={"meta"})
    tools = listed.model_dump(by_alias=True, exclude_none=True, mode="json")["tools"]
    assert greeting.answer("tools/list", {}) == {"tools": tools}


# The oldest is the first that a new release of the SDK would drop, the newest the last that it learns.
@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_every_version_that_is_answered_early_is_one_of_the_sdk(home: Home, version: str) -> None:
    command = [sys.executable, "-m", "mdrecall", "mcp", "--session-key", "main"]
    hello = {"id": 1, "method": "initialize", "params": HELLO | {"protocolVersion": version}}
    done = subprocess.run(
        command,
        input=lines(hello),
        env=process_env(home.env),
        cwd=home.workspace().path,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout)["result"]["protocolVersion"] == version


def test_nothing_heavy_is_loaded_for_them(home: Home) -> None:
    code = f"""
import sys
from mdrecall.mcp_server import start
from mdrecall.mcp_server.greeting import Greeting
from mdrecall.mcp_server.workspaces import Selection, select_memories
greeting = Greeting(select_memories(Selection()), read_only=False)
assert greeting.answer("initialize", {HELLO!r})
print([name for name in {NOT_YET!r} if name in sys.modules])
assert greeting.answer("tools/list", {{}})
print([name for name in {NOT_YET[:-1]!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=process_env(home.env),
        cwd=home.workspace().path,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("[]\n[]\n", "")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("initialize", HELLO | {"protocolVersion": "1999-01-01"}),
        ("initialize", {"protocolVersion": "2025-11-25"}),
        ("initialize", HELLO | {"clientInfo": {"name": 1}}),
        ("tools/list", {"_meta": {"mdrecall/sessionKey": "agent:main:subagent:1"}}),
        ("tools/list", {"cursor": "x"}),
        ("ping", {}),
    ],
)
def test_what_is_not_plain_is_left_to_the_sdk(home: Home, method: str, params: dict[str, Any]) -> None:
    greeting = Greeting(select_memories(selections(home)["one"], home.env), read_only=False)
    assert greeting.answer(method, params) is None


@pytest.mark.parametrize("first", [b"", b"{", b"[]", b'{"id": 1}', b'{"id": null, "method": "ping"}', b"\xff"])
def test_every_line_reaches_the_sdk_and_one_answer_the_client(home: Home, first: bytes) -> None:
    greeting = Greeting(select_memories(selections(home)["one"], home.env), read_only=False)
    (stdin, client_out), (client_in, stdout) = os.pipe(), os.pipe()
    reader = EarlyReader(Streams(stdin, stdout), greeting)
    hello = json.dumps({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": HELLO}).encode()
    os.write(client_out, hello + b"\n" + first + b"\n")
    reader.start()
    assert json.loads(os.read(client_in, 65536))["id"] == "a"
    os.write(client_out, b"last")
    os.close(client_out)
    received: list[bytes | None] = []
    done = threading.Event()

    def sink(line: bytes | None) -> None:
        received.append(line)
        if line is None:
            done.set()

    reader.attach(sink)
    assert done.wait(20)
    assert received == [hello, first, b"last", None]
    assert reader.is_answered('{"jsonrpc":"2.0","id":"a","result":{}}')
    assert not reader.is_answered('{"jsonrpc":"2.0","id":"a","result":{}}')
    for file in (stdin, client_in, stdout):
        os.close(file)
