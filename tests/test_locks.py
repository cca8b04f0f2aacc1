import fcntl
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mdrecall.locks import FileLock, describe_holder
from mdrecall.types.sync import Holder
from tests.processes import PATIENCE_S, finish, holding, python


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "index.sqlite.lock")


def test_what_another_process_holds_cannot_be_taken_until_it_lets_go(path: str) -> None:
    lock = FileLock(path)
    with holding(path) as other:
        assert not lock.acquire(0, "indexing")
        assert not lock.acquire(0.05, "indexing")
        assert not lock.is_held
        finish(other)
        assert lock.acquire(0, "indexing")
    lock.release()


def test_two_of_one_process_exclude_each_other(path: str) -> None:
    one, two = FileLock(path), FileLock(path)
    assert one.acquire(0, "indexing")
    assert not two.acquire(0, "indexing")
    assert not one.acquire(0, "indexing")
    holder = two.holder()
    assert holder
    assert (holder.pid, holder.doing, holder.more) == (os.getpid(), "indexing", {})
    assert holder.host == os.uname().nodename
    one.release()
    assert two.acquire(0, "indexing")
    two.release()


def test_whoever_waits_gets_the_lock_when_it_is_free(path: str) -> None:
    held, waiting = FileLock(path), FileLock(path)
    assert held.acquire(0, "indexing")
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(waiting.acquire(PATIENCE_S, "indexing")))
    thread.start()
    held.release()
    thread.join()
    assert got == [True]
    waiting.release()


def test_the_lock_of_a_killed_process_keeps_nobody_out(path: str) -> None:
    with holding(path) as other:
        other.kill()
        other.wait()
        assert os.path.exists(path)
        lock = FileLock(path)
        assert lock.holder() is None
        assert lock.acquire(0, "indexing")
        lock.release()
        assert not os.path.exists(path)


def test_the_file_is_gone_when_the_lock_is_released(path: str) -> None:
    lock = FileLock(path)
    for _ in range(2):
        assert lock.acquire(0, "indexing")
        assert os.path.exists(path)
        lock.release()
        lock.release()
        assert not os.path.exists(path)


def test_a_sweep_removes_what_a_killed_process_left(path: str) -> None:
    with holding(path) as other:
        other.kill()
        other.wait()
        lock = FileLock(path)
        lock.sweep()
        assert not os.path.exists(path)
        assert not lock.is_held


def test_a_sweep_leaves_a_lock_that_is_held_alone(path: str) -> None:
    with holding(path) as other:
        FileLock(path).sweep()
        assert os.path.exists(path)
        holder = FileLock(path).holder()
        assert holder
        assert holder.pid == other.pid
    mine = FileLock(path)
    assert mine.acquire(0, "indexing")
    mine.sweep()
    FileLock(path).sweep()
    assert mine.is_held
    assert not FileLock(path).acquire(0, "indexing")
    mine.release()


def test_a_sweep_makes_nothing_where_there_is_nothing(path: str, tmp_path: Path) -> None:
    FileLock(path).sweep()
    FileLock(str(tmp_path / "no/such/folder")).sweep()
    assert list(tmp_path.iterdir()) == []


def test_the_holder_is_named_with_what_it_does_and_says(path: str) -> None:
    before = time.time()
    with holding(path, "watching") as other:
        holder = FileLock(path).holder()
        assert holder
        assert (holder.pid, holder.doing, holder.more) == (other.pid, "watching", {"told": "this"})
        assert before - 1 < holder.since_s < time.time() + 1
        assert str(other.pid) in describe_holder(holder)
        assert "watching since" in describe_holder(holder)
    assert FileLock(path).holder() is None


def test_the_last_word_counts_however_short_it_is(path: str) -> None:
    lock = FileLock(path)
    lock.record({"nobody": "hears this"})
    assert not os.path.exists(path)
    assert lock.acquire(0, "watching")
    for more in ({"error": "é" * 500, "folders": 3}, {"folders": 4}, {}):
        lock.record(more)
        holder = FileLock(path).holder()
        assert holder
        assert (holder.pid, holder.doing, holder.more) == (os.getpid(), "watching", more)
        assert lock.holder() == holder
    lock.release()


GARBAGE = [
    *(b"", b"\0" * 100, b"garbage", b"\xff\xfe", b"[]", b"7", b"{}", b'{"pid": "x", "doing": "", "since": 0}'),
    *(b'{"pid": 7, "doing": "indexing"}', b'{"pid": 7, "doing": "indexing", "since": 1, "more": 3}'),
]


