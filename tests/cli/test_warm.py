"""A process with an open memory answers the commands of others, and none of them depends on it."""

import json
import os
import pty
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from mdrecall import Memory
from mdrecall.cli import start, warm_server
from mdrecall.cli.index import _wait
from mdrecall.cli.main import answer
from mdrecall.cli.start import ask, find_pipe_folder, name_pipe
from mdrecall.cli.warm_server import WarmDoor
from tests.cli.conftest import Run, own_env
from tests.conftest import Workspace
from tests.doors.doors import GREETING, Pipes, ask_warm, connect, list_pipes, listening, stranger
from tests.doors.mcp import McpServer
from tests.processes import PATIENCE_S, until

PACKED = start._pack_request(["get", "MEMORY.md"], {}, "/")
NOTES = {
    "MEMORY.md": "# Ana\n\nAna prefers green tea, and Zürich in May.\n",
    "memory/2026-02-10.md": "# Deploy\n\nThe deploy of DEC-0054 failed: the disk was full. 深色模式\n",
    "memory/people/priya.md": "Priya drinks coffee, never tea.\n",
}
#: Search, get and note are compared in tests/test_four_doors.py as well.
COMMANDS = [
    ["search", "tea"],
    ["search", "--query", "who drinks tea", "--query", "coffee", "--json"],
    ["context", "--json", "--today", "2026-02-10"],
    ["status"],
]


