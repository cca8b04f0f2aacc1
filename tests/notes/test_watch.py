import os
import resource
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mdrecall.notes import watch
from mdrecall.notes.watch import FolderWatch, explain_failure
from tests.processes import PATIENCE_S, until

IGNORED = (".git", "node_modules")

HAS_PROC = os.path.isdir("/proc/self/fdinfo")

needs_proc = pytest.mark.skipif(not HAS_PROC, reason="counts watches through /proc")


class Notes:
    """A folder of notes and the watch of every folder in it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.path = base / "notes"
        self.path.mkdir()
        self.watch = FolderWatch(self.wanted, IGNORED.__contains__)

    def wanted(self) -> list[str]:
        found = [str(self.path)]
        for folder, below, _ in os.walk(self.path):
            below[:] = [name for name in below if name not in IGNORED]
            found += [os.path.join(folder, name) for name in below if not os.path.islink(os.path.join(folder, name))]
        return found

    def begin(self) -> None:
        assert self.watch.refresh()
        assert self.watch.problem == ""

    def write(self, name: str, text: str = "text") -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def is_touched(self) -> bool:
        """True if something was noticed; all of it has been by then."""
        if not self.watch.wait(PATIENCE_S):
            return False
        while self.watch.wait(0):
            pass
        return True

    def is_seen(self, name: str) -> None:
        """Nothing was noticed up to now, and a note that is written there is."""
        assert not self.watch.wait(0)
        self.write(name)
        assert self.is_touched()


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    most_descriptors, most_threads = descriptors(), threads()
    notes = Notes(tmp_path)
    yield notes
    notes.watch.close()
    assert descriptors() <= most_descriptors
    # A thread of the test that has been joined may still be listed for a moment.
    assert until(lambda: threads() <= most_threads)


def watches() -> list[int]:
    """How many watches each inotify descriptor of this process has."""
    counts = []
    for number in os.listdir("/proc/self/fd") if HAS_PROC else ():
        try:
            if "inotify" in os.readlink(f"/proc/self/fd/{number}"):
                counts.append(Path(f"/proc/self/fdinfo/{number}").read_text().count("inotify wd:"))
        except FileNotFoundError:
            continue
    return counts


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if HAS_PROC else 0


def threads() -> int:
    return len(os.listdir("/proc/self/task")) if HAS_PROC else 0


@pytest.mark.parametrize("how", ["saved by renaming", "deleted"])
def test_a_note_that_changes_is_noticed(notes: Notes, how: str) -> None:
    path = notes.write("a.md")
    notes.begin()
    if how == "deleted":
        path.unlink()
    else:
        os.replace(notes.write("a.md.tmp~", "other"), path)
    assert notes.is_touched()


def test_what_is_no_note_is_not_named(notes: Notes) -> None:
    notes.write(".git/HEAD")
    notes.begin()
    for name in (".a.md.swp", "a.md~", "4913", "image.png", "index.sqlite", "index.sqlite-wal", ".git/index"):
        notes.write(name)
    (notes.path / "index.sqlite-wal").unlink()
    notes.write("node_modules/left-pad/README.md")
    (notes.path / "link").symlink_to(notes.base)
    notes.is_seen("a.md")


def make_again(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


#: What happens to folders, and the notes in them that are seen afterwards.
CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a new one": (lambda path: (path / "new").mkdir(), ["new/b.md"]),
    "a renamed one": (lambda path: (path / "old").rename(path / "new"), ["new/b.md", "new/deep/b.md"]),
    "one that is deleted and made again": (lambda path: make_again(path / "old"), ["old/b.md"]),
    "the topmost, deleted and made again": (make_again, ["a.md"]),
}


@pytest.mark.parametrize("which", CHANGES)
def test_a_folder_that_changes_is_noticed_and_watched_after_a_refresh(notes: Notes, which: str) -> None:
    change, seen = CHANGES[which]
    notes.write("old/deep/a.md")
    notes.begin()
    change(notes.path)
    assert notes.is_touched()
    assert notes.watch.refresh()
    for name in seen:
        notes.is_seen(name)
    assert not notes.watch.refresh()


def test_a_folder_moved_away_is_named(notes: Notes) -> None:
    notes.write("inside/a.md")
    notes.begin()
    (notes.path / "inside").rename(notes.base / "outside")
    assert notes.is_touched()
    assert notes.watch.refresh()
    (notes.base / "outside/b.md").write_text("text")
    notes.is_seen("a.md")


def test_another_folder_in_the_same_place_is_watched_though_nothing_told_of_it(notes: Notes) -> None:
    notes.path.rmdir()
    above = notes.base / "above"
    (above / "notes").mkdir(parents=True)
    notes.path = above / "notes"
    notes.begin()
    above.rename(notes.base / "away")
    (above / "notes").mkdir(parents=True)
    assert notes.watch.refresh()
    notes.is_seen("a.md")


def test_a_folder_that_is_not_there_yet_is_noticed_when_it_comes(notes: Notes) -> None:
    notes.path = notes.base / "later/and/deeper"
    notes.begin()
    assert notes.watch.folders == 1
    (notes.base / "beside").mkdir()
    (notes.base / "beside.md").write_text("text")
    assert not notes.watch.wait(0)
    notes.path.mkdir(parents=True)
    assert notes.is_touched()
    assert notes.watch.refresh()
    notes.is_seen("a.md")


def test_a_folder_that_comes_between_the_listing_and_the_watch_is_found_by_a_second_refresh(notes: Notes) -> None:
    def wanted() -> list[str]:
        listed = notes.wanted()
        (notes.path / "late").mkdir(exist_ok=True)
        return listed

    notes.watch.close()
    notes.watch = FolderWatch(wanted, IGNORED.__contains__)
    notes.begin()
    assert notes.watch.refresh()
    notes.is_seen("late/a.md")


def test_a_folder_that_keeps_coming_and_going_does_not_break_the_watching(notes: Notes) -> None:
    stop = threading.Event()
    (notes.path / "stays").mkdir()

    def toggle() -> None:
        while not stop.is_set():
            (notes.path / "restless").mkdir()
            (notes.path / "restless").rmdir()

    restless = threading.Thread(target=toggle)
    restless.start()
    for _ in range(10):
        notes.watch.refresh()
    stop.set()
    restless.join()
    assert until(lambda: not notes.watch.refresh() and not notes.watch.wait(0))
    assert (notes.watch.folders, notes.watch.problem) == (2, "")
    notes.is_seen("stays/a.md")


def test_a_folder_under_a_linked_one_is_watched_by_its_real_path(notes: Notes) -> None:
    (notes.base / "link").symlink_to(notes.path)
    notes.watch.close()
    notes.watch = FolderWatch(lambda: [str(notes.base / "link")], IGNORED.__contains__)
    notes.begin()
    notes.is_seen("a.md")


def test_a_name_that_is_not_unicode_does_not_stop_the_watching(notes: Notes) -> None:
    notes.begin()
    try:
        (notes.path / os.fsdecode(b"\xff.txt")).write_text("text")
    except OSError:
        pytest.skip("this file system takes only Unicode names")
    notes.is_seen("a.md")


def test_nothing_wanted_is_no_problem(notes: Notes) -> None:
    none = FolderWatch(lambda: (), IGNORED.__contains__)
    assert not none.refresh()
    assert (none.folders, none.problem, none.wait(0)) == (0, "", False)
    none.close()


@pytest.mark.parametrize("begun", [True, False])
def test_a_wait_is_interrupted_from_another_thread(notes: Notes, begun: bool) -> None:
    if begun:
        notes.begin()
    seen: list[bool] = []
    waiting = threading.Thread(target=lambda: seen.append(notes.watch.wait(3600)))
    waiting.start()
    notes.watch.interrupt()
    waiting.join(PATIENCE_S)
    assert seen == [False]


def test_an_interruption_counts_for_one_wait(notes: Notes) -> None:
    notes.begin()
    notes.watch.interrupt()
    assert notes.watch.wait(3600) is False
    notes.is_seen("a.md")


@pytest.mark.parametrize("begun", [True, False])
def test_closing_ends_a_wait_of_another_thread_for_good(notes: Notes, begun: bool) -> None:
    if begun:
        notes.begin()
    waiting = threading.Thread(target=notes.watch.wait, args=(3600,))
    waiting.start()
    notes.watch.close()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    assert notes.watch.wait(3600) is False


def test_closing_twice_is_fine_and_nothing_begins_again(notes: Notes) -> None:
    notes.begin()
    notes.watch.close()
    notes.watch.close()
    assert not notes.watch.refresh()
    assert (notes.watch.folders, notes.watch.problem) == (0, "")


@needs_proc
def test_every_folder_is_one_watch_on_one_descriptor(notes: Notes) -> None:
    for number in range(300):
        notes.write(f"{number % 20}/{number}/a.md")
    for number in range(200):
        notes.write(f"node_modules/{number}/lib/README.md")
    notes.begin()
    assert notes.watch.folders == 1 + 20 + 300
    assert watches() == [notes.watch.folders]
    notes.is_seen("19/299/b.md")


@contextmanager
def no_more_files() -> Iterator[None]:
    """Forbids this process to have more files open than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a watch may need no file")
