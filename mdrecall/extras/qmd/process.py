"""Starts qmd: which program that is, where it keeps its files, and one run of it to its end.

npm installs ``qmd`` as a script that only starts a second Node with the actual program, and killing the script leaves
that running. So every program has a process group of its own, which is killed as a whole. Output and time of a run are
bounded.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mdrecall import errors, platform
from mdrecall.config.settings import Settings
from mdrecall.state_files import load, make_private_folder, save
from mdrecall.types.sync import Stop, never

#: Where qmd runs. A ``.qmd/index.yml`` in the working folder or above it overrides every other configuration, whatever
#: the environment says. Above the root there is nothing.
WORK_DIR = "/"
# qmd itself waits two minutes for a locked database, longer than any caller of ours does.
_BUSY_WAIT_MS = 2_000
# Variables that would lead qmd to another index or let a configuration run commands.
_DROPPED_VARIABLES = ("INDEX_PATH", "OLDPWD", "QMD_TRUST_LOCAL_CONFIG", "QMD_TRUST_UPDATE_HOOKS")
_LOCAL_CONFIGS = (os.path.join(".qmd", "index.yml"), os.path.join(".qmd", "index.yaml"))
# The first version that names files exactly, not lower-cased and with other characters replaced.
_LEAST = (2, 6, 0)
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\b")
# Bounds each command of the doctor's check.
_CHECK_TIMEOUT_S = 30.0

#: A program that prints more than any list of results is killed before it fills the memory.
MAX_BYTES = 400_000
# The same for output that nobody parses: the log of an update names every file.
_MAX_LOG_BYTES = 100 * MAX_BYTES
# How much of it an error carries: enough to recognize the failure.
_ERROR_CHARS = 2_000
# How often a run checks its time limit and whether it should stop.
_POLL_S = 0.05
# The index holds the text of every note and transcript, so only this user may read it.
_UMASK = 0o077
# A segmentation fault, started directly or by a launcher: how qmd ends on a Node that is too old for its SQLite.
_CRASHES = (-11, 139)
_CRASH_HINT = "qmd needs Node 22 or newer; `node --version` shows which one it gets."
_ERROR_LINE = re.compile(r"\w*(?:Error|Exception)\b[^:]*:\s*\S|Collection not found:")
_NOISE_LINE = re.compile(r"(?:at |Node\.js v|\^+$|\}$|throw |file://|node:|(?:QMD )?Warning\b)")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def parse_command(text: str, *, home: str = "") -> tuple[str, ...]:
    """Return the command that a setting names, with the words after it as its first arguments.

    Quotes and backslashes work as in a shell, but no shell is involved. A text that names an existing file is that
    file, even if it contains spaces.
    """

    def expand(word: str) -> str:
        return os.path.join(home, word[2:]) if home and word.startswith("~/") else word

    text = text.strip()
    if text and os.path.isfile(expand(text)):
        return (expand(text),)
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()[:1]
    return tuple(expand(word) if number == 0 else word for number, word in enumerate(words))


def short_name(command: Sequence[str], arguments: Sequence[str] = ()) -> str:
    """Return how messages call a command: its program without the folder, and its subcommand."""
    words = [os.path.basename(command[-1]).removesuffix(".js") if command else "(no command)", *arguments[:1]]
    return " ".join(word for word in words if not word.startswith("-"))


def find_program(command: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the path of the program to start; raise ``ProgramMissing`` if there is none."""
    if not command or not command[0]:
        raise errors.ProgramMissing("No command is set.", hint="Name the program in memory.qmd.command.")
    program = os.path.abspath(command[0]) if os.sep in command[0] else command[0]
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found:
        return found
    what = "is not a program that this user may run" if os.path.exists(program) else "is not installed"
    where = "" if os.sep in program else " on the PATH"
    raise errors.ProgramMissing(f"{command[0]} {what}{where}.", hint=_install_hint(command))


def _install_hint(command: Sequence[str]) -> str:
    """Return how to install a missing program, or how to do without it."""
    if any("mcporter" in os.path.basename(word) for word in command[:2]):
        return "Install it with `npm install -g mcporter` (Node 22 or newer), or switch memory.qmd.mcporter off."
    return "Install it with `npm install -g @tobilu/qmd` (Node 22 or newer), or name its path in memory.qmd.command."


