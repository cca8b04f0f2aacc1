"""The doors: each takes a call and tells what it was answered, in the words of the Python door.

What legitimately differs between them is undone here, and nowhere else:

* A typed caller cannot pass a wrong type, and a command line has only texts; a door says which calls it can make.
* A command line is typed by people, so it refuses a count below 1 and a score outside 0 to 1. Programs may pass any
  number: the memory takes a count below 1 for 1 (lines: 0 for all), a score below 0 for 0, and one above 1 leaves
  everything out. Not a number is refused by all.
* Tools, called in this process or through MCP, say ``maxResults``, ``minScore``, ``corpus`` (with ``all``), ``from``;
  take a number for a text, and a blank number for none.
* Tools add ``citations``, ``corpus`` and ``notice``, say that the provider is ``none``, end each snippet
  with its source, give at most 100 results, and cut the snippets of one answer to one budget (``truncated``).
* A file that is not there is an error in Python and on the command line, but an empty text that is ``missing`` to a
  model, which then goes on. A blank path is a missing argument to a tool, and so is a note that may not be written or a
  blank text, which Python and the command line call by their own names.
* Tools add to what an answer or an error suggests what a model can do about it, and name the class of an error. The
  command line adds its options and commands.
* The command line has exit codes: 1 where nothing is found or read, 2 where something is wrong.
"""

import asyncio
import io
import json
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mdrecall import Appended, AsyncMemory, Memory, ReadResult, RecallError, SearchAnswer, errors
from mdrecall.cli import start
from mdrecall.cli.main import answer, main
from mdrecall.cli.output import REMEDY_BY_REASON, SHOW_SESSION
from mdrecall.cli.start import ask, find_pipe_folder, locate_pipes, name_pipe, unpack
from mdrecall.cli.warm_server import WarmDoor
from mdrecall.errors import FileMissing, NothingToWrite, PathRefused, QueryError, ReadError, WriteError
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import ADVICE_BY_REASON, LOW_CONFIDENCE_ADVICE, Toolset, advice_for
from mdrecall.wire import answer_to_json, appended_to_json, read_to_json
from tests.doors.calls import Call
from tests.processes import PATIENCE_S, until

#: What a process that listens says first.
GREETING = start._GREETING % start.describe_code().hex().encode()
_BAD = "bad argument"
_OUTCOMES = {"FileMissing": "missing"} | dict.fromkeys(
    ("QueryError", "UsageError", "PathRefused", "NothingToWrite"), _BAD
)
_TOOLS = {"search": ("memory_search", "query"), "get": ("memory_get", "path"), "append": ("memory_append", "text")}
_NAMES = {"file": "file"} | {
    "max_results": "maxResults",
    "min_score": "minScore",
    "source": "corpus",
    "from_line": "from",
    "lines": "lines",
}


class Told(NamedTuple):
    """What a call was answered."""

    outcome: str
    """``found``, ``nothing``, ``missing``, ``refused`` or ``bad argument``."""
    body: dict[str, Any]
    """The whole answer; of an error the message and the way out, of a bad argument nothing."""


class Door(Protocol):
    """One way in."""

    def can(self, call: Call) -> bool: ...

    def ask(self, call: Call) -> Told: ...


class PythonDoor:
    """``Memory``, and what it gives as JSON."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def can(self, call: Call) -> bool:
        return call.is_well_typed

    def ask(self, call: Call) -> Told:
        try:
            if call.kind == "append":
                return appended(self._memory.append(call.what, **call.options))
            if call.kind == "search":
                return found(self._memory.search(call.what, **call.options))
            return read(self._memory.read(call.what, **call.options))
        except RecallError as error:
            return refused(error)


class AsyncDoor:
    """``AsyncMemory``, on a loop that runs from one call to the next."""

    def __init__(self, memory: AsyncMemory, runner: asyncio.Runner) -> None:
        self._memory = memory
        self._runner = runner

    def can(self, call: Call) -> bool:
        return call.is_well_typed

    def ask(self, call: Call) -> Told:
        return self._runner.run(self._ask(call))

    async def _ask(self, call: Call) -> Told:
        try:
            if call.kind == "append":
                return appended(await self._memory.append(call.what, **call.options))
            if call.kind == "search":
                return found(await self._memory.search(call.what, **call.options))
            return read(await self._memory.read(call.what, **call.options))
        except RecallError as error:
            return refused(error)


class CommandDoor:
    """``mdrecall search``, ``get`` and ``note`` with ``--json``; ``run`` makes one and gives exit code and output."""

    def __init__(self, workspace: str, run: "RunsCommand") -> None:
        self._workspace = workspace
        self._run = run

    def can(self, call: Call) -> bool:
        return isinstance(call.what, str)

    def ask(self, call: Call) -> Told:
        code, out = self._run(self._arguments(call))
        body = json.loads(out)
        if remedy := REMEDY_BY_REASON[body.get("reason", "")]:
            assert body["action"].endswith(remedy)
            body["action"] = body["action"].removesuffix(remedy).strip()
        told = _of_command(code, body) if "error" in body else Told("found" if code == 0 else "nothing", body)
        assert code == {"found": 0, "nothing": 1}.get(told.outcome, 2), (call, code)
        return told

    def _arguments(self, call: Call) -> list[str]:
        names = {"from_line": "from", "max_results": "max-results", "min_score": "min-score"}
        options = [f"--{names.get(name, name)}={value}" for name, value in call.options.items()]
        first = [f"--query={call.what}"] if call.kind == "search" else []
        last = [] if call.kind == "search" else ["--", call.what]
        command = "note" if call.kind == "append" else call.kind
        return [command, *first, *options, "--json", "--workspace", self._workspace, *last]


class RunsCommand(Protocol):
    def __call__(self, arguments: list[str]) -> tuple[int, str]: ...


def run_in_process(arguments: list[str]) -> tuple[int, str]:
    """A command as ``main`` runs it."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(arguments)
    except SystemExit as left:
        code = int(str(left.code))
    assert "Traceback" not in err.getvalue()
    return code, out.getvalue()


