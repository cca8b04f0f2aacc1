"""How it holds out: ``python -m benchmarks.soak --minutes 30``. Linux only: it looks at ``/proc``.

One ``mdrecall watch``, reader processes that search from several threads, and a writer that appends, saves, makes,
deletes and moves notes, each time planting a word that occurs nowhere else. Three phases: *idle* (searches only),
*busy* (searches and writes; every search first indexes what changed), *alone* (the same, but no search indexes
anything, so that what is found was seen by the watcher). At the end the index must be equal to a new one.

The time of a search is the CPU time of its thread; how long a change takes to be found is the time on the clock.

Exit code 1 if a limit is broken: any error, busy searches that take three times as much as idle ones (p95), descriptors
that become more and more, memory that grows by a fifth from the second to the last quarter of the busy phase, an index
that differs.
"""

import argparse
import json
import multiprocessing
import os
import queue
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import IO, Any, NamedTuple

from benchmarks.measure import (
    Workspace,
    describe_machine,
    format_table,
    make_workspace,
    resident_mb,
    spread,
    write_json,
)
from benchmarks.notes import make_questions, make_sentences
from mdrecall.memory import Memory
from mdrecall.types.search import SearchAnswer
from tests.reliability.content import digest_of, files_beside

IDLE_S, ALONE_S, SHARE = 30.0, 15.0, 0.1
SLOWER, GROWTH = 3.0, 0.2
# A thread that comes late opens the index for itself, once.
LATE_THREAD = 3
# What a search for words that may be in no note can say.
EXPECTED_REASONS = ("", "no_match", "below_min_score")
# How often the writer stops to look for the word it has just written.
PROBE_EVERY_S = 2.0
# A word that the watcher has not made visible after this long counts as an error.
PATIENCE_S = 20.0
_LOOK_EVERY_S = 0.02
_START_S = 300


class Phases(NamedTuple):
    """How long each lasts, in seconds."""

    idle: float
    busy: float
    alone: float


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="of all phases together, at least 1 (default: 30)")
    parser.add_argument("--notes", type=int, default=20_000, help="how many there are (default: 20,000)")
    parser.add_argument("--writes-per-second", type=float, default=5, metavar="N", help="(default: 5)")
    parser.add_argument("--readers", type=int, default=4, help="threads that search, in two processes (default: 4)")
    parser.add_argument("--searches-per-second", type=float, default=2, metavar="N", help="by each reader (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure and sample here")
    options = parser.parse_args(arguments)
    if options.minutes < 1:
        parser.error("a soak takes a minute at least")
    with make_workspace(options.notes) as workspace:
        figures = Soak(workspace, options).run()
    print_figures(figures)
    write_json(options.json, figures)
    return 1 if figures["broken"] else 0


