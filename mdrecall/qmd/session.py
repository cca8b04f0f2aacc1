"""A ``qmd mcp`` that keeps running: started on first use, restarted when it has died, killed at the end.

It is also restarted when its index has been replaced by another file, which it would not notice.
"""

import contextlib
import json
import os
import select
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from mdrecall.errors import BackendUnavailable, ProgramFailed, ProgramStopped, ProgramTimedOut, ProgramUnreadable
from mdrecall.qmd.database import file_identity
from mdrecall.qmd.process import WORK_DIR, kill_group, parse_tool_result, short_name, spawn, translate_failure

_PROTOCOL = "2025-06-18"
_HANDSHAKE_ID = 0
# Larger than any list of results; a server that prints more without a line end is broken.
_MAX_LINE_BYTES = 8_000_000
# How much of the error output is kept: enough for an error message and its stack.
_TAIL_BYTES = 8_000
# Bounds writing a message that has no deadline of its own.
_SEND_S = 5.0
_NO_SUCH_METHOD = -32601
# The server may work on a few abandoned requests, for instance while it loads a model. With more than that it is
# likelier that they never end.
_MAX_ABANDONED = 4


class Session:
    """A server for this process alone. Several threads may call it at once.

    A request that times out does not end the server: it may be loading a model that the next request needs. The server
    is killed when several requests have been abandoned.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: str = WORK_DIR, index: str = "") -> None:
        """``index`` is the path of the index that the server uses."""
        self._command = (*command, "mcp")
        self._name = short_name(command, ("mcp",))
        self._env = env
        self._cwd = cwd
        self._index = index
        self._opened: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    def warm_up(self) -> None:
        """Start the server without waiting for it. A failure is reported by the first call."""
        with contextlib.suppress(BackendUnavailable):
            self._connect()

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Return the structured answer of a tool."""
        begun = time.monotonic()
        connection = self._connect()
        params = {"name": tool, "arguments": arguments}
        result = connection.request("tools/call", params, timeout_s=timeout_s, begun=begun)
        return parse_tool_result(f"{self._name} {tool}", result)

    def close(self) -> None:
        """Kill the server with everything it started. Later calls raise ``ProgramStopped``."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection:
            connection.close()

    def _connect(self) -> "Connection":
        with self._lock:
            if self._closed:
                raise ProgramStopped(f"{self._name} was not called: the memory is closed.")
            if self._connection and self._is_index_replaced():
                self._connection.close("was stopped because its index has been replaced")
            if self._connection and self._connection.abandoned >= _MAX_ABANDONED:
                self._connection.close("stopped responding and was killed")
            if self._connection is None or self._connection.is_dead:
                process = spawn(self._command, env=self._env, cwd=self._cwd, with_input=True)
                self._connection = Connection(process, self._name)
                self._connection.open()
            return self._connection

    def _is_index_replaced(self) -> bool:
        """True if the index is another file than before. A file that did not exist was created by the server."""
        found = file_identity(self._index)
        before, self._opened = self._opened, found or self._opened
        return None not in (before, found) and before != found


class Connection:
    """A running MCP server behind two pipes. One thread reads the answers, any thread may send requests."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str) -> None:
        self._process = process
        self._name = name
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._ready = threading.Event()
        self._failure: Callable[[], BackendUnavailable] | None = None
        self._pending: dict[int, Future[dict[str, Any]]] = {}
        self._abandoned: set[int] = set()
        self._next_id = _HANDSHAKE_ID + 1
        self._stderr_tail = b""
        self._pieces: list[bytes] = []
        self._line_bytes = 0
        self._reader = threading.Thread(target=self._read, name=f"mdrecall {name}", daemon=True)

    @property
    def is_dead(self) -> bool:
        """True if no answer will come any more."""
        return self._failure is not None

    @property
    def abandoned(self) -> int:
        """How many requests have timed out and were not answered since."""
        return len(self._abandoned)

    def open(self) -> None:
        """Start reading and send the handshake, without waiting for its answer."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe
            os.set_blocking(pipe.fileno(), False)
        self._reader.start()

    def close(self, why: str = "") -> None:
        """Kill the server with everything it started, and fail the pending requests."""
        self._fail(
            lambda: ProgramFailed(f"{self._name} {why}.") if why else ProgramStopped(f"{self._name} was stopped.")
        )
        kill_group(self._process)
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, begun: float | None = None
    ) -> dict[str, Any]:
        """Return the result of a request. After a timeout the server may go on working on it.

        ``begun`` is the moment from which the time counts, if starting the server is a part of it.
        """
        deadline = (time.monotonic() if begun is None else begun) + timeout_s
        number, answer = self._register()
        try:
            if not self._ready.wait(max(0.0, deadline - time.monotonic())):
                raise self._timeout_error(timeout_s)
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            self._send(message, deadline, timeout_s)
            return self._parse_response(answer.result(max(0.0, deadline - time.monotonic())))
        except TimeoutError:
            if not self._unregister(number, answer):
                raise self._timeout_error(timeout_s) from None
            return self._parse_response(answer.result(0))
        finally:
            self._unregister(number, answer)

    def _register(self) -> tuple[int, Future[dict[str, Any]]]:
        with self._lock:
            if self._failure:
                raise self._failure()
            number, self._next_id = self._next_id, self._next_id + 1
            answer: Future[dict[str, Any]] = Future()
            self._pending[number] = answer
        return number, answer

    def _unregister(self, number: int, answer: Future[dict[str, Any]]) -> bool:
        """Stop waiting for a request. True if it was answered or has failed."""
        with self._lock:
            if self._pending.pop(number, None) and not answer.done():
                self._abandoned.add(number)
            return answer.done()

    def _parse_response(self, message: Mapping[str, Any]) -> dict[str, Any]:
        error = message.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            raise translate_failure(self._name, str(error.get("message", "")), code if isinstance(code, int) else 1)
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    def _send(self, message: Mapping[str, Any], deadline: float, timeout_s: float) -> None:
        assert self._process.stdin
        data = memoryview(json.dumps(message, ensure_ascii=True).encode() + b"\n")
        if not self._sending.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise self._timeout_error(timeout_s)
        try:
            pipe = self._process.stdin.fileno()
            while data:
                if not _is_writable(pipe, deadline - time.monotonic()):
                    self._fail(lambda: ProgramFailed(f"{self._name} stopped reading its input and was killed."))
                    kill_group(self._process)
                    raise self._timeout_error(timeout_s)
                data = data[os.write(pipe, data[:4_096]) :]
        except (OSError, ValueError) as error:
            # A server that has closed its input may still be running.
            kill_group(self._process)
            raise self._explain_death() from error
        finally:
            self._sending.release()

    def _read(self) -> None:
        try:
            self._send_handshake()
            self._read_output()
        except (OSError, ValueError, BackendUnavailable):
            pass  # the exit code and the error output below say what is wrong
        finally:
            kill_group(self._process)
            self._process.wait()
            self._fail(self._exit_error(self._process.returncode, self._stderr_tail.decode(errors="replace")))
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    if pipe:
                        pipe.close()

    def _send_handshake(self) -> None:
        client = {"name": "mdrecall", "version": "1"}
        params = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client}
        self._notify({"id": _HANDSHAKE_ID, "method": "initialize", "params": params})

    def _read_output(self) -> None:
        assert self._process.stdout
        assert self._process.stderr
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ, self._add_output)
            selector.register(self._process.stderr, selectors.EVENT_READ, self._add_error_output)
            while self._process.stdout in (key.fileobj for key in selector.get_map().values()):
                for key, _ in selector.select():
                    data = os.read(key.fd, 65_536)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif not key.data(data):
                        return

    def _add_error_output(self, data: bytes) -> bool:
        self._stderr_tail = (self._stderr_tail + data)[-_TAIL_BYTES:]
        return True

    def _add_output(self, data: bytes) -> bool:
        """Handle every complete line. False if a line is longer than any answer."""
        self._line_bytes += len(data)
        self._pieces.append(data)
        if b"\n" in data:
            *lines, rest = b"".join(self._pieces).split(b"\n")
            self._pieces, self._line_bytes = [rest], len(rest)
            for line in lines:
                self._handle_line(line)
        if self._line_bytes > _MAX_LINE_BYTES:
            self._fail(lambda: ProgramUnreadable(f"{self._name} printed more than any answer can hold."))
        return self._line_bytes <= _MAX_LINE_BYTES

    def _handle_line(self, line: bytes) -> None:
        """Pass an answer to its request. A line that is not a message is log output, and ignored."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        number = message.get("id")
        if "method" in message:
            self._answer_server(number, message["method"])
        elif number == _HANDSHAKE_ID:
            self._finish_handshake(message)
        elif isinstance(number, int):
            with self._lock:
                self._abandoned.discard(number)
                if (answer := self._pending.get(number)) and not answer.done():
                    answer.set_result(message)

    def _finish_handshake(self, message: Mapping[str, Any]) -> None:
        if "error" in message:
            complaint = str(message["error"])
            self._fail(lambda: translate_failure(self._name, complaint))
            kill_group(self._process)
            return
        self._notify({"method": "notifications/initialized"})
        self._ready.set()

    def _answer_server(self, number: object, method: object) -> None:
        """Answer a request of the server: a ping gets a reply, anything else is refused."""
        if number is None:
            return
        if method == "ping":
            self._notify({"id": number, "result": {}})
        else:
            self._notify({"id": number, "error": {"code": _NO_SUCH_METHOD, "message": f"no method {method}"}})

    def _notify(self, message: Mapping[str, Any]) -> None:
        self._send({"jsonrpc": "2.0", **message}, time.monotonic() + _SEND_S, _SEND_S)

    def _fail(self, make_error: Callable[[], BackendUnavailable]) -> None:
        """Fail all pending and later requests. The first reason is the one that is reported."""
        with self._lock:
            self._failure = self._failure or make_error
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(self._failure())
        self._ready.set()

    def _explain_death(self) -> BackendUnavailable:
        """Return why the server is gone; if it has just died, its reader knows in a moment."""
        if threading.current_thread() is not self._reader:
            self._reader.join(_SEND_S)
        return self._failure() if self._failure else ProgramFailed(f"{self._name} stopped reading its input.")

    def _exit_error(self, code: int, complaint: str) -> Callable[[], BackendUnavailable]:
        if complaint.strip():
            return lambda: translate_failure(self._name, complaint, code)
        return lambda: ProgramFailed(f"{self._name} ended unexpectedly with code {code}.", code=code)

    def _timeout_error(self, timeout_s: float) -> ProgramTimedOut:
        hint = "Raise its time limit in the settings; loading a model for the first time takes longer."
        return ProgramTimedOut(f"{self._name} did not answer within {round(timeout_s, 1):g} seconds.", hint=hint)


def _is_writable(pipe: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(pipe, select.POLLOUT)
    return bool(poll.poll(max(0, int(timeout_s * 1000))))
