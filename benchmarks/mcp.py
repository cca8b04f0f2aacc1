"""What MCP costs: ``python -m benchmarks.mcp``.

One run on the same notes measures a search as a library call, the same search as ``memory_search`` of a running
``mdrecall mcp`` with the SDK's client, and an echo server written with the SDK alone, which shows what the protocol
itself costs: once with a short answer, once with one as long as that of a search. Then it measures how long a start
takes until ``initialize`` is answered, over a bare pipe, and until the first search is answered, and how much CPU time
that takes, because waiting depends on what else the machine does. The ratios are what to compare.

``--greeting`` measures only what a client waits for before it has the tools: from the start of the process until
``initialize`` and ``tools/list`` are answered, and the CPU time up to then, beside that of ``python -c pass``. It does
so once as the machine is, and once with a process on every core that only counts.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.scale import write_notes

SETTLE_S = 2.2
QUERIES = 200
ECHO = """
import anyio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def tools(ctx, params):
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "chars": {"type": "number"}}}
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=schema)])

async def call(ctx, params):
    text = params.arguments["text"] + "x" * params.arguments.get("chars", 0)
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content={"text": text})

server = Server("echo", on_list_tools=tools, on_call_tool=call)

async def main():
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())

anyio.run(main)
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcp", description=__doc__)
    parser.add_argument("--files", type=int, default=2_000, help="how many notes")
    parser.add_argument("--repeat", type=int, default=9, help="how often a server is started")
    parser.add_argument("--greeting", action="store_true", help="measure only the first two answers, also when busy")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    options = parser.parse_args(arguments)
    scratch = Path(tempfile.mkdtemp(prefix="mdrecall-mcp-"))
    try:
        how = measure_greeting if options.greeting else measure
        table = how(scratch, options.files, options.repeat)
    finally:
        shutil.rmtree(scratch)
    for name, value in table["ms"].items():
        print(f"  {name:44}{value:>10.1f} ms")
    for name, value in table["ratios"].items():
        print(f"  {name:44}{value:>10.2f} ×")
    print(f"  load average at the start {table['load'][0]}, at the end {table['load'][1]}")
    if options.json:
        options.json.write_text(json.dumps(table, indent=2) + "\n")
    return 0


def measure(scratch: Path, count: int, repeat: int) -> dict[str, Any]:
    load = [round(os.getloadavg()[0], 2)]
    words = write_notes(scratch / "workspace", count)
    env = {**os.environ, "MDRECALL_STATE_DIR": str(scratch / "state"), "HOME": str(scratch / "home")}
    queries = [" ".join(random.Random(seed).choices(words, k=4)) for seed in range(QUERIES)]
    serve = [sys.executable, "-m", "mdrecall", "mcp", "--workspace", str(scratch / "workspace")]
    time.sleep(SETTLE_S)
    library = searches(scratch / "workspace", env, queries)
    remote, chars = asyncio.run(measure_calls([*serve], env, "memory_search", lambda query: {"query": query}, queries))
    echo = [sys.executable, "-c", ECHO]
    short, _ = asyncio.run(measure_calls(echo, env, "echo", lambda query: {"text": query}, queries))
    long, _ = asyncio.run(measure_calls(echo, env, "echo", lambda query: {"text": query, "chars": chars}, queries))
    starts = [start(serve, env, queries[0]) for _ in range(repeat)]
    greeted = [start(serve, env, "") for _ in range(repeat)]
    bare = [start(echo, env, "") for _ in range(repeat)]
    p50 = statistics.median(library), statistics.median(remote), statistics.median(short), statistics.median(long)
    hello, first, _ = (statistics.median(figures) for figures in zip(*starts, strict=True))
    load.append(round(os.getloadavg()[0], 2))
    return {
        "files": count,
        "load": load,
        "ms": {
            "library: memory.search p50": p50[0],
            "stdio: memory_search p50": p50[1],
            "stdio: memory_search p95": statistics.quantiles(remote, n=20)[-1],
            "stdio: the SDK's echo, short, p50": p50[2],
            "stdio: the SDK's echo, as long, p50": p50[3],
            "start until initialize is answered": hello,
            "start until the first search is answered": first,
            "start of the SDK's echo server": statistics.median(figures[0] for figures in bare),
            "CPU of a start, a greeting and an end": statistics.median(figures[2] for figures in greeted),
            "the same of the SDK's echo server": statistics.median(figures[2] for figures in bare),
        },
        "ratios": {
            "memory_search / (2 library calls + echo)": p50[1] / (2 * p50[0] + p50[2]),
            "memory_search / (library call + echo as long)": p50[1] / (p50[0] + p50[3]),
        },
    }


