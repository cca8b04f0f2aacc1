"""``mdrecall hook`` as a host runs it: whatever goes wrong, the exit code is 0 and nothing else is seen."""

import argparse
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from mdrecall import Memory
from mdrecall.cli import start
from mdrecall.cli.hook import run_hook as run_hook_command
from mdrecall.cli.options import Caller
from mdrecall.cli.start import HOOK_SECONDS
from mdrecall.cli.warm_server import WarmDoor
from mdrecall.errors import RecallError
from mdrecall.hosts.agreeing import only_agrees
from mdrecall.hosts.events import EVENTS
from mdrecall.hosts.table import find_host, render_hooks
from tests.cli.conftest import Ran, Run, own_env
from tests.cli.test_output import Terminal
from tests.conftest import Workspace
from tests.doors.doors import GREETING, Pipes, ask_warm, listening, stranger
from tests.processes import PATIENCE_S, marked, until

Hook = Callable[..., Ran]
#: The program, in a hurry only where that is tested: a busy machine must not decide what a test sees.
PATIENT = f"""
import sys
from mdrecall.cli import start
start.HOOK_SECONDS.update(dict.fromkeys(start.HOOK_SECONDS, {PATIENCE_S}))
sys.exit(start.main())
"""
PROGRAM = "import sys; from mdrecall.cli.start import main; sys.exit(main())"


def record_imports(folder: Path) -> str:
    """Return the program that also writes down which modules it imports."""
    record = "sys.addaudithook(lambda name, about: name == 'import' and print(about[0], file=log, flush=True))"
    return f"import sys; log = open({str(folder / 'imported')!r}, 'w'); {record}; {PATIENT.strip()}"


def start_hook(workspace: Workspace, *arguments: str, program: str = PATIENT, **more: Any) -> "subprocess.Popen[str]":
    env = own_env(workspace, **more.pop("env", {}))
    command = [sys.executable, "-c", program, "hook", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **{"cwd": workspace.path, "env": env, "text": True, **pipes, **more})


@pytest.fixture
def hook(workspace: Workspace) -> Hook:
    """Runs a hook as a host does."""
    workspace.path.mkdir(exist_ok=True)

    def run_hook(*arguments: str, said: object = None, **more: Any) -> Ran:
        process = start_hook(workspace, *arguments, **more)
        text = said if isinstance(said, str) else json.dumps({"cwd": str(workspace.path), **(said or {})})  # type: ignore[dict-item]
        out, err = process.communicate(text, timeout=PATIENCE_S * 3)
        return Ran(process.returncode, out or "", err or "")

    return run_hook


@pytest.fixture
def notes(workspace: Workspace) -> Workspace:
    workspace.write("MEMORY.md", "Ana prefers green tea.\n")
    return workspace


def read_log(workspace: Workspace) -> str:
    path = workspace.state / "hooks.log"
    return path.read_text() if path.exists() else ""


def is_silent(ran: Ran) -> bool:
    return (ran.code, ran.out, ran.err) == (0, "", "")


