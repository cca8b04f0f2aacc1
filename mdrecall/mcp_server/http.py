"""The server over streamable HTTP, on the official SDK: where it listens, who may talk to it, what one may take.

uvicorn waits forever for the rest of a request, and the SDK keeps a session for half an hour that its client has left.
So a connection is closed if a request does not come to its end in time, the oldest unfinished one goes if there are too
many, and the session that has been idle for longest makes room for a new one.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Coroutine, MutableMapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mdrecall.errors import RecallError
from mdrecall.mcp_server import protocol
from mdrecall.mcp_server.protocol import Json, ProtocolError, Request

if TYPE_CHECKING:
    import socket

    import h11
    import uvicorn
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel.server import Server
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp_types import RequestId
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from mdrecall.aio import Threads
    from mdrecall.mcp_server.answers import Answers
    from mdrecall.mcp_server.memories import Memories
    from mdrecall.mcp_server.tools import MakeTools

    _Context = ServerRequestContext[Any]

_log = logging.getLogger(__name__)

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8377
PATH = "/mcp"
_HEALTH_PATH = "/healthz"
#: Below this a token can be guessed by trying; 16 random letters and digits cannot.
_MIN_TOKEN_CHARS = 16
#: Bounds the sessions that clients leave behind when they do not say goodbye.
_MAX_SESSIONS = 256
#: How long answers that are being written may take after a signal.
_SHUTDOWN_S = 2
#: Who logs a line for each request that somebody sends wrongly.
_NOISY_LOGGERS = (
    "asyncio",
    "mcp.server.streamable_http_manager",
    "mcp.server.transport_security",
    __name__,
    "uvicorn.error",
)
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
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
_SESSION_ID = b"mcp-session-id"


class HttpEndpoint(NamedTuple):
    """Where a server listens, and the names and token that clients must use."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str = ""
    allow_hosts: tuple[str, ...] = ()
    """More names that clients may call this server by."""
    allow_origins: tuple[str, ...] = ()
    """Websites whose pages may talk to this server."""

    def check(self) -> None:
        """Raise if the server would be open to a network without a token, or with one that can be guessed."""
        if not self.token and not is_loopback(self.host):
            message = f"A server on {self.host} can be reached from other machines, and there is no token."
            hint = "Name a file that holds one with --token-file, set MDRECALL_TOKEN, or leave out --host."
            raise RecallError(message, hint=hint)
        if self.token and len(self.token) < _MIN_TOKEN_CHARS:
            hint = "Make one, for example with: openssl rand -hex 32"
            raise RecallError(f"The token has fewer than {_MIN_TOKEN_CHARS} characters.", hint=hint)
        if not (self.token.isascii() and self.token.isprintable()):
            hint = "Make one of letters and digits, for example with: openssl rand -hex 32"
            raise RecallError("The token has characters that an HTTP header cannot carry.", hint=hint)

    def listen(self) -> "socket.socket":
        """Return a socket that clients can connect to; an endpoint that fails ``check()`` is never listened on."""
        import socket

        self.check()
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listening = socket.create_server((self.host, self.port), family=family)
            # Connections inherit it. Without it, the body of an answer waits 40 ms for the client to confirm the head.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            return listening
        except OSError as error:
            # Python appends the address to the system's message, as a tuple.
            reason = (error.strerror or str(error)).partition(" (while")[0]
            message = f"Cannot listen on {bracket_host(self.host)}:{self.port}: {reason}."
            raise RecallError(message, hint="Choose another --port (0 takes a free one) or --host.") from error

    def hosts(self, port: int) -> list[str]:
        """Return what a Host header may say."""
        names = dict.fromkeys((*_LOOPBACK_NAMES, bracket_host(self.host)))
        return [f"{name}:{port}" for name in names] + [
            form for name in self.allow_hosts for form in (name, f"{name}:*")
        ] + (list(names) if port == 80 else [])  # fmt: skip

    def origins(self, port: int) -> list[str]:
        """Return what an Origin header may say, if there is one."""
        return [f"http://{host}" for host in self.hosts(port)] + list(self.allow_origins)


