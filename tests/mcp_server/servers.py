"""Servers as clients meet them: in this process, or as a process of their own."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TextIO, cast

import anyio
import pytest
from mcp.server.stdio import stdio_server

from mdrecall.mcp_server.answers import Answers
from mdrecall.mcp_server.http import MemoryServer, build_server
from mdrecall.mcp_server.memories import Memories, Selection, ServedMemory, open_served, select_memories
from mdrecall.mcp_server.stdio import serve
from mdrecall.mcp_server.tools import STRUCTURED, MakeTools
from mdrecall.memory import Memory
from tests.conftest import Workspace
from tests.processes import PATIENCE_S

PROJECT = Path(__file__).parent.parent.parent

#: What a program sends in `_meta` to get an answer as an object.
AS_OBJECT: Any = {STRUCTURED: True}


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
        memories = Memories(select_memories(selection, self.env), self._open)
        self._built.append(build_server(memories, session_key, make_tools, read_only=read_only))
        return self._built[-1]

    def _open(self, place: ServedMemory) -> Memory:
        self.opened.append(place.name)
        return open_served(place)

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
            # One that is just being started is listed, but cannot be joined.
            while thread.ident is None:
                time.sleep(0.01)
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), thread.name


@pytest.fixture
def home(tmp_path: Path, no_thread_left: None) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


def start_on_pipes(answers: Answers) -> tuple[TextIO, TextIO]:
    """Serve on pipes, on a thread of this process; return what a client writes to and reads from."""
    (stdin, to_server), (from_server, stdout) = os.pipe(), os.pipe()

    def run() -> None:
        try:
            serve(answers, stdin, stdout)
        finally:
            os.close(stdin)
            os.close(stdout)

    threading.Thread(target=run, name="mdrecall-test", daemon=True).start()
    return open(to_server, "w", buffering=1, encoding="utf-8"), open(from_server, encoding="utf-8")


class _LoopWriter:
    """Writes on the loop, so that the file is never closed in the middle of it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    async def write(self, text: str) -> None:
        if not self._file.closed:
            self._file.write(text)

    async def flush(self) -> None:
        return


@asynccontextmanager
async def connect_pipes(answers: Answers) -> AsyncIterator[Any]:
    """The SDK's client talks over this to the server that mdrecall has on pipes."""
    writer, reader = start_on_pipes(answers)
    # The SDK's streams for a server serve a client as well.
    with reader:
        async with stdio_server(anyio.wrap_file(reader), cast(Any, _LoopWriter(writer))) as streams:
            try:
                yield streams
            finally:
                writer.close()


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