@contextmanager
def listening(memory: Memory, env: Mapping[str, str]) -> Iterator[WarmDoor]:
    """A process, which is this one, that answers the commands of others from an open memory."""
    assert memory.loaded
    with closing(WarmDoor(memory, env, answer)) as door:
        door.open()
        assert until(lambda: any(name.endswith(".pipe") for name in list_pipes(env)))
        yield door


def list_pipes(env: Mapping[str, str]) -> list[str]:
    folder = find_pipe_folder(env)
    return os.listdir(folder) if os.path.isdir(folder) else []


class Pipes:
    """The two pipes of a command, seen from one of their ends: as a connection to the other."""

    def __init__(self, folder: str, token: str, *, is_command: bool) -> None:
        self._asked, self._answer = locate_pipes(folder, token)
        self._is_command = is_command
        self._writer: int | None = None
        if is_command:
            os.mkfifo(self._asked, 0o600)
            os.mkfifo(self._answer, 0o600)
            self._reader = os.open(self._answer, os.O_RDONLY | os.O_NONBLOCK)
        else:
            self._reader = os.open(self._asked, os.O_RDWR)

    def send(self, data: bytes) -> None:
        """Write everything; raise ``OSError`` if nobody reads it."""
        if self._writer is None:
            self._writer = os.open(self._asked if self._is_command else self._answer, os.O_WRONLY)
        while data:
            data = data[os.write(self._writer, data) :]

    def read(self) -> bytes:
        """Return what has been written; nothing after the end."""
        if not select.select([self._reader], [], [], PATIENCE_S)[0]:
            raise TimeoutError
        return os.read(self._reader, 1 << 16)

    def close(self) -> None:
        os.close(self._reader)
        if self._writer is not None:
            os.close(self._writer)


def connect(env: Mapping[str, str]) -> Pipes:
    """Call the process that listens, and say nothing yet."""
    folder = find_pipe_folder(env)
    (name,) = (name for name in os.listdir(folder) if name.endswith(".pipe"))
    token = f"{os.getpid()}-{os.urandom(8).hex()}"
    pipes = Pipes(folder, token, is_command=True)
    Path(folder, name).write_text(f"{token}\n")
    return pipes


@contextmanager
def stranger(env: Mapping[str, str], serve: Callable[[Pipes], object]) -> Iterator[None]:
    """A program of this user that listens where mdrecall would."""
    folder = find_pipe_folder(env)
    os.makedirs(folder, mode=0o700)
    path = os.path.join(folder, name_pipe(".", "index"))
    os.mkfifo(path, 0o600)
    listener = os.open(path, os.O_RDWR)

    def accept() -> None:
        while (token := os.read(listener, 1 << 16).decode().strip()) != "end":
            with suppress(OSError), closing(Pipes(folder, token, is_command=False)) as connection:
                serve(connection)

    threading.Thread(target=accept, daemon=True).start()
    yield
    os.write(listener, b"end\n")


def ask_warm(arguments: list[str], env: Mapping[str, str]) -> tuple[int, str, str] | None:
    """What a process that listens answers to a command: exit code, output and errors; None if it declines."""
    answer = ask(arguments, env)
    if answer is None:
        return None
    streams = [b"".join(data for number, data in unpack(answer) if number == wanted) for wanted in (0, 1)]
    return answer[0], streams[0].decode(), streams[1].decode()


