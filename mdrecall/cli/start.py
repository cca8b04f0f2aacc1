"""The entry of the command: a process with an open memory answers if there is one, else the command runs here.

Nothing is imported before it is known that nobody answers: each import would be paid by every command.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import NoReturn

#: Each may be repeated here after a lost connection: they read, and ``note`` and ``hook`` write nothing twice.
WARM_COMMANDS = ("search", "get", "context", "status", "note", "hook")
#: With these a command runs here: they change the process, read its input, or say so.
_RUN_HERE = frozenset(("-", "-h", "--help", "--all-agents", "--no-warm", "--verbose"))
#: The messages between a command and the process that listens are those of MCP (``mcp_server/stdio``). They are made
#: and read here without ``json``, whose import takes half of the time in which Python starts: bytes are in hexadecimal.
METHOD = "commands/run"
_HELLO = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"","capabilities":{},'
    b'"clientInfo":{"name":"","version":""}}}\n'
)
_GREETING, _ANSWER = (
    b'{"jsonrpc":"2.0","id":0,"result":{"code":"%b"}}\n',
    b'{"jsonrpc":"2.0","id":1,"result":{"printed":"',
)
_CONTROLS = {code: f"\\u{code:04x}" for code in range(32)}
#: A process that has not greeted by then, or in half of the time that a hook has, is stopped. On a busy machine the
#: greeting takes a tenth of a second and more, which is still less than the work itself.
_GREETING_S = 2.0
#: How long all of them may take to answer: longer than any search whose provider answers in time.
_ANSWER_S = 10.0
#: Processes that are asked in turn; each has the memory of another workspace.
_MAX_ASKED = 3
#: An answer is read up to this size: a list of 100,000 notes is smaller.
MAX_ANSWER_BYTES = 32 << 20
#: Seconds after which a hook answers with what it has, from the start of this process. Hosts end it a second later, or
#: more (``hosts/table``); Claude Code cuts off a plugin's end of a session after 1.5 seconds, whatever it asks for.
HOOK_SECONDS = {
    "session-start": 4.0,
    "prompt": 4.0,
    "before-compaction": 5.0,
    "after-compaction": 1.0,
    "stop": 5.0,
    "subagent-stop": 1.0,
    "session-end": 0.8,
}
#: The share of that time in which a host has to say what happened and close its end, so that there is time to answer.
_SHARE_OF_INPUT = 0.5
#: The share after which a process that listens answers with what it has, and after which it is not waited for: then
#: there is still time to do the work here.
_SHARE_OF_WARM, _SHARE_OF_WAITING = 0.6, 0.7
#: A prompt with a pasted file is smaller; a longer input is cut, and then no JSON.
_MAX_INPUT_BYTES = 8 << 20
# Nearly all that a short command creates, modules above all, lives until it ends. At the default of 700 new objects the
# garbage collector would go through it again and again: a tenth of the time that the imports take.
_COLLECT_AFTER = 50_000


def main() -> int:
    """Run the command of this process and return its exit code."""
    arguments = sys.argv[1:]
    is_typed = sys.stdin is not None and sys.stdin.isatty()
    if arguments[:1] == ["hook"] and not {"-h", "--help"}.intersection(arguments) and not is_typed:
        _run_hook(arguments)
    if arguments and arguments[0] in WARM_COMMANDS and not _RUN_HERE.intersection(arguments):
        try:
            answer = ask(arguments, os.environ)
        except KeyboardInterrupt:
            print("Stopped.", file=sys.stderr)
            return 130
        if answer is not None:
            return _print(answer)
    return _run_here(arguments)


def _run_here(arguments: "list[str]") -> int:
    import gc

    gc.set_threshold(_COLLECT_AFTER)
    # Read by the linear algebra library of numpy when it is loaded. The products here are too small to be shared out.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from mdrecall.cli.main import main as run

    try:
        return run(arguments)
    finally:
        # The end of the process frees everything; a last search for garbage is a tenth of a short command.
        gc.freeze()


def _run_hook(arguments: "list[str]") -> "NoReturn":
    """Run a hook and end the process: whatever goes wrong, the host sees an answer or nothing, and no error.

    The end comes at once, because a part that was not done in time may still be at work in a thread.
    """
    import time

    from mdrecall import platform

    begun = time.monotonic()
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        seconds = HOOK_SECONDS.get(arguments[1], 1.0) if len(arguments) > 1 else 1.0
        said = _read_input(begun + seconds * _SHARE_OF_INPUT)
        if arguments[1:2] == ["prompt"]:
            from mdrecall.hosts.agreeing import only_agrees

            if only_agrees(said):
                os._exit(0)
        arguments += [f"--begun={begun}", f"--input={said}"]
        # The terminal that the host was started in, if any: hooks inherit it, and no warm process has it.
        arguments += ["--terminal"] if platform.has_terminal() else []
        answer = None
        if "--no-warm" not in arguments:
            left = begun + seconds * _SHARE_OF_WAITING - time.monotonic()
            answer = ask([*arguments, f"--deadline={begun + seconds * _SHARE_OF_WARM}"], os.environ, left)
        if answer is None:
            _run_here([*arguments, f"--deadline={begun + seconds}"])
        else:
            _print(answer)
        sys.stdout.flush()
    except BaseException as error:
        _log_failure(arguments, error)
    os._exit(0)


def _log_failure(arguments: "list[str]", error: BaseException) -> None:
    """Write down why a hook could not even begin, such as an option that this version does not know."""
    try:
        from mdrecall.cli.hook import log_failure

        log_failure(arguments, error)
    except BaseException:
        # There is nobody left to tell.
        pass


def _read_input(deadline: float) -> str:
    """Return what the host has written to standard input before it closes it, or before the deadline."""
    import time

    from mdrecall import platform

    poll = platform.poll()
    poll.register(0, platform.POLLIN)
    parts, size = [], 0
    while size < _MAX_INPUT_BYTES and (left := deadline - time.monotonic()) > 0:
        try:
            part = os.read(0, 1 << 16) if poll.poll(1000 * left) else b""
        except OSError:
            part = b""
        if not part:
            break
        parts.append(part)
        size += len(part)
    # A zero ends an argument, and JSON has none.
    return os.fsdecode(b"".join(parts).replace(b"\0", b""))


def ask(arguments: "list[str]", env: "Mapping[str, str]", answer_s: float = _ANSWER_S) -> bytes | None:
    """Return the answer of a process that listens; None if there is none that can answer in time."""
    import time

    if os.name == "nt":
        # There are no such pipes.
        return None
    deadline = time.monotonic() + answer_s
    folder = find_pipe_folder(env)
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".pipe")) if is_private(folder) else []
        if not names:
            return None
        cwd = os.getcwd()
        request = _pack_request(arguments, env, cwd)
    except (OSError, ValueError):
        return None
    for name in _put_likely_first(names, arguments, cwd)[:_MAX_ASKED]:
        answer = _ask_one(folder, name, request, deadline)
        if answer is not None:
            return answer
    return None


def find_pipe_folder(env: "Mapping[str, str]") -> str:
    """Return the folder of the pipes, in mdrecall's own state folder."""
    home = env.get("OPENCLAW_HOME", "").strip() or env.get("HOME", "").strip() or os.path.expanduser("~")
    state = env.get("MDRECALL_STATE_DIR", "").strip()
    if not state and sys.platform == "darwin":
        state = os.path.join(home, "Library", "Application Support", "mdrecall")
    elif not state:
        base = env.get("XDG_STATE_HOME", "").strip()
        state = os.path.join(base if os.path.isabs(base) else os.path.join(home, ".local", "state"), "mdrecall")
    return os.path.join(os.path.abspath(os.path.expanduser(state)), "warm")


