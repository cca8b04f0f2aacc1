"""mdrecall beside its peers, on the same notes and questions in one run: ``python -m benchmarks.peers``.

Compares mdrecall, qmd (searching by words, without its models), OpenClaw's memory (by words) and memsearch. Each is
found on the PATH or named with an option; ``--install DIR`` installs what is missing below a folder, where it is found
the next time. A program that is missing is skipped, and the reason is printed.

memsearch needs vectors, and its own model is a download of several hundred megabytes. So it gets those of mdrecall's
table from this process, at no cost to itself: its figures are those of its index and its search alone.

Time is CPU time of the program and all that it starts, because waiting depends on what else the machine does. Short
commands take turns, so that a busy machine slows all of them alike; their figures are medians. Memory is the peak of
the largest process, and disk is everything that a program keeps of the notes.
"""

import argparse
import contextlib
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peer_programs import choose_program, serve_vectors
from benchmarks.scale import write_notes

# What a first index may take; OpenClaw's needs more than a minute for 2,000 notes.
_MAX_INDEX_S = 1_800
_WARM_QUESTIONS = 40
#: Every program is asked for as many results: that is how many OpenClaw gives unless told otherwise.
_RESULTS = 6
_TICK = 1 / os.sysconf("SC_CLK_TCK")
_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}


class Peer(NamedTuple):
    """How one program is used from the command line, and as an MCP server if it is one."""

    name: str
    version: str
    env: Mapping[str, str]
    state: Path
    """The folder of all that it keeps of the notes."""
    first: Sequence[Sequence[str]]
    """The commands of a first index."""
    again: Sequence[str]
    """The command that looks for changes."""
    search: Callable[[str], Sequence[str]]
    server: Sequence[str] = ()
    call: Callable[[str], dict[str, Any]] = lambda query: {}
    """The parameters of ``tools/call`` for a search."""