class Record:
    """A file of JSON lines, one for each thing that happened."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._lock = threading.Lock()

    def note(self, **what: object) -> None:
        line = json.dumps({"at": time.time()} | {name: value for name, value in what.items() if value != ""})
        with self._lock:
            self._file.write(line + "\n")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Write down what goes wrong inside, and go on."""
        try:
            yield
        except Exception as error:
            self.note(what="error", error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


@contextmanager
def _recording(workspace: Workspace) -> Iterator[Record]:
    with (workspace.base / "records" / f"{os.getpid()}.jsonl").open("a", buffering=1) as file:
        yield Record(file)


def _open(workspace: Workspace, *, on_search: bool) -> Memory:
    return Memory.open(workspace.notes, env=workspace.env, overrides={"sync.onSearch": on_search})


def read(
    workspace: Workspace, options: argparse.Namespace, threads: int, seconds: float, on_search: bool, begin: Barrier
) -> None:
    """Search from several threads, each so many times a second."""
    with _recording(workspace) as record, _open(workspace, on_search=on_search) as memory:

        def search(number: int) -> None:
            draw = random.Random(f"{os.getpid()} {number}")
            questions = make_questions(workspace.notes, options.notes, draw.getrandbits(64))
            end = time.monotonic() + seconds
            while (now := time.monotonic()) < end:
                # What was missed is not made up for.
                due = min(end, now + draw.uniform(0, 2 / options.searches_per_second))
                time.sleep(due - now)
                with record.errors():
                    question, began = next(questions), time.thread_time()
                    answer = memory.search(question)
                    record.note(what="search", seconds=time.thread_time() - began, **_describe(answer))

        memory.search("warm up")
        begin.wait(_START_S)
        running = [threading.Thread(target=search, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()


def _describe(answer: SearchAnswer) -> dict[str, object]:
    """Return what an answer says besides its results; nothing, if all is well."""
    return {
        "reason": answer.reason,
        "degraded": answer.degraded,
        "stale": getattr(answer, "stale", ""),
        "issues": "; ".join(f"{path} {problem}" for path, problem in answer.issues),
    }


def write(workspace: Workspace, pace: float, phases: Phases, begins: tuple[Barrier, Barrier]) -> None:
    """Do nothing, then write and search for what was written, then write and wait until the watcher has seen it."""
    writer = Writer(workspace.notes)
    with _recording(workspace) as record:
        with _open(workspace, on_search=True) as memory:
            memory.search("warm up")
            begins[0].wait(_START_S)
            time.sleep(phases.idle)
            _write_on(writer, pace, phases.busy, record, _Prober(memory, record).look)
        with _open(workspace, on_search=False) as memory:
            lookout = _Lookout(memory, record, writer)
            begins[1].wait(_START_S)
            _write_on(writer, pace, phases.alone, record, lookout.offer)
            lookout.close()


class Written(NamedTuple):
    """One change to the notes."""

    how: str
    path: str
    word: str
    """A word that the note now has and no other; of a note that is deleted, one that it had."""


def _write_on(
    writer: "Writer", pace: float, seconds: float, record: Record, then: Callable[[Written, float], None]
) -> None:
    """Write so many times a second; what was missed is made up for."""
    began = time.monotonic()
    number = 0
    while (now := time.monotonic()) < began + seconds:
        time.sleep(max(0.0, began + number / pace - now))
        number += 1
        with record.errors():
            written = writer.write()
            record.note(what="write", how=written.how)
            then(written, time.perf_counter())


class Writer:
    """Changes notes as people and programs do, planting a word that occurs nowhere else."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._folder = workspace / "memory" / "soak"
        self._draw = random.Random(1)
        self._planted = 0
        self._made = 0
        self._old = sorted(path.relative_to(workspace).as_posix() for path in workspace.rglob("*.md"))
        self._own: dict[str, str] = {}
        self._sentences = make_sentences(1)
        self.held = ""
        """A note that is neither deleted nor moved."""

    def write(self) -> Written:
        ways = {self._append: 40, self._save: 25, self._make: 19, self._delete: 15, self._move_folder: 1}
        (way,) = self._draw.choices(list(ways), list(ways.values()))
        return way() or self._make()

    def _append(self) -> Written:
        path, line, word = self._any_note(), *self._line()
        with (self._workspace / path).open("a") as file:
            file.write(line)
        return self._wrote("append", path, word)

    def _save(self) -> Written:
        """As an editor does: a new file takes the place of the old one."""
        path, line, word = self._any_note(), *self._line()
        target = self._workspace / path
        aside = target.with_name(f".{target.name}.tmp")
        aside.write_text(target.read_text() + line)
        aside.replace(target)
        return self._wrote("save", path, word)

    def _make(self) -> Written:
        self._made += 1
        path = f"memory/soak/{self._made % 10}/note-{self._made}.md"
        target = self._workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        line, word = self._line()
        others = "".join(self._line()[0] for _ in range(self._draw.randint(0, 30)))
        target.write_text(f"# Note {self._made}\n\n{others}{line}")
        self._own[path] = word
        return self._wrote("make", path, word)

    def _delete(self) -> Written | None:
        own = [path for path in self._own if path != self.held]
        if len(own) < 20:
            return None
        path = self._draw.choice(own)
        (self._workspace / path).unlink()
        return Written("delete", path, self._own.pop(path))

    def _move_folder(self) -> Written | None:
        """Every note of a folder is elsewhere at once."""
        folders = [path for path in self._folder.iterdir() if not self.held.startswith(self._shown(path) + "/")]
        if not self._own or not folders:
            return None
        folder = self._draw.choice(sorted(folders))
        self._planted += 1
        target = folder.with_name(f"{folder.name.partition('-')[0]}-{self._planted}")
        before, after = self._shown(folder) + "/", self._shown(target) + "/"
        folder.rename(target)
        inside = [path for path in self._own if path.startswith(before)]
        for path in inside:
            self._own[after + path.removeprefix(before)] = self._own.pop(path)
        if not inside:
            return None
        path = after + inside[-1].removeprefix(before)
        return Written("move", path, self._own[path])

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._workspace).as_posix()

    def _wrote(self, how: str, path: str, word: str) -> Written:
        if path in self._own:
            self._own[path] = word
        return Written(how, path, word)

    def _any_note(self) -> str:
        return (
            self._draw.choice(list(self._own))
            if self._own and self._draw.random() < 0.3
            else self._draw.choice(self._old)
        )

    def _line(self) -> tuple[str, str]:
        self._planted += 1
        word = f"planted{self._planted:07d}"
        return f"- {next(self._sentences)} {word}\n", word


class _Prober:
    """Searches at once for what has just been written, once in a while."""

    def __init__(self, memory: Memory, record: Record) -> None:
        self._memory = memory
        self._record = record
        self._due = 0.0

    def look(self, written: Written, at: float) -> None:
        if at < self._due:
            return
        self._due = at + PROBE_EVERY_S
        answer = self._memory.search(written.word)
        found = any(result.path == written.path for result in answer)
        seconds = time.perf_counter() - at
        told = _describe(answer) | {"reason": ""}
        right = found != (written.how == "delete")
        self._record.note(what="direct", how=written.how, seconds=seconds, right=right, **told)


class _Lookout:
    """Waits, with a search that indexes nothing itself, until a written word is found; one word at a time."""

    def __init__(self, memory: Memory, record: Record, writer: Writer) -> None:
        self._memory = memory
        self._record = record
        self._writer = writer
        self._offered: queue.Queue[tuple[Written, float] | None] = queue.Queue()
        self._free = threading.Event()
        self._free.set()
        memory.search("warm up", mode="keyword")
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def offer(self, written: Written, at: float) -> None:
        if self._free.is_set():
            self._free.clear()
            self._writer.held = written.path
            self._offered.put((written, at))

    def close(self) -> None:
        self._offered.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._offered.get()) is not None:
            with self._record.errors():
                self._await(*item)
            self._free.set()

    def _await(self, written: Written, at: float) -> None:
        seen, wanted = None, written.how != "delete"
        while seen is not wanted and time.perf_counter() < at + PATIENCE_S:
            time.sleep(_LOOK_EVERY_S)
            answer = self._memory.search(written.word, mode="keyword")
            seen = any(result.path == written.path for result in answer)
        seconds = time.perf_counter() - at
        self._record.note(what="watched", how=written.how, seconds=seconds, right=seen is wanted)


class Soak:
    """One run: its notes, its processes, and what was seen of them."""

    def __init__(self, workspace: Workspace, options: argparse.Namespace) -> None:
        self._workspace, self._options = workspace, options
        total = options.minutes * 60
        idle, alone = max(IDLE_S, total * SHARE), max(ALONE_S, total * SHARE)
        self._phases = Phases(idle, total - idle - alone, alone)
        self._samples: list[dict[str, Any]] = []
        self._errors: list[str] = []
        self._events: Counter[str] = Counter()
        self._spawn = multiprocessing.get_context("spawn")

    def run(self) -> dict[str, Any]:
        """Return the figures of all phases."""
        (self._workspace.base / "records").mkdir()
        self._say("indexing")
        self._workspace.run("index")
        with Memory.open(self._workspace.notes, env=self._workspace.env) as memory:
            self._index = Path(memory.settings.index_path)
            debounce_s = memory.settings.memory_search.sync.watch_debounce_ms / 1000
        with self._watching() as watch:
            times = self._load(watch)
            time.sleep(2 * debounce_s + 5)
        self._say("comparing the index with a new one")
        return self._figures(times, self._differences())

    def _load(self, watch: subprocess.Popen[bytes]) -> dict[str, tuple[float, float]]:
        """Let the phases pass, and return when each began and ended."""
        phases, spawn = self._phases, self._spawn
        begins = [spawn.Barrier(4) for _ in range(2)]
        arguments = (self._workspace, self._options.writes_per_second, phases, tuple(begins))
        writer = spawn.Process(target=write, args=arguments)
        writer.start()
        always = {"writer": writer, "watch": watch}
        readers = self._start_readers(phases.idle + phases.busy, True, begins[0])
        began = self._begin(begins[0], f"idle for {phases.idle:.0f} s, then busy for {phases.busy:.0f} s")
        self._sample(always | readers, until=began + phases.idle + phases.busy)
        self._join(readers)
        times = {"idle": (began, began + phases.idle), "busy": (began + phases.idle, time.time())}
        readers = self._start_readers(phases.alone, False, begins[1])
        began = self._begin(begins[1], f"the watcher alone for {phases.alone:.0f} s")
        self._sample(always | {f"{name}, alone": one for name, one in readers.items()}, began + phases.alone)
        self._join(readers | {"writer": writer})
        return times | {"alone": (began, time.time())}

    def _begin(self, barrier: Any, what: str) -> float:
        barrier.wait(_START_S)
        self._say(what)
        return time.time()

    def _start_readers(self, seconds: float, on_search: bool, begin: Any) -> dict[str, BaseProcess]:
        readers: dict[str, BaseProcess] = {}
        for number, threads in enumerate((self._options.readers // 2, (self._options.readers + 1) // 2), start=1):
            arguments = (self._workspace, self._options, threads, seconds, on_search, begin)
            readers[f"reader {number}"] = self._spawn.Process(target=read, args=arguments)
            readers[f"reader {number}"].start()
        return readers

    def _join(self, processes: dict[str, BaseProcess]) -> None:
        for name, process in processes.items():
            process.join(PATIENCE_S + 60)
            if process.exitcode != 0:
                self._errors.append(f"{name} ended with {process.exitcode}")
                process.kill()
                process.join()

    @contextmanager
    def _watching(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run a watcher, and end it as a person would; it must have had nothing to complain of."""
        out, complaints = self._workspace.base / "watch.out", self._workspace.base / "watch.err"
        with out.open("wb") as stdout, complaints.open("wb") as stderr:
            command = self._workspace.command("watch", "--json")
            process = subprocess.Popen(command, env=self._workspace.env, stdout=stdout, stderr=stderr)
        try:
            patience = time.monotonic() + 60
            while not out.stat().st_size and process.poll() is None and time.monotonic() < patience:
                time.sleep(0.05)
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            if (code := process.wait(30)) != 0:
                self._errors.append(f"watch ended with {code}")
        finally:
            process.kill()
            process.wait()
            told = [json.loads(line) for line in out.read_text().splitlines()]
            self._events = Counter(event["event"] for event in told)
            problems = [event[kind] for event in told for kind in ("error", "failed") if event.get(kind)]
            self._errors += [f"watch: {problem}" for problem in (*problems, *complaints.read_text().splitlines())]

    def _sample(self, processes: dict[str, Any], until: float) -> None:
        """Look at every process and at the index, from time to time."""
        every = min(2.0, self._phases.busy / 60)
        while (now := time.time()) < until:
            seen = {name: _look_at(process.pid) for name, process in processes.items()}
            sizes = {name: _size(f"{self._index}{suffix}") for name, suffix in (("index", ""), ("wal", "-wal"))}
            self._samples.append({"at": now, "processes": {name: one for name, one in seen.items() if one}, **sizes})
            time.sleep(every)

    def _differences(self) -> list[str]:
        """Return what of the index is not as in one that is made anew from the same notes."""
        left = files_beside(self._index)
        env = self._workspace.env | {"MDRECALL_STATE_DIR": str(self._workspace.base / "fresh")}
        with Memory.open(self._workspace.notes, env=env) as memory:
            memory.sync()
            fresh = memory.settings.index_path
        found, wanted = digest_of(self._index), digest_of(fresh)
        differing = [name for name in sorted(found.keys() | wanted.keys()) if found.get(name) != wanted.get(name)]
        return differing + [f"{name} lies beside it" for name in left]

    def _figures(self, times: dict[str, tuple[float, float]], differences: list[str]) -> dict[str, Any]:
        paths = sorted((self._workspace.base / "records").glob("*.jsonl"))
        records = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
        searches = [record for record in records if record["what"] == "search"]
        during = {
            phase: [record for record in searches if first <= record["at"] <= last]
            for phase, (first, last) in times.items()
        }
        figures: dict[str, Any] = {
            "notes": self._options.notes,
            "seconds": self._phases._asdict(),
            "times": {f"search, {phase}, CPU": _times(own) for phase, own in during.items()}
            | {
                what: _times([record for record in records if record["what"] == what]) for what in ("direct", "watched")
            },
            "stale": {phase: sum("stale" in record for record in own) for phase, own in during.items()},
            "writes": Counter(record["how"] for record in records if record["what"] == "write"),
            "events": self._events,
            "processes": self._usages(times),
            "index, most MB": max(sample["index"] for sample in self._samples) / 1e6,
            "wal, most MB": max(sample["wal"] for sample in self._samples) / 1e6,
            "issues": Counter(_shape(record["issues"]) for record in records if "issues" in record),
            "errors": Counter(_shape(error) for error in self._errors + _errors(records)),
            "differences": differences,
        }
        traces = [record["trace"] for record in records if "trace" in record][:20]
        return figures | {"broken": _broken(figures), "samples": self._samples, "traces": traces}

    def _usages(self, times: dict[str, tuple[float, float]]) -> dict[str, dict[str, Any]]:
        """Return how memory and descriptors go through the quarters of the busy phase, or of the process's own."""
        found = {}
        for name in dict.fromkeys(name for sample in self._samples for name in sample["processes"]):
            first, last = times["alone" if name.endswith("alone") else "busy"]
            seen = [
                sample["processes"][name]
                for sample in self._samples
                if name in sample["processes"] and first <= sample["at"] <= last
            ]
            quarters = [seen[len(seen) * n // 4 : len(seen) * (n + 1) // 4] for n in range(4)]
            if all(quarters):
                found[name] = {
                    "MB": [round(statistics.mean(memory for memory, _ in quarter), 1) for quarter in quarters],
                    # Files are open for a moment while they are read; what is always open shows in the lowest count.
                    "descriptors": [min(descriptors for _, descriptors in quarter) for quarter in quarters],
                }
        return found

    def _say(self, what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _look_at(pid: int) -> tuple[float, int] | None:
    """Return the memory and the open descriptors of a process; nothing if it is gone."""
    with suppress(OSError):
        return resident_mb(pid), len(os.listdir(f"/proc/{pid}/fd"))
    return None


def _size(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_size
    return 0


def _times(records: list[dict[str, Any]]) -> dict[str, Any]:
    taken = [1000 * record["seconds"] for record in records]
    return {"count": len(taken), **(spread(taken)._asdict() | {"most": max(taken)} if taken else {})}


def _errors(records: list[dict[str, Any]]) -> list[str]:
    found = [record["error"] for record in records if record["what"] == "error"]
    for record in records:
        if "degraded" in record:
            found.append(f"degraded: {record['degraded']}")
        if record.get("reason", "") not in EXPECTED_REASONS:
            found.append(f"reason: {record['reason']}")
        if record["what"] == "watched" and not record["right"]:
            found.append(f"{record['how']}: not seen by the watcher in {PATIENCE_S:.0f} s")
        if record["what"] == "direct" and not record["right"] and "stale" not in record:
            found.append(f"{record['how']}: not seen by a direct search")
    return found


def _shape(text: str) -> str:
    """Return a message without folders and numbers, so that the same one is counted together."""
    return re.sub(r"\d+", "#", re.sub(r"/\S+/", "", text))[:200]


def _broken(figures: dict[str, Any]) -> list[str]:
    """Return the limits that were broken."""
    broken = []
    if errors := sum(figures["errors"].values()):
        broken.append(f"{errors} errors")
    idle, busy = (figures["times"][f"search, {phase}, CPU"].get("p95") for phase in ("idle", "busy"))
    if idle is None or busy is None or busy > SLOWER * idle:
        broken.append(f"busy searches take more than {SLOWER:.0f} times as much as idle ones")
    for name, usage in figures["processes"].items():
        if name.endswith("alone"):
            continue
        _, second, third, last = usage["descriptors"]
        if second < third < last or last - second > LATE_THREAD:
            broken.append(f"{name} has {last - second} more descriptors open at the end")
        _, begun, _, ended = usage["MB"]
        if ended > begun * (1 + GROWTH):
            broken.append(f"{name} has grown from {begun} to {ended} MB")
    broken += [f"the index differs: {difference}" for difference in figures["differences"]]
    return broken


def print_figures(figures: dict[str, Any]) -> None:
    """Print the times, what happened, and how the processes went on."""
    seconds = ", ".join(f"{name} {value:.0f} s" for name, value in figures["seconds"].items())
    print(f"{figures['notes']:,} notes; {seconds}; {describe_machine()}\n")
    rows = []
    for name, own in figures["times"].items():
        cells = [f"{own[each]:,.1f} ms" if each in own else "–" for each in ("median", "p95", "most")]
        rows.append([name, f"{own['count']:,}", *cells])
    print(format_table(("", "count", "median", "p95", "most"), rows) + "\n")
    rows = [
        [f"{name}, {what}", *map(str, quarters)]
        for name, usage in figures["processes"].items()
        for what, quarters in usage.items()
    ]
    print(format_table(("by quarters", "1", "2", "3", "4"), rows) + "\n")
    for name in ("stale", "writes", "events", "issues", "errors"):
        print(f"{name}: {', '.join(f'{count:,} {what}' for what, count in sorted(figures[name].items())) or 'none'}")
    print(f"index at most {figures['index, most MB']:.1f} MB, its log {figures['wal, most MB']:.1f} MB")
    print("\n".join(f"BROKEN: {limit}" for limit in figures["broken"]) or "Every limit was held.")


if __name__ == "__main__":
    sys.exit(main())