def measure_greeting(scratch: Path, count: int, repeat: int) -> dict[str, Any]:
    """Measure the first two answers as the machine is, and again with every core busy."""
    load = [round(os.getloadavg()[0], 2)]
    write_notes(scratch / "workspace", count)
    env = {**os.environ, "MDRECALL_STATE_DIR": str(scratch / "state"), "HOME": str(scratch / "home")}
    serve = [sys.executable, "-m", "mdrecall", "mcp", "--workspace", str(scratch / "workspace")]
    table: dict[str, dict[str, float]] = {"ms": {}, "ratios": {}}
    for name, counters in (("", 0), (", every core busy", os.cpu_count() or 1)):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(counters)]
        try:
            greetings = [greet(serve, env) for _ in range(repeat)]
            nothing = [greet([sys.executable, "-c", "pass"], env) for _ in range(repeat)]
        finally:
            for process in busy:
                process.kill()
                process.wait()
        waited, used = (statistics.median(figures) for figures in zip(*greetings, strict=True))
        waited_for_nothing, used_by_nothing = (statistics.median(figures) for figures in zip(*nothing, strict=True))
        table["ms"] |= {
            f"start until tools/list is answered{name}": waited,
            f"CPU up to then{name}": used,
            f"python -c pass{name}": waited_for_nothing,
            f"CPU of python -c pass{name}": used_by_nothing,
        }
        table["ratios"][f"CPU of the greeting / python -c pass{name}"] = used / used_by_nothing
    load.append(round(os.getloadavg()[0], 2))
    return {"files": count, "load": load, **table}


def greet(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Return the milliseconds until a server has answered twice, or has ended, and those of CPU time up to then."""
    used_before, began = used_s(), time.perf_counter()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=env, text=True, **pipes) as server:  # type: ignore[call-overload]
        with suppress(BrokenPipeError):
            send(server, {"id": 1, "method": "initialize", "params": HELLO})
            send(server, {"id": 2, "method": "tools/list"})
        server.stdout.readline()
        server.stdout.readline()
        took = (time.perf_counter() - began) * 1000
        server.kill()
        server.wait()
        with suppress(BrokenPipeError):
            server.stdin.close()
    return took, (used_s() - used_before) * 1000


def searches(workspace: Path, env: dict[str, str], queries: list[str]) -> list[float]:
    """Return how long each search takes in this process, with files watched as by a server."""
    from mdrecall.memory import Memory

    with Memory.open(workspace, env=env) as memory:
        memory.sync()
        time.sleep(SETTLE_S)
        memory.sync()
        memory.watch()
        took = []
        for query in queries:
            began = time.perf_counter()
            memory.search(query)
            took.append((time.perf_counter() - began) * 1000)
    return took[10:]


async def measure_calls(
    command: list[str], env: dict[str, str], tool: str, arguments: Callable[[str], dict[str, Any]], queries: list[str]
) -> tuple[list[float], int]:
    """Return how long each call of a tool takes with the SDK's client, and the median length of the answers."""
    from mcp import Client, StdioServerParameters, stdio_client

    took, chars = [], []
    async with Client(stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=env))) as client:
        for query in queries:
            began = time.perf_counter()
            answer = await client.call_tool(tool, arguments(query))
            took.append((time.perf_counter() - began) * 1000)
            chars.append(len(answer.content[0].text))  # type: ignore[union-attr]
    return took[10:], int(statistics.median(chars))


def start(command: list[str], env: dict[str, str], query: str) -> tuple[float, float, float]:
    """Return the milliseconds from start to first answer, from start to first search answer, and of CPU time."""
    used_before, began = used_s(), time.perf_counter()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=env, text=True, **pipes) as server:  # type: ignore[call-overload]
        send(server, {"id": 1, "method": "initialize", "params": HELLO})
        server.stdout.readline()
        hello = first = (time.perf_counter() - began) * 1000
        if query:
            send(server, {"method": "notifications/initialized"})
            call = {"name": "memory_search", "arguments": {"query": query}}
            send(server, {"id": 2, "method": "tools/call", "params": call})
            server.stdout.readline()
            first = (time.perf_counter() - began) * 1000
        server.stdin.close()
    return hello, first, (used_s() - used_before) * 1000


def used_s() -> float:
    """Return the CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def send(server: "subprocess.Popen[str]", message: dict[str, Any]) -> None:
    assert server.stdin
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


if __name__ == "__main__":
    sys.exit(main())