class Cost(NamedTuple):
    """What a command took."""

    cpu_ms: float
    peak_mb: float
    output: str


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in PEERS:
        parser.add_argument(f"--{name}", default="", metavar="PATH", help="the program (default: on the PATH)")
    parser.add_argument("--only", nargs="*", choices=PEERS, default=list(PEERS), help="compare with these only")
    parser.add_argument("--install", type=Path, metavar="DIR", help="install missing programs here")
    parser.add_argument("--notes", type=int, default=2_001)
    parser.add_argument("--rounds", type=int, default=7, help="how often short commands are run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures as SVG")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mdrecall-peers-") as scratch, serve_vectors() as address:
        base = Path(scratch)
        write_notes(base / "workspace", options.notes)
        peers = [make_mdrecall(base)]
        for name in options.only:
            if program := choose_program(name, getattr(options, name), options.install, print):
                peers.append(PEERS[name](os.path.abspath(program), base, address))
        report = measure(peers, base / "workspace", options.rounds)
    print(format_table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.plot:
        options.plot.write_text(draw_bars(report))
    return 0


def make_mdrecall(base: Path) -> Peer:
    state = base / "mdrecall"
    program = [sys.executable, "-m", "mdrecall"]
    here = ["--workspace", str(base / "workspace")]
    return Peer(
        "mdrecall",
        version_of([*program, "--version"]),
        make_env(base, MDRECALL_STATE_DIR=str(state)),
        state,
        first=[[*program, "index", *here]],
        again=[*program, "index", *here],
        search=lambda query: [*program, "search", *here, "-n", str(_RESULTS), "--", query],
        server=[*program, "mcp", *here],
        call=lambda query: {"name": "memory_search", "arguments": {"query": query, "maxResults": _RESULTS}},
    )


def make_qmd(program: str, base: Path, vectors: str) -> Peer:
    state = base / "qmd"
    env = make_env(base, program, XDG_CACHE_HOME=str(state), XDG_CONFIG_HOME=str(state), QMD_TRUST_LOCAL_CONFIG="0")
    return Peer(
        "qmd",
        version_of([program, "--version"]),
        env,
        state,
        first=[[program, "collection", "add", str(base / "workspace"), "--name", "notes"]],
        again=[program, "update"],
        search=lambda query: [program, "search", query, "-n", str(_RESULTS)],
        server=[program, "mcp"],
        call=lambda query: {
            "name": "query",
            "arguments": {"searches": [{"type": "lex", "query": query}], "limit": _RESULTS, "rerank": False},
        },
    )


def make_openclaw(program: str, base: Path, vectors: str) -> Peer:
    state = base / "openclaw"
    state.mkdir()
    config = {
        "agents": {"defaults": {"workspace": str(base / "workspace")}},
        "memory": {"search": {"provider": "none"}},
    }
    (state / "openclaw.json").write_text(json.dumps(config))
    return Peer(
        "OpenClaw",
        version_of([program, "--version"]),
        make_env(base, program, OPENCLAW_STATE_DIR=str(state)),
        state,
        first=[[program, "memory", "index"]],
        again=[program, "memory", "index"],
        search=lambda query: [program, "memory", "search", query, "--json"],
    )


def make_memsearch(program: str, base: Path, vectors: str) -> Peer:
    state = base / "memsearch"
    state.mkdir()
    store = ["--milvus-uri", str(state / "milvus.db"), "--provider", "openai", "--model", "table"]
    store += ["--base-url", vectors, "--api-key", "none"]
    index = [program, "index", str(base / "workspace"), *store]
    return Peer(
        "memsearch",
        version_of([program, "--version"]),
        make_env(base, program),
        state,
        first=[index],
        again=index,
        search=lambda query: [program, "search", query, *store],
    )


#: The peers by the name of their program; each is made from its path, the scratch folder and where vectors are served.
PEERS: dict[str, Callable[[str, Path, str], Peer]] = {
    "qmd": make_qmd,
    "openclaw": make_openclaw,
    "memsearch": make_memsearch,
}


def make_env(base: Path, program: str = "", **more: str) -> dict[str, str]:
    home = base / "home"
    home.mkdir(exist_ok=True)
    path = os.pathsep.join(filter(None, (os.path.dirname(program), os.environ["PATH"])))
    return {"HOME": str(home), "PATH": path, "PYTHONPATH": os.getcwd(), "NO_COLOR": "1", **more}


def version_of(command: Sequence[str]) -> str:
    # Beside a program from npm lies the node that it needs.
    path = os.pathsep.join((os.path.dirname(command[0]), os.environ["PATH"]))
    env = {**os.environ, "PATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    return (done.stdout.strip().splitlines() or ["unknown"])[0]


def measure(peers: Sequence[Peer], workspace: Path, rounds: int) -> dict[str, Any]:
    """Measure all peers; one that fails is left out, with what it printed."""
    notes = sorted(workspace.rglob("*.md"))
    figures: dict[str, dict[str, float]] = {}
    failed: dict[str, str] = {}
    for peer in peers:
        try:
            figures[peer.name] = index_once(peer, workspace)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            failed[peer.name] = str(error)
    left = [peer for peer in peers if peer.name in figures]
    cold: dict[str, list[float]] = {peer.name: [] for peer in left}
    again: dict[str, list[float]] = {peer.name: [] for peer in left}
    bare = []
    for number in range(rounds):
        question = make_question(notes, number)
        bare.append(run([sys.executable, "-c", "pass"], os.environ, workspace).cpu_ms)
        for peer in left:
            cold[peer.name].append(run(peer.search(question), peer.env, workspace).cpu_ms)
            again[peer.name].append(run(peer.again, peer.env, workspace).cpu_ms)
    questions = [make_question(notes, 1_000 + number) for number in range(_WARM_QUESTIONS)]
    for peer in left:
        figures[peer.name]["nothing changed"] = statistics.median(again[peer.name])
        figures[peer.name]["cold search"] = statistics.median(cold[peer.name])
        if peer.server:
            figures[peer.name]["search over MCP"] = ask_server(peer, questions, workspace)
    return {
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "notes": len(notes),
        "text_bytes": text_size(workspace),
        "python -c pass": statistics.median(bare),
        "versions": {peer.name: peer.version for peer in peers},
        "figures": figures,
        "failed": failed,
    }


def index_once(peer: Peer, workspace: Path) -> dict[str, float]:
    costs = [run(command, peer.env, workspace) for command in peer.first]
    # Some keep their index below the home folder or beside the notes; what counts is that they can search.
    kept = sum(path.stat().st_size for path in peer.state.rglob("*") if path.is_file())
    return {
        "first index": sum(cost.cpu_ms for cost in costs),
        "peak memory while indexing": max(cost.peak_mb for cost in costs),
        "disk / text": kept / text_size(workspace),
    }


def run(command: Sequence[str], env: Mapping[str, str], folder: Path, most_s: float = _MAX_INDEX_S) -> Cost:
    """Run a command and return what it and its children took; raise ``RuntimeError`` if it fails."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=dict(env), cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        with end_after(process, most_s):
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} failed: {printed.strip()[-300:]}")
    return Cost(1000 * (used.ru_utime + used.ru_stime), used.ru_maxrss / 1024, printed)


@contextlib.contextmanager
def end_after(process: subprocess.Popen[Any], seconds: float) -> Iterator[None]:
    """Kill a process that takes longer."""
    import threading

    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def ask_server(peer: Peer, questions: Sequence[str], folder: Path) -> float:
    """Return the CPU milliseconds of a search that a running MCP server takes, after one to get warm."""
    process = subprocess.Popen(
        peer.server, env=dict(peer.env), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip

    def send(method: str, params: dict[str, Any], number: int | None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        assert process.stdin
        process.stdin.write(json.dumps(message if number is None else {**message, "id": number}) + "\n")
        process.stdin.flush()

    def ask(method: str, params: dict[str, Any], number: int) -> None:
        send(method, params, number)
        assert process.stdout
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("id") == number:
                if "error" in answer or answer["result"].get("isError"):
                    raise RuntimeError(f"{peer.name}: {line[:300]}")
                return
        raise RuntimeError(f"{peer.name} ended")

    with end_after(process, _MAX_INDEX_S):
        ask("initialize", _HELLO, 0)
        send("notifications/initialized", {}, None)
        for number in range(3):
            ask("tools/call", peer.call(questions[number]), 1 + number)
        before = cpu_seconds(process.pid)
        for number, question in enumerate(questions, start=10):
            ask("tools/call", peer.call(question), number)
        taken = cpu_seconds(process.pid) - before
        process.terminate()
        process.wait()
    return 1000 * taken / len(questions)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its descendants that still run."""
    total = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15])) * _TICK
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            total += cpu_seconds(int(child))
    return total


