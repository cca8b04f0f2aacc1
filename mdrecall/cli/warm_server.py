"""Answers the commands of other processes from memories that are open here, through private pipes.

A command is run by the very code that would run it there, with what it prints captured, so that both ways print the
same. Only this user can reach a pipe: its folder is private, and so is each pipe.
"""

import io
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.cli import start
from mdrecall.cli.options import Caller
from mdrecall.errors import RecallError
from mdrecall.locks import FileLock
from mdrecall.state_files import make_private_folder
from mdrecall.types.sync import Holder

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.memory import Memory

# The arguments and the environment of a process are seldom larger than a tenth of this.
_MAX_REQUEST_BYTES = 1 << 20
# How many commands are answered at once. Any further command does the work itself.
_MAX_CLIENTS = 8
# A command sends its request at once. A process that sends none, or does not read its answer, is left after this.
_RECEIVE_S = 1.0
_SEND_S = 5.0
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


class Request(NamedTuple):
    """A command of another process."""

    arguments: list[str]
    env: Mapping[str, str]
    cwd: str
    are_terminals: tuple[bool, bool]
    """True for standard output and for standard error if it is a terminal."""
    encodings: tuple[str, str]


class Declined(Exception):
    """The command has to do the work itself."""


class WarmDoor:
    """The pipes of one process, one for each memory that it has open."""

    def __init__(self, env: Mapping[str, str], answer: Callable[[list[str], Caller], int]) -> None:
        """``answer`` runs a command for a caller and returns its exit code."""
        self._env = env
        self._run = answer
        self._lock = threading.Lock()
        self._listeners: list[_Listener] = []
        self._is_closed = False
        self.used_at = time.monotonic()
        """When a command was last answered, by the monotonic clock."""

    def open(self, memory: "Memory") -> None:
        """Answer for a memory from now on, unless its settings want no answers or another process gives them."""
        loaded = memory.loaded
        if loaded is None or not can_answer(loaded):
            return
        listener = _Listener(_path_of(loaded), lambda request: self._answer(memory, request))
        with self._lock:
            if not self._is_closed:
                self._listeners.append(listener)
                listener.start()

    def check(self) -> None:
        """Raise if a pipe cannot be made; one that another process has at the moment can."""
        for listener in self._listeners:
            listener.tried.wait()
            if error := listener.problem:
                hint = "Remove that folder, or set MDRECALL_STATE_DIR to another one."
                raise RecallError(f"Cannot listen in {listener.folder}: {error.strerror or error}.", hint=hint)

    def close(self) -> None:
        """Answer no more; may be called twice."""
        with self._lock:
            self._is_closed = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.close()

    def _answer(self, memory: "Memory", request: Request) -> bytes:
        """Return what a command prints and its exit code; raise if it has to do the work itself."""

        def open_shared(loaded: "Loaded") -> "nullcontext[Memory]":
            if memory.loaded is None or not _is_same(memory.loaded, loaded):
                raise Declined
            return nullcontext(memory)

        names = _OF_PROCESS + (_OF_TERMINAL if any(request.are_terminals) else ())
        is_same_process = all(request.env.get(name, "") == self._env.get(name, "") for name in names)
        is_known = request.arguments[:1] and request.arguments[0] in start.WARM_COMMANDS
        if not is_known or not is_same_process or not _TURN.acquire(timeout=_TURN_S):
            raise Declined
        try:
            self.used_at = time.monotonic()
            printed = Printed(request)
            with redirect_stdout(printed.stdout), redirect_stderr(printed.stderr):
                code = self._run(request.arguments, Caller(request.env, request.cwd, open_shared))
        except SystemExit as error:
            raise Declined from error
        finally:
            _TURN.release()
        if code not in (0, 1):
            raise Declined
        return bytes([code]) + printed.pack()


def can_answer(loaded: "Loaded") -> bool:
    """True if commands may be answered for a memory: it is switched on, and the index is mdrecall's own."""
    return loaded.settings.mdrecall.warm.enabled and loaded.settings.memory.backend == "builtin"


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

    def __init__(self, request: Request) -> None:
        self._parts: list[tuple[int, bytes]] = []
        self._is_terminal = request.are_terminals[0]
        streams = zip(request.are_terminals, request.encodings, strict=True)
        self.stdout, self.stderr = (_Stream(self._parts, number, *stream) for number, stream in enumerate(streams))

    def pack(self) -> bytes:
        """Return each part with its stream and its length; standard output that is no terminal comes at the end."""
        parts = self._parts if self._is_terminal else sorted(self._parts, key=lambda part: -part[0])
        packed = b"".join(bytes([number]) + len(data).to_bytes(4, "big") + data for number, data in parts)
        if len(packed) >= start.MAX_ANSWER_BYTES:
            raise Declined
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


