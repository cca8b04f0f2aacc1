"""One HTTP request and its answer, with a deadline for the whole; where it may go, and what it carries there."""

import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import httpcore2
import httpx2

from mdrecall.embed.remote.network import Deadline, Guard, PrivateAddress, Unresolved, is_here
from mdrecall.types import Secret

_CONNECT_S = 10.0
_MOST_REDIRECTS = 3
_MOST_BYTES = 256 * 1024 * 1024
_REDIRECTS = (301, 302, 307, 308)
_CONNECTIONS = 32
_TIMEOUT = {"connect": _CONNECT_S}
_USUAL_PORTS = (None, 80, 443)


class Lost(Exception):
    """The server could not be reached, or the connection ended before the answer did."""


class TimedOut(Exception):
    """No whole answer came in time."""


class Forbidden(Exception):
    """A redirect leads where nothing may be sent."""


class Unreadable(Exception):
    """An answer that no server may give: endless, or not encoded as it says."""


class Call(NamedTuple):
    """A request."""

    method: str
    url: str
    headers: Mapping[str, str]
    secret_headers: Mapping[str, Secret]
    """Sent to the configured server only."""
    body: bytes | None = None
    seconds: float = 60.0
    """For everything: connecting, sending, and the last byte of the answer."""
    ended: threading.Event | None = None
    """Set when nobody waits for the answer any more."""
    is_stream: bool = False
    """Whether the answer is read as it arrives, so that it may be of any length."""

    def __repr__(self) -> str:
        """Without what may be secret, for tracebacks that show values."""
        return f"Call({self.method} {self.url.partition('?')[0]})"


class Reply(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        """Without the body, in which servers like to repeat a key."""
        return f"Reply({self.status}, {len(self.body)} bytes)"


class Transport:
    """Sends requests to one server, over connections that are kept. It may be used from several threads."""

    def __init__(self, url: str, *, proxy: Secret | None = None) -> None:
        """``url`` is the configured address: its host may be anywhere, other hosts only in public."""
        self._home = httpx2.URL(url)
        self._proxy = proxy
        self._deadline = Deadline()
        self._lock = threading.Lock()
        self._pool: httpcore2.ConnectionPool | None = None
        self._guard: Guard | None = None

    def send(self, call: Call) -> Reply:
        """The whole answer."""
        with self.answer(call) as (status, headers, blocks):
            return Reply(status, headers, b"".join(blocks))

    @contextmanager
    def answer(self, call: Call) -> Iterator[tuple[int, Mapping[str, str], Iterator[bytes]]]:
        """The answer as it arrives: its status, its headers, and its body in blocks."""
        with _translated():
            pool = self._opened()
            self._deadline.until = time.monotonic() + call.seconds
            self._deadline.ended = call.ended
            response = self._followed(pool, call)
            try:
                yield response.status_code, response.headers, _blocks(response, endless=call.is_stream)
            finally:
                response.close()

    def interrupt(self) -> None:
        """End whatever is under way; each of its callers gets ``Lost``."""
        with self._lock:
            guard = self._guard
        if guard is not None:
            guard.cut_off()

    def close(self) -> None:
        """Let go of the connections; a later request makes new ones."""
        with self._lock:
            pool, self._pool, self._guard = self._pool, None, None
        if pool is not None:
            pool.close()

    def _followed(self, pool: httpcore2.ConnectionPool, call: Call) -> httpx2.Response:
        url = httpx2.URL(call.url)
        for _ in range(_MOST_REDIRECTS + 1):
            response = _asked(pool, call, url, is_home=self._is_home(url))
            target = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not target:
                return response
            response.close()
            url = url.join(target)
            if url.scheme not in ("http", "https"):
                raise Forbidden(f"it redirects to an address that is not http: {_shown(url)}")
            if self._proxy and url.host.lower() != self._home.host.lower() and is_here(url.host):
                # A proxy looks names up itself, so that the guard does not see where they lead.
                raise PrivateAddress(url.host)
        raise Forbidden("it redirects again and again")

    def _is_home(self, url: httpx2.URL) -> bool:
        """Whether a request to the address may carry what is secret: the same server, no less protected."""
        home = self._home
        safer = (home.scheme, url.scheme) == ("http", "https") and {home.port, url.port} <= set(_USUAL_PORTS)
        return (safer and home.host.lower() == url.host.lower()) or _origin(url) == _origin(home)

    def _opened(self) -> httpcore2.ConnectionPool:
        with self._lock:
            if self._pool is None:
                proxy = httpx2.URL(self._proxy.reveal()) if self._proxy else None
                trusted = {self._home.host.lower()} | ({proxy.host.lower()} if proxy else set())
                self._guard = Guard(frozenset(trusted), self._deadline)
                self._pool = _pool(self._guard, self._home, proxy)
            return self._pool


def _asked(pool: httpcore2.ConnectionPool, call: Call, url: httpx2.URL, *, is_home: bool) -> httpx2.Response:
    """One answer. httpx's own client is not used: it would log whole addresses, and keep cookies."""
    headers = {"Accept-Encoding": "gzip, deflate", **call.headers}
    if is_home:
        headers = {**headers, **{name: value.reveal() for name, value in call.secret_headers.items()}}
    request = httpx2.Request(call.method, url, headers=headers, content=call.body, extensions={"timeout": _TIMEOUT})
    target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    answered = pool.handle_request(
        httpcore2.Request(
            request.method, target, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
    )
    return httpx2.Response(answered.status, headers=answered.headers, stream=_Body(answered.stream))


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        self._stream.close()


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates takes longer than many a request."""
    return httpx2.create_ssl_context()


def _pool(guard: Guard, home: httpx2.URL, proxy: httpx2.URL | None) -> httpcore2.ConnectionPool:
    ours: Any = guard
    context = _tls() if home.scheme == "https" else None
    if proxy is None:
        return httpcore2.ConnectionPool(ssl_context=context, max_connections=_CONNECTIONS, network_backend=ours)
    if proxy.scheme not in ("http", "https"):
        raise Forbidden(f"the proxy {proxy.host} is not one for HTTP")
    return httpcore2.HTTPProxy(
        proxy_url=str(proxy.copy_with(username=None, password=None)),
        proxy_auth=(proxy.username, proxy.password) if proxy.username else None,
        ssl_context=context,
        max_connections=_CONNECTIONS,
        network_backend=ours,
    )


def _blocks(response: httpx2.Response, *, endless: bool) -> Iterator[bytes]:
    size = 0
    for block in response.iter_bytes():
        size += len(block)
        if size > _MOST_BYTES and not endless:
            raise Unreadable(f"the answer is longer than {_MOST_BYTES // 1024**2} MB")
        yield block


def bare(error: Exception) -> Exception:
    """An error without the frames and errors behind it, which hold requests with their keys."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (httpcore2.TimeoutException, httpx2.TimeoutException) as error:
        raise TimedOut(str(error)) from error
    except PrivateAddress as error:
        raise Forbidden(f"it leads to {error}, which has a private address") from error
    except httpx2.DecodingError as error:
        raise Unreadable("the answer is not encoded as it says") from error
    except (httpx2.HTTPError, httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError, OSError) as error:
        raise Lost(_in_words(error)) from error
    except (httpx2.InvalidURL, httpcore2.UnsupportedProtocol, ValueError) as error:
        raise Forbidden(str(error)) from error


def _in_words(error: Exception) -> str:
    cause: BaseException | None = None if isinstance(error, Unresolved) else error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or "the connection was lost"


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host.lower(), url.port


def _shown(url: httpx2.URL) -> str:
    return f"{url.scheme}:{url.host}"
