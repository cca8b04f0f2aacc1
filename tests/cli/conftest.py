"""Running the command as a person or a program would: a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import pytest

from tests.conftest import Workspace


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run: TypeAlias = Callable[..., Ran]


@pytest.fixture
def run(workspace: Workspace) -> Run:
    """Runs ``mdrecall`` with arguments in the workspace, with a home of its own."""

    def ran(*arguments: str, **more_env: str) -> Ran:
        command = [sys.executable, "-W", "error", "-m", "mdrecall", *arguments]
        env = {**workspace.env, "PYTHONPATH": os.pathsep.join(sys.path), **more_env}
        done = subprocess.run(
            command, cwd=workspace.path, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return ran
