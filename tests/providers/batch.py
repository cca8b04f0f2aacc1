"""Batch jobs as a provider keeps them: files, lines, states; how they are written is told elsewhere."""

import json
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tests.providers.shapes import Asked, Shape, lines_of
from tests.providers.wire import Recorded, Refused, Reply

State = Literal["in_progress", "completed", "failed", "expired", "cancelling", "cancelled"]
OVER = ("completed", "failed", "expired", "cancelled")
EXPIRED = "This request could not be executed before the completion window expired."
NOT_RUN = "This request was not executed because the batch was cancelled."


@dataclass
class Plan:
    """How the jobs that are created from now on go; lines are told by their place in the input, from 0."""

    polls_until_done: int | None = 1
    """Which poll finds the job over; 0: it is over when created; None: only ``finish_job`` and its like end it."""
    missing: Sequence[int] = ()
    """Lines of which nothing is said, neither in the output nor among the errors."""
    errors: Mapping[int, str] = field(default_factory=dict)
    """Lines that fail, and what is said about them."""
    errors_in_output: bool = False
    """Whether failed lines stand in the output instead of a file of their own."""
    shuffled: bool = False
    duplicated: Sequence[int] = ()
    garbage: Sequence[bytes] = ()
    """Lines put between the others."""
    vectors: Callable[[list[Any]], list[Any]] | None = None
    """What becomes of each line's vectors."""
    no_output: bool = False
    """Whether the output's file cannot be found."""
    blank_ids: bool = False
    """Whether a file that is not there has the name "" instead of null, as OpenAI was seen to say."""
    gemini_form: Literal["operation", "batch", "flat"] = "operation"
    """A long-running operation, the bare batch resource, or the flat form with ``outputConfig``."""
    gemini_states: Literal["BATCH_STATE", "JOB_STATE"] = "BATCH_STATE"


@dataclass
class Stored:
    """A file that was uploaded or made by a job."""

    id: str
    content: bytes


@dataclass
class Job:
    """A job, its lines, and what has come of them."""

    id: str
    model: str
    input: Stored
    lines: list[Any]
    told: Mapping[str, Any]
    """What the client said when creating it."""
    plan: Plan
    state: State = "in_progress"
    polls: int = 0
    message: str = ""
    output: Stored | None = None
    errors: Stored | None = None
    completed: int = 0
    failed: int = 0

    @property
    def over(self) -> bool:
        return self.state in OVER


class BatchSide:
    """The files and jobs of a provider; this one has none, and its children know how to write them."""

    def __init__(self, shape: Shape, dimensions: int, lock: threading.RLock) -> None:
        self.shape = shape
        self.dimensions = dimensions
        self.lock = lock
        self.plan = Plan()
        self.jobs: dict[str, Job] = {}
        self.files: dict[str, Stored] = {}
        self.embedded: list[str] = []

    def answer(self, request: Recorded) -> Reply | None:
        """What is said to a request about files and jobs; None to any other."""
        return None

    def check(self, job: Job) -> None:
        """A new job whose file is bad fails at once, where the provider looks at it."""

    def read_line(self, job: Job, line: Any) -> Asked:
        """What a line of the input wants embedded."""
        raise NotImplementedError

    def good_line(self, job: Job, line: Any, body: Any) -> Any:
        raise NotImplementedError

    def bad_line(self, job: Job, line: Any, refusal: Reply) -> Any:
        raise NotImplementedError

    def undone_line(self, job: Job, line: Any, code: str, message: str) -> Any:
        raise NotImplementedError

    # What a test does.

    def finish_job(self, id: str) -> None:
        """All lines are done now."""
        with self.lock:
            self._end(self.jobs[id], "completed", len(self.jobs[id].lines), "", "")

    def expire_job(self, id: str, done: int = 0) -> None:
        """The time is over when only the first ``done`` lines are done; these are in the output."""
        with self.lock:
            self._end(self.jobs[id], "expired", done, "batch_expired", EXPIRED)

    def fail_job(self, id: str, message: str) -> None:
        with self.lock:
            self.jobs[id].state, self.jobs[id].message = "failed", message

    # What the wire does, under the lock.

    def store(self, prefix: str, content: bytes) -> Stored:
        stored = Stored(f"{prefix}{len(self.files):024d}", content)
        self.files[stored.id] = stored
        return stored

    def create(self, id: str, model: str, input: Stored, told: Mapping[str, Any]) -> Job:
        job = Job(id, model, input, lines_of(input.content), told, replace(self.plan))
        self.jobs[id] = job
        self.check(job)
        if self.plan.polls_until_done == 0 and not job.over:
            self.finish_job(id)
        return job

    def poll(self, job: Job) -> Job:
        """The job as it is found now: each look brings it on."""
        job.polls += 1
        if job.state == "cancelling":
            self._end(job, "cancelled", 0, "batch_cancelled", NOT_RUN)
        elif not job.over and job.plan.polls_until_done is not None and job.polls >= job.plan.polls_until_done:
            self.finish_job(job.id)
        return job

    def cancel(self, job: Job) -> Job:
        if not job.over:
            job.state = "cancelling"
        return job

    def _end(self, job: Job, state: State, done: int, code: str, message: str) -> None:
        good: list[Any] = []
        bad: list[Any] = []
        for at, line in enumerate(job.lines):
            if at in job.plan.missing:
                continue
            if at >= done:
                bad.append(self.undone_line(job, line, code, message))
            else:
                self._run(job, at, line, good, bad)
        job.completed, job.failed, job.state = len(good), len(bad), state
        if job.plan.errors_in_output:
            good, bad = good + bad, []
        job.output = self._output(job, good)
        job.errors = self.store("file-", _lines(bad)) if bad else None

    def _run(self, job: Job, at: int, line: Any, good: list[Any], bad: list[Any]) -> None:
        try:
            if at in job.plan.errors:
                raise Refused(self.shape.error(400, job.plan.errors[at]))
            asked = self.read_line(job, line)
        except Refused as refused:
            bad.append(self.bad_line(job, line, refused.reply))
            return
        self.embedded += asked.texts
        vectors: list[Any] = list(self.shape.embed(asked, self.dimensions))
        if job.plan.vectors:
            vectors = job.plan.vectors(vectors)
        good.append(self.good_line(job, line, self.shape.answer(asked, vectors)))

    def _output(self, job: Job, lines: list[Any]) -> Stored | None:
        lines = lines + [lines[at] for at in job.plan.duplicated if at < len(lines)]
        if job.plan.shuffled:
            random.Random(0).shuffle(lines)
        if not lines and not job.plan.garbage:
            return None
        garbage = b"".join(line + b"\n" for line in job.plan.garbage)
        stored = self.store("file-", garbage + _lines(lines))
        if job.plan.no_output:
            del self.files[stored.id]
        return stored


def _lines(values: list[Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)
