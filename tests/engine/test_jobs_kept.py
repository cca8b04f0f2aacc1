"""Jobs outlive the process that made them: they are written down, and whoever comes next collects them, once."""

import threading
import warnings

import pytest

from mdrecall.memory import Memory
from tests.engine.desk import WORDS, Desk
from tests.processes import PATIENCE_S, finish, python, until
from tests.providers import faults

SIX = WORDS[:6]

_SYNC = """
import sys
from mdrecall.memory import Memory
import os
with Memory.open(sys.argv[1], env=dict(os.environ)) as memory:
    print(*memory.sync().issues, flush=True)
"""


def paid_once(desk: Desk) -> bool:
    return (desk.batch, desk.direct, len(desk.made), desk.kept()) == (sorted(SIX), [], 1, [])


def test_a_job_that_is_not_waited_for_is_told_of_and_a_later_sync_collects_it(desk: Desk) -> None:
    desk.configure(wait=False)
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    memory = desk.workspace.memory()
    (issue,) = desk.sync(memory).issues
    (job,) = desk.made
    assert f"6 texts are waiting for {desk.server.kind} ({job}); a later sync collects them." in issue.problem
    assert (desk.direct, desk.kept()) == ([], [(job, 6)])
    batch = memory.status().batch
    assert (batch["wait"], batch["jobs"], batch["texts"], batch["failures"]) == (False, 1, 6, 0)
    assert "6 texts are waiting" in desk.sync(memory).issues[0].problem
    desk.server.batch.finish_job(job)
    assert desk.sync().issues == ()
    assert paid_once(desk)
    assert "jobs" not in desk.workspace.memory().status().batch


def test_of_jobs_that_are_not_waited_for_no_more_are_open_than_may_be(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FileJobs", "GeminiJobs"):
        monkeypatch.setattr(f"mdrecall.embed.remote.jobs.{name}.most_texts", 2)
    desk.configure(wait=False, concurrency=2)
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    assert "4 texts are waiting" in desk.sync().issues[0].problem
    assert [texts for _, texts in desk.kept()] == [2, 2]
    while desk.sync().issues:
        for job in [job for job in desk.made if not desk.server.batch.jobs[job].over]:
            desk.server.batch.finish_job(job)
    assert (desk.batch, desk.direct, len(desk.made), desk.kept()) == (sorted(SIX), [], 3, [])


def test_a_job_that_is_done_at_once_needs_no_waiting(desk: Desk) -> None:
    desk.configure(wait=False)
    desk.plan(polls_until_done=0)
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert paid_once(desk)


def test_words_are_found_while_a_job_is_under_way(desk: Desk) -> None:
    desk.configure(wait=False)
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    memory = desk.workspace.memory()
    desk.sync(memory)
    assert [result.path for result in memory.search("desert", mode="keyword")] == ["memory/desert.md"]


def test_a_note_that_changes_while_its_job_is_under_way_is_embedded_anew_and_only_that_one(desk: Desk) -> None:
    desk.configure(wait=False)
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    desk.sync()
    desk.write(SIX[0], more=" And more.")
    desk.server.batch.finish_job(desk.made[0])
    desk.plan(polls_until_done=0)
    assert desk.sync().issues == ()
    assert [len(job.lines) for job in desk.server.batch.jobs.values()] == [6, 1]
    assert (desk.direct, desk.kept()) == ([], [])
    desk.write(SIX[0])
    before = len(desk.server.requests)
    assert desk.sync().issues == ()
    assert (len(desk.server.requests), len(desk.vectors())) == (before, 6)


def test_a_job_is_collected_though_all_its_notes_are_gone(desk: Desk) -> None:
    desk.configure(wait=False)
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    desk.sync()
    for word in SIX:
        (desk.workspace.path / f"memory/{word}.md").unlink()
    desk.write(WORDS[7])
    desk.plan(polls_until_done=0)
    assert desk.sync().issues == ()
    assert (desk.batch, desk.kept()) == ([WORDS[7]], [(desk.made[0], 6)])
    desk.server.batch.finish_job(desk.made[0])
    (desk.workspace.path / f"memory/{WORDS[7]}.md").unlink()
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert (sorted({*desk.batch}), desk.direct, len(desk.made)) == (sorted([*SIX, WORDS[7]]), [], 2)
    assert (len(desk.batch), desk.kept()) == (7, [])


def test_a_job_that_nobody_needs_is_not_waited_for(desk: Desk) -> None:
    desk.configure(wait=False)
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    desk.sync()
    for word in SIX:
        (desk.workspace.path / f"memory/{word}.md").unlink()
    desk.configure(wait=True, concurrency=1)
    desk.write(WORDS[7])
    desk.plan(polls_until_done=2)
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct, desk.kept()) == ([WORDS[7]], [], [(desk.made[0], 6)])


