"""Connections with a deadline that other threads can shut down, and that reach private addresses only if configured."""

import ipaddress
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import httpcore2

#: httpcore passes no timeout for some reads; an hour is above every deadline that is set.
_MAX_S = 3600.0


class PrivateAddress(Exception):
    """A host that is not configured has an address on this machine or its network."""


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

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> "_Stream":
        raise httpcore2.UnsupportedProtocol("socket files are not supported")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

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
            raise PrivateAddress(host)
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
