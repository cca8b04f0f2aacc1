"""The server on standard input and output, which are kept for the protocol alone: a message in each line.

The SDK is not used here: loading it takes a second of CPU time, and each call through it some milliseconds.
"""

import json
import logging
import os
import re
import select
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeGuard

from mdrecall.engine.background import DaemonPool
from mdrecall.mcp_server import protocol
from mdrecall.mcp_server.answers import Answers
from mdrecall.mcp_server.protocol import Client, Json, ProtocolError, Request
from mdrecall.tools.toolset import to_valid_text

_log = logging.getLogger(__name__)

_READ_BYTES = 65536
#: How many requests are worked on at once; each thread has its own connection to the index.
_MAX_THREADS = 16
#: How many bytes of requests may wait for their answers, and of answers for a client that reads slowly. Nothing more
#: is read, and no work is begun, until there is room.
_MAX_WAITING_BYTES = 4 * protocol.MAX_REQUEST_BYTES
#: What a request that waits takes beside its line, so that the number of short ones is bounded too.
_REQUEST_BYTES = 4096
#: How long answers in progress are waited for after the client has closed its end. On a busy machine, opening a memory
#: and the first search of it take more than two seconds.
_LAST_ANSWERS_S = 5.0
#: How long work that nobody waits for may take to end.
_END_S = 1.0
_TOO_LONG = f"A request may be at most {protocol.MAX_REQUEST_BYTES} bytes long."
_GONE = select.POLLHUP | select.POLLERR
_MAYBE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


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


def serve(answers: Answers, stdin: int, stdout: int) -> None:
    """Serve on two file descriptors until the client closes the pipe; the handler of a signal may raise out of this."""
    pipe = Pipe(stdin, stdout)
    connection = Connection(answers, pipe)
    pipe.start()
    try:
        with suppress(EOFError):
            for line in pipe.read_lines():
                connection.receive(line)
        pipe.wait_for_last_answers()
    finally:
        pipe.close()
        connection.close()


class Pipe:
    """The lines of a client, and what is written to it, each with a bound on what may wait."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._changed = threading.Condition()
        self._unanswered = 0
        self._unwritten = 0
        self._is_over = False

    def start(self) -> None:
        threading.Thread(target=self._write_queue, name="mdrecall-stdout", daemon=True).start()

    def read_lines(self) -> Iterator[bytes]:
        """Yield each line until the client leaves; one that is too long is refused."""
        poll = select.poll()
        poll.register(self._stdin, select.POLLIN)
        # Asks for no event: that nobody reads any more is reported all the same.
        poll.register(self._stdout, 0)
        parts, size = list[bytes](), 0
        while not any(file == self._stdout and event & _GONE for file, event in poll.poll()):
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
        self._is_over = True

    def accept(self, size: int) -> None:
        """Wait until there is room for a request; raise ``EOFError`` if the client has left and reads no answer."""
        hung_up = select.poll()
        hung_up.register(self._stdin, 0)
        with self._changed:
            while not self._changed.wait_for(lambda: self._has_room(size), _LAST_ANSWERS_S):
                if hung_up.poll(0):
                    raise EOFError
            self._unanswered += size

    def settle(self, size: int, answer: bytes | None) -> None:
        """Write the answer to a request, or none, and make room for another request."""
        with self._changed:
            self._unanswered -= size
            self._put(answer or b"")
            self._changed.notify_all()

    def send(self, data: bytes) -> None:
        """Write a message soon, unless the client reads so slowly that too much waits; may be called on any thread."""
        with self._changed:
            if self._unwritten < _MAX_WAITING_BYTES:
                self._put(data)

    def wait_for_reader(self) -> bool:
        """Wait until the client has read most of what it got; return False if it has left."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._unwritten < _MAX_WAITING_BYTES)
            return not self._is_over

    def wait_for_last_answers(self) -> None:
        """Wait for answers in progress: a client may write its requests, close the pipe, and read on."""
        with self._changed:
            is_done = lambda: self._is_over or not (self._unanswered or self._unwritten)  # noqa: E731
            self._changed.wait_for(is_done, _LAST_ANSWERS_S)

    def close(self) -> None:
        """Write nothing more and let every thread that waits here go on."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._queue.put(None)

    def _has_room(self, size: int) -> bool:
        has_room = not self._unanswered or self._unanswered + size <= _MAX_WAITING_BYTES
        return self._is_over or (has_room and self._unwritten < _MAX_WAITING_BYTES)

    def _put(self, data: bytes) -> None:
        self._unwritten += len(data)
        self._queue.put(data)

    def _write_queue(self) -> None:
        while (data := self._queue.get()) is not None:
            rest = memoryview(data)
            try:
                while rest and not self._is_over:
                    rest = rest[os.write(self._stdout, rest) :]
            except OSError:
                # The client has gone, which is one way to end.
                self._is_over = True
            with self._changed:
                self._unwritten -= len(data)
                self._changed.notify_all()


class _Call:
    """A request that is being answered."""

    def __init__(self, number: int | str, size: int) -> None:
        self.number = number
        self.size = size
        self.is_cancelled = False


class Connection:
    """Serves one client, its requests on threads of their own."""

    def __init__(self, answers: Answers, pipe: Pipe) -> None:
        self._answers = answers
        self._pipe = pipe
        self._client = Client()
        self._pool = DaemonPool("mdrecall-stdio", _MAX_THREADS)
        self._calls: dict[int | str, _Call] = {}

    def close(self) -> None:
        """Wait for the work in progress: a thread that works on while the process ends can crash it."""
        self._pool.release()
        self._pool.drain(_END_S)

    def receive(self, line: bytes) -> None:
        """Take a line; one that is no message is dropped, as the SDK does."""
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
            if self._pipe.wait_for_reader() and not call.is_cancelled:
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