def run_warm(env: Mapping[str, str], answered: list[str]) -> RunsCommand:
    """Run commands as the installed program does: in a process that listens, or here if that one declines."""

    def run(arguments: list[str]) -> tuple[int, str]:
        # No process has arguments with these, so that none of them reaches the program that asks.
        is_possible = not any("\0" in argument or "\ud800" in argument for argument in arguments)
        told = ask_warm(arguments, env) if is_possible else None
        if told is None:
            return run_in_process(arguments)
        answered.append(arguments[0])
        assert (*told[:2],) == run_in_process([*arguments[:1], "--no-warm", *arguments[1:]]) or arguments[0] == "note"
        return told[:2]

    return run


class Calls(Protocol):
    """What calls a tool: gives its object and whether it is an error."""

    def __call__(self, name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]: ...


class ToolDoor:
    """The tools that models are given, by whatever way they are called."""

    def __init__(self, call: Calls) -> None:
        self._call = call

    def can(self, call: Call) -> bool:
        return True

    def ask(self, call: Call) -> Told:
        name, first = _TOOLS[call.kind]
        body, is_error = self._call(name, {first: call.what} | {_NAMES[key]: call.options[key] for key in call.options})
        if "argument" in body:
            assert (is_error, body["status"]) == (True, 400)
            return Told(_BAD, {})
        if "error" in body:
            assert is_error != ("missing" in body)
            outcome = "missing" if "missing" in body else "refused"
            advice = advice_for(getattr(errors, body["errorType"]))
            assert body["action"].endswith(advice)
            return Told(outcome, {"message": body["error"], "hint": body["action"].removesuffix(advice).strip()})
        assert not is_error
        if call.kind == "append":
            return Told("found", body)
        if call.kind == "search":
            return _as_python(body)
        assert (body.pop("notice", None) is not None) == bool(body["text"])
        return Told("found" if body["lines"] else "nothing", body)


def tools_of(memory: Memory) -> Calls:
    """The tools called in this process."""
    tools = Toolset(memory_tools(memory))

    def call(name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        told = tools.call(name, arguments)
        assert told.is_error or json.loads(told.text) == told.details
        return told.details, told.is_error

    return call


def found(answer: SearchAnswer) -> Told:
    return Told("found" if answer.results else "nothing", answer_to_json(answer))


def read(result: ReadResult) -> Told:
    return Told("found" if result.line_count else "nothing", read_to_json(result))


def appended(done: Appended) -> Told:
    return Told("found", appended_to_json(done))


def refused(error: RecallError) -> Told:
    if isinstance(error, QueryError | PathRefused | NothingToWrite):
        return Told(_BAD, {})
    assert isinstance(error, ReadError | WriteError)
    body = {"message": str(error), "hint": error.hint}
    return Told("missing" if isinstance(error, FileMissing) else "refused", body)


def _of_command(code: int, body: dict[str, Any]) -> Told:
    error = body["error"]
    if error["type"] == "TranscriptRefused":
        assert error["hint"].endswith(SHOW_SESSION)
        error["hint"] = error["hint"].removesuffix(SHOW_SESSION).strip()
    outcome = _OUTCOMES.get(error.pop("type"), "refused")
    return Told(outcome, {} if outcome == _BAD else error)


def _as_python(body: dict[str, Any]) -> Told:
    """The answer to a search without what only models are told."""
    assert {"citations", "corpus"} <= body.keys()
    del body["citations"], body["corpus"]
    assert body.pop("truncated", None) is None
    assert ("notice" in body) == bool(body["results"])
    body.pop("notice", None)
    if advice := ADVICE_BY_REASON[body.get("reason", "")]:
        assert body["action"].endswith(advice)
        body["action"] = body["action"].removesuffix(advice).strip()
    if body["results"] and body["confidence"] == "low":
        assert body.pop("action") == LOW_CONFIDENCE_ADVICE
    if body["provider"] == "none":
        del body["provider"]
    for result in body["results"]:
        snippet, _, source = result["snippet"].rpartition("\n\nSource: ")
        assert source == result["citation"]
        result["snippet"] = snippet
    return Told("found" if body["results"] else "nothing", body)


def level(call: Call, told: Told) -> Told:
    """An answer as those of all doors can be: snippets without blanks around them, a blank path no argument."""
    if call.kind == "get" and isinstance(call.what, str) and not call.what.strip() and told.outcome == "refused":
        return Told(_BAD, {})
    results = [result | {"snippet": result["snippet"].strip()} for result in told.body.get("results", [])]
    return told._replace(body=told.body | {"results": results}) if results else told
