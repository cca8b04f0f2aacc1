"""Jobs that go wrong: what was paid for is used, what was not is embedded directly, and nothing is paid for twice."""

from collections.abc import Callable

import pytest

from tests.engine.batch_workspace import WORDS, BatchWorkspace, batch_api_for
from tests.providers import faults
from tests.providers.batch import Job, Plan
from tests.providers.faults import Fault
from tests.providers.server import Kind

SIX = WORDS[:6]


@pytest.fixture(params=["openai", "gemini"])
def batches(batches_of: Callable[[Kind], BatchWorkspace], request: pytest.FixtureRequest) -> BatchWorkspace:
    """What goes wrong with Voyage goes wrong as with OpenAI: the requests are the same."""
    return batches_of(request.param)


def fault_name(fault: Fault) -> str:
    return fault.name


def once(batches: BatchWorkspace) -> bool:
    """Whether every text was paid for exactly once, and has its vector."""
    return sorted(batches.batch + batches.direct) == sorted(SIX) and len(batches.vectors()) == 6


@pytest.mark.parametrize("code", [429, 500, 401, 400])
def test_texts_that_cannot_be_handed_over_are_embedded_directly(batches: BatchWorkspace, code: int) -> None:
    batches.fault("upload", faults.error(code))
    batches.write(*SIX)
    memory = batches.workspace.memory()
    assert batches.sync(memory).issues == ()
    assert (batches.direct, batches.made, batches.kept()) == (sorted(SIX), [], [])
    batch = memory.status().batch
    assert (batch["enabled"], batch["failures"]) == (True, 1)
    assert str(code) in batch["lastError"]
    assert batch["lastProvider"] == memory.status().provider


@pytest.mark.parametrize("what", ["upload", "create", "poll", "output"])
@pytest.mark.parametrize("fault", [faults.error(429), faults.error(500)], ids=["429", "500"])
def test_a_refusal_that_passes_is_waited_out(batches: BatchWorkspace, what: str, fault: Fault) -> None:
    batches.fault(what, fault, 2)
    batches.write(*SIX)
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, len(batches.made), batches.kept()) == (sorted(SIX), [], 1, [])


@pytest.mark.parametrize("code", [429, 500, 400])
def test_where_no_job_can_be_made_texts_are_embedded_directly(batches: BatchWorkspace, code: int) -> None:
    batches.fault("create", faults.error(code))
    batches.write(*SIX)
    memory = batches.workspace.memory()
    assert batches.sync(memory).issues == ()
    assert (batches.direct, batches.made, batches.kept()) == (sorted(SIX), [], [])
    assert (memory.status().batch["enabled"], memory.status().batch["failures"]) == (True, 1)


def test_a_provider_that_does_not_know_jobs_is_not_asked_for_them_again(batches: BatchWorkspace) -> None:
    batches.fault("create", faults.error(404))
    batches.write(*SIX[:3])
    memory = batches.workspace.memory()
    batches.sync(memory)
    batch = memory.status().batch
    assert (batch["enabled"], batch["failures"], batch["limit"]) == (False, 1, 2)
    batches.write(*SIX[3:])
    batches.sync(memory)
    assert (batches.direct, batches.asked("upload"), batches.asked("create")) == (sorted(SIX), 1, 1)


@pytest.mark.parametrize(
    "fault",
    [faults.answer_lost(), faults.truncated_json(), faults.truncated_body(), faults.wrong_shape()],
    ids=fault_name,
)
def test_a_job_whose_creation_was_not_heard_of_is_found_and_not_made_twice(
    batches: BatchWorkspace, fault: Fault
) -> None:
    batches.fault("create", fault, 1)
    batches.write(*SIX)
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, len(batches.made), batches.asked("create")) == (sorted(SIX), [], 1, 1)


def test_a_job_is_found_behind_many_others(batches: BatchWorkspace) -> None:
    batches.write(*SIX)
    batches.fault("create", faults.answer_lost(), 1)
    batches.before("list", lambda: crowd(batches))
    batches.sync()
    assert (batches.batch, batches.direct, batches.asked("create")) == (sorted(SIX), [], 1)


