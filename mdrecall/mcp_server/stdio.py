"""The protocol on two pipes, a message in each line: for MCP on standard input and output, and for other commands.

The SDK is not used here: loading it takes a second of CPU time, and each call through it some milliseconds.
"""

import json
import logging
import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeGuard

from mdrecall import platform
from mdrecall.engine.background import DaemonPool
from mdrecall.mcp_server import protocol
from mdrecall.mcp_server.protocol import Client, Json, ProtocolError, Request
from mdrecall.tools.toolset import to_valid_text

_log = logging.getLogger(__name__)

_READ_BYTES = 65536
#: How many requests are worked on at once; each thread has its own connection to the index. Work is begun by a thread
#: that has written its last answer, so that no more answers than this wait for a client that reads slowly.
_MAX_THREADS = 16
#: How many bytes of requests may wait for their answers. Nothing more is read until there is room.
_MAX_WAITING_BYTES = 4 * protocol.MAX_REQUEST_BYTES
#: What a request that waits takes beside its line, so that the number of short ones is bounded too.
_REQUEST_BYTES = 4096
#: How long answers in progress are waited for after the client has closed its end, and a client that has closed it may
#: read nothing. On a busy machine, opening a memory and the first search of it take more than two seconds.
_LAST_ANSWERS_S = 5.0
#: How long work that nobody waits for may take to end.
_END_S = 1.0
_TOO_LONG = f"A request may be at most {protocol.MAX_REQUEST_BYTES} bytes long."
_GONE = platform.POLLHUP | platform.POLLERR
_MAYBE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Served(Protocol):
    """What answers the requests of a client, such as ``Answers``."""

    @property
    def methods(self) -> Collection[str]: ...
    def initialize(self, version: str) -> Json: ...
    def answer(self, request: Request) -> Json: ...


def take_streams() -> tuple[int, int]:
    """Keep standard input and output for the protocol: whatever prints from now on prints to standard error.

    This is done below Python, so that it also holds for C libraries and for programs that are started.
    """
    streams = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return streams


def serve(
    answers: Served, stdin: int, stdout: int, silence_s: float | None = None, pool: DaemonPool | None = None
) -> None:
    """Serve on two file descriptors until the client closes the pipe; the handler of a signal may raise out of this.

    A client that asks or reads nothing for ``silence_s``, although it could, is left; without it none is. ``pool`` has
    the threads that work; without one they end with the client.
    """
    pipe, own = Pipe(stdin, stdout, silence_s), DaemonPool("mdrecall-stdio", _MAX_THREADS)
    connection = Connection(answers, pipe, pool or own)
    try:
        for line in pipe.read_lines():
            connection.receive(line)
        pipe.wait_for_last_answers()
    finally:
        pipe.close()
        own.release()
        # A thread that works on while the process ends can crash it.
        own.drain(_END_S)


class Pipe:
    """The lines of a client, with a bound on how many wait, and what is written to it."""

    def __init__(self, stdin: int, stdout: int, silence_s: float | None = None) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._silence_s = silence_s
        self._changed = threading.Condition()
        self._unanswered = 0
        self._writing = threading.Lock()
        self.is_over = False
        """True if the client has left."""

    def read_lines(self) -> Iterator[bytes]:
        """Yield each line until the client leaves; one that is too long is refused."""
        poll = platform.poll()
        poll.register(self._stdin, platform.POLLIN)
        # Asks for no event: that nobody reads any more is reported all the same.
        poll.register(self._stdout, 0)
        parts, size = list[bytes](), 0
        while not self.is_over:
            events = poll.poll(self._silence_s and 1000 * self._silence_s)
            if not events and self._unanswered:
                continue
            if not events or any(file == self._stdout and event & _GONE for file, event in events):
                break
            try:
                data = os.read(self._stdin, _READ_BYTES)
            except OSError:
                data = b""
            first, *others = data.split(b"\n") if data else (b"", b"")
            parts.append(first)
            size += len(first)
            if size > protocol.MAX_REQUEST_BYTES:
                parts.clear()
            if others:
                if size > protocol.MAX_REQUEST_BYTES:
                    self.send(_encode_error(ProtocolError(protocol.INVALID_REQUEST, _TOO_LONG), None))
                else:
                    yield b"".join(parts)
                yield from others[:-1]
                parts, size = others[-1:], len(others[-1])
            if not data:
                return
        self.is_over = True

    def accept(self, size: int) -> None:
        """Wait until there is room for a request, or the client has left."""
        with self._changed:
            # One request has room whatever its size.
            self._changed.wait_for(lambda: self.is_over or self._unanswered <= max(0, _MAX_WAITING_BYTES - size))
            self._unanswered += size

    def settle(self, size: int, answer: bytes | None) -> None:
        """Write the answer to a request, or none, and make room for another request."""
        self.send(answer or b"")
        with self._changed:
            self._unanswered -= size
            self._changed.notify_all()

    def send(self, data: bytes) -> None:
        """Write a message, unless the client has left; may be called on any thread."""
        writable, reading = platform.poll(), platform.poll()
        writable.register(self._stdout, platform.POLLOUT)
        reading.register(self._stdin, 0)
        rest = memoryview(data)
        with self._writing, suppress(OSError):
            while rest and not self.is_over:
                if writable.poll(1000 * (self._silence_s or _LAST_ANSWERS_S)):
                    # So much is written without waiting wherever anything can be written.
                    rest = rest[os.write(self._stdout, rest[: platform.PIPE_BYTES]) :]
                elif self._silence_s or reading.poll(0):
                    break
        self.is_over = self.is_over or bool(rest)

    def wait_for_last_answers(self) -> None:
        """Wait for answers in progress: a client may write its requests, close the pipe, and read on."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or not self._unanswered, _LAST_ANSWERS_S)

    def close(self) -> None:
        """Write nothing more and let every thread that waits here go on."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()


