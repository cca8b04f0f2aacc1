"""``mdrecall watch`` as a process: what it logs, how it ends, and what it leaves behind."""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.cli.conftest import Run, own_env
from tests.conftest import Workspace
from tests.processes import PATIENCE_S, until
from tests.reliability.content import files_beside

LIBC = ctypes.CDLL(None)
needs_tgkill = pytest.mark.skipif(
    not hasattr(LIBC, "tgkill"), reason="signals cannot be sent to one thread from outside"
)
AT_ONCE = "{memorySearch: {sync: {watchDebounceMs: 10}}}"


class Watcher:
    """A process that watches, and what it has said so far."""

    def __init__(self, workspace: Workspace, *arguments: str, stdout: int = subprocess.PIPE) -> None:
        command = [sys.executable, "-W", "error", "-m", "mdrecall", "watch", *arguments]
        self.process = subprocess.Popen(
            command, cwd=workspace.path, env=own_env(workspace), stdout=stdout, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line.rstrip("\n"))

    def said(self, part: str) -> bool:
        """Whether it says something with this in it, sooner or later."""
        return until(lambda: any(part in line for line in self.lines))

    def events(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """The events of a kind, when there are so many."""

        def found() -> list[dict[str, Any]]:
            return [event for event in map(json.loads, list(self.lines)) if event["event"] == kind]

        assert until(lambda: len(found()) >= count), self.lines
        return found()

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """End it with a signal; its exit code, and what it said on standard error."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """The same of one that has been told to end."""
        code = self.process.wait(PATIENCE_S)
        self._reading.join()
        with self.process:
            assert self.process.stderr
            return code, self.process.stderr.read()


Watch: TypeAlias = Callable[..., Watcher]


@pytest.fixture
def watch(workspace: Workspace) -> Iterator[Watch]:
    """Starts watchers in the workspace, which is indexed."""
    workspace.write("memory/a.md", "walrus")
    workspace.configure(AT_ONCE)
    memory = workspace.memory()
    memory.sync()
    memory.close()
    watchers: list[Watcher] = []

    def start(*arguments: str, stdout: int = subprocess.PIPE) -> Watcher:
        watchers.append(Watcher(workspace, *arguments, stdout=stdout))
        return watchers[-1]

    yield start
    for watcher in watchers:
        if watcher.process.returncode is None:
            watcher.end(signal.SIGKILL)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_what_happens_is_logged_with_the_time(workspace: Workspace, watch: Watch, run: Run) -> None:
    watcher = watch()
    assert watcher.said(": 2 folders, 1 file indexed as 1 chunk")
    assert re.fullmatch(r"\d\d:\d\d:\d\d  watching .*/workspace: 2 folders, .*", watcher.lines[0])
    write(workspace.path / "memory/b.md", "penguin")
    assert watcher.said("  added   memory/b.md")
    write(workspace.path / "memory/b.md", "a whale")
    assert watcher.said("  changed memory/b.md")
    write(workspace.path / "memory/new/c.md", "seal")
    assert watcher.said("  added   memory/new/c.md")
    assert watcher.said("workspace: 3 folders, ")
    (workspace.path / "memory/b.md").unlink()
    assert watcher.said("  removed memory/b.md")
    (record,) = run("status", "--json").json
    assert (record["status"]["files"], record["status"]["dirty"]) == (2, False)
    follower = record["status"]["custom"]["watcher"]
    assert (follower["running"], follower["pid"], follower["healthy"]) == (True, watcher.process.pid, True)
    assert follower["folders"] == 3
    assert all(re.match(r"\d\d:\d\d:\d\d  \S", line) for line in watcher.lines)
    assert watcher.end() == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("thread", ["main", pytest.param("other", marks=needs_tgkill)])
def test_a_signal_ends_it_well_whichever_thread_the_system_gives_it_to_and_nothing_is_left(
    workspace: Workspace, watch: Watch, number: int, thread: str
) -> None:
    watcher = watch()
    assert watcher.said("indexed")
    assert files_beside(workspace.index) != []
    pid = watcher.process.pid
    if thread == "main":
        watcher.process.send_signal(number)
    else:
        others = [int(each) for each in os.listdir(f"/proc/{pid}/task") if int(each) != pid]
        assert LIBC.tgkill(pid, others[0], number) == 0
    assert watcher.ended() == (0, "")
    assert files_beside(workspace.index) == []


def test_a_killed_one_keeps_nobody_from_watching(workspace: Workspace, watch: Watch, run: Run) -> None:
    first = watch()
    assert first.said("indexed")
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    assert workspace.index.name + ".watch" in files_beside(workspace.index)
    (record,) = run("status", "--json").json
    assert record["status"]["custom"]["watcher"] == {"running": False}
    second = watch()
    assert second.said("indexed")
    write(workspace.path / "memory/b.md", "penguin")
    assert second.said("memory/b.md")
    assert second.end() == (0, "")
    assert files_beside(workspace.index) == []


def test_in_json_each_event_is_an_object_on_a_line(workspace: Workspace, watch: Watch) -> None:
    watcher = watch("--json")
    (watching,) = watcher.events("watching")
    assert watching.keys() == {"time", "event", "folders"}
    assert watching["folders"] == 2
    write(workspace.path / "memory/b.md", "penguin")
    synced = watcher.events("synced")[0]
    assert synced.keys() == {
        "time", "event", "added", "changed", "removed", "unchanged", "left", "failed", "kept", "issues", "changes",
        "rebuilt",
        "unembedded", "unencoded",
    }  # fmt: skip
    assert synced["changes"] == [{"path": "memory/b.md", "kind": "added"}]
    assert (synced["added"], synced["unchanged"]) == (1, 1)
    assert watching["time"] <= synced["time"]
    assert watcher.end() == (0, "")


def test_a_second_one_is_told_who_watches_and_the_first_goes_on(workspace: Workspace, watch: Watch, run: Run) -> None:
    first = watch()
    assert first.said("indexed")
    ran = run("watch")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"mdrecall: The notes are already watched by process {first.process.pid}, ")
    assert "Traceback" not in ran.err
    error = run("watch", "--json").json["error"]
    assert (error["type"], str(first.process.pid) in error["message"]) == ("StoreBusy", True)
    write(workspace.path / "memory/b.md", "penguin")
    assert first.said("memory/b.md")
    assert first.end() == (0, "")


@pytest.fixture
def two_agents(workspace: Workspace, run: Run) -> list[str]:
    """The options for a configuration of two agents, whose notes are indexed."""
    for agent in ("one", "two"):
        write(workspace.home / agent / "memory/a.md", f"walrus of {agent}")
    config = workspace.home / "config.json5"
    config.write_text(
        "{agents: {defaults: {memorySearch: {sync: {watchDebounceMs: 10}}}, list: ["
        f"{{id: 'one', workspace: '{workspace.home}/one'}}, {{id: 'two', workspace: '{workspace.home}/two'}}]}}}}"
    )
    assert run("index", "--config", str(config)).code == 0
    return ["--config", str(config)]


def test_several_agents_are_watched_by_one_process(
    workspace: Workspace, watch: Watch, run: Run, two_agents: list[str]
) -> None:
    watcher = watch(*two_agents)
    for agent in ("one", "two"):
        assert watcher.said(f"  {agent}  watching ~/{agent}: ")
    for agent in ("two", "one"):
        write(workspace.home / agent / "memory/b.md", f"penguin of {agent}")
        assert watcher.said(f"  {agent}  added   memory/b.md")
    records = run("status", "--json", *two_agents).json
    followers = [record["status"]["custom"]["watcher"]["pid"] for record in records]
    assert followers == [watcher.process.pid] * 2
    assert watcher.end() == (0, "")
    indexes = [Path(record["status"]["dbPath"]) for record in records]
    assert [path.name for index in indexes for path in index.parent.glob(index.name + "?*")] == []
    in_json = watch("--json", *two_agents)
    assert {event["agentId"] for event in in_json.events("watching", 2)} == {"one", "two"}
    assert in_json.end() == (0, "")


def test_if_one_of_several_is_watched_already_the_exit_code_says_so(
    watch: Watch, run: Run, two_agents: list[str]
) -> None:
    first = watch(*two_agents, "--agent", "two")
    assert first.said("indexed")
    ran = run("watch", *two_agents)
    assert ran.code == 2
    assert f"process {first.process.pid}" in ran.err
    assert "Traceback" not in ran.err
    assert first.end() == (0, "")


def test_a_workspace_that_has_never_been_indexed_can_be_watched(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    watcher = Watcher(workspace)
    said = until(lambda: bool(watcher.lines) or workspace.state.exists())
    code, errors = watcher.end()
    assert "Traceback" not in errors
    assert (said, code, errors) == (True, 0, "")


def test_a_reader_that_has_seen_enough_ends_it(workspace: Workspace, watch: Watch) -> None:
    reader, writer = os.pipe()
    watcher = watch(stdout=writer)
    os.close(writer)
    with open(reader) as log:
        assert "watching" in log.readline()
    write(workspace.path / "memory/b.md", "penguin")
    assert "Traceback" not in watcher.ended()[1]