def crowd(batches: BatchWorkspace) -> None:
    """Somebody else makes many jobs."""
    side = batches.server.batch
    (ours,) = list(side.jobs.values())
    told = {**ours.told, "displayName": "other", "metadata": {}}
    for number in range(250):
        name = f"{'batches/' if batches.server.kind == 'gemini' else 'batch_'}other-{number}"
        side.jobs[name] = Job(name, ours.model, side.store("file-", "", b""), [], told, Plan())


def test_what_may_be_paid_for_already_is_not_asked_for_otherwise(batches: BatchWorkspace) -> None:
    batches.fault("create", faults.answer_lost())
    batches.fault("list", faults.error(500))
    batches.write(*SIX)
    (issue,) = batches.sync().issues
    assert "500" in issue.problem
    assert (batches.direct, len(batches.made), batches.kept()) == ([], 1, [("", 6)])
    batches.unhindered()
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, len(batches.made), batches.kept()) == (sorted(SIX), [], 1, [])


def test_a_job_that_has_vanished_is_given_up(batches: BatchWorkspace) -> None:
    batches.before("poll", batches.server.batch.jobs.clear)
    batches.write(*SIX)
    memory = batches.workspace.memory()
    assert batches.sync(memory).issues == ()
    assert (batches.direct, batches.kept(), memory.status().batch["failures"]) == (sorted(SIX), [], 1)


@pytest.mark.parametrize("fault", [faults.answer_lost(), faults.html_200(), faults.truncated_json()], ids=fault_name)
def test_a_job_is_asked_after_again_when_an_answer_is_lost_or_spoiled(batches: BatchWorkspace, fault: Fault) -> None:
    batches.fault("poll", fault, 3)
    batches.plan(polls_until_done=4)
    batches.write(*SIX)
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, len(batches.made), batches.kept()) == (sorted(SIX), [], 1, [])


@pytest.mark.parametrize(
    "fault", [faults.answer_lost(), faults.reset_mid_body(), faults.truncated_body()], ids=fault_name
)
def test_an_output_that_breaks_off_is_fetched_again(batches: BatchWorkspace, fault: Fault) -> None:
    batches.fault("output", fault, 2)
    batches.write(*SIX)
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, batches.asked("output")) == (sorted(SIX), [], 3)


POLLS = [faults.error(500), faults.answer_lost(), faults.html_200(), faults.error(401)]
OUTPUTS = [faults.error(500), faults.answer_lost(), faults.truncated_body()]


@pytest.mark.parametrize(
    ("what", "fault"),
    [("poll", fault) for fault in POLLS] + [("output", fault) for fault in OUTPUTS],
    ids=lambda it: it if isinstance(it, str) else it.name,
)
def test_a_job_that_cannot_be_asked_after_stays_written_down_and_the_next_sync_collects_it(
    batches: BatchWorkspace, what: str, fault: Fault
) -> None:
    batches.fault(what, fault)
    batches.write(*SIX)
    (issue,) = batches.sync().issues
    assert "is without some vectors" in issue.problem
    assert (batches.direct, batches.kept()) == ([], [(batches.made[0], 6)])
    batches.unhindered()
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, len(batches.made), batches.kept()) == (sorted(SIX), [], 1, [])


def test_a_job_that_fails_is_told_of_and_its_texts_are_embedded_directly(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=None)
    batches.before("poll", lambda: batches.server.batch.fail_job(batches.made[0], "Too bad."))
    batches.write(*SIX)
    memory = batches.workspace.memory()
    assert batches.sync(memory).issues == ()
    assert (batches.direct, batches.batch, batches.kept()) == (sorted(SIX), [], [])
    said = memory.status().batch["lastError"]
    assert f"The batch job {batches.made[0]} of {batches.server.kind} failed: Too bad." in said


