"""How long an event loop is held up: ``python -m benchmarks.loop``.

A task ticks every millisecond while an ``AsyncMemory`` opens, builds its first index, searches and syncs in the same
process. For each phase the table has the longest delay of a tick. ``own`` is the longest delay in which this process
itself was computing, in all its threads; on a machine with other work to do, the rest is that work. For comparison, it
measures the same with nothing going on, and with a plain ``Memory`` called on the loop.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import SETTLE_S
from benchmarks.notes import write_notes

TICK_S = 0.001
COUNT = 200


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop", description=__doc__)
    parser.add_argument("--files", type=int, default=2_000, help="size of the workspace")
    parser.add_argument(
        "--switch-ms",
        type=float,
        help="how long a thread may run (sys.setswitchinterval)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    parser.add_argument("--run", choices=("async", "blocking"), help=argparse.SUPPRESS)
    parser.add_argument("--workspace", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        if options.switch_ms:
            sys.setswitchinterval(options.switch_ms / 1000)
        print(json.dumps(asyncio.run(_measure(options.workspace, options.run))))
        return 0
    tables = {way: _run_separately(way, options) for way in ("async", "blocking")}
    for way, title in (("async", "AsyncMemory"), ("blocking", "Memory called on the loop")):
        print(f"\n| {title}, {options.files:,} files | took | worst gap | own | 99 % below | median |")
        print("| --- | --- | --- | --- | --- | --- |")
        for row in tables[way]:
            gaps = " | ".join(f"{row[name]:.1f} ms" for name in ("worst", "own", "p99", "median"))
            print(f"| {row['what']} | {row['took']:.2f} s | {gaps} |")
    if options.json:
        options.json.write_text(json.dumps(tables, indent=2) + "\n")
    return 0


def _run_separately(way: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure one way in a process of its own, so that it shares no imports and caches with the other."""
    with tempfile.TemporaryDirectory(prefix="mdrecall-loop-") as scratch:
        write_notes(Path(scratch) / "workspace", options.files)
        env = {**os.environ, "MDRECALL_STATE_DIR": f"{scratch}/state", "HOME": f"{scratch}/home"}
        command = [sys.executable, "-m", "benchmarks.loop", "--run", way, "--workspace", f"{scratch}/workspace"]
        if options.switch_ms:
            command += ["--switch-ms", str(options.switch_ms)]
        time.sleep(SETTLE_S)
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows


async def _measure(workspace: Path, way: str) -> list[dict[str, Any]]:
    opened: list[Any] = []
    words = [
        path.read_text().split()[number % 40] for number, path in enumerate(sorted(workspace.rglob("*.md"))[:COUNT])
    ]

    async def call(name: str, *args: Any, **more: Any) -> None:
        done = getattr(opened[0], name)(*args, **more)
        if way == "async":
            await done

    async def open_memory() -> None:
        if way == "async":
            from mdrecall import AsyncMemory

            opened.append(await AsyncMemory.open(workspace))
        else:
            from mdrecall import Memory

            opened.append(Memory.open(workspace))

    async def search_all() -> None:
        for word in words:
            await call("search", word)
            await asyncio.sleep(0)

    async def search_at_once() -> None:
        for at in range(0, COUNT, 8):
            await asyncio.gather(*(call("search", word) for word in words[at : at + 8]))

    async def write_and_sync() -> None:
        for path in sorted(workspace.rglob("*.md"))[:COUNT]:
            path.write_text(path.read_text() + "\nand one more line\n")
            await asyncio.sleep(0)
        await call("sync")

    phases: list[tuple[str, Callable[[], Awaitable[None]]]] = [
        ("nothing", lambda: asyncio.sleep(3)),
        ("import and open", open_memory),
        ("first index", lambda: call("sync")),
        (f"{COUNT} searches, one by one", search_all),
        (f"{COUNT} searches, 8 at a time", search_at_once),
        (f"sync of {COUNT} changed files", write_and_sync),
        ("a whole new index", lambda: call("sync", force=True)),
        ("close", lambda: call("close")),
    ]
    return [await _measure_phase(what, act) for what, act in phases]


async def _measure_phase(what: str, act: Callable[[], Awaitable[None]]) -> dict[str, Any]:
    gaps: list[float] = []
    own: list[float] = []

    async def tick() -> None:
        last, worked = time.perf_counter(), time.process_time()
        while True:
            await asyncio.sleep(TICK_S)
            now, work = time.perf_counter(), time.process_time()
            gaps.append((now - last - TICK_S) * 1000)
            own.append(min(gaps[-1], (work - worked) * 1000))
            last, worked = now, work

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(TICK_S * 5)
    gaps.clear()
    own.clear()
    began = time.perf_counter()
    await act()
    took = time.perf_counter() - began
    await asyncio.sleep(TICK_S * 5)
    ticking.cancel()
    in_order = sorted(gaps)
    p99 = in_order[min(len(in_order) - 1, int(len(in_order) * 0.99))]
    median = statistics.median(gaps)
    return {"what": what, "took": took, "worst": in_order[-1], "own": max(own), "p99": p99, "median": median}


if __name__ == "__main__":
    sys.exit(main())
