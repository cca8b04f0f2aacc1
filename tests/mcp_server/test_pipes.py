"""The server on pipes stays within its bounds, whatever a client sends, reads or leaves unread."""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import pytest

from mdrecall.mcp_server import stdio
from mdrecall.mcp_server.protocol import MAX_REQUEST_BYTES
from mdrecall.tools.toolset import ToolAnswer
from tests.mcp_server.servers import Home, start_on_pipes
from tests.mcp_server.test_protocol import hello, request
from tests.mcp_server.test_server import Slow, only
from tests.processes import PATIENCE_S


class Client:
    """Writes and reads messages as they are."""

    def __init__(self, writer: TextIO, reader: TextIO) -> None:
        self.writer, self.reader = writer, reader

    def send(self, *messages: dict[str, Any]) -> None:
        self.writer.write("".join(json.dumps(message) + "\n" for message in messages))

    def read(self) -> Any:
        return json.loads(self.reader.readline())


@contextmanager
def connected(home: Home, tool: Any = None) -> Iterator[Client]:
    """A client that has been greeted."""
    built = home.server(make_tools=only(tool)) if tool else home.server()
    writer, reader = start_on_pipes(built.answers)
    with writer, reader:
        client = Client(writer, reader)
        greeting, initialized = hello()
        client.send(greeting | {"id": "hello"}, initialized)
        assert client.read()["id"] == "hello"
        yield client


def call(number: int | str, tool: str = "slow", **meta: Any) -> dict[str, Any]:
    return request("tools/call", {"name": tool, "_meta": meta}, id=number)


class Counting(Slow):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        self.count += 1
        return super().call(arguments)


def test_the_server_ends_after_the_work_of_a_client_that_has_gone(home: Home) -> None:
    """One process of sixty crashed as it ended, with threads still at work."""
    order, slow = list[str](), Slow()
    answers = home.server(make_tools=only(slow)).answers
    (stdin, to_server), (from_server, stdout) = os.pipe(), os.pipe()

    def run() -> None:
        stdio.serve(answers, stdin, stdout)
        order.append("server")

    def end_work() -> None:
        order.append("work")
        slow.may_end.set()

    serving = threading.Thread(target=run)
    serving.start()
    with open(to_server, "w", buffering=1) as writer, open(from_server) as reader:
        client = Client(writer, reader)
        greeting, initialized = hello()
        client.send(greeting | {"id": "hello"}, initialized, call(7))
        client.read()
        assert slow.began.wait(PATIENCE_S)
    threading.Timer(0.2, end_work).start()
    serving.join(PATIENCE_S)
    assert order == ["work", "server"]
    os.close(stdin)
    os.close(stdout)


def test_a_line_that_is_too_long_is_refused_and_the_next_one_answered(home: Home) -> None:
    with connected(home) as client:
        # Written by a thread, because it is longer than the pipe.
        long = request("ping", {"text": "x" * (2 * MAX_REQUEST_BYTES)}, id=1)
        just_short_enough = request("ping", {"text": "x" * (MAX_REQUEST_BYTES - 200)}, id=2)
        sender = threading.Thread(target=lambda: client.send(long, just_short_enough))
        sender.start()
        refused, answered = client.read(), client.read()
        sender.join()
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    assert str(MAX_REQUEST_BYTES) in refused["error"]["message"]
    assert answered == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_bytes_that_are_no_text_and_half_characters_are_replaced(home: Home) -> None:
    with connected(home) as client:
        client.send(call(2, "x\ud83d"))
        client.writer.flush()
        os.write(client.writer.fileno(), b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"y\xff"}}\n')
        answers = {each["id"]: each for each in (client.read(), client.read())}
    assert answers[2]["error"]["message"] == "Unknown tool: x\ufffd"
    assert answers[3]["error"]["message"] == "Unknown tool: y\ufffd"


@pytest.mark.parametrize("number", [7, "7", "seven"])
def test_a_cancelled_request_is_not_answered(home: Home, number: int | str) -> None:
    slow = Slow()
    with connected(home, slow) as client:
        client.send(call(number, progressToken="t"))
        assert slow.began.wait(PATIENCE_S)
        client.send(request("notifications/cancelled", {"requestId": str(number)}), request("ping", id="after"))
        assert client.read()["id"] == "after"
        slow.may_end.set()
        client.writer.close()
        assert client.reader.read() == ""


def test_a_request_that_is_cancelled_while_it_waits_is_never_begun(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_MAX_THREADS", 1)
    slow = Counting()
    with connected(home, slow) as client:
        client.send(call(1), call(2), call(3), request("notifications/cancelled", {"requestId": 2}))
        client.send(request("ping", id="read"))
        assert client.read()["id"] == "read"
        slow.may_end.set()
        assert [client.read()["id"], client.read()["id"]] == [1, 3]
    assert slow.count == 2


def test_a_flood_of_requests_waits_outside_and_each_is_answered(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing is answered, no more is read than there is room for."""
    monkeypatch.setattr(stdio, "_MAX_WAITING_BYTES", 10 * stdio._REQUEST_BYTES)
    slow, count = Counting(), 3000
    with connected(home, slow) as client:
        sender = threading.Thread(target=lambda: client.send(*map(call, range(count))))
        sender.start()
        assert slow.began.wait(PATIENCE_S)
        sender.join(0.2)
        assert sender.is_alive(), "the pipe is full, because the server reads no more"
        assert slow.count <= 10
        slow.may_end.set()
        assert sorted(client.read()["id"] for _ in range(count)) == list(range(count))
        sender.join()


@pytest.mark.parametrize("leaves", ["stdin", "stdout", "both"])
def test_a_client_that_reads_nothing_and_leaves_does_not_keep_the_server(
    home: Home, monkeypatch: pytest.MonkeyPatch, leaves: str
) -> None:
    monkeypatch.setattr(stdio, "_MAX_WAITING_BYTES", 100_000)
    monkeypatch.setattr(stdio, "_LAST_ANSWERS_S", 0.2)
    home.workspace().write("MEMORY.md", "walrus " * 10_000)
    read = request("resources/read", {"uri": "mdrecall://main/MEMORY.md"})
    with connected(home) as client:
        servers = [each for each in threading.enumerate() if each.name == "mdrecall-test"]
        client.send(*(read | {"id": number} for number in range(20)))
        client.writer.flush()
        if leaves != "stdout":
            client.writer.close()
        if leaves != "stdin":
            client.reader.close()
        for thread in servers:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


class Odd(Slow):
    """Returns what JSON does not have, or ends the process."""

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        if arguments.get("exit"):
            raise SystemExit(3)
        return ToolAnswer({"what": object() if arguments.get("object") else float("nan")}, "text")


@pytest.mark.parametrize("arguments", [{}, {"object": True}, {"exit": True}])
def test_a_tool_that_answers_with_no_json_or_exits_fails_alone(home: Home, arguments: dict[str, Any]) -> None:
    with connected(home, Odd()) as client:
        client.send(request("tools/call", {"name": "slow", "arguments": arguments}, id=1))
        assert client.read()["error"]["code"] == -32603
        client.send(request("ping", id=2))
        assert client.read()["result"] == {}


def test_an_input_that_cannot_be_read_has_ended() -> None:
    folder, (reading, writing) = os.open(os.curdir, os.O_RDONLY), os.pipe()
    try:
        assert list(stdio.Pipe(folder, writing).read_lines()) == [b""]
    finally:
        for file in (folder, reading, writing):
            os.close(file)
