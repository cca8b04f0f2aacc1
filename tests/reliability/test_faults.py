"""Whatever the disk does, and whenever: an index is as before or as after a run, and the next one puts it in order."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import apsw
import pytest

from mdrecall.config.load import load
from mdrecall.engine.open import open_backend
from mdrecall.errors import RecallError
from mdrecall.memory import Memory
from mdrecall.types.documents import Issue
from mdrecall.types.search import SearchAnswer
from tests.conftest import Workspace
from tests.reliability.content import Content, content_of, files_beside, fresh_content
from tests.reliability.faults import FAULTS, Disk, Fault, Kind, Point

#: Does something with a memory; gives what it had to say.
Act: TypeAlias = Callable[[Memory], tuple[Issue, ...]]
Seen: TypeAlias = dict[str, str]

LASTING = Fault("error", lasting=True)
NOTHING = Content([], [], [], {})
# So many points take about half a second.
_MANY_POINTS = 8


def sync(memory: Memory) -> tuple[Issue, ...]:
    report = memory.sync()
    return report.failed + report.kept + report.issues


def force(memory: Memory) -> tuple[Issue, ...]:
    report = memory.sync(force=True)
    return report.failed + report.kept + report.issues


def search(memory: Memory) -> tuple[Issue, ...]:
    return memory.search("walrus").issues


ACTS: dict[str, Act] = {"sync": sync, "first sync": sync, "force": force, "search": search}
# What would be tried twice: a search indexes as a sync does. And what cannot be read, force may set aside.
LEFT_OUT: dict[str, tuple[Kind, ...]] = {
    "first sync": ("unreadable",),
    "force": ("unreadable", "torn"),
    "search": ("torn", "killed", "torn and killed", "power cut"),
}
TRIED = [(name, fault) for name in ACTS for fault in FAULTS if fault.kind not in LEFT_OUT.get(name, ())]


class Ran(NamedTuple):
    wrong: list[str]
    is_content: bool
    """Whether it ended without an error or an issue."""


class Scene:
    """Notes, an index that is behind them (or none yet), and what is done to bring it up to date."""

    def __init__(self, base: Path, name: str) -> None:
        self.name = name
        self.workspace = Workspace(base)
        self._act = ACTS[name]
        self._base = base
        loaded = load(env=self.workspace.env, workspace=str(self.workspace.path))
        self._loaded = loaded
        self.index = Path(loaded.settings.index_path)
        self.before, self.seen_before = NOTHING, Seen()
        self.index.parent.mkdir(parents=True)
        for path in ("keep", "change", "touch", "gone"):
            self.workspace.write(f"memory/{path}.md", f"# {path}\n\nThe walrus of {path} sleeps.\n")
        if name != "first sync":
            self.seen_before = self._settle()
            self.before = content_of(self.index)
        self._prepared = {path: path.read_bytes() for path in self.index.parent.iterdir()}
        self.workspace.write("memory/change.md", "# Changed\n\nThe walrus has woken up and dives.\n")
        self.workspace.write("memory/touch.md", (self.workspace.path / "memory/touch.md").read_bytes())
        self.workspace.write("memory/new.md", "# New\n\nA young walrus is here.\n")
        (self.workspace.path / "memory/gone.md").unlink()
        self.after = fresh_content(self.workspace)
        self.seen_after = self._settle()
        self.points = self._count()

    def open(self) -> Memory:
        return Memory(self._loaded.settings, open_backend(self._loaded))

    def restore(self) -> None:
        """Put the index back as it was before the run."""
        for path in self.index.parent.iterdir():
            path.unlink()
        for path, content in self._prepared.items():
            path.write_bytes(content)

    def _settle(self) -> Seen:
        with self.open() as memory:
            return seen(memory.search("walrus", max_results=20))

    def _count(self) -> list[Point]:
        self.restore()
        with Disk(self.index).inserted() as disk:
            assert self.run(disk).wrong == []
        assert content_of(self.index) == self.after
        return disk.points

    def count(self, fault: Fault) -> int:
        """At how many points there can be such a fault."""
        return sum(map(fault.can_hit, self.points))

    def struck(self, disk: Disk) -> list[str]:
        """Run it all on a disk that fails; gives what is not as it should be."""
        self.restore()
        with disk.inserted():
            ran = self.run(disk)
        if disk.frozen:
            shutil.rmtree(self.index.parent)
            disk.frozen.rename(self.index.parent)
        wrong, now = ran.wrong, self._held()
        if now not in (self.before, self.after):
            wrong.append(f"the index is neither as before nor as after: {described(now)}")
        if ran.is_content and now != self.after and not disk.frozen:
            wrong.append("the run said that all is well, and it is not")
        return wrong + self.mended()

    def struck_while_read(self, disk: Disk) -> list[str]:
        """The same while somebody reads the state before."""
        joined = "chunks JOIN documents ON documents.id = document_id JOIN texts ON texts.id = text_id"
        everything = f"SELECT path, ordinal, text FROM {joined} ORDER BY 1, 2"
        self.restore()
        reader = apsw.Connection(str(self.index), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            reader.execute("BEGIN")
            old = list(reader.execute(everything))
            with disk.inserted():
                wrong = self.run(disk).wrong
            if list(reader.execute(everything)) != old:
                wrong.append("the reader sees another state")
            reader.execute("ROLLBACK")
        finally:
            reader.close()
        return wrong + self.mended()

    def run(self, disk: Disk) -> Ran:
        """What is to be done, then a search, then the end."""
        memory = self.open()
        wrong: list[str] = []
        is_content = False
        try:
            is_content = not self._act(memory)
        except RecallError as error:
            wrong += self._refused(error, disk, may_refuse=self._act is not search)
        try:
            wrong += self._answered(memory.search("walrus", max_results=20)) if not disk.frozen else ()
        except RecallError as error:
            wrong += self._refused(error, disk, may_refuse=False)
        memory.close()
        return Ran(wrong, is_content)

    def _refused(self, error: RecallError, disk: Disk, *, may_refuse: bool) -> Iterator[str]:
        if str(self.index) not in str(error) or not error.hint:
            yield f"the error does not name the index or the way out: {error!r}"
        if not (may_refuse or disk.frozen or disk.is_unreadable):
            yield f"a search was refused: {error!r}"

    def _answered(self, answer: SearchAnswer) -> Iterator[str]:
        found = seen(answer)
        if found not in (self.seen_before, self.seen_after) or not found:
            yield f"a search sees neither the old nor the new state: {answer.reason} {sorted(found)}"
        if found == self.seen_before and not answer.issues:
            yield "an answer from the old state does not say so"

    def _held(self) -> Content:
        """What the index holds; looked at in a copy, if looking would change it."""
        if not files_beside(self.index):
            return held(self.index)
        copy = shutil.copytree(self.index.parent, self._base / "look") / self.index.name
        try:
            with Disk(copy).inserted():
                return held(copy)
        finally:
            shutil.rmtree(copy.parent)

    def mended(self) -> list[str]:
        """Open it normally; gives what is not in order then."""
        wrong: list[str] = []
        with Disk(self.index).inserted():
            with self.open() as memory:
                answer = memory.search("walrus", max_results=20)
                if seen(answer) != self.seen_after:
                    wrong.append(f"afterwards a search finds {sorted(seen(answer))}")
                if answer.issues or answer.degraded:
                    wrong.append(f"afterwards a search says {answer.issues}, {answer.degraded}")
            if beside := files_beside(self.index):
                wrong.append(f"left behind: {beside}")
            if content_of(self.index) != self.after:
                wrong.append("afterwards the index is not what a new one would be")
        return wrong


def seen(answer: SearchAnswer) -> Seen:
    return {result.path: result.snippet for result in answer}


def held(index: Path) -> Content:
    """What an index holds; one that has no tables yet, or is not there, holds nothing."""
    if not index.exists():
        return NOTHING
    db = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if not list(db.execute("SELECT 1 FROM sqlite_schema")):
            return NOTHING
    finally:
        db.close()
    found = content_of(index)
    return found._replace(vectors={space: rows for space, rows in found.vectors.items() if rows})


def described(content: Content) -> str:
    vectors = sum(map(len, content.vectors.values()))
    paths = ", ".join(str(document[1]) for document in content.documents)
    return f"{paths or 'no document'}; {len(content.chunks)} chunks, {vectors} vectors"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scene]:
    return {name: Scene(tmp_path_factory.mktemp("scene"), name) for name in ACTS}


def _choose_points(scene: Scene, fault: Fault) -> tuple[int, int]:
    """The first point that a fault is tried at, and how many points further the next one is."""
    step = 1 if os.environ.get("MDRECALL_EXAMPLES") else max(1, scene.count(fault) // _MANY_POINTS)
    return FAULTS.index(fault) * step // len(FAULTS), step


def try_everywhere(scene: Scene, fault: Fault, struck: Callable[[Disk], list[str]]) -> None:
    """Let a fault hit one point after another, until it finds none any more.

    Where there are many, only some are tried, each fault beginning at another one, so that together they hit points
    all along the run. With MDRECALL_EXAMPLES each fault tries every point.
    """
    wrong: list[str] = []
    first, step = _choose_points(scene, fault)
    for at in itertools.count(first, step):
        disk = Disk(scene.index, fault, at)
        try:
            problems = struck(disk)
        except Exception as error:
            problems = [f"{type(error).__name__}: {error}"]
        wrong += [f"{fault} {at}, {disk.failed_at}: {problem}" for problem in problems]
        if disk.failed_at is None:
            break
    print(f"{fault}: {at} points")
    assert not wrong, "\n".join([f"{len(wrong)} problems after {at} faults", *wrong[:20]])


@pytest.mark.parametrize(("name", "fault"), TRIED, ids=str)
def test_after_any_fault_the_index_is_as_before_or_as_after_and_the_next_run_puts_it_in_order(
    scenes: dict[str, Scene], name: str, fault: Fault
) -> None:
    scene = scenes[name]
    try_everywhere(scene, fault, scene.struck)


@pytest.mark.parametrize(("name", "fault"), [("sync", LASTING), ("force", LASTING), ("sync", Fault("torn"))], ids=str)
def test_who_reads_an_old_state_meanwhile_goes_on_seeing_it(scenes: dict[str, Scene], name: str, fault: Fault) -> None:
    scene = scenes[name]
    try_everywhere(scene, fault, scene.struck_while_read)


def test_many_faults_are_tried(scenes: dict[str, Scene]) -> None:
    tried = 0
    for name, fault in TRIED:
        first, step = _choose_points(scenes[name], fault)
        tried += len(range(first, scenes[name].count(fault), step))
    print(f"{tried} faults, of {sum(scenes[name].count(fault) for name, fault in TRIED)}")
    assert tried >= 150