def is_loopback(host: str) -> bool:
    """True if only this machine can reach a server at this address."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bracket_host(host: str) -> str:
    """Return a host as URLs write it, an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def read_token(path: str) -> str:
    """Return the token in a file."""
    try:
        with open(path, encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"Cannot read the token file {path}: {getattr(error, 'strerror', None) or 'it is not text'}."
        raise RecallError(message, hint="Check the path and the permissions.") from error
    if not token:
        raise RecallError(f"The token file {path} is empty.", hint="Write a token into it.")
    return token


class Guard:
    """Passes on requests that name this host, come from no other website, and carry the token if there is one."""

    def __init__(self, app: "ASGIApp", security: "TransportSecuritySettings", token: str) -> None:
        from mcp.server.transport_security import TransportSecurityMiddleware

        self._app = app
        self._headers = TransportSecurityMiddleware(security)
        self._token = token.encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        from starlette.requests import Request as HttpRequest

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        response = await self._respond(HttpRequest(scope))
        await (response or self._app)(scope, receive, send)

    async def _respond(self, request: "HttpRequest") -> "Response | None":
        """Return the response to a request that goes no further; None if it may go on."""
        from starlette.responses import JSONResponse, PlainTextResponse

        if {"content-length", "transfer-encoding"} <= set(request.headers.keys()):
            # A proxy may read the one and this server the other, and each would see other requests.
            return PlainTextResponse("A request has either a length or an encoding.", 400, {"Connection": "close"})
        refusal = await self._headers.validate_request(request)
        if refusal is not None:
            return refusal
        if request.url.path == _HEALTH_PATH:
            return JSONResponse({"status": "ok"})
        if self._token and not self._has_token(request.headers.get("authorization", "")):
            return PlainTextResponse("A token is needed.", 401, {"WWW-Authenticate": "Bearer"})
        return None

    def _has_token(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        # The comparison takes the same time for any token, so that it cannot be found out letter by letter.
        return hmac.compare_digest(token.strip().encode(), self._token) and scheme.lower() == "bearer"


class RequestProgress:
    """Follows the bytes of a connection, and knows whether a request is still under way."""

    def __init__(self) -> None:
        self.is_unfinished = True
        self.is_too_long = False
        self._parser: h11.Connection | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        import h11

        while data:
            self.is_unfinished = True
            self._parser = self._parser or h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
            self._parser.receive_data(data)
            try:
                while self._parser.next_event() not in (h11.NEED_DATA, h11.PAUSED):
                    continue
            except h11.RemoteProtocolError as error:
                # uvicorn refuses it in its own words.
                self.is_too_long = self.is_too_long or error.error_status_hint == 431
                return
            if self._parser.their_state in (h11.IDLE, h11.SEND_BODY):
                return
            data, _ = self._parser.trailing_data
            self._parser, self.is_unfinished = None, False


class ConnectionLimits:
    """The connections of a server."""

    def __init__(self) -> None:
        self._open: dict[LimitedConnection, None] = {}
        self._unfinished: dict[LimitedConnection, None] = {}

    def protocol(self, make: Callable[..., asyncio.Protocol]) -> Callable[..., "LimitedConnection"]:
        """Return what uvicorn calls for each connection: the protocol that ``make`` makes, within the limits."""
        return lambda **arguments: LimitedConnection(make(**arguments), self)

    def begin(self, connection: "LimitedConnection") -> None:
        """Count a request that has begun; if there are too many, the oldest unfinished one is dropped.

        Such a one makes room for a new connection, too, which is refused otherwise.
        """
        is_new = connection not in self._open
        self._open[connection] = self._unfinished[connection] = None
        if len(self._unfinished) > MAX_UNFINISHED:
            self._drop_oldest("there are too many unfinished requests")
        if is_new and len(self._open) > MAX_CONNECTIONS:
            self._drop_oldest("there are too many connections")

    def end(self, connection: "LimitedConnection", *, is_closed: bool = False) -> None:
        """Count a request that has arrived, or forget a connection that is closed."""
        self._unfinished.pop(connection, None)
        if is_closed:
            self._open.pop(connection, None)

    def _drop_oldest(self, why: str) -> None:
        connection = next(iter(self._unfinished))
        self.end(connection, is_closed=True)
        connection.drop(why)


class LimitedConnection:
    """One connection: passes everything on, and closes itself if a request does not arrive in time."""

    def __init__(self, inner: asyncio.Protocol, limits: ConnectionLimits) -> None:
        self._inner = inner
        self._limits = limits
        self._progress = RequestProgress()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.eof_received = inner.eof_received
        self.pause_writing = inner.pause_writing
        self.resume_writing = inner.resume_writing

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._inner.connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        was_unfinished = self._progress.is_unfinished
        self._progress.feed(data)
        if self._progress.is_too_long:
            self.drop("the head of a request was too long")
            return
        if not self._progress.is_unfinished:
            self._stop_timer()
            self._limits.end(self)
        elif not was_unfinished:
            self._begin()
        self._inner.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        self._limits.end(self, is_closed=True)
        self._inner.connection_lost(error)

    def drop(self, why: str) -> None:
        """Close the connection without an answer."""
        _log.warning("A connection was closed: %s", why)
        if self._transport is not None:
            self._transport.abort()

    def _begin(self) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(REQUEST_S, self.drop, "a request did not arrive in time")
        self._limits.begin(self)

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


class MemoryServer(NamedTuple):
    """The SDK's server with everything that it uses and that has to be closed."""

    server: "Server[Any]"
    answers: "Answers"
    threads: "Threads"

    def close(self) -> None:
        """Close everything that is open; may be called twice."""
        self.threads.release()
        self.answers.close()


def build_server(
    memories: "Memories", session_key: str = "", make_tools: "MakeTools | None" = None, *, read_only: bool = False
) -> MemoryServer:
    """Return a server for some memories; the arguments are those of ``Answers``."""
    import mcp_types as types
    from mcp.server.lowlevel.server import Server
    from mcp.shared.exceptions import MCPError

    from mdrecall.aio import Threads
    from mdrecall.mcp_server.answers import Answers

    answers = Answers(memories, session_key, make_tools, read_only=read_only)
    threads = Threads()
    server: Server[Any] = Server(
        **protocol.describe_server(),
        instructions=answers.instructions or None,
        # No tool takes an argument from a header, which is all that the SDK would look for in a schema.
        get_tool_input_schema=lambda name: None,
    )

    async def answer(context: "_Context", params: types.RequestParams) -> Json:
        notifier = _Notifier(context, context.request_id)
        peer, wants_progress = context.session.client_params, (context.meta or {}).get("progress_token") is not None
        send_progress = notifier.send_progress if wants_progress else None
        request = Request(context.method, context.params or {}, peer.client_info.name if peer else "", send_progress)
        try:
            with answers.logs.listen_during_request(request.meta.get(protocol.LOG_LEVEL_KEY), notifier.send_log):
                result = await threads.call(lambda: answers.answer(request))
        except ProtocolError as error:
            raise MCPError(error.code, error.message, error.data) from error
        finally:
            await notifier.drain()
        if context.protocol_version in protocol.STATELESS_VERSIONS:
            return protocol.complete(context.method, result)
        return result

    async def set_level(context: "_Context", params: types.SetLevelRequestParams) -> types.EmptyResult:
        answers.logs.listen(context.session.client_params, params.level, _Notifier(context).send_log)
        return types.EmptyResult()

    for method in answers.methods:
        server.add_request_handler(method, types.RequestParams, answer)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    answers.logs.open()
    return MemoryServer(server, answers, threads)


class _Notifier:
    """Sends a client, on the loop of its request, what other threads have to say."""

    def __init__(self, context: "_Context", request_id: "RequestId | None" = None) -> None:
        self._session = context.session
        self._request_id = request_id
        self._loop = asyncio.get_running_loop()
        self._sent: set[Future[None]] = set()

    def send_progress(self, done: int, total: int, label: str) -> None:
        self._send(lambda: self._session.report_progress(done, total, label))

    def send_log(self, params: Json) -> None:
        import mcp_types as types

        fields = types.LoggingMessageNotificationParams.model_validate(params)
        notification = types.LoggingMessageNotification(params=fields)
        self._send(lambda: self._session.send_notification(notification, self._request_id))

    async def drain(self) -> None:
        """Wait until everything is sent, unless the client has gone."""
        await asyncio.gather(*map(asyncio.wrap_future, list(self._sent)), return_exceptions=True)

    def _send(self, make: "Callable[[], Coroutine[Any, Any, None]]") -> None:
        if not self._loop.is_closed():
            sent = asyncio.run_coroutine_threadsafe(make(), self._loop)
            self._sent.add(sent)
            sent.add_done_callback(self._sent.discard)


def build_app(built: "MemoryServer", endpoint: HttpEndpoint, port: int) -> "ASGIApp":
    """Return the server as an ASGI application."""
    from mcp.server.transport_security import TransportSecuritySettings

    security = TransportSecuritySettings(
        allowed_hosts=endpoint.hosts(port),
        allowed_origins=endpoint.origins(port),
    )
    app = built.server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=protocol.MAX_REQUEST_BYTES,
        max_sessions=_MAX_SESSIONS,
        transport_security=security,
    )
    return Guard(SessionLimits(app, _MAX_SESSIONS), security, endpoint.token)


def configure(app: "ASGIApp", *, lifespan: Literal["on", "off"]) -> "uvicorn.Config":
    """Return how an application is served: within the limits of connections, and without a line for each request."""
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    may_pass = log_once()
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).addFilter(may_pass)
    return uvicorn.Config(
        app,
        http=ConnectionLimits().protocol(AutoHTTPProtocol),  # type: ignore[arg-type]
        access_log=False,
        log_config=None,
        lifespan=lifespan,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        ws="none",
    )


async def serve(
    built: "MemoryServer",
    endpoint: HttpEndpoint,
    listening: "socket.socket",
    announce: Callable[[str], None],
    extend: "Callable[[ASGIApp, int], ASGIApp] | None" = None,
) -> None:
    """Serve until a signal comes; ``announce`` receives the address as soon as it answers.

    ``extend`` may put another application beside the server; it also receives the port.
    """
    import uvicorn

    port = listening.getsockname()[1]
    app = build_app(built, endpoint, port)
    config = configure(extend(app, port) if extend else app, lifespan="on")
    announce(f"http://{bracket_host(endpoint.host)}:{port}{PATH}")
    await uvicorn.Server(config).serve(sockets=[listening])