@pytest.fixture
def notes(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    for name, text in NOTES.items():
        workspace.write(name, text)
    monkeypatch.chdir(workspace.path)
    return workspace


@contextmanager
def warm_process(notes: Workspace, *arguments: str) -> "Iterator[subprocess.Popen[bytes]]":
    """``mdrecall warm`` in a process of its own, once it listens."""
    command = [sys.executable, "-m", "mdrecall", "warm", *arguments]
    env = own_env(notes)
    process = subprocess.Popen(command, cwd=notes.path, env=env, stderr=subprocess.PIPE)
    try:
        assert process.stderr
        process.stderr.readline()
        assert until(lambda: ask_warm(["get", "MEMORY.md"], env) is not None)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def open_door(notes: Workspace) -> Iterator[WarmDoor]:
    with Memory.open(env=notes.env) as memory:
        # While the encoder is at work, two answers in a row may differ.
        memory.sync(waits_for_encoder=True)
        with listening(memory, notes.env) as door:
            yield door


def test_closing_ends_the_listener_also_if_its_pipe_is_gone(notes: Workspace) -> None:
    with Memory.open(env=notes.env) as memory, listening(memory, notes.env):
        for pipe in Path(find_pipe_folder(notes.env)).glob("*.pipe"):
            pipe.unlink()
    assert all(thread.name != "mdrecall-warm" for thread in threading.enumerate())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_warm_answer_is_the_cold_one_byte_for_byte(
    command: list[str], open_door: WarmDoor, notes: Workspace, run_process: Run
) -> None:
    warm = ask_warm(command, notes.env)
    assert warm is not None
    assert warm == run_process(*command, "--no-warm")


@pytest.mark.parametrize(
    "command",
    [
        ["search", ""],
        ["search", "tea", "--nonsense"],
        ["search", "tea", "--no-w"],
        ["search", "tea", "--workspace", "nowhere"],
        ["search", "tea", "--workspace", ".", "--workspace", "same=."],
        ["search", "tea", "--all-agents"],
        ["get", "memory/nothing.md"],
        ["status", "--deep"],
        ["note", "--", "-"],
        ["index"],
        ["reset", "--yes"],
        [],
    ],
    ids=" ".join,
)
def test_an_error_and_all_that_concerns_the_process_is_left_to_the_command(
    command: list[str], open_door: WarmDoor, notes: Workspace
) -> None:
    assert ask_warm(command, notes.env) is None


def test_a_command_with_other_settings_or_for_another_folder_is_declined(
    open_door: WarmDoor, notes: Workspace, tmp_path: Path
) -> None:
    Path(notes.path, "other.json").write_text('{"memorySearch": {"query": {"maxResults": 1}}}')
    (tmp_path / "other").mkdir()
    (tmp_path / "other/MEMORY.md").write_text("Other notes.\n")
    for other in ({"HOME": "/elsewhere"}, {"TZ": "Asia/Tokyo"}, {"MDRECALL_CONFIG": "other.json"}):
        assert ask_warm(["search", "tea"], {**notes.env, **other}) is None, other
    for options in (["--config", "other.json"], ["--workspace", str(tmp_path / "other")]):
        assert ask_warm(["search", "tea", *options], notes.env) is None, options
    assert ask_warm(["search", "tea", "--workspace", str(notes.path)], {**notes.env, "EDITOR": "ed"}) is not None


def test_settings_that_switch_it_off_open_no_pipe(notes: Workspace, run_process: Run) -> None:
    config = Path(notes.path, "off.json")
    config.write_text('{"mdrecall": {"warm": {"enabled": false}}}')
    with Memory.open(config=config, env=notes.env) as memory, closing(WarmDoor(memory, notes.env, answer)) as door:
        door.open()
    assert list_pipes(notes.env) == []
    refused = run_process("warm", "--config", str(config))
    assert refused.code == 2
    assert refused.err.splitlines()[-2:] == [
        "mdrecall: Warm mode is off for this memory.",
        "          Set mdrecall.warm.enabled to true, and memory.backend to builtin.",
    ]


def test_a_pipe_is_private_and_goes_with_its_process(notes: Workspace) -> None:
    folder = find_pipe_folder(notes.env)
    with Memory.open(env=notes.env) as memory, listening(memory, notes.env):
        (name,) = (name for name in os.listdir(folder) if name.endswith(".pipe"))
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600
    assert os.listdir(folder) == []


def test_the_process_is_named_by_status_and_to_a_second_one(open_door: WarmDoor, run_process: Run) -> None:
    assert f"Warm:        process {os.getpid()} answers" in run_process("status").out
    assert run_process("status", "--json").json[0]["warm"]["pid"] == os.getpid()
    refused = run_process("warm")
    assert (refused.code, f"process {os.getpid()}" in refused.err) == (2, True)


def test_a_killed_process_leaves_a_pipe_that_nobody_waits_for(notes: Workspace) -> None:
    with warm_process(notes) as process:
        process.kill()
        process.wait()
    assert any(name.endswith(".pipe") for name in list_pipes(notes.env))
    assert ask_warm(["get", "MEMORY.md"], notes.env) is None
    with Memory.open(env=notes.env) as memory, listening(memory, notes.env):
        assert until(lambda: ask_warm(["get", "MEMORY.md"], notes.env) is not None)


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has another folder for the state of programs")
@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"MDRECALL_STATE_DIR": "/s", "HOME": "/h", "XDG_STATE_HOME": "/x"}, "/s/warm"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/x"}, "/x/mdrecall/warm"),
        ({"HOME": "/h", "XDG_STATE_HOME": "x"}, "/h/.local/state/mdrecall/warm"),
        ({"HOME": "/h"}, "/h/.local/state/mdrecall/warm"),
        ({"HOME": "/h", "OPENCLAW_HOME": "/o"}, "/o/.local/state/mdrecall/warm"),
    ],
)
def test_pipes_are_in_the_state_folder(env: dict[str, str], folder: str) -> None:
    assert find_pipe_folder(env) == folder


