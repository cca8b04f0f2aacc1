"""Measures the qmd backend: against qmd itself, with a server that keeps running, and when qmd hangs.

    python -m benchmarks.qmd --qmd /path/to/qmd [--notes 500] [--rounds 15] [--json FILE]

Every round runs the same search in each way, one after the other, so that a busy machine slows all of them alike.
``qmd search`` gets the keywords of the question, because it would find nothing otherwise. The figures are medians. What
counts is their ratio to ``qmd search`` in the same run.
"""

import argparse
import json
import os
import random
import shutil
import stat
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mdrecall
from mdrecall.config.load import load
from mdrecall.extras.qmd.process import index_path, prepare
from mdrecall.extras.qmd.search import build_word_lists, extract_keywords
from mdrecall.memory import Memory

QUESTIONS = (
    "what did Ana say about the billing migration?",
    "which decision is DEC-0054?",
    "who wrote the runbook for the pooler?",
    "when does the paper for gift wrapping arrive?",
)
WORDS = (
    *("plan", "review", "meeting", "cluster", "window", "budget", "invoice", "garden", "travel", "design"),
    *("parser", "token", "sensor", "bridge", "market", "ticket", "upgrade", "latency", "kitchen", "poster"),
)
TIMEOUT_MS = 2000
#: How much longer than its time limit a search may take when qmd hangs.
GRACE_MS = 200
MAX_RATIO_WITHOUT_SERVER = 1.10
MAX_RATIO_WITH_SERVER = 0.5


