"""Jobs that go wrong: what was paid for is used, what was not is embedded directly, and nothing is paid for twice."""

from collections.abc import Callable

import pytest

from tests.engine.desk import WORDS, Desk, batch_api_for
from tests.providers import faults
from tests.providers.batch import Job, Plan
from tests.providers.faults import Fault
from tests.providers.server import Kind

SIX = WORDS[:6]


@pytest.fixture(params=["openai", "gemini"])
def desk(desk_of: Callable[[Kind], Desk], request: pytest.FixtureRequest) -> Desk:
    """What goes wrong with Voyage goes wrong as with OpenAI: the requests are the same."""
    return desk_of(request.param)


def fault_name(fault: Fault) -> str:
    return fault.name


def once(desk: Desk) -> bool:
    """Whether every text was paid for exactly once, and has its vector."""
    return sorted(desk.batch + desk.direct) == sorted(SIX) and len(desk.vectors()) == 6


@pytest.mark.parametrize("code", [429, 500, 401, 400])
def test_texts_that_cannot_be_handed_over_are_embedded_directly(desk: Desk, code: int) -> None:
    desk.fault("upload", faults.error(code))
    desk.write(*SIX)
    memory = desk.workspace.memory()
    assert desk.sync(memory).issues == ()
    assert (desk.direct, desk.made, desk.kept()) == (sorted(SIX), [], [])
    batch = memory.status().batch
    assert (batch["enabled"], batch["failures"]) == (True, 1)
    assert str(code) in batch["lastError"]


@pytest.mark.parametrize("what", ["upload", "create", "poll", "output"])
@pytest.mark.parametrize("fault", [faults.error(429), faults.error(500)], ids=["429", "500"])
def test_a_refusal_that_passes_is_waited_out(desk: Desk, what: str, fault: Fault) -> None:
    desk.fault(what, fault, 2)
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct, len(desk.made), desk.kept()) == (sorted(SIX), [], 1, [])


@pytest.mark.parametrize("code", [429, 500, 400])
def test_where_no_job_can_be_made_texts_are_embedded_directly(desk: Desk, code: int) -> None:
    desk.fault("create", faults.error(code))
    desk.write(*SIX)
    memory = desk.workspace.memory()
    assert desk.sync(memory).issues == ()
    assert (desk.direct, desk.made, desk.kept()) == (sorted(SIX), [], [])
    assert (memory.status().batch["enabled"], memory.status().batch["failures"]) == (True, 1)


def test_a_provider_that_does_not_know_jobs_is_not_asked_for_them_again(desk: Desk) -> None:
    desk.fault("create", faults.error(404))
    desk.write(*SIX[:3])
    memory = desk.workspace.memory()
    desk.sync(memory)
    batch = memory.status().batch
    assert (batch["enabled"], batch["failures"], batch["limit"]) == (False, 1, 2)
    desk.write(*SIX[3:])
    desk.sync(memory)
    assert (desk.direct, desk.asked("upload"), desk.asked("create")) == (sorted(SIX), 1, 1)


@pytest.mark.parametrize(
    "fault",
    [faults.answer_lost(), faults.truncated_json(), faults.truncated_body(), faults.wrong_shape()],
    ids=fault_name,
)
def test_a_job_whose_creation_was_not_heard_of_is_found_and_not_made_twice(desk: Desk, fault: Fault) -> None:
    desk.fault("create", fault, 1)
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct, len(desk.made), desk.asked("create")) == (sorted(SIX), [], 1, 1)


def test_a_job_is_found_behind_many_others(desk: Desk) -> None:
    desk.write(*SIX)
    desk.fault("create", faults.answer_lost(), 1)
    desk.before("list", lambda: crowd(desk))
    desk.sync()
    assert (desk.batch, desk.direct, desk.asked("create")) == (sorted(SIX), [], 1)


