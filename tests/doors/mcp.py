"""The door of MCP: one server process on standard input and output for all calls."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mdrecall.mcp_server.answers import SESSION_KEY
from mdrecall.mcp_server.tools import STRUCTURED
from tests.doors.calls import Call
from tests.doors.doors import Told, ToolDoor


class McpServer:
    """``mdrecall mcp`` as a client starts it."""

    def __init__(self, workspace: str, env: dict[str, str], cwd: Path | None = None, *more: str) -> None:
        self._cwd = cwd
        self._command = [sys.executable, "-W", "error", "-m", "mdrecall", "mcp", "--workspace", workspace, *more]
        self._env = {**env, "PYTHONPATH": ":".join(filter(None, sys.path)), "PYTHONUTF8": "1"}
        self._process: subprocess.Popen[str] | None = None
        self._count = 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, env=self._env, cwd=self._cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        who = {"name": "doors", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who})
        self._send({"method": "notifications/initialized"})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process
        self._process.communicate(timeout=20)

    def call(self, name: str, arguments: dict[str, Any], session_key: str = "") -> tuple[dict[str, Any], bool]:
        """Call a tool on behalf of a conversation; gives its object and whether it is an error."""
        meta = {STRUCTURED: True} | ({SESSION_KEY: session_key} if session_key else {})
        result = self.request("tools/call", {"name": name, "arguments": arguments, "_meta": meta})
        body: dict[str, Any] = result["structuredContent"]
        is_error: bool = result.get("isError", False)
        assert result["content"][0]["text"]
        return body, is_error

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process
        assert self._process.stdout
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._count:
                result: dict[str, Any] = message["result"]
                return result
        raise AssertionError(f"The server has ended during {method}.")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


class McpDoor:
    """The tools as an MCP client has them; what is no JSON in UTF-8 cannot be sent."""

    def __init__(self, server: McpServer) -> None:
        self._tools = ToolDoor(server.call)

    def can(self, call: Call) -> bool:
        try:
            json.dumps([call.what, dict(call.options)], allow_nan=False, ensure_ascii=False).encode()
        except ValueError:
            return False
        return True

    def ask(self, call: Call) -> Told:
        return self._tools.ask(call)
