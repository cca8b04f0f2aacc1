"""A `qmd mcp` that stays: started when it is first asked, started again when it has died, killed at the end.

It is also started again when another index has taken the place of the one that it has open: it would not notice.
"""

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mdrecall.errors import BackendUnavailable, ProgramStopped
from mdrecall.qmd.connection import Connection
from mdrecall.qmd.identity import identity
from mdrecall.qmd.process import WORK_DIR, named, spawn
from mdrecall.qmd.tool_client import answer_of

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
        self._name = named(command, ("mcp",))
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
        found = tools_of(listed)
        self._tools = (connection, found)
        return found

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The structured answer of a tool."""
        deadline = time.monotonic() + timeout_s
        connection = self._listening(timeout_s)
        params = {"name": tool, "arguments": arguments}
        result = connection.ask("tools/call", params, timeout_s=max(0.0, deadline - time.monotonic()))
        return answer_of(f"{self._name} {tool}", result)

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
        found = identity(self._index)
        before, self._opened = self._opened, found or self._opened
        return None not in (before, found) and before != found


def _useless(connection: Connection, ping_s: float) -> bool:
    if connection.late:
        return connection.late >= _MAX_LATE or not connection.answers(ping_s)
    return connection.stuck


def tools_of(listed: object) -> dict[str, dict[str, Any]]:
    """The schemas of a list of tools, by the tools' names."""
    tools = [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []
    named_tools = ((tool.get("name"), tool.get("inputSchema")) for tool in tools)
    return {name: schema if isinstance(schema, dict) else {} for name, schema in named_tools if isinstance(name, str)}