def crowd(desk: Desk) -> None:
    """Somebody else makes many jobs."""
    side = desk.server.batch
    (ours,) = list(side.jobs.values())
    told = {**ours.told, "displayName": "other", "metadata": {}}
    for number in range(250):
        name = f"{'batches/' if desk.server.kind == 'gemini' else 'batch_'}other-{number}"
        side.jobs[name] = Job(name, ours.model, side.store("file-", "", b""), [], told, Plan())


def test_what_may_be_paid_for_already_is_not_asked_for_otherwise(desk: Desk) -> None:
    desk.fault("create", faults.answer_lost())
    desk.fault("list", faults.error(500))
    desk.write(*SIX)
    (issue,) = desk.sync().issues
    assert "500" in issue.problem
    assert (desk.direct, len(desk.made), desk.kept()) == ([], 1, [("", 6)])
    desk.unhindered()
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct, len(desk.made), desk.kept()) == (sorted(SIX), [], 1, [])


def test_a_job_that_has_vanished_is_given_up(desk: Desk) -> None:
    desk.before("poll", desk.server.batch.jobs.clear)
    desk.write(*SIX)
    memory = desk.workspace.memory()
    assert desk.sync(memory).issues == ()
    assert (desk.direct, desk.kept(), memory.status().batch["failures"]) == (sorted(SIX), [], 1)


@pytest.mark.parametrize("fault", [faults.answer_lost(), faults.html_200(), faults.truncated_json()], ids=fault_name)
def test_a_job_is_asked_after_again_when_an_answer_is_lost_or_spoiled(desk: Desk, fault: Fault) -> None:
    desk.fault("poll", fault, 3)
    desk.plan(polls_until_done=4)
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct, len(desk.made), desk.kept()) == (sorted(SIX), [], 1, [])


@pytest.mark.parametrize(
    "fault", [faults.answer_lost(), faults.reset_mid_body(), faults.truncated_body()], ids=fault_name
)
def test_an_output_that_breaks_off_is_fetched_again(desk: Desk, fault: Fault) -> None:
    desk.fault("output", fault, 2)
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct, desk.asked("output")) == (sorted(SIX), [], 3)


POLLS = [faults.error(500), faults.answer_lost(), faults.html_200(), faults.error(401)]
OUTPUTS = [faults.error(500), faults.answer_lost(), faults.truncated_body()]


@pytest.mark.parametrize(
    ("what", "fault"),
    [("poll", fault) for fault in POLLS] + [("output", fault) for fault in OUTPUTS],
    ids=lambda it: it if isinstance(it, str) else it.name,
)
def test_a_job_that_cannot_be_asked_after_stays_written_down_and_the_next_sync_collects_it(
    desk: Desk, what: str, fault: Fault
) -> None:
    desk.fault(what, fault)
    desk.write(*SIX)
    (issue,) = desk.sync().issues
    assert "is without some vectors" in issue.problem
    assert (desk.direct, desk.kept()) == ([], [(desk.made[0], 6)])
    desk.unhindered()
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct, len(desk.made), desk.kept()) == (sorted(SIX), [], 1, [])


def test_a_job_that_fails_is_told_of_and_its_texts_are_embedded_directly(desk: Desk) -> None:
    desk.plan(polls_until_done=None)
    desk.before("poll", lambda: desk.server.batch.fail_job(desk.made[0], "Too bad."))
    desk.write(*SIX)
    memory = desk.workspace.memory()
    assert desk.sync(memory).issues == ()
    assert (desk.direct, desk.batch, desk.kept()) == (sorted(SIX), [], [])
    said = memory.status().batch["lastError"]
    assert f"The batch job {desk.made[0]} of {desk.server.kind} failed: Too bad." in said


def test_what_an_expired_job_has_finished_is_used_and_not_paid_for_again(desk: Desk) -> None:
    desk.plan(polls_until_done=None)
    desk.before("poll", lambda: desk.server.batch.expire_job(desk.made[0], done=4))
    desk.write(*SIX)
    memory = desk.workspace.memory()
    assert desk.sync(memory).issues == ()
    assert (len(desk.batch), len(desk.direct), once(desk), desk.kept()) == (4, 2, True, [])
    assert memory.status().batch["failures"] == 1


