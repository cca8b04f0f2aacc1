"""The web page as an ASGI application: which view answers an address, how its answer is sent, and how it is started."""

import importlib.util
import logging
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from mdrecall.errors import ArgumentError, FileBusy, FileChanged, FileMissing, RecallError, install_command
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
)  # fmt: skip
from mdrecall.sessions.visibility import parse

if TYPE_CHECKING:
    import socket

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mdrecall.mcp_server.http import HttpEndpoint
    from mdrecall.mcp_server.memories import Memories

_log = logging.getLogger(__name__)
#: Each view by its address, with the module and function that answers it. A module is loaded when it is first needed.
VIEWS = {
    "GET home": "home.show_home",
    "GET conflicts": "home.show_conflicts",
    "GET search": "search.show_search",
    "GET results": "search.show_results",
    "GET notes": "read.show_notes",
    "GET time": "timeline.show_timeline",
    "GET day": "timeline.show_day",
    "GET note": "read.show_note",
    "GET follow": "read.follow_link",
    "GET around": "read.show_around",
    "GET agents": "agents.show_agents",
    "POST silence": "agents.silence_line",
    "POST wish": "agents.change_wish",
    "GET settings": "settings.show_settings",
    "GET theme": "settings.choose_theme",
    "GET edit": "edit.show_edit",
    "POST edit": "edit.save_note",
    "POST preview": "edit.preview",
    "POST task": "edit.tick_task",
    "GET new": "edit.show_new",
    "POST new": "edit.create_note",
    "POST append": "edit.append_text",
    "GET delete": "edit.show_delete",
    "POST delete": "edit.delete_note",
    "GET trash": "edit.show_trash",
    "POST trash": "edit.remove_for_good",
    "POST restore": "edit.restore_note",
    "GET forget": "forget.show_forget",
    "POST forget": "forget.preview",
    "POST forget-apply": "forget.forget",
    "POST forget-finish": "forget.finish",
    "POST forget-undo": "forget.undo",
    "GET conversation": "read.show_conversation",
}
#: The cookie with the theme. Every server of this machine shares it, as a look of one's own may be.
_THEME = "mdrecall-theme"
_STATIC_TYPES = {"app.css": "text/css", "app.js": "text/javascript", "icon.svg": "image/svg+xml"}
#: The largest form holds a whole note, of which each byte may take three characters in a form.
_MAX_FORM_BYTES = 32 * 1024 * 1024
#: The quickest: a page of results becomes a fifth of its size in a quarter of a millisecond.
_COMPRESSION = 1
#: No form of ours has a tenth as many.
_MAX_FIELDS = 200
_STATUS: Mapping[type[RecallError], int] = {FileMissing: 404, FileChanged: 409, FileBusy: 409}


class App:
    """Answers the requests that the guard lets through."""

    def __init__(self, memories: "Memories", session_key: str = "", *, can_change: bool = True) -> None:
        self.memories = memories
        self._session_key = session_key
        # What a conversation may see is known; what it may change in all notes is nobody's to say.
        self._can_change = can_change and not session_key.strip()
        self.csrf = ""
        """The token that a form must send; the guard makes it."""

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        from starlette.requests import Request

        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: "Request") -> "Response":
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import PlainTextResponse, RedirectResponse

        path = request.url.path
        if path in ("/", PREFIX, f"{PREFIX}/"):
            return RedirectResponse(make_url(self.memories.default, "home"), 303)
        if path.startswith(STATIC):
            return _send_static(path.removeprefix(STATIC), request.headers.get("if-none-match", ""))
        name, _, view = path.removeprefix(f"{PREFIX}/").partition("/")
        method = "GET" if request.method == "HEAD" else request.method
        target = VIEWS.get(f"{method} {view}")
        if target is None or unquote(name) not in self.memories.names:
            return PlainTextResponse("There is no such page.", 404)
        form: dict[str, str] = {}
        if method == "POST":
            body = await read_form(request, _MAX_FORM_BYTES)
            if body is None or body.count(b"&") >= _MAX_FIELDS:
                return PlainTextResponse("The form is too large, or not a form.", 413)
            # The token is the first field of every form, so that nothing else of a foreign one is looked at.
            field, _, token = body.partition(b"&")[0].decode("latin-1").partition("=")
            if not (self.csrf and field == CSRF_FIELD and is_masked(token, self.csrf)):
                return PlainTextResponse("This form is not from this page. Load the page again.", 403)
            form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        query, now = dict(request.query_params), datetime.now(UTC)
        theme = request.cookies.get(_THEME, "")
        rest = self._session_key, self._can_change, theme if theme in THEMES else ""
        visit = Visit(self.memories, unquote(name), query, form, self.csrf and mask_token(self.csrf), now, *rest)
        return _send(await run_in_threadpool(_answer, target, visit, method == "POST"), visit)


