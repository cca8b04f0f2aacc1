"""How fast mdrecall is, each figure beside its aim: ``python -m benchmarks.speed``.

    python -m benchmarks.speed                        # 2,001 notes and 12,000 chunks
    python -m benchmarks.speed --only search cold     # some of it
    python -m benchmarks.speed --only encoder --notes 100    # the encoder's vectors, and searches with and without them
    python -m benchmarks.speed --large --million      # 122,000 and a million chunks as well
    python -m benchmarks.speed --qmd PATH             # where qmd is, if it is not on the PATH

Times are CPU times, as multiples of ``python -c pass`` or of another program, which take turns with what they are
compared with. The notes are made of sentences (``benchmarks.notes``), and every question is new; a fifth of them names
an identifier and a fifth a day. A search is one of a process that stays alive and looks for changed files first. The
*floor* is a plain FTS5 index of the same chunks (``benchmarks.floor``). With a load above the number of cores, repeat.
"""

import argparse
import cProfile
import json
import multiprocessing
import os
import pstats
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import (
    SETTLE_S,
    McpServer,
    Workspace,
    describe_machine,
    format_number,
    format_table,
    resident_mb,
    run,
    run_pass,
    spread,
    take_cpu_ms,
    write_json,
)
from benchmarks.notes import make_questions, write_notes
from benchmarks.peers import make_mdrecall, make_qmd
from benchmarks.plot import Panel, draw_panels

PARTS = ("search", "mcp", "index", "change", "cold")
#: The notes of each size; a note is two chunks.
SMALL, MIDDLE, LARGE, MILLION = 2_001, 6_000, 61_000, 500_000
#: A warm search as a multiple of ``python -c pass``, by the number of notes.
SEARCH_AIMS = {SMALL: 0.35, MIDDLE: 0.5, LARGE: 1.2, MILLION: 4.0}
#: The start of Python that absolute aims are stated for.
_PASS_MS = 11.0
#: What the first index and a warm process of 2,001 notes took before searches were made to do less.
_INDEX_MB, _WARM_MB = 105, 77
_QUESTIONS, _WARMING, _AT_ONCE = 100, 5, 10
_PROJECT = Path(__file__).parent.parent
#: The panels of the plot, and the figures in each with their short names.
PANELS = {
    "A search, CPU ms": {
        "cold, CPU ms": "cold",
        "search, CPU ms": "warm",
        "search p95, CPU ms": "warm, p95",
        "search by words, CPU ms": "by words",
    },
    "First search of a process, CPU ms": {"first search, CPU ms": "first"},
    "Indexing, CPU ms": {"first index, CPU ms": "first", "unchanged, CPU ms": "unchanged"},
    "Memory, MB": {"first index, peak MB": "indexing", "warm memory, MB": "warm process"},
}


class Line(NamedTuple):
    """A figure, what it should be at most, and the load of the machine when it was taken."""

    name: str
    value: float
    aim: float | None
    unit: str
    load: float
    detail: str = ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=(*PARTS, "encoder"), default=PARTS, help="measure these parts only"
    )
    parser.add_argument("--notes", type=int, nargs="*", help="sizes other than these four")
    parser.add_argument("--large", action="store_true", help="122,000 chunks as well: several minutes")
    parser.add_argument("--million", action="store_true", help="a million chunks as well: 3 GB of disk, an hour")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the notes here, and use them again")
    parser.add_argument("--qmd", default=shutil.which("qmd") or "", metavar="PATH", help="default: on the PATH")
    parser.add_argument("--real", type=Path, default=_PROJECT / "docs", help="real notes (default: the documents)")
    parser.add_argument("--questions", type=int, default=_QUESTIONS, help="how many are asked of each size")
    parser.add_argument("--repeat", type=int, default=5, help="how often commands are run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures of all sizes as SVG")
    parser.add_argument("--before", type=Path, metavar="FILE", help="a file of --json, which is drawn dashed")
    options = parser.parse_args(arguments)
    sizes = options.notes or [SMALL, MIDDLE, *[LARGE] * options.large, *[MILLION] * options.million]
    print(describe_machine(), flush=True)
    found: list[dict[str, Any]] = []
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="mdrecall-speed-") as scratch:
        for count in sizes:
            workspace = Workspace((options.keep or Path(scratch)).absolute() / str(count))
            clear(workspace)
            try:
                found.append(Bench(workspace, count, options, lines).measure())
            finally:
                clear(workspace)
    print_lines(lines)
    print_sizes(found)
    machine = describe_machine()
    write_json(options.json, {"machine": machine, "lines": [line._asdict() for line in lines], "sizes": found})
    if options.plot:
        before = json.loads(options.before.read_text())["sizes"] if options.before else []
        options.plot.write_text(draw_sizes(found, before, machine))
    return 0


