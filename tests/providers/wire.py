"""What goes over the wire, whoever the provider is: requests seen, replies, and the socket under them."""

import json
import os
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import responses
from typing import Any, NamedTuple

HTML = {"Content-Type": "text/html; charset=UTF-8"}
PLAIN = {"Content-Type": "text/plain"}


class Reply(NamedTuple):
    """An answer; a body that is not bytes is sent as JSON."""

    status: int
    body: Any
    headers: Mapping[str, str] = {}

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Refused(Exception):
    """The provider's error to be sent instead of what was asked for."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


@dataclass
class Recorded:
    """A request as it came in, on which connection, and what became of it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """The names are in lower case."""
    body: Any
    """The JSON value, or the bytes where they are not JSON."""
    connection: int
    inputs: int = 0
    status: int | None = None
    """None as long as nothing was answered."""
    has_ended: bool = False
    fault: str | None = None
    raw: bytes = field(default=b"", repr=False)


def head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {responses.get(status, '')}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class Wire:
    """The server's end of a connection, for those who want to misuse it."""

    def __init__(self, sock: socket.socket, stopping: threading.Event) -> None:
        self._sock = sock
        self._stopping = stopping

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def drip(self, data: bytes, every_s: float) -> None:
        """Send one byte after the other, until the server stops."""
        for at in range(len(data)):
            self.send(data[at : at + 1])
            if self._stopping.wait(every_s):
                return

    def wait(self) -> None:
        """Return when the client has closed, or the server stops."""
        with suppress(OSError):
            while self._sock.recv(65536):
                pass

    def flood(self, data: bytes) -> None:
        """Send the same bytes again and again, until the client closes or the server stops."""
        with suppress(OSError):
            while not self._stopping.is_set():
                self.send(data)

    def reset(self) -> None:
        """Break the connection, so that the client sees a reset and no end of the stream."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self._sock.detach())
