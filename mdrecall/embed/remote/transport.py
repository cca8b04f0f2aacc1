"""One HTTP request and its answer within a deadline, which other threads can end.

The texts of notes and the keys go to the configured address only. A redirect is followed for a download alone, without
keys, and only to a public host.
"""

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

import httpcore2
import httpx2

from mdrecall.types import Secret

#: A host that does not accept a connection within 10 seconds is down or unreachable.
_TIMEOUT = {"timeout": {"connect": 10.0}}
#: httpcore passes no timeout for some reads; an hour is above every deadline that is set.
_MAX_S = 3600.0
#: A file is moved once or twice; more redirects are a loop.
_MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
#: 64 vectors of 3,072 numbers are about 4 MB of JSON; without a bound a faulty server could fill the memory.
_MAX_BYTES = 256 * 1024 * 1024
#: More than any concurrency that a provider allows, so that the pool is never what a request waits for.
_MAX_CONNECTIONS = 32


class ConnectionLost(Exception):
    """The server cannot be reached, or the connection ended before the answer did."""


class TimedOut(Exception):
    """The answer was not complete in time."""


class Unusable(Exception):
    """The answer is too long, not encoded as its headers say, or a redirect that is not followed."""


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


class Transport:
    """Sends requests to one server over kept connections. Safe to use from several threads."""

    def __init__(self, url: str, *, proxy: Secret | None = None) -> None:
        """``url`` is the configured address, whose host may be private."""
        self._home = httpx2.URL(url)
        self._proxy = proxy
        self._deadline = Deadline()
        self._lock = threading.Lock()
        self._pool: httpcore2.ConnectionPool | None = None
        self._guard: Guard | None = None

    @contextmanager
    def send(self, call: Call) -> Iterator[tuple[int, Mapping[str, str], Iterator[bytes]]]:
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
        url, home = httpx2.URL(call.url), _origin(self._home)
        for _ in range(_MAX_REDIRECTS + 1):
            response = _send_once(pool, call, url, is_home=_origin(url) == home)
            target = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not target:
                return response
            response.close()
            url = url.join(target)
            # A proxy resolves names itself, so that only the name can be checked.
            is_near = self._proxy is not None and is_private_name(url.host)
            if call.body is not None or (_origin(url) != home and (url.scheme != "https" or is_near)):
                raise Unusable(f"a redirect to {url.scheme}:{url.host}, where nothing is sent")
        raise Unusable("too many redirects")

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
    request = httpx2.Request(call.method, url, headers=headers, content=call.body, extensions=_TIMEOUT)
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


def _pool(guard: "Guard", home: httpx2.URL, proxy: httpx2.URL | None) -> httpcore2.ConnectionPool:
    ours: Any = guard
    context = _tls() if home.scheme == "https" else None
    if proxy is None:
        return httpcore2.ConnectionPool(ssl_context=context, max_connections=_MAX_CONNECTIONS, network_backend=ours)
    if proxy.scheme not in ("http", "https"):
        raise Unusable(f"the proxy {proxy.host} is not an HTTP proxy")
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
            raise Unusable(f"it is longer than {_MAX_BYTES // 1024**2} MB")
        yield block


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (httpcore2.TimeoutException, httpx2.TimeoutException) as error:
        raise TimedOut(str(error)) from error
    except httpx2.DecodingError as error:
        raise Unusable("it is not encoded as its headers say") from error
    except (httpx2.HTTPError, httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError, OSError) as error:
        raise ConnectionLost(_describe_error(error)) from error
    except (httpx2.InvalidURL, httpcore2.UnsupportedProtocol, ValueError) as error:
        raise Unusable(str(error)) from error


def _describe_error(error: Exception) -> str:
    cause: BaseException | None = None if isinstance(error, Unresolved) else error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or "the connection was lost"


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host.lower(), url.port


class Unresolved(httpcore2.ConnectError):
    """A host name cannot be resolved."""