def clear(workspace: Workspace) -> None:
    """Delete what a run has left beside the notes."""
    for path in workspace.base.glob("*"):
        if path.is_dir() and path != workspace.notes:
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()


class Bench:
    """One workspace, and the figures that were taken in it."""

    def __init__(self, workspace: Workspace, count: int, options: argparse.Namespace, lines: list[Line]) -> None:
        self._workspace, self._count, self._options, self._lines = workspace, count, options, lines
        self._asked = make_questions(workspace.notes, count, seed=time.time_ns())
        self.figures: dict[str, Any] = {"notes": count}

    def measure(self) -> dict[str, Any]:
        """Return the figures of this size."""
        if not self._workspace.notes.exists():
            # Under another name until all are there, so that the notes of a run that was stopped are not used again.
            unfinished = self._workspace.base / "unfinished"
            write_notes(unfinished, self._count)
            unfinished.rename(self._workspace.notes)
            time.sleep(SETTLE_S)
        only = self._options.only
        is_small = self._count == SMALL
        if "index" in only and is_small:
            self._compare_index()
        else:
            self._index(self._workspace, "first index")
        if "search" in only:
            self._search()
        if "cold" in only:
            self._run_commands()
        if "change" in only and is_small:
            self._change()
        if "mcp" in only and is_small:
            self._compare_mcp()
        if "encoder" in only:
            self._encode()
        return self.figures

    def _add(self, name: str, value: float, aim: float | None, unit: str = "×", detail: str = "") -> None:
        """Keep a figure that has an aim, and show it."""
        line = Line(name, value, aim, unit, os.getloadavg()[0], detail)
        self._lines.append(line)
        print(f"  {name}: {format_number(value)} {unit}", file=sys.stderr, flush=True)

    def _index(self, workspace: Workspace, name: str, *more: str) -> float:
        shutil.rmtree(workspace.state, ignore_errors=True)
        cost = workspace.run("index", *more)
        self.figures[f"{name}, CPU ms"], self.figures[f"{name}, peak MB"] = cost.cpu_ms, cost.peak_mb
        self.figures["disk / text"] = workspace.index_bytes() / workspace.text_bytes()
        return cost.cpu_ms

    def _compare_index(self) -> None:
        """Index by words only, then by words and vectors, in turns with the floor."""
        by_words = self._workspace.base / "words.json"
        by_words.write_text('{"memorySearch": {"provider": "none"}}')
        floor = [sys.executable, "-m", "benchmarks.floor", "index", str(self._workspace.notes)]
        taken: dict[str, list[float]] = {"floor": [], "words": [], "both": []}
        for number in range(min(3, self._options.repeat)):
            database = self._workspace.base / f"floor-{number}.db"
            taken["floor"].append(run([*floor, str(database)], self._workspace.env, Path.cwd()).cpu_ms)
            taken["words"].append(self._index(self._workspace, "words only", "--config", str(by_words)))
            taken["both"].append(self._index(self._workspace, "first index"))
        medians = {name: statistics.median(values) for name, values in taken.items()}
        self.figures |= {f"index, {name}, CPU ms": value for name, value in medians.items()}
        for name, kind, aim in (("first index ÷ floor", "both", 5.0), ("the same, words only", "words", 3.0)):
            detail = f"{medians[kind]:,.0f} ÷ {medians['floor']:,.0f} ms"
            self._add(name, medians[kind] / medians["floor"], aim, detail=detail)
        self._add("disk ÷ text, generated notes", self.figures["disk / text"], None)
        with tempfile.TemporaryDirectory(prefix="mdrecall-speed-") as scratch:
            real = Workspace(Path(scratch))
            shutil.copytree(self._options.real, real.notes, ignore=_ignore_other_files)
            real.run("index")
            detail = f"{real.text_bytes() / 1e6:.1f} MB of {self._options.real.name}"
            self._add("disk ÷ text, real notes", real.index_bytes() / real.text_bytes(), 1.9, detail=detail)
        self._add("peak memory of the first index", self.figures["first index, peak MB"], _INDEX_MB, "MB")

    def _search(self) -> None:
        """Search in a process that stays alive, in turns with ``python -c pass``."""
        with run_searcher(self._workspace, next(self._asked)) as ask:
            self.figures["first search, CPU ms"] = ask("first", ())[0]
            time.sleep(SETTLE_S)
            for how in ("search", "keyword"):
                ask(how, islice(self._asked, _WARMING))
            passes, taken = [], list[float]()
            while len(taken) < self._options.questions:
                passes.append(run_pass())
                taken += ask("search", islice(self._asked, _AT_ONCE))
            figures = {
                "search": spread(taken),
                "search by words": spread(ask("keyword", islice(self._asked, _AT_ONCE * 3))),
                "search for the": spread(ask("search", [f"the {name}" for name in ("", "a", "of", "and", "in", "to")])),
            }
            for kind in ("sentence", "identifier", "day"):
                questions = make_questions(self._workspace.notes, self._count, time.time_ns(), [kind])
                figures[f"search, {kind}"] = spread(ask("search", islice(questions, _AT_ONCE * 2)))
            calls = statistics.median(ask("calls", islice(self._asked, _AT_ONCE * 2)))
            self.figures |= {f"{name}, CPU ms": value.median for name, value in figures.items()}
            self.figures["search p95, CPU ms"] = figures["search"].p95
            self.figures["warm memory, MB"], self.figures["chunks"] = ask("memory", ())
        base, search = statistics.median(passes), figures["search"]
        self.figures |= {"python -c pass, CPU ms": base, "calls": calls}
        size = (
            f"{self._count - self._count % 10:,} notes"
            if self._count == SMALL
            else f"{self.figures['chunks']:,} chunks"
        )
        if self._count == SMALL:
            self._add("function calls of a search", calls, 6_000, "")
        detail = ", ".join(f"{name.partition(', ')[2]} {figures[name].median:.1f}" for name in figures if ", " in name)
        aim = SEARCH_AIMS.get(self._count)
        detail = f"{search.median:.1f} ÷ {base:.1f} ms; {detail}"
        self._add(f"warm search ÷ python -c pass, {size}", search.median / base, aim, detail=detail)
        self._add(f"p95 ÷ median, {size}", search.p95 / search.median, 2.0)
        most = _WARM_MB if self._count == SMALL else None
        self._add(f"memory of a warm process, {size}", self.figures["warm memory, MB"], most, "MB")

    def _encode(self) -> None:
        """Make the encoder's vectors, and ask the same questions with and without them in turns."""
        from mdrecall.memory import Memory

        notes, env, config = self._workspace.notes, self._workspace.env, self._workspace.base / "encoder.json"
        config.write_text('{"mdrecall": {"encoder": true}}')
        cost = self._workspace.run("index", "--config", str(config))
        self._add(f"vectors of the encoder, {self._count:,} notes", cost.cpu_ms / 1000, None, "s of CPU")
        added: dict[str, list[float]] = {"asked": [], "asked again": [], "not asked": []}
        encoded = env | {"MDRECALL_CONFIG": str(config)}
        with Memory.open(notes, env=encoded) as memory, Memory.open(notes, env=env) as other:
            for number, question in enumerate(islice(self._asked, _WARMING + self._options.questions)):
                is_asked = False

                def search(text: str) -> None:
                    nonlocal is_asked
                    is_asked = " + " in (memory.search(text).model or "")

                twice = [question, question]
                with_it, without = take_cpu_ms(search, twice), take_cpu_ms(other.search, twice)
                first, again = (one - two for one, two in zip(with_it, without, strict=True))
                if number >= _WARMING:
                    added["asked" if is_asked else "not asked"].append(first)
                    added["asked again"] += [again] * is_asked
        for name, taken in added.items():
            detail = f"{len(taken)} of {self._options.questions} questions"
            self._add(f"added to a search, {name}", statistics.median(taken or [0.0]), None, "ms of CPU", detail)

    def _run_commands(self) -> None:
        """Run single commands in turns: an index without changes, and a cold search."""
        taken: dict[str, list[float]] = {"pass": [], "unchanged": [], "cold": []}
        for question in islice(self._asked, self._options.repeat):
            taken["pass"].append(run_pass())
            taken["unchanged"].append(self._workspace.run("index").cpu_ms)
            taken["cold"].append(self._workspace.run("search", "--no-warm", "--", question).cpu_ms)
        medians = {name: statistics.median(values) for name, values in taken.items()}
        self.figures |= {f"{name}, CPU ms": medians[name] for name in ("unchanged", "cold")}
        if self._count == SMALL:
            detail = f"{medians['cold']:.0f} ÷ {medians['pass']:.1f} ms"
            self._add("cold search ÷ python -c pass", medians["cold"] / medians["pass"], 8.0, detail=detail)

    def _change(self) -> None:
        """Index one changed note with a command."""
        passes, taken = [], []
        paths = sorted(self._workspace.notes.rglob("*.md"))[: self._options.repeat]
        texts = [path.read_text() for path in paths]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(f"{text}\nOne more sentence about the walrus.\n")
            passes.append(run_pass())
            taken.append(self._workspace.run("index").cpu_ms)
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        base, change = statistics.median(passes), statistics.median(taken)
        detail = f"{change:.0f} ms where python -c pass takes {base:.1f}"
        scaled = change * _PASS_MS / base
        self._add(f"index of one changed note, at {_PASS_MS:.0f} ms a start", scaled, 100, "ms", detail)

    def _compare_mcp(self) -> None:
        """Ask mdrecall's and qmd's MCP servers the same in turns."""
        if not self._options.qmd:
            print("qmd is not on the PATH: without --qmd nothing is compared with it.", file=sys.stderr)
            return
        peers = [make_mdrecall(self._workspace), make_qmd(os.path.abspath(self._options.qmd), self._workspace)]
        for command in peers[1].first:
            run(command, peers[1].env, self._workspace.notes)
        servers = [McpServer(peer.server, peer.env, self._workspace.notes) for peer in peers]
        try:
            for kind, aim in (("sentence", 0.8), ("identifier", 1.0)):
                questions = make_questions(self._workspace.notes, self._count, time.time_ns(), [kind])
                taken: list[list[tuple[float, int, int]]] = [[], []]
                for number, question in enumerate(islice(questions, _WARMING + self._options.questions)):
                    for place, (peer, server) in enumerate(zip(peers, servers, strict=True)):
                        cpu_ms, answer = server.take_cpu_ms(peer.call(question))
                        result = json.loads(answer)["result"]
                        # mdrecall answers with text, in which only a line above a snippet begins with no space.
                        lines = result["content"][0]["text"].splitlines()[1:]
                        results = result.get("structuredContent", {}).get("results") or [
                            line for line in lines if line[:1].strip()
                        ]
                        if number >= _WARMING:
                            taken[place].append((cpu_ms, len(results), len(answer)))
                ours, theirs = ([statistics.mean(column) for column in zip(*each, strict=True)] for each in taken)
                medians = [statistics.median(cpu for cpu, _, _ in each) for each in taken]
                self.figures[f"MCP, {kind}"] = {"median": medians, "mean": [ours, theirs]}
                detail = f"{medians[0]:.1f} ÷ {medians[1]:.1f} ms; {ours[1]:.1f} and {theirs[1]:.1f} results"
                detail += f", {ours[2] / 1000:.1f} and {theirs[2] / 1000:.1f} kB"
                self._add(f"MCP ÷ qmd, {kind}s", medians[0] / medians[1], aim, detail=detail)
        finally:
            for server in servers:
                server.close()


