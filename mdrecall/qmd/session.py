"""One running MCP server on the other side of two pipes: questions go out, answers come back in any order."""

import contextlib
import json
import math
import os
import select
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mdrecall.errors import BackendUnavailable, ProgramFailed, ProgramStopped, ProgramTimedOut, ProgramUnreadable
from mdrecall.qmd.command import WORK_DIR, short_name
from mdrecall.qmd.database import file_identity
from mdrecall.qmd.process import kill_group, spawn
from mdrecall.qmd.tool_client import tool_error, tool_result

_PROTOCOL = "2025-06-18"
_FIRST = 0
_MAX_LINE_BYTES = 8_000_000
_TAIL_BYTES = 8_000
_SEND_S = 5.0
_START_S = 20.0
_NO_SUCH_METHOD = -32601


class _Waiting(NamedTuple):
    """A question that is asked, and its answer once it is there."""

    answered: threading.Event
    answer: list[dict[str, Any]]


class Connection:
    """A server and the questions that it has not answered yet; one thread reads, every thread may ask."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str, *, start_s: float = _START_S) -> None:
        self._process = process
        self._name = name
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._ready = threading.Event()
        self._failure: Callable[[], BackendUnavailable] | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._late: set[int] = set()
        self._next = _FIRST + 1
        self._complaints = b""
        self._pieces: list[bytes] = []
        self._line_bytes = 0
        self._start_s = start_s
        self._ready_until = math.inf
        self._reader = threading.Thread(target=self._read, name=f"mdrecall {name}", daemon=True)

    @property
    def dead(self) -> bool:
        return self._failure is not None

    @property
    def stuck(self) -> bool:
        """Whether it should have introduced itself long ago."""
        return not self._ready.is_set() and time.monotonic() > self._ready_until

    @property
    def late(self) -> int:
        """How many questions nobody waits for any more are still worked on."""
        return len(self._late)

    def open(self) -> None:
        """Begin to read, and to introduce each other; nobody has to wait for it."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe
            os.set_blocking(pipe.fileno(), False)
        self._ready_until = time.monotonic() + self._start_s
        self._reader.start()

    def close(self, why: str = "") -> None:
        """Kill the server with all that it started; whoever waits for an answer is told, and can ask another one."""
        self._fail(
            lambda: ProgramFailed(f"{self._name} {why}.") if why else ProgramStopped(f"{self._name} was stopped.")
        )
        kill_group(self._process)
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def ask(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The result of one request; whoever has waited long enough leaves, and the server goes on."""
        deadline = time.monotonic() + timeout_s
        if not self._ready.wait(timeout_s):
            raise self._slow(timeout_s)
        number, waiting = self._enrol()
        try:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            self._send(message, deadline, timeout_s)
            waiting.answered.wait(max(0.0, deadline - time.monotonic()))
        finally:
            in_time = self._leave(number, waiting)
        if not in_time:
            raise self._slow(timeout_s)
        if not waiting.answer:
            raise self._why()
        return self._result(waiting.answer[0])

    def answers(self, timeout_s: float) -> bool:
        """Whether the server still listens, whatever it is working on."""
        try:
            self.ask("ping", {}, timeout_s=timeout_s)
        except ProgramFailed:
            return not self.dead
        except BackendUnavailable:
            return False
        return True

    def _enrol(self) -> tuple[int, _Waiting]:
        with self._lock:
            if self._failure:
                raise self._failure()
            number, self._next = self._next, self._next + 1
            self._waiting[number] = waiting = _Waiting(threading.Event(), [])
        return number, waiting

    def _leave(self, number: int, waiting: _Waiting) -> bool:
        """Wait no longer; whether there is an answer, or the certainty that none will come."""
        with self._lock:
            del self._waiting[number]
            if not waiting.answered.is_set():
                self._late.add(number)
            return waiting.answered.is_set()

    def _result(self, message: Mapping[str, Any]) -> dict[str, Any]:
        error = message.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            raise tool_error(self._name, str(error.get("message", "")), code if isinstance(code, int) else 1)
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    def _send(self, message: Mapping[str, Any], deadline: float, timeout_s: float) -> None:
        assert self._process.stdin
        data = memoryview(json.dumps(message, ensure_ascii=True).encode() + b"\n")
        if not self._sending.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise self._slow(timeout_s)
        try:
            pipe = self._process.stdin.fileno()
            while data:
                if not _writable(pipe, deadline - time.monotonic()):
                    self._fail(lambda: ProgramFailed(f"{self._name} does not listen any more, and was killed."))
                    kill_group(self._process)
                    raise self._slow(timeout_s)
                data = data[os.write(pipe, data[:4_096]) :]
        except (OSError, ValueError) as error:
            # It may have closed its ears and live on.
            kill_group(self._process)
            raise self._why() from error
        finally:
            self._sending.release()

    def _read(self) -> None:
        try:
            self._introduce()
            self._follow()
        except (OSError, ValueError, BackendUnavailable):
            pass  # what is wrong is told below, by what the program left
        finally:
            kill_group(self._process)
            self._process.wait()
            self._fail(self._ending(self._process.returncode, self._complaints.decode(errors="replace")))
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    if pipe:
                        pipe.close()

    def _introduce(self) -> None:
        client = {"name": "mdrecall", "version": "1"}
        params = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client}
        self._tell({"id": _FIRST, "method": "initialize", "params": params})

    def _follow(self) -> None:
        assert self._process.stdout
        assert self._process.stderr
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ, self._hear)
            selector.register(self._process.stderr, selectors.EVENT_READ, self._keep_complaint)
            while self._process.stdout in (key.fileobj for key in selector.get_map().values()):
                for key, _ in selector.select():
                    data = os.read(key.fd, 65_536)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif not key.data(data):
                        return

    def _keep_complaint(self, data: bytes) -> bool:
        self._complaints = (self._complaints + data)[-_TAIL_BYTES:]
        return True

    def _hear(self, data: bytes) -> bool:
        """Take every line that is whole now; false if one is longer than any answer."""
        self._line_bytes += len(data)
        self._pieces.append(data)
        if b"\n" in data:
            *lines, rest = b"".join(self._pieces).split(b"\n")
            self._pieces, self._line_bytes = [rest], len(rest)
            for line in lines:
                self._take(line)
        if self._line_bytes > _MAX_LINE_BYTES:
            self._fail(lambda: ProgramUnreadable(f"{self._name} says more than can be an answer."))
        return self._line_bytes <= _MAX_LINE_BYTES

    def _take(self, line: bytes) -> None:
        """Give an answer to who waits for it; a line that is no message is somebody's chatter."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        number = message.get("id")
        if "method" in message:
            self._refuse(number, message["method"])
        elif number == _FIRST:
            self._begin(message)
        elif isinstance(number, int):
            with self._lock:
                self._late.discard(number)
                if waiting := self._waiting.get(number):
                    waiting.answer.append(message)
                    waiting.answered.set()

    def _begin(self, message: Mapping[str, Any]) -> None:
        if "error" in message:
            said = str(message["error"])
            self._fail(lambda: tool_error(self._name, said))
            kill_group(self._process)
            return
        self._tell({"method": "notifications/initialized"})
        self._ready.set()

    def _refuse(self, number: object, method: object) -> None:
        """Answer what the server asks: that we are here, and nothing else."""
        if number is None:
            return
        if method == "ping":
            self._tell({"id": number, "result": {}})
        else:
            self._tell({"id": number, "error": {"code": _NO_SUCH_METHOD, "message": f"no method {method}"}})

    def _tell(self, message: Mapping[str, Any]) -> None:
        self._send({"jsonrpc": "2.0", **message}, time.monotonic() + _SEND_S, _SEND_S)

    def _fail(self, why: Callable[[], BackendUnavailable]) -> None:
        """Let everybody know that no answer will come; the first reason is the one that is told."""
        with self._lock:
            self._failure = self._failure or why
            for waiting in self._waiting.values():
                waiting.answered.set()
        self._ready.set()

    def _why(self) -> BackendUnavailable:
        """Why the server is not there; if it died just now, its reader tells in a moment."""
        if threading.current_thread() is not self._reader:
            self._reader.join(_SEND_S)
        return self._failure() if self._failure else ProgramFailed(f"{self._name} does not listen any more.")

    def _ending(self, code: int, said: str) -> Callable[[], BackendUnavailable]:
        if said.strip():
            return lambda: tool_error(self._name, said, code)
        return lambda: ProgramFailed(f"{self._name} ended unasked with code {code}.", code=code)

    def _slow(self, timeout_s: float) -> ProgramTimedOut:
        hint = "Give it more time in the settings; a model that is loaded for the first time needs more."
        return ProgramTimedOut(f"{self._name} did not answer within {round(timeout_s, 1):g} seconds.", hint=hint)


def _writable(pipe: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(pipe, select.POLLOUT)
    return bool(poll.poll(max(0, int(timeout_s * 1000))))


#: So many questions may be worked on that nobody waits for any more; with one more it is likelier that they never end.
_MAX_LATE = 4
_PING_S = 1.0


class Session:
    """A server for this process alone; several threads may ask at once.

    A question that is given up is not the end of the server: it may be loading a model that the next question needs.
    It ends if it does not even answer a ping afterwards, or if too many such questions have gathered.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: str = WORK_DIR, index: str = "") -> None:
        """``index`` is the path of the index that it answers from."""
        self._command = (*command, "mcp")
        self._name = short_name(command, ("mcp",))
        self._env = env
        self._cwd = cwd
        self._index = index
        self._opened: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._tools: tuple[Connection, dict[str, dict[str, Any]]] | None = None
        self._closed = False

    def start_in_background(self) -> None:
        """Start it, so that the first question need not wait; what goes wrong is told to the first question."""
        with contextlib.suppress(BackendUnavailable):
            self._current()

    def tools(self, timeout_s: float) -> Mapping[str, dict[str, Any]]:
        """The tools of the server that runs now, asked for once."""
        deadline = time.monotonic() + timeout_s
        connection = self._listening(timeout_s)
        if self._tools and self._tools[0] is connection:
            return self._tools[1]
        left_s = max(0.0, deadline - time.monotonic())
        listed = connection.ask("tools/list", {}, timeout_s=left_s).get("tools", [])
        found = tool_schemas(listed)
        self._tools = (connection, found)
        return found

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The structured answer of a tool."""
        deadline = time.monotonic() + timeout_s
        connection = self._listening(timeout_s)
        params = {"name": tool, "arguments": arguments}
        result = connection.ask("tools/call", params, timeout_s=max(0.0, deadline - time.monotonic()))
        return tool_result(f"{self._name} {tool}", result)

    def close(self) -> None:
        """Kill the server with all that it started; nothing can be asked any more."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection:
            connection.close()

    def _listening(self, timeout_s: float) -> Connection:
        """The server; one that has left questions unanswered is asked first whether it still listens."""
        connection = self._current()
        if _useless(connection, min(_PING_S, timeout_s / 2)):
            connection.close("did not answer any more, and was killed")
            connection = self._current()
        return connection

    def _current(self) -> Connection:
        with self._lock:
            if self._closed:
                raise ProgramStopped(f"{self._name} was not asked: it is closed.")
            if self._connection and self._is_replaced():
                self._connection.close("had an index open that is another one now")
            if self._connection is None or self._connection.dead:
                process = spawn(self._command, env=self._env, cwd=self._cwd, with_input=True)
                self._connection = Connection(process, self._name)
                self._connection.open()
            return self._connection

    def _is_replaced(self) -> bool:
        """Whether the index is another file than before; where there was none, the server has made it."""
        found = file_identity(self._index)
        before, self._opened = self._opened, found or self._opened
        return None not in (before, found) and before != found


def _useless(connection: Connection, ping_s: float) -> bool:
    if connection.late:
        return connection.late >= _MAX_LATE or not connection.answers(ping_s)
    return connection.stuck


def tool_schemas(listed: object) -> dict[str, dict[str, Any]]:
    """The schemas of a list of tools, by the tools' names."""
    tools = [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []
    named_tools = ((tool.get("name"), tool.get("inputSchema")) for tool in tools)
    return {name: schema if isinstance(schema, dict) else {} for name, schema in named_tools if isinstance(name, str)}
