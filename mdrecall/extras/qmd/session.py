"""A ``qmd mcp`` that keeps running: started on first use, restarted when it has died, killed at the end.

It is also restarted when its index has been replaced by another file, which it would not notice.
"""

import contextlib
import io
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from mdrecall import platform
from mdrecall.errors import BackendUnavailable, ProgramFailed, ProgramStopped, ProgramTimedOut, ProgramUnreadable
from mdrecall.extras.qmd.database import file_identity
from mdrecall.extras.qmd.process import kill_group, parse_tool_result, short_name, spawn, translate_failure

_PROTOCOL = "2025-06-18"
_HANDSHAKE_ID = 0
# Larger than any list of results; a server that prints more without a line end is broken.
_MAX_LINE_BYTES = 8_000_000
# How much of the error output is kept: enough for an error message and its stack.
_TAIL_BYTES = 8_000
# How long to wait for the end of the error output: a child that inherited the pipe may never close it.
_DRAIN_S = 0.25
# Bounds writing a message that has no deadline of its own.
_SEND_S = 5.0
# The server may work on a few abandoned requests, for instance while it loads a model. With more than that it is
# likelier that they never end.
_MAX_ABANDONED = 4


class Session:
    """A server for this process alone. Several threads may call it at once.

    A request that times out does not end the server: it may be loading a model that the next request needs. The server
    is killed when several requests have been abandoned.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], index: str = "") -> None:
        """``index`` is the path of the index that the server uses."""
        self._command = (*command, "mcp")
        self._name = short_name(command, ("mcp",))
        self._env = env
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
            if self._connection and len(self._connection.abandoned) >= _MAX_ABANDONED:
                self._connection.close("stopped responding and was killed")
            if self._connection is None or self._connection.failure:
                process = spawn(self._command, env=self._env, with_input=True)
                self._connection = Connection(process, self._name)
            return self._connection

    def _is_index_replaced(self) -> bool:
        """True if the index is not the same file as before. A file that did not exist was created by the server."""
        found = file_identity(self._index)
        before, self._opened = self._opened, found or self._opened
        return None not in (before, found) and before != found


class Connection:
    """A running MCP server behind two pipes. One thread reads the answers, any thread may send requests."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str) -> None:
        """Start reading and send the handshake, without waiting for its answer."""
        self._process = process
        self._name = name
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._ready = threading.Event()
        self.failure: BackendUnavailable | None = None
        """Why no answer will come any more."""
        self._pending: dict[int, Future[dict[str, Any]]] = {}
        self.abandoned: set[int] = set()
        """The requests that have timed out and were not answered since."""
        self._next_id = _HANDSHAKE_ID + 1
        self._complaint = b""
        self._reader = threading.Thread(target=self._read, name=f"mdrecall {name}", daemon=True)
        self._drainer = threading.Thread(target=self._drain, name=f"mdrecall {name} stderr", daemon=True)
        self._drainer.start()
        self._reader.start()

    def close(self, why: str = "") -> None:
        """Kill the server with everything it started, and fail the pending requests."""
        message = f"{self._name} {why or 'was stopped'}."
        self._fail(ProgramFailed(message) if why else ProgramStopped(message))
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
        answer: Future[dict[str, Any]] = Future()
        with self._lock:
            if self.failure:
                raise self.failure
            number, self._next_id = self._next_id, self._next_id + 1
            self._pending[number] = answer
        try:
            if not self._ready.wait(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            self._send({"id": number, "method": method, "params": params}, deadline)
            message = answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            hint = "Raise its time limit in the settings; loading a model for the first time takes longer."
            limit = f"{round(timeout_s, 1):g} seconds"
            raise ProgramTimedOut(f"{self._name} did not answer within {limit}.", hint=hint) from None
        finally:
            with self._lock:
                if self._pending.pop(number, None) and not answer.done():
                    self.abandoned.add(number)
        error, result = message.get("error"), message.get("result")
        if isinstance(error, dict):
            code = error.get("code")
            raise translate_failure(self._name, str(error.get("message", "")), code if isinstance(code, int) else 1)
        return result if isinstance(result, dict) else {}

    def _send(self, message: Mapping[str, Any], deadline: float | None = None) -> None:
        """Write a message. A server that does not read it in time, or has closed its input, is killed."""
        assert self._process.stdin
        deadline = deadline or time.monotonic() + _SEND_S
        data = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        with self._sending:
            try:
                pipe = self._process.stdin.fileno()
                poll = platform.poll()
                poll.register(pipe, platform.POLLOUT)
                while data:
                    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                        raise TimeoutError
                    # A pipe that is ready takes this much without blocking.
                    data = data[os.write(pipe, data[: platform.PIPE_BYTES]) :]
            except (OSError, ValueError) as error:
                kill_group(self._process)
                if threading.current_thread() is not self._reader:
                    # If it has just died, its reader knows why in a moment.
                    self._reader.join(_SEND_S)
                if isinstance(error, TimeoutError):
                    raise
                raise self.failure or ProgramFailed(f"{self._name} stopped reading its input.") from error

    def _read(self) -> None:
        assert self._process.stdout
        try:
            client = {"name": "mdrecall", "version": "1"}
            params = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client}
            self._send({"id": _HANDSHAKE_ID, "method": "initialize", "params": params})
            output = io.BufferedReader(self._process.stdout)  # type: ignore[type-var]
            while line := output.readline(_MAX_LINE_BYTES):
                if len(line) == _MAX_LINE_BYTES:
                    self._fail(ProgramUnreadable(f"{self._name} printed more than any answer can hold."))
                    break
                self._handle_line(line)
        except (OSError, ValueError, BackendUnavailable):
            pass  # the exit code and the error output below say what is wrong
        finally:
            with contextlib.suppress(OSError), self._process:
                kill_group(self._process)
                code = self._process.wait()
                self._drainer.join(_DRAIN_S)
                complaint = self._complaint.decode(errors="replace")
                ending = "failed" if complaint.strip() else f"ended unexpectedly with code {code}"
                self._fail(translate_failure(self._name, complaint, code, ending))

    def _drain(self) -> None:
        """Keep the end of the error output."""
        assert self._process.stderr
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(self._process.stderr.fileno(), 65_536):
                self._complaint = (self._complaint + data)[-_TAIL_BYTES:]

    def _handle_line(self, line: bytes) -> None:
        """Pass an answer to its request. Any other line is log output or a question of the server, and ignored."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        number = message.get("id") if isinstance(message, dict) else None
        if number is None or "method" in message:
            return
        if number == _HANDSHAKE_ID and "error" in message:
            self._fail(translate_failure(self._name, str(message["error"])))
            kill_group(self._process)
        elif number == _HANDSHAKE_ID:
            self._send({"method": "notifications/initialized"})
            self._ready.set()
        elif isinstance(number, int):
            with self._lock:
                self.abandoned.discard(number)
                if (answer := self._pending.get(number)) and not answer.done():
                    answer.set_result(message)

    def _fail(self, error: BackendUnavailable) -> None:
        """Fail all pending and later requests. The first reason is the one that is reported."""
        with self._lock:
            self.failure = self.failure or error
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(self.failure)
        self._ready.set()
