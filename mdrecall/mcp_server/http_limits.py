"""What one client may take from the others: unfinished requests, connections, sessions and lines of the log.

uvicorn waits forever for the rest of a request, and the SDK keeps a session for half an hour that its client has left.
So a connection is closed if a request does not come to its end in time, the oldest unfinished one goes if there are too
many, and the session that has been idle for longest makes room for a new one.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

#: How long a request may take to arrive. On any network a tool call takes a moment.
REQUEST_S = 15.0
#: How many connections may be open, well below the 1,024 files that a process usually may have open.
MAX_CONNECTIONS = 512
#: How many of them may be in the middle of a request; each of them is for an instant, if its client means well.
MAX_UNFINISHED = 128
#: How many sessions the clients at one address may have. Each client has one; agents on this machine share an address.
MAX_SESSIONS_PER_CLIENT = 128
#: The same line is logged once in this time.
_QUIET_S = 60.0
_MAX_HEAD_BYTES = 65_536
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked", re.IGNORECASE)
_END_OF_CHUNKS = b"0\r\n\r\n"
_SESSION_ID = b"mcp-session-id"


class RequestProgress:
    """Follows the bytes of a connection, and knows whether a request is still under way."""

    def __init__(self) -> None:
        self.is_unfinished = True
        self.is_too_long = False
        self._head = b""
        self._left = 0
        self._is_chunked = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        while data:
            self.is_unfinished = True
            if self._left:
                taken = min(self._left, len(data))
                self._left, data = self._left - taken, data[taken:]
                self.is_unfinished = self._left > 0
            elif self._is_chunked:
                self._head, data = (self._head + data)[-len(_END_OF_CHUNKS) :], b""
                if self._head == _END_OF_CHUNKS:
                    self._head, self._is_chunked, self.is_unfinished = b"", False, False
            else:
                data = self._read_head(data)

    def _read_head(self, data: bytes) -> bytes:
        """Take bytes of the head of a request, and return those that follow it."""
        head, ends, rest = (self._head + data).partition(b"\r\n\r\n")
        if not ends:
            self._head, self.is_too_long = head[:_MAX_HEAD_BYTES], len(head) > _MAX_HEAD_BYTES
            return b""
        length = _LENGTH.search(head)
        self._head, self._left = b"", int(length[1]) if length else 0
        self._is_chunked = not length and _CHUNKED.search(head) is not None
        self.is_unfinished = self._left > 0 or self._is_chunked
        return rest


class ConnectionLimits:
    """The connections of a server."""

    def __init__(self) -> None:
        self._open: dict[LimitedConnection, None] = {}
        self._unfinished: dict[LimitedConnection, None] = {}

    def protocol(self, make: Callable[..., asyncio.Protocol]) -> Callable[..., "LimitedConnection"]:
        """Return what uvicorn calls for each connection: the protocol that ``make`` makes, within the limits."""
        return lambda **arguments: LimitedConnection(make(**arguments), self)

    def add(self, connection: "LimitedConnection") -> None:
        """Count a new connection; an unfinished one makes room for it, or it is refused."""
        self._open[connection] = None
        self.begin(connection)
        if len(self._open) > MAX_CONNECTIONS:
            self._drop(next(iter(self._unfinished)), "there are too many connections")

    def begin(self, connection: "LimitedConnection") -> None:
        """Count a request that has begun; if there are too many, the oldest is dropped."""
        self._unfinished[connection] = None
        if len(self._unfinished) > MAX_UNFINISHED:
            self._drop(next(iter(self._unfinished)), "there are too many unfinished requests")

    def end(self, connection: "LimitedConnection") -> None:
        """Count a request that has arrived."""
        self._unfinished.pop(connection, None)

    def remove(self, connection: "LimitedConnection") -> None:
        """Forget a connection that is closed."""
        self.end(connection)
        self._open.pop(connection, None)

    def _drop(self, connection: "LimitedConnection", why: str) -> None:
        self.remove(connection)
        connection.drop(why)


class LimitedConnection:
    """One connection: passes everything on, and closes itself if a request does not arrive in time."""

    def __init__(self, inner: asyncio.Protocol, limits: ConnectionLimits) -> None:
        self._inner = inner
        self._limits = limits
        self._progress = RequestProgress()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._inner.connection_made(transport)
        self._start_timer()
        self._limits.add(self)

    def data_received(self, data: bytes) -> None:
        was_unfinished = self._progress.is_unfinished
        self._progress.feed(data)
        if self._progress.is_too_long:
            self.drop("the head of a request was too long")
            return
        if self._progress.is_unfinished and not was_unfinished:
            self._start_timer()
            self._limits.begin(self)
        elif not self._progress.is_unfinished:
            self._stop_timer()
            self._limits.end(self)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        self._limits.remove(self)
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def drop(self, why: str) -> None:
        """Close the connection without an answer."""
        _log.warning("A connection was closed: %s", why)
        if self._transport is not None:
            self._transport.abort()

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(REQUEST_S, self.drop, "a request did not arrive in time")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class SessionLimits:
    """Ends the session that has been idle for longest when there are too many, by the request a client would send."""

    def __init__(self, app: "ASGIApp", most: int) -> None:
        self._app = app
        self._most = most
        # The sessions, the one that was used last at the end: the address of its client, and its requests under way.
        self._sessions: dict[bytes, tuple[str, int]] = {}

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        client = (scope.get("client") or ("",))[0]
        session = headers.get(_SESSION_ID, b"")
        if not session and scope["method"] == "POST":
            await self._make_room(client, scope)
        if session in self._sessions:
            self._use(session, 1)

        async def watch(message: "Message") -> None:
            if message["type"] == "http.response.start":
                self._note(session, client, scope["method"], message)
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if session in self._sessions:
                self._use(session, -1)

    def _use(self, session: bytes, requests: int) -> None:
        client, under_way = self._sessions.pop(session)
        self._sessions[session] = client, max(0, under_way + requests)

    def _note(self, session: bytes, client: str, method: str, response: "MutableMapping[str, Any]") -> None:
        """Learn from a response that a session has begun or ended."""
        begun = dict(response["headers"]).get(_SESSION_ID, b"")
        if session and (method == "DELETE" or response["status"] == 404):
            self._sessions.pop(session, None)
        elif begun and not session and response["status"] < 400:
            self._sessions[begun] = client, 0

    async def _make_room(self, client: str, scope: "Scope") -> None:
        own = [session for session, (whose, _) in self._sessions.items() if whose == client]
        chosen = own if len(own) >= MAX_SESSIONS_PER_CLIENT else list(self._sessions)
        if chosen is not own and len(self._sessions) < self._most:
            return
        idle = next((session for session in chosen if not self._sessions[session][1]), None)
        if idle is None:
            return
        self._sessions.pop(idle)
        _log.warning("A session was ended to make room for a new one: it had been idle for longest")
        await self._end(idle, scope)

    async def _end(self, session: bytes, scope: "Scope") -> None:
        host = [(name, value) for name, value in scope["headers"] if name in (b"host", b"authorization")]

        async def receive() -> "Message":
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: "Message") -> None:
            """Nobody waits for this response."""

        await self._app({**scope, "method": "DELETE", "headers": [*host, (_SESSION_ID, session)]}, receive, send)


def log_once(now: Callable[[], float] = time.monotonic) -> Callable[[logging.LogRecord], bool]:
    """Return a filter that lets the same line pass once a minute, whatever its numbers are."""
    last: dict[str, float] = {}

    def may_pass(record: logging.LogRecord) -> bool:
        key = f"{record.name} {record.msg}"
        if key in last and now() - last[key] < _QUIET_S:
            return False
        if len(last) > 1000:
            last.clear()
        last[key] = now()
        return True

    return may_pass
