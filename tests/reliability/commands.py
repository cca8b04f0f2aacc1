"""Running ``mdrecall`` where something is forbidden or full, and what it may say then."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cli.conftest import Ran
from tests.conftest import Workspace

# To root, permissions mean nothing; without its capabilities it is a user like any other.
_POWERLESS = """
import ctypes, os, sys
PR_CAPBSET_DROP = 24
for capability in range(64):
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
#: Starts a command as somebody whom permissions bind.
ORDINARY = (sys.executable, "-c", _POWERLESS) if os.geteuid() == 0 else ()


def run(workspace: Workspace, *arguments: str, through: Sequence[str] = ORDINARY, **more_env: str) -> Ran:
    """Run ``mdrecall`` in a workspace; ``through`` is the command that starts it."""
    env = {**workspace.env, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1", **more_env}
    python = [sys.executable, "-W", "error", "-m", "mdrecall"]
    command = [*through, *python, *arguments, "--workspace", str(workspace.path)]
    done = subprocess.run(command, cwd=workspace.path, env=env, capture_output=True, text=True, timeout=60, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def answers(ran: Ran) -> set[str]:
    """The paths that a search with ``--json`` found; it must have found some, and nothing may have gone wrong."""
    assert ran.code == 0, ran
    assert "Traceback" not in ran.err, ran.err
    return {result["path"] for result in ran.json["results"]}


def says_of(ran: Ran, path: Path) -> str:
    """What a search with ``--json`` has to say of a path."""
    return " ".join(issue["problem"] for issue in ran.json.get("issues", ()) if issue["path"] == str(path))


def refuses(ran: Ran, path: Path) -> str:
    """The way out that a refused command tells, after one sentence that names the path."""
    assert ran.code == 2, ran
    told = re.fullmatch(r"mdrecall: (.+)\n {10}(.+)\n", ran.err)
    assert told, ran.err
    assert str(path) in told[1]
    return told[2]
