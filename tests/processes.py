"""Other processes, as tests need them, and waiting for what they do."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Nothing takes so long; it keeps a test that fails from never ending.
PATIENCE_S = 20.0

_HOLD = """
import sys
from mdrecall.locks import FileLock
lock = FileLock(sys.argv[1])
assert lock.acquire(10, sys.argv[2])
lock.record({"told": "this"})
print("held", flush=True)
sys.stdin.read()
lock.release()
"""


def python(code: str, *arguments: str) -> "subprocess.Popen[str]":
    """A Python process with mdrecall, connected by pipes."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    """End a process by closing its input; what it still had to say."""
    said, _ = process.communicate(timeout=PATIENCE_S)
    return said


@contextmanager
def holding(path: str, doing: str = "indexing") -> "Iterator[subprocess.Popen[str]]":
    """Another process that holds the lock at a path; it lets go at the end, if it was not killed before."""
    process = python(_HOLD, path, doing)
    try:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        finish(process)


def until(happened: Callable[[], bool]) -> bool:
    """Wait until something has happened; whether it has."""
    end = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def runs(number: int) -> bool:
    """Whether a process is there and not only waits for its parent to notice its end."""
    stat = Path(f"/proc/{number}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def marked(mark: str) -> list[int]:
    """The processes that have a text in their environment, whoever started them; a dead one has none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found
