"""The server over streamable HTTP, on the official SDK: where it listens, who may talk to it, what one may take.

uvicorn waits forever for the rest of a request. So a connection is closed if a request does not come to its end in
time, and the oldest unfinished one goes if there are too many. There are no sessions that clients could leave behind.
"""

import asyncio
import hmac
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mdrecall.errors import RecallError
from mdrecall.mcp_server import protocol
from mdrecall.mcp_server.protocol import Json, ProtocolError, Request

if TYPE_CHECKING:
    import socket

    import uvicorn
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel.server import Server
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from mdrecall.aio import Threads
    from mdrecall.mcp_server.answers import Answers
    from mdrecall.mcp_server.memories import Memories
    from mdrecall.mcp_server.tools import MakeTools

    _Context = ServerRequestContext[Any]

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8377
PATH = "/mcp"
_HEALTH_PATH = "/healthz"
#: Below this a token can be guessed by trying; 16 random letters and digits cannot.
_MIN_TOKEN_CHARS = 16
#: How long answers that are being written may take after a signal.
_SHUTDOWN_S = 2
#: They log a warning for each request that somebody sends wrongly.
_NOISY_LOGGERS = ("asyncio", "mcp.server.transport_security", "uvicorn.error")
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
#: How long a request may take to arrive. On any network a tool call takes a moment.
REQUEST_S = 15.0
#: How many connections are served, well below the 1,024 files that a process usually may have open.
_MAX_CONNECTIONS = 512
#: How many may be in the middle of a request; each of them is for an instant, if its client means well.
MAX_UNFINISHED = 128


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
        names = list(dict.fromkeys((*_LOOPBACK_NAMES, bracket_host(self.host))))
        more = [form for name in self.allow_hosts for form in (name, f"{name}:*")]
        return [f"{name}:{port}" for name in names] + more + (names if port == 80 else [])

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
        if refusal := await self._headers.validate_request(request):
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


class LimitedConnection:
    """A connection of uvicorn's that is closed if a request does not arrive in time."""

    def __init__(self, inner: "H11Protocol", unfinished: "dict[LimitedConnection, None]") -> None:
        """``unfinished`` are all connections in the middle of a request, oldest first."""
        self._inner = inner
        self._unfinished = unfinished
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
        import h11

        self._inner.data_received(data)
        if self._inner.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
            self._end()
        elif self._timer is None:
            self._begin()

    def connection_lost(self, error: Exception | None) -> None:
        self._end()
        self._inner.connection_lost(error)

    def _begin(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(REQUEST_S, self._drop)
        self._unfinished[self] = None
        if len(self._unfinished) > MAX_UNFINISHED:
            next(iter(self._unfinished))._drop()

    def _end(self) -> None:
        self._unfinished.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self) -> None:
        """Close the connection without an answer."""
        self._end()
        if self._transport is not None:
            self._transport.abort()


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
        peer = context.session.client_params
        request = Request(context.method, context.params or {}, peer.client_info.name if peer else "")
        try:
            result = await threads.call(lambda: answers.answer(request))
        except ProtocolError as error:
            raise MCPError(error.code, error.message, error.data) from error
        if context.protocol_version in protocol.STATELESS_VERSIONS:
            return protocol.complete(context.method, result)
        return result

    for method in answers.methods:
        server.add_request_handler(method, types.RequestParams, answer)
    return MemoryServer(server, answers, threads)


def build_app(built: "MemoryServer", endpoint: HttpEndpoint, port: int) -> "ASGIApp":
    """Return the server as an ASGI application."""
    from mcp.server.transport_security import TransportSecuritySettings

    security = TransportSecuritySettings(allowed_hosts=endpoint.hosts(port), allowed_origins=endpoint.origins(port))
    app = built.server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=protocol.MAX_REQUEST_BYTES,
        stateless_http=True,
        transport_security=security,
    )
    return Guard(app, security, endpoint.token)


def configure(app: "ASGIApp", *, lifespan: Literal["on", "off"]) -> "uvicorn.Config":
    """Return how an application is served: within the limits of connections, and without a line for each request."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    unfinished: dict[LimitedConnection, None] = {}
    return uvicorn.Config(
        app,
        http=lambda **arguments: LimitedConnection(H11Protocol(**arguments), unfinished),  # type: ignore[arg-type]
        limit_concurrency=_MAX_CONNECTIONS,
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
