"""A place with a qmd of its own; tests that need the real one are skipped where it is not installed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mdrecall.qmd.process import Program, prepare
from tests.qmd.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def qmd(place: Place) -> Iterator[Program]:
    """The real qmd, with its configuration and its index in the place."""
    modules = Path(os.environ.get("MDRECALL_TEST_NPM", "")) / "node_modules"
    script = modules / "@tobilu" / "qmd" / "dist" / "cli" / "qmd.js"
    if not script.exists():
        pytest.skip("MDRECALL_TEST_NPM names no folder with qmd in it")
    environment = {"PATH": os.environ["PATH"], "HOME": str(place.home)}
    env = prepare(str(place.qmd_dir), environment, home=str(place.home))
    program = Program((str(modules / ".bin" / "node"), str(script)), env={**env, "QMD_SQLITE_BUSY_TIMEOUT": "300"})
    yield program
    program.close()
