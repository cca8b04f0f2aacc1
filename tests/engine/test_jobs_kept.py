"""Jobs outlive the process that made them: they are written down, and whoever comes next collects them, once."""

import threading
import warnings

import pytest

from mdrecall.memory import Memory
from tests.engine.batch_workspace import SIX, WORDS, BatchWorkspace
from tests.processes import PATIENCE_S, until
from tests.providers import faults


def start_job(batches: BatchWorkspace) -> None:
    """Have the next sync hand over six texts, and not wait for them."""
    batches.configure(wait=False)
    batches.plan(polls_until_done=None)
    batches.write(*SIX)


def test_a_job_that_is_not_waited_for_is_told_of_and_a_later_sync_collects_it(batches: BatchWorkspace) -> None:
    start_job(batches)
    memory = batches.workspace.memory()
    (issue,) = batches.sync(memory).issues
    (job,) = batches.made
    assert f"6 texts are waiting for {batches.server.kind} ({job}); a later sync collects them." in issue.problem
    assert (batches.direct, batches.kept()) == ([], [(job, 6)])
    batch = memory.status().batch
    assert (batch["wait"], batch["jobs"], batch["texts"], batch["failures"]) == (False, 1, 6, 0)
    assert "6 texts are waiting" in batches.sync(memory).issues[0].problem
    batches.server.batch.finish_job(job)
    assert batches.sync().issues == ()
    assert batches.is_paid_once()
    assert "jobs" not in batches.workspace.memory().status().batch


def test_of_jobs_that_are_not_waited_for_no_more_are_open_than_may_be(
    batches: BatchWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FileJobs", "GeminiJobs"):
        monkeypatch.setattr(f"mdrecall.embed.remote.jobs.{name}.most_texts", 2)
    batches.configure(wait=False, concurrency=2)
    batches.plan(polls_until_done=None)
    batches.write(*SIX)
    assert "4 texts are waiting" in batches.sync().issues[0].problem
    assert [texts for _, texts in batches.kept()] == [2, 2]
    while batches.sync().issues:
        for job in [job for job in batches.made if not batches.server.batch.jobs[job].over]:
            batches.server.batch.finish_job(job)
    assert (batches.batch, batches.direct, len(batches.made), batches.kept()) == (sorted(SIX), [], 3, [])


def test_words_are_found_while_a_job_is_under_way(batches: BatchWorkspace) -> None:
    start_job(batches)
    memory = batches.workspace.memory()
    batches.sync(memory)
    assert [result.path for result in memory.search("desert", mode="keyword")] == ["memory/desert.md"]


def test_a_note_that_changes_while_its_job_is_under_way_is_embedded_anew_and_only_that_one(
    batches: BatchWorkspace,
) -> None:
    start_job(batches)
    batches.sync()
    batches.write(SIX[0], more=" And more.")
    batches.server.batch.finish_job(batches.made[0])
    batches.plan(polls_until_done=0)
    assert batches.sync().issues == ()
    assert [len(job.lines) for job in batches.server.batch.jobs.values()] == [6, 1]
    assert (batches.direct, batches.kept()) == ([], [])
    batches.write(SIX[0])
    before = len(batches.server.requests)
    assert batches.sync().issues == ()
    assert (len(batches.server.requests), len(batches.vectors())) == (before, 6)


def test_a_job_is_collected_though_all_its_notes_are_gone(batches: BatchWorkspace) -> None:
    start_job(batches)
    batches.sync()
    for word in SIX:
        (batches.workspace.path / f"memory/{word}.md").unlink()
    batches.write(WORDS[7])
    batches.plan(polls_until_done=0)
    assert batches.sync().issues == ()
    assert (batches.batch, batches.kept()) == ([WORDS[7]], [(batches.made[0], 6)])
    batches.server.batch.finish_job(batches.made[0])
    (batches.workspace.path / f"memory/{WORDS[7]}.md").unlink()
    batches.write(*SIX)
    assert batches.sync().issues == ()
    assert (sorted({*batches.batch}), batches.direct, len(batches.made)) == (sorted([*SIX, WORDS[7]]), [], 2)
    assert (len(batches.batch), batches.kept()) == (7, [])


def test_a_job_that_nobody_needs_is_not_waited_for(batches: BatchWorkspace) -> None:
    start_job(batches)
    batches.sync()
    for word in SIX:
        (batches.workspace.path / f"memory/{word}.md").unlink()
    batches.configure(wait=True, concurrency=1)
    batches.write(WORDS[7])
    batches.plan(polls_until_done=2)
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, batches.kept()) == ([WORDS[7]], [], [(batches.made[0], 6)])