def make_question(notes: Sequence[Path], seed: int) -> str:
    """Return three words of one note, so that programs which look for all words find something too."""
    draw = random.Random(seed)
    words = [word for word in draw.choice(notes).read_text().split() if word.isalpha() and len(word) > 4]
    return " ".join(draw.sample(words, 3))


def text_size(workspace: Path) -> int:
    return sum(path.stat().st_size for path in workspace.rglob("*.md"))


def format_table(report: Mapping[str, Any]) -> str:
    """Return the figures as a Markdown table; times in CPU milliseconds, and as multiples of those of mdrecall."""
    figures = report["figures"]
    names = list(figures)
    lines = [
        f"{report['notes']} notes, {report['text_bytes'] / 1e6:.1f} MB; {report['machine']}",
        f"CPU time; `python -c pass` takes {report['python -c pass']:.0f} ms",
        "",
        "| | " + " | ".join(f"{name} ({report['versions'][name]})" for name in names) + " |",
        "| --- |" + " --- |" * len(names),
    ]
    for row in figures["mdrecall"]:
        cells = [format_figure(row, figures[name].get(row), figures["mdrecall"][row]) for name in names]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    lines += [f"{name} failed: {why}" for name, why in report["failed"].items()]
    return "\n".join(lines)


def format_figure(row: str, value: float | None, ours: float) -> str:
    if value is None:
        return "–"
    if row == "disk / text":
        return f"{value:.1f}"
    shown = f"{value:,.0f} MB" if "memory" in row else f"{value:,.0f} ms" if value >= 20 else f"{value:.1f} ms"
    return shown if value == ours else f"{shown} ({value / ours:.1f}×)"


def draw_bars(report: Mapping[str, Any]) -> str:
    """Return an SVG of bars for each figure, as multiples of mdrecall's on a scale of doublings."""
    import math

    figures = report["figures"]
    names, height, y = list(figures), 18, 34
    colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
    parts = []
    for row, ours in figures["mdrecall"].items():
        parts.append(f'<text x="10" y="{y}" font-weight="bold">{escape(row)}</text>')
        y += 8
        for number, name in enumerate(names):
            value = figures[name].get(row)
            if value is None:
                continue
            ratio = value / ours
            width = 40 * max(0.1, 2 + math.log2(ratio))
            label = f"{name} {format_figure(row, value, ours)}"
            parts.append(f'<rect x="10" y="{y}" width="{width:.0f}" height="13" fill="{colours[number % 4]}"/>')
            parts.append(f'<text x="{width + 16:.0f}" y="{y + 11}">{escape(label)}</text>')
            y += height
        y += 22
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {y}" font-family="sans-serif" font-size="12" '
        f'role="img" aria-label="mdrecall beside its peers">\n<rect width="720" height="{y}" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    sys.exit(main())
