"""Servers as clients meet them: in this process, or as a process of their own."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mdrecall.mcp_server.memories import Memories, MemoryOpener
from mdrecall.mcp_server.server import MemoryServer, build_server
from mdrecall.mcp_server.toolbox import MakeTools
from mdrecall.mcp_server.workspaces import Selection, ServedMemory, select_memories
from mdrecall.memory import Memory
from tests.conftest import Workspace
from tests.processes import PATIENCE_S

PROJECT = Path(__file__).parent.parent.parent


class Home:
    """Some workspaces with one home, and servers for them in this process."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._spaces: dict[str, Workspace] = {}
        self._built: list[MemoryServer] = []
        self.opened: list[str] = []

    def workspace(self, name: str = "notes") -> Workspace:
        """A folder of notes; the same one for the same name."""
        if name not in self._spaces:
            (self._base / name).mkdir()
            space = self._spaces[name] = Workspace(self._base / name)
            space.home, space.state = self._base / "home", self._base / "state"
            space.home.mkdir(exist_ok=True)
        return self._spaces[name]

    @property
    def env(self) -> dict[str, str]:
        return self.workspace().env

    def server(
        self,
        selection: Selection | None = None,
        session_key: str = "",
        make_tools: MakeTools | None = None,
        *,
        read_only: bool = False,
    ) -> MemoryServer:
        """A server for the selected memories; by default that of one workspace."""
        selection = selection or Selection(workspaces=(str(self.workspace().path),))
        self._opener = MemoryOpener(self.env)
        memories = Memories(select_memories(selection, self.env), self._open)
        self._built.append(build_server(memories, session_key, make_tools, read_only=read_only))
        return self._built[-1]

    def _open(self, place: ServedMemory) -> Memory:
        self.opened.append(place.name)
        return self._opener(place)

    def close(self) -> None:
        for built in self._built:
            built.close()


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Whatever a test does with a server, when that is closed its threads end."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("mdrecall"):
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), thread.name


@pytest.fixture
def home(tmp_path: Path, no_thread_left: None) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


def process_env(env: dict[str, str], **more: str) -> dict[str, str]:
    """An environment in which a process finds this very mdrecall."""
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


def mdrecall_command(*arguments: str) -> list[str]:
    """The command, with every warning an error."""
    return [sys.executable, "-W", "error", "-m", "mdrecall", *arguments]


def start_process(command: list[str], env: dict[str, str], cwd: Path | None = None) -> "subprocess.Popen[str]":
    """A server as a process, connected by pipes."""
    return subprocess.Popen(
        command, env=env, cwd=cwd, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.fixture(scope="session")
def inspector() -> list[str]:
    """The command of the MCP Inspector, if it was installed."""
    for place in (os.environ.get("MDRECALL_TEST_NPM"), PROJECT / ".npm-test"):
        bin_dir = Path(place) / "node_modules/.bin" if place else None
        if bin_dir and (bin_dir / "mcp-inspector").exists():
            node = bin_dir / "node" if (bin_dir / "node").exists() else shutil.which("node")
            if node:
                return [str(node), str((bin_dir / "mcp-inspector").resolve()), "--cli"]
    pytest.skip("The MCP Inspector is not installed: scripts/test does it, or name its folder in MDRECALL_TEST_NPM.")
