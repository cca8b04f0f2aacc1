"""Notes of odd shapes and sizes are indexed one after the other in a process of its own, whose memory is measured."""

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, product
from pathlib import Path
from queue import SimpleQueue
from string import ascii_lowercase, digits
from typing import NamedTuple

from mdrecall.memory import Memory
from tests.conftest import Workspace

#: What indexing may take, interpreter and tables included.
MOST_MB = 300
#: What `mdrecall.maxFileBytes` is by default.
LARGEST = 32 * 1024 * 1024

_RARE = "zqwbbkk"
# A note is indexed in pieces of at most so many characters, so a larger one takes its text and no more beside that.
_LARGE = 4_000_000


def _repeat(text: str) -> Callable[[int], str]:
    return lambda size: text * (size // len(text.encode()))


def _distinct_words(size: int) -> str:
    words = map("".join, product(ascii_lowercase + digits, repeat=5))
    return " ".join(word for word, _ in zip(words, range(size // 6), strict=False))


SHAPES: dict[str, Callable[[int], str]] = {
    "long heading": lambda size: f"# {'w ' * (size // 4)}\n" + "short line\n" * (size // 22),
    "long underlined heading": lambda size: f"{'w ' * (size // 4)}\n====\n\n" + "short line\n" * (size // 22),
    "nested long headings": lambda size: "\n".join(
        f"{'#' * level} {'w ' * (size // 24)}\n" + "short line\n" * (size // 132) for level in range(1, 7)
    ),
    "headings": _repeat("# h\n"),
    "long fence": lambda size: "`" * (size // 2) + "\n" + "code\n" * (size // 10),
    "lines": _repeat("a\n"),
    "one line": _repeat("word "),
    "no blanks": _repeat("x"),
    "blank lines": _repeat("\n"),
    "list": _repeat("- a\n"),
    "table": lambda size: "\n".join(cell * (size // 9) for cell in ("|a|", "|-|", "|b|")),
    "table of rows": _repeat("| a | b |\n"),
    "distinct words": _distinct_words,
    "names": lambda size: " ".join(f"a-{number}" for number in range(size // 10)),
    "long names": lambda size: " ".join("a-" * 50 + str(number) for number in range(size // 108)),
    "Chinese": _repeat("深色模式"),
    "emoji": _repeat("🦭 "),
    "prose with emoji": _repeat("word " * 300 + "🦭\n"),
    "letters that unfold": _repeat("\ufdfa "),
}


class Outcome(NamedTuple):
    """How the indexing of one note went."""

    shape: str
    size: int
    seconds: float
    peak_mb: int
    """The most memory that the process has had while it indexed the note; where that cannot be told, up to now."""
    problem: str

    @property
    def is_bad(self) -> bool:
        return bool(self.problem) or self.peak_mb > MOST_MB


def pick(count: int, seed: int, largest: int) -> list[tuple[str, int]]:
    """Return shapes with sizes: each shape once as large as it can be, then any size up to a thirtieth of that.

    The sizes are as likely small as large. More of the largest ones would take hours and reach nothing else: a long
    note is indexed in pieces.
    """
    chance = random.Random(seed)
    names = list(SHAPES)
    drawn = [int(100 * (largest / 3000) ** chance.random()) for _ in range(count - len(names))]
    # A shape may be a few bytes longer than it was asked to be.
    return [*((name, largest - largest // 1000) for name in names), *zip(cycle(names), drawn, strict=False)][:count]


def index_all(notes: list[tuple[str, int]], jobs: int = 1) -> Iterator[Outcome]:
    """Index notes in other processes, so many at a time, and yield how each went as soon as it is done."""
    done: SimpleQueue[Outcome | Exception] = SimpleQueue()
    # The large ones go first and to different processes, so that all are done at about the same time.
    ordered = sorted(notes, key=lambda note: -note[1])
    parts = [ordered[start::jobs] for start in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        for part in parts:
            pool.submit(_index_part, part, done)
        for _ in notes:
            outcome = done.get()
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome


def _index_part(notes: list[tuple[str, int]], done: "SimpleQueue[Outcome | Exception]") -> None:
    """Index notes in one process, or in the next one if it dies."""
    told = 0
    try:
        while told < len(notes):
            # What a process keeps of eight of the largest notes (150 MB, in bounded caches and in the allocator) says
            # nothing about the next one, so each of these has a process of its own.
            is_large = notes[told][1] > _LARGE
            for outcome in _index_in_child(notes[told : told + 1] if is_large else notes[told:]):
                told += 1
                done.put(outcome)
    except Exception as error:
        done.put(error)


def _index_in_child(notes: list[tuple[str, int]]) -> Iterator[Outcome]:
    lines = "".join(f"{shape}:{size}\n" for shape, size in notes)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tests.reliability.sizes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(lines)
        child.stdin.close()
        told = 0
        for line, (shape, size) in zip(child.stdout, notes, strict=False):
            seconds, peak, problem = line.rstrip("\n").split("\t")
            told += 1
            yield Outcome(shape, size, float(seconds), int(peak), problem)
    if told < len(notes):
        yield Outcome(*notes[told], 0.0, 0, f"the process ended with {child.returncode}")


def _index(memory: Memory) -> str:
    """Index a note beside a small one, and return what went wrong."""
    report = memory.sync()
    found = {result.path for result in memory.search(_RARE)}
    problems = [*map(str, report.failed), *map(str, report.issues)]
    return "; ".join(problems) or ("" if "memory/small.md" in found else "the small note was not found")


def _forget_peak() -> None:
    """Let the peak begin again at what the process has now: writing a note takes memory of its own."""
    if (forget := Path("/proc/self/clear_refs")).exists():
        forget.write_text("5")


def _peak_mb() -> int:
    """Return the most memory of this program; ``ru_maxrss`` would count that of the one it was forked from."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "linux" else 1 << 20)


def _main() -> None:
    with tempfile.TemporaryDirectory(prefix="mdrecall-sizes-") as scratch:
        workspace = Workspace(Path(scratch))
        workspace.write("memory/small.md", f"{_RARE} is here")
        memory = workspace.memory()
        for line in sys.stdin:
            shape, size = line.rsplit(":", 1)
            workspace.write("memory/note.md", SHAPES[shape](int(size)))
            _forget_peak()
            began = time.monotonic()
            problem = _index(memory)
            peak = _peak_mb()
            print(f"{time.monotonic() - began:.2f}", peak, problem.replace("\n", " "), sep="\t", flush=True)
        workspace.close()


if __name__ == "__main__":
    _main()
