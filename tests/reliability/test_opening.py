"""Opening and closing memories again and again in one process takes no more memory, files and threads in the end."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

# A memory that leaves its table of words behind takes 20 MB, one that leaves its cached words a kilobyte for each:
# 200 of them would take hundreds. What the allocator keeps for later was 8 MB.
MOST_GROWTH_MB = 30

# Prints the memory in kilobytes, the open files and the threads after the 100th and the 300th memory.
CODE = """
import os, sys, threading
from pathlib import Path
from mdrecall import Memory
folder = Path(sys.argv[1])
for number in range(1, 301):
    workspace = folder / str(number % 20)
    workspace.mkdir(exist_ok=True)
    (workspace / "note.md").write_text(f"Backup {number} runs at night. " * 300 + "数据库每天凌晨两点自动备份。")
    with Memory.open(workspace, env={"HOME": str(folder), "PATH": os.defpath}) as memory:
        assert memory.search("backup at night").results, number
    if number in (100, 300):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        files = len(os.listdir("/proc/self/fd"))
        print(pages * os.sysconf("SC_PAGE_SIZE") // 1024, files, threading.active_count())
"""


class Held(NamedTuple):
    """What a process holds."""

    kilobytes: int
    files: int
    threads: int


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of a process from /proc")
def test_memories_that_were_closed_leave_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    before, after = (Held(*map(int, line.split())) for line in shown)
    assert after.kilobytes - before.kilobytes < MOST_GROWTH_MB * 1024
    assert after.threads == before.threads
    assert after.files <= before.files + 1
