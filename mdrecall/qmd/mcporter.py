"""Asking `qmd mcp` through mcporter, with a configuration and a daemon that no other agent shares."""

import contextlib
import json
import math
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mdrecall import state_files as state
from mdrecall.errors import (
    BackendUnavailable,
    ProgramMissing,
    ProgramStopped,
    ProgramTimedOut,
    ProgramUnreadable,
    message_with_hint,
)
from mdrecall.qmd.command import WORK_DIR
from mdrecall.qmd.database import file_identity
from mdrecall.qmd.process import Output, Program
from mdrecall.qmd.session import tool_schemas
from mdrecall.qmd.tool_client import tool_error, tool_result

_START_S = 10.0
_STOP_S = 5.0
_EXTRA_S = 2.0
_LEAST_S = 5.0
_IDLE_MS = 600_000
#: What the daemon adds to its folder for its socket, and how long a socket's path may be.
_SOCKET_CHARS = len("/daemon/daemon-0123456789ab.sock")
_MAX_SOCKET_CHARS = 100
_OWN_NAMES = ("NO_COLOR", "PWD", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")


class Mcporter:
    """mcporter with one server in its configuration: the qmd of one agent.

    With ``start_daemon`` a daemon keeps qmd and its models running between calls; it ends with :meth:`close` if it was
    started here, and by itself after ten idle minutes if that never comes. Without it every call starts its own qmd.
    """

    def __init__(
        self,
        program: Program,
        *,
        server_name: str,
        start_daemon: bool,
        qmd_command: Sequence[str],
        qmd_env: Mapping[str, str],
        folder: str,
        index: str = "",
    ) -> None:
        """``index`` is the path of the index that qmd answers from."""
        self._command = program.command
        self._outer_env = program.env
        self._server = server_name
        self._start_daemon = start_daemon
        self._qmd_command = tuple(qmd_command)
        self._qmd_env = qmd_env
        self._folder = folder
        self._index = index
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._program: Program | None = None
        self._daemon_dir = ""
        self._daemon_asked = False
        self._daemon_is_ours = False
        self._tools: dict[str, dict[str, Any]] | None = None
        self._closed = False
        self.daemon_failure = ""

    @property
    def config_path(self) -> str:
        return os.path.join(self._folder, "mcporter.json")

    def tools(self, timeout_s: float, *, at_most_s: float = math.inf) -> Mapping[str, dict[str, Any]]:
        """The tools of the server, asked for once; all is over after ``at_most_s``."""
        if self._tools is None:
            wanted = ["list", self._server, "--json", "--schema", "--timeout", _ms(timeout_s)]
            answer = self._ask(wanted, "list", timeout_s, at_most_s)
            if not isinstance(answer.get("tools"), list):
                raise _trouble("mcporter list", answer, timeout_s)
            self._tools = tool_schemas(answer["tools"])
        return self._tools

    def call(
        self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float, at_most_s: float = math.inf
    ) -> dict[str, Any]:
        """The structured answer of a tool.

        The program gets a little longer than the tool, to tell of a time-out; but all is over after ``at_most_s``.
        """
        wanted = ["call", "--server", self._server, "--tool", tool, "--args", json.dumps(arguments)]
        answer = self._ask([*wanted, "--output", "json", "--timeout", _ms(timeout_s)], tool, timeout_s, at_most_s)
        name = f"mcporter {self._server}.{tool}"
        if "error" in answer and "issue" in answer:
            raise _trouble(name, answer, timeout_s)
        if set(answer) <= {"content", "isError", "structuredContent", "_meta"}:
            return tool_result(name, answer)
        return answer

    def close(self) -> None:
        """Stop the daemon that was started here, with all that it started; nothing can be asked any more."""
        with self._lock:
            program, self._program = self._program, None
            self._closed = True
        if program is None:
            return
        program.close()
        if self._daemon_is_ours:
            self._stop_daemon(program.env)
        if self._daemon_dir != self._folder:
            shutil.rmtree(self._daemon_dir, ignore_errors=True)

    def _ask(self, wanted: Sequence[str], what: str, timeout_s: float, at_most_s: float) -> dict[str, Any]:
        began = time.monotonic()
        program = self._ready(at_most_s)
        left_s = at_most_s - (time.monotonic() - began)
        limit_s = min(max(timeout_s + _EXTRA_S, _LEAST_S), left_s)
        if limit_s <= 0:
            raise ProgramTimedOut(f"mcporter was not ready within {at_most_s:g} seconds.")
        return _parsed(program.run([*self._config_flag, *wanted], timeout_s=limit_s, check=False), what)

    @property
    def _config_flag(self) -> tuple[str, str]:
        return ("--config", self.config_path)

    def _ready(self, at_most_s: float) -> Program:
        """The program, with its configuration written and its daemon started."""
        with self._lock:
            if self._closed:
                raise ProgramStopped("mcporter was not asked: it is closed.")
            program = self._program = self._set_up()
        until = time.monotonic() + min(_START_S, at_most_s)
        if self._start_daemon and self._starting.acquire(timeout=max(0.0, until - time.monotonic())):
            try:
                if not self._daemon_asked:
                    self._ask_for_daemon(program, max(0.0, until - time.monotonic()))
            finally:
                self._starting.release()
        return program

    def _set_up(self) -> Program:
        try:
            self._write_config()
            if self._program is not None:
                return self._program
            self._daemon_dir = self._folder
            if len(self._folder) + _SOCKET_CHARS > _MAX_SOCKET_CHARS:
                parent = self._outer_env.get("TMPDIR") or "/tmp"
                self._daemon_dir = tempfile.mkdtemp(prefix="mdrecall-", dir=parent)
        except OSError as error:
            raise BackendUnavailable(f"mcporter has no place at {self._folder}: {error.strerror}.") from error
        kept = {name: value for name, value in self._outer_env.items() if not name.startswith("MCPORTER_")}
        return Program(self._command, env={**kept, "MCPORTER_DAEMON_DIR": self._daemon_dir}, cwd=WORK_DIR)

    def _write_config(self) -> None:
        """Write it only if it is another one: the daemon starts anew when its configuration changes.

        So that it does when the index has been replaced, which its qmd would not notice, the configuration tells which
        file that is.
        """
        own = {name: value for name, value in self._qmd_env.items() if name in _OWN_NAMES or name.startswith("QMD_")}
        if found := file_identity(self._index):
            own["MDRECALL_INDEX"] = ":".join(map(str, found))
        server = {
            "command": self._qmd_command[0] if self._qmd_command else "",
            "args": [*self._qmd_command[1:], "mcp"],
            "cwd": WORK_DIR,
            "env": own,
            "lifecycle": "keep-alive" if self._start_daemon else "ephemeral",
        }
        config = {"mcpServers": {self._server: server}, "imports": [], "daemonIdleTimeoutMs": _IDLE_MS}
        with contextlib.suppress(OSError, ValueError), open(self.config_path, encoding="utf-8") as file:
            if json.load(file) == config:
                return
        state.save(self.config_path, config)

    def _ask_for_daemon(self, program: Program, timeout_s: float) -> None:
        """Start the daemon; if that fails the call goes on without, and the next one tries again."""
        try:
            output = program.run([*self._config_flag, "daemon", "start"], timeout_s=timeout_s)
        except (ProgramMissing, ProgramStopped):
            raise
        except BackendUnavailable as error:
            self.daemon_failure = message_with_hint(error)
            self._daemon_is_ours = True
        else:
            self._daemon_asked = True
            self._daemon_is_ours = "already running" not in output.stdout
            self.daemon_failure = ""

    def _stop_daemon(self, env: Mapping[str, str]) -> None:
        heads = self._daemon_heads()
        with contextlib.suppress(BackendUnavailable):
            Program(self._command, env=env, cwd=WORK_DIR).run(
                [*self._config_flag, "daemon", "stop"], timeout_s=_STOP_S, check=False
            )
        end = time.monotonic() + _STOP_S
        while any(map(_runs, heads)) and time.monotonic() < end:
            time.sleep(0.02)
        for head in heads:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(head, signal.SIGKILL)

    def _daemon_heads(self) -> list[int]:
        """The daemon's process, which is the head of a group that its servers belong to."""
        folder = os.path.join(self._daemon_dir, "daemon")
        heads: list[int] = []
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(folder)):
                if name.endswith(".json"):
                    heads += _head(os.path.join(folder, name), self.config_path)
        return heads