class _Listener:
    """Listens to one pipe, in threads that end with the process. Of several processes, one listens."""

    def __init__(self, path: str, answer: Callable[[Request], bytes]) -> None:
        self.folder, self._path = os.path.dirname(path), path
        self.tried = threading.Event()
        """Set as soon as the pipe is there, or cannot be made for now."""
        self.problem: OSError | None = None
        self._lock = FileLock(f"{path}.lock")
        self._answer = answer
        self._slots = threading.BoundedSemaphore(_MAX_CLIENTS)
        self._closing = threading.Event()
        self._guard = threading.Lock()
        self._pipe: int | None = None
        """The open pipe; under the guard it is not closed meanwhile."""
        self._thread = threading.Thread(target=self._run, name="mdrecall-warm", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        with self._guard:
            if self._pipe is not None:
                # This wakes up the thread that waits for a command, wherever its pipe is by now.
                os.write(self._pipe, b"\n")
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                make_private_folder(self.folder)
                if not start.is_private(self.folder):
                    raise OSError("it is a link, or other users can enter it")
                if self._lock.acquire(0, "answering commands"):
                    self._listen()
            except OSError as error:
                # No folder, no room, or a pipe that another program removed: it may work later.
                self.problem = error
            finally:
                self.tried.set()
            self._closing.wait(_TAKEOVER_S)

    def _listen(self) -> None:
        temporary = os.path.join(self.folder, f".{os.path.basename(self._path)}.{os.getpid()}")
        try:
            start.remove(temporary)
            os.mkfifo(temporary, 0o600)
            # Opened for both ways, it never ends, however many commands come and go.
            with _open_pipe(temporary, os.O_RDWR) as pipe:
                # What a killed process left there is replaced in one step.
                os.replace(temporary, self._path)
                self.tried.set()
                os.set_blocking(pipe, True)
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
        pipes = start.locate_pipes(self.folder, os.path.basename(token))
        if self._slots.acquire(blocking=False):
            threading.Thread(target=self._serve, args=pipes, name="mdrecall-warm-answer", daemon=True).start()
            return
        with suppress(OSError), _open_pipe(pipes[1], os.O_WRONLY) as to:
            os.write(to, start.DECLINED)

    def _serve(self, asked: str, answer: str) -> None:
        try:
            # The first is opened for both ways, because a command opens its end of it only after the greeting.
            with suppress(OSError), _open_pipe(asked, os.O_RDWR) as reader, _open_pipe(answer, os.O_WRONLY) as to:
                start.send(to, start.GREETING + start.describe_code(), time.monotonic() + _SEND_S)
                try:
                    body = self._answer(_receive_request(reader))
                    reply = start.ANSWERED + len(body).to_bytes(4, "big") + body
                except Exception:
                    # It does not matter why: the command does the work itself, and reports what is wrong.
                    reply = start.DECLINED + bytes(4)
                start.send(to, reply, time.monotonic() + _SEND_S)
        finally:
            # A command that was killed cannot remove them.
            start.remove(asked)
            start.remove(answer)
            self._slots.release()


@contextmanager
def _open_pipe(path: str, mode: int) -> Iterator[int]:
    pipe = start.open_pipe(path, mode)
    try:
        yield pipe
    finally:
        os.close(pipe)


def _receive_request(asked: int) -> Request:
    """Return the request of a command; raise if it is not one."""
    deadline = time.monotonic() + _RECEIVE_S
    size = int.from_bytes(start.receive(asked, 4, deadline), "big")
    if size > _MAX_REQUEST_BYTES:
        raise Declined
    fields = start.receive(asked, size, deadline).split(b"\0")
    try:
        cwd, terminals, out, err, count, *rest = map(os.fsdecode, fields)
        for encoding in (out, err):
            "".encode(encoding)
        arguments, variables = rest[: int(count)], rest[int(count) :]
        env = dict(variable.split("=", 1) for variable in variables)
    except (ValueError, LookupError) as error:
        raise Declined from error
    return Request(arguments, env, cwd, (terminals[:1] == "1", terminals[1:] == "1"), (out, err))
