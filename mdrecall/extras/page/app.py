"""The web page as an ASGI application: which view answers an address, how its answer is sent, and how it is started."""

import asyncio
import logging
import os
import re
import socket
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from mdrecall.errors import ArgumentError, FileBusy, FileChanged, FileMissing, RecallError
from mdrecall.extras.page.guard import Guard, is_masked, mask_token, read_form
from mdrecall.extras.page.page import (
    CSRF_FIELD,
    PREFIX,
    STATIC,
    THEMES,
    Answer,
    Page,
    Redirect,
    Visit,
    error_page,
    make_url,
    render_page,
)
from mdrecall.sessions.visibility import parse

if TYPE_CHECKING:
    from mdrecall.mcp_server.http import HttpEndpoint
    from mdrecall.mcp_server.memories import Memories

_log = logging.getLogger(__name__)
#: Each view with the module whose function answers it: ``GET home`` is ``get_home``. It is loaded when first needed.
VIEWS = {
    view: module
    for module, views in {
        "home": "GET home, GET conflicts",
        "search": "GET search",
        "read": "GET notes, GET note, GET follow, GET around, GET conversation",
        "timeline": "GET time, GET day",
        "agents": "GET agents, POST silence, POST wish",
        "settings": "GET settings, GET theme",
        "edit": "GET edit, POST edit, POST preview, POST task, GET new, POST append, POST delete,"
        " GET trash, POST trash, POST restore",
        "forget": "GET forget, POST forget, POST forget-apply, POST forget-undo",
    }.items()
    for view in views.split(", ")
}
_FILES = StaticFiles(directory=os.path.join(os.path.dirname(__file__), "static"))
#: The largest form holds a whole note, of which each byte may take three characters in a form.
_MAX_FORM_BYTES = 32 * 1024 * 1024
#: The quickest: a page of results becomes a fifth of its size in a quarter of a millisecond.
_COMPRESSION = 1
#: No form of ours has a tenth as many.
_MAX_FIELDS = 200
_STATUS: Mapping[type[RecallError], int] = {FileMissing: 404, FileChanged: 409, FileBusy: 409}


#: The cookie with the theme, and how long it lasts. All servers of this machine share it.
_THEME, _YEAR_S = "mdrecall-theme", 365 * 24 * 3_600