def _head(path: str, config_path: str) -> list[int]:
    try:
        with open(path, encoding="utf-8") as file:
            told_of = json.load(file)
        number = int(told_of["pid"])
        ours = told_of["configPath"] == config_path and os.getpgid(number) == number
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [number] if ours else []


def _runs(number: int) -> bool:
    try:
        os.kill(number, 0)
    except OSError:
        return False
    return True


def _ms(seconds: float) -> str:
    return str(max(1, int(seconds * 1000)))


def _parsed(output: Output, what: str) -> dict[str, Any]:
    try:
        answer = json.loads(output.stdout)
    except ValueError as error:
        said = output.stderr.strip() or output.stdout.strip()
        if output.code:
            raise tool_error(f"mcporter {what}", said, output.code) from error
        raise ProgramUnreadable(f"mcporter {what} did not answer with JSON.", hint="Update mcporter.") from error
    if isinstance(answer, list):
        return {"results": answer}
    if not isinstance(answer, dict):
        raise ProgramUnreadable(f"mcporter {what} did not answer with an object.", hint="Update mcporter.")
    return answer


def _trouble(name: str, answer: Mapping[str, Any], timeout_s: float) -> BackendUnavailable:
    """The error for what mcporter tells of a server that it cannot reach, or that does not answer."""
    issue = answer.get("issue")
    raw = issue.get("rawMessage") if isinstance(issue, dict) else None
    said = str(raw or answer.get("error") or "it does not say why")
    if "timed out" in said.lower() or "timeout" in said.lower():
        return ProgramTimedOut(f"{name} did not answer within {timeout_s:g} seconds.", hint="Give it more time.")
    return tool_error(name, said)


class DeadlineClient:
    """mcporter for those who cannot wait: no question takes longer than it may, not even to tell why."""

    def __init__(self, mcporter: Mcporter) -> None:
        self._mcporter = mcporter

    def tools(self, timeout_s: float) -> Mapping[str, dict[str, Any]]:
        return self._mcporter.tools(timeout_s, at_most_s=timeout_s)

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        return self._mcporter.call(tool, arguments, timeout_s=timeout_s, at_most_s=timeout_s)

    def close(self) -> None:
        self._mcporter.close()