def test_what_an_expired_job_has_finished_is_used_and_not_paid_for_again(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=None)
    batches.before("poll", lambda: batches.server.batch.expire_job(batches.made[0], done=4))
    batches.write(*SIX)
    memory = batches.workspace.memory()
    assert batches.sync(memory).issues == ()
    assert (len(batches.batch), len(batches.direct), once(batches), batches.kept()) == (4, 2, True, [])
    assert memory.status().batch["failures"] == 1


def test_texts_of_a_job_that_somebody_has_cancelled_are_embedded_directly(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=None)
    batches.before("poll", lambda: batches.server.batch.cancel(batches.server.batch.jobs[batches.made[0]]))
    batches.write(*SIX)
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, batches.kept()) == ([], sorted(SIX), [])


def test_texts_of_an_output_that_is_gone_are_embedded_directly(batches: BatchWorkspace) -> None:
    batches.plan(no_output=True)
    batches.write(*SIX)
    memory = batches.workspace.memory()
    assert batches.sync(memory).issues == ()
    assert (batches.direct, batches.kept(), memory.status().batch["failures"]) == (sorted(SIX), [], 1)


def failing(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=None)
    batches.before("poll", lambda: batches.server.batch.fail_job(batches.made[-1], "Too bad."))


def test_after_two_failures_jobs_are_off_for_as_long_as_the_memory_is_open(batches: BatchWorkspace) -> None:
    memory = batches.workspace.memory()
    for word in SIX[:2]:
        failing(batches)
        batches.write(word)
        batches.sync(memory)
        batches.unhindered()
    batch = memory.status().batch
    assert (batch["enabled"], batch["failures"], batch["limit"]) == (False, 2, 2)
    assert "Too bad." in batch["lastError"]
    batches.plan()
    batches.write(*SIX[2:])
    batches.sync(memory)
    assert (len(batches.made), batches.direct) == (2, sorted(SIX))
    assert batches.workspace.memory().status().batch["enabled"]


def test_a_success_lets_earlier_failures_be_forgotten(batches: BatchWorkspace) -> None:
    memory = batches.workspace.memory()
    for fails, word in zip((True, False, True), SIX[:3], strict=True):
        if fails:
            failing(batches)
        batches.write(word)
        batches.sync(memory)
        batch = memory.status().batch
        assert (batch["enabled"], batch["failures"], "lastError" in batch) == (True, int(fails), fails)
        batches.unhindered()
        batches.plan()
    assert (batches.batch, batches.direct) == ([SIX[1]], [SIX[0], SIX[2]])


def test_a_job_that_takes_too_long_is_cancelled_and_its_texts_are_embedded_directly(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=None)
    batches.write(*SIX)
    memory = batches.workspace.memory()
    batch_api_for(memory).timeout_s = 0.0
    assert batches.sync(memory).issues == ()
    assert (batches.batch, batches.direct, batches.kept(), batches.asked("cancel")) == ([], sorted(SIX), [], 1)
    batch = memory.status().batch
    assert (batch["enabled"], batch["failures"]) == (True, 1)
    assert "did not finish within 0 minutes" in batch["lastError"]


def test_a_job_that_is_done_at_the_last_moment_is_used(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=None)
    batches.before("cancel", lambda: batches.server.batch.finish_job(batches.made[0]))
    batches.write(*SIX)
    memory = batches.workspace.memory()
    batch_api_for(memory).timeout_s = 0.0
    assert batches.sync(memory).issues == ()
    assert (batches.batch, batches.direct, memory.status().batch["failures"]) == (sorted(SIX), [], 0)


def test_a_job_that_cannot_be_cancelled_is_not_paid_for_beside_another(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=None)
    batches.fault("cancel", faults.error(500))
    batches.write(*SIX)
    memory = batches.workspace.memory()
    batch_api_for(memory).timeout_s = 0.0
    assert "500" in batches.sync(memory).issues[0].problem
    assert (batches.direct, batches.kept()) == ([], [(batches.made[0], 6)])
    batches.server.batch.finish_job(batches.made[0])
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct) == (sorted(SIX), [])