def test_texts_of_a_job_that_somebody_has_cancelled_are_embedded_directly(desk: Desk) -> None:
    desk.plan(polls_until_done=None)
    desk.before("poll", lambda: desk.server.batch.cancel(desk.server.batch.jobs[desk.made[0]]))
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct, desk.kept()) == ([], sorted(SIX), [])


def test_texts_of_an_output_that_is_gone_are_embedded_directly(desk: Desk) -> None:
    desk.plan(no_output=True)
    desk.write(*SIX)
    memory = desk.workspace.memory()
    assert desk.sync(memory).issues == ()
    assert (desk.direct, desk.kept(), memory.status().batch["failures"]) == (sorted(SIX), [], 1)


def failing(desk: Desk) -> None:
    desk.plan(polls_until_done=None)
    desk.before("poll", lambda: desk.server.batch.fail_job(desk.made[-1], "Too bad."))


def test_after_two_failures_jobs_are_off_for_as_long_as_the_memory_is_open(desk: Desk) -> None:
    memory = desk.workspace.memory()
    for word in SIX[:2]:
        failing(desk)
        desk.write(word)
        desk.sync(memory)
        desk.unhindered()
    batch = memory.status().batch
    assert (batch["enabled"], batch["failures"], batch["limit"]) == (False, 2, 2)
    assert "Too bad." in batch["lastError"]
    desk.plan()
    desk.write(*SIX[2:])
    desk.sync(memory)
    assert (len(desk.made), desk.direct) == (2, sorted(SIX))
    assert desk.workspace.memory().status().batch["enabled"]


def test_a_success_lets_earlier_failures_be_forgotten(desk: Desk) -> None:
    memory = desk.workspace.memory()
    for fails, word in zip((True, False, True), SIX[:3], strict=True):
        if fails:
            failing(desk)
        desk.write(word)
        desk.sync(memory)
        batch = memory.status().batch
        assert (batch["enabled"], batch["failures"], "lastError" in batch) == (True, int(fails), fails)
        desk.unhindered()
        desk.plan()
    assert (desk.batch, desk.direct) == ([SIX[1]], [SIX[0], SIX[2]])


def test_a_job_that_takes_too_long_is_cancelled_and_its_texts_are_embedded_directly(desk: Desk) -> None:
    desk.plan(polls_until_done=None)
    desk.write(*SIX)
    memory = desk.workspace.memory()
    batch_api_for(memory).rules = batch_api_for(memory).rules._replace(timeout_s=0.0)
    assert desk.sync(memory).issues == ()
    assert (desk.batch, desk.direct, desk.kept(), desk.asked("cancel")) == ([], sorted(SIX), [], 1)
    batch = memory.status().batch
    assert (batch["enabled"], batch["failures"]) == (True, 1)
    assert "did not finish within 0 minutes" in batch["lastError"]


def test_a_job_that_is_done_at_the_last_moment_is_used(desk: Desk) -> None:
    desk.plan(polls_until_done=None)
    desk.before("cancel", lambda: desk.server.batch.finish_job(desk.made[0]))
    desk.write(*SIX)
    memory = desk.workspace.memory()
    batch_api_for(memory).rules = batch_api_for(memory).rules._replace(timeout_s=0.0)
    assert desk.sync(memory).issues == ()
    assert (desk.batch, desk.direct, memory.status().batch["failures"]) == (sorted(SIX), [], 0)


def test_a_job_that_cannot_be_cancelled_is_not_paid_for_beside_another(desk: Desk) -> None:
    desk.plan(polls_until_done=None)
    desk.fault("cancel", faults.error(500))
    desk.write(*SIX)
    memory = desk.workspace.memory()
    batch_api_for(memory).rules = batch_api_for(memory).rules._replace(timeout_s=0.0)
    assert "500" in desk.sync(memory).issues[0].problem
    assert (desk.direct, desk.kept()) == ([], [(desk.made[0], 6)])
    desk.server.batch.finish_job(desk.made[0])
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct) == (sorted(SIX), [])
