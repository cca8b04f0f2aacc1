"""Running a program once: its command, its surroundings, its output, and its end with all that it started."""

import codecs
import contextlib
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, NamedTuple

from mdrecall.errors import (
    BackendUnavailable,
    ProgramBusy,
    ProgramFailed,
    ProgramMissing,
    ProgramStopped,
    ProgramTimedOut,
    ProgramUnreadable,
)
from mdrecall.types import Stop, never

#: Where qmd runs. A ``.qmd/index.yml`` in the working folder or above it takes the place of every other configuration,
#: whatever the environment says; above the root there is nothing.
WORK_DIR = "/"
MAX_CHARS = 200_000
_TAIL_CHARS = 8_000
_TOLD_CHARS = 2_000
_LOOK_S = 0.05
_DRAIN_S = 0.25
_BUSY_WAIT_MS = 2_000
_LEFT_OUT = ("INDEX_PATH", "OLDPWD", "QMD_TRUST_LOCAL_CONFIG", "QMD_TRUST_UPDATE_HOOKS")
_LOCAL_CONFIGS = (os.path.join(".qmd", "index.yml"), os.path.join(".qmd", "index.yaml"))
#: How a crash looks, started directly or by a launcher: so ends qmd on a Node that is too old for its SQLite.
_CRASHES = (-11, 139)
_CRASH_HINT = "qmd needs Node 22 or newer; `node --version` says which one it gets."
_ERROR_LINE = re.compile(r"\w*(?:Error|Exception)\b[^:]*:\s*\S|Collection not found:")
_NOISE_LINE = re.compile(r"(?:at |Node\.js v|\^+$|\}$|throw |file://|node:|(?:QMD )?Warning\b)")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Output(NamedTuple):
    """What a program left when it ended."""

    stdout: str
    stderr: str
    code: int
    seconds: float


def command_of(text: str, *, home: str = "") -> tuple[str, ...]:
    """The command that a setting names, with the words after it as its first arguments.

    Quotes and backslashes work as in a shell, but no shell sees them. A text that as a whole names a file is that file,
    whatever spaces are in it.
    """
    text = text.strip()
    if text and os.path.isfile(_at_home(text, home)):
        return (_at_home(text, home),)
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()[:1]
    return tuple(_at_home(word, home) if number == 0 else word for number, word in enumerate(words))


def index_path(qmd_dir: str) -> str:
    """The database of the qmd that lives in a folder."""
    return os.path.join(qmd_dir, "xdg-cache", "qmd", "index.sqlite")


def config_path(qmd_dir: str) -> str:
    """The configuration of the qmd that lives in a folder."""
    return os.path.join(qmd_dir, "xdg-config", "index.yml")


def prepare(qmd_dir: str, environment: Mapping[str, str], *, home: str) -> dict[str, str]:
    """Make the folders of a qmd of its own, and the environment in which it keeps to them."""
    for name in _LOCAL_CONFIGS:
        if os.path.exists(path := os.path.join(WORK_DIR, name)):
            raise BackendUnavailable(f"{path} takes the place of every other qmd's configuration.", hint="Remove it.")
    config, cache = os.path.dirname(config_path(qmd_dir)), os.path.dirname(index_path(qmd_dir))
    try:
        os.makedirs(qmd_dir, mode=0o700, exist_ok=True)
        os.makedirs(config, exist_ok=True)
        os.makedirs(cache, exist_ok=True)
    except OSError as error:
        hint = "Free the place, or let this user write there."
        raise BackendUnavailable(f"No folder for qmd at {qmd_dir}: {error.strerror}.", hint=hint) from error
    parent_cache = environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    _link_models(os.path.join(parent_cache, "qmd", "models"), os.path.join(cache, "models"))
    kept = {name: value for name, value in environment.items() if name not in _LEFT_OUT}
    return {
        **kept,
        "XDG_CONFIG_HOME": config,
        "XDG_CACHE_HOME": os.path.dirname(cache),
        "QMD_CONFIG_DIR": config,
        "QMD_SQLITE_BUSY_TIMEOUT": str(_BUSY_WAIT_MS),
        "NO_COLOR": "1",
        "PWD": WORK_DIR,
    }