def name_pipe(workspace: str, index_path: str) -> str:
    """Return the name of the pipe for an index; it begins with what stands for the workspace."""
    from zlib import crc32

    parts = (crc32(os.fsencode(os.path.realpath(path))) for path in (workspace, index_path))
    return "-".join(f"{part:08x}" for part in parts) + ".pipe"


def is_private(folder: str) -> bool:
    """True if a path is a folder, and no link, that only this user can enter."""
    return _is_own(os.lstat(folder), 0o040000)


def _is_own(found: os.stat_result, kind: int) -> bool:
    from mdrecall import platform

    return found.st_mode & 0o170077 == kind and platform.is_own(found)


def locate_pipes(folder: str, token: str) -> tuple[str, str]:
    """Return the two pipes of a command: for what it asks, and for the answer."""
    return os.path.join(folder, f".{token}.asked"), os.path.join(folder, f".{token}.answer")


def open_pipe(path: str, mode: int) -> int:
    """Open an end of a named pipe of this user; raise ``OSError`` if it is something else, or nobody reads from it."""
    from mdrecall import platform

    file = platform.open(path, mode | platform.NO_WAIT | platform.NO_FOLLOW)
    if not _is_own(os.fstat(file), 0o010000):
        os.close(file)
        raise PermissionError
    return file


def remove(path: str) -> None:
    """Remove a pipe, unless the process at its other end has done so."""
    try:
        os.unlink(path)
    except OSError:
        return


def _receive(file: int, deadline: float) -> bytes:
    """Return a line; raise ``OSError`` if it does not arrive before the deadline, or is too long."""
    parts, left = [b""], 2 * MAX_ANSWER_BYTES
    while left > 0 and not parts[-1].endswith(b"\n"):
        _wait(file, "POLLIN", deadline)
        parts.append(os.read(file, 1 << 16))
        left -= len(parts[-1])
        if not parts[-1]:
            raise ConnectionResetError
    return b"".join(parts)