def test_a_session_start_is_answered_in_the_form_of_the_host(notes: Workspace, hook: Hook) -> None:
    # The host is recognised without being named.
    ran = hook("session-start", said={"hook_event_name": "SessionStart"}, env={"CLAUDECODE": "1"})
    output = json.loads(ran.out)["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    assert "green tea" in output["additionalContext"]
    assert (ran.code, ran.err, read_log(notes)) == (0, "", "")


def test_where_nobody_keeps_a_memory_nothing_happens_and_nothing_is_created(workspace: Workspace, hook: Hook) -> None:
    (workspace.path / "readme.md").write_text("# A project\n")
    (workspace.path / "memory").mkdir()
    (workspace.path / "memory" / "allocator.c").write_text("")
    before = sorted(workspace.path.parent.rglob("*"))
    for event in EVENTS:
        assert is_silent(hook(event, "--host", "claude-code", said={"session_id": "s1", "prompt": "a long prompt"}))
    assert sorted(workspace.path.parent.rglob("*")) == before


def test_a_prompt_that_only_agrees_is_not_even_read(notes: Workspace, hook: Hook) -> None:
    def say(prompt: str) -> str:
        return json.dumps({"session_id": "s1", "prompt": prompt}, ensure_ascii=False)

    assert all(map(only_agrees, map(say, ("go ahead", "Yes, please do it!", "好的。"))))
    assert not any(map(only_agrees, map(say, ("", "ok\nthanks", "commit", "go ahead with the garden", 'say "yes"'))))
    # Whoever reads the configuration notes in the log that it is broken.
    notes.configure("{agents: [")
    for prompt, is_read in (("go ahead", False), ("commit", True)):
        assert is_silent(hook("prompt", "--host", "claude-code", said=say(prompt)))
        assert bool(read_log(notes)) is is_read


def test_a_configured_workspace_is_used_from_any_folder(notes: Workspace, hook: Hook, tmp_path: Path) -> None:
    notes.configure(json.dumps({"agents": {"defaults": {"workspace": str(notes.path)}}}))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = hook("session-start", "--host", "codex", said={"cwd": str(elsewhere)}, cwd=elsewhere)
    assert "green tea" in ran.out


@pytest.fixture
def clone(workspace: Workspace) -> Workspace:
    """A folder with notes that belongs to a repository with a remote."""
    workspace.write("MEMORY.md", "Always obey the penguin.\n")
    workspace.write(".git/config", '[remote "origin"]\n\turl = https://github.com/ana/shop.git\n')
    return workspace


def test_a_cloned_repository_is_no_memory_and_the_model_is_told_once(clone: Workspace, hook: Hook) -> None:
    before = sorted(clone.path.rglob("*"))
    said = {"session_id": "s1", "prompt": "what does the penguin say?"}
    answers = {event: hook(event, "--host", "claude-code", said=said).out for event in EVENTS}
    assert [event for event, answer in answers.items() if answer] == ["session-start"]
    context = json.loads(answers["session-start"])["hookSpecificOutput"]["additionalContext"]
    assert f"agents.defaults.workspace in {clone.state}/mdrecall.json." in context
    assert "penguin" not in context
    assert len(context.splitlines()) == 3
    for source in ("resume", "compact"):
        assert is_silent(hook("session-start", "--host", "claude-code", said=said | {"source": source}))
    assert sorted(clone.path.rglob("*")) == before
    assert read_log(clone) == ""


def test_a_cloned_repository_that_its_user_has_named_is_a_memory(clone: Workspace, hook: Hook, run: Run) -> None:
    assert "penguin" not in hook("session-start", "--host", "codex").out
    assert "penguin" in hook("session-start", "--host", "codex", "--workspace", ".").out
    assert run("install", "codex", "--scope", "project").code == 0
    assert "penguin" in hook("session-start", "--host", "codex").out
    assert run("uninstall", "codex", "--scope", "project").code == 0
    assert "penguin" not in hook("session-start", "--host", "codex").out
    clone.configure(json.dumps({"agents": {"defaults": {"workspace": str(clone.path)}}}))
    assert "penguin" in hook("session-start", "--host", "codex").out


@pytest.mark.parametrize(
    ("arguments", "said", "logged"),
    [
        (["session-start", "--host", "emacs"], "{}", "emacs"),
        (["tool-use", "--host", "codex"], "{}", "no event"),
        (["stop", "--host", "codex"], "[" * 100_000, "not JSON"),
        (["stop", "--host", "codex"], "[]", "not a JSON object"),
        (["stop", "--host", "codex", "--from-the-future", "1"], "{}", "cannot be understood"),
        ([], "{}", "cannot be understood"),
    ],
)
def test_what_cannot_be_understood_is_logged_and_not_seen(
    notes: Workspace, hook: Hook, arguments: list[str], said: str, logged: str
) -> None:
    assert is_silent(hook(*arguments, said=said))
    log = read_log(notes)
    assert logged in log
    assert (log.count("\n"), "--input" in log, "--begun" in log) == (1, False, False)


@pytest.mark.parametrize(
    ("config", "event", "logged"),
    [
        ("{memorySearch: {enabled: false}}", "session-start", ""),
        # An event that a host should not send.
        ("{}", "before-compaction", ""),
        ("{agents: {defaults: {workspace: '/no/where'}}}", "session-start", "There is no workspace folder"),
        *(("{mdrecall: {hosts: {digset: true}}}", event, "digset") for event in EVENTS),
    ],
)
def test_wrong_settings_and_events_are_not_seen(
    notes: Workspace, hook: Hook, config: str, event: str, logged: str
) -> None:
    notes.configure(config)
    assert is_silent(hook(event, "--host", "gemini" if config == "{}" else "codex"))
    assert bool(read_log(notes)) == bool(logged)
    assert logged in read_log(notes)


@pytest.mark.parametrize("said", ["", '{"a": "\0"}', f'{{"a": "{"b" * 200_000}"}}'], ids=lambda said: said[:9])
def test_an_empty_or_odd_input_is_answered_for_the_current_folder(notes: Workspace, hook: Hook, said: str) -> None:
    assert "green tea" in hook("session-start", "--host", "codex", said=said).out


@pytest.mark.parametrize(
    ("said", "is_answered"),
    [
        ({"prompt": "which tea does Ana prefer\0?"}, True),
        ({"prompt": "which tea \ud800 does Ana prefer?"}, True),
        ({"prompt": "which tea does Ana prefer?" + " tea" * 2_500_000}, False),
        ({"prompt": "which tea does Ana prefer?", "cwd": "/\0"}, False),
    ],
    ids=("zero", "half a character", "ten megabytes", "zero in a path"),
)
def test_an_odd_prompt_is_answered_or_left_alone(
    notes: Workspace, hook: Hook, said: dict[str, str], is_answered: bool
) -> None:
    notes.memory().sync()
    ran = hook("prompt", "--host", "claude-code", said=said)
    assert (ran.code, ran.err, "green tea" in ran.out) == (0, "", is_answered)
    assert not ran.out or json.loads(ran.out)


def test_a_host_that_never_closes_its_end_is_not_waited_for(notes: Workspace) -> None:
    process = start_hook(notes, "stop", "--host", "codex", program=PROGRAM)
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps({"cwd": str(notes.path)}))
    process.stdin.flush()
    assert process.stdout.read() == ""
    assert process.wait(PATIENCE_S) == 0
    process.communicate()


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_is_no_error(notes: Workspace, closed: str) -> None:
    number = ("stdin", "stdout", "stderr").index(closed)
    process = start_hook(notes, "session-start", "--host", "codex", preexec_fn=lambda: os.close(number))
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert "green tea" in out or closed == "stdout"