def test_of_a_holder_that_said_nothing_sensible_nothing_is_said(tmp_path: Path) -> None:
    """All wait at once: each gives a holder who says nothing a second to be one who only asks."""

    def refused(number: int) -> bool:
        lock = FileLock(str(tmp_path / str(number)))
        assert lock.acquire(0, "indexing")
        Path(lock.path).write_bytes(GARBAGE[number])
        try:
            return FileLock(lock.path).holder() is None and not FileLock(lock.path).acquire(0, "indexing")
        finally:
            lock.release()

    with ThreadPoolExecutor(len(GARBAGE)) as pool:
        refusals = list(pool.map(refused, range(len(GARBAGE))))
    assert [told for told, right in zip(GARBAGE, refusals, strict=True) if not right] == []


def test_a_holder_in_words() -> None:
    assert describe_holder(None) == "another process"
    since = time.mktime((2026, 2, 3, 4, 5, 6, 0, 1, -1))
    assert describe_holder(Holder(12, "indexing", since, {})) == "process 12, which has been indexing since 04:05:06"
    here, there = Holder(12, "indexing", since, {}, os.uname().nodename), Holder(12, "indexing", since, {}, "elsewhere")
    assert describe_holder(here) == "process 12, which has been indexing since 04:05:06"
    assert describe_holder(there) == "process 12 on elsewhere, which has been indexing since 04:05:06"


def test_only_its_owner_can_read_the_file(path: str) -> None:
    lock = FileLock(path)
    assert lock.acquire(0, "indexing")
    assert os.stat(path).st_mode & 0o777 == 0o600
    lock.release()


_COUNT = """
import sys
from mdrecall.locks import FileLock
path, counter, times = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(times)):
    lock = FileLock(path)
    while not lock.acquire(0, "counting"):
        pass
    with open(counter) as file:
        number = int(file.read())
    with open(counter, "w") as file:
        file.write(str(number + 1))
    lock.release()
"""


def test_many_processes_lose_no_update(path: str, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [python(_COUNT, path, str(counter), "60") for _ in range(4)]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        finish(process)
    assert [process.returncode for process in processes] == [0] * 4
    assert counter.read_text() == "240"
    assert not os.path.exists(path)


def between_opening_and_locking(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Let something happen, once, after a lock's file was opened and before the system was asked to lock it."""
    real = fcntl.flock

    def flock(file: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        act()
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_file_that_was_removed_after_it_was_opened_is_no_lock(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held, waiting, third = FileLock(path), FileLock(path), FileLock(path)
    assert held.acquire(0, "indexing")
    between_opening_and_locking(monkeypatch, held.release)
    assert not waiting._try_lock()
    assert waiting.acquire(0, "indexing")
    waiting.release()
    assert held.acquire(0, "indexing")

    def change_hands() -> None:
        held.release()
        assert third.acquire(0, "watching")

    between_opening_and_locking(monkeypatch, change_hands)
    assert not waiting._try_lock()
    assert third.is_held
    third.release()


def test_nothing_stays_open(path: str) -> None:
    held, other = FileLock(path), FileLock(path)
    before = len(os.listdir("/dev/fd"))
    for _ in range(10):
        assert held.acquire(0, "indexing")
        assert not other.acquire(0, "indexing")
        assert other.holder()
        other.sweep()
        held.release()
        assert other.holder() is None
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("where", ["no-such-folder/lock", "file/lock", "folder", "link"])
def test_where_there_can_be_no_lock_the_system_says_why(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    before = sorted(tmp_path.iterdir())
    lock = FileLock(str(tmp_path / where))
    with pytest.raises(OSError, match=where):
        lock.acquire(0, "indexing")
    assert not lock.is_held
    assert sorted(tmp_path.iterdir()) == before


def test_a_lock_in_a_closed_folder_is_refused_and_one_in_an_open_one_is_not(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(PermissionError):
        FileLock(str(closed / "lock")).acquire(0, "indexing")


def test_a_release_takes_away_only_its_own_file(path: str) -> None:
    first, second = FileLock(path), FileLock(path)
    assert first.acquire(0, "indexing")
    os.unlink(path)
    assert second.acquire(0, "indexing")
    first.release()
    assert not FileLock(path).acquire(0, "indexing")
    assert second.holder()
    second.release()


_ASK = """
import sys
from mdrecall.locks import FileLock
lock = FileLock(sys.argv[1])
print("asking", flush=True)
while True:
    lock.holder()
"""


def test_asking_who_holds_a_lock_keeps_nobody_from_taking_it(path: str) -> None:
    process = python(_ASK, path)
    assert process.stdout
    assert process.stdout.readline() == "asking\n"
    lock = FileLock(path)
    refused = 0
    for _ in range(2000):
        if lock.acquire(0, "watching"):
            lock.release()
        else:
            refused += 1
    process.kill()
    finish(process)
    assert refused == 0
