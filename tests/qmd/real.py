"""The real qmd and mcporter, as installed from npm for the tests, and a qmd of its own for a test's notes."""

import os
import shutil
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest

from mdrecall.extras.qmd.process import Program, prepare

_CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0


class Tools(NamedTuple):
    """Where the programs are, and a PATH on which they find the Node that they need."""

    qmd: str
    mcporter: str
    path: str


def find_tools() -> Tools:
    """The programs that ``scripts/test`` installs; without them the test is skipped."""
    folder = Path(os.environ.get("MDRECALL_TEST_NPM") or _CHECKOUT / ".npm-test") / "node_modules" / ".bin"
    qmd, mcporter = folder / "qmd", folder / "mcporter"
    if not qmd.exists() or not mcporter.exists():
        pytest.skip("not installed: qmd and mcporter; sh scripts/test installs them")
    return Tools(str(qmd), str(mcporter), f"{folder}{os.pathsep}{os.environ['PATH']}")


class Agent:
    """A qmd of its own: folder, environment, and a mark by which its processes are known."""

    def __init__(self, tools: Tools, folder: Path, models: dict[str, str] | None = None) -> None:
        self.tools = tools
        self.mark = f"mdrecall-test-{uuid.uuid4().hex}"
        self.qmd_dir = folder / "qmd"
        home = folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        outer = {"PATH": tools.path, "HOME": str(home), "MDRECALL_TEST_MARK": self.mark, **(models or {})}
        self.env = prepare(str(self.qmd_dir), outer, home=str(home))
        self.notes = folder / "notes"
        self.notes.mkdir(exist_ok=True)

    def program(self, command: tuple[str, ...] = ()) -> Program:
        return Program(command or (self.tools.qmd,), env=self.env)

    def index(self, **notes: str) -> "Agent":
        """Write notes and have them indexed in the collection ``notes``."""
        for name, text in notes.items():
            (self.notes / f"{name}.md").write_text(text)
        program = self.program()
        program.run(["collection", "add", str(self.notes), "--name", "notes"], timeout_s=PATIENCE_S)
        return self


def node_of(tools: Tools) -> str:
    """The Node that runs the programs."""
    found = shutil.which("node", path=tools.path)
    assert found
    return found