def _ignore_other_files(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".md") and not os.path.isdir(os.path.join(folder, name))]


@contextmanager
def run_searcher(workspace: Workspace, question: str) -> Iterator[Callable[[str, Iterable[str]], list[float]]]:
    """Open a memory in a process of its own, and give what asks it questions and returns what each took."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=answer_questions, args=(workspace, question, there))
    process.start()
    there.close()

    def ask(how: str, questions: Iterable[str]) -> list[float]:
        here.send((how, list(questions)))
        answer: list[float] = here.recv()
        return answer

    try:
        yield ask
    finally:
        here.close()
        process.join()


def answer_questions(workspace: Workspace, question: str, pipe: Connection) -> None:
    """Search with one memory until the other end of the pipe is closed."""
    from mdrecall.memory import Memory

    began = time.process_time()
    with Memory.open(workspace.notes, env=workspace.env) as memory:
        memory.search(question)
        first_ms = 1000 * (time.process_time() - began)
        acts: dict[str, Callable[[list[str]], list[float]]] = {
            "first": lambda questions: [first_ms],
            "search": lambda questions: take_cpu_ms(memory.search, questions),
            "keyword": lambda questions: take_cpu_ms(lambda each: memory.search(each, mode="keyword"), questions),
            "calls": lambda questions: [count_calls(memory.search, each) for each in questions],
            "memory": lambda questions: [resident_mb(), memory.status().chunks],
        }
        try:
            while True:
                how, questions = pipe.recv()
                pipe.send(acts[how](questions))
        except EOFError:
            return


def count_calls(act: Callable[[str], object], question: str) -> int:
    """Return how many functions a call calls in its thread, those written in C included."""
    profile = cProfile.Profile()
    profile.runcall(act, question)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def print_lines(lines: Iterable[Line]) -> None:
    rows = []
    for line in lines:
        aim = f"≤ {line.aim:g}" if line.aim is not None else ""
        mark = "" if line.aim is None else "yes" if line.value <= line.aim else "NO"
        rows.append((line.name, f"{format_number(line.value)} {line.unit}", aim, mark, f"{line.load:.1f}", line.detail))
    print(format_table(("", "figure", "aim", "holds", "load", ""), rows))


def print_sizes(sizes: Sequence[Mapping[str, Any]]) -> None:
    """Print the figures of all sizes, a column for each."""
    names = dict.fromkeys(name for size in sizes for name in size if not isinstance(size[name], dict))
    rows = [[name, *(format_number(size[name]) if name in size else "–" for size in sizes)] for name in names]
    print("\n" + format_table(["", *(f"{size['notes']:,} notes" for size in sizes)], rows))


def draw_sizes(sizes: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]], machine: str) -> str:
    """Return a plot of how the figures grow with the chunks; those of an earlier run are dashed."""
    panels = []
    for title, figures in PANELS.items():
        now, earlier = (
            {
                short: points
                for name, short in figures.items()
                if (points := [(size["chunks"], size[name]) for size in run if name in size])
            }
            for run in (sizes, before)
        )
        panels.append(Panel(title, now, {short: points for short, points in earlier.items() if short in now}))
    dashed = "; dashed: before" if before else ""
    return draw_panels(f"mdrecall by the number of chunks ({machine}{dashed})", panels)


if __name__ == "__main__":
    sys.exit(main())
