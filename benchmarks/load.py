"""What the processes of a soak do: readers search, a writer writes and looks whether its words are found."""

import json
import os
import queue
import random
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import IO, Any, NamedTuple

from benchmarks.notes import make_questions, make_sentences
from mdrecall.memory import Memory
from mdrecall.types.search import SearchAnswer

# How often the writer stops to look for the word it has just written.
PROBE_EVERY_S = 2.0
# A word that the watcher has not made visible after this long counts as an error.
PATIENCE_S = 20.0
_LOOK_EVERY_S = 0.02
_START_S = 300


class Place(NamedTuple):
    """Where a soak happens."""

    workspace: str
    notes: int
    """How many notes there are to ask about."""
    env: dict[str, str]
    records: str
    """The folder that every process writes its record into."""


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
        """What goes wrong inside is written down, and the work goes on."""
        try:
            yield
        except Exception as error:
            self.note(what="error", error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


def records(place: Place) -> list[dict[str, Any]]:
    """Everything that was written down so far."""
    paths = sorted(Path(place.records).glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@contextmanager
def _recording(place: Place) -> Iterator[Record]:
    with (Path(place.records) / f"{os.getpid()}.jsonl").open("a", buffering=1) as file:
        yield Record(file)


def _open(place: Place, on_search: bool) -> Memory:
    return Memory.open(place.workspace, env=place.env, overrides={"sync.onSearch": on_search})


def read(place: Place, threads: int, pace: float, seconds: float, on_search: bool, begin: Barrier) -> None:
    """Search from several threads, each so many times a second."""
    with _recording(place) as record, _open(place, on_search) as memory:

        def search(number: int) -> None:
            draw = random.Random(f"{os.getpid()} {number}")
            questions = make_questions(Path(place.workspace), place.notes, draw.getrandbits(64))
            for _, query in zip(_paced(pace, seconds, draw), questions, strict=False):
                with record.errors():
                    began = time.perf_counter()
                    answer = memory.search(query)
                    record.note(what="search", seconds=time.perf_counter() - began, **_told(answer))

        memory.search("warm up")
        begin.wait(_START_S)
        running = [threading.Thread(target=search, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()


def _told(answer: SearchAnswer) -> dict[str, object]:
    """What an answer says besides its results; nothing, if all is well."""
    return {
        "reason": answer.reason,
        "degraded": answer.degraded,
        "stale": getattr(answer, "stale", ""),
        "issues": "; ".join(f"{path} {problem}" for path, problem in answer.issues),
    }


def _paced(pace: float, seconds: float, draw: random.Random) -> Iterator[None]:
    """So many times a second, with some irregularity; what was missed is not made up for."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        due = now + draw.uniform(0, 2 / pace)
        time.sleep(max(0.0, min(due, end) - now))
        if due < end:
            yield


def write(place: Place, pace: float, phases: tuple[float, float, float], begins: tuple[Barrier, Barrier]) -> None:
    """Do nothing, then write and search for what was written, then write and wait until the watcher has seen it."""
    idle, busy, alone = phases
    writer = Writer(Path(place.workspace))
    with _recording(place) as record:
        with _open(place, on_search=True) as memory:
            memory.search("warm up")
            begins[0].wait(_START_S)
            time.sleep(idle)
            prober = _Prober(memory, record)
            _write_on(writer, pace, busy, record, prober.look)
        if alone:
            with _open(place, on_search=False) as memory:
                lookout = _Lookout(memory, record, writer)
                begins[1].wait(_START_S)
                _write_on(writer, pace, alone, record, lookout.offer)
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
    """So many writes a second; what was missed is made up for."""
    began = time.monotonic()
    number = 0
    while (now := time.monotonic()) < began + seconds:
        if now < began + number / pace:
            time.sleep(began + number / pace - now)
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
        told = _told(answer) | {"reason": ""}
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
