"""Answers the commands of other processes from a memory that is open here, through private pipes.

A command is run by the very code that would run it there, with what it prints captured, so that both ways print the
same. It asks as an MCP client does, and the same loop answers. Only this user can reach a pipe: its folder is private,
and so is each pipe.
"""

import io
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from typing import TYPE_CHECKING

from mdrecall import platform
from mdrecall.cli import start
from mdrecall.cli.options import Caller
from mdrecall.engine.background import DaemonPool
from mdrecall.errors import RecallError
from mdrecall.locks import FileLock
from mdrecall.mcp_server.protocol import INVALID_REQUEST, Json, ProtocolError, Request
from mdrecall.state_files import make_private_folder
from mdrecall.types.sync import Holder

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.memory import Memory

# How many commands are answered at once. Any further command does the work itself.
_MAX_CLIENTS = 8
# A command sends its request at once. A process that sends none, or does not read its answer, is left after this.
_SILENCE_S = 2.0
# A command that would have to wait for longer than this for those before it does the work itself.
_TURN_S = 1.0
# Standard output and error belong to the whole process, so that one command at a time can print to other ones.
_TURN = threading.Lock()
# How often a process tries to take over the pipe of another one, which it gets when that one has ended.
_TAKEOVER_S = 5.0
# Closing waits this long for an answer in progress.
_CLOSE_S = 2.0
# Variables that the code of a command reads from its own process, so that they must be the same in both.
_OF_PROCESS = ("HOME", "TZ", "MDRECALL_DEBUG")
_OF_TERMINAL = ("NO_COLOR", "TERM")
# Variables that decide which provider is used, and how it is reached. Those of hosts are for their own hooks.
_OF_PROVIDERS = re.compile(
    r"^(?!CLAUDE|COPILOT|CODEX).*(?:KEY|TOKEN|SECRET|CREDENTIAL|PROXY)|^(?:SSL|HF|MDRECALL|OPENCLAW|CLAWDBOT)_",
    re.IGNORECASE,
)
# Variables that say where a shell is.
_OF_SHELL = frozenset(("PWD", "OLDPWD", "SHLVL", "_"))


class WarmDoor:
    """The pipe of a memory. Of several processes that have it open, one listens, in threads that end with it."""

    methods = (start.METHOD,)

    def __init__(self, memory: "Memory", env: Mapping[str, str], run: Callable[[list[str], Caller], int]) -> None:
        """``run`` runs a command for a caller and returns its exit code."""
        self._memory = memory
        self._env = env
        self._run = run
        self.used_at = time.monotonic()
        """When a command was last answered, by the monotonic clock."""
        self._path = _path_of(memory.loaded) if memory.loaded and can_answer(memory.loaded) else ""
        self._folder = os.path.dirname(self._path)
        self._lock = FileLock(f"{self._path}.lock")
        self._tried = threading.Event()
        """Set as soon as the pipe is there, or cannot be made for now."""
        self._problem: OSError | None = None
        self._slots = threading.BoundedSemaphore(_MAX_CLIENTS)
        self._pool = DaemonPool("mdrecall-warm-work", _MAX_CLIENTS)
        """Threads that are kept, because each has its own connection to the index."""
        self._closing = threading.Event()
        self._guard = threading.Lock()
        self._pipe: int | None = None
        """The open pipe; under the guard it is not closed meanwhile."""
        self._thread = threading.Thread(target=self._take_turns, name="mdrecall-warm", daemon=True)

    def open(self) -> None:
        """Answer from now on, unless the settings want no answers or another process gives them."""
        if self._path:
            self._thread.start()

    def check(self) -> None:
        """Raise if the pipe cannot be made; one that another process has at the moment can."""
        self._tried.wait()
        if error := self._problem:
            hint = "Remove that folder, or set MDRECALL_STATE_DIR to another one."
            raise RecallError(f"Cannot listen in {self._folder}: {error.strerror or error}.", hint=hint)

    def close(self) -> None:
        """Answer no more; may be called twice."""
        self._closing.set()
        with self._guard:
            if self._pipe is not None:
                # This wakes up the thread that waits for a command, wherever its pipe is by now.
                os.write(self._pipe, b"\n")
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)
        self._pool.release()
        self._pool.drain(_CLOSE_S)

    def initialize(self, version: str) -> Json:
        """Return what tells a command whether the code here is its own."""
        return {"code": start.describe_code().hex()}

    def answer(self, request: Request) -> Json:
        """Return what a command prints and its exit code; raise ``ProtocolError`` if it has to do the work itself."""
        try:
            return {"printed": self._answer(**request.params).hex()}
        except (Exception, SystemExit) as error:
            # It does not matter why: the command reports what is wrong.
            raise ProtocolError(INVALID_REQUEST, "The command has to do the work itself.") from error

    def _answer(
        self, arguments: list[str], variables: list[str], cwd: list[str], terminals: list[str], encodings: list[str]
    ) -> bytes:
        def open_shared(loaded: "Loaded") -> "nullcontext[Memory]":
            if self._memory.loaded is None or not _is_same(self._memory.loaded, loaded):
                raise _Declined
            return nullcontext(self._memory)

        env = dict(variable.split("=", 1) for variable in variables)
        names = _OF_PROCESS + (_OF_TERMINAL if "yes" in terminals else ())
        is_same_process = all(env.get(name, "") == self._env.get(name, "") for name in names)
        printed = Printed([terminal == "yes" for terminal in terminals], encodings)
        if arguments[0] not in start.WARM_COMMANDS or not is_same_process or not _TURN.acquire(timeout=_TURN_S):
            raise _Declined
        try:
            self.used_at = time.monotonic()
            with redirect_stdout(printed.stdout), redirect_stderr(printed.stderr):
                code = self._run(arguments, Caller(env, cwd[0], open_shared))
        finally:
            _TURN.release()
        if code not in (0, 1):
            raise _Declined
        return bytes([code]) + printed.pack()

    def _take_turns(self) -> None:
        while not self._closing.is_set():
            try:
                make_private_folder(self._folder)
                if not start.is_private(self._folder):
                    raise OSError("it is a link, or other users can enter it")
                if self._lock.acquire(0, "answering commands"):
                    self._listen()
            except OSError as error:
                # No folder, no room, or a pipe that another program removed: it may work later.
                self._problem = error
            finally:
                self._tried.set()
            self._closing.wait(_TAKEOVER_S)

    def _listen(self) -> None:
        temporary = os.path.join(self._folder, f".{os.path.basename(self._path)}.{os.getpid()}")
        try:
            start.remove(temporary)
            platform.make_pipe(temporary, 0o600)
            # Opened for both ways, it never ends, however many commands come and go.
            with _open_pipe(temporary, os.O_RDWR) as pipe:
                # What a killed process left there is replaced in one step.
                os.replace(temporary, self._path)
                self._tried.set()
                platform.set_blocking(pipe, True)
                self._pipe = pipe
                try:
                    while not self._closing.is_set():
                        # A command writes its token in one step, and all that fits into a pipe is read in one.
                        for token in os.read(pipe, 1 << 16).decode(errors="replace").split():
                            self._start_answer(token)
                finally:
                    with self._guard:
                        self._pipe = None
        finally:
            if self._lock.is_held:
                start.remove(self._path)
            self._lock.release()

    def _start_answer(self, token: str) -> None:
        pipes = start.locate_pipes(self._folder, os.path.basename(token))
        if self._slots.acquire(blocking=False):
            threading.Thread(target=self._serve, args=pipes, name="mdrecall-warm-answer", daemon=True).start()
            return
        with suppress(OSError), _open_pipe(pipes[1], os.O_WRONLY) as to:
            os.write(to, b"\n")

    def _serve(self, asked: str, answer: str) -> None:
        # `status` would pay for loading it.
        from mdrecall.mcp_server.stdio import serve

        try:
            with suppress(OSError), _open_pipe(asked, os.O_RDONLY) as reader, _open_pipe(answer, os.O_WRONLY) as to:
                serve(self, reader, to, _SILENCE_S, self._pool)
        finally:
            # A command that was killed cannot remove them.
            start.remove(asked)
            start.remove(answer)
            self._slots.release()


