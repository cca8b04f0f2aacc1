"""What the benchmarks measure with: CPU time of calls, commands and servers, a workspace of their own, and tables.

CPU time counts, not the time on the clock: waiting depends on what else the machine does. It still depends on the
machine, so figures are compared as multiples of ``python -c pass`` or of another program in the same run.
"""

import contextlib
import ctypes
import glob
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.notes import write_notes

#: Files that have just been written are looked at again, because their stamps may not tell two writes apart.
SETTLE_S = 2.2
# A million chunks take a quarter of an hour of CPU time, and much longer on a busy machine.
_MAX_RUN_S = 6 * 3_600
_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
PASS = (sys.executable, "-c", "pass")


class Cost(NamedTuple):
    """What a command took."""

    cpu_ms: float
    peak_mb: float
    output: str


class Workspace(NamedTuple):
    """A folder with notes, and beside it the state and the home folder of the commands that use them."""

    base: Path

    @property
    def notes(self) -> Path:
        return self.base / "notes"

    @property
    def state(self) -> Path:
        return self.base / "state"

    @property
    def env(self) -> dict[str, str]:
        # The vectors of the encoder take minutes: what they cost is measured apart.
        config = self.base / "mdrecall.json"
        config.write_text('{"mdrecall": {"encoder": false}}')
        # Without compiled modules, most of a short command would be compiling them.
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        own = {"HOME": str(self.base), "MDRECALL_STATE_DIR": str(self.state), "MDRECALL_CONFIG": str(config)}
        return kept | own | {"PYTHONPATH": os.getcwd()}

    def command(self, name: str, *arguments: str) -> list[str]:
        """Return a command of mdrecall about these notes."""
        program = str(Path(sys.executable).with_name("mdrecall"))
        return [program, name, "--workspace", str(self.notes), *arguments]

    def run(self, name: str, *arguments: str) -> Cost:
        return run(self.command(name, *arguments), self.env, self.base)

    def text_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.notes.rglob("*.md"))

    def index_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.state.rglob("*.sqlite*"))


@contextlib.contextmanager
def make_workspace(count: int, chars: int | None = None) -> Iterator[Workspace]:
    """Write notes into a folder that is deleted in the end."""
    with tempfile.TemporaryDirectory(prefix="mdrecall-bench-") as scratch:
        workspace = Workspace(Path(scratch))
        write_notes(workspace.notes, count, *([chars] if chars else []))
        time.sleep(SETTLE_S)
        yield workspace


def run(
    command: Sequence[str], env: Mapping[str, str], folder: Path, most_s: float = _MAX_RUN_S, *, given: str = ""
) -> Cost:
    """Run a command with an input, and return what it and its children took; raise ``RuntimeError`` if it fails."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as entered:
        entered.write(given.encode())
        entered.seek(0)
        process = subprocess.Popen(
            command, env=dict(env), cwd=folder, stdin=entered, stdout=output, stderr=subprocess.STDOUT
        )
        with end_after(process, most_s):
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} failed: {printed.strip()[-300:]}")
    return Cost(1000 * (used.ru_utime + used.ru_stime), used.ru_maxrss / 1024, printed)


def run_pass() -> float:
    """Return the CPU milliseconds of an empty program, by which the figures of two machines can be compared."""
    return run(PASS, os.environ, Path.cwd()).cpu_ms


def take_cpu_ms(act: Callable[[str], object], questions: Iterable[str]) -> list[float]:
    """Return the CPU milliseconds of this process for each call."""
    taken = []
    for question in questions:
        began = time.process_time()
        act(question)
        taken.append(1000 * (time.process_time() - began))
    return taken


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its descendants that still run; Linux only."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        return 0.0
    total = time.clock_gettime(clock.value)
    for children in glob.glob(f"/proc/{pid}/task/*/children"):
        # A thread may have ended meanwhile.
        with contextlib.suppress(OSError):
            total += sum(cpu_seconds(int(child)) for child in Path(children).read_text().split())
    return total


def resident_mb(pid: int | str = "self") -> float:
    """Return the memory of a process; Linux only."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.contextmanager
def end_after(process: subprocess.Popen[Any], seconds: float) -> Iterator[None]:
    """Kill a process that takes longer."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class McpServer:
    """A running MCP server over its standard input and output."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        """Start it and greet it."""
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, env=dict(env), cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self._number = 0
        self.request("initialize", _HELLO)
        self._send({"method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def request(self, method: str, params: Mapping[str, Any]) -> str:
        """Return the line of an answer; raise ``RuntimeError`` if it is an error."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        assert self.process.stdout
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number:
                if "error" in answer or answer["result"].get("isError"):
                    raise RuntimeError(f"{method} failed: {line[:300]}")
                return line
        raise RuntimeError(f"the server ended before it answered {method}")

    def take_cpu_ms(self, params: Mapping[str, Any]) -> tuple[float, str]:
        """Call a tool, and return the CPU milliseconds that the server took, and its answer."""
        before = cpu_seconds(self.process.pid)
        answer = self.request("tools/call", params)
        return 1000 * (cpu_seconds(self.process.pid) - before), answer

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()
        self.process.terminate()
        self.process.wait()


class Spread(NamedTuple):
    """The middle and the slow end of some figures."""

    median: float
    p95: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), sorted(values)[int(len(values) * 0.95)])


def describe_machine() -> str:
    """Return the machine, the day and the load, for the head of a table."""
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{machine}, {datetime.now(UTC).date()}, load {os.getloadavg()[0]:.1f}"


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, whose columns are aligned for people who read it as it is."""
    lines = [[cell or " " for cell in line] for line in (head, ["---"] * len(head), *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def format_number(value: float) -> str:
    """Return a figure with the digits that mean something."""
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def write_json(path: Path | None, figures: object) -> None:
    """Write figures to a file, if there is to be one."""
    if path:
        path.write_text(json.dumps(figures, indent=2) + "\n")