class App:
    """Answers the requests that the guard lets through."""

    def __init__(self, memories: "Memories", session_key: str = "", *, can_change: bool = True) -> None:
        self.memories = memories
        self._session_key = session_key
        # What a conversation may see is known; what it may change in all notes is nobody's to say.
        self._can_change = can_change and not session_key.strip()
        self.csrf = ""
        """The token that a form must send; the guard makes it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        path = request.url.path
        if path in ("/", PREFIX, f"{PREFIX}/"):
            return RedirectResponse(make_url(self.memories.default, "home"), 303)
        if path.startswith(STATIC):
            return await _send_static(path.removeprefix(STATIC), request)
        name, _, view = path.removeprefix(f"{PREFIX}/").partition("/")
        name, method = unquote(name), "GET" if request.method == "HEAD" else request.method
        is_known = name in self.memories.names and f"{method} {view}" in VIEWS
        name = name if name in self.memories.names else self.memories.default
        query, now, csrf = dict(request.query_params), datetime.now(UTC), self.csrf and mask_token(self.csrf)
        theme = request.cookies.get(_THEME, "")
        rest = self._session_key, self._can_change, theme if theme in THEMES else ""
        visit = Visit(self.memories, name, query, {}, csrf, now, *rest)
        if not is_known:
            return _refuse(visit, 404, "There is no such page.", "The links above lead to all there are.")
        if method == "POST":
            body = await read_form(request, _MAX_FORM_BYTES)
            if body is None or body.count(b"&") >= _MAX_FIELDS:
                return _refuse(visit, 413, "The form is too large, or not a form.", "Send less at once.")
            # The token is the first field of every form, so that nothing else of a foreign one is looked at.
            field, _, token = body.partition(b"&")[0].decode("latin-1").partition("=")
            if not (self.csrf and field == CSRF_FIELD and is_masked(token, self.csrf)):
                return _refuse(visit, 403, "This form is not from this page.", "Load the page again.")
            visit = visit._replace(form=dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)))
        return _send(await run_in_threadpool(_answer, f"{method} {view}", visit), visit)


def _refuse(visit: Visit, status: int, problem: str, hint: str) -> Response:
    return _send(error_page(RecallError(problem, hint=hint), status), visit)


def _answer(view: str, visit: Visit) -> Answer:
    """Return the answer of a view; every failure is a page that says what to do."""
    try:
        if parse(visit.session_key).kind == "subagent":
            hint = "Start the page without a session key, or with that of another conversation."
            raise ArgumentError("A sub-agent has no memory.", name="session_key", hint=hint)
        if view.startswith("POST") and not visit.can_change:
            hint = "Start it without --read-only and --session-key."
            raise ArgumentError("This page is read-only.", name="form", hint=hint)
        module: Any = import_module(f"mdrecall.extras.page.{VIEWS[view]}")
        answer: Answer = getattr(module, re.sub(r"\W", "_", view.lower()))(visit)
        return answer
    except RecallError as error:
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400)
        return error_page(error, status)
    except Exception:
        _log.exception("The page %s failed.", view)
        hint = "The terminal in which mdrecall runs says more. Your notes are as they were."
        return error_page(RecallError("This is a bug in mdrecall.", hint=hint), 500)


def _send(answer: Answer, visit: Visit) -> Response:
    if isinstance(answer, Redirect):
        redirect = RedirectResponse(answer.url, 303)
        if answer.theme in THEMES:
            redirect.set_cookie(_THEME, answer.theme, _YEAR_S, path=PREFIX, httponly=True, samesite="strict")
        return redirect
    body, status = (render_page(answer, visit), answer.status) if isinstance(answer, Page) else (answer, 200)
    # Half characters, which JSON and file names can hold, are no UTF-8.
    return HTMLResponse(body.encode("utf-8", "replace"), status)


async def _send_static(name: str, request: Request) -> Response:
    try:
        response = await _FILES.get_response(name, request.scope)
    except HTTPException as error:
        return PlainTextResponse("That file does not exist.", error.status_code)
    # The browser asks again each time, and gets the content only if this is another version.
    response.headers["Cache-Control"] = "no-cache"
    return response


def is_known_host(host: str, hosts: Collection[str]) -> bool:
    """True if a Host header names one of these hosts, of which ``name:*`` stands for any port."""
    name, _, port = host.rpartition(":")
    return host in hosts or (port.isdecimal() and f"{name}:*" in hosts)


def build_guarded(app: App, endpoint: "HttpEndpoint", port: int) -> Guard:
    """Return the web page behind its guard."""
    hosts = endpoint.hosts(port)
    compressed = GZipMiddleware(app, compresslevel=_COMPRESSION)
    guard = Guard(compressed, lambda host: is_known_host(host, hosts), endpoint.origins(port), port, endpoint.token)
    app.csrf = guard.csrf
    return guard


def route_to(guard: Guard, other: ASGIApp) -> ASGIApp:
    """Return an application that answers the web page's addresses by it, and all others by another one."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_ours = scope["type"] == "http" and (path == PREFIX or path.startswith(f"{PREFIX}/"))
        await (guard if is_ours else other)(scope, receive, send)

    return route


def serve(app: App, listening: socket.socket, endpoint: "HttpEndpoint", announce: Callable[[str], None]) -> int:
    """Serve the web page until a signal comes and return the exit code; ``announce`` receives the link to open."""
    from mdrecall.mcp_server.http import bracket_host, configure
    from mdrecall.mcp_server.start import ignore_signals

    port = listening.getsockname()[1]
    guard = build_guarded(app, endpoint, port)
    server = uvicorn.Server(configure(guard, lifespan="off"))
    # Opened at once, so that the first page does not wait for it.
    app.memories.get(app.memories.default)
    announce(f"http://{bracket_host(endpoint.host)}:{port}{guard.link}")
    ignore_signals()
    try:
        asyncio.run(server.serve(sockets=[listening]))
    finally:
        listening.close()
        app.memories.close()
    return 0