def test_an_index_built_anew_keeps_the_job_that_is_under_way(batches: BatchWorkspace) -> None:
    start_job(batches)
    batches.sync()
    report = batches.sync(force=True)
    assert (report.rebuilt, len(batches.made), batches.kept()) == (True, 1, [(batches.made[0], 6)])
    batches.server.batch.finish_job(batches.made[0])
    assert batches.sync(force=True).issues == ()
    assert (batches.is_paid_once(), len(batches.vectors())) == (True, 6)


def test_two_memories_do_not_both_hand_over_the_same_texts(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=None)
    batches.write(*SIX)
    first, second = batches.workspace.memory(), batches.workspace.memory()
    threads = [threading.Thread(target=memory.sync) for memory in (first, second)]
    for thread in threads:
        thread.start()
    assert until(lambda: bool(batches.made))
    batches.server.batch.finish_job(batches.made[0])
    for thread in threads:
        thread.join(PATIENCE_S)
    assert batches.is_paid_once()


def test_a_sync_that_is_stopped_while_it_waits_leaves_the_job_written_down(batches: BatchWorkspace) -> None:
    batches.configure(pollIntervalMs=600_000)
    batches.plan(polls_until_done=None)
    batches.write(*SIX)
    batches.sync(stop=lambda: batches.asked("poll") > 0)
    assert (batches.direct, batches.kept(), batches.asked("poll")) == ([], [(batches.made[0], 6)], 1)
    batches.server.batch.finish_job(batches.made[0])
    assert batches.sync().issues == ()
    assert batches.is_paid_once()


def test_a_memory_that_is_closed_while_it_waits_for_a_job_lets_go_at_once(batches: BatchWorkspace) -> None:
    before = set(threading.enumerate())
    batches.configure(pollIntervalMs=600_000)
    batches.plan(polls_until_done=None)
    batches.write(*SIX)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory = Memory.open(batches.workspace.path, env=batches.workspace.env)
        memory.search("desert")
        assert until(lambda: batches.asked("poll") > 0)
        memory.close()
    mine = {thread for thread in set(threading.enumerate()) - before if thread.name.startswith("mdrecall")}
    assert mine == set()
    assert (batches.direct, batches.kept()) == ([], [(batches.made[0], 6)])


@pytest.mark.parametrize("what", ["upload", "create", "poll", "output"])
def test_a_memory_that_is_closed_in_the_middle_of_a_request_pays_for_nothing_twice(
    batches: BatchWorkspace, what: str
) -> None:
    batches.fault(what, faults.answer_hangs(), 1)
    batches.write(*SIX)
    memory = Memory.open(batches.workspace.path, env=batches.workspace.env)
    memory.search("desert")
    assert until(lambda: batches.asked(what) > 0)
    memory.close()
    assert [thread for thread in threading.enumerate() if thread.name == "mdrecall-fill"] == []
    assert batches.direct == []
    assert batches.sync().issues == ()
    assert batches.is_paid_once()


def test_a_job_of_which_there_is_no_telling_does_not_stand_in_the_way_for_ever(batches: BatchWorkspace) -> None:
    batches.fault("create", faults.answer_lost(), 1)
    batches.fault("list", faults.error(404))
    batches.write(*SIX)
    assert "404" in batches.sync().issues[0].problem
    assert (batches.direct, batches.kept()) == ([], [("", 6)])
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, batches.kept()) == (sorted(SIX), [], [])


def test_whoever_follows_the_notes_collects_a_job_though_no_note_changes(openai: BatchWorkspace) -> None:
    start_job(openai)
    openai.sync()
    openai.server.batch.finish_job(openai.made[0])
    memory = openai.workspace.memory()
    memory.watch()
    assert until(lambda: "jobs" not in memory.status().batch)
    memory.close()
    assert (openai.is_paid_once(), len(openai.vectors())) == (True, 6)


def test_with_the_index_its_jobs_are_forgotten(openai: BatchWorkspace) -> None:
    start_job(openai)
    memory = openai.workspace.memory()
    openai.sync(memory)
    memory.reset()
    openai.sync(memory)
    assert (len(openai.made), openai.kept()) == (2, [(openai.made[1], 6)])