def _send(file: int, data: bytes, deadline: float, reader: int) -> None:
    """Write everything; raise ``OSError`` if it is not read before the deadline, or no answer can come."""
    rest = memoryview(data)
    while rest:
        _wait(file, "POLLOUT", deadline, reader)
        rest = rest[os.write(file, rest) :]


def _wait(file: int, event: str, deadline: float, *others: int) -> None:
    """Wait until a pipe can be read or written; raise ``OSError`` after the deadline, or if another one has ended."""
    import time

    from mdrecall import platform

    waiting = platform.poll()
    waiting.register(file, getattr(platform, event))
    for other in others:
        waiting.register(other, 0)
    if file not in dict(waiting.poll(max(0.0, 1000 * (deadline - time.monotonic())))):
        raise TimeoutError


def _put_likely_first(names: "list[str]", arguments: "list[str]", cwd: str) -> "list[str]":
    """Return the names with that of the named workspace, or of the current folder, first."""
    if len(names) == 1:
        return names
    at = arguments.index("--workspace") + 1 if "--workspace" in arguments else len(arguments)
    likely = name_pipe(os.path.join(cwd, *arguments[at : at + 1]), "").partition("-")[0]
    return sorted(names, key=lambda name: not name.startswith(likely))


def _pack_request(arguments: "list[str]", env: "Mapping[str, str]", cwd: str) -> bytes:
    """Return everything that an answer depends on; raise ``ValueError`` if it is not valid text."""
    streams = (sys.stdout, sys.stderr)
    params = {
        "arguments": arguments,
        "variables": [f"{name}={value}" for name, value in env.items()],
        "cwd": [cwd],
        "terminals": ["yes" if stream and stream.isatty() else "no" for stream in streams],
        "encodings": [stream.encoding if stream else "utf-8" for stream in streams],
    }
    lists = (f'"{name}":[{",".join(map(_quote, texts))}]' for name, texts in params.items())
    return f'{{"jsonrpc":"2.0","id":1,"method":"{METHOD}","params":{{{",".join(lists)}}}}}\n'.encode()


def _quote(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    # Few texts need this, and it takes long.
    return f'"{text if text.isprintable() else text.translate(_CONTROLS)}"'


def describe_code() -> bytes:
    """Return which mdrecall this is: another version, or the same in another place, may answer in another way."""
    import mdrecall

    return os.fsencode(f"{mdrecall.__version__} {sys.version_info[:2]} {mdrecall.__file__}")


def _ask_one(folder: str, name: str, request: bytes, deadline: float) -> bytes | None:
    """Return the answer of one process; None if it does not greet or answer in time, declines, or dies.

    Pipes have names, because to import ``socket`` takes two thirds of the time in which Python starts.
    """
    import time

    from mdrecall import platform

    now = time.monotonic()
    greet_by = min(now + _GREETING_S, (now + deadline) / 2)
    token = f"{os.getpid()}-{os.urandom(8).hex()}"
    asked, answer = locate_pipes(folder, token)
    files: list[int] = []
    try:
        files.append(open_pipe(os.path.join(folder, name), os.O_WRONLY))
        platform.make_pipe(asked, 0o600)
        platform.make_pipe(answer, 0o600)
        files.append(open_pipe(asked, os.O_RDWR))
        files += (open_pipe(answer, mode) for mode in (os.O_RDONLY, os.O_WRONLY))
        listening, writer, reader, _ = files
        os.write(writer, _HELLO)
        os.write(listening, f"{token}\n".encode())
        _wait(reader, "POLLIN", greet_by, listening)
        # Until here this end kept the pipe from looking closed; from now on it is when the other process ends.
        os.close(files.pop())
        if _receive(reader, greet_by) != _GREETING % describe_code().hex().encode():
            return None
        _send(writer, request, deadline, reader)
        line = _receive(reader, deadline)
        return bytes.fromhex(line[len(_ANSWER) : -4].decode()) or None if line.startswith(_ANSWER) else None
    except (OSError, ValueError):
        return None
    finally:
        for file in files:
            os.close(file)
        remove(asked)
        remove(answer)


def _print(answer: bytes) -> int:
    """Write what a command would have written, and return its exit code."""
    try:
        for number, data in unpack(answer):
            stream = sys.stderr if number else sys.stdout
            if stream is not None:
                stream.buffer.write(data)
                stream.flush()
    except OSError as error:
        from mdrecall.cli.main import end_output

        return end_output(error)
    return answer[0]


def unpack(answer: bytes) -> "Iterator[tuple[int, bytes]]":
    """Yield the parts of what a command prints: 0 for standard output or 1 for standard error, and the bytes."""
    at = 1
    while at < len(answer):
        end = at + 5 + int.from_bytes(answer[at + 1 : at + 5], "big")
        yield answer[at], answer[at + 5 : end]
        at = end
