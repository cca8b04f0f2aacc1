"""Whatever happens to the notes, in whatever order, a sync leaves the index as a new one would be."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from mdrecall.config.settings import IGNORED_FOLDERS, SECTIONS
from mdrecall.errors import StoreBusy
from mdrecall.memory import Memory
from tests.conftest import LONG_AGO_NS, Workspace, examples
from tests.reliability.content import Content, content_of, files_beside, fresh_content

EXAMPLES = examples(3)
STEPS = 40
# A process takes as long to start as some thirty other steps.
PROCESSES = 1

NOTES = (
    "MEMORY.md",
    "memory/2026-02-10.md",
    "memory/2026-02-11.md",
    "memory/deep/a.md",
    "memory/deep/deeper/b c.md",
    "memory/deep/node_modules/not a note.md",
    "memory/日記/#1 café 🦭.md",
    "memory/plain.txt",
    "extra/e%20 [x].md",
    "extra/sub/f.md",
    "../shared/team.md",
    "../shared/sub/g.md",
    "list.md",
    "beside.md",
)
BESIDE = [name for name in NOTES if not name.lower().startswith("memory")]
FOLDERS = ("memory", "extra", "../shared")
NAMES = ("deep", "later", "日記 #2", "note.md")
EXTRA_PATHS: tuple[Any, ...] = ("extra", "../shared", {"path": "../shared", "pattern": "*.md"}, "list.md")
LINES = (
    "# Harbour",
    "## Boats and what they carry",
    "",
    "- a list item about lighthouses",
    "```",
    "The ferry leaves at nine and comes back before it is dark. " * 4,
    "今日は雨だったので、港で本を読んだ。" * 3,
    "an-identifier/with.parts " * 30,
)
WORD = re.compile(rb"\bzqw[bcdfghjklm]{5}k\b")

INDEX_FOR_EVER = """
import sys, time
from mdrecall import Memory
with Memory.open(sys.argv[1]) as memory:
    print("begun", flush=True)
    memory.sync()
    while True:
        memory.sync(force=True)
        time.sleep(0.002)
