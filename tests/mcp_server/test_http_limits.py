"""What one client may take from the others.  ``python -m benchmarks.attacks requests`` sends more half requests."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from mdrecall.mcp_server import http
from mdrecall.mcp_server.http import HttpEndpoint, configure
from tests.mcp_server.half_requests import attack
from tests.processes import PATIENCE_S

POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"


async def answer_slowly(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await asyncio.sleep(0.5)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@contextmanager
def serving(app: Any = answer_slowly) -> Iterator[tuple[str, int]]:
    """The address of a server in this process."""
    config = configure(app, lifespan="off")
    config.timeout_keep_alive = 1
    server = uvicorn.Server(config)
    with HttpEndpoint(port=0).listen() as listening:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        try:
            yield listening.getsockname()
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


def read_all(client: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    received = b""
    try:
        while data := client.recv(1000):
            received += data
    except ConnectionResetError:
        pass
    return received


def test_half_requests_shut_nobody_out_and_do_not_flood_the_log(tmp_path: Path) -> None:
    outcome = attack(tmp_path, 600)
    assert not outcome.is_bad, outcome


def test_a_request_that_does_not_arrive_is_dropped_and_one_that_has_arrived_may_take_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "REQUEST_S", 0.2)
    answers = {
        b"": 0, b"GET / HTTP/1.1\r\nHost: x\r\n": 0, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n": 1, POST + b"1234": 0,
        POST + b"12345": 1, POST + b"12345GET / HT": 1, CHUNKED: 0, CHUNKED + b"0\r\n\r\n": 1,
    }  # fmt: skip
    with serving() as address:
        clients = {data: socket.create_connection(address, timeout=PATIENCE_S) for data in answers}
        for data, client in clients.items():
            for start in range(0, len(data), 7):
                client.sendall(data[start : start + 7])
        received = {data: read_all(client).count(b"HTTP/1.1 200") for data, client in clients.items()}
        for client in clients.values():
            client.close()
    assert received == answers


def test_the_oldest_unfinished_request_makes_room_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_UNFINISHED", 2)
    with serving() as address:
        clients = [socket.create_connection(address, timeout=PATIENCE_S) for _ in range(3)]
        assert read_all(clients[0]) == b""
        clients[1].sendall(POST + b"12345")
        assert clients[1].recv(100).startswith(b"HTTP/1.1 200")
        for client in clients:
            client.close()


def test_a_head_without_end_is_refused() -> None:
    with serving() as address, socket.create_connection(address, timeout=PATIENCE_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000)
        assert read_all(client).startswith(b"HTTP/1.1 400")
