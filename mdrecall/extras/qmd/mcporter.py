"""Calls ``qmd mcp`` through mcporter, with a configuration and a daemon that no other agent shares."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

from mdrecall import state_files
from mdrecall.config.settings import Mcporter as McporterRules
from mdrecall.errors import BackendUnavailable, ProgramStopped, ProgramTimedOut, ProgramUnreadable
from mdrecall.extras.qmd.database import file_identity
from mdrecall.extras.qmd.process import WORK_DIR, Program, parse_tool_result, translate_failure

# Bounds stopping the daemon; one that does not stop ends by itself when it is idle.
_STOP_S = 5.0
# How long a daemon outlives a memory that was never closed.
_IDLE_MS = 600_000
# The variables of qmd's environment that the daemon passes on, besides those that begin with QMD_.
_PASSED_ON = ("NO_COLOR", "PWD", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")


class Mcporter:
    """mcporter with one server in its configuration: the qmd of one agent.

    With ``start_daemon`` a daemon keeps qmd and its models running between calls. It ends with :meth:`close`, and by
    itself after ten idle minutes. Without a daemon every call starts its own qmd.
    """

    def __init__(self, program: Program, qmd: Program, rules: McporterRules, *, folder: str, index: str = "") -> None:
        """``index`` is the path of the index that qmd uses."""
        self._outer = program
        self._rules = rules
        self._qmd = qmd
        self.config_path = os.path.join(folder, "mcporter.json")
        self._index = index
        self._lock = threading.Lock()
        self._program: Program | None = None
        self._daemon_dir = ""
        self._closed = False

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Return the structured answer of a tool. The first call starts the daemon, within the same time."""
        server, limit_ms = self._rules.server_name, max(1, int(timeout_s * 1000))
        command = ["--config", self.config_path, "call", "--server", server, "--tool", tool]
        command += ["--args", json.dumps(arguments), "--output", "json", "--timeout", str(limit_ms)]
        with self._lock:
            if self._closed:
                raise ProgramStopped("mcporter was not called: the memory is closed.")
            program = self._program = self._set_up()
        output = program.run(command, timeout_s=timeout_s, check=False)
        answer = _parse_output(output, tool)
        name = f"mcporter {server}.{tool}"
        if "error" in answer and "issue" in answer:
            raise _mcporter_error(name, answer, timeout_s)
        if set(answer) <= {"content", "isError", "structuredContent", "_meta"}:
            return parse_tool_result(name, answer)
        return answer

    def warm_up(self) -> None:
        """Start nothing: the first call starts the daemon."""

    def close(self) -> None:
        """Stop the daemon that was started here, with everything it started. Later calls raise ``ProgramStopped``."""
        with self._lock:
            program, self._program = self._program, None
            self._closed = True
        if program is None:
            return
        program.close()
        if self._rules.start_daemon:
            command = ["--config", self.config_path, "daemon", "stop"]
            with contextlib.suppress(BackendUnavailable):
                Program(program.command, env=program.env).run(command, timeout_s=_STOP_S, check=False)
        shutil.rmtree(self._daemon_dir, ignore_errors=True)

    def _set_up(self) -> Program:
        try:
            self._write_config()
            if self._program is not None:
                return self._program
            # The path of a socket must be short.
            self._daemon_dir = tempfile.mkdtemp(prefix="mdrecall-", dir=self._outer.env.get("TMPDIR") or "/tmp")
        except OSError as error:
            folder = os.path.dirname(self.config_path)
            raise BackendUnavailable(f"Cannot create the mcporter folder {folder}: {error.strerror}.") from error
        inherited = {name: value for name, value in self._outer.env.items() if not name.startswith("MCPORTER_")}
        return Program(self._outer.command, env={**inherited, "MCPORTER_DAEMON_DIR": self._daemon_dir})

    def _write_config(self) -> None:
        """Write the configuration only if it differs, because the daemon restarts when it changes.

        It names the identity of the index, so that the daemon also restarts when the index has been replaced, which
        its qmd would not notice.
        """
        own = {name: value for name, value in self._qmd.env.items() if name in _PASSED_ON or name.startswith("QMD_")}
        if found := file_identity(self._index):
            own["MDRECALL_INDEX"] = ":".join(map(str, found))
        server = {
            "command": self._qmd.command[0] if self._qmd.command else "",
            "args": [*self._qmd.command[1:], "mcp"],
            "cwd": WORK_DIR,
            "env": own,
            "lifecycle": "keep-alive" if self._rules.start_daemon else "ephemeral",
        }
        config = {"mcpServers": {self._rules.server_name: server}, "imports": [], "daemonIdleTimeoutMs": _IDLE_MS}
        if state_files.load(self.config_path) != config:
            state_files.save(self.config_path, config)


def _parse_output(output: subprocess.CompletedProcess[str], what: str) -> dict[str, Any]:
    try:
        answer = json.loads(output.stdout)
    except ValueError as error:
        complaint = output.stderr.strip() or output.stdout.strip()
        if output.returncode:
            raise translate_failure(f"mcporter {what}", complaint, output.returncode) from error
        raise ProgramUnreadable(f"mcporter {what} did not answer with JSON.", hint="Update mcporter.") from error
    if not isinstance(answer, dict):
        raise ProgramUnreadable(f"mcporter {what} did not answer with an object.", hint="Update mcporter.")
    return answer


def _mcporter_error(name: str, answer: Mapping[str, Any], timeout_s: float) -> BackendUnavailable:
    """Return the error for mcporter's report on a server that it cannot reach or that does not answer."""
    issue = answer.get("issue")
    raw = issue.get("rawMessage") if isinstance(issue, dict) else None
    complaint = str(raw or answer.get("error") or "no reason given")
    if "timed out" in complaint.lower() or "timeout" in complaint.lower():
        hint = "Raise its time limit in the settings."
        return ProgramTimedOut(f"{name} did not answer within {timeout_s:g} seconds.", hint=hint)
    return translate_failure(name, complaint)