def test_a_watch_that_cannot_begin_says_why_and_begins_later(notes: Notes) -> None:
    with no_more_files():
        refreshed = [notes.watch.refresh(), notes.watch.refresh()]
    assert (refreshed, notes.watch.folders, watches()) == ([False, False], 0, [])
    assert "ulimit -n" in notes.watch.problem
    assert notes.watch.wait(0) is False
    notes.begin()
    notes.is_seen("a.md")


def test_where_the_kernel_tells_nothing_the_files_must_be_looked_at(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.begin()
    assert not notes.watch.must_poll
    notes.watch.close()
    monkeypatch.setattr(watch, "_LOCAL_FILE_SYSTEMS", frozenset())
    notes.watch = FolderWatch(notes.wanted, IGNORED.__contains__)
    notes.begin()
    assert (notes.watch.folders, notes.watch.must_poll) == (1, True)
    (notes.path / "new").mkdir()
    assert notes.watch.refresh()
    assert not notes.watch.refresh()


@pytest.mark.parametrize(
    ("number", "way_out"),
    [(28, "fs.inotify.max_user_watches"), (24, "max_user_instances"), (24, "ulimit -n"), (5, "Input/output error")],
)
def test_every_problem_says_why(number: int, way_out: str) -> None:
    explained = explain_failure(OSError(number, os.strerror(number)))
    assert way_out in explained
    assert explained.count(". ") == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_named_and_the_others_are_watched(notes: Notes) -> None:
    shut = notes.path / "shut"
    shut.mkdir()
    shut.chmod(0)
    assert notes.watch.refresh()
    assert str(shut) in notes.watch.problem
    notes.is_seen("a.md")
    shut.chmod(0o700)
    assert notes.is_touched()
    assert notes.watch.refresh()
    assert notes.watch.problem == ""
    notes.is_seen("shut/a.md")
