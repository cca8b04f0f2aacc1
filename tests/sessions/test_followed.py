"""A listing that is used again while nothing has changed is at every moment what a new one would be."""

import gc
import os
import random
import shutil
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mdrecall.config.load import load
from mdrecall.notes import watch
from mdrecall.notes.files import MemoryFiles
from mdrecall.notes.watch import FolderQueue, FollowedFiles

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")


class Both:
    """The same files, followed and looked at."""

    def __init__(self, root: Path, files: MemoryFiles, followed: FollowedFiles) -> None:
        self.root = root
        self.files = files
        self.followed = followed

    def check(self) -> None:
        assert self.followed.scan() == self.files.scan()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    root = tmp_path / "above/notes"
    (root / "memory/deep/deeper").mkdir(parents=True)
    (root / "memory/one.md").write_text("one")
    (root / "memory/deep/two.md").write_text("two")
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra/three.md").write_text("three")
    # If it were missing, it would count as lost, and nothing would be kept.
    (root / "docs/inside").mkdir(parents=True)
    (root / "docs/inside/plan.md").write_text("plan")
    config = tmp_path / "config.json"
    config.write_text('{"memorySearch": {"extraPaths": ["../../extra", "docs/inside/plan.md"]}}')
    env = {"HOME": str(tmp_path / "home"), "MDRECALL_STATE_DIR": str(tmp_path / "state")}
    loaded = load(env=env, workspace=str(root), config=str(config))
    files = MemoryFiles(loaded.settings, loaded.home)
    followed = FollowedFiles(files, 1000)
    yield Both(root, files, followed)
    followed.close()


def test_a_listing_is_used_again_while_nothing_changes(both: Both) -> None:
    first = both.followed.scan()
    assert both.followed.scan() is first
    (both.root / "memory/ignored.txt").write_text("not a note")
    assert both.followed.scan() is first
    both.followed.forget()
    second = both.followed.scan()
    assert second is not first
    assert second == first


def test_of_a_changed_note_only_that_one_is_looked_at(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    both.followed.scan()
    names = ("memory/one.md", "memory/deep/two.md", "docs/inside/plan.md", "memory/新.md", "docs/inside/no.md", "")
    for name in names:
        if name:
            (both.root / name).write_text(f"another text of {name}")
        else:
            (both.root / "memory/one.md").unlink()
        expected = both.files.scan()
        with monkeypatch.context() as patch:
            patch.setattr(both.files, "scan", None)
            listing = both.followed.scan()
            assert both.followed.scan() is listing
        assert listing == expected


def test_a_lost_root_is_looked_at_every_time(both: Both) -> None:
    shutil.rmtree(both.root.parent.parent / "extra")
    assert both.followed.scan().lost
    assert both.followed.scan() is not both.followed.scan()


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda root: (root / "memory/one.md").write_text("one more"),
    "written by descriptor": lambda root: os.pwrite(os.open(root / "memory/one.md", os.O_RDWR), b"x", 0),
    "created": lambda root: (root / "memory/new.md").write_text("new"),
    "deleted": lambda root: (root / "memory/deep/two.md").unlink(),
    "renamed": lambda root: (root / "memory/one.md").rename(root / "memory/deep/uno.md"),
    "replaced": lambda root: os.replace(_write(root / "memory/.tmp", "ONE"), root / "memory/one.md"),
    "touched": lambda root: os.utime(root / "memory/one.md", (1, 1)),
    "made private": lambda root: (root / "memory/one.md").chmod(0o600),
    "another name": lambda root: os.link(root / "memory/one.md", root / "memory/deep/uno.md"),
    "a link": lambda root: (root / "memory/link.md").symlink_to("one.md"),
    "a folder": lambda root: _write(root / "memory/a/b/c/new.md", "new"),
    "a folder deleted": lambda root: shutil.rmtree(root / "memory/deep"),
    "a folder renamed": lambda root: (root / "memory/deep").rename(root / "memory/depth"),
    "a folder moved in": lambda root: _move_in(root),
    "a folder moved out": lambda root: (root / "memory/deep").rename(root.parent / "deep"),
    "the memory deleted": lambda root: shutil.rmtree(root / "memory"),
    "the memory renamed": lambda root: (root / "memory").rename(root / "elsewhere"),
    "the first MEMORY.md": lambda root: (root / "MEMORY.md").write_text("memory"),
    "a folder above renamed": lambda root: root.parent.rename(root.parent.parent / "beside"),
    "an extra note": lambda root: (root.parent.parent / "extra/three.md").write_text("3"),
    "an extra file": lambda root: (root / "docs/inside/plan.md").write_text("another plan"),
    "above an extra file": lambda root: (root / "docs").rename(root / "documents"),
}


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _move_in(root: Path) -> None:
    _write(root.parent / "outside/below/far.md", "far")
    (root.parent / "outside").rename(root / "memory/inside")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_change_is_seen_at_once(change: Callable[[Path], object], both: Both) -> None:
    before = both.followed.scan()
    assert both.followed.scan() is before
    change(both.root)
    both.check()
    assert both.followed.scan() != before
    both.check()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 5))])
