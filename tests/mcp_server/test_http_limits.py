"""What one client may take from the others.  ``python -m benchmarks.attacks requests`` sends more half requests."""

import asyncio
import logging
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from mdrecall.mcp_server import http
from mdrecall.mcp_server.http import ConnectionLimits, RequestProgress, SessionLimits, log_once
from tests.mcp_server.half_requests import attack


def test_half_requests_shut_nobody_out_and_do_not_flood_the_log(tmp_path: Path) -> None:
    outcome = attack(tmp_path, 600)
    assert not outcome.is_bad, outcome


@pytest.mark.parametrize(
    ("data", "is_unfinished"),
    [
        (b"", True),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", False),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n1234", True),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345", False),
        (b"POST / HTTP/1.1\r\nHost: x\r\ncontent-length:5\r\n\r\n12345GET / HT", True),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", True),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", False),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_it_is_known_whether_a_request_has_arrived(data: bytes, is_unfinished: bool, step: int) -> None:
    progress = RequestProgress()
    for start in range(0, len(data), step):
        progress.feed(data[start : start + step])
    assert progress.is_unfinished is is_unfinished


def test_a_head_without_end_is_too_long() -> None:
    progress = RequestProgress()
    progress.feed(b"GET / HTTP/1.1\r\n")
    for _ in range(70):
        progress.feed(b"X: " + b"x" * 1000)
    assert progress.is_too_long


class _Transport:
    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def test_a_request_that_does_not_arrive_is_dropped_and_one_that_has_arrived_may_take_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "REQUEST_S", 0.01)

    async def act() -> list[bool]:
        make = ConnectionLimits().protocol(lambda: asyncio.Protocol())
        transports = [_Transport() for _ in range(3)]
        for transport, data in zip(
            transports, (b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), strict=True
        ):
            connection = make()
            connection.connection_made(cast(asyncio.Transport, transport))
            connection.data_received(data)
        while not all(transport.is_aborted for transport in transports[:2]):
            await asyncio.sleep(0.01)
        return [transport.is_aborted for transport in transports]

    assert asyncio.run(act()) == [True, True, False]


def _connect(limits: ConnectionLimits, data: bytes, inner: asyncio.Protocol | None = None) -> tuple[Any, _Transport]:
    connection, transport = limits.protocol(lambda: inner or asyncio.Protocol())(), _Transport()
    connection.connection_made(cast(asyncio.Transport, transport))
    if data:
        connection.data_received(data)
    return connection, transport


@pytest.mark.parametrize(
    ("first", "aborted"), [(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", [False, False, True]), (b"", [True, False, False])]
)
def test_an_unfinished_request_makes_room_for_a_connection_or_else_it_is_refused(
    first: bytes, aborted: list[bool], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 2)

    async def act() -> list[bool]:
        limits = ConnectionLimits()
        transports = [_connect(limits, data)[1] for data in (first, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"")]
        return [transport.is_aborted for transport in transports]

    assert asyncio.run(act()) == aborted
    assert [record.getMessage() for record in caplog.records] == [
        "A connection was closed: there are too many connections"
    ]


def test_a_connection_whose_head_has_no_end_is_closed_and_the_rest_is_not_passed_on() -> None:
    class Inner(asyncio.Protocol):
        calls: ClassVar[list[str]] = []

        def data_received(self, data: bytes) -> None:
            self.calls.append(f"{len(data)} bytes")

        def pause_writing(self) -> None:
            self.calls.append("pause")

        def resume_writing(self) -> None:
            self.calls.append("resume")

    async def act() -> bool:
        connection, transport = _connect(ConnectionLimits(), b"GET", Inner())
        connection.pause_writing()
        connection.resume_writing()
        connection.data_received(b"x" * 70_000)
        return transport.is_aborted

    assert asyncio.run(act())
    assert Inner.calls == ["3 bytes", "pause", "resume"]


def _session_app(sessions: list[bytes]) -> Any:
    """An application that opens a session for a request without one, and ends one when asked to."""
    numbers = count()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        session = dict(scope["headers"]).get(b"mcp-session-id", b"")
        if scope["method"] == "DELETE":
            sessions.remove(session)
        elif not session:
            session = f"session {next(numbers)}".encode()
            sessions.append(session)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"mcp-session-id", session)]})

    return app


def test_abandoned_sessions_make_room_for_new_ones_and_used_ones_stay() -> None:
    sessions: list[bytes] = []
    limits = SessionLimits(_session_app(sessions), 4)

    async def ask(session: bytes = b"") -> None:
        headers = [(b"host", b"x"), *([(b"mcp-session-id", session)] if session else [])]
        scope = {"type": "http", "method": "POST", "headers": headers, "client": ("10.0.0.1", 1)}

        async def nothing(message: Any = None) -> Any:
            return {"type": "http.request"}

        await limits(scope, nothing, nothing)

    async def act() -> None:
        await ask()
        used = sessions[0]
        for _ in range(20):
            await ask()
            await ask(used)
        assert used in sessions
        assert len(sessions) == 4

    asyncio.run(act())


def test_a_session_that_waits_for_an_answer_is_not_ended() -> None:
    sessions: list[bytes] = []
    inner = _session_app(sessions)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if dict(scope["headers"]).get(b"mcp-session-id") and scope["method"] == "POST":
            await ask()
        await inner(scope, receive, send)

    async def ask(session: bytes = b"") -> None:
        headers = [(b"mcp-session-id", session)] if session else []

        async def nothing(message: Any = None) -> Any:
            return {"type": "http.request"}

        await limits({"type": "http", "method": "POST", "headers": headers}, nothing, nothing)

    limits = SessionLimits(app, 1)

    async def act() -> None:
        await ask()
        await ask(sessions[0])

    asyncio.run(act())
    assert sessions == [b"session 0", b"session 1"]


def test_what_was_logged_is_not_remembered_without_end() -> None:
    may_pass = log_once(lambda: 0.0)
    records = [logging.LogRecord("x", logging.WARNING, "", 0, f"line {number}", (), None) for number in range(1002)]
    assert all(map(may_pass, records[:1001]))
    assert not may_pass(records[0])
    assert [may_pass(records[1001]), may_pass(records[0]), may_pass(records[1001])] == [True, True, False]


def test_a_line_is_logged_once_a_minute() -> None:
    now = [0.0]
    may_pass = log_once(lambda: now[0])
    record = logging.LogRecord("x", logging.WARNING, "", 0, "refused %d", (1,), None)
    assert [may_pass(record), may_pass(record)] == [True, False]
    now[0] = 59.9
    assert not may_pass(record)
    now[0] = 60.0
    assert may_pass(record)
    other = logging.LogRecord("x", logging.WARNING, "", 0, "other %d", (1,), None)
    assert may_pass(other)
