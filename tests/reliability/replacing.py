"""Processes search while their index is replaced, deleted or restored under them; what they answered is counted."""

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from mdrecall.errors import RecallError
from mdrecall.memory import Memory
from tests.conftest import Workspace

NOTES = 40
QUERY = "walrus number"

# How often an answer may say that the index was busy or away for a moment, and still have told no lie.
_PAUSE_S = 0.1


class Outcome(NamedTuple):
    """What the searching processes said, all together."""

    answers: int
    empty: dict[str, int]
    """Empty answers by the reason they gave: there are always notes that hold the words."""
    errors: dict[str, int]
    """Errors that are no ``RecallError``."""
    refusals: dict[str, int]
    """Errors in words."""
    codes: list[int]
    """How the processes ended."""
    quarantined: int
    """How many indexes were taken for damaged."""

    @property
    def is_bad(self) -> bool:
        return bool(self.empty or self.errors or any(self.codes) or not self.answers)


def prepare(workspace: Workspace) -> Path:
    """Write notes and index them; keep a copy of the index that is behind the notes. Return the index."""
    for number in range(NOTES):
        workspace.write(f"memory/{number}.md", f"# Note {number}\n\n" + f"the walrus number {number} sleeps\n" * 20)
    with Memory.open(workspace.path, env=workspace.env) as memory:
        memory.sync()
        index = Path(memory.settings.index_path)
    shutil.copy(index, _copy(index))
    for number in range(0, NOTES, 4):
        workspace.write(f"memory/{number}.md", f"# Note {number}\n\n" + f"the walrus number {number} wakes up\n" * 20)
    return index


def replace_by_rename(index: Path) -> None:
    """Put the older copy into the place of the index, as rsync, Syncthing or a restore do."""
    shutil.copy(_copy(index), index.with_suffix(".tmp"))
    os.replace(index.with_suffix(".tmp"), index)


def delete(index: Path) -> None:
    """Delete the index alone."""
    index.unlink(missing_ok=True)


def restore_in_place(index: Path) -> None:
    """Copy the older index over the live one page by page, with SQLite's backup."""
    with closing(apsw.Connection(str(_copy(index)))) as old, closing(apsw.Connection(str(index))) as live:
        live.set_busy_timeout(10_000)
        with live.backup("main", old, "main") as copy:
            copy.step()


HARMS = {"replace": replace_by_rename, "delete": delete, "restore": restore_in_place}


def attack(base: Path, harm: str, *, times: int, seed: int, processes: int = 2, threads: int = 4) -> Outcome:
    """Let processes search while their index is harmed again and again, and return what they said."""
    base.mkdir(exist_ok=True)
    workspace, chance = Workspace(base), random.Random(seed)
    index = prepare(workspace)
    env = {**os.environ, **workspace.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tests.reliability.replacing", str(workspace.path), str(threads)]
    searching = [
        subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    for process in searching:
        assert process.stdout is not None
        process.stdout.readline()
    for _ in range(times):
        time.sleep(chance.random() * _PAUSE_S)
        if harm != "restore" or index.exists():
            HARMS[harm](index)
        if any(process.poll() is not None for process in searching):
            break
    told = [json.loads(process.communicate()[0] or "{}") for process in searching]
    empty, errors, refusals = (
        dict(sum((Counter(one.get(kind, {})) for one in told), Counter[str]()))
        for kind in ("empty", "errors", "refusals")
    )
    answers = sum(one.get("answers", 0) for one in told)
    codes = [process.returncode for process in searching]
    quarantined = len(list(index.parent.glob("*.corrupt-*")))
    return Outcome(answers, empty, errors, refusals, codes, quarantined)


def _copy(index: Path) -> Path:
    return index.parent.with_name("older.sqlite")


def _search_until_told(memory: Memory, threads: int) -> dict[str, object]:
    """Search with several threads until the standard input ends, and return what was answered."""
    empty, errors, refusals, answers = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    ended = threading.Event()

    def search() -> None:
        while not ended.is_set():
            try:
                answer = memory.search(QUERY)
                answers["all"] += 1
                if not answer.results and not answer.stale:
                    empty[f"{answer.reason} {answer.action}"] += 1
            except RecallError as error:
                refusals[f"{type(error).__name__}: {error}"] += 1
            except Exception as error:
                errors[f"{type(error).__name__}: {error}"] += 1

    working = [threading.Thread(target=search) for _ in range(threads)]
    for thread in working:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    ended.set()
    for thread in working:
        thread.join()
    return {"answers": answers["all"], "empty": empty, "errors": errors, "refusals": refusals}


def _main() -> None:
    with Memory.open(sys.argv[1], env=dict(os.environ)) as memory:
        told = _search_until_told(memory, int(sys.argv[2]))
    print(json.dumps(told))


if __name__ == "__main__":
    _main()
