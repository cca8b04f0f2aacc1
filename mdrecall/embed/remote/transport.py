"""One HTTP request and its answer within a deadline, which other threads can end.

The texts of notes and the keys go to the configured address only. A redirect is followed for a download alone, without
keys, and only to a public host.
"""

import base64
import http.client
import ipaddress
import socket
import ssl
import string
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from mdrecall import platform
from mdrecall.types.documents import Secret

#: A host that does not accept a connection within 10 seconds is down or unreachable.
_CONNECT_S = 10.0
#: A file is moved once or twice; more redirects are a loop.
_MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
#: 64 vectors of 3,072 numbers are about 4 MB of JSON; without a bound a faulty server could fill the memory.
_MAX_BYTES = 256 * 1024 * 1024
_BLOCK_BYTES = 1 << 16
#: Makes zlib recognise both gzip and deflate.
_GZIP_OR_DEFLATE = 47


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
        self._home = url
        self._proxy = proxy
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()

    @contextmanager
    def send(self, call: Call) -> Iterator[tuple[int, str, Iterator[bytes]]]:
        """Send a request and yield its status, its ``Retry-After`` header, and its body in blocks as they arrive."""
        until = time.monotonic() + call.seconds
        for _ in range(_MAX_REDIRECTS + 1):
            with self._connect(call, until) as connection:
                response = connection.exchange(call)
                target = response.headers.get("Location")
                if response.status not in _REDIRECTS or not target:
                    retry_after = response.headers.get("Retry-After") or ""
                    yield response.status, retry_after, connection.read_blocks(response, endless=call.is_stream)
                    return
            call = self._follow(call, urljoin(call.url, target))
        raise Unusable("too many redirects")

    def interrupt(self) -> None:
        """Cancel every request in progress; its caller gets ``ConnectionLost``."""
        with self._lock:
            busy = list(self._busy)
        for connection in busy:
            connection.shut_down()

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        self.interrupt()
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _follow(self, call: Call, url: str) -> Call:
        """Return the call to the target of a redirect, without keys if that is another server."""
        scheme, host, _ = origin = _origin(url)
        is_home = origin == _origin(self._home)
        # A proxy resolves names itself, so that it cannot be known whether an address is private.
        is_safe = scheme == "https" and self._proxy is None
        if call.body is not None or not (is_home or is_safe):
            raise Unusable(f"a redirect to {scheme}:{host}, where nothing is sent")
        return call._replace(url=url, secret_headers=call.secret_headers if is_home else {})

    @contextmanager
    def _connect(self, call: Call, until: float) -> Iterator["_Connection"]:
        """Yield an open connection, which is shut down at the deadline, and kept if it can be used again."""
        connection = self._take(call.url)
        timer = threading.Timer(max(0.0, until - time.monotonic()), connection.shut_down, (True,))
        timer.daemon = True
        timer.start()
        try:
            if call.ended is not None and call.ended.is_set():
                raise TimedOut("the request was cancelled")
            connection.open()
            yield connection
        finally:
            timer.cancel()
            with self._lock:
                self._busy.discard(connection)
                is_kept = connection.is_reusable() and connection.origin == _origin(self._home)
                if is_kept:
                    self._idle.append(connection)
            if not is_kept:
                connection.close()

    def _take(self, url: str) -> "_Connection":
        """Return a kept connection that the server has not closed, or a new one."""
        origin = _origin(url)
        is_home = origin == _origin(self._home)
        with self._lock:
            while is_home and self._idle:
                connection = self._idle.pop()
                if not connection.has_input():
                    break
                connection.close()
            else:
                connection = _Connection(origin, self._proxy, is_trusted=is_home)
            self._busy.add(connection)
        return connection