def index_path(qmd_dir: str) -> str:
    """Return the path of the database of the qmd in a folder."""
    return os.path.join(qmd_dir, "xdg-cache", "qmd", "index.sqlite")


def state_dir_of(settings: Settings) -> str:
    """Return the folder for mdrecall's own files beside the qmd index of one agent."""
    return os.path.join(settings.qmd_dir, "mdrecall")


def prepare(qmd_dir: str, environment: Mapping[str, str], *, home: str) -> dict[str, str]:
    """Create the folders of a separate qmd, and return the environment that makes it use them."""
    for name in _LOCAL_CONFIGS:
        if os.path.exists(path := os.path.join(WORK_DIR, name)):
            raise errors.BackendUnavailable(f"{path} overrides the configuration of every qmd.", hint="Remove it.")
    config, cache = os.path.join(qmd_dir, "xdg-config"), os.path.dirname(index_path(qmd_dir))
    try:
        make_private_folder(config)
        make_private_folder(cache)
    except OSError as error:
        hint = "Remove what is in the way, or give this user write access."
        raise errors.BackendUnavailable(
            f"Cannot create the qmd folder {qmd_dir}: {error.strerror}.", hint=hint
        ) from error
    # This qmd uses the models that another one has downloaded. Without the link it downloads its own.
    models = os.path.join(environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "qmd", "models")
    if os.path.isdir(models) and not os.path.lexists(link := os.path.join(cache, "models")):
        with contextlib.suppress(OSError):
            os.symlink(models, link, target_is_directory=True)
    return {
        **{name: value for name, value in environment.items() if name not in _DROPPED_VARIABLES},
        "XDG_CONFIG_HOME": config,
        "XDG_CACHE_HOME": os.path.dirname(cache),
        "QMD_CONFIG_DIR": config,
        "QMD_SQLITE_BUSY_TIMEOUT": str(_BUSY_WAIT_MS),
        "NO_COLOR": "1",
        "PWD": WORK_DIR,
    }


class Program:
    """A program that can be run repeatedly and concurrently."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str]) -> None:
        self.command = tuple(command)
        self.env = env
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def run(
        self, arguments: Sequence[str], *, timeout_s: float, quiet: bool = False, stop: Stop = never, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run the program to its end, then kill whatever it left running in its process group.

        With ``quiet`` the output may be long. Without ``check`` a non-zero exit code is not an error.
        """
        name = short_name(self.command, arguments)
        until = time.monotonic() + timeout_s
        with self._lock:
            if self._closed:
                raise errors.ProgramStopped(f"{name} was not started: the memory is closed.")
            process = spawn((*self.command, *arguments), env=self.env)
            self._running.add(process)
        most = _MAX_LOG_BYTES if quiet else MAX_BYTES
        output, has_ended = (b"", b""), False
        try:
            while not has_ended:
                has_ended = process.poll() is not None
                try:
                    output, has_ended = process.communicate(timeout=_POLL_S), True
                except subprocess.TimeoutExpired as waiting:
                    # After the end of the program, only a child that inherited the pipe still has it open.
                    output = waiting.stdout or b"", waiting.stderr or b""
                if max(map(len, output)) > most:
                    message = f"{name} printed more than {most:,} bytes and was killed."
                    raise errors.ProgramUnreadable(message, hint="Ask for fewer results.")
                if not has_ended and stop():
                    raise errors.ProgramStopped(f"{name} was stopped.")
                if not has_ended and time.monotonic() > until:
                    limit = f"{max(0.1, round(timeout_s, 1)):g} seconds"
                    hint = "Raise its time limit in the settings, or index fewer files."
                    raise errors.ProgramTimedOut(f"{name} did not answer within {limit} and was killed.", hint=hint)
        finally:
            kill_group(process)
            with process, self._lock:
                self._running.discard(process)
        if self._closed:
            raise errors.ProgramStopped(f"{name} was stopped.")
        stdout, stderr = (text.decode("utf-8", "replace") for text in output)
        if check and process.returncode:
            complaint, code = stderr.strip() or stdout.strip(), process.returncode
            ending = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            raise translate_failure(name, complaint, code, ending)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def close(self) -> None:
        """Kill what is running. Later runs raise ``ProgramStopped``."""
        with self._lock:
            self._closed = True
            for process in self._running:
                kill_group(process)