def test_of_many_processes_the_one_of_the_workspace_is_asked_first_and_few_of_the_others(
    notes: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = find_pipe_folder(notes.env)
    os.makedirs(folder, mode=0o700)
    # Neither is the first one in the order of names.
    here, there = sorted(("/" + letter * 3 for letter in "abcdef"), key=lambda path: name_pipe(path, ""))[-2:]
    names = [name_pipe(place, "index") for place in ("/1", "/2", "/3", here, there)]
    for name in names:
        Path(folder, name).touch()
    asked: list[str] = []
    monkeypatch.setattr(start, "_ask_one", lambda folder, name, *_: asked.append(name))
    monkeypatch.setattr(os, "getcwd", lambda: here)
    assert start.ask(["search", "x"], notes.env) is None
    assert len(asked) == 3
    assert asked[0] == names[3]
    for named in (["--workspace", there], ["--workspace", there, "x"]):
        asked.clear()
        start.ask(["search", *named], notes.env)
        assert asked[0] == names[4]


@pytest.mark.parametrize("spoil", ["open", "link", "file"])
def test_a_folder_that_is_not_private_is_not_used(
    spoil: str, notes: Workspace, tmp_path: Path, run_process: Run
) -> None:
    folder = Path(find_pipe_folder(notes.env))
    folder.parent.mkdir(parents=True, exist_ok=True)
    if spoil == "file":
        folder.write_text("")
    elif spoil == "link":
        (tmp_path / "private").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "private")
    else:
        folder.mkdir()
        folder.chmod(0o755)
    with Memory.open(env=notes.env) as memory, closing(WarmDoor(memory, notes.env, answer)) as door:
        door.open()
        time.sleep(0.2)
        assert not folder.is_dir() or os.listdir(folder) == []
        assert ask_warm(["get", "MEMORY.md"], notes.env) is None
    refused = run_process("warm")
    assert refused.code == 2
    assert f"mdrecall: Cannot listen in {folder}: " in refused.err
    assert "Answering commands" not in refused.err
    assert "MDRECALL_STATE_DIR" in refused.err


@pytest.mark.parametrize("spoil", ["open to others", "a file", "a link"])
def test_a_pipe_that_is_not_private_is_not_written_to(
    spoil: str, open_door: WarmDoor, notes: Workspace, tmp_path: Path
) -> None:
    folder = Path(find_pipe_folder(notes.env))
    (pipe,) = folder.glob("*.pipe")
    if spoil == "open to others":
        pipe.chmod(0o622)
    else:
        pipe.rename(tmp_path / "moved")
        pipe.symlink_to(tmp_path / "moved") if spoil == "a link" else pipe.touch(0o600)
    assert ask_warm(["get", "MEMORY.md"], notes.env) is None
    assert spoil != "a file" or pipe.read_bytes() == b""
    pipe.unlink()


def test_what_a_killed_command_has_left_is_removed(open_door: WarmDoor, notes: Workspace) -> None:
    connect(notes.env).close()
    assert until(lambda: not any(name.startswith(".") for name in list_pipes(notes.env)))


def greet_and_say(*replies: bytes) -> Callable[[Pipes], None]:
    """A program that greets as mdrecall does, reads the request, and then says this."""

    def serve(connection: Pipes) -> None:
        connection.read()
        connection.send(GREETING)
        for reply in replies:
            connection.read()
            connection.send(reply)

    return serve


def say(greeting: bytes) -> Callable[[Pipes], None]:
    return lambda connection: connection.send(greeting)


def read_only(connection: Pipes) -> None:
    connection.read()


STRANGERS: dict[str, Callable[[Pipes], None]] = {
    "closes at once": lambda connection: None,
    "does not greet in time": read_only,
    "another version": say(GREETING.replace(b"0", b"9")),
    "no mdrecall": say(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20),
    "dies after the greeting": greet_and_say(),
    "dies in its answer": greet_and_say(start._ANSWER + b"0000"),
    "no answer": greet_and_say(start._ANSWER + b'"}}\n'),
    "an error": greet_and_say(b'{"jsonrpc":"2.0","id":1,"error":{}}\n'),
}


@pytest.mark.parametrize("serve", STRANGERS.values(), ids=STRANGERS.keys())
def test_a_command_answers_whatever_listens(serve: Callable[[Pipes], None], notes: Workspace, run_process: Run) -> None:
    with stranger(notes.env, serve):
        assert ask(["get", "MEMORY.md"], notes.env) is None
        assert run_process("get", "MEMORY.md") == (0, NOTES["MEMORY.md"], "")