"""

Pick: TypeAlias = int
picks = st.integers(0, 99)
bodies = st.lists(st.integers(0, len(LINES) - 1), max_size=8)
times = st.sampled_from(["now", "long ago", "as before"])
looks = st.sampled_from(["none"] * 3 + ["sync"] * 2 + ["force", "find", "find the last", "restart", "compare"])
LOST = ["nothing", "no text", "a folder", "a link", "a pipe"]


def happening(**drawn: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., Any]]:
    """A rule; the memory may be looked at right after it."""

    def made(act: Callable[..., None]) -> Callable[..., Any]:
        @wraps(act)
        def acted(self: "AnyOrder", *given: Any, look: str = "none", pick: Pick = 0, **drawn: Any) -> None:
            self.sound = False
            act(self, *given, **({"pick": pick} if takes_pick else {}), **drawn)
            self.look(look, pick)
            self.sound = True

        takes_pick = "pick" in drawn
        return rule(look=looks, **({"pick": picks} | drawn))(acted)

    return made


class AnyOrder(RuleBasedStateMachine):
    """Notes that are written, moved, lost and found, and a memory of them that is open meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="mdrecall-any-order-"))
        self.space = Workspace(self.base)
        (self.base / "away").mkdir()
        self.away: dict[Path, Path] = {}
        self.moves = 0
        self.planted: list[bytes] = []
        self.processes = 0
        self.sound = True
        self.chunking = (400, 80)
        self.extra: list[Any] = []
        self.vectors = True
        self.second: Memory | None = None
        self._configure()
        self.memory = self.space.memory()
        self.index = Path(self.memory.settings.index_path)

    @initialize(
        names=st.sets(st.sampled_from(NOTES), min_size=4) | st.sets(st.sampled_from(BESIDE), min_size=2),
        extra=st.sets(st.integers(0, 3), max_size=3),
    )
    def begin(self, names: set[str], extra: set[int]) -> None:
        """Some notes are there already; without memory files among them, the whole folder is searched."""
        self.write(names, [5], "long ago")
        self.change_the_settings(self.chunking, extra, True)

    # Notes.

    @happening(names=st.sets(st.sampled_from(NOTES), min_size=1, max_size=5), lines=bodies, when=times)
    def write(self, names: set[str], lines: list[int], when: str) -> None:
        """Notes are written where some were, or where nothing is."""
        for name in sorted(names):
            if path := self._way_to(name):
                before = _times(path)
                path.write_bytes(self._text(lines))
                self._date(path, when, before)

    @happening(pick=picks, lines=bodies, when=times)
    def append(self, pick: Pick, lines: list[int], when: str) -> None:
        if path := self._file(pick):
            before = _times(path)
            with path.open("ab") as file:
                file.write(b"\n" + self._text(lines))
            self._date(path, when, before)

    @happening(pick=picks, when=times)
    def edit_to_the_same_size(self, pick: Pick, when: str) -> None:
        if path := self._file(pick):
            before = _times(path)
            new = WORD.sub(lambda _: self._word(), path.read_bytes())
            with path.open("r+b") as file:
                file.write(new)
            self._date(path, when, before)

    @happening(pick=picks, when=times)
    def save_by_rename(self, pick: Pick, when: str) -> None:
        """As editors save: a new file takes the place of the old one."""
        if path := self._file(pick):
            new = path.with_name(path.name + "~")
            new.write_bytes(WORD.sub(lambda _: self._word(), path.read_bytes()) or self._text([]))
            self._date(new, when, _times(path))
            new.replace(path)

    @happening(pick=picks, name=st.sampled_from(NOTES))
    def rename(self, pick: Pick, name: str) -> None:
        path, there = self._file(pick), self._way_to(name)
        if path and there:
            path.replace(there)

    @happening(pick=picks, other=picks)
    def swap(self, pick: Pick, other: Pick) -> None:
        one, two = self._file(pick), self._file(other)
        if one and two and one != two:
            aside = self.base / "aside"
            one.rename(aside)
            two.rename(one)
            aside.rename(two)

    @happening(pick=picks, when=st.sampled_from([0, 1, LONG_AGO_NS, LONG_AGO_NS - 10**9, 4 * 10**18, None]))
    def touch(self, pick: Pick, when: int | None) -> None:
        """Only the time changes; it may go back, or far ahead."""
        if path := self._file(pick):
            at = time.time_ns() if when is None else when
            os.utime(path, ns=(at, at))

    @happening(pick=picks, when=times, by=st.sampled_from(LOST), to=picks)
    def lose_a_note(self, pick: Pick, when: str, by: str, to: Pick) -> None:
        """A note goes; nothing, or something that is no note, stands where it was."""
        path = self._file(pick)
        if path is None:
            return
        if by == "no text":
            before = _times(path)
            path.write_bytes(b"")
            self._date(path, when, before)
            return
        path.unlink()
        if by == "a folder":
            path.mkdir()
            (path / "inside.md").write_bytes(self._text([]))
        elif by == "a pipe":
            os.mkfifo(path)
        elif by == "a link":
            path.symlink_to(_chosen([*self._files(), path, path.parent, "nowhere.md"], to))

    # Folders.

    @happening(pick=picks, name=st.sampled_from(NAMES))
    def rename_a_folder(self, pick: Pick, name: str) -> None:
        folder = _chosen([folder for folder in self._folders() if self._name(folder) not in FOLDERS], pick)
        if folder and not os.path.lexists(folder.with_name(name)):
            folder.rename(folder.with_name(name))

    @happening(pick=picks, by=st.sampled_from(["nothing", "nothing", "a link", "a file"]), for_good=st.booleans())
    def lose_a_folder(self, pick: Pick, by: str, for_good: bool) -> None:
        """It may come back; meanwhile nothing is where it was, or something that is no folder."""
        if folder := _chosen(self._folders(), pick):
            self.moves += 1
            away = folder.rename(self.base / "away" / str(self.moves))
            if by == "a link":
                folder.symlink_to(away)
            elif by == "a file":
                folder.write_text("no folder any more")
            if for_good:
                shutil.rmtree(away)
            else:
                self.away[folder] = away

    @precondition(lambda self: self.away)
    @happening()
    def bring_everything_back(self) -> None:
        """Every folder comes back to where it was, in place of what is there now."""
        for place, away in reversed(self.away.items()):
            if not place.parent.is_dir() or any(above.is_symlink() for above in place.parents):
                continue
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
            away.rename(place)
        self.away.clear()

    # Settings and memories.

    @happening(
        chunking=st.sampled_from([(400, 80), (400, 0), (60, 20), (60, 0), (32, 8)]),
        extra=st.sets(st.integers(0, len(EXTRA_PATHS) - 1)),
        vectors=st.booleans(),
    )
    def change_the_settings(self, chunking: tuple[int, int], extra: Collection[int], vectors: bool) -> None:
        """Other settings, and with them another memory."""
        self.chunking, self.extra, self.vectors = chunking, [EXTRA_PATHS[place] for place in sorted(extra)], vectors
        self.memory.close()
        if self.second:
            self.second.close()
            self.second = None
        self._configure()
        self.memory = self.space.memory()

    @happening(closes=st.booleans())
    def turn_to_another_memory(self, closes: bool) -> None:
        """Another memory of the same notes, in the same process; the one before may stay open meanwhile."""
        self.memory, self.second = self.second or self.space.memory(), self.memory
        if closes:
            self.second.close()
            self.second = None

    @precondition(lambda self: self.processes < PROCESSES)
    @happening(force=st.booleans())
    def index_in_another_process(self, force: bool) -> None:
        self.processes += 1
        before = self._lost_documents()
        index_in_a_process(self.space, *(["--force"] if force else []))
        assert self._lost_documents() == ([] if force else before)
        self._compare()

    @precondition(lambda self: self.processes < PROCESSES)
    @happening(after_ms=st.integers(0, 40), name=st.sampled_from(NOTES), busy=st.booleans())
    def kill_a_process_that_indexes(self, after_ms: int, name: str, busy: bool) -> None:
        """It is killed at some moment of its work, with notes being written and indexed meanwhile or not."""
        self.processes += 1
        with started(self.space, "-c", INDEX_FOR_EVER, str(self.space.path)) as indexing:
            assert indexing.stdout
            indexing.stdout.readline()
            if busy:
                self.write({name}, [5], "now")
                with suppress(StoreBusy):
                    self.memory.sync()
            time.sleep(after_ms / 1000)
            indexing.kill()
            _, err = indexing.communicate(timeout=60)
            assert indexing.returncode == -signal.SIGKILL, err

    @happening(alone=st.booleans())
    def lose_the_index(self, alone: bool) -> None:
        """The index goes while memories have it open, with its side files or without."""
        if self.index.parent.exists():
            for path in [self.index] if alone else list(self.index.parent.iterdir()):
                path.unlink(missing_ok=True)

    # What must hold.

    def look(self, how: str, pick: Pick) -> None:
        """The memory is asked something, or is told to do something; what was indexed from a lost folder stays."""
        before = self._lost_documents()
        if how in ("sync", "force"):
            assert self.memory.sync(force=how == "force").failed == ()
        elif how == "find":
            self._find(self.memory, self.planted[-1 - pick % len(self.planted)])
        elif how == "find the last":
            self._find(self.memory, self.planted[-1])
        elif how == "restart":
            self.memory.close()
            self.memory = self.space.memory()
        elif how == "compare":
            self._sync_and_compare()
        assert self._lost_documents() == ([] if how == "force" else before)

    def teardown(self) -> None:
        try:
            if not self.sound:
                return
            self._sync_and_compare()
            if self.away or not self.vectors:
                self.bring_everything_back()
                extra = [EXTRA_PATHS.index(extra) for extra in self.extra]
                self.change_the_settings(self.chunking, extra, True)
                self._sync_and_compare()
            self.space.close()
            assert files_beside(self.index) == []
        finally:
            self.space.close()
            shutil.rmtree(self.base)

    def _sync_and_compare(self) -> None:
        assert self.memory.sync().failed == ()
        self._compare()
        self._compare_answers()

    def _find(self, memory: Memory, word: bytes) -> None:
        """A word is found in every note that it stands in, however lately it was written, and nowhere else."""
        text, lost = word.decode(), self._lost()
        answer = memory.search(text, max_results=50, min_score=0)
        found = {result.path: result for result in answer if text in result.snippet}
        there = {path for path, file in self._notes().items() if word in WORD.findall(file.read_bytes())}
        assert {path for path in found if not _is_below(path, lost)} == there, (answer.reason, answer.issues)
        for path in there:
            first, last = found[path].match_start_line, found[path].match_end_line
            assert text in memory.read(path, from_line=first, lines=last - first + 1).text

    def _compare(self) -> None:
        found, new = self._outside(content_of(self.index)), self._outside(fresh_content(self.space))
        assert {row[1] for row in new.documents} == set(self._notes())
        if self._lost_documents() and {row[-1] for row in found.documents} != {row[-1] for row in new.documents}:
            # An index made with other settings waits for the lost folder before it is built anew.
            assert [row[:-1] for row in found.documents] == [row[:-1] for row in new.documents]
            return
        assert found.documents == new.documents
        assert found.chunks == new.chunks
        assert found.terms == new.terms
        if self.vectors:
            assert found.vectors == new.vectors

    def _outside(self, content: Content) -> Content:
        """Without what was indexed from folders that are not there now."""
        lost = self._lost()

        def there(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
            return [row for row in rows if not _is_below(row[1], lost)]

        vectors = {space: there(rows) for space, rows in content.vectors.items()}
        return Content(there(content.documents), there(content.chunks), there(content.terms), vectors)

    def _compare_answers(self) -> None:
        """A memory that has been open for long answers as one that is opened now."""
        answers: list[dict[tuple[Any, ...], float]] = []
        with Memory.open(self.space.path, env=self.space.env) as opened:
            for memory in (self.memory, self.second or self.memory, opened):
                answer = memory.search("lighthouses at the harbour", max_results=500, min_score=0)
                answers.append({(r.path, r.start_line, r.end_line, r.snippet): r.score for r in answer})
        assert answers[0] == pytest.approx(answers[-1], abs=0.001)
        assert answers[1] == pytest.approx(answers[-1], abs=0.001)

    # What there is.

    def _at(self, name: str) -> Path:
        return Path(os.path.normpath(self.space.path / name))

    def _name(self, path: Path) -> str:
        return os.path.relpath(path, self.space.path)

    def _files(self) -> list[Path]:
        """Every regular file that is or might become a note."""
        found = []
        for top in (self.space.path, self._at("../shared")):
            for folder, _, names in os.walk(top):
                paths = [Path(folder, name) for name in names]
                found += [path for path in paths if path.is_file() and not path.is_symlink()]
        return sorted(found)

    def _file(self, pick: Pick) -> Path | None:
        path: Path | None = _chosen(self._files(), pick)
        return path

    def _folders(self) -> list[Path]:
        found = []
        for name in FOLDERS:
            if (top := self._at(name)).is_dir() and not top.is_symlink():
                found += [Path(folder) for folder, _, _ in os.walk(top)]
        return sorted(found)

    def _notes(self) -> dict[str, Path]:
        """What should be indexed, worked out anew: every plain .md file below a root, no link on the way."""
        roots: list[Any] = ["memory", *self.extra]
        roots.append(".")
        found = {self._at("MEMORY.md")} if self._at("MEMORY.md").is_file() else set()
        for root in roots:
            top = self._at(root["path"] if isinstance(root, dict) else root)
            found |= {top} if top.is_file() else set()
            for folder, folders, names in os.walk(top) if not top.is_symlink() else ():
                folders[:] = [] if isinstance(root, dict) else [name for name in folders if name not in IGNORED_FOLDERS]
                found |= {Path(folder, name) for name in names}
        plain = (path for path in found if path.name.endswith(".md") and path.is_file() and not path.is_symlink())
        return {self._name(path): path for path in plain}

    def _lost(self) -> list[str]:
        extra = [extra["path"] if isinstance(extra, dict) else extra for extra in self.extra]
        return [name for name in ("memory", *extra) if name in FOLDERS and not os.path.lexists(self._at(name))]

    def _lost_documents(self) -> list[tuple[Any, ...]]:
        """What the index, which the memory opens or mends first, holds of folders that are not there now."""
        lost = self._lost()
        if lost:
            self.memory.counts()
        there = content_of(self.index).documents if lost and self.index.exists() else []
        return [row for row in there if _is_below(row[1], lost)]

    # What is done.

    def _configure(self) -> None:
        tokens, overlap = self.chunking
        search: dict[str, Any] = {
            "chunking": {"tokens": tokens, "overlap": overlap},
            "extraPaths": self.extra,
        }
        search |= {} if self.vectors else {"provider": "none"}
        own = {"searchWaitMs": 60_000} if "searchWaitMs" in SECTIONS["mdrecall"].entries else {}
        # Two answers in a row may differ while the encoder is at work.
        self.space.configure(json.dumps({"memorySearch": search, "mdrecall": {**own, "encoder": False}}))

    def _word(self) -> bytes:
        """A word that was never written before; all are of one length."""
        digits = f"{len(self.planted):05}".translate(str.maketrans("0123456789", "bcdfghjklm"))
        self.planted.append(f"zqw{digits}k".encode())
        return self.planted[-1]

    def _text(self, lines: list[int]) -> bytes:
        texts = [LINES[line] for line in lines]
        texts.insert(len(texts) // 2, f"About {self._word().decode()}.")
        return "\n".join(texts).encode()

    def _way_to(self, name: str) -> Path | None:
        """Where a note can be written, its folder made; nothing if something else is in the way."""
        path = self._at(name)
        for above in reversed(path.parents):
            if above.is_symlink() or (above.exists() and not above.is_dir()):
                return None
        if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _date(self, path: Path, when: str, before: tuple[int, int]) -> None:
        """Give a file its time, at a moment that the file system's clock tells from the last."""
        at = {"long ago": (LONG_AGO_NS, LONG_AGO_NS), "as before": before}.get(when)
        clock = self.base / "clock"
        clock.touch()
        then = clock.stat().st_ctime_ns
        while clock.stat().st_ctime_ns == then:
            clock.touch()
        if at:
            os.utime(path, ns=at)


@contextmanager
def started(space: Workspace, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process of its own in a workspace, which does not outlive its use."""
    env = {**space.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=space.path, env=env, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def index_in_a_process(space: Workspace, *arguments: str) -> None:
    with started(space, "-m", "mdrecall", "index", *arguments) as indexing:
        out, err = indexing.communicate(timeout=60)
        assert indexing.returncode == 0, out + err


def _times(path: Path) -> tuple[int, int]:
    found = path.stat() if path.exists() else None
    return (found.st_atime_ns, found.st_mtime_ns) if found else (LONG_AGO_NS, LONG_AGO_NS)


def _is_below(path: str, folders: list[str]) -> bool:
    return any(path.startswith(folder + "/") for folder in folders)


def _chosen(choices: Any, pick: Pick) -> Any:
    return choices[pick % len(choices)] if choices else None


def test_in_whatever_order_things_happen_the_index_is_as_a_new_one() -> None:
    run_state_machine_as_test(AnyOrder, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS))


def test_an_index_that_is_checked_between_changes_is_always_sound(workspace: Workspace) -> None:
    memory = workspace.memory()
    for number in range(40):
        workspace.write("memory/a.md", "walrus " * (1 + number))
        memory.sync()
        assert memory.check() == ()


@pytest.mark.parametrize("alone", [True, False], ids=["without its side files", "with its side files"])
def test_an_index_that_is_deleted_under_an_open_memory_is_made_anew(workspace: Workspace, alone: bool) -> None:
    workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    # Files go one after the other: nothing may be written meanwhile.
    memory.sync(waits_for_encoder=True)
    index = Path(memory.settings.index_path)
    for path in [index] if alone else list(index.parent.iterdir()):
        path.unlink()
    workspace.write("memory/b.md", "penguin")
    assert [result.path for result in memory.search("penguin", min_score=0.7)] == ["memory/b.md"]
    memory.sync()
    assert content_of(index) == fresh_content(workspace)
    index_in_a_process(workspace)
    memory.close()
    assert content_of(index) == fresh_content(workspace)
    workspace.close()
    assert files_beside(index) == []


def test_nothing_is_held_of_an_index_that_was_deleted_a_moment_ago(workspace: Workspace) -> None:
    """Even where the file system gives the new file the inode of the old one, within the same second."""
    memory = workspace.memory()
    for number in range(6):
        workspace.write("memory/a.md", f"The harbour has {number + 3} boats.\n" * (1 + number % 3))
        memory.sync(force=number % 2 == 0, waits_for_encoder=True)
        old = memory.search("lighthouses at sea", min_score=0)
        with Memory.open(workspace.path, env=workspace.env) as opened:
            assert old.results == opened.search("lighthouses at sea", min_score=0).results
        for path in Path(memory.settings.index_path).parent.iterdir():
            path.unlink()
