"""How mdrecall grows with the notes: ``python -m benchmarks.growth DIR --notes 500 6000 61000 100000 500000``.

For each size it writes notes (``benchmarks.scale``; a note of 1.6 KB is two chunks), indexes them, and measures each
thing in a process of its own: what indexing takes, an ``index`` when nothing has changed, a cold search, and in a
process that stays alive the first search, the next ones, one for a word that nearly every chunk holds, what the look
at followed files adds, and several processes that search at once. Notes and indexes stay in ``DIR`` and are used again;
``--again`` indexes anew.

Times are CPU times, because waiting depends on what else the machine does; so the searches per second of several
processes are also given as what idle cores would do. Medians.
"""

import argparse
import datetime
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.growth_plot import draw_growth
from benchmarks.peers import run
from benchmarks.scale import read_words, write_notes

#: Files that have just been written are looked at again, because their stamps may not tell two writes apart.
SETTLE_S = 2.2
_COMMON_WORD = "the"
# A million chunks take a quarter of an hour of CPU time, and much longer on a busy machine.
_MAX_INDEX_S = 6 * 3_600


class Size(NamedTuple):
    """One workspace, and where its index is."""

    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "notes"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def env(self) -> dict[str, str]:
        own = {"MDRECALL_STATE_DIR": str(self.state), "HOME": str(self.folder), "PYTHONPATH": os.getcwd()}
        # Without compiled modules, most of a short command would be compiling them.
        return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | own


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where notes and indexes are kept")
    parser.add_argument("--notes", type=int, nargs="+", default=[500, 6_000, 61_000], help="the sizes")
    parser.add_argument("--questions", type=int, default=100, help="how many are asked")
    parser.add_argument("--processes", type=int, default=4, help="how many search at once")
    parser.add_argument("--again", action="store_true", help="index anew")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures as SVG")
    parser.add_argument("--measure", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(PARTS[options.measure](Size(options.folder), options.questions)))
        return 0
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    report = {
        "machine": f"{machine}, python -c pass {time_pass():.0f} ms",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "sizes": [measure(options, count) for count in sorted(options.notes)],
    }
    print(format_table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.plot:
        options.plot.write_text(draw_growth(report))
    return 0


def measure(options: argparse.Namespace, count: int) -> dict[str, float]:
    """Return the figures of one size."""
    size = Size((options.folder / str(count)).absolute())
    if not size.workspace.exists():
        write_notes(size.workspace, count)
        time.sleep(SETTLE_S)
    figures = index_once(size, again=options.again)
    for part in PARTS:
        if not options.only or part in options.only:
            if part == "processes":
                figures |= search_at_once(size, options.processes, options.questions)
            else:
                figures |= run_part(part, size, options.questions)
        print(f"{count:,} notes: {part} done", file=sys.stderr)
    return figures


def index_once(size: Size, *, again: bool) -> dict[str, float]:
    """Index a workspace, or return what that took when it was done."""
    taken = size.folder / "index.json"
    if again or not taken.exists():
        shutil.rmtree(size.state, ignore_errors=True)
        cost = run(_command(size, "index"), size.env, size.folder, _MAX_INDEX_S)
        text = sum(path.stat().st_size for path in size.workspace.rglob("*.md"))
        kept = sum(path.stat().st_size for path in size.state.rglob("*.sqlite*"))
        found = {"index, CPU s": cost.cpu_ms / 1000, "index, peak MB": cost.peak_mb, "disk / text": kept / text}
        taken.write_text(json.dumps({"files": _count_files(size), "chunks": _count_chunks(size), **found}))
    figures: dict[str, float] = json.loads(taken.read_text())
    return figures


def run_part(part: str, size: Size, questions: int) -> dict[str, float]:
    """Measure one thing in a new process."""
    command = [sys.executable, "-m", "benchmarks.growth", str(size.folder), "--measure", part]
    printed = subprocess.run(
        [*command, "--questions", str(questions)], env=size.env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    figures: dict[str, float] = json.loads(printed.splitlines()[-1])
    return figures


def measure_commands(size: Size, questions: int) -> dict[str, float]:
    """Measure single commands: an index without changes, and a cold search."""
    again, cold = [], []
    for question in make_questions(5):
        again.append(run(_command(size, "index"), size.env, size.folder).cpu_ms)
        search = [*_command(size, "search"), "--no-warm", "--", question]
        cold.append(run(search, size.env, size.folder).cpu_ms)
    return {"nothing changed, s": statistics.median(again) / 1000, "cold search, ms": statistics.median(cold)}


def measure_warm(size: Size, questions: int) -> dict[str, float]:
    """Measure searches in one process that does not look at the files."""
    from mdrecall.memory import Memory

    (question,) = make_questions(1, 2)
    began = time.process_time()
    with Memory.open(size.workspace, env=size.env, overrides={"sync.onSearch": False}) as memory:
        memory.search(question)
        first = time.process_time() - began
        asked = make_questions(questions)
        hybrid = take_cpu_ms(memory.search, asked)
        words = take_cpu_ms(lambda question: memory.search(question, mode="keyword"), make_questions(questions, 1))
        times = take_cpu_ms(memory.search, [f"{question} in August 1002" for question in make_questions(7, 3)])
        common = take_cpu_ms(memory.search, [_COMMON_WORD] * 7)
        return {
            "first search, CPU s": first,
            "warm search, ms": statistics.median(hybrid),
            "warm search p95, ms": sorted(hybrid)[int(len(hybrid) * 0.95)],
            "warm search by words, ms": statistics.median(words),
            "question about a month, ms": statistics.median(times),
            f"'{_COMMON_WORD}' for the first time, ms": common[0],
            f"'{_COMMON_WORD}' again, ms": statistics.median(common[1:]),
            "warm memory, MB": _resident_mb(),
        }


def measure_followed(size: Size, questions: int) -> dict[str, float]:
    """Measure what the look at the files adds to a search of a process that follows them."""
    from mdrecall.memory import Memory

    with Memory.open(size.workspace, env=size.env) as memory:
        memory.sync()
        memory.search(_COMMON_WORD)
        looks = take_cpu_ms(lambda question: memory.issues(), make_questions(max(questions, 20)))
    return {"look at followed files, ms": statistics.median(looks)}


def search_for_long(size: Size, questions: int) -> dict[str, float]:
    """Search with one of several processes."""
    from mdrecall.memory import Memory

    with Memory.open(size.workspace, env=size.env, overrides={"sync.onSearch": False}) as memory:
        asked = make_questions(questions, os.getpid())
        memory.search(asked[0])
        began = time.perf_counter()
        taken = take_cpu_ms(memory.search, asked)
        return {"seconds": time.perf_counter() - began, "cpu_ms": statistics.mean(taken)}


def search_at_once(size: Size, processes: int, questions: int) -> dict[str, float]:
    """Search with several processes at once."""
    command = [sys.executable, "-m", "benchmarks.growth", str(size.folder), "--measure", "processes"]
    running = [
        subprocess.Popen([*command, "--questions", str(questions)], env=size.env, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    found = [json.loads(process.communicate()[0]) for process in running]
    cpu_ms = statistics.mean(one["cpu_ms"] for one in found)
    return {
        f"{processes} processes, searches/s": sum(questions / one["seconds"] for one in found),
        f"{processes} processes, CPU ms each": cpu_ms,
        f"{processes} processes, searches/s on idle cores": 1000 * min(processes, os.cpu_count() or 1) / cpu_ms,
    }


#: What is measured, each in a process of its own.
PARTS: dict[str, Callable[[Size, int], dict[str, float]]] = {
    "commands": measure_commands,
    "warm": measure_warm,
    "followed": measure_followed,
    "processes": search_for_long,
}


def time_pass() -> float:
    """Return the CPU milliseconds of an empty program, by which the figures of two machines can be compared."""
    return statistics.median(run([sys.executable, "-c", "pass"], os.environ, Path.cwd()).cpu_ms for _ in range(11))


def make_questions(count: int, seed: int = 0) -> list[str]:
    """Return questions of four words, none of them among the fifty most frequent."""
    words = read_words()[50:8_000]
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=4)) for _ in range(count)]


def take_cpu_ms(act: Callable[[str], object], questions: Sequence[str]) -> list[float]:
    """Return the CPU milliseconds of each call."""
    taken = []
    for question in questions:
        began = time.process_time()
        act(question)
        taken.append(1000 * (time.process_time() - began))
    return taken


def format_table(report: Mapping[str, Any]) -> str:
    """Return the figures as a Markdown table with a column for each size."""
    sizes = report["sizes"]
    names = dict.fromkeys(name for size in sizes for name in size if name not in ("files", "chunks"))
    lines = [
        f"{report['machine']}, {report['date']}",
        "",
        "| | " + " | ".join(f"{size['files']:,} files, {size['chunks']:,} chunks" for size in sizes) + " |",
        "| --- |" + " --- |" * len(sizes),
    ]
    for name in names:
        cells = [f"{size[name]:,.{0 if size[name] >= 100 else 2}f}" if name in size else "–" for size in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _command(size: Size, name: str) -> list[str]:
    return [sys.executable, "-m", "mdrecall", name, "--workspace", str(size.workspace)]


def _count_files(size: Size) -> int:
    return sum(1 for _ in size.workspace.rglob("*.md"))


def _count_chunks(size: Size) -> int:
    from mdrecall.memory import Memory

    with Memory.open(size.workspace, env=size.env, overrides={"sync.onSearch": False}) as memory:
        return int(memory.status().chunks)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    raise SystemExit(main())