class _Connection(http.client.HTTPConnection):
    """A connection that another thread can shut down, at any time after it was made."""

    def __init__(self, origin: tuple[str, str, int], proxy: Secret | None, *, is_trusted: bool) -> None:
        """A connection that is not trusted is opened only to a public address."""
        self.origin = scheme, host, port = origin
        self._is_trusted = is_trusted
        self._through: dict[str, str] | None = None
        self._wire: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None
        self._is_shut = self._is_late = False
        if proxy is None:
            super().__init__(host, port, timeout=_CONNECT_S)
            return
        server, headers = _read_proxy(proxy)
        super().__init__(server.hostname or "", server.port or 80, timeout=_CONNECT_S)
        if scheme == "https":
            self.set_tunnel(host, port, headers)
        else:
            self._through = headers

    def open(self) -> None:
        """Connect, unless that is done already."""
        try:
            if self.sock is None:
                self.connect()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._translate(error) from error

    def connect(self) -> None:
        scheme, host, port = self.origin
        if not self._is_trusted:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            _require_public(host, [str(entry[4][0]) for entry in found])
        super().connect()
        if not self._is_trusted:
            # The name may have got another address meanwhile.
            _require_public(host, [self.sock.getpeername()[0]])
        wrapped = None
        if scheme == "https":
            wrapped = _tls().wrap_socket(self.sock, server_hostname=host, do_handshake_on_connect=False)
        self.sock = self._wire = wrapped or self.sock
        if self._is_shut:
            raise ConnectionError("the connection was closed")
        if wrapped:
            wrapped.do_handshake()
        self.sock.settimeout(None)

    def exchange(self, call: Call) -> http.client.HTTPResponse:
        """Send a request and return its answer, of which nothing but the head has been read."""
        parts = urlsplit(call.url)
        netloc = parts.netloc.rpartition("@")[2]
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if self._through is not None:
            target = f"{parts.scheme}://{netloc}{target}"
        headers = {"Host": netloc, "Accept-Encoding": "gzip, deflate", **(self._through or {}), **call.headers}
        if call.body is not None:
            headers["Content-Length"] = str(len(call.body))
        try:
            self.putrequest(call.method, quote(target, safe=string.punctuation), True, True)
            for name, value in headers.items():
                self.putheader(name, value)
            for name, secret in call.secret_headers.items():
                self.putheader(name, secret.reveal())
            # A server that refuses a long body closes the connection, and its answer can still be read.
            with suppress(ConnectionError):
                self.endheaders(call.body)
            self._response = self.getresponse()
            return self._response
        except ValueError:
            problem: Exception = Unusable("a header cannot be sent")
        except (OSError, http.client.HTTPException) as error:
            problem = self._translate(error)
        # Raised here, it has no traceback of what was sent, keys included.
        raise problem

    def read_blocks(self, response: http.client.HTTPResponse, *, endless: bool) -> Iterator[bytes]:
        """Yield the body of an answer as it arrives; with ``endless`` it may be of any length."""
        encoding = (response.headers.get("Content-Encoding") or "").lower()
        unpacker = zlib.decompressobj(_GZIP_OR_DEFLATE) if encoding in ("gzip", "deflate") else None
        size = 0
        try:
            while data := response.read(_BLOCK_BYTES):
                block = unpacker.decompress(data) if unpacker else data
                size += len(block)
                if size > _MAX_BYTES and not endless:
                    raise Unusable(f"it is longer than {_MAX_BYTES // 1024**2} MB")
                yield block
            if response.length or self._is_shut:
                raise ConnectionError("the connection ended early")
            if unpacker and not unpacker.eof:
                raise zlib.error("it ends early")
        except zlib.error as error:
            raise Unusable("it is not encoded as its headers say") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._translate(error) from error

    def is_reusable(self) -> bool:
        """True if the last answer was read to its end and the connection is still open."""
        is_read = self._response is not None and self._response.isclosed()
        return is_read and self.sock is not None and not self._is_shut

    def has_input(self) -> bool:
        """True if there is something to read though nothing was asked: the server has closed the connection."""
        poll = platform.poll()
        poll.register(self.sock, platform.POLLIN)
        return bool(poll.poll(0))

    def shut_down(self, is_late: bool = False) -> None:
        """End the connection under a thread that waits on it; ``is_late`` is why."""
        self._is_late = self._is_late or is_late
        self._is_shut = True
        for found in (self.sock, self._wire):
            with suppress(OSError):
                if found is not None:
                    socket.socket.shutdown(found, socket.SHUT_RDWR)

    def _translate(self, error: Exception) -> Exception:
        if self._is_late or isinstance(error, TimeoutError):
            return TimedOut("the deadline has passed")
        if isinstance(error, socket.gaierror):
            return ConnectionLost(f"the name {self.host} cannot be resolved ({error.strerror})")
        # A certificate that is not accepted is an OSError and a ValueError.
        if isinstance(error, OSError | http.client.HTTPException):
            return ConnectionLost(getattr(error, "strerror", None) or str(error) or "the connection was lost")
        return Unusable(str(error))


@cache
def _tls() -> ssl.SSLContext:
    """Return one TLS context for the process: reading the certificates takes longer than many requests."""
    return ssl.create_default_context()


def _read_proxy(proxy: Secret) -> tuple[SplitResult, dict[str, str]]:
    """Return the address of a proxy, and the headers with its user and password."""
    found = urlsplit(proxy.reveal())
    if found.scheme != "http":
        raise Unusable(f"the proxy {found.hostname} is not an HTTP proxy")
    if not found.username:
        return found, {}
    pair = f"{unquote(found.username)}:{unquote(found.password or '')}"
    return found, {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _origin(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise Unusable(str(error)) from error


def _require_public(host: str, addresses: Sequence[str]) -> None:
    if not all(map(is_public, addresses)):
        raise Unusable(f"a redirect to {host}, which has a private address")


def is_public(address: str) -> bool:
    """True if an IP address is on the public internet."""
    with suppress(ValueError):
        found = ipaddress.ip_address(address.partition("%")[0])
        mapped = getattr(found, "ipv4_mapped", None)
        return (mapped or found).is_global and not found.is_multicast
    return False
