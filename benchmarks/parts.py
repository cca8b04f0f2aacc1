"""What some parts of mdrecall cost: ``python -m benchmarks.parts conversation``, ``provider`` or ``loop``.

``conversation`` makes transcripts of 1, 10 and 100 MB, indexes each from nothing, then lets it grow by about 1 KB at a
time and syncs: growth must cost the same whatever has been said before. ``provider`` embeds notes through a local
server that speaks OpenAI's wire format and takes 20 ms for each request, and compares the time that takes with the
time that the server was busy. ``loop`` ticks every millisecond while an ``AsyncMemory`` opens, builds its first index,
searches and syncs in the same process, and shows the longest delay of a tick in which this process itself was
computing; for comparison also with a plain ``Memory`` called on the loop.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.measure import Workspace, describe_machine, format_number, format_table, make_workspace, write_json
from benchmarks.notes import make_questions, make_sentences

LATENCY_S, DIMENSIONS = 0.02, 384
TICK_S, COUNT = 0.001, 200

Row = dict[str, str | float]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--notes", type=int, default=2_001, help="how many notes")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[1, 10, 100], help="sizes of the transcripts")
    parser.add_argument("--concurrency", type=int, default=1, help="mdrecall.remote.concurrency")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    parser.add_argument("--loop", nargs=2, metavar=("BASE", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.loop:
        print(json.dumps(asyncio.run(tick_through(Workspace(Path(options.loop[0])), options.notes, options.loop[1]))))
        return 0
    rows = list(PARTS[options.part](options))
    print(describe_machine())
    shown = [[cell if isinstance(cell, str) else format_number(cell) for cell in row.values()] for row in rows]
    print(format_table(list(rows[0]), shown))
    write_json(options.json, rows)
    return 0


def measure_conversation(options: argparse.Namespace) -> Iterator[Row]:
    """Yield what conversations of several sizes cost, at first and when they grow."""
    from mdrecall.memory import Memory

    for megabytes in options.megabytes:
        with tempfile.TemporaryDirectory(prefix="mdrecall-conversation-") as scratch:
            home = Path(scratch) / ".openclaw"
            (home / "agents" / "main" / "sessions").mkdir(parents=True)
            (home / "workspace" / "memory").mkdir(parents=True)
            search = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
            (home / "openclaw.json").write_text(json.dumps({"agents": {"defaults": {"memorySearch": search}}}))
            transcript = home / "agents" / "main" / "sessions" / "talk.jsonl"
            messages = make_messages()
            with transcript.open("w") as file:
                while file.tell() < megabytes * 1e6:
                    file.write("".join(islice(messages, 200)))
            with Memory.open(env={"HOME": scratch}) as memory:
                began = time.process_time()
                memory.sync()
                first, grown = time.process_time() - began, []
                for _ in range(50):
                    with transcript.open("a") as file:
                        file.write("".join(islice(messages, 3)))
                    began = time.process_time()
                    assert memory.sync().changed == 1
                    grown.append(1000 * (time.process_time() - began))
                chunks = memory.status().chunks
        yield {
            "MB": megabytes, "chunks": chunks, "first index, CPU s": first,
            "growth, CPU ms, median": statistics.median(grown), "most": max(grown),
        }  # fmt: skip


def make_messages() -> Iterator[str]:
    """Yield the lines of a transcript without end."""
    draw, sentences = random.Random(1), make_sentences(1)
    while True:
        text = " ".join(islice(sentences, draw.randint(1, 9)))
        message = {"role": draw.choice(["user", "assistant"]), "content": text}
        yield json.dumps({"type": "message", "timestamp": "2026-02-10T10:00:00Z", "message": message}) + "\n"


def measure_provider(options: argparse.Namespace) -> Iterator[Row]:
    """Yield what embedding every chunk through a server takes, in requests and on the clock."""
    from mdrecall.memory import Memory

    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve_slowly, args=(there,), daemon=True)
    server.start()
    with make_workspace(options.notes) as workspace:
        config = workspace.base / "config.json"
        search = {"provider": "openai", "remote": {"baseUrl": here.recv(), "apiKey": "sk-benchmark"}}
        settings = {"memorySearch": search, "mdrecall": {"remote": {"concurrency": options.concurrency}}}
        config.write_text(json.dumps(settings))
        with Memory.open(workspace.notes, config=config, env=workspace.env, overrides={"provider": "none"}) as memory:
            memory.sync()
        with Memory.open(workspace.notes, config=config, env=workspace.env) as memory:
            began, own = time.perf_counter(), time.process_time()
            assert not memory.sync().issues
            took, own = time.perf_counter() - began, time.process_time() - own
            chunks = memory.status().chunks
            assert memory.status().vector["chunks"] == chunks
    here.send("end")
    busy, requests, texts = here.recv()
    server.join()
    yield {
        "chunks": chunks, "texts": texts, "requests": requests, "embedding, s": took, "server busy, s": busy,
        "ratio": took / busy, "own CPU s": own,
    }  # fmt: skip


def serve_slowly(pipe: Connection) -> None:
    """Serve vectors until told to stop; then report the busy time, the requests and the texts."""
    from array import array

    from benchmarks.peers import serve_vectors

    draw = random.Random(1)
    vectors = [array("f", (draw.gauss(0, 0.05) for _ in range(DIMENSIONS))).tobytes() for _ in range(256)]
    seen = [0.0, 0, 0]

    def embed(texts: list[str]) -> list[bytes]:
        began = time.perf_counter()
        time.sleep(LATENCY_S)
        seen[1:] = seen[1] + 1, seen[2] + len(texts)
        seen[0] += time.perf_counter() - began
        return [vectors[number % len(vectors)] for number in range(len(texts))]

    with serve_vectors(embed) as address:
        pipe.send(address)
        pipe.recv()
        pipe.send(seen)


def measure_loop(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the delays of an event loop, each way in a process of its own."""
    for way in ("AsyncMemory", "Memory"):
        with make_workspace(options.notes) as workspace:
            again = [sys.executable, "-m", "benchmarks.parts", "loop", "--notes", str(options.notes), "--loop"]
            done = subprocess.run(
                [*again, str(workspace.base), way], env=workspace.env, capture_output=True, text=True, check=True
            )
        yield from json.loads(done.stdout)


