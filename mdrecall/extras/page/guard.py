"""Who may use the web page: the browser that opened the link that was printed, and nothing else that runs in it.

The link holds a token that works once and becomes a cookie, which other websites' pages cannot send or read. Each
request must name this server and must not come from another website. Every answer forbids the browser to load
anything from elsewhere, to run a script that is not ours, and to show the page inside another one.
"""

import hmac
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mdrecall.extras.page.html import show_code, tag
from mdrecall.extras.page.page import ENTER, PREFIX, STATIC, render_document

#: Scripts, styles, pictures and requests of our own only. Without 'unsafe-inline' no attribute or element in a note
#: can run or draw anything, even if it got through the renderer.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # With no-referrer, browsers would hide the origin of our own forms.
    (b"referrer-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
#: A login form holds one token.
_MAX_LOGIN_BYTES = 4096
#: From here a browser that sends this header has been asked by the user, or by one of our own pages.
_OWN_SITES = ("same-origin", "none")


class Guard:
    """Passes on requests of a browser that has the cookie."""

    def __init__(
        self, app: ASGIApp, hosts: Callable[[str], bool], origins: Sequence[str], port: int, server_token: str = ""
    ) -> None:
        """``hosts`` is true of a Host header of ours. Without a ``server_token`` to ask for, a link works once."""
        self._app = app
        self._is_host = hosts
        self._origins = frozenset(origins)
        self._server_token = server_token
        self._link_token = "" if server_token else secrets.token_urlsafe(32)
        self._cookie = f"mdrecall-ui-{port}"
        self._session = secrets.token_urlsafe(32)

    @property
    def link(self) -> str:
        """The path that opens the page: with a token that works once, or the form that asks for the server's token."""
        return f"{ENTER}?token={self._link_token}" if self._link_token else f"{PREFIX}/"

    @property
    def csrf(self) -> str:
        """The token that a form must send."""
        return hmac.new(self._session.encode(), b"csrf", "sha256").hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                added = [] if b"cache-control" in present else [(b"cache-control", b"no-store")]
                message = {**message, "headers": [*message["headers"], *_HEADERS, *added]}
            await send(message)

        response = await self._respond(Request(scope, receive))
        await (response or self._app)(scope, receive, send_guarded)

    async def _respond(self, request: Request) -> Response | None:
        """Return the response to a request that goes no further; None if it may go on."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._is_host(hosts[0]):
            return _refuse(421, "This server does not go by that name.", "Use the address that mdrecall has printed.")
        if self._is_foreign(request):
            return _refuse(403, "Another website has sent this request.", "Open the page from its own address.")
        path = request.url.path
        if path == ENTER:
            return await self._enter(request)
        if path.startswith(STATIC) and request.method in ("GET", "HEAD"):
            return None
        if self._has_cookie(request):
            return None
        return self._ask_for_token()

    def _is_foreign(self, request: Request) -> bool:
        """True if a page of another website has made the request. Only a link from elsewhere may lead to the entry."""
        origins = request.headers.getlist("origin")
        if any(origin not in self._origins for origin in origins):
            return True
        is_reading = request.method in ("GET", "HEAD")
        if not is_reading and not origins:
            return True
        site = request.headers.get("sec-fetch-site", "none")
        is_link = is_reading and request.headers.get("sec-fetch-mode") == "navigate" and request.url.path == ENTER
        return site not in _OWN_SITES and not is_link

    async def _enter(self, request: Request) -> Response:
        if request.method == "POST":
            wanted = self._server_token
            form = await read_form(request, _MAX_LOGIN_BYTES) if wanted else None
            given = dict(parse_qsl((form or b"").decode("utf-8", "replace"))).get("token", "").strip()
        else:
            wanted, given = self._link_token, request.query_params.get("token", "")
        is_right = bool(wanted) and is_same(given, wanted)
        # A program that only asks whether the page is there, as some do with every link, does not use it up.
        is_entering = is_right and request.method in ("GET", "POST")
        if is_entering and request.method == "GET":
            self._link_token = ""
        if is_right or self._has_cookie(request):
            return self._let_in(with_cookie=is_entering)
        return self._ask_for_token(was_wrong=bool(given))

    def _let_in(self, *, with_cookie: bool) -> Response:
        """Lead to the first page by a page of our own: a redirect from a foreign link would come without the cookie."""
        refresh = tag("meta", http_equiv="refresh", content=f"0; url={PREFIX}/")
        link = tag("p", tag("a", "Open your memory", href=f"{PREFIX}/"))
        response = HTMLResponse(render_document("mdrecall", tag("body", link), refresh))
        if with_cookie:
            response.set_cookie(self._cookie, self._session, path=PREFIX, httponly=True, samesite="strict")
        return response

    def _ask_for_token(self, *, was_wrong: bool = False) -> Response:
        if not self._server_token:
            needed = "This page needs the link that mdrecall has printed."
            problem = "This link was used before." if was_wrong else needed
            return _refuse(401, problem, "Each link works once. Run `mdrecall ui` again for a new one.")
        field = tag("input", type="password", name="token", autocomplete="current-password", required=True)
        warning = tag("p", "That is not the token.", class_="problem", role="alert") if was_wrong else None
        label, button = tag("label", "The server's token ", field), tag("button", "Open", type="submit")
        form = tag("form", label, button, method="post", action=ENTER)
        body = tag("main", tag("h1", "mdrecall"), warning, form, class_="alone")
        return HTMLResponse(render_document("mdrecall", tag("body", body)), 401)

    def _has_cookie(self, request: Request) -> bool:
        for header in request.headers.getlist("cookie"):
            with suppress(CookieError):
                morsel = SimpleCookie(header).get(self._cookie)
                if morsel is not None and is_same(morsel.value, self._session):
                    return True
        return False


def is_same(given: str, wanted: str) -> bool:
    """True if a token is the right one; takes the same time for any, so that none is found out letter by letter."""
    return hmac.compare_digest(given.encode(), wanted.encode())


def mask_token(token: str) -> str:
    """Return the token of a form in another shape each time, so that the size of a compressed page tells nothing."""
    pad = secrets.randbits(256)
    return f"{pad:064x}{pad ^ int(token, 16):064x}"


def is_masked(given: str, token: str) -> bool:
    """True if a form has sent this token."""
    with suppress(ValueError):
        return len(given) == 128 and is_same(f"{int(given[:64], 16) ^ int(given[64:], 16):064x}", token)
    return False


async def read_form(request: Request, most: int) -> bytes | None:
    """Return a form as it was sent; None if it is too large or not a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    length = request.headers.get("content-length", "")
    if kind != "application/x-www-form-urlencoded" or (length.isdecimal() and int(length) > most):
        return None
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return bytes(body)


def _refuse(status: int, problem: str, way_out: str) -> Response:
    told = tag("h1", "mdrecall"), tag("p", problem, class_="problem"), tag("p", show_code(way_out))
    return HTMLResponse(render_document("mdrecall", tag("body", tag("main", *told, class_="alone"))), status)
