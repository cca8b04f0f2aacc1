"""mdrecall beside its peers, on the same notes and questions in one run: ``python -m benchmarks.peers``.

Compares mdrecall, qmd (searching by words, without its models), mdrecall with qmd as its backend, OpenClaw's memory (by
words) and memsearch. Each is found on the PATH or named with an option; ``--install DIR`` installs the newest version
of what is missing below a folder, where it is found the next time. A program that is missing is skipped, and the reason
is printed.

memsearch needs vectors, and its own model is a download of several hundred megabytes. So it gets those of mdrecall's
table from this process, at no cost to itself: its figures are those of its index and its search alone.

Time is CPU time of the program and all that it starts (``benchmarks.measure``). Programs take turns, and no question
comes twice. mdrecall is asked whole questions, and the others get the words of them, because they look for notes with
all words. Memory is the peak of the largest process, and disk is everything that a program keeps of the notes.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import (
    McpServer,
    Workspace,
    describe_machine,
    format_number,
    format_table,
    make_workspace,
    run,
    run_pass,
    write_json,
)
from benchmarks.notes import keywords, make_questions
from benchmarks.plot import draw_bars

#: The package of each program, and the registry that it comes from.
PACKAGES = {"qmd": ("npm", "@tobilu/qmd"), "openclaw": ("npm", "openclaw"), "memsearch": ("pip", "memsearch")}
# OpenClaw has hundreds of dependencies.
_MAX_INSTALL_S = 1_200
# What a command may take; OpenClaw's first index needs more than a minute for 2,000 notes.
_MAX_RUN_S = 1_800
_WARM_QUESTIONS, _WARMING = 40, 3
#: Every program is asked for as many results: that is how many OpenClaw gives unless told otherwise.
_RESULTS = 6


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
    call: Callable[[str], dict[str, Any]] = lambda question: {}
    """The parameters of ``tools/call`` for a search."""


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
    with make_workspace(options.notes) as workspace, serve_vectors(embed_offline) as address:
        peers = [make_mdrecall(workspace)]
        for name in options.only:
            if program := choose_program(name, getattr(options, name), options.install, print):
                peers.append(PEERS[name](os.path.abspath(program), workspace, address))
                if name == "qmd":
                    peers.append(make_mdrecall_with_qmd(os.path.abspath(program), workspace))
        report = measure(peers, workspace, options.notes, options.rounds)
    print_report(report)
    write_json(options.json, report)
    if options.plot:
        options.plot.write_text(draw_bars("mdrecall beside its peers", report["figures"], format_figure))
    return 0


def make_mdrecall(workspace: Workspace) -> Peer:
    return Peer(
        "mdrecall",
        version_of([*workspace.command("--version")[:2]]),
        workspace.env,
        workspace.state,
        first=[workspace.command("index")],
        again=workspace.command("index"),
        search=lambda question: workspace.command("search", "-n", str(_RESULTS), "--", question),
        server=workspace.command("mcp"),
        call=lambda question: {"name": "memory_search", "arguments": {"query": question, "maxResults": _RESULTS}},
    )


def make_qmd(program: str, workspace: Workspace, vectors: str = "") -> Peer:
    state = str(workspace.base / "qmd")
    env = make_env(workspace, program, XDG_CACHE_HOME=state, XDG_CONFIG_HOME=state, QMD_TRUST_LOCAL_CONFIG="0")
    return Peer(
        "qmd",
        version_of([program, "--version"]),
        env,
        Path(state),
        first=[[program, "collection", "add", str(workspace.notes), "--name", "notes"]],
        again=[program, "update"],
        search=lambda question: [program, "search", keywords(question), "-n", str(_RESULTS)],
        server=[program, "mcp"],
        call=lambda question: {
            "name": "query",
            "arguments": {
                "searches": [{"type": "lex", "query": keywords(question)}],
                "limit": _RESULTS,
                "rerank": False,
            },
        },
    )


def make_mdrecall_with_qmd(program: str, workspace: Workspace) -> Peer:
    """Return mdrecall with qmd as its search backend, which has an index of its own."""
    state = workspace.base / "with-qmd"
    state.mkdir()
    qmd = {"command": program, "update": {"interval": 0}}
    (state / "mdrecall.json").write_text(json.dumps({"memory": {"backend": "qmd", "qmd": qmd}}))
    path = make_env(workspace, program)["PATH"]
    env = workspace.env | {"MDRECALL_STATE_DIR": str(state), "PATH": path}
    return make_mdrecall(workspace)._replace(name="mdrecall with qmd", version="", env=env, state=state)


def make_openclaw(program: str, workspace: Workspace, vectors: str) -> Peer:
    state = workspace.base / "openclaw"
    state.mkdir()
    config = {
        "agents": {"defaults": {"workspace": str(workspace.notes)}},
        "memory": {"search": {"provider": "none"}},
    }
    (state / "openclaw.json").write_text(json.dumps(config))
    return Peer(
        "OpenClaw",
        version_of([program, "--version"]),
        make_env(workspace, program, OPENCLAW_STATE_DIR=str(state)),
        state,
        first=[[program, "memory", "index"]],
        again=[program, "memory", "index"],
        search=lambda question: [program, "memory", "search", keywords(question), "--json"],
    )


def make_memsearch(program: str, workspace: Workspace, vectors: str) -> Peer:
    state = workspace.base / "memsearch"
    state.mkdir()
    store = ["--milvus-uri", str(state / "milvus.db"), "--provider", "openai", "--model", "table"]
    store += ["--base-url", vectors, "--api-key", "none"]
    index = [program, "index", str(workspace.notes), *store]
    return Peer(
        "memsearch",
        version_of([program, "--version"]),
        make_env(workspace, program),
        state,
        first=[index],
        again=index,
        search=lambda question: [program, "search", question, *store],
    )


#: The peers by the name of their program; each is made from its path, the notes and where vectors are served.
PEERS: dict[str, Callable[[str, Workspace, str], Peer]] = {
    "qmd": make_qmd,
    "openclaw": make_openclaw,
    "memsearch": make_memsearch,
}


def make_env(workspace: Workspace, program: str, **more: str) -> dict[str, str]:
    path = os.pathsep.join((os.path.dirname(program), os.environ["PATH"]))
    return {"HOME": str(workspace.base), "PATH": path, "NO_COLOR": "1", **more}


def version_of(command: Sequence[str]) -> str:
    # Beside a program from npm lies the node that it needs.
    path = os.pathsep.join((os.path.dirname(command[0]), os.environ["PATH"]))
    env = {**os.environ, "PATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    return next(iter(re.findall(r"\d+(?:\.\d+)+", done.stdout)), "")


def measure(peers: Sequence[Peer], workspace: Workspace, count: int, rounds: int) -> dict[str, Any]:
    """Measure all peers; one that fails is left out, with what it printed."""
    figures: dict[str, dict[str, float]] = {}
    failed: dict[str, str] = {}
    for peer in peers:
        try:
            figures[peer.name] = index_once(peer, workspace)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            failed[peer.name] = str(error)
    left = [peer for peer in peers if peer.name in figures]
    questions = make_questions(workspace.notes, count, time.time_ns())
    taken: dict[tuple[str, str], list[float]] = {}
    bare = []
    for question in islice(questions, rounds):
        bare.append(run_pass())
        for peer in left:
            for row, command in (("index, nothing changed", peer.again), ("cold search", peer.search(question))):
                cost = run(command, peer.env, workspace.notes, _MAX_RUN_S)
                taken.setdefault((peer.name, row), []).append(cost.cpu_ms)
    servers = [(peer, McpServer(peer.server, peer.env, workspace.notes)) for peer in left if peer.server]
    for number, question in enumerate(islice(questions, _WARMING + _WARM_QUESTIONS)):
        for peer, server in servers:
            cpu_ms, _ = server.take_cpu_ms(peer.call(question))
            if number >= _WARMING:
                taken.setdefault((peer.name, "search over MCP"), []).append(cpu_ms)
    for _, server in servers:
        server.close()
    for (name, row), values in taken.items():
        figures[name][row] = statistics.median(values)
    return {
        "machine": describe_machine(),
        "notes": count,
        "text_bytes": workspace.text_bytes(),
        "python -c pass": statistics.median(bare),
        "versions": {peer.name: peer.version for peer in peers},
        "figures": figures,
        "failed": failed,
    }


def index_once(peer: Peer, workspace: Workspace) -> dict[str, float]:
    costs = [run(command, peer.env, workspace.notes, _MAX_RUN_S) for command in peer.first]
    kept = sum(path.stat().st_size for path in peer.state.rglob("*") if path.is_file())
    return {
        "first index": sum(cost.cpu_ms for cost in costs),
        "peak memory while indexing": max(cost.peak_mb for cost in costs),
        "index bytes / text bytes": kept / workspace.text_bytes(),
    }


def print_report(report: Mapping[str, Any]) -> None:
    """Print the figures; times in CPU milliseconds, and as multiples of those of mdrecall."""
    figures = report["figures"]
    print(f"{report['notes']} notes, {report['text_bytes'] / 1e6:.1f} MB; {report['machine']}")
    print(f"CPU time; python -c pass takes {report['python -c pass']:.1f} ms\n")
    head = [f"{name} {report['versions'][name]}".strip() for name in figures]
    rows = []
    for row, ours in figures["mdrecall"].items():
        rows.append([row, *(format_figure(row, figures[name].get(row), ours) for name in figures)])
    print(format_table(["", *head], rows))
    for name, why in report["failed"].items():
        print(f"{name} failed: {why}")


def format_figure(row: str, value: float | None, ours: float) -> str:
    if value is None:
        return "–"
    shown = format_number(value)
    if "bytes" not in row:
        shown += " MB" if "memory" in row else " ms"
    return shown if value == ours else f"{shown} ({value / ours:.1f}×)"


def find_program(name: str, folder: Path | None) -> str:
    """Return the path of a program: below the folder where programs are installed, else on the PATH; empty if none."""
    if folder and (own := path_below(folder, name)).exists():
        return str(own)
    return shutil.which(name) or ""


def install_program(name: str, folder: Path) -> str:
    """Install a program below a folder, and return its path; raise ``RuntimeError`` with the reason if it fails."""
    registry, package = PACKAGES[name]
    if registry == "npm":
        npm = shutil.which("npm")
        if not npm:
            raise RuntimeError("npm is not installed")
        (folder / "npm").mkdir(parents=True, exist_ok=True)
        run_installer([npm, "install", "--prefix", str(folder / "npm"), "--no-fund", "--no-audit", package])
    else:
        run_installer([sys.executable, "-m", "venv", str(folder / name)])
        run_installer([str(folder / name / "bin" / "pip"), "install", "--quiet", package])
    found = path_below(folder, name)
    if not found.exists():
        raise RuntimeError(f"{package} has no program {name}")
    return str(found)


@contextmanager
def serve_vectors(embed: Callable[[list[str]], Sequence[bytes]]) -> Iterator[str]:
    """Serve vectors in OpenAI's wire format, and give the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            texts = body["input"]
            vectors = embed([texts] if isinstance(texts, str) else texts)
            rows = [
                {"object": "embedding", "index": number, "embedding": struct.unpack(f"<{len(vector) // 4}f", vector)}
                for number, vector in enumerate(vectors)
            ]
            answer = json.dumps({"object": "list", "model": body["model"], "data": rows}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def embed_offline(texts: Sequence[str]) -> list[bytes]:
    """Return the vectors of mdrecall's own table."""
    from mdrecall.embed.offline import OfflineEmbedder
    from mdrecall.types.documents import EmbedInput

    made = OfflineEmbedder().embed_chunks([EmbedInput("", text) for text in texts])
    return [each.vector for each in made]


def choose_program(name: str, given: str, folder: Path | None, say: Callable[[str], object]) -> str:
    """Return the program to compare; empty, after saying why, if there is none."""
    if program := given or find_program(name, folder):
        return program
    if folder is None:
        say(f"{name}: skipped, it is not on the PATH; name it with --{name}, or have it installed with --install DIR")
        return ""
    try:
        return install_program(name, folder)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        say(f"{name}: skipped, it cannot be installed: {error}")
        return ""


def path_below(folder: Path, name: str) -> Path:
    where = folder / "npm" / "node_modules" / ".bin" if PACKAGES[name][0] == "npm" else folder / name / "bin"
    return where / name


def run_installer(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MAX_INSTALL_S, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip()[-300:])


if __name__ == "__main__":
    sys.exit(main())