def test_a_process_on_a_busy_machine_may_take_its_time_to_greet(notes: Workspace, run_process: Run) -> None:
    def answer_slowly(connection: Pipes) -> None:
        time.sleep(0.3)
        greet_and_say(start._ANSWER + b"\0\0\0\0\0\x04warm".hex().encode() + b'"}}\n')(connection)

    with stranger(notes.env, answer_slowly):
        assert run_process("get", "MEMORY.md") == (0, "warm", "")


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"x" * 2_000_000 + b"\n",
        PACKED[: len(PACKED) // 2],
        PACKED.replace(b'"arguments":["get",', b'"arguments":["index",'),
        PACKED.replace(b'"arguments":["get","MEMORY.md"]', b'"arguments":[]'),
        PACKED.replace(b"commands/run", b"tools/list"),
        PACKED.replace(b'"id":1', b'"id":[]'),
    ],
)
def test_garbage_is_declined_and_the_next_command_answered(
    request_: bytes, open_door: WarmDoor, notes: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_server, "_SILENCE_S", 0.2)
    with closing(connect(notes.env)) as connection:
        said = b""
        with suppress(OSError):
            connection.send(start._HELLO + request_)
        with suppress(OSError):
            while part := connection.read():
                said += part
    assert said.startswith(GREETING)
    for line in said.removeprefix(GREETING).splitlines():
        assert "error" in json.loads(line)
    assert ask_warm(["get", "MEMORY.md"], notes.env) is not None


def test_silent_clients_take_no_more_than_their_places(open_door: WarmDoor, notes: Workspace) -> None:
    silent = [connect(notes.env) for _ in range(warm_server._MAX_CLIENTS + 2)]
    try:
        threads = [thread for thread in threading.enumerate() if thread.name == "mdrecall-warm-answer"]
        assert len(threads) <= warm_server._MAX_CLIENTS
        # Each of them is left after a while, and the places are free again.
        assert until(lambda: ask_warm(["get", "MEMORY.md"], notes.env) is not None)
    finally:
        for connection in silent:
            connection.close()


def test_commands_that_ask_and_leave_take_no_more_threads_than_there_are_places(
    open_door: WarmDoor, notes: Workspace
) -> None:
    may_end = threading.Event()
    open_door._answer = lambda **params: b"\0" * may_end.wait(PATIENCE_S)  # type: ignore[method-assign]
    for _ in range(3 * warm_server._MAX_CLIENTS):
        with closing(connect(notes.env)) as connection, suppress(OSError):
            connection.send(start._HELLO + PACKED)
            # Its greeting: from here on the request is in the hands of a thread, or about to be.
            connection.read()
    try:
        working = [thread for thread in threading.enumerate() if thread.name == "mdrecall-warm-work"]
        assert 0 < len(working) <= warm_server._MAX_CLIENTS
    finally:
        may_end.set()


def test_a_client_that_does_not_read_is_left(
    open_door: WarmDoor, notes: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_server, "_SILENCE_S", 0.1)
    notes.write("memory/large.md", "tea and more tea\n" * 60_000)
    request = start._pack_request(["get", "memory/large.md", "--json"], notes.env, os.getcwd())
    with closing(connect(notes.env)) as connection:
        connection.send(start._HELLO + request)
        assert until(lambda: all(thread.name != "mdrecall-warm-answer" for thread in threading.enumerate()))
    assert ask_warm(["get", "MEMORY.md"], notes.env) is not None


def test_a_note_is_not_written_twice_when_the_answer_is_lost(notes: Workspace, run_process: Run) -> None:
    with Memory.open(env=notes.env) as memory, listening(memory, notes.env) as door:
        answer = door._answer

        def lose(**params: list[str]) -> bytes:
            answer(**params)
            raise OSError("The connection is lost.")

        door._answer = lose  # type: ignore[method-assign,assignment]
        assert ask_warm(["note", "Ben likes rye bread", "--file", "food"], notes.env) is None
    ran = run_process("note", "Ben likes rye bread", "--file", "food")
    assert ran.code == 0
    assert Path(notes.path, "memory/food.md").read_text() == "Ben likes rye bread\n"


def test_what_a_command_writes_is_found_at_once(open_door: WarmDoor, notes: Workspace) -> None:
    for number in range(5):
        # JSON escapes some of it.
        text = f'word{number} was "said"\n\t\\ \x1f\x7f text\u2028 👩'
        assert ask_warm(["note", text, "--file", f"words-{number}"], notes.env)
        told = ask_warm(["search", f"word{number}"], notes.env)
        assert told is not None
        assert f"memory/words-{number}.md" in told[1]
        assert Path(notes.path, f"memory/words-{number}.md").read_text().rstrip("\n") == text


