"""Running a command as a person or a program would: in this process, which takes a tenth of the time, or in its own."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

import pytest

from mdrecall.cli.main import main
from tests.conftest import Workspace, environment


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run: TypeAlias = Callable[..., Ran]

#: Python reads these when it starts, or once only.
_OF_THE_PROCESS = ("PYTHON", "LANG", "LC_", "TMPDIR")


@pytest.fixture
def run(workspace: Workspace) -> Run:
    """Runs ``mdrecall`` with arguments in the workspace, with a home of its own, as ``main`` does."""

    def ran(*arguments: str, stdin: bytes = b"", **more_env: str) -> Ran:
        # The log, too, is set up once in a process.
        if {"-v", "--verbose"} & set(arguments) or any(name.startswith(_OF_THE_PROCESS) for name in more_env):
            return run_in_own_process(workspace, *arguments, **more_env)
        return run_in_this_process(arguments, {**workspace.env, **more_env}, workspace.path, stdin)

    return ran


def run_in_this_process(arguments: Sequence[str], env: Mapping[str, str], folder: Path, stdin: bytes = b"") -> Ran:
    """Run ``main`` in a folder, with this environment and no other."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with (
        environment(env, folder),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            code = main(arguments)
        except SystemExit as left:
            code = int(str(left.code))
    return Ran(code, _text_of(out), _text_of(err))


@pytest.fixture
def run_process(workspace: Workspace) -> Run:
    """The same in a process of its own, which asks a process that listens first."""
    return lambda *arguments, **more_env: run_in_own_process(workspace, *arguments, **more_env)


def run_in_own_process(workspace: Workspace, *arguments: str, **more_env: str) -> Ran:
    return run_program(workspace, [sys.executable, "-W", "error", "-m", "mdrecall", *arguments], **more_env)


def run_program(workspace: Workspace, command: Sequence[str], **more_env: str) -> Ran:
    """Run any program in the workspace; a Python that it starts finds this mdrecall."""
    env = own_env(workspace, **more_env)
    done = subprocess.run(command, cwd=workspace.path, env=env, capture_output=True, text=True, timeout=60, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def own_env(workspace: Workspace, **more: str) -> dict[str, str]:
    """Return the environment of a process of its own, which finds this mdrecall."""
    return {**workspace.env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


def _text_of(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