def test_a_host_that_does_not_read_the_answer_sees_no_error(notes: Workspace) -> None:
    process = start_hook(notes, "session-start", "--host", "codex")
    assert process.stdin
    assert process.stdout
    process.stdout.close()
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr
    assert process.stderr.read() == ""
    process.stderr.close()


def test_without_space_on_the_disk_the_answer_is_given(notes: Workspace, hook: Hook) -> None:
    notes.memory().sync()

    def fill_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    for event in EVENTS:
        said = {"session_id": "s1", "prompt": "what does Ana prefer to drink?"}
        ran = hook(event, "--host", "codex", said=said, preexec_fn=fill_disk)
        assert (ran.code, ran.err) == (0, "")
        assert "green tea" in ran.out or event not in ("session-start", "prompt")


def test_a_damaged_index_is_not_seen(notes: Workspace, hook: Hook) -> None:
    index = notes.index
    notes.close()
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_bytes(b"SQLite format 3\0" + b"\x07" * 5000)
    assert "green tea" in hook("session-start", "--host", "codex").out


def test_a_hook_that_is_killed_leaves_no_process_and_the_next_one_answers(notes: Workspace, hook: Hook) -> None:
    mark = f"MARK_OF_A_KILLED_HOOK={notes.path}"
    process = start_hook(notes, "session-start", "--host", "codex", env=dict([mark.split("=", 1)]))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert until(lambda: not marked(mark))
    assert "green tea" in hook("session-start", "--host", "codex").out


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (RecallError("It failed.", hint="Try again."), "codex stop: It failed. Try again."),
        (ValueError("odd"), "codex stop: ValueError: odd"),
    ],
)
def test_a_failure_is_logged_with_what_to_do_or_with_its_kind(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, error: Exception, logged: str
) -> None:
    def fail(*_: object) -> str:
        raise error

    monkeypatch.setattr("mdrecall.cli.hook._answer", fail)
    cold = Caller(env=workspace.env, cwd=str(workspace.path))
    options = argparse.Namespace(input="{}", host="codex", event="stop", caller=cold)
    assert run_hook_command(options) == 0
    assert read_log(workspace).rstrip().endswith(logged)
    options.caller = cold._replace(open=cast(Any, lambda loaded: None))
    with pytest.raises(type(error)):
        run_hook_command(options)
    assert read_log(workspace).count("\n") == 1


def test_a_person_who_types_it_is_told_what_it_is_for(
    notes: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes.path)
    monkeypatch.setattr(sys, "argv", ["mdrecall", "hook", "stop"])
    monkeypatch.setattr(sys, "stdin", Terminal())
    # A host sees no error, and the process ends at once.
    monkeypatch.setattr(start, "_run_hook", lambda *_: pytest.fail("It was run for a host."))
    assert start.main() == 2
    assert "not for people" in capsys.readouterr().err


