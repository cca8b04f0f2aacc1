"""The watch loop: with the clock and the events of a script, and with real files."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from mdrecall.engine.watch_loop import Health, IndexWatcher, WatchLoop, WatchPlan
from mdrecall.errors import StoreBusy
from mdrecall.locks import FileLock
from mdrecall.memory import Memory
from mdrecall.types.documents import Issue
from mdrecall.types.sync import FileChange, SyncReport, WatchEvent
from tests.conftest import Workspace
from tests.processes import PATIENCE_S, until

NOTHING = SyncReport(unchanged=3)
CHANGED = SyncReport(changed=1, changes=(FileChange("memory/a.md", "changed"),))


def plan(debounce_s: float, scan_s: float) -> WatchPlan:
    return WatchPlan(lambda: (), lambda name: False, debounce_s, scan_s)


class Script:
    """A clock that advances while the loop waits, a list of events, and everything the loop does about them."""

    def __init__(self, plan: WatchPlan) -> None:
        self.now = 1000.0
        self.folders = 2
        self.problem = ""
        self.is_closed = False
        self.refreshed = 0
        self.is_new = True
        self.must_poll = False
        self.synced: list[float] = []
        self.told: list[WatchEvent] = []
        self.beats: list[tuple[float, Health]] = []
        self.answer: Callable[[], SyncReport] = lambda: NOTHING
        self._begun = self.now
        self._touched: set[str] = set()
        self._events: list[tuple[float, Callable[[], None]]] = []
        self.loop = WatchLoop(cast(Any, self), self.sync, plan, beat=self._beat, notify=self.told.append)

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now + 1e9

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        """Let something happen so long after the beginning."""
        self._events.append((self._begun + seconds, act))
        self._events.sort(key=lambda event: event[0])

    def touch(self, *seconds: float) -> None:
        for moment in seconds:
            self.at(moment, lambda: self._touched.add("memory/a.md"))

    def run_for(self, seconds: float) -> None:
        self.at(seconds, self.loop.stop)
        self.loop.run()

    def sync(self) -> SyncReport:
        self.synced.append(round(self.now - self._begun, 3))
        return self.answer()

    def kinds(self) -> list[str]:
        return [happened.kind for happened in self.told]

    def wait(self, timeout_s: float) -> bool:
        end = self.now + timeout_s
        while not self._touched and self._events and self._events[0][0] <= end:
            self.now, act = max(self.now, self._events[0][0]), self._events.pop(0)[1]
            act()
            if act == self.loop.stop:
                return False
        if not self._touched:
            self.now = end
        touched, self._touched = bool(self._touched), set()
        return touched

    def interrupt(self) -> None:
        """The events of the script interrupt by themselves."""

    def refresh(self) -> bool:
        self.refreshed += 1
        is_new, self.is_new = self.is_new, False
        return is_new

    def close(self) -> None:
        self.is_closed = True

    def _beat(self, health: Health) -> None:
        self.beats.append((round(self.now - self._begun, 3), health))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Changes are looked at after 2 s, everything every 60 s."""
    made = Script(plan(2.0, 60.0))
    monkeypatch.setattr("mdrecall.engine.watch_loop.time", made)
    return made


def test_the_files_are_looked_at_before_and_after_the_watch_begins(script: Script) -> None:
    order: list[str] = []

    def answer() -> SyncReport:
        order.append(f"sync, {script.refreshed} refreshed")
        return NOTHING

    script.answer = answer
    script.run_for(1)
    assert order == ["sync, 0 refreshed", "sync, 1 refreshed"]
    assert script.told == [WatchEvent("watching", folders=2)]
    assert script.is_closed


#: When files change and how long a sync takes, and when the loop then syncs.
MOMENTS: dict[str, tuple[list[float], float, list[float]]] = {
    "a while after a change": ([10], 0, [0, 0, 12, 72]),
    "changes that follow each other together": ([10, 10.1, 11, 11.9, 20, 21], 0, [0, 0, 12, 22, 82]),
    "a stream of changes": ([10 + n / 2 for n in range(20)], 0, [0, 0, 12, 14.5, 17, 19.5, 79.5]),
    "a change during a sync afterwards": ([10, 12.5], 1, [0, 1, 12, 15, 76]),
    "now and then though nothing was noticed": ([], 0, [0, 0, 60]),
    "a change just before a look is part of it": ([59], 0, [0, 0, 60]),
}  # fmt: skip