def _answer(target: str, visit: Visit, is_change: bool) -> Answer:
    """Return the answer of a view; every failure is a page that says what to do."""
    module, _, function = target.partition(".")
    try:
        if parse(visit.session_key).kind == "subagent":
            hint = "Start the page without a session key, or with that of another conversation."
            raise ArgumentError("A sub-agent has no memory.", name="session_key", hint=hint)
        if is_change and not visit.can_change:
            hint = "Start it without --read-only and --session-key."
            raise ArgumentError("This page is read-only.", name="form", hint=hint)
        show: Any = getattr(import_module(f"mdrecall.extras.page.{module}"), function)
        answer: Answer = show(visit)
        return answer
    except RecallError as error:
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400)
        return error_page(error, status)
    except Exception:
        _log.exception("The page %s failed.", target)
        hint = "The terminal in which mdrecall runs says more. Your notes are as they were."
        return error_page(RecallError("This is a bug in mdrecall.", hint=hint), 500)


def _send(answer: Answer, visit: Visit) -> "Response":
    from starlette.responses import HTMLResponse, RedirectResponse

    if isinstance(answer, Redirect):
        redirect = RedirectResponse(answer.url, 303)
        if answer.theme in THEMES:
            year = 365 * 24 * 3_600
            redirect.set_cookie(_THEME, answer.theme, year, path=PREFIX, httponly=True, samesite="strict")
        return redirect
    body, status = (render_page(answer, visit), answer.status) if isinstance(answer, Page) else (answer, 200)
    # Half characters, which JSON and file names can hold, are no UTF-8.
    return HTMLResponse(body.encode("utf-8", "replace"), status)


def _send_static(name: str, known: str) -> "Response":
    from starlette.responses import PlainTextResponse, Response

    import mdrecall

    if name not in _STATIC_TYPES:
        return PlainTextResponse("There is no such file.", 404)
    content = (files("mdrecall.extras.page") / "static" / name).read_bytes()
    # The browser asks again each time, and gets the content only if this is another version.
    tag = f'"{mdrecall.__version__}-{len(content)}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    if tag == known:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_STATIC_TYPES[name], headers=headers)


def require_packages() -> None:
    """Raise if what the web page needs is not installed."""
    missing = [name for name in ("starlette", "uvicorn", "markdown_it") if importlib.util.find_spec(name) is None]
    if missing:
        message = f"The web page needs packages that are not installed: {', '.join(missing)}."
        raise RecallError(message, hint=f"Install them with `{install_command('ui')}`.")


def is_known_host(host: str, hosts: Collection[str]) -> bool:
    """True if a Host header names one of these hosts, of which ``name:*`` stands for any port."""
    name, _, port = host.rpartition(":")
    return host in hosts or (port.isdecimal() and f"{name}:*" in hosts)


def build_guarded(app: App, endpoint: "HttpEndpoint", port: int) -> Guard:
    """Return the web page behind its guard."""
    from starlette.middleware.gzip import GZipMiddleware

    hosts = endpoint.hosts(port)
    compressed = GZipMiddleware(app, compresslevel=_COMPRESSION)
    guard = Guard(compressed, lambda host: is_known_host(host, hosts), endpoint.origins(port), port, endpoint.token)
    app.csrf = guard.csrf
    return guard


def route_to(guard: Guard, other: "ASGIApp") -> "ASGIApp":
    """Return an application that answers the web page's addresses by it, and all others by another one."""

    async def route(scope: "Scope", receive: "Receive", send: "Send") -> None:
        path = scope.get("path", "")
        is_ours = scope["type"] == "http" and (path == PREFIX or path.startswith(f"{PREFIX}/"))
        await (guard if is_ours else other)(scope, receive, send)

    return route


def run(app: App, listening: "socket.socket", endpoint: "HttpEndpoint", announce: Callable[[str], None]) -> int:
    """Serve the web page until a signal comes and return the exit code; ``announce`` receives the link to open."""
    import asyncio

    import uvicorn

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
