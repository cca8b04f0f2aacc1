"""The server over streamable HTTP: who may talk to it, and how it begins and ends."""

import asyncio
import hmac
import socket
from collections.abc import Callable

import uvicorn
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mdrecall.mcp_server.http_endpoint import HttpEndpoint, bracketed
from mdrecall.mcp_server.server import Built

PATH = "/mcp"
_HEALTH = "/healthz"
_MOST_BODY_BYTES = 1024 * 1024
_MOST_SESSIONS = 256
_GRACE_S = 2


class Guard:
    """Lets nobody in but those who name this host, come from no other website, and know the token if there is one."""

    def __init__(self, app: ASGIApp, security: TransportSecuritySettings, token: str) -> None:
        self._app = app
        self._headers = TransportSecurityMiddleware(security)
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = await self._answer(Request(scope))
        await (answer or self._app)(scope, receive, send)

    async def _answer(self, request: Request) -> Response | None:
        """What is answered here; None if the request may go on."""
        refusal = await self._headers.validate_request(request)
        if refusal is not None:
            return refusal
        if request.url.path == _HEALTH:
            return JSONResponse({"status": "ok"})
        if self._token and not self._knows_token(request.headers.get("authorization", "")):
            return PlainTextResponse("A token is needed.", 401, {"WWW-Authenticate": "Bearer"})
        return None

    def _knows_token(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        # Both in the same time, whatever is given.
        return hmac.compare_digest(given.strip().encode(), self._token) and scheme.lower() == "bearer"


def guarded(built: Built, front: HttpEndpoint, port: int) -> ASGIApp:
    """The server as an ASGI application."""
    security = TransportSecuritySettings(
        allowed_hosts=front.hosts(port),
        allowed_origins=front.origins(port),
    )
    app = built.server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=_MOST_BODY_BYTES,
        max_sessions=_MOST_SESSIONS,
        transport_security=security,
    )
    return Guard(app, security, front.token)


async def serve(built: Built, front: HttpEndpoint, listening: socket.socket, tell: Callable[[str], None]) -> None:
    """Serve until a signal comes; ``tell`` is given the address as soon as it answers."""
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        guarded(built, front, port),
        access_log=False,
        log_config=None,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
        ws="none",
    )
    warming = asyncio.ensure_future(built.warm())
    tell(f"http://{bracketed(front.host)}:{port}{PATH}")
    try:
        await uvicorn.Server(config).serve(sockets=[listening])
    finally:
        warming.cancel()