def test_any_changes_in_any_order_are_seen_at_once(seed: int, both: Both) -> None:
    chance = random.Random(seed)
    memory = both.root / "memory"
    kept = 0
    for number in range(300):
        folders = [memory, *(path for path in memory.rglob("*") if path.is_dir())]
        files = [path for path in memory.rglob("*.md") if path.is_file()]
        folder, act = chance.choice(folders), chance.randrange(9)
        if act == 0 and len(folders) < 12:
            (folder / f"folder{number}").mkdir()
        elif act == 1 and folder != memory:
            shutil.rmtree(folder)
        elif act == 2 and folder != memory:
            folder.rename(memory / f"moved{number}")
        elif act == 3 and files:
            chance.choice(files).unlink()
        elif act == 4 and files:
            chance.choice(files).rename(folder / f"renamed{number}.md")
        elif act == 5 and files:
            with chance.choice(files).open("a") as file:
                file.write("more")
        elif act == 6:
            kept += both.followed.scan() is both.followed.scan()
        else:
            _write(folder / f"note{number}.md", str(number))
        if chance.random() < 0.7:
            both.check()
    both.check()
    assert kept


def test_a_queue_that_overflows_hides_nothing(both: Both) -> None:
    both.followed.scan()
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("the queue is too long to fill it here")
    paths = [os.open(both.root / name, os.O_RDWR) for name in ("memory/one.md", "memory/deep/two.md")]
    for number in range(limit + 100):
        os.pwrite(paths[number % 2], b"x", 0)
    (both.root / "memory/late.md").write_text("late")
    both.check()
    for path in paths:
        os.close(path)


def test_a_network_file_system_is_looked_at_every_time(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LOCAL_FILE_SYSTEMS", frozenset())
    assert both.followed.scan() is not both.followed.scan()
    both.check()


def test_without_a_queue_every_file_is_looked_at(both: Both) -> None:
    def refuse() -> FolderQueue:
        raise OSError("Too many open files")

    followed = FollowedFiles(both.files, 1000, refuse)
    assert followed.scan() is not followed.scan()
    assert followed.scan() == both.files.scan()


def test_a_listing_is_made_again_after_a_while(both: Both) -> None:
    followed = FollowedFiles(both.files, 0, FolderQueue)
    assert followed.scan() is not followed.scan()
    followed.close()


def test_closed_files_are_looked_at_and_hold_no_descriptor(both: Both) -> None:
    before = len(os.listdir("/proc/self/fd"))
    followed = FollowedFiles(both.files, 1000, FolderQueue)
    followed.scan()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    followed.close()
    followed.close()
    assert followed.scan() is not followed.scan()
    assert len(os.listdir("/proc/self/fd")) == before


def test_folders_that_are_gone_are_not_followed_any_more(both: Both) -> None:
    both.followed.scan()
    queue = both.followed._queue
    assert queue
    before = (len(queue._folders), len(queue._watches))
    for number in range(20):
        _write(both.root / f"memory/{number}/note.md", "x")
        both.check()
        shutil.rmtree(both.root / f"memory/{number}")
        both.check()
    assert (len(queue._folders), len(queue._watches)) == before


def test_listing_again_and_again_takes_no_more_memory(both: Both) -> None:
    for number in range(300):
        (both.root / f"memory/note{number}.md").write_text("x")

    def list_often() -> int:
        for _ in range(20):
            both.followed.forget()
            both.followed.scan()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = list_often()
        # One listing of these files takes four times as much.
        assert list_often() - before < 20_000
    finally:
        tracemalloc.stop()


def test_a_forked_process_takes_no_events_away(both: Both) -> None:
    both.followed.scan()
    (both.root / "memory/new.md").write_text("new")
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        both.followed.scan()
        os.write(writer, b"1" if both.followed.scan() == both.files.scan() else b"0")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1) == b"1"
    os.close(reader)
    os.close(writer)
    both.check()
    assert "memory/new.md" in both.followed.scan().stamps


def test_files_that_nobody_closes_hold_no_descriptor(both: Both) -> None:
    gc.collect()  # What other tests have left would be closed in between.
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        FollowedFiles(both.files, 1000, FolderQueue).scan()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_listing_that_another_thread_forgets_meanwhile_is_still_given(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = both.followed.scan()

    def forget_meanwhile(kept: object) -> object:
        both.followed.forget()
        return kept

    monkeypatch.setattr(both.followed, "_renew", forget_meanwhile)
    assert both.followed.scan() is listing
    monkeypatch.undo()
    assert both.followed.scan() == listing
