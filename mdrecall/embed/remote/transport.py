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

from mdrecall.embed.remote.network import Deadline, Guard, PrivateAddress

_CONNECT_S = 10.0
_MOST_REDIRECTS = 3
_MOST_BYTES = 256 * 1024 * 1024
_REDIRECTS = (301, 302, 307, 308)
_CONNECTIONS = 32


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
    secret_headers: Mapping[str, str]
    """Sent to the configured server only."""
    body: bytes | None = None
    seconds: float = 60.0
    """For everything: connecting, sending, and the last byte of the answer."""
    is_stream: bool = False
    """Whether the answer is read as it arrives, so that it may be of any length."""


class Reply(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """Sends requests to one server, over connections that are kept. It may be used from several threads."""

    def __init__(self, url: str, *, proxy: str | None = None) -> None:
        """``url`` is the configured address: its host may be anywhere, other hosts only in public."""
        self._home = httpx2.URL(url)
        self._proxy = proxy
        self._deadline = Deadline()
        self._lock = threading.Lock()
        self._client: httpx2.Client | None = None
        self._guard: Guard | None = None

    def send(self, call: Call) -> Reply:
        """The whole answer."""
        with self.answer(call) as (status, headers, blocks):
            return Reply(status, headers, b"".join(blocks))

    @contextmanager
    def answer(self, call: Call) -> Iterator[tuple[int, Mapping[str, str], Iterator[bytes]]]:
        """The answer as it arrives: its status, its headers, and its body in blocks."""
        self._deadline.until = time.monotonic() + call.seconds
        with _translated():
            response = self._followed(call)
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
            client, self._client, self._guard = self._client, None, None
        if client is not None:
            client.close()

    def _followed(self, call: Call) -> httpx2.Response:
        client = self._opened()
        url = httpx2.URL(call.url)
        for _ in range(_MOST_REDIRECTS + 1):
            headers = {**call.headers, **(call.secret_headers if self._is_home(url) else {})}
            response = client.send(
                client.build_request(call.method, url, headers=headers, content=call.body), stream=True
            )
            target = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not target:
                return response
            response.close()
            url = url.join(target)
            if url.scheme not in ("http", "https"):
                raise Forbidden(f"it redirects to an address that is not http: {_shown(url)}")
        raise Forbidden("it redirects again and again")

    def _is_home(self, url: httpx2.URL) -> bool:
        """Whether a request to the address may carry what is secret: the same server, no less protected."""
        safer = self._home.scheme == "http" and url.scheme == "https" and self._home.host == url.host
        return safer or _origin(url) == _origin(self._home)

    def _opened(self) -> httpx2.Client:
        with self._lock:
            if self._client is None:
                trusted = {self._home.host.lower()}
                if self._proxy:
                    trusted.add(httpx2.URL(self._proxy).host.lower())
                self._guard = Guard(frozenset(trusted), self._deadline)
                transport = _Pool(_pool(self._guard, self._proxy))
                timeout = httpx2.Timeout(None, connect=_CONNECT_S)
                self._client = httpx2.Client(transport=transport, timeout=timeout, trust_env=False)
            return self._client


class _Pool(httpx2.BaseTransport):
    """httpcore's connections, opened by our guard, under httpx's client."""

    def __init__(self, pool: httpcore2.ConnectionPool) -> None:
        self._pool = pool

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        address = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        asked = httpcore2.Request(
            request.method, address, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
        answered = self._pool.handle_request(asked)
        return httpx2.Response(answered.status, headers=answered.headers, stream=_Body(answered.stream))

    def close(self) -> None:
        self._pool.close()


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        self._stream.close()


def _pool(guard: Guard, proxy: str | None) -> httpcore2.ConnectionPool:
    ours: Any = guard
    context = _trust()
    if proxy is None:
        return httpcore2.ConnectionPool(ssl_context=context, max_connections=_CONNECTIONS, network_backend=ours)
    return httpcore2.HTTPProxy(proxy_url=proxy, ssl_context=context, max_connections=_CONNECTIONS, network_backend=ours)


@cache
def _trust() -> ssl.SSLContext:
    """Which certificates are trusted; reading them takes longer than a request."""
    return httpx2.create_ssl_context()


def _blocks(response: httpx2.Response, *, endless: bool) -> Iterator[bytes]:
    size = 0
    for block in response.iter_bytes():
        size += len(block)
        if size > _MOST_BYTES and not endless:
            raise Unreadable(f"the answer is longer than {_MOST_BYTES // 1024**2} MB")
        yield block


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
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or "the connection was lost"


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host.lower(), url.port


def _shown(url: httpx2.URL) -> str:
    return f"{url.scheme}:{url.host}"
