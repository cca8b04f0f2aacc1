"""Runs a program to its end: bounded output, a time limit, and no process left behind."""

import codecs
import contextlib
import os
import re
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, NamedTuple, Protocol

from mdrecall.errors import (
    ProgramBusy,
    ProgramFailed,
    ProgramMissing,
    ProgramStopped,
    ProgramTimedOut,
    ProgramUnreadable,
)
from mdrecall.qmd.command import WORK_DIR, find_program, install_hint, short_name
from mdrecall.types import Stop, never

#: A program that prints more than any list of results is killed before it fills the memory.
MAX_CHARS = 200_000
# How much is kept of output that nobody parses: enough for an error message and its stack.
_TAIL_CHARS = 8_000
# How much of it an error carries: enough to recognize the failure.
_ERROR_CHARS = 2_000
# How often a run checks its time limit and whether it should stop.
_POLL_S = 0.05
# How long to read on after the program has ended: a child that inherited the pipe may never close it.
_DRAIN_S = 0.25
# The index holds the text of every note and transcript, so only this user may read it.
_UMASK = 0o077
# A segmentation fault, started directly or by a launcher: how qmd ends on a Node that is too old for its SQLite.
_CRASHES = (-11, 139)
_FEWER_HINT = "Ask for fewer results."
_CRASH_HINT = "qmd needs Node 22 or newer; `node --version` shows which one it gets."
_ERROR_LINE = re.compile(r"\w*(?:Error|Exception)\b[^:]*:\s*\S|Collection not found:")
_NOISE_LINE = re.compile(r"(?:at |Node\.js v|\^+$|\}$|throw |file://|node:|(?:QMD )?Warning\b)")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Output(NamedTuple):
    """What a program printed and how it ended."""

    stdout: str
    stderr: str
    code: int


class CommandRunner(Protocol):
    """Runs a program to its end, or raises a ``BackendUnavailable`` that says why it could not."""

    def run(
        self, arguments: Sequence[str], *, timeout_s: float, quiet: bool = ..., stop: Stop = ..., check: bool = ...
    ) -> Output: ...