class _Declined(Exception):
    """The command has to do the work itself."""


def can_answer(loaded: "Loaded") -> bool:
    """True if commands may be answered for a memory: it is switched on, and the index is mdrecall's own."""
    return (
        not platform.IS_WINDOWS
        and loaded.settings.mdrecall.warm.enabled
        and loaded.settings.memory.backend == "builtin"
    )


def find_warm_process(loaded: "Loaded") -> Holder | None:
    """Return the process that answers commands for a memory."""
    return FileLock(f"{_path_of(loaded)}.lock").holder()


def _path_of(loaded: "Loaded") -> str:
    name = start.name_pipe(loaded.settings.workspace, loaded.settings.index_path)
    return os.path.join(start.find_pipe_folder(loaded.environment), name)


def _is_same(own: "Loaded", other: "Loaded") -> bool:
    """True if a memory that is open gives the answers that these settings would: nothing they depend on differs."""
    if own.settings != other.settings or own.home != other.home or own.warnings != other.warnings:
        return False
    search, rerank = own.settings.memory_search, own.settings.mdrecall.rerank
    is_local = search.provider in (None, "auto", "offline", "none") and not rerank.provider

    def choose(values: Mapping[str, str]) -> dict[str, str]:
        chosen = _OF_PROVIDERS.search if is_local else lambda name: name not in _OF_SHELL
        return {name: value for name, value in values.items() if chosen(name)}

    return choose(own.environment) == choose(other.environment)


class Printed:
    """What a command prints, in the order in which a process of its own would have printed it."""

    def __init__(self, are_terminals: Sequence[bool], encodings: Sequence[str]) -> None:
        """Standard output comes first, then standard error."""
        self._parts: list[tuple[int, bytes]] = []
        streams = zip(are_terminals, encodings, strict=True)
        self.stdout, self.stderr = (_Stream(self._parts, number, *stream) for number, stream in enumerate(streams))

    def pack(self) -> bytes:
        """Return each part with its stream and its length."""
        packed = b"".join(bytes([number]) + len(data).to_bytes(4, "big") + data for number, data in self._parts)
        if len(packed) >= start.MAX_ANSWER_BYTES:
            raise _Declined
        return packed


class _Stream(io.StringIO):
    """One of the streams of a command, which adds what is written to the parts of all."""

    def __init__(self, parts: list[tuple[int, bytes]], number: int, is_terminal: bool, encoding: str) -> None:
        super().__init__()
        self._parts, self._number, self._is_terminal, self._encoding = parts, number, is_terminal, encoding

    def write(self, text: str) -> int:
        if text:
            self._parts.append((self._number, text.encode(self._encoding, "backslashreplace")))
        return len(text)

    def isatty(self) -> bool:
        return self._is_terminal


@contextmanager
def _open_pipe(path: str, mode: int) -> Iterator[int]:
    pipe = start.open_pipe(path, mode)
    try:
        yield pipe
    finally:
        os.close(pipe)