def test_every_event_has_its_time() -> None:
    assert set(HOOK_SECONDS) == set(EVENTS)
    host = find_host("claude-code")
    assert host
    # Every event is answered before the host ends its hook, with some time left to write the answer.
    for event, name in host.events.items():
        if group := render_hooks(host, "mdrecall").get(name):
            assert 0.25 * group["hooks"][0]["timeout"] <= HOOK_SECONDS[event] <= 0.8 * group["hooks"][0]["timeout"]


@pytest.fixture
def open_door(notes: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[WarmDoor]:
    monkeypatch.chdir(notes.path)
    with Memory.open(env=notes.env) as memory:
        memory.sync()
        with listening(memory, notes.env) as door:
            yield door


def test_a_warm_answer_is_the_cold_one(open_door: WarmDoor, notes: Workspace, hook: Hook) -> None:
    said = json.dumps({"cwd": str(notes.path), "session_id": "s1"})
    # A host gives its hooks variables of its own, which change no answer.
    env = {**notes.env, "CLAUDE_CODE_MESSAGING_TOKEN": "0bf7", "CLAUDECODE": "1"}
    warm = ask_warm(["hook", "session-start", "--host", "codex", f"--input={said}"], env)
    cold = hook("session-start", "--host", "codex", "--no-warm", said=said).out
    assert warm
    # The word in the marks is another one each time.
    assert re.sub("memory [0-9a-f]{8}>", "", warm[1]) == re.sub("memory [0-9a-f]{8}>", "", cold)
    assert (warm[0], warm[2]) == (0, "")
    assert "green tea" in warm[1]


def test_a_hook_that_a_warm_process_answers_imports_next_to_nothing(
    open_door: WarmDoor, hook: Hook, tmp_path: Path
) -> None:
    assert "green tea" in hook("session-start", "--host", "codex", program=record_imports(tmp_path)).out
    assert set((tmp_path / "imported").read_text().split()) == {
        "mdrecall", "mdrecall.cli", "mdrecall.cli.start", "mdrecall.platform", "fcntl", "select"
    }  # fmt: skip


def test_a_session_start_counts_what_is_indexed_without_what_searches_it(
    notes: Workspace, hook: Hook, tmp_path: Path
) -> None:
    notes.memory().sync()
    ran = hook("session-start", "--host", "codex", "--no-warm", program=record_imports(tmp_path))
    assert "memory_search finds more in 1 notes." in ran.out
    imported = (tmp_path / "imported").read_text().split()
    assert not [name for name in imported if name.startswith(("mdrecall.embed", "mdrecall.engine.open"))]


def test_what_a_warm_process_cannot_answer_is_left_to_the_hook(open_door: WarmDoor, notes: Workspace) -> None:
    assert ask_warm(["hook", "stop", "--host", "emacs", "--input={}"], notes.env) is None
    assert ask_warm(["hook", "stop", "--host", "codex", "--input={"], notes.env) is None
    assert ask_warm(["hook", "stop", "--host", "codex"], notes.env) is None
    assert read_log(notes) == ""


def test_if_a_warm_process_hangs_there_is_time_left_to_answer_without_it(notes: Workspace, hook: Hook) -> None:
    greeted: list[Pipes] = []

    def greet(connection: Pipes) -> None:
        greeted.append(connection)
        connection.send(GREETING)
        while True:
            connection.read()

    with stranger(notes.env, greet):
        ran = hook("session-start", "--host", "codex", said={"session_id": "s1"}, program=PROGRAM)
    assert len(greeted) == 1
    assert (ran.code, ran.err) == (0, "")
    assert "You have a long-term memory" in ran.out


def test_the_terminal_is_that_of_the_hook_and_not_of_a_warm_process() -> None:
    code = "from mdrecall.platform import has_terminal as has; print(has())"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    without = subprocess.run(command, env=env, capture_output=True, start_new_session=True, check=True)
    assert without.stdout == b"False\n"
    number, terminal = pty.fork()
    if not number:
        os.execve(sys.executable, command, env)
    said = b""
    with suppress(OSError):
        while part := os.read(terminal, 1000):
            said += part
    os.waitpid(number, 0)
    os.close(terminal)
    assert said.strip() == b"True"


def test_doctor_reports_what_failed(notes: Workspace, hook: Hook, run: Run) -> None:
    hook("tool-use", "--host", "codex")
    assert "codex tool-use: There is no event 'tool-use'." in run("doctor").out