class _Call:
    """A request that is being answered."""

    def __init__(self, number: int | str, size: int) -> None:
        self.number = number
        self.size = size
        self.is_cancelled = False


class Connection:
    """Serves one client, its requests on threads of their own."""

    def __init__(self, answers: Served, pipe: Pipe, pool: DaemonPool) -> None:
        self._answers = answers
        self._pipe = pipe
        self._client = Client()
        self._pool = pool
        self._calls: dict[int | str, _Call] = {}

    def receive(self, line: bytes) -> None:
        """Take a line; one that is not a message is dropped, as the SDK does."""
        message = _parse(line)
        if message is None:
            return
        number, method, params = message.get("id"), message["method"], message.get("params") or {}
        if _is_id(number):
            call = _Call(number, len(line) + _REQUEST_BYTES)
            self._pipe.accept(call.size)
            self._begin(call, method, params)
        elif method == "notifications/cancelled":
            number = params.get("requestId")
            if _is_id(number) and (cancelled := self._calls.get(_key(number))):
                cancelled.is_cancelled = True

    def _begin(self, call: _Call, method: str, params: Mapping[str, Any]) -> None:
        """Answer a request about the connection itself, and leave any other one to a thread."""
        try:
            self._client.check(method, params, self._answers.methods)
            result = self._answer_at_once(method, params)
        except ProtocolError as error:
            self._pipe.settle(call.size, _encode_error(error, call.number))
            return
        if result is not None:
            self._pipe.settle(call.size, self._encode_result(call, method, result))
            return
        self._calls[_key(call.number)] = call
        request = Request(method, params, self._client.name(params.get("_meta") or {}))
        self._pool.start(lambda: self._work(call, request))

    def _answer_at_once(self, method: str, params: Mapping[str, Any]) -> Json | None:
        """Return the answer to a request about the connection itself; None for any other."""
        if method == "initialize":
            return self._answers.initialize(self._client.initialize(params))
        if method == "server/discover":
            return self._answers.initialize("")
        return {} if method == "ping" else None

    def _work(self, call: _Call, request: Request) -> None:
        """Answer a request on a thread of the pool, unless it was cancelled while it waited."""
        answer: bytes | None = None
        try:
            if not (self._pipe.is_over or call.is_cancelled):
                answer = self._encode_result(call, request.method, self._answers.answer(request))
        except ProtocolError as error:
            answer = _encode_error(error, call.number)
        finally:
            # A client may have used the number again meanwhile.
            if self._calls.get(_key(call.number)) is call:
                del self._calls[_key(call.number)]
            self._pipe.settle(call.size, None if call.is_cancelled else answer)

    def _encode_result(self, call: _Call, method: str, result: Json) -> bytes:
        if self._client.is_stateless:
            result = protocol.complete(method, result)
        try:
            return _encode(id=call.number, result=result)
        except (TypeError, ValueError, RecursionError):
            # A plugin may put anything into the answer of its tool.
            _log.exception("The answer to %s cannot be written as JSON.", method)
            message = "The answer cannot be written as JSON; the log of the server says more."
            return _encode_error(ProtocolError(protocol.INTERNAL_ERROR, message), call.number)


def _parse(line: bytes) -> Json | None:
    """Return a line as a message, or None if it is none.

    Half characters, which JavaScript clients write, are replaced.
    """
    text = line.decode("utf-8", "replace")
    try:
        message = json.loads(text) if text.strip() else None
        if _MAYBE_SURROGATE.search(text):
            message = to_valid_text(message)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        return None
    return message if isinstance(message.get("params"), dict | None) else None


def _encode(**fields: Any) -> bytes:
    """Return a message as a line."""
    text = json.dumps({"jsonrpc": "2.0", **fields}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _encode_error(error: ProtocolError, number: int | str | None) -> bytes:
    fields: Json = {"code": error.code, "message": error.message}
    return _encode(id=number, error=fields if error.data is None else fields | {"data": error.data})


def _is_id(value: object) -> TypeGuard[int | str]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _key(number: int | str) -> int | str:
    """Return what a request is known by: some clients cancel number 7 as "7"."""
    with suppress(ValueError):
        return int(number)
    return number
