"""One HTTP request and its answer within a deadline; limits where redirects may lead and what is sent there."""

import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import httpcore2
import httpx2

from mdrecall.embed.remote.network import Deadline, Guard, PrivateAddress, Unresolved, is_private_name
from mdrecall.types import Secret

#: A host that does not accept a connection within 10 seconds is down or unreachable.
_CONNECT_S = 10.0
#: An API moves once, perhaps to https; more redirects are a loop.
_MAX_REDIRECTS = 3
#: 64 vectors of 3,072 numbers are about 4 MB of JSON; without a bound a faulty server could fill the memory.
_MAX_BYTES = 256 * 1024 * 1024
#: 303 is left out: it would turn a POST into a GET.
_REDIRECTS = (301, 302, 307, 308)
#: More than any concurrency that a provider allows, so that the pool is never what a request waits for.
_MAX_CONNECTIONS = 32
_TIMEOUT = {"connect": _CONNECT_S}
_USUAL_PORTS = (None, 80, 443)


class ConnectionLost(Exception):
    """The server cannot be reached, or the connection ended before the answer did."""


class TimedOut(Exception):
    """The answer was not complete in time."""


class Forbidden(Exception):
    """A redirect or proxy leads where nothing may be sent."""


class Unreadable(Exception):
    """The answer is too long, or not encoded as its headers say."""


class Call(NamedTuple):
    """A request."""

    method: str
    url: str
    headers: Mapping[str, str]
    secret_headers: Mapping[str, Secret]
    """Sent to the configured server only."""
    body: bytes | None = None
    seconds: float = 60.0
    """For everything from connecting to the last byte of the answer."""
    ended: threading.Event | None = None
    """Set when the answer is no longer needed."""
    is_stream: bool = False
    """True if the answer is read as it arrives, and may be of any length."""

    def __repr__(self) -> str:
        """Leave out secrets, since tracebacks may show values."""
        return f"Call({self.method} {self.url.partition('?')[0]})"