class Program:
    """A program that can be run repeatedly and concurrently."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: str = WORK_DIR) -> None:
        self.command = tuple(command)
        self.env = env
        self.cwd = cwd
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def run(
        self,
        arguments: Sequence[str],
        *,
        timeout_s: float,
        quiet: bool = False,
        stop: Stop = never,
        check: bool = True,
    ) -> Output:
        """Run the program to its end, then kill whatever it left running in its process group.

        With ``quiet`` only the end of the output is kept, however long it is. Without ``check`` a non-zero exit code
        is not an error.
        """
        name = short_name(self.command, arguments)
        began = time.monotonic()
        process = self._start(arguments)
        reader = _OutputReader(process, _TAIL_CHARS if quiet else MAX_CHARS, quiet)
        try:
            self._wait(reader, name, began, timeout_s, stop)
        finally:
            kill_group(process)
            reader.close()
            process.wait()
            with self._lock:
                self._running.discard(process)
        if self._closed:
            raise ProgramStopped(f"{name} was stopped.")
        output = Output(*reader.texts(), process.returncode)
        if check:
            _check(name, output)
        return output

    def close(self) -> None:
        """Kill what is running. Later runs raise ``ProgramStopped``."""
        with self._lock:
            self._closed = True
            for process in self._running:
                kill_group(process)

    def _start(self, arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._closed:
                raise ProgramStopped(f"{short_name(self.command, arguments)} was not started: the memory is closed.")
            process = spawn((*self.command, *arguments), env=self.env, cwd=self.cwd)
            self._running.add(process)
        return process

    def _wait(self, reader: "_OutputReader", name: str, began: float, timeout_s: float, stop: Stop) -> None:
        while not reader.has_ended(_POLL_S):
            if reader.has_overflowed:
                raise ProgramUnreadable(
                    f"{name} printed more than {MAX_CHARS:,} characters and was killed.", hint=_FEWER_HINT
                )
            if stop():
                raise ProgramStopped(f"{name} was stopped.")
            if time.monotonic() - began > timeout_s:
                raise _timeout_error(name, timeout_s)
        if reader.has_overflowed:
            raise ProgramUnreadable(f"{name} printed more than {MAX_CHARS:,} characters.", hint=_FEWER_HINT)


def _timeout_error(name: str, timeout_s: float) -> ProgramTimedOut:
    hint = "Raise its time limit in the settings, or index fewer files."
    return ProgramTimedOut(
        f"{name} did not answer within {max(0.1, round(timeout_s, 1)):g} seconds and was killed.", hint=hint
    )


def spawn(
    command: Sequence[str], *, env: Mapping[str, str], cwd: str, with_input: bool = False
) -> "subprocess.Popen[bytes]":
    """Start a program in its own session and process group. Files it creates are readable by this user only."""
    program = find_program(command, env)
    try:
        return subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            umask=_UMASK,
            bufsize=0,
        )
    except OSError as error:
        raise ProgramMissing(f"{program} cannot be started: {error.strerror}.", hint=install_hint(command)) from error
    except ValueError as error:
        raise ProgramFailed(f"{os.path.basename(program)} cannot be started with these arguments: {error}.") from error


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program that :func:`spawn` started, with everything in its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def find_error_line(text: str) -> str:
    """Return the line of an error output that says what is wrong."""
    lines = [line.strip() for line in _ESCAPES.sub("", text).splitlines() if line.strip()]
    errors = (line for line in lines if _ERROR_LINE.match(line))
    rest = (line for line in lines if not _NOISE_LINE.match(line))
    return next(errors, next(rest, ""))[:200]


class _OutputReader:
    """Reads both outputs of a process at once, so that neither pipe fills up and blocks it."""

    def __init__(self, process: "subprocess.Popen[bytes]", max_chars: int, tail: bool) -> None:
        assert process.stdout
        assert process.stderr
        self._process = process
        self._texts = [_Text(max_chars, tail), _Text(max_chars, tail)]
        self._selector = selectors.DefaultSelector()
        self._pipes: list[IO[bytes]] = [process.stdout, process.stderr]
        for pipe, text in zip(self._pipes, self._texts, strict=True):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, text)
        self._drain_until: float | None = None

    @property
    def has_overflowed(self) -> bool:
        return any(text.has_overflowed for text in self._texts)

    def has_ended(self, wait_s: float) -> bool:
        """Read what is available, waiting up to ``wait_s``. True if the process has ended and its output is read."""
        if not self._selector.get_map():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(wait_s)
            return self._process.poll() is not None
        self._read(wait_s)
        if not self._selector.get_map():
            return self._process.poll() is not None
        if self._drain_until is None and self._process.poll() is not None:
            self._drain_until = time.monotonic() + _DRAIN_S
        return self._drain_until is not None and time.monotonic() > self._drain_until

    def texts(self) -> tuple[str, str]:
        return self._texts[0].text, self._texts[1].text

    def close(self) -> None:
        self._selector.close()
        for pipe in self._pipes:
            pipe.close()

    def _read(self, wait_s: float) -> None:
        for key, _ in self._selector.select(wait_s):
            try:
                data = os.read(key.fd, 65_536)
            except BlockingIOError:
                continue
            key.data.add(data)
            if not data:
                self._selector.unregister(key.fileobj)


class _Text:
    """Text that arrives in pieces: all of it up to a limit, or only its end."""

    def __init__(self, max_chars: int, tail: bool) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._max_chars = max_chars
        self._tail = tail
        self._pieces: list[str] = []
        self._chars = 0

    @property
    def has_overflowed(self) -> bool:
        return not self._tail and self._chars > self._max_chars

    @property
    def text(self) -> str:
        text = "".join(self._pieces)
        return text[-self._max_chars :] if self._tail else text

    def add(self, data: bytes) -> None:
        piece = self._decode(data, final=not data)
        self._pieces.append(piece)
        self._chars += len(piece)
        if self._tail and self._chars > 2 * self._max_chars:
            self._pieces = [self.text]
            self._chars = len(self._pieces[0])


def _check(name: str, output: Output) -> None:
    if output.code == 0:
        return
    complaint = output.stderr.strip() or output.stdout.strip()
    if "SQLITE_BUSY" in complaint or "database is locked" in complaint:
        hint = "Another process is writing to it; try again in a moment."
        raise ProgramBusy(f"{name} found its database locked.", hint=hint)
    line = find_error_line(complaint)
    if output.code in (126, 127):
        raise ProgramMissing(
            f"{name} cannot be started: {line or f'code {output.code}'}", hint=install_hint(name.split())
        )
    ending = f"was killed by signal {-output.code}" if output.code < 0 else f"ended with code {output.code}"
    hint = _CRASH_HINT if output.code in _CRASHES else ""
    message = f"{name} {ending}{f': {line}' if line else '.'}"
    raise ProgramFailed(message, hint=hint, code=output.code, output=complaint[-_ERROR_CHARS:])
