"""Run a call again and again in children, each killed just before another change to the disk.

``python -m tests.life.killed CALL STATE WORKSPACE``: one line of JSON for each kill, with what it left in the two
folders, and after that what ``finish`` made of it. The folders are put back before each kill.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mdrecall import platform
from mdrecall.config.load import load
from mdrecall.extras.imports.readers import make_reader
from mdrecall.extras.imports.writer import Target, apply_import, plan_import
from mdrecall.life import backup
from mdrecall.life.supersede import add_replacement, list_conflicts
from mdrecall.memory import Memory

_CHANGES = ("open", "write", "fsync", "rename", "replace", "unlink", "link", "ftruncate", "pwrite", "mkdir")
#: Nothing changes the disk so often; it keeps a call that never ends from being tried for ever.
_MAX_KILLS = 400
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def kill_before(number: int) -> None:
    """Let this process be killed just before it changes the disk for the ``number``-th time."""
    left = [number]

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return count

    for module in (os, platform):
        for name in _CHANGES:
            if hasattr(module, name):
                setattr(module, name, wrap(getattr(module, name)))


def supersede(workspace: str) -> None:
    with Memory.open(workspace) as memory:
        add_replacement(memory, "- Maria moved to Lisbon\n- she likes it", "memory/old.md#L2", file="2026-11-16")


def finish_supersede(workspace: str) -> None:
    with Memory.open(workspace) as memory:
        list_conflicts(memory)


def export(workspace: str) -> None:
    loaded = load(workspace=workspace)
    backup.write_backup(os.path.join(workspace, "saved.zip"), loaded.settings, loaded.home, (), NOW, overwrite=True)


def restore(workspace: str) -> None:
    """Put back the archive beside the workspace."""
    with backup.open_backup(f"{workspace}.zip") as found:
        backup.restore(found, load(workspace=workspace).settings, overwrite=False, apply=True)


def import_exports(workspace: str) -> None:
    """Import the exports beside the workspace."""
    loaded = load(workspace=workspace)
    for source in ("chatgpt", "mem0"):
        read = make_reader(source, f"{workspace}.{source}.json", loaded.settings)
        target = Target(loaded.settings, loaded.home, source, f"import/{source}")
        assert apply_import(read, target, plan_import(read, target)[0]) == []


CALLS = {
    "supersede": (supersede, finish_supersede),
    "export": (export, export),
    "restore": (restore, restore),
    "import": (import_exports, import_exports),
}


def read_tree(folder: str) -> dict[str, str]:
    found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes().decode("latin-1") for path in found}


def main(name: str, state: str, workspace: str) -> None:
    call, finish = CALLS[name]
    saved = {folder: f"{folder}.saved" for folder in (state, workspace)}
    for folder, copy in saved.items():
        os.makedirs(folder, exist_ok=True)
        shutil.copytree(folder, copy)
    for number in range(_MAX_KILLS):
        for folder, copy in saved.items():
            shutil.rmtree(folder)
            shutil.copytree(copy, folder)
        child = os.fork()
        if not child:
            kill_before(number)
            call(workspace)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        left = {"state": read_tree(state), "workspace": read_tree(workspace)}
        finish(workspace)
        after = {"state": read_tree(state), "workspace": read_tree(workspace)}
        print(json.dumps({"killed": os.WIFSIGNALED(status), "left": left, "after": after}), flush=True)
        if os.WIFEXITED(status):
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