def test_output_that_nobody_reads_ends_as_without_it(open_door: WarmDoor, notes: Workspace) -> None:
    command = [sys.executable, "-m", "mdrecall", "get", "MEMORY.md"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, env=own_env(notes), stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=own_env(notes), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("more", [[], ["--no-warm"]], ids=("warm", "cold"))
def test_in_one_pipe_notices_follow_the_results(more: list[str], open_door: WarmDoor, notes: Workspace) -> None:
    notes.write("memory/ships.md", "The harbour sells tea, among other things.\n")
    env = own_env(notes)
    command = [sys.executable, "-m", "mdrecall", "search", "green tea", *more]
    said = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout
    assert b"weaker result" in said.splitlines()[-1]


def test_a_terminal_shows_the_same_colours_in_the_same_order(notes: Workspace) -> None:
    env = own_env(notes, TERM="xterm")

    def show(*more: str) -> bytes:
        main_end, terminal = pty.openpty()
        started = [sys.executable, "-m", "mdrecall", "search", "tea", *more]
        with subprocess.Popen(started, env=env, stdout=terminal, stderr=terminal) as process:
            os.close(terminal)
            shown = b""
            # The end of a terminal is an error.
            with suppress(OSError):
                while part := os.read(main_end, 1 << 16):
                    shown += part
            process.wait()
        os.close(main_end)
        return shown

    with Memory.open(env=env) as memory, listening(memory, env) as door:
        memory.sync()
        cold, began = show("--no-warm"), door.used_at
        assert show() == cold
        assert door.used_at > began
        assert b"\x1b[" in cold


def test_an_interrupted_command_ends_at_once(notes: Workspace) -> None:
    asked = threading.Event()

    def never_answer(connection: Pipes) -> None:
        greet_and_say(b"")(connection)
        asked.set()
        # The rest of a long request may come later.
        while connection.read():
            pass

    env = own_env(notes)
    with stranger(notes.env, never_answer):
        command = [sys.executable, "-m", "mdrecall", "search", "tea"]
        # A shell that runs the tests in the background lets them ignore the signal.
        heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=env, preexec_fn=heed, stdout=pipe, stderr=pipe) as process:
            assert asked.wait(PATIENCE_S)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (130, b"", b"Stopped.\n")


def test_a_warm_process_ends_on_a_signal_and_when_nobody_asks(notes: Workspace) -> None:
    with warm_process(notes) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert list_pipes(notes.env) == []
    reader, writer = os.pipe()
    with Memory.open(env=notes.env) as memory:
        _wait(WarmDoor(memory, notes.env, answer), 0.05, reader)
    assert not select.select([reader], [], [], 0)[0]
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("command", ["watch", "mcp"])
def test_a_process_that_has_the_memory_open_anyway_answers(command: str, notes: Workspace) -> None:
    if command == "mcp":
        with McpServer(str(notes.path), notes.env) as server:
            server.call("memory_search", {"query": "tea"})
            assert until(lambda: ask_warm(["get", "MEMORY.md"], notes.env) is not None)
        assert list_pipes(notes.env) == []
        return
    env = own_env(notes)
    start_it = [sys.executable, "-m", "mdrecall", command]
    with subprocess.Popen(start_it, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        said = process.stdout.readline()
        assert said
        try:
            assert until(lambda: ask_warm(["get", "MEMORY.md"], env) is not None)
            told = ask_warm(["search", "tea"], env)
            assert told
            assert "Ana" in told[1]
        finally:
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=PATIENCE_S)
    # What was printed for another process is not in its own output.
    assert "Ana" not in out
    assert list_pipes(notes.env) == []


def test_commands_are_answered_while_the_warm_process_is_killed_again_and_again(
    notes: Workspace, run_process: Run
) -> None:
    cold = run_process("search", "tea", "--no-warm")
    for seconds in (0.0, 0.06, 0.12):
        with warm_process(notes) as process:
            killer = threading.Timer(seconds, process.kill)
            killer.start()
            for _ in range(4):
                assert run_process("search", "tea") == cold
            killer.join()
