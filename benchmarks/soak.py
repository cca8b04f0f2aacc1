"""How it holds out: ``python -m benchmarks.soak --minutes 30``. Linux only: it looks at ``/proc``.

One ``mdrecall watch``, reader processes that search from several threads, and a writer that appends, saves, makes,
deletes and moves notes, each time planting a word that occurs nowhere else. Three phases: *idle* (searches only),
*busy* (searches and writes; every search first indexes what changed), *alone* (the same, but no search indexes
anything, so that what is found was seen by the watcher). At the end the index must be equal to a new one.

Exit code 1 if a limit is broken: any error, busy searches three times as slow as idle ones (p95), descriptors that
become more and more, memory that grows by a fifth from the second to the last quarter of the busy phase, an index that
differs.
"""

import argparse
import json
import multiprocessing
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import load
from benchmarks.load import Place
from benchmarks.measure import SETTLE_S
from benchmarks.notes import write_notes
from mdrecall.memory import Memory
from tests.reliability.content import digest_of, files_beside

IDLE_S, ALONE_S = 30.0, 15.0
SHARE = 0.1
SLOWER = 3.0
GROWTH = 0.2
BEYOND_DEBOUNCE_S = 0.5
# A thread that comes late opens the index for itself, once.
LATE_THREAD = 3
# What a search for words that may be in no note can say.
EXPECTED_REASONS = ("", "no_match", "below_min_score")