async def tick_through(workspace: Workspace, notes: int, way: str) -> list[Row]:
    """Return the longest delays of a tick while a memory is used in each way."""
    import mdrecall

    opened: list[Any] = []
    questions = list(islice(make_questions(workspace.notes, notes, 1), COUNT))
    paths = sorted(workspace.notes.rglob("*.md"))[:COUNT]

    async def call(name: str, *args: Any, **more: Any) -> None:
        done = getattr(opened[0], name)(*args, **more)
        if way == "AsyncMemory":
            await done

    async def open_memory() -> None:
        memory = getattr(mdrecall, way).open(workspace.notes)
        opened.append(await memory if way == "AsyncMemory" else memory)

    async def search_all() -> None:
        for at in range(0, COUNT, 8):
            await asyncio.gather(*(call("search", question) for question in questions[at : at + 8]))

    async def write_and_sync() -> None:
        for path in paths:
            path.write_text(path.read_text() + "\nand one more line\n")
            await asyncio.sleep(0)
        await call("sync")

    phases: dict[str, Callable[[], Awaitable[None]]] = {
        "nothing": lambda: asyncio.sleep(3),
        "open": open_memory,
        "first index": lambda: call("sync"),
        f"{COUNT} searches, 8 at a time": search_all,
        f"{COUNT} changed files": write_and_sync,
        "a whole new index": lambda: call("sync", force=True),
        "close": lambda: call("close"),
    }
    return [{"": f"{way}: {phase}", **await _tick(act)} for phase, act in phases.items()]


async def _tick(act: Callable[[], Awaitable[None]]) -> dict[str, float]:
    """Return the longest and the usual delay of a tick, each at most what this process computed meanwhile."""
    delays: list[float] = []

    async def tick() -> None:
        while True:
            began, worked = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK_S)
            delay = time.perf_counter() - began - TICK_S
            delays.append(1000 * min(delay, time.process_time() - worked))

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(TICK_S * 5)
    began = time.process_time()
    await act()
    used = time.process_time() - began
    await asyncio.sleep(TICK_S * 5)
    ticking.cancel()
    return {"CPU s": used, "longest delay, ms": max(delays), "median": statistics.median(delays)}


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "conversation": measure_conversation,
    "provider": measure_provider,
    "loop": measure_loop,
}

if __name__ == "__main__":
    sys.exit(main())