def spawn(command: Sequence[str], *, env: Mapping[str, str], with_input: bool = False) -> "subprocess.Popen[bytes]":
    """Start a program in its own session and process group. Files it creates are readable by this user only."""
    program = find_program(command, env)
    try:
        return subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=WORK_DIR,
            start_new_session=True,
            creationflags=platform.OWN_CONSOLE,
            umask=_UMASK,
            bufsize=0,
        )
    except OSError as error:
        raise errors.ProgramMissing(
            f"{program} cannot be started: {error.strerror}.", hint=_install_hint(command)
        ) from error
    except ValueError as error:
        raise errors.ProgramFailed(
            f"{os.path.basename(program)} cannot be started with these arguments: {error}."
        ) from error


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program that :func:`spawn` started, with everything in its process group."""
    with contextlib.suppress(PermissionError):
        platform.kill_group(process.pid)


def translate_failure(name: str, complaint: str, code: int = 1, ending: str = "failed") -> errors.BackendUnavailable:
    """Return the error for what a program or a tool of its server complains of."""
    if "SQLITE_BUSY" in complaint or "database is locked" in complaint:
        hint = "Another process is writing to it; try again in a moment."
        return errors.ProgramBusy(f"{name} found its database locked.", hint=hint)
    line = find_error_line(complaint)
    if code in (126, 127):
        hint = _install_hint(name.split())
        return errors.ProgramMissing(f"{name} cannot be started: {line or f'code {code}'}", hint=hint)
    hint = _CRASH_HINT if code in _CRASHES else ""
    message = f"{name} {ending}: {line}" if line else f"{name} {ending}."
    return errors.ProgramFailed(message, hint=hint, code=code, output=complaint[-_ERROR_CHARS:])


def find_error_line(text: str) -> str:
    """Return the line of an error output that says what is wrong."""
    lines = [line.strip() for line in _ESCAPES.sub("", text).splitlines() if line.strip()]
    named = (line for line in lines if _ERROR_LINE.match(line))
    rest = (line for line in lines if not _NOISE_LINE.match(line))
    return next(named, next(rest, ""))[:200]


def parse_tool_result(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the result of a tool of ``qmd mcp`` holds; raise the error that it reports."""
    content = result.get("content")
    parts = content if isinstance(content, list) else []
    if result.get("isError"):
        texts = [str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part]
        raise translate_failure(name, "\n".join(texts))
    structured = result.get("structuredContent")
    return structured if isinstance(structured, dict) else {"content": parts}


def require_version(program: Program, state_path: str, timeout_s: float) -> None:
    """Raise ``ProgramMissing`` for a qmd that is too old. One that prints no version is used.

    A program that is new enough is remembered at ``state_path``, so that not every search starts it twice.
    """
    key = _identify(program)
    if key and load(state_path).get("program") == key:
        return
    if _VERSION.search(_read_version(program, timeout_s)):
        with contextlib.suppress(OSError):
            save(state_path, {"program": key})


def check_qmd(settings: Settings, environment: Mapping[str, str], home: str) -> str:
    """Return the version of the configured qmd, once it has opened an index elsewhere; raise ``BackendUnavailable``."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="mdrecall-qmd-") as scratch:
        env = prepare(os.path.join(scratch, "qmd"), environment, home=home)
        program = Program(parse_command(settings.memory.qmd.command, home=home), env=env)
        text = _read_version(program, _CHECK_TIMEOUT_S)
        program.run(["status"], timeout_s=_CHECK_TIMEOUT_S)
    return text


def _read_version(program: Program, timeout_s: float) -> str:
    text = program.run(["--version"], timeout_s=timeout_s, check=False).stdout.strip()[:100]
    found = _VERSION.search(text)
    if found and tuple(map(int, found.groups())) < _LEAST:
        least = ".".join(map(str, _LEAST[:2]))
        raise errors.ProgramMissing(
            f"{text} is too old: {least} or newer is needed.", hint=_install_hint(program.command)
        )
    return text


def _identify(program: Program) -> list[list[object]]:
    """Identify every file of the command. Size and date alone do not do: packages often carry the same date."""
    first, *rest = program.command or ("",)
    found = shutil.which(first, path=program.env.get("PATH", os.defpath)) or first
    files = [(real, os.stat(real)) for real in map(os.path.realpath, (found, *rest)) if os.path.exists(real)]
    return [[real, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino] for real, stat in files]