def test_an_index_built_anew_keeps_the_job_that_is_under_way(desk: Desk) -> None:
    desk.configure(wait=False)
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    desk.sync()
    report = desk.sync(force=True)
    assert (report.rebuilt, len(desk.made), desk.kept()) == (True, 1, [(desk.made[0], 6)])
    desk.server.batch.finish_job(desk.made[0])
    assert desk.sync(force=True).issues == ()
    assert (paid_once(desk), len(desk.vectors())) == (True, 6)


def test_two_memories_do_not_both_hand_over_the_same_texts(desk: Desk) -> None:
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    first, second = desk.workspace.memory(), desk.workspace.memory()
    threads = [threading.Thread(target=memory.sync) for memory in (first, second)]
    for thread in threads:
        thread.start()
    assert until(lambda: bool(desk.made))
    desk.server.batch.finish_job(desk.made[0])
    for thread in threads:
        thread.join(PATIENCE_S)
    assert paid_once(desk)


def test_two_processes_do_not_both_hand_over_the_same_texts(openai: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    openai.plan(polls_until_done=None)
    openai.write(*SIX)
    for name, value in openai.process_env.items():
        monkeypatch.setenv(name, value)
    processes = [python(_SYNC, str(openai.workspace.path)) for _ in range(2)]
    assert until(lambda: bool(openai.made))
    openai.server.batch.finish_job(openai.made[0])
    assert [finish(process).strip() for process in processes] == ["", ""]
    assert (paid_once(openai), openai.asked("upload")) == (True, 1)


def test_a_sync_that_is_stopped_while_it_waits_leaves_the_job_written_down(desk: Desk) -> None:
    desk.configure(pollIntervalMs=600_000)
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    desk.sync(stop=lambda: desk.asked("poll") > 0)
    assert (desk.direct, desk.kept(), desk.asked("poll")) == ([], [(desk.made[0], 6)], 1)
    desk.server.batch.finish_job(desk.made[0])
    assert desk.sync().issues == ()
    assert paid_once(desk)


def test_a_memory_that_is_closed_while_it_waits_for_a_job_lets_go_at_once(desk: Desk) -> None:
    before = set(threading.enumerate())
    desk.configure(pollIntervalMs=600_000)
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory = Memory.open(desk.workspace.path, env=desk.workspace.env)
        memory.search("desert")
        assert until(lambda: desk.asked("poll") > 0)
        memory.close()
    mine = {thread for thread in set(threading.enumerate()) - before if thread.name.startswith("mdrecall")}
    assert mine == set()
    assert (desk.direct, desk.kept()) == ([], [(desk.made[0], 6)])


@pytest.mark.parametrize("what", ["upload", "create", "poll", "output"])
def test_a_memory_that_is_closed_in_the_middle_of_a_request_pays_for_nothing_twice(desk: Desk, what: str) -> None:
    desk.fault(what, faults.answer_hangs(), 1)
    desk.write(*SIX)
    memory = Memory.open(desk.workspace.path, env=desk.workspace.env)
    memory.search("desert")
    assert until(lambda: desk.asked(what) > 0)
    memory.close()
    assert [thread for thread in threading.enumerate() if thread.name == "mdrecall-fill"] == []
    assert desk.direct == []
    assert desk.sync().issues == ()
    assert paid_once(desk)


def test_a_job_of_which_there_is_no_telling_does_not_stand_in_the_way_for_ever(desk: Desk) -> None:
    desk.fault("create", faults.answer_lost(), 1)
    desk.fault("list", faults.error(404))
    desk.write(*SIX)
    assert "404" in desk.sync().issues[0].problem
    assert (desk.direct, desk.kept()) == ([], [("", 6)])
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct, desk.kept()) == (sorted(SIX), [], [])


def test_whoever_follows_the_notes_collects_a_job_though_no_note_changes(openai: Desk) -> None:
    openai.configure(wait=False)
    openai.plan(polls_until_done=None)
    openai.write(*SIX)
    openai.sync()
    openai.server.batch.finish_job(openai.made[0])
    memory = openai.workspace.memory()
    memory.watch()
    assert until(lambda: "jobs" not in memory.status().batch)
    memory.close()
    assert (paid_once(openai), len(openai.vectors())) == (True, 6)


def test_with_the_index_its_jobs_are_forgotten(openai: Desk) -> None:
    openai.configure(wait=False)
    openai.plan(polls_until_done=None)
    openai.write(*SIX)
    memory = openai.workspace.memory()
    openai.sync(memory)
    memory.reset()
    openai.sync(memory)
    assert (len(openai.made), openai.kept()) == (2, [(openai.made[1], 6)])
