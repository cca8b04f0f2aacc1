"""Jobs that go wrong: what was paid for is used, what was not is embedded directly, and nothing is paid for twice."""

from collections.abc import Callable

import pytest

from mdrecall.memory import Memory
from tests.engine.batch_workspace import SIX, BatchWorkspace, batch_api_for
from tests.providers import faults
from tests.providers.batch import Job, Plan
from tests.providers.faults import Fault
from tests.providers.server import Kind


@pytest.fixture(params=["openai", "gemini"])
def batches(batches_of: Callable[[Kind], BatchWorkspace], request: pytest.FixtureRequest) -> BatchWorkspace:
    """What goes wrong with Voyage goes wrong as with OpenAI: the requests are the same."""
    return batches_of(request.param)


def name_row(value: object) -> str:
    return value.name if isinstance(value, Fault) else str(value)


@pytest.mark.parametrize(
    ("what", "code", "enabled"),
    [("upload", 429, True), ("upload", 500, True), ("upload", 401, True), ("upload", 400, True),
     ("create", 429, True), ("create", 500, True), ("create", 400, True), ("create", 404, False)],
)  # fmt: skip
def test_texts_that_cannot_be_handed_over_are_embedded_directly(
    batches: BatchWorkspace, what: str, code: int, enabled: bool
) -> None:
    """Only a provider that does not know jobs at all is not asked for them again."""
    batches.fault(what, faults.error(code))
    batches.write(*SIX[:3])
    memory = batches.workspace.memory()
    assert batches.sync(memory).issues == ()
    assert (batches.made, batches.kept()) == ([], [])
    batch = memory.status().batch
    assert (batch["enabled"], batch["failures"], str(code) in batch["lastError"]) == (enabled, 1, True)
    assert batch["lastProvider"] == memory.status().provider
    batches.write(*SIX[3:])
    batches.sync(memory)
    assert (batches.direct, batches.asked("upload") > 1) == (sorted(SIX), enabled)


PASSING = [
    *((what, faults.error(code), 2) for what in ("upload", "create", "poll", "output") for code in (429, 500)),
    *(("create", fault, 1) for fault in (faults.answer_lost(), faults.truncated_json(), faults.truncated_body(),
                                         faults.wrong_shape())),
    *(("poll", fault, 3) for fault in (faults.answer_lost(), faults.html_200(), faults.truncated_json())),
    *(("output", fault, 2) for fault in (faults.answer_lost(), faults.reset_mid_body(), faults.truncated_body())),
]  # fmt: skip


@pytest.mark.parametrize(("what", "fault", "times"), PASSING, ids=name_row)
def test_a_fault_that_passes_is_waited_out_and_nothing_is_made_twice(
    batches: BatchWorkspace, what: str, fault: Fault, times: int
) -> None:
    batches.fault(what, fault, times)
    batches.plan(polls_until_done=4)
    batches.write(*SIX)
    assert batches.sync().issues == ()
    assert batches.is_paid_once()


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
        side.jobs[name] = Job(name, ours.model, side.store("file-", b""), [], told, Plan())


def test_what_may_be_paid_for_already_is_not_asked_for_otherwise(batches: BatchWorkspace) -> None:
    batches.fault("create", faults.answer_lost())
    batches.fault("list", faults.error(500))
    batches.write(*SIX)
    (issue,) = batches.sync().issues
    assert "500" in issue.problem
    assert (batches.direct, len(batches.made), batches.kept()) == ([], 1, [("", 6)])
    batches.unhindered()
    assert batches.sync().issues == ()
    assert batches.is_paid_once()


POLLS = [faults.error(500), faults.answer_lost(), faults.html_200(), faults.error(401)]
OUTPUTS = [faults.error(500), faults.answer_lost(), faults.truncated_body()]


@pytest.mark.parametrize(
    ("what", "fault"), [*(("poll", fault) for fault in POLLS), *(("output", fault) for fault in OUTPUTS)], ids=name_row
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
    assert batches.is_paid_once()


#: What becomes of a job while it is under way, and how many of its texts it has embedded by then.
ENDS: dict[str, tuple[Callable[[BatchWorkspace], object], int]] = {
    "vanishes": (lambda batches: batches.server.batch.jobs.clear(), 0),
    "fails": (lambda batches: batches.server.batch.fail_job(batches.made[0], "Too bad."), 0),
    "expires half done": (lambda batches: batches.server.batch.expire_job(batches.made[0], done=4), 4),
    "is cancelled": (lambda batches: batches.server.batch.cancel(batches.server.batch.jobs[batches.made[0]]), 0),
}


@pytest.mark.parametrize("how", ENDS)
def test_texts_that_a_job_has_not_embedded_when_it_ends_are_embedded_directly(
    batches: BatchWorkspace, how: str
) -> None:
    end, done = ENDS[how]
    batches.plan(polls_until_done=None)
    batches.before("poll", lambda: end(batches))
    batches.write(*SIX)
    memory = batches.workspace.memory()
    assert batches.sync(memory).issues == ()
    assert (len(batches.batch), sorted(batches.batch + batches.direct), batches.kept()) == (done, sorted(SIX), [])
    assert len(batches.vectors()) == 6
    assert memory.status().batch["failures"] == 1


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
    assert f"The batch job {batches.made[1]} of {batches.server.kind} failed: Too bad." in batch["lastError"]
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


@pytest.fixture
def overdue(batches: BatchWorkspace) -> Memory:
    """A memory whose next job does not end within the time that it has."""
    batches.plan(polls_until_done=None)
    batches.write(*SIX)
    memory = batches.workspace.memory()
    batch_api_for(memory).timeout_s = 0.0
    return memory


def test_a_job_that_takes_too_long_is_cancelled_and_its_texts_are_embedded_directly(
    batches: BatchWorkspace, overdue: Memory
) -> None:
    assert batches.sync(overdue).issues == ()
    assert (batches.batch, batches.direct, batches.kept(), batches.asked("cancel")) == ([], sorted(SIX), [], 1)
    batch = overdue.status().batch
    assert (batch["enabled"], batch["failures"]) == (True, 1)
    assert "did not finish within 0 minutes" in batch["lastError"]


def test_a_job_that_is_done_at_the_last_moment_is_used(batches: BatchWorkspace, overdue: Memory) -> None:
    batches.before("cancel", lambda: batches.server.batch.finish_job(batches.made[0]))
    assert batches.sync(overdue).issues == ()
    assert (batches.batch, batches.direct, overdue.status().batch["failures"]) == (sorted(SIX), [], 0)


def test_a_job_that_cannot_be_cancelled_is_not_paid_for_beside_another(
    batches: BatchWorkspace, overdue: Memory
) -> None:
    batches.fault("cancel", faults.error(500))
    assert "500" in batches.sync(overdue).issues[0].problem
    assert (batches.direct, batches.kept()) == ([], [(batches.made[0], 6)])
    batches.server.batch.finish_job(batches.made[0])
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct) == (sorted(SIX), [])
