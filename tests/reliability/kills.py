"""Commands are killed in the middle of their work, again and again; what each kill leaves behind is looked at."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import apsw

from mdrecall.errors import RecallError
from mdrecall.memory import Memory
from tests.conftest import Workspace
from tests.reliability.content import Content, content_of, files_beside, fresh_content

NOTES = 36
DEBOUNCE_MS = 50
NOTHING = Content([], [], [], {})

# A command that does nothing for this long has done what there was to do.
_QUIET_S = 0.5
_PATIENCE_S = 30.0
_LOOK_EVERY_S = 0.0001
# A kill that aims at a write comes at most so much after it.
_CLOSE_S = 0.002

Traces: TypeAlias = dict[str, tuple[int, int]]


class Kind(NamedTuple):
    """A command to kill."""

    name: str
    arguments: tuple[str, ...]
    at_once: bool = False
    """Whether its whole work must be seen, or nothing of it; else every document by itself."""
    from_nothing: bool = False
    """Whether there is no index when it begins."""
    stays: bool = False
    """Whether it runs until it is ended; a note is written meanwhile."""


# Without the encoder, whose work takes most of the time: tests/engine/test_encoder_beside.py kills it.
KINDS = {
    kind.name: kind
    for kind in (
        Kind("index", ("index", "--no-wait")),
        Kind("first index", ("index", "--no-wait"), from_nothing=True),
        Kind("rebuild", ("index", "--force", "--no-wait"), at_once=True),
        Kind("watch", ("watch",), stays=True),
    )
}


class Kill(NamedTuple):
    """What one kill left behind."""

    kind: str
    moment: str
    alive: bool
    """Whether there was still somebody to kill."""
    at_work: bool
    """Whether the index's folder had been touched by then."""
    left: tuple[str, ...]
    """Files beside the index that the next sync had to deal with."""
    failed: str = ""
    """What a command that ended by itself had to say, if it ended badly."""
    torn: str = ""
    """What was wrong with the index before anybody else had opened it."""
    behind: str = ""
    """What was wrong with it after the next sync."""
    lost: tuple[str, ...] = ()
    """Notes that are not as they were written, or not in the index after the next sync."""
    orphans: tuple[str, ...] = ()
    """Files beside the index after the next sync."""

    @property
    def problems(self) -> list[str]:
        lost = f"{len(self.lost)} notes lost: {', '.join(self.lost)}" if self.lost else ""
        orphans = f"left lying about: {', '.join(self.orphans)}" if self.orphans else ""
        found = (self.failed, self.torn, self.behind, lost, orphans)
        return [f"{self.kind}, killed {self.moment}: {problem}" for problem in found if problem]


class Pace(NamedTuple):
    """How a command goes when nobody kills it."""

    start: float
    """Seconds until it first changes something in the index's folder."""
    work: float
    """Seconds from then until it last does."""
    changes: int
    """How many changes can be seen."""


class Moment(NamedTuple):
    """When to kill: so many seconds after so many changes in the index's folder."""

    changes: int
    seconds: float

    def __str__(self) -> str:
        after = f"its change {self.changes}" if self.changes else "its start"
        return f"{self.seconds * 1000:.1f} ms after {after}"