@pytest.mark.parametrize("what", MOMENTS)
def test_the_loop_syncs(script: Script, what: str) -> None:
    changes, takes_s, synced = MOMENTS[what]

    def answer() -> SyncReport:
        script.now += takes_s
        return NOTHING

    script.answer = answer
    script.touch(*changes)
    script.run_for(100)
    assert script.synced == synced


def test_where_no_event_tells_of_a_change_a_small_share_of_the_time_is_spent_on_looking(script: Script) -> None:
    def answer() -> SyncReport:
        is_work = len(script.synced) == 3
        script.now += 1 if is_work else 0.01
        return CHANGED if is_work else NOTHING

    script.must_poll, script.answer = True, answer
    script.run_for(15)
    assert script.synced == [0, 0.01, 4.02, 9.02, 13.03]


def test_only_what_is_worth_telling_is_told(script: Script) -> None:
    bad = SyncReport(failed=(Issue("memory/a.md", "is too large"),))
    answers = [NOTHING, NOTHING, CHANGED, NOTHING, bad, SyncReport(rebuilt=True), SyncReport(unchanged=1)]
    script.answer = lambda: answers[len(script.synced) - 1]
    script.touch(10, 20, 30, 40, 50)
    script.run_for(55)
    assert script.kinds() == ["watching", "synced", "synced", "synced"]
    assert [happened.report for happened in script.told[1:]] == [CHANGED, bad, SyncReport(rebuilt=True)]


class Failing:
    """Fails in some runs."""

    def __init__(self, script: Script, errors: dict[int, Exception]) -> None:
        self._script = script
        self._errors = errors

    def __call__(self) -> SyncReport:
        error = self._errors.get(len(self._script.synced))
        if error:
            raise error
        return NOTHING


def test_a_sync_that_fails_is_told_once_and_tried_again_soon(script: Script) -> None:
    busy = StoreBusy("Somebody writes.", hint="Wait.")
    script.answer = Failing(script, dict.fromkeys(range(3, 8), busy))
    script.touch(10)
    script.run_for(59)
    assert script.synced == [0, 0, 12, 15, 18, 21, 24, 27]
    assert script.told[1:] == [WatchEvent("failed", error="Somebody writes. Wait.")]
    errors = [health["error"] for _, health in script.beats]
    assert "Somebody writes. Wait." in errors
    assert errors[-1] == ""
    assert script.loop.health["syncs"] == 3


def test_another_failure_or_the_same_one_later_is_told_again(script: Script) -> None:
    script.answer = Failing(
        script, {3: StoreBusy("one"), 4: StoreBusy("one"), 5: ValueError("two"), 7: ValueError("two")}
    )
    script.touch(10, 40)
    script.run_for(59)
    assert [happened.error for happened in script.told[1:]] == ["one", "ValueError: two", "ValueError: two"]


def test_new_folders_are_watched_and_looked_at_once_more(script: Script) -> None:
    def answer() -> SyncReport:
        if len(script.synced) == 3:
            script.is_new, script.folders = True, 3
            return CHANGED
        return NOTHING

    script.answer = answer
    script.touch(10, 20)
    script.run_for(30)
    assert script.synced == [0, 0, 12, 12, 22]
    assert script.told == [
        WatchEvent("watching", folders=2),
        WatchEvent("synced", CHANGED),
        WatchEvent("watching", folders=3),
    ]
    assert script.loop.health["folders"] == 3


def test_what_keeps_changes_from_being_noticed_is_told_once(script: Script) -> None:
    script.problem, script.is_new = "too many folders", False
    script.at(70, lambda: setattr(script, "problem", "something else"))
    script.at(130, lambda: setattr(script, "problem", ""))
    script.run_for(200)
    assert script.synced == [0, 60, 120, 180]
    assert [happened.error for happened in script.told if happened.kind == "problem"] == [
        "too many folders", "something else"]  # fmt: skip
    assert script.loop.health["problem"] == ""


def test_a_beat_tells_after_every_look_and_now_and_then_how_it_goes(script: Script) -> None:
    script.touch(10)
    script.run_for(17)
    assert [moment for moment, _ in script.beats] == [0, 0, 5, 10, 12, 15]
    last = script.beats[-1][1]
    assert (last["folders"], last["syncs"], last["problem"], last["error"]) == (2, 3, "", "")
    assert last["synced_at"] == 1e9 + 1012