class Reply(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        """Leave out the body, in which servers may repeat a key."""
        return f"Reply({self.status}, {len(self.body)} bytes)"


class Transport:
    """Sends requests to one server over kept connections. Safe to use from several threads."""

    def __init__(self, url: str, *, proxy: Secret | None = None) -> None:
        """``url`` is the configured address: its host may be private, while redirects must lead to public hosts."""
        self._home = httpx2.URL(url)
        self._proxy = proxy
        self._deadline = Deadline()
        self._lock = threading.Lock()
        self._pool: httpcore2.ConnectionPool | None = None
        self._guard: Guard | None = None

    def send(self, call: Call) -> Reply:
        """Send a request and return the complete answer."""
        with self.stream(call) as (status, headers, blocks):
            return Reply(status, headers, b"".join(blocks))

    @contextmanager
    def stream(self, call: Call) -> Iterator[tuple[int, Mapping[str, str], Iterator[bytes]]]:
        """Send a request and yield its status, its headers, and its body in blocks as they arrive."""
        with _translate_errors():
            pool = self._open_pool()
            self._deadline.until = time.monotonic() + call.seconds
            self._deadline.ended = call.ended
            response = self._follow_redirects(pool, call)
            try:
                yield response.status_code, response.headers, _blocks(response, endless=call.is_stream)
            finally:
                response.close()

    def interrupt(self) -> None:
        """Cancel every request in progress; its caller gets ``ConnectionLost``."""
        with self._lock:
            guard = self._guard
        if guard is not None:
            guard.shut_down()

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        with self._lock:
            pool, guard, self._pool, self._guard = self._pool, self._guard, None, None
        if pool is not None and guard is not None:
            pool.close()
            guard.close()

    def _follow_redirects(self, pool: httpcore2.ConnectionPool, call: Call) -> httpx2.Response:
        url = httpx2.URL(call.url)
        for _ in range(_MAX_REDIRECTS + 1):
            response = _send_once(pool, call, url, is_home=self._is_home(url))
            target = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not target:
                return response
            response.close()
            url = url.join(target)
            if url.scheme not in ("http", "https"):
                raise Forbidden(f"it redirects to an address other than http or https: {_redact_url(url)}")
            if not self._is_home(url) and self._is_suspicious(url):
                raise Forbidden(f"it redirects to {_redact_url(url)}, where texts of notes are not sent")
            if self._proxy and url.host.lower() != self._home.host.lower() and is_private_name(url.host):
                # A proxy resolves names itself, so the guard cannot check where they lead.
                raise PrivateAddress(url.host)
        raise Forbidden("it redirects too often")

    def _is_home(self, url: httpx2.URL) -> bool:
        """True if a request to the address may carry secrets: the same server, over no less secure a protocol."""
        home = self._home
        safer = (home.scheme, url.scheme) == ("http", "https") and {home.port, url.port} <= set(_USUAL_PORTS)
        return (safer and home.host.lower() == url.host.lower()) or _origin(url) == _origin(home)

    def _is_suspicious(self, url: httpx2.URL) -> bool:
        """True for another service on the same host, and for a connection that others can read, unlike the first."""
        return url.host.lower() == self._home.host.lower() or (self._home.scheme, url.scheme) == ("https", "http")

    def _open_pool(self) -> httpcore2.ConnectionPool:
        with self._lock:
            if self._pool is None:
                proxy = httpx2.URL(self._proxy.reveal()) if self._proxy else None
                trusted = {self._home.host.lower()} | ({proxy.host.lower()} if proxy else set())
                self._guard = Guard(frozenset(trusted), self._deadline)
                self._pool = _pool(self._guard, self._home, proxy)
            return self._pool


def _send_once(pool: httpcore2.ConnectionPool, call: Call, url: httpx2.URL, *, is_home: bool) -> httpx2.Response:
    """Send one request. httpx's own client is not used, because it logs full addresses and keeps cookies."""
    headers = {"Accept-Encoding": "gzip, deflate", **call.headers}
    if is_home:
        headers = {**headers, **{name: value.reveal() for name, value in call.secret_headers.items()}}
    request = httpx2.Request(call.method, url, headers=headers, content=call.body, extensions={"timeout": _TIMEOUT})
    target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    reply = pool.handle_request(
        httpcore2.Request(
            request.method, target, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
    )
    return httpx2.Response(reply.status, headers=reply.headers, stream=_Body(reply.stream))


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        self._stream.close()


@cache
def _tls() -> ssl.SSLContext:
    """Return one TLS context for the process: reading the certificates takes longer than many requests."""
    return httpx2.create_ssl_context()


def _pool(guard: Guard, home: httpx2.URL, proxy: httpx2.URL | None) -> httpcore2.ConnectionPool:
    ours: Any = guard
    context = _tls() if home.scheme == "https" else None
    if proxy is None:
        return httpcore2.ConnectionPool(ssl_context=context, max_connections=_MAX_CONNECTIONS, network_backend=ours)
    if proxy.scheme not in ("http", "https"):
        raise Forbidden(f"the proxy {proxy.host} is not an HTTP proxy")
    return httpcore2.HTTPProxy(
        proxy_url=str(proxy.copy_with(username=None, password=None)),
        proxy_auth=(proxy.username, proxy.password) if proxy.username else None,
        ssl_context=context,
        max_connections=_MAX_CONNECTIONS,
        network_backend=ours,
    )


def _blocks(response: httpx2.Response, *, endless: bool) -> Iterator[bytes]:
    size = 0
    for block in response.iter_bytes():
        size += len(block)
        if size > _MAX_BYTES and not endless:
            raise Unreadable(f"it is longer than {_MAX_BYTES // 1024**2} MB")
        yield block


def strip_traceback(error: Exception) -> Exception:
    """Return the error without its frames and causes, which hold requests with their keys."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (httpcore2.TimeoutException, httpx2.TimeoutException) as error:
        raise TimedOut(str(error)) from error
    except PrivateAddress as error:
        raise Forbidden(f"it redirects to {error}, which has a private address") from error
    except httpx2.DecodingError as error:
        raise Unreadable("it is not encoded as its headers say") from error
    except (httpx2.HTTPError, httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError, OSError) as error:
        raise ConnectionLost(_describe_error(error)) from error
    except (httpx2.InvalidURL, httpcore2.UnsupportedProtocol, ValueError) as error:
        raise Forbidden(str(error)) from error


def _describe_error(error: Exception) -> str:
    cause: BaseException | None = None if isinstance(error, Unresolved) else error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or "the connection was lost"


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host.lower(), url.port


def _redact_url(url: httpx2.URL) -> str:
    return f"{url.scheme}:{url.host}"