class BenchWorkspace(NamedTuple):
    """A temporary workspace, and the settings for opening its memory."""

    base: Path
    qmd: str

    @property
    def workspace(self) -> Path:
        return self.base / "workspace"

    def env(self, name: str) -> dict[str, str]:
        home = self.base / "home"
        path = f"{os.path.dirname(self.qmd)}{os.pathsep}{os.environ['PATH']}"
        return {"HOME": str(home), "MDRECALL_STATE_DIR": str(self.base / name), "PATH": path}

    def configure(self, name: str, command: str, *, session: bool) -> dict[str, str]:
        """Write the settings of one way of searching, which has its own index, and return its environment."""
        state = self.base / name
        state.mkdir(exist_ok=True)
        qmd = {"command": command, "limits": {"timeoutMs": TIMEOUT_MS}, "update": {"interval": 0}}
        config = {"memory": {"backend": "qmd", "qmd": qmd}, "mdrecall": {"qmd": {"session": session}}}
        (state / "mdrecall.json").write_text(json.dumps(config))
        return self.env(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qmd", default=shutil.which("qmd") or "", help="the qmd program (default: on the PATH)")
    parser.add_argument("--notes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    if not options.qmd:
        sys.exit("qmd is not on the PATH; name it with --qmd.")
    with tempfile.TemporaryDirectory(prefix="mdrecall-bench-") as scratch:
        bench = BenchWorkspace(Path(scratch), os.path.abspath(options.qmd))
        write_notes(bench.workspace, options.notes)
        (bench.base / "home").mkdir()
        figures = {
            "notes": options.notes,
            "rounds": options.rounds,
            **measure_ways(bench, options.rounds),
            **measure_hang(bench),
        }
    print_figures(figures)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if all(figures["holds"].values()) else 1


def write_notes(workspace: Path, count: int) -> None:
    """Write the sample notes and ``count`` more."""
    shutil.copytree(Path(mdrecall.__file__).parent / "sample", workspace)
    chance = random.Random(7)
    for number in range(count):
        lines = [" ".join(chance.choices(WORDS, k=12)) + "." for _ in range(12)]
        (workspace / "memory" / f"note-{number:05}.md").write_text(f"# Note {number}\n\n" + "\n".join(lines) + "\n")
    note = "# 2026-01-15\n\nMet with Ana about the billing migration. We agreed to postpone the cutover.\n"
    (workspace / "memory" / "2026-01-15.md").write_text(note)


def measure_ways(bench: BenchWorkspace, rounds: int) -> dict[str, Any]:
    """Time the same questions with qmd itself, and through mdrecall without and with a server."""
    plain_env = bench.configure("plain", bench.qmd, session=False)
    served_env = bench.configure("served", bench.qmd, session=True)
    settings = load(env=plain_env, workspace=str(bench.workspace)).settings
    with (
        Memory.open(bench.workspace, env=plain_env) as plain,
        Memory.open(bench.workspace, env=served_env) as served,
    ):
        plain.sync()
        served.sync()
        assert os.path.exists(index_path(settings.qmd_dir))
        bare_env = prepare(settings.qmd_dir, plain_env, home=plain_env["HOME"])
        names = [word for name in plain.status().custom["qmd"]["collectionFiles"] for word in ("-c", name)]

        def bare(question: str) -> None:
            words = build_word_lists(*extract_keywords(question))[0]
            command = [bench.qmd, "search", "--json", "-n", "6", *names, "--", words]
            subprocess.run(command, env=bare_env, cwd="/", capture_output=True, check=True)

        ways: dict[str, Callable[[str], object]] = {
            "qmd search": bare,
            "mdrecall, no server": lambda question: search(plain, question),
            "mdrecall, server": lambda question: search(served, question),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(-1, rounds):
            for name, ask in ways.items():
                began = time.perf_counter()
                ask(QUESTIONS[number % len(QUESTIONS)])
                if number >= 0:
                    taken[name].append(1000 * (time.perf_counter() - began))
    medians = {name: statistics.median(values) for name, values in taken.items()}
    floor = medians["qmd search"]
    ratios = {name: value / floor for name, value in medians.items()}
    holds = {
        f"no server: at most {MAX_RATIO_WITHOUT_SERVER:.2f}": ratios["mdrecall, no server"] <= MAX_RATIO_WITHOUT_SERVER,
        f"server: below {MAX_RATIO_WITH_SERVER:.2f}": ratios["mdrecall, server"] < MAX_RATIO_WITH_SERVER,
    }
    return {"median_ms": medians, "ratio": ratios, "holds": holds}


def search(memory: Memory, question: str) -> None:
    """Search, and make sure that qmd answered."""
    answer = memory.search(question)
    assert answer.backend == "qmd", answer.answered_for
    assert answer.results, question


def measure_hang(bench: BenchWorkspace) -> dict[str, Any]:
    """Time a search when qmd does not answer at all, so that the builtin backend does."""
    program = bench.base / "hanging-qmd"
    # Everything works except the search, which never ends.
    program.write_text(f'#!/bin/sh\ncase "$1" in query|search|mcp) exec sleep 600;; esac\nexec {bench.qmd} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    env = bench.configure("hanging", str(program), session=True)
    with Memory.open(bench.workspace, env=env) as memory:
        memory.sync()
        began = time.perf_counter()
        answer = memory.search(QUESTIONS[0])
        first_ms = 1000 * (time.perf_counter() - began)
        assert answer.backend == "builtin"
        assert answer.results
        began = time.perf_counter()
        memory.search(QUESTIONS[0])
        next_ms = 1000 * (time.perf_counter() - began)
    return {"timeout_ms": TIMEOUT_MS, "hanging_first_ms": first_ms, "hanging_next_ms": next_ms}


def print_figures(figures: dict[str, Any]) -> None:
    figures["holds"][f"qmd hangs: at most {TIMEOUT_MS} + {GRACE_MS} ms"] = (
        figures["hanging_first_ms"] <= TIMEOUT_MS + GRACE_MS
    )
    print(f"{figures['notes']} notes and the sample, {figures['rounds']} rounds\n")
    print(f"{'':26}{'median':>10}{'ratio':>8}")
    for name, value in figures["median_ms"].items():
        print(f"{name:26}{value:>7.1f} ms{figures['ratio'][name]:>8.2f}")
    print(f"\nqmd hangs, {TIMEOUT_MS} ms allowed: first search {figures['hanging_first_ms']:.0f} ms,"
          f" the next {figures['hanging_next_ms']:.0f} ms")  # fmt: skip
    for name, is_held in figures["holds"].items():
        print(f"  {'holds' if is_held else 'FAILS'}  {name}")


if __name__ == "__main__":
    sys.exit(main())