def test_whoever_is_told_to_stop_syncs_no_more(script: Script) -> None:
    script.touch(10)
    script.run_for(11)
    assert script.synced == [0, 0]
    assert script.is_closed
    script.loop.stop()


def watcher_of(memory: Memory) -> dict[str, object]:
    found: dict[str, object] = memory.status().custom["watcher"]
    return found


def test_a_followed_note_is_indexed_without_any_search(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    workspace.configure("{memorySearch: {sync: {onSearch: false, watchDebounceMs: 10}}}")
    watching, reading = workspace.memory(), workspace.memory()
    watching.sync()
    assert watcher_of(reading) == {"running": False}
    watching.watch()
    watching.watch()
    assert until(lambda: watcher_of(reading).get("folders") == 2)
    assert watcher_of(reading)["healthy"]
    assert not reading.search("penguin", mode="keyword").results
    (workspace.path / "memory/b.md").write_text("penguin")
    assert until(lambda: reading.status().files == 2)
    assert reading.search("penguin")[0].path == "memory/b.md"
    (workspace.path / "memory/b.md").write_text("seal")
    assert until(lambda: bool(reading.search("seal", mode="keyword").results))
    folder = workspace.path / "memory/projects/2026"
    folder.mkdir(parents=True)
    (folder / "ice.md").write_text("iceberg")
    assert until(lambda: reading.status().files == 3)
    assert reading.search("iceberg")[0].path == "memory/projects/2026/ice.md"
    (folder / "more.md").write_text("floe")
    assert until(lambda: reading.status().files == 4)
    (workspace.path / "memory/a.md").unlink()
    assert until(lambda: reading.status().files == 3)
    assert not reading.search("walrus", mode="keyword").results
    watching.close()
    assert watcher_of(reading) == {"running": False}
    (workspace.path / "memory/c.md").write_text("whale")
    assert reading.status().dirty
    assert reading.status().files == 3


def test_one_memory_follows_for_all_and_another_takes_over(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.engine.watch_loop._TAKEOVER_S", 0.05)
    workspace.write("memory/a.md", "walrus")
    workspace.configure("{memorySearch: {sync: {onSearch: false, watchDebounceMs: 10}}}")
    first, second, reading = workspace.memory(), workspace.memory(), workspace.memory()
    first.sync()
    first.watch()
    assert until(lambda: bool(watcher_of(reading).get("healthy")))
    since = watcher_of(reading)["since"]
    second.watch()
    with pytest.raises(StoreBusy, match="already watched by process"):
        reading.follow(lambda happened: None)
    assert watcher_of(reading)["since"] == since
    first.close()
    assert until(lambda: watcher_of(reading).get("since", since) != since)
    (workspace.path / "memory/b.md").write_text("penguin")
    assert until(lambda: reading.status().files == 2)


def test_where_nothing_is_to_be_followed_nobody_does(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    workspace.configure("{memorySearch: {sync: {watch: false}}}")
    memory = workspace.memory()
    memory.sync()
    before = threading.active_count()
    memory.watch()
    assert threading.active_count() == before
    assert watcher_of(memory) == {"running": False}


def test_closing_while_the_thread_is_being_started_waits_for_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that is not running yet cannot be joined: closing at that moment raised a RuntimeError."""
    failures: list[str] = []

    def close() -> None:
        try:
            watcher.close()
        except RuntimeError as error:
            failures.append(str(error))

    closing = threading.Thread(target=close)
    start = threading.Thread.start

    def close_then_start(thread: threading.Thread) -> None:
        if thread.name == "mdrecall-watch":
            start(closing)
            closing.join(0.2)  # it ends here if it does not wait
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", close_then_start)
    wanted = plan(0.1, 60.0)
    lock = FileLock(str(workspace.home / "watch.lock"))
    watcher = IndexWatcher(lock, lambda in_background: wanted, lambda progress, stop: NOTHING)
    watcher.start()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert failures == []


def test_whoever_is_told_to_stop_before_it_begins_closes_what_it_opened(script: Script) -> None:
    script.loop.stop()
    script.run_for(10)
    assert (script.synced, script.is_closed) == ([], True)
