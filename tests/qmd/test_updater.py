"""When qmd updates and embeds, and what is told when it could not."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mdrecall.config.settings import QmdUpdate
from mdrecall.errors import BackendUnavailable, ProgramFailed, ProgramMissing, ProgramStopped, ProgramTimedOut
from mdrecall.extras.qmd.update import Embedding, Updater, UpdateReport
from mdrecall.locks import FileLock
from mdrecall.types.sync import Stop
from tests.processes import PATIENCE_S, until
from tests.qmd.agent_home import AgentHome, Scripted
from tests.qmd.real import Tools

NEVER = QmdUpdate()._replace(interval=0, on_boot=False)


class World:
    """An updater over a scripted program, with clocks that go when they are told to."""

    def __init__(self, agent_home: AgentHome) -> None:
        self.agent_home = agent_home
        self.program = Scripted()
        self.now_s = 1000.0
        self.embed_state = agent_home.state_dir / "embed.json"
        self._open: list[Updater] = []
        agent_home.qmd(includeDefaultMemory=False, paths=[{"path": "memory", "name": "n"}])
        agent_home.note("memory/a.md", "# A")
        agent_home.bind("n-main", agent_home.workspace / "memory")

    def embedding(self, interval_s: float = 3600) -> Embedding:
        return Embedding(
            self.program,
            NEVER._replace(embed_interval=int(interval_s * 1000), embed_timeout_ms=500),
            state_path=str(self.embed_state),
            lock_path=str(self.agent_home.state / "embed.lock"),
            now=lambda: self.now_s,
        )

    def updater(self, rules: QmdUpdate = NEVER, *, embeds: bool = False, embed_interval_s: float = 3600) -> Updater:
        collections = self.agent_home.collections(self.program)
        update = self.agent_home.update(self.program, collections=collections, now=lambda: self.now_s)
        embedding = self.embedding(embed_interval_s) if embeds else None
        made = Updater(collections, update, embedding, rules, clock=lambda: self.now_s)
        self._open.append(made)
        return made

    def forget_collections(self) -> None:
        Path(self.agent_home.database.path).unlink()

    def close(self) -> None:
        for updater in self._open:
            updater.close()


@pytest.fixture
def world(agent_home: AgentHome) -> Iterator[World]:
    made = World(agent_home)
    yield made
    made.close()


def holds_until(event: threading.Event, begun: threading.Event) -> Callable[[Stop], str]:
    """A reply that comes when it is let, or not at all if it is stopped."""

    def reply(stop: Stop) -> str:
        begun.set()
        while not event.wait(0.01):
            if stop():
                raise ProgramStopped("stopped")
        return ""

    return reply


def test_an_update_is_skipped_if_the_last_is_young_unless_it_is_forced(world: World) -> None:
    updater = world.updater()
    assert updater.run("manual") == UpdateReport()
    world.now_s += 14
    assert updater.run("search").skipped == "debounced"
    assert updater.run("manual", force=True).skipped == ""
    world.now_s += 16
    assert updater.run("search").skipped == ""
    assert world.program.names() == ["update"] * 3


def test_a_failed_update_counts_as_none_and_is_told_until_one_works(world: World) -> None:
    world.program.replies["update"] = [ProgramTimedOut("slow", hint="Give it time."), ProgramFailed("no", code=1)]
    updater = world.updater()
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            updater.run("manual")
    status = updater.status()
    assert (status["updateFailures"], status["lastUpdateError"], status["lastUpdateAt"]) == (2, "no", None)
    updater.run("manual")
    status = updater.status()
    assert (status["updateFailures"], status["lastUpdateError"]) == (0, "")
    assert status["lastUpdateAt"] == "1970-01-01T00:16:40Z"
    assert world.updater().status()["lastUpdateAt"] == "1970-01-01T00:16:40Z"


def test_a_forced_update_that_comes_while_one_runs_is_done_after_it(world: World) -> None:
    go, begun = threading.Event(), threading.Event()
    world.program.replies["update"] = [holds_until(go, begun)]
    updater = world.updater()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(updater.run, "boot", force=True)
        assert begun.wait(PATIENCE_S)
        assert updater.status()["updating"]
        later = pool.submit(updater.run, "manual", force=True)
        joined = pool.submit(updater.run, "search")
        assert until(lambda: updater._flight.callers == 3)
        go.set()
        assert joined.result(PATIENCE_S) is first.result(PATIENCE_S)
        assert later.result(PATIENCE_S) is not first.result(PATIENCE_S)
    assert not updater.status()["updating"]
    assert world.program.names() == ["update"] * 2


def test_a_search_waits_for_an_update_only_as_long_as_it_may(world: World) -> None:
    go, begun = threading.Event(), threading.Event()
    world.program.replies["update"] = [holds_until(go, begun)]
    updater = world.updater()
    assert updater.catch_up(0.01, None) == ((), "changed files are being indexed by qmd", False)
    assert begun.wait(PATIENCE_S)
    # The update ends while the search waits for it: a search after it would begin another one.
    threading.Timer(0.2, go.set).start()
    assert updater.catch_up(PATIENCE_S, None) == ((), "", False)
    assert world.program.names() == ["update"]


def test_a_failed_update_before_a_search_is_an_issue_and_a_missing_program_an_error(world: World) -> None:
    world.program.replies["update"] = [ProgramFailed("no", code=1), ProgramMissing("gone")]
    updater = world.updater()
    refresh = updater.catch_up(PATIENCE_S, None)
    assert [(issue.path, issue.problem) for issue in refresh.issues] == [("qmd", "could not update its index: no")]
    assert refresh.stale
    assert isinstance(updater.search_error, ProgramFailed)
    with pytest.raises(ProgramMissing):
        updater.catch_up(PATIENCE_S, None)


def test_at_the_start_it_updates_and_may_be_waited_for(world: World) -> None:
    updater = world.updater(NEVER._replace(on_boot=True, wait_for_boot_sync=True))
    updater.start()
    assert world.program.names() == ["update"]
    begun = threading.Event()
    world.program.replies["update"] = [holds_until(begun, begun)]
    updater = world.updater(NEVER._replace(on_boot=True))
    updater.start()
    assert begun.wait(PATIENCE_S)


def test_a_start_without_collections_updates_when_qmd_works_again(world: World) -> None:
    world.forget_collections()
    world.program.replies["collection add"] = [ProgramTimedOut("slow")]
    updater = world.updater(NEVER._replace(on_boot=True, wait_for_boot_sync=True))
    with pytest.raises(ProgramTimedOut):
        updater.start()
    assert world.program.names() == ["collection add", "collection add", "update"]


def test_an_index_is_current_if_its_update_is_recent_and_nothing_has_changed_or_is_to_be_embedded(
    world: World,
) -> None:
    updater = world.updater(embeds=True)
    assert not updater.is_current()
    world.program.replies["embed"] = [ProgramFailed("no model", code=1)]
    updater.run("manual", force=True)
    assert updater.is_current()  # it pauses after the failure
    world.now_s += 14
    assert updater.is_current()
    world.agent_home.note("memory/b.md", "# B")
    assert not updater.is_current()
    updater.run("manual", force=True)
    assert updater.is_current()
    world.embed_state.unlink()
    assert not updater.is_current()
    updater.run("manual", force=True)
    world.now_s += 15
    assert not updater.is_current()


def test_who_answers_once_only_binds_collections(world: World) -> None:
    world.forget_collections()
    updater = world.updater(NEVER._replace(interval=1, debounce_ms=0, on_boot=True, wait_for_boot_sync=True))
    updater.start(one_shot=True)
    assert world.program.names() == ["collection add"]
    assert "qmd-update" not in {thread.name for thread in threading.enumerate()}


def test_every_so_often_it_updates_if_files_have_changed(world: World) -> None:
    both = threading.Semaphore(0)

    def counts(_: Stop) -> str:
        both.release()
        return ""

    world.program.replies["update"] = [counts, counts, counts]
    updater = world.updater(NEVER._replace(interval=10, debounce_ms=0))
    updater.start()
    assert both.acquire(timeout=PATIENCE_S)
    for number in range(2):
        assert until(lambda: not updater.is_updating)
        assert not both.acquire(timeout=0.1)
        world.agent_home.note(f"memory/{number}.md", "# New")
        assert both.acquire(timeout=PATIENCE_S)
    assert world.program.names() == ["update"] * 3


def test_closing_ends_what_runs_drops_what_waits_and_may_be_done_twice(world: World) -> None:
    go, begun = threading.Event(), threading.Event()
    world.program.replies["update"] = [holds_until(go, begun)]
    updater = world.updater(NEVER._replace(interval=3_600_000, on_boot=True))
    updater.start()
    assert begun.wait(PATIENCE_S)
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(updater.run, "manual", force=True)
        assert until(lambda: updater._flight.callers == 2)
        updater.close()
        updater.close()
        assert later.result(PATIENCE_S).skipped == "closed"
    assert updater.run("manual", force=True).skipped == "closed"
    assert world.program.names() == ["update"]
    assert "qmd-update" not in {thread.name for thread in threading.enumerate()}
    assert updater.status()["updateFailures"] == 0


def test_it_embeds_at_first_then_when_forced_or_after_a_while(world: World) -> None:
    updater = world.updater(embeds=True)
    assert updater.run("manual").embedded
    world.now_s += 60
    assert not updater.run("search").embedded
    assert updater.run("manual", force=True).embedded
    world.now_s += 3599
    assert not updater.run("search").embedded
    world.now_s += 1
    assert world.updater(embeds=True).run("search").embedded
    world.now_s += 1_000_000
    assert not world.updater(embeds=True, embed_interval_s=0).run("search").embedded


def test_a_failed_embedding_leaves_the_update_done_and_is_tried_ever_less_often(world: World) -> None:
    updater = world.updater(embeds=True)
    world.program.replies["embed"] = [ProgramFailed("no model")] * 9
    pauses = []
    for failures in range(1, 10):
        report = updater.run("manual", force=True)
        assert (report.skipped, report.embedded) == ("", False)
        assert [issue.path for issue in report.issues] == ["qmd embed"]
        assert not updater.is_behind()
        assert updater.status()["embedFailures"] == failures
        state = world.embedding().state()
        pauses.append(state[2] - world.now_s)
        world.now_s = state[2] - 1
        assert not world.updater(embeds=True).run("manual", force=True).embedded
        world.now_s += 1
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert world.program.names().count("embed") == 9
    assert updater.run("interval").embedded
    status = updater.status()
    assert (status["embedFailures"], status["lastEmbedError"], status["nextEmbedTry"]) == (0, "", None)


def test_embedding_that_takes_longer_than_one_run_goes_on_soon_each_time(world: World) -> None:
    world.program.replies["embed"] = [ProgramTimedOut("slow")] * 3
    updater = world.updater(embeds=True)
    for _ in range(3):
        updater.run("manual", force=True)
        assert world.embedding().state()[1:3] == (1, world.now_s + 60)
        world.now_s += 60
    assert updater.run("manual", force=True).embedded


def test_a_clock_that_was_set_back_does_not_stop_embedding_for_good(world: World) -> None:
    world.embed_state.parent.mkdir(parents=True)
    world.embed_state.write_text(json.dumps({"at": 9e9, "failures": 0, "nextTry": 0, "error": ""}))
    assert world.updater(embeds=True).run("search").embedded
    world.embed_state.write_text(json.dumps({"at": 0, "failures": 3, "nextTry": 9e9, "error": "x"}))
    assert world.updater(embeds=True).run("search").embedded


def test_while_another_embeds_it_is_left_for_later_and_is_no_failure(world: World) -> None:
    world.program.replies["embed"] = ["Another embed process is already running. Skipping.\n"]
    updater = world.updater(embeds=True)
    assert not updater.run("manual", force=True).embedded
    lock = FileLock(str(world.agent_home.state / "embed.lock"))
    assert lock.acquire(0, "embedding with qmd")
    assert not updater.run("manual", force=True).embedded
    lock.release()
    assert updater.status()["embedFailures"] == 0
    assert updater.run("manual", force=True).embedded
    assert world.program.names().count("embed") == 2


def test_a_search_does_not_wait_for_embedding(world: World) -> None:
    go, begun = threading.Event(), threading.Event()
    world.program.replies["embed"] = [holds_until(go, begun)]
    updater = world.updater(embeds=True)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(updater.run, "manual", force=True)
        assert begun.wait(PATIENCE_S)
        assert not updater.is_updating
        assert not updater.is_behind()
        updater.close()
        assert not first.result(PATIENCE_S).embedded


def test_the_real_qmd_embeds_and_a_missing_model_is_told_and_left_for_later(
    agent_home: AgentHome, real_tools: Tools, models: dict[str, str]
) -> None:
    agent_home.note("memory/a.md", "# Tea\nassam\n")
    agent_home.qmd(includeDefaultMemory=False, paths=[{"path": "memory", "name": "n"}])
    program = agent_home.program(real_tools, models)

    def updater(timeout_s: float) -> Updater:
        embedding = Embedding(
            program,
            NEVER._replace(embed_timeout_ms=int(timeout_s * 1000)),
            state_path=str(agent_home.state_dir / "embed.json"),
            lock_path=str(agent_home.state / "embed.lock"),
        )
        collections = agent_home.collections(program)
        return Updater(collections, agent_home.update(program, collections=collections), embedding, NEVER)

    assert updater(60).run("manual", force=True).embedded
    assert agent_home.database.count_unembedded() == 0
    config = agent_home.config_file.read_text().replace(models["QMD_EMBED_MODEL"], "/nowhere/model.gguf")
    agent_home.config_file.write_text(config)
    agent_home.note("memory/b.md", "# Coffee\nmocha\n")
    report = updater(60).run("manual", force=True)
    assert (report.skipped, report.embedded) == ("", False)
    assert [issue.path for issue in report.issues] == ["qmd embed"]
    assert agent_home.database.counts() == {"n-main": 2}
    assert updater(60).status()["embedFailures"] == 1
    assert not updater(60).run("manual", force=True).issues