class Program:
    """A program that is run again and again, several times at once if need be."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: str = WORK_DIR) -> None:
        self._command = tuple(command)
        self._env = env
        self._cwd = cwd
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    @property
    def command(self) -> tuple[str, ...]:
        return self._command

    @property
    def env(self) -> Mapping[str, str]:
        return self._env

    @property
    def cwd(self) -> str:
        return self._cwd

    def run(
        self,
        arguments: Sequence[str],
        *,
        timeout_s: float,
        quiet: bool = False,
        stop: Stop = never,
        check: bool = True,
    ) -> Output:
        """Run it to its end; whatever it started in its group is dead then.

        With ``quiet`` only the last of what it says is kept, however much that is. Without ``check`` a code other than
        0 is not an error.
        """
        name = named(self._command, arguments)
        began = time.monotonic()
        process = self._start(arguments)
        reading = _Reading(process, _TAIL_CHARS if quiet else MAX_CHARS, quiet)
        try:
            self._follow(reading, name, began, timeout_s, stop)
        finally:
            kill_group(process)
            reading.close()
            process.wait()
            with self._lock:
                self._running.discard(process)
        if self._closed:
            raise ProgramStopped(f"{name} was stopped.")
        output = Output(*reading.texts(), process.returncode, time.monotonic() - began)
        if check:
            _check(name, output)
        return output

    def close(self) -> None:
        """Kill what runs; nothing can be run any more."""
        with self._lock:
            self._closed = True
            for process in self._running:
                kill_group(process)

    def _start(self, arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._closed:
                raise ProgramStopped(f"{named(self._command, arguments)} was not started: it is closed.")
            process = spawn((*self._command, *arguments), env=self._env, cwd=self._cwd)
            self._running.add(process)
        return process

    def _follow(self, reading: "_Reading", name: str, began: float, timeout_s: float, stop: Stop) -> None:
        while not reading.ended(_LOOK_S):
            if reading.overflowed:
                raise ProgramUnreadable(
                    f"{name} said more than {MAX_CHARS:,} characters, and was killed.", hint="Ask for fewer results."
                )
            if stop():
                raise ProgramStopped(f"{name} was stopped.")
            if time.monotonic() - began > timeout_s:
                raise timed_out(name, timeout_s)
        if reading.overflowed:
            raise ProgramUnreadable(f"{name} said more than {MAX_CHARS:,} characters.", hint="Ask for fewer results.")


def named(command: Sequence[str], arguments: Sequence[str] = ()) -> str:
    """How a command is called in messages: without its folder, and without what it is asked."""
    words = [os.path.basename(command[-1]).removesuffix(".js") if command else "(no command)", *arguments[:1]]
    return " ".join(word for word in words if not word.startswith("-"))


def timed_out(name: str, timeout_s: float) -> ProgramTimedOut:
    hint = "Give it more time in the settings, or let it do less."
    return ProgramTimedOut(f"{name} did not answer within {timeout_s:g} seconds, and was killed.", hint=hint)


def spawn(
    command: Sequence[str], *, env: Mapping[str, str], cwd: str, with_input: bool = False
) -> "subprocess.Popen[bytes]":
    """Start a program as the head of a session and group of its own."""
    program = _found(command, env)
    try:
        return subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise ProgramMissing(f"{program} cannot be started: {error.strerror}.", hint=_install_hint(command)) from error
    except ValueError as error:
        raise ProgramFailed(f"{os.path.basename(program)} cannot be asked this: {error}.") from error


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program that :func:`spawn` started, with all that stayed in its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def telling_line(text: str) -> str:
    """The one line of a program's complaint that says what is wrong."""
    lines = [line.strip() for line in _ESCAPES.sub("", text).splitlines() if line.strip()]
    errors = (line for line in lines if _ERROR_LINE.match(line))
    rest = (line for line in lines if not _NOISE_LINE.match(line))
    return next(errors, next(rest, ""))[:200]


class _Reading:
    """Both outputs of a process, read together without ever waiting for one of them alone."""

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
    def overflowed(self) -> bool:
        return any(text.overflowed for text in self._texts)

    def ended(self, wait_s: float) -> bool:
        """Read what is there, or wait a little for it; whether the process has ended and said everything."""
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
    """Text that comes in pieces, all of it up to a limit or only the last of it."""

    def __init__(self, max_chars: int, tail: bool) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._max_chars = max_chars
        self._tail = tail
        self._pieces: list[str] = []
        self._chars = 0

    @property
    def overflowed(self) -> bool:
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
    said = output.stderr.strip() or output.stdout.strip()
    if "SQLITE_BUSY" in said or "database is locked" in said:
        hint = "Another process writes to it; try again a little later."
        raise ProgramBusy(f"{name} found its database locked.", hint=hint)
    line = telling_line(said)
    if output.code in (126, 127):
        raise ProgramMissing(
            f"{name} cannot be started: {line or f'code {output.code}'}", hint=_install_hint(name.split())
        )
    ending = f"was killed by signal {-output.code}" if output.code < 0 else f"ended with code {output.code}"
    hint = _CRASH_HINT if output.code in _CRASHES else ""
    said_briefly = f"{name} {ending}{f': {line}' if line else '.'}"
    raise ProgramFailed(said_briefly, hint=hint, code=output.code, output=said[-_TOLD_CHARS:])


def _found(command: Sequence[str], env: Mapping[str, str]) -> str:
    if not command or not command[0]:
        raise ProgramMissing("No command is set.", hint="Name the program in memory.qmd.command.")
    program = os.path.abspath(command[0]) if os.sep in command[0] else command[0]
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found:
        return found
    what = "is not a program that this user may run" if os.path.exists(program) else "is not installed"
    where = "" if os.sep in program else " on the PATH"
    raise ProgramMissing(f"{command[0]} {what}{where}.", hint=_install_hint(command))


def _install_hint(command: Sequence[str]) -> str:
    if any("mcporter" in os.path.basename(word) for word in command[:2]):
        return "Install it with `npm install -g mcporter` (Node 22 or newer), or switch memory.qmd.mcporter off."
    return "Install it with `npm install -g @tobilu/qmd` (Node 22 or newer), or name its path in memory.qmd.command."


def _at_home(word: str, home: str) -> str:
    return os.path.join(home, word[2:]) if home and word.startswith("~/") else word


def _link_models(source: str, target: str) -> None:
    """Let this qmd use the models that another one has downloaded; without the link it downloads its own."""
    if os.path.isdir(source) and not os.path.lexists(target):
        with contextlib.suppress(OSError):
            os.symlink(source, target, target_is_directory=True)