class Deadline(threading.local):
    """When this thread's network operations must end, and an event that ends them earlier."""

    until = 0.0
    ended: threading.Event | None = None

    def left(self, timeout: float | None, late: type[Exception]) -> float:
        """Return the seconds that an operation may still take; raise ``late`` if there are none."""
        left = self.until - time.monotonic()
        if left <= 0 or (self.ended is not None and self.ended.is_set()):
            raise late("the deadline has passed")
        return min(left, _MAX_S if timeout is None else timeout)


class Guard:
    """Opens connections for httpcore: to trusted hosts at any address, to others only at public ones."""

    def __init__(self, trusted: frozenset[str], deadline: Deadline) -> None:
        self._trusted = trusted
        self._deadline = deadline
        self._plain = httpcore2.SyncBackend()
        self._open: set[_Stream] = set()
        self._is_closed = False
        self._lock = threading.Lock()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> "_Stream":
        """Connect to one of the addresses that the name has now; TLS still checks the name."""
        error: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in self._addresses(host, port):
            try:
                left = self._deadline.left(timeout, httpcore2.ConnectTimeout)
                stream = self._plain.connect_tcp(address, port, left, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as failed:
                error = failed
                continue
            return self._register(stream)
        raise error

    def shut_down(self) -> None:
        """Shut down every connection at once, even while threads wait on it."""
        with self._lock:
            streams = list(self._open)
        for stream in streams:
            stream.shut_down()

    def close(self) -> None:
        """Close every connection, also one that is opened later. httpcore's pool forgets those still being opened."""
        with self._lock:
            self._is_closed = True
            streams = list(self._open)
        for stream in streams:
            stream.close()

    def _register(self, stream: httpcore2.NetworkStream) -> "_Stream":
        kept = _Stream(self, stream, self._deadline)
        with self._lock:
            if not self._is_closed:
                self._open.add(kept)
                return kept
        stream.close()
        raise httpcore2.ConnectError("the connection was closed")

    def forget(self, stream: "_Stream") -> None:
        with self._lock:
            self._open.discard(stream)

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not a host name"
            raise Unresolved(f"the name {host} cannot be resolved ({reason})") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if host.lower() in self._trusted:
            return addresses
        public = [address for address in addresses if is_public(address)]
        if not public:
            raise Unusable(f"a redirect to {host}, which has a private address")
        return public


class _Stream:
    """A connection whose operations end at the thread's deadline."""

    def __init__(self, guard: Guard, stream: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._guard = guard
        self._stream = stream
        self._deadline = deadline
        self._same: socket.socket | None = None

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout, httpcore2.WriteTimeout))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_Stream":
        try:
            left = self._deadline.left(timeout, httpcore2.ConnectTimeout)
            # During the handshake the stream does not give out its socket, so a duplicate is kept for ``shut_down``.
            with self._stream.get_extra_info("socket").dup() as self._same:
                self._stream = self._stream.start_tls(ssl_context, server_hostname, left)
        except BaseException:
            # httpcore closes a connection only once it is made.
            self.close()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._guard.forget(self)
        self._stream.close()

    def shut_down(self) -> None:
        """Close the connection under a thread that waits on it."""
        for found in (self._same, self._stream.get_extra_info("socket")):
            with suppress(OSError):
                if found is not None:
                    found.shutdown(socket.SHUT_RDWR)


def is_private_name(host: str) -> bool:
    """True if a host name by itself is not on the public internet."""
    with suppress(ValueError):
        ipaddress.ip_address(host.strip("[]").partition("%")[0])
        return not is_public(host.strip("[]"))
    return host.lower().rstrip(".").rpartition(".")[2] == "localhost"


def is_public(address: str) -> bool:
    """True if an IP address is on the public internet."""
    with suppress(ValueError):
        found = ipaddress.ip_address(address.partition("%")[0])
        mapped = getattr(found, "ipv4_mapped", None)
        return (mapped or found).is_global and not found.is_multicast
    return False