class Phases(NamedTuple):
    """How long each lasts, in seconds."""

    idle: float
    busy: float
    alone: float


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30, help="of all phases together, at least 1 (default: 30)")
    parser.add_argument("--files", type=int, default=20_000, help="how many notes there are (default: 20,000)")
    parser.add_argument("--writes-per-second", type=float, default=5, metavar="N", help="(default: 5)")
    parser.add_argument("--readers", type=int, default=4, help="threads that search, in all processes (default: 4)")
    parser.add_argument("--processes", type=int, default=2, help="that the readers are spread over (default: 2)")
    parser.add_argument("--searches-per-second", type=float, default=2, metavar="N", help="by each reader (default: 2)")
    parser.add_argument("--no-watch", action="store_true", help="without the watcher, and without the last phase")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure and sample here")
    options = parser.parse_args(arguments)
    if options.minutes < 1:
        parser.error("a soak takes a minute at least")
    scratch = Path(tempfile.mkdtemp(prefix="mdrecall-soak-"))
    try:
        figures = Soak(scratch, options).run()
    finally:
        shutil.rmtree(scratch)
    print_table(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if figures["broken"] else 0


class Soak:
    """One run: its folder, its processes, and what was seen of them."""

    def __init__(self, scratch: Path, options: argparse.Namespace) -> None:
        self._scratch = scratch
        self._options = options
        total = options.minutes * 60
        alone = 0.0 if options.no_watch else max(ALONE_S, total * SHARE)
        idle = max(IDLE_S, total * SHARE)
        self._phases = Phases(idle, total - idle - alone, alone)
        self._workspace = scratch / "workspace"
        self._env = {
            "HOME": str(scratch / "home"),
            "MDRECALL_STATE_DIR": str(scratch / "state"),
            "PATH": os.environ["PATH"],
        }
        self._place = Place(str(self._workspace), options.files, self._env, str(scratch / "records"))
        self._samples: list[dict[str, Any]] = []
        self._errors: list[str] = []
        self._events: Counter[str] = Counter()
        self._spawn = multiprocessing.get_context("spawn")

    def run(self) -> dict[str, Any]:
        options = self._options
        for name in ("home", "records"):
            (self._scratch / name).mkdir()
        self._say(f"making {options.files:,} notes")
        write_notes(self._workspace, options.files)
        time.sleep(SETTLE_S)
        self._say("indexing them")
        self._command("index")
        with Memory.open(self._workspace, env=self._env) as memory:
            self._index = Path(memory.settings.index_path)
            debounce_s = memory.settings.memory_search.sync.watch_debounce_ms / 1000
        with self._watching() as watch:
            times = self._load(watch)
            if watch:
                time.sleep(2 * debounce_s + 5)
        if options.no_watch:
            self._command("index")
        self._say("comparing the index with a new one")
        return self._figures(times, debounce_s, self._differences())

    def _load(self, watch: subprocess.Popen[bytes] | None) -> dict[str, tuple[float, float]]:
        """Let the phases pass; gives when each began and ended."""
        options, phases, spawn = self._options, self._phases, self._spawn
        begins = [spawn.Barrier(options.processes + 2) for _ in range(2)]
        writer = spawn.Process(
            target=load.write, args=(self._place, options.writes_per_second, tuple(phases), tuple(begins))
        )
        writer.start()
        always: dict[str, Any] = {"writer": writer, **({"watch": watch} if watch else {})}
        readers = self._readers(phases.idle + phases.busy, True, begins[0])
        begins[0].wait(300)
        began = time.time()
        self._say(f"idle for {phases.idle:.0f} s, then busy for {phases.busy:.0f} s")
        self._sample(always | readers, until=began + phases.idle + phases.busy)
        self._join(readers)
        times = {"idle": (began, began + phases.idle), "busy": (began + phases.idle, time.time())}
        if phases.alone:
            readers = self._readers(phases.alone, False, begins[1])
            begins[1].wait(300)
            began = time.time()
            self._say(f"the watcher alone for {phases.alone:.0f} s")
            self._sample(always | {f"{name}, alone": one for name, one in readers.items()}, began + phases.alone)
            self._join(readers)
            times["alone"] = (began, time.time())
        self._join({"writer": writer})
        return times

    def _readers(self, seconds: float, on_search: bool, begin: Any) -> dict[str, BaseProcess]:
        options, found = self._options, {}
        for number in range(options.processes):
            threads = options.readers // options.processes + (number < options.readers % options.processes)
            arguments = (self._place, threads, options.searches_per_second, seconds, on_search, begin)
            found[f"reader {number + 1}"] = self._spawn.Process(target=load.read, args=arguments)
            found[f"reader {number + 1}"].start()
        return dict(found)

    def _join(self, processes: dict[str, BaseProcess]) -> None:
        for name, process in processes.items():
            process.join(load.PATIENCE_S + 60)
            if process.exitcode != 0:
                self._errors.append(f"{name} ended with {process.exitcode}")
                process.kill()
                process.join()

    @contextmanager
    def _watching(self) -> Iterator[subprocess.Popen[bytes] | None]:
        """A watcher, ended as a person would end it; it must have had nothing to complain of."""
        if self._options.no_watch:
            yield None
            return
        out, complaints = self._scratch / "watch.out", self._scratch / "watch.err"
        with out.open("wb") as stdout, complaints.open("wb") as stderr:
            process = subprocess.Popen(
                self._recall("watch", "--json"), env=self._own_env(), stdout=stdout, stderr=stderr
            )
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
            self._errors += [f"watch: {event['error']}" for event in told if event.get("error")]
            self._errors += [f"watch: {event['failed']}" for event in told if event.get("failed")]
            self._errors += [f"watch: {line}" for line in complaints.read_text().splitlines()]

    def _recall(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "mdrecall", *arguments, "--workspace", str(self._workspace)]

    def _own_env(self) -> dict[str, str]:
        return self._env | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def _command(self, *arguments: str) -> None:
        subprocess.run(self._recall(*arguments), env=self._own_env(), check=True, capture_output=True, timeout=1800)

    def _sample(self, processes: dict[str, Any], until: float) -> None:
        """Look at every process and at the index, from time to time."""
        every = min(2.0, self._phases.busy / 60)
        while (now := time.time()) < until:
            seen = {name: _usage(process.pid) for name, process in processes.items()}
            sizes = {name: _size(f"{self._index}{suffix}") for name, suffix in (("index", ""), ("wal", "-wal"))}
            self._samples.append({"at": now, "processes": {name: one for name, one in seen.items() if one}, **sizes})
            time.sleep(every)

    def _differences(self) -> list[str]:
        """What of the index is not as in one that is made anew from the same notes."""
        left = files_beside(self._index)
        env = self._env | {"MDRECALL_STATE_DIR": str(self._scratch / "fresh")}
        with Memory.open(self._workspace, env=env) as memory:
            memory.sync()
            fresh = memory.settings.index_path
        found, wanted = digest_of(self._index), digest_of(fresh)
        names = sorted(found.keys() | wanted.keys())
        differing = [name for name in names if found.get(name) != wanted.get(name)]
        return differing + [f"{name} lies beside it" for name in left]

    def _figures(
        self, times: dict[str, tuple[float, float]], debounce_s: float, differences: list[str]
    ) -> dict[str, Any]:
        records = load.records(self._place)
        figures: dict[str, Any] = {
            "files": self._options.files,
            "seconds": self._phases._asdict(),
            "searches": {name: _searches(_during(records, "search", span)) for name, span in times.items()},
            "writes": Counter(record["how"] for record in records if record["what"] == "write"),
            "direct": _spread([record["seconds"] for record in records if record["what"] == "direct"]),
            "watched": _spread([record["seconds"] for record in records if record["what"] == "watched"]),
            "watched_limit": debounce_s + BEYOND_DEBOUNCE_S,
            "events": self._events,
            "processes": self._usages(times),
            "sizes": {name: _course([sample[name] for sample in self._samples]) for name in ("index", "wal")},
            "issues": Counter(_shape(record["issues"]) for record in records if "issues" in record),
            "errors": Counter(_shape(error) for error in self._errors + _errors(records)),
            "differences": differences,
        }
        figures["broken"] = _broken(figures)
        figures["samples"] = self._samples
        figures["traces"] = [record["trace"] for record in records if "trace" in record][:20]
        return figures

    def _usages(self, times: dict[str, tuple[float, float]]) -> dict[str, dict[str, Any]]:
        """By process: how memory and descriptors go through the quarters of the busy phase, or of its own."""
        names = dict.fromkeys(name for sample in self._samples for name in sample["processes"])
        found = {}
        for name in names:
            first, last = times["alone" if name.endswith("alone") else "busy"]
            seen = [
                sample["processes"][name]
                for sample in self._samples
                if name in sample["processes"] and first <= sample["at"] <= last
            ]
            quarters = [seen[len(seen) * n // 4 : len(seen) * (n + 1) // 4] for n in range(4)]
            if all(quarters):
                found[name] = {
                    "rss_mb": [round(statistics.mean(rss for rss, _ in quarter), 1) for quarter in quarters],
                    # Files are open for a moment while they are read; what is always open shows in the lowest count.
                    "descriptors": [min(descriptors for _, descriptors in quarter) for quarter in quarters],
                }
        return found

    def _say(self, what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _usage(pid: int) -> tuple[float, int] | None:
    """Megabytes of memory and open descriptors; nothing if the process is gone."""
    with suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(os.listdir(f"/proc/{pid}/fd"))
    return None


def _size(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_size
    return 0


def _during(records: list[dict[str, Any]], what: str, span: tuple[float, float]) -> list[dict[str, Any]]:
    return [record for record in records if record["what"] == what and span[0] <= record["at"] <= span[1]]


def _searches(records: list[dict[str, Any]]) -> dict[str, Any]:
    figures: dict[str, Any] = _spread([record["seconds"] for record in records])
    return figures | {"stale": sum("stale" in record for record in records)}


def _spread(seconds: list[float]) -> dict[str, Any]:
    ordered = sorted(seconds)
    count = len(ordered)
    shares = {"p50": 0.5, "p95": 0.95, "max": 1.0}
    found = {name: ordered[min(count - 1, int(count * share))] if ordered else None for name, share in shares.items()}
    return {"count": count, **found}


def _course(values: Sequence[int]) -> dict[str, int]:
    return {"first": values[0], "most": max(values), "last": values[-1]}


def _errors(records: list[dict[str, Any]]) -> list[str]:
    found = [record["error"] for record in records if record["what"] == "error"]
    for record in records:
        if "degraded" in record:
            found.append(f"degraded: {record['degraded']}")
        if record.get("reason", "") not in EXPECTED_REASONS:
            found.append(f"reason: {record['reason']}")
        if record["what"] == "watched" and not record["right"]:
            found.append(f"{record['how']}: not seen by the watcher in {load.PATIENCE_S:.0f} s")
        if record["what"] == "direct" and not record["right"] and "stale" not in record:
            found.append(f"{record['how']}: not seen by a direct search")
    return found


def _shape(text: str) -> str:
    """A message without folders and numbers, so that the same one is counted together."""
    return re.sub(r"\d+", "#", re.sub(r"/\S+/", "", text))[:200]


def _broken(figures: dict[str, Any]) -> list[str]:
    """The limits that were broken."""
    broken = []
    if errors := sum(figures["errors"].values()):
        broken.append(f"{errors} errors")
    idle, busy = (figures["searches"][phase]["p95"] for phase in ("idle", "busy"))
    if idle is None or busy is None or busy > SLOWER * idle:
        broken.append(f"busy searches take more than {SLOWER:.0f} times as long as idle ones")
    for name, usage in figures["processes"].items():
        if name.endswith("alone"):
            continue
        _, second, third, last = usage["descriptors"]
        if second < third < last or last - second > LATE_THREAD:
            broken.append(f"{name} has {last - second} more descriptors open at the end")
        _, begun, _, ended = usage["rss_mb"]
        if ended > begun * (1 + GROWTH):
            broken.append(f"{name} has grown from {begun} to {ended} MB")
    broken += [f"the index differs: {difference}" for difference in figures["differences"]]
    return broken


def print_table(figures: dict[str, Any]) -> None:
    seconds = ", ".join(f"{name} {value:.0f} s" for name, value in figures["seconds"].items() if value)
    print(f"\n{figures['files']:,} files; {seconds}\n")
    for name, one in figures["searches"].items():
        print(f"  {'search, ' + name:36}{_times(one)}   stale {one['stale']}")
    idle, busy = (figures["searches"][phase]["p95"] for phase in ("idle", "busy"))
    if idle and busy:
        print(f"  {'busy / idle, p95':36}{busy / idle:>10.2f} ×   (limit {SLOWER:.0f})")
    print(f"  {'write → found by a direct search':36}{_times(figures['direct'])}")
    if figures["watched"]["count"]:
        limit = f"   (debounce + {BEYOND_DEBOUNCE_S} s: {figures['watched_limit'] * 1000:.0f})"
        print(f"  {'write → seen by the watcher alone':36}{_times(figures['watched'])}{limit}")
    for name, key in (("writes", "writes"), ("events of the watcher", "events")):
        print(f"  {name:36}{', '.join(f'{count:,} {what}' for what, count in sorted(figures[key].items()))}")
    for name, course in figures["sizes"].items():
        megabytes = ", ".join(f"{when} {value / 1e6:.1f}" for when, value in course.items())
        print(f"  {'MB of the ' + name:36}{megabytes}")
    for name, usage in figures["processes"].items():
        for what, quarters in usage.items():
            print(f"  {name + ', ' + what:36}{' '.join(f'{value:>8}' for value in quarters)}   by quarters")
    for kind in ("issues", "errors"):
        print(f"  {kind:36}{sum(figures[kind].values()):>10}")
        for text, count in figures[kind].items():
            print(f"    {count:>6} × {text}")
    print(f"  {'the index equals a new one':36}{'no' if figures['differences'] else 'yes':>10}")
    print("\n" + ("\n".join(f"BROKEN: {limit}" for limit in figures["broken"]) or "Every limit was held."))


def _times(figures: dict[str, Any]) -> str:
    if not figures["count"]:
        return "         –"
    values = "   ".join(f"{name} {figures[name] * 1000:>7.1f} ms" for name in ("p50", "p95", "max"))
    return f"{values}   of {figures['count']:,}"


if __name__ == "__main__":
    sys.exit(main())
