"""Embedding many texts by a provider's batch jobs, each paid for once: jobs are recorded, found again and collected."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mdrecall import errors
from mdrecall.config.settings import Batch
from mdrecall.engine.chunk_embedder import has_right_size
from mdrecall.errors import EmbedderError, message_with_hint
from mdrecall.types.documents import Embedding, Job, JobState

if TYPE_CHECKING:
    from mdrecall.embed.remote.jobs import BatchApi
    from mdrecall.engine.chunk_embedder import EmbedRun, Waiting

#: After this many failures in a row, texts are embedded directly for as long as the memory is open.
MOST_FAILURES = 2
# How often the creation of a job is tried whose answer was lost, and how long to wait before the second time.
_CREATE_ATTEMPTS = 3
_CREATE_WAIT_S = 0.3
# The run gives up after this many failed requests for the state of a job in a row.
_POLLS_MISSED = 5
# Results are stored in portions, so that a crash loses few and memory stays bounded.
_STORED_AT_ONCE = 500
# With an interval of 0, which tests use, polling must still not keep a core busy.
_LEAST_POLL_S = 0.01
# How soon a request to stop is noticed while waiting.
_STOP_CHECK_S = 0.2


class Jobs:
    """The batch jobs of one embedder."""

    def __init__(self, api: "BatchApi", rules: Batch, least: int = 1) -> None:
        """Fewer texts than ``least`` are embedded directly."""
        self.api = api
        self.rules = rules
        self.timeout_s = rules.timeout_minutes * 60.0
        self.least = least
        self.failures = 0
        self.last_error = ""
        self.waiting_message = ""
        """Which jobs were left running by the last run, for people; empty if none."""
        self.is_on = True
        """False if jobs have failed too often."""

    @property
    def most_texts(self) -> int:
        """How many texts a run takes at most."""
        return self.api.most_texts * self.rules.concurrency

    def run(self, run: "EmbedRun", waiting: "Waiting") -> bool:
        """Embed texts by jobs; True if that is finished, so that the rest is to be embedded directly."""
        return _JobRun(self, run, waiting).run()

    def record_failure(self, error: EmbedderError, *, for_good: bool = False) -> None:
        """Count a failure; turn jobs off after too many, or at once if they can never work."""
        self.failures += 1
        self.last_error = message_with_hint(error)
        self.is_on = self.is_on and not for_good and self.failures < MOST_FAILURES


class _JobRun:
    """The jobs for one group of texts."""

    def __init__(self, jobs: Jobs, run: "EmbedRun", waiting: "Waiting") -> None:
        self._jobs = jobs
        self._api = jobs.api
        self._run = run
        self._journal = run.cache
        self._embedder = run.embedder
        self._waiting = waiting
        self._open: list[tuple[Job, JobState]] = []
        self._began = time.monotonic()
        self._missed = 0

    def run(self) -> bool:
        jobs, rules = self._jobs, self._jobs.rules
        jobs.waiting_message = ""
        self._resume()
        groups = self._split_texts()
        self._poll()
        self._open = [one for one in self._open if any(digest in self._waiting for digest in one[0].digests)]
        while True:
            while groups and jobs.is_on and len(self._open) < rules.concurrency:
                self._submit(groups.pop(0))
            self._poll()
            if not self._open:
                if not (groups and jobs.is_on):
                    return True
            elif not rules.wait:
                texts = sum(map(len, [*groups, *(job.digests for job, _ in self._open)]))
                names = f"{self._embedder.provider} ({', '.join(job.id for job, _ in self._open)})"
                jobs.waiting_message = f"{texts:,} texts are waiting for {names}; a later sync collects them."
                return False
            elif self._pause():
                return False

    def _resume(self) -> None:
        """Continue the recorded jobs. A job whose creation was never confirmed is looked up at the provider.

        A provider that cannot list its jobs cannot tell, and the texts are submitted again.
        """
        for job in self._journal.jobs(self._embedder.fingerprint):
            state = JobState(job.id, "running") if job.id else None
            if state is None:
                with suppress(errors.NotThere):
                    state = self._api.find(job.tag, job.file)
            if state is None:
                self._journal.put_job(job.tag, None)
            else:
                self._track(job, state)

    def _track(self, job: Job, state: JobState) -> None:
        if job.id != state.id:
            job = job._replace(id=state.id)
            self._journal.put_job(job.tag, job)
        self._open.append((job, state))

    def _split_texts(self) -> list[list[bytes]]:
        """Return the texts that are in no job yet, in groups that fit into one job."""
        taken = {digest for job, _ in self._open for digest in job.digests}
        fresh = [digest for digest in self._waiting if digest not in taken]
        most = self._api.most_texts
        starts = range(0, len(fresh), most) if len(fresh) >= self._jobs.least else ()
        return [fresh[start : start + most] for start in starts]

    def _submit(self, digests: Sequence[bytes]) -> None:
        """Submit texts; the job is recorded before it can cost anything."""
        tag = f"mdrecall-{os.urandom(8).hex()}"
        self._run.report(f"submitting {len(digests):,} texts to {self._embedder.provider}")
        try:
            file = self._api.upload(tag, {digest.hex(): self._waiting[digest][0] for digest in digests})
            job = Job(tag, self._embedder.fingerprint, file, "", time.time(), tuple(digests))
        except EmbedderError as error:
            self._jobs.record_failure(error, for_good=isinstance(error, errors.NotThere))
            return
        self._journal.put_job(tag, job)
        made = self._create(job)
        if isinstance(made, JobState):
            self._track(job, made)
        else:
            self._journal.put_job(tag, None)
            self._jobs.record_failure(made, for_good=isinstance(made, errors.NotThere))

    def _create(self, job: Job) -> JobState | EmbedderError:
        """Create a job once, or return why that failed. If the answer was lost, ask whether the provider has the job.

        If that fails too, the error is raised: texts that may already be paid for are not embedded in another way.
        """
        problem: EmbedderError = EmbedderError("The job was not created.")
        for attempt in range(_CREATE_ATTEMPTS):
            try:
                return self._api.create(job.tag, job.file)
            except (errors.KeyRefused, errors.InputRefused, errors.NotThere) as error:
                return error
            except EmbedderError as error:
                problem = error
            if found := self._api.find(job.tag, job.file):
                return found
            if self._run.stop():
                raise problem
            time.sleep(_CREATE_WAIT_S * 2**attempt)
        return problem

    def _poll(self) -> None:
        """Ask for the state of every open job, and collect those that have ended."""
        is_late = self._jobs.rules.wait and time.monotonic() - self._began > self._jobs.timeout_s
        still: list[tuple[Job, JobState]] = []
        for job, known in self._open:
            state = self._ask_state(job, known)
            if state and state.status == "running" and is_late:
                state = self._give_up(state)
            if state and state.status == "running":
                still.append((job, state))
            elif state:
                self._collect(job, state)
        self._open = still

    def _ask_state(self, job: Job, known: JobState) -> JobState | None:
        """Return the state of a job; None if the provider has dropped it."""
        try:
            state = known if known.status != "running" else self._api.state(job.id)
        except (errors.NotThere, errors.InputRefused) as error:
            self._journal.put_job(job.tag, None)
            self._jobs.record_failure(error)
            return None
        except (errors.EmbedderUnavailable, errors.RateLimited, errors.WrongAnswer):
            self._missed += 1
            if self._missed >= _POLLS_MISSED:
                raise
            return known
        self._missed = 0
        return state

    def _give_up(self, state: JobState) -> JobState:
        """Cancel a job that takes too long, so that its texts are not paid for twice, and return its last state.

        It may have finished meanwhile, or in part. If the state cannot be read, the error is raised and the job stays.
        """
        with suppress(errors.WrongAnswer, errors.InputRefused):
            self._api.cancel(state.id)
        with suppress(errors.WrongAnswer, errors.InputRefused):
            state = self._api.state(state.id)
        if state.status == "done":
            return state
        minutes = self._jobs.timeout_s / 60
        return state._replace(status="failed", error=f"it did not finish within {minutes:g} minutes")

    def _collect(self, job: Job, state: JobState) -> None:
        """Store the results of a job, even of one that failed half way, and drop the job."""
        ours = set(job.digests)
        got, problem = 0, state.error
        made: dict[bytes, Embedding | None] = {}
        for digest, found in self._read_results(state):
            if isinstance(found, str) or digest not in ours or not has_right_size(self._embedder.dimensions, found):
                problem = problem or (found if isinstance(found, str) else "")
                continue
            got += 1
            made[digest] = found
            if len(made) >= _STORED_AT_ONCE:
                self._run.store_answers(made, self._waiting)
                made = {}
        self._run.store_answers(made, self._waiting)
        self._journal.put_job(job.tag, None)
        if state.status == "failed" or not got:
            message = f"The batch job {state.id} of {self._embedder.provider} failed"
            reason = problem.rstrip(".") or "it returned nothing"
            self._jobs.record_failure(EmbedderError(f"{message}: {reason}."))
        else:
            self._jobs.failures, self._jobs.last_error = 0, ""

    def _read_results(self, state: JobState) -> Iterator[tuple[bytes, Embedding | str]]:
        try:
            for name, found in self._api.results(state) if state.outputs else ():
                with suppress(ValueError):
                    yield bytes.fromhex(name), found
        except errors.WrongAnswer as error:
            yield b"", message_with_hint(error)

    def _pause(self) -> bool:
        """Wait until the next poll is due; True to stop instead."""
        done = sum(state.completed for _, state in self._open)
        total = sum(state.total or len(job.digests) for job, state in self._open)
        jobs = f"{len(self._open)} batch job{'' if len(self._open) == 1 else 's'}"
        self._run.report(f"{self._embedder.provider}: {jobs}, {done:,} of {total:,} texts done")
        until = time.monotonic() + max(_LEAST_POLL_S, self._jobs.rules.poll_interval_ms / 1000)
        while (left := until - time.monotonic()) > 0 and not self._run.stop():
            time.sleep(min(left, _STOP_CHECK_S))
        return self._run.stop()