class Notes:
    """Notes that change, and what each of them must say."""

    def __init__(self, workspace: Workspace, draw: random.Random) -> None:
        self._workspace = workspace
        self._draw = draw
        self._made = 0
        self.texts: dict[str, bytes] = {}
        for _ in range(NOTES):
            self.add()

    def change(self) -> None:
        """About a third of the notes become others; their number stays."""
        names = self._draw.sample(sorted(self.texts), NOTES // 3)
        for name in names[: NOTES // 6]:
            self._write(name)
        for name in names[NOTES // 6 :]:
            (self._workspace.path / name).unlink()
            del self.texts[name]
            self.add()

    def add(self) -> None:
        self._made += 1
        self._write(f"memory/{self._made % 5}/note-{self._made}.md")

    def altered(self) -> list[str]:
        """Notes that are not as they were written."""
        folder = self._workspace.path
        found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return sorted({name for name, _ in found.items() ^ self.texts.items()})

    def _write(self, name: str) -> None:
        """The note is there whole or not at all: whoever reads meanwhile sees no part of it."""
        path = self._workspace.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = self._text(name).encode()
        aside = path.with_suffix(".part")
        aside.write_bytes(text)
        aside.replace(path)
        self.texts[name] = text

    def _text(self, name: str) -> str:
        """A few lines; in every sixth note as many as make several chunks."""
        draw = self._draw
        count = draw.randint(50, 90) if draw.random() < 1 / 6 else draw.randint(2, 12)
        lines = [f"# {name} {draw.random()}", ""]
        for _ in range(count):
            words = " ".join(f"{draw.choice('bcdfgh')}a{draw.choice('klmnprst')}{draw.randrange(99)}" for _ in range(9))
            lines.append(f"\n## About {words[:20]}" if draw.random() < 0.1 else f"- {words}")
        return "\n".join(lines) + "\n"


class Hunt:
    """One kind of command, killed on notes that change between the kills."""

    def __init__(self, folder: Path, kind: Kind, seed: int) -> None:
        self._kind = kind
        self._draw = random.Random(f"{kind.name} {seed}")
        self._folder = folder
        folder.mkdir()
        self._workspace = Workspace(folder)
        self._workspace.configure(f'{{"memorySearch": {{"sync": {{"watchDebounceMs": {DEBOUNCE_MS}}}}}}}')
        self._notes = Notes(self._workspace, self._draw)
        self._index = self._sync()
        self._before = content_of(self._index)
        self._pace = self._measured()

    def kills(self, count: int) -> Iterator[Kill]:
        """Kill until so many have met a living process; those that came too late are told as well."""
        done = tries = 0
        while done < count and tries < 3 * count:
            kill = self._kill(self._moment(tries))
            done += kill.alive
            tries += 1
            yield kill

    def _moment(self, number: int) -> Moment:
        """One kill in four comes while the command starts, one at any moment of its work, two just after a write."""
        draw, pace = self._draw, self._pace
        if number % 4 == 0:
            return Moment(0, draw.uniform(0, pace.start))
        if number % 4 == 1:
            return Moment(1, draw.uniform(0, pace.work))
        return Moment(draw.randint(1, pace.changes), draw.uniform(0, _CLOSE_S))

    def _kill(self, moment: Moment) -> Kill:
        self._prepare()
        untouched = self._traces()
        with self._started() as process:
            self._await(moment, process, untouched)
            alive = process.poll() is None
            process.kill()
            code = process.wait()
        at_work = self._traces() != untouched
        left = tuple(files_beside(self._index))
        failed = "" if alive or code == 0 else f"it ended with {code}: {self._said()}"
        return self._looked_at(Kill(self._kind.name, str(moment), alive, at_work, left, failed))

    def _looked_at(self, kill: Kill) -> Kill:
        after = fresh_content(self._workspace)
        torn = _torn(self._left(), self._before, after, self._kind.at_once)
        lost = self._notes.altered()
        try:
            self._sync()
            orphans = files_beside(self._index)
            found = content_of(self._index)
        except (RecallError, AssertionError, apsw.Error) as error:
            orphans = files_beside(self._index)
            behind = f"the next sync did not mend it: {_told(error)}"
        else:
            behind = _difference(found, after)
            lost += sorted(self._notes.texts.keys() - {str(path) for _, path, *_ in found.documents})
        if behind or orphans:
            self._begin_anew()
        self._before = after
        return kill._replace(torn=torn, behind=behind, lost=tuple(lost), orphans=tuple(orphans))

    def _begin_anew(self) -> None:
        """What one kill has spoiled must not be told of the next."""
        for path in self._index.parent.iterdir():
            path.unlink()
        self._sync()

    def _await(self, moment: Moment, process: subprocess.Popen[bytes], seen: Traces) -> None:
        """Wait for the moment, or until it cannot come any more; if the command stays, write a note meanwhile."""
        changes, since = 0, time.perf_counter()
        patience = since + self._pace.start + self._pace.work + _PATIENCE_S
        writes = self._draw.uniform(0, self._pace.work) if self._kind.stays else None
        while process.poll() is None and (now := time.perf_counter()) < patience:
            if changes >= moment.changes and now >= since + moment.seconds:
                return
            traces = self._traces()
            if traces != seen:
                seen, changes = traces, changes + 1
                if changes == 1:
                    patience = now + self._pace.work + _QUIET_S
                    writes = writes and now + writes
                if changes <= moment.changes:
                    since = now
            if writes and changes and now >= writes:
                self._notes.add()
                writes = None
            time.sleep(_LOOK_EVERY_S)

    def _measured(self) -> Pace:
        """How it goes when it may finish."""
        self._prepare()
        untouched = self._traces()
        began = time.perf_counter()
        with self._started() as process:
            times = self._changes(process, untouched)
            idle = 0.0
            if self._kind.stays:
                settled = self._traces()
                idle = time.perf_counter() - times[-1]
                self._notes.add()
                times += self._changes(process, settled)
                process.send_signal(signal.SIGTERM)
            code = process.wait(_PATIENCE_S)
        if code:
            raise RuntimeError(f"{self._kind.name} ended with {code}: {self._said()}")
        self._sync()
        self._before = content_of(self._index)
        return Pace(times[0] - began, times[-1] - times[0] - idle, len(times))

    def _changes(self, process: subprocess.Popen[bytes], seen: Traces) -> list[float]:
        """When something changed in the index's folder, until the command ends or has nothing more to do."""
        times: list[float] = []
        patience = time.perf_counter() + _PATIENCE_S
        while process.poll() is None and (now := time.perf_counter()) < patience:
            traces = self._traces()
            if traces != seen:
                seen = traces
                times.append(now)
                if self._kind.stays:
                    patience = now + _QUIET_S
            time.sleep(_LOOK_EVERY_S)
        if not times:
            raise RuntimeError(f"{self._kind.name} did nothing: {self._said()}")
        return times

    def _prepare(self) -> None:
        self._notes.change()
        if self._kind.from_nothing:
            self._index.unlink()
            self._before = NOTHING

    def _sync(self) -> Path:
        with Memory.open(self._workspace.path, env=self._workspace.env) as memory:
            memory.sync()
            return Path(memory.settings.index_path)

    @contextmanager
    def _started(self) -> Iterator[subprocess.Popen[bytes]]:
        env = self._workspace.env | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with (self._folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "mdrecall", *self._kind.arguments],
                cwd=self._workspace.path,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _said(self) -> str:
        return (self._folder / "said").read_text().strip()

    def _traces(self) -> Traces:
        """Every file in the folder of the index, with its size and time."""
        found: Traces = {}
        with suppress(FileNotFoundError), os.scandir(self._index.parent) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    stat = entry.stat()
                    found[entry.name] = (stat.st_size, stat.st_mtime_ns)
        return found

    def _left(self) -> Content | str:
        """What the index holds as the kill left it, or how it is damaged.

        A copy is opened, so that mending the index itself is left to the next sync.
        """
        copy = self._folder / "left"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for suffix in ("", "-wal", "-journal"):
            with suppress(FileNotFoundError):
                shutil.copy(f"{self._index}{suffix}", copy / f"index{suffix}")
        try:
            return content_of(copy / "index") if _has_tables(copy / "index") else NOTHING
        except (AssertionError, apsw.Error) as damage:
            return f"damaged: {_told(damage)}"


def _has_tables(index: Path) -> bool:
    if not index.exists():
        return False
    db = apsw.Connection(str(index))
    try:
        return bool(list(db.execute("SELECT 1 FROM sqlite_schema LIMIT 1")))
    finally:
        db.close()


def _torn(found: Content | str, before: Content, after: Content, at_once: bool) -> str:
    """What of an index is neither as before nor as after."""
    if isinstance(found, str):
        return found
    if at_once:
        if found in (before, after):
            return ""
        return f"neither as before ({_difference(found, before)}) nor as after ({_difference(found, after)})"
    held, *states = (_by_document(content) for content in (found, before, after))
    for path in sorted(set().union(held, *states)):
        if not any(_fits(held.get(path), state.get(path)) for state in states):
            return f"{path} is neither as before nor as after"
    return ""


class _Whole(NamedTuple):
    """One document with everything that belongs to it."""

    rows: list[tuple[Any, ...]]
    """Its own, those of its chunks and of their terms."""
    vectors: set[tuple[Any, ...]]


def _by_document(content: Content) -> dict[str, _Whole]:
    found: dict[str, _Whole] = {}
    for rows in (content.documents, content.chunks, content.terms):
        for row in rows:
            found.setdefault(str(row[1]), _Whole([], set())).rows.append(row)
    for space, vectors in content.vectors.items():
        for row in vectors:
            found.setdefault(str(row[1]), _Whole([], set())).vectors.add((space, *row))
    return found


def _fits(held: _Whole | None, state: _Whole | None) -> bool:
    """Whether a document is there as it should be. Vectors come after the text, so some may be missing."""
    if held is None or state is None:
        return held is state
    return held.rows == state.rows and held.vectors <= state.vectors


def _difference(found: Content, wanted: Content) -> str:
    for name, one, other in zip(Content._fields, found, wanted, strict=True):
        if one != other:
            return f"{name} differ: {len(one)} there, {len(other)} expected"
    return ""


def _told(error: Exception) -> str:
    """The error, and the line that found it."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} {error} ({last.line})"
