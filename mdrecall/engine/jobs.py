"""Many texts through a provider's batch jobs, each paid for once: jobs are written down, found again, and collected."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mdrecall.engine.requests import fits
from mdrecall.errors import (
    EmbedderError,
    EmbedderUnavailable,
    InputRefused,
    JobFailed,
    KeyRefused,
    NotThere,
    RateLimited,
    WrongAnswer,
    message_with_hint,
)
from mdrecall.interfaces import BatchApi, Embedder, JobJournal
from mdrecall.types import Embedding, Job, JobState, Stop

if TYPE_CHECKING:
    from mdrecall.engine.chunk_embedder import Waiting

    Wanted: TypeAlias = Mapping[bytes, Waiting]
    Arrived: TypeAlias = Callable[[Mapping[bytes, Embedding | None], Wanted], None]

#: After so many failures texts are embedded directly, for as long as the memory is open.
MOST_FAILURES = 2
_CREATE_ATTEMPTS = 3
_CREATE_WAIT_S = 0.3
_POLLS_MISSED = 5
_STORED_AT_ONCE = 500
_LEAST_POLL_S = 0.01
_SLICE_S = 0.2


class JobRules(NamedTuple):
    """How batch jobs are made."""

    wait: bool = True
    """Whether a job is waited for; if not, a later sync collects it."""
    at_once: int = 2
    poll_s: float = 2.0
    timeout_s: float = 3600.0
    least: int = 1
    """Fewer texts than this are not worth a job."""


class _Open(NamedTuple):
    job: Job
    state: JobState


class Jobs:
    """The batch jobs of one embedder."""

    def __init__(self, api: BatchApi, rules: JobRules) -> None:
        self.rules = rules
        self.failures = 0
        self.last_error = ""
        self.said = ""
        self._api = api
        self._is_off = False

    @property
    def is_on(self) -> bool:
        """Whether jobs are made, or have failed too often."""
        return not self._is_off

    @property
    def most_texts(self) -> int:
        """How many texts are dealt with at a time."""
        return self._api.most_texts * self.rules.at_once

    def run(
        self,
        journal: JobJournal,
        embedder: Embedder,
        waiting: "Wanted",
        arrived: "Arrived",
        tell: Callable[[str], None],
        stop: Stop,
    ) -> bool:
        """Embed texts by jobs; whether that is over, so that what is left is to be embedded directly."""
        run = _Run(self, self._api, journal, embedder, waiting, arrived, tell, stop)
        return run.work()

    def failed(self, error: EmbedderError, *, for_good: bool = False) -> None:
        """Count a failure."""
        self.failures += 1
        self.last_error = message_with_hint(error)
        self._is_off = self._is_off or for_good or self.failures >= MOST_FAILURES

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self.failures, self.last_error = 0, ""


class _Run:
    """Jobs for one lot of texts."""

    def __init__(
        self,
        jobs: Jobs,
        api: BatchApi,
        journal: JobJournal,
        embedder: Embedder,
        waiting: "Wanted",
        arrived: "Arrived",
        tell: Callable[[str], None],
        stop: Stop,
    ) -> None:
        self._jobs = jobs
        self._api = api
        self._journal = journal
        self._embedder = embedder
        self._waiting = waiting
        self._arrived = arrived
        self._tell = tell
        self._stop = stop
        self._open: list[_Open] = []
        self._began = time.monotonic()
        self._missed = 0

    def work(self) -> bool:
        self._jobs.said = ""
        self._take_up()
        groups = self._groups()
        self._look_after()
        self._open = [entry for entry in self._open if any(digest in self._waiting for digest in entry.job.digests)]
        while True:
            while groups and self._jobs.is_on and len(self._open) < self._jobs.rules.at_once:
                self._submit(groups.pop(0))
            self._look_after()
            if not self._open and not (groups and self._jobs.is_on):
                return True
            if self._open and not self._jobs.rules.wait:
                return self._leave(sum(len(group) for group in groups))
            if self._open and self._pause():
                return False

    def _take_up(self) -> None:
        """Go on with jobs that were handed over before; one whose creation was never confirmed is looked for.

        Where the provider has no list of its jobs there is no telling, and the texts are handed over again.
        """
        for job in self._journal.pending(self._embedder.fingerprint):
            state = JobState(job.id, "running") if job.id else None
            if state is None:
                with suppress(NotThere):
                    state = self._api.find(job.tag, job.file)
            if state is None:
                self._journal.drop(job.tag)
            else:
                self._hold(job, state)

    def _hold(self, job: Job, state: JobState) -> None:
        if job.id != state.id:
            job = job._replace(id=state.id)
            self._journal.put(job)
        self._open.append(_Open(job, state))

    def _groups(self) -> list[list[bytes]]:
        """The texts that are in no job yet, as many together as go into one."""
        taken = {digest for entry in self._open for digest in entry.job.digests}
        fresh = [digest for digest in self._waiting if digest not in taken]
        if len(fresh) < self._jobs.rules.least:
            return []
        most = self._api.most_texts
        return [fresh[start : start + most] for start in range(0, len(fresh), most)]

    def _submit(self, digests: Sequence[bytes]) -> None:
        """Hand texts over; the job is written down before it can cost anything."""
        tag = f"mdrecall-{os.urandom(8).hex()}"
        self._tell(f"handing {len(digests):,} texts over to {self._embedder.provider}")
        try:
            file = self._api.upload(tag, {digest.hex(): self._waiting[digest].passage for digest in digests})
        except EmbedderError as error:
            self._jobs.failed(error, for_good=isinstance(error, NotThere))
            return
        job = Job(tag, self._embedder.fingerprint, file, "", time.time(), tuple(digests))
        self._journal.put(job)
        made = self._created(job)
        if isinstance(made, JobState):
            self._hold(job, made)
        else:
            self._journal.drop(tag)
            self._jobs.failed(made, for_good=isinstance(made, NotThere))

    def _created(self, job: Job) -> JobState | EmbedderError:
        """Make a job, once; or why there is none. Where the answer was lost, the provider is asked whether it has it.

        If even that cannot be known, the error is raised: what may be paid for already is not asked for otherwise.
        """
        problem: EmbedderError = JobFailed("The job was not made.")
        for attempt in range(_CREATE_ATTEMPTS):
            try:
                return self._api.create(job.tag, job.file)
            except (KeyRefused, InputRefused, NotThere) as error:
                return error
            except EmbedderError as error:
                problem = error
            if found := self._api.find(job.tag, job.file):
                return found
            if self._stop():
                raise problem
            time.sleep(_CREATE_WAIT_S * 2**attempt)
        return problem

    def _look_after(self) -> None:
        """Ask after every open job, and collect those that are over."""
        still: list[_Open] = []
        for entry in self._open:
            state = self._state(entry)
            if state is None:
                continue
            if state.status == "running" and self._is_late():
                state = self._given_up(state)
            if state.status == "running":
                still.append(_Open(entry.job, state))
            else:
                self._collect(entry.job, state)
        self._open = still

    def _state(self, entry: _Open) -> JobState | None:
        try:
            state = entry.state if entry.state.status != "running" else self._api.state(entry.job.id)
        except (NotThere, InputRefused) as error:
            self._journal.drop(entry.job.tag)
            self._jobs.failed(error)
            return None
        except (EmbedderUnavailable, RateLimited, WrongAnswer):
            self._missed += 1
            if self._missed >= _POLLS_MISSED:
                raise
            return entry.state
        self._missed = 0
        return state

    def _is_late(self) -> bool:
        rules = self._jobs.rules
        return rules.wait and time.monotonic() - self._began > rules.timeout_s

    def _given_up(self, state: JobState) -> JobState:
        """A job that has taken too long is cancelled, so that it is not paid for beside what takes its place.

        It may have been done meanwhile, or in part. If it cannot be known, the error is raised and the job stays.
        """
        with suppress(WrongAnswer, InputRefused):
            self._api.cancel(state.id)
        with suppress(WrongAnswer, InputRefused):
            state = self._api.state(state.id)
        if state.status == "done":
            return state
        minutes = self._jobs.rules.timeout_s / 60
        return state._replace(status="failed", error=f"it was not done after {minutes:g} minutes")

    def _collect(self, job: Job, state: JobState) -> None:
        """Take what has come of a job, even of one that failed half way, and forget it."""
        ours = set(job.digests)
        got, problem = 0, state.error
        made: dict[bytes, Embedding | None] = {}
        for digest, found in self._results(state):
            if isinstance(found, str) or digest not in ours or not fits(self._embedder, found):
                problem = problem or (found if isinstance(found, str) else "")
                continue
            got += 1
            made[digest] = found
            if len(made) >= _STORED_AT_ONCE:
                self._arrived(made, self._waiting)
                made = {}
        self._arrived(made, self._waiting)
        self._journal.drop(job.tag)
        if state.status == "failed" or not got:
            named = f"The batch job {state.id} of {self._embedder.provider} failed"
            self._jobs.failed(JobFailed(f"{named}: {problem or 'it gave nothing'}."))
        else:
            self._jobs.succeeded()

    def _results(self, state: JobState) -> Iterator[tuple[bytes, Embedding | str]]:
        if not state.outputs:
            return
        try:
            for name, found in self._api.results(state):
                with suppress(ValueError):
                    yield bytes.fromhex(name), found
        except WrongAnswer as error:
            yield b"", message_with_hint(error)

    def _leave(self, more: int) -> bool:
        """Do not wait: what is under way is collected by a later sync."""
        texts = sum(len(entry.job.digests) for entry in self._open) + more
        names = ", ".join(entry.job.id for entry in self._open)
        self._jobs.said = f"{texts:,} texts wait for {self._embedder.provider} ({names}); a later sync collects them."
        return False

    def _pause(self) -> bool:
        """Wait until the jobs are asked after again; whether to stop instead."""
        self._tell(self._how_far())
        until = time.monotonic() + max(_LEAST_POLL_S, self._jobs.rules.poll_s)
        while (left := until - time.monotonic()) > 0:
            if self._stop():
                return True
            time.sleep(min(left, _SLICE_S))
        return self._stop()

    def _how_far(self) -> str:
        states = [entry.state for entry in self._open]
        done = sum(state.completed for state in states)
        total = sum(state.total or len(entry.job.digests) for entry, state in zip(self._open, states, strict=True))
        waited = time.monotonic() - self._began
        rest_s = self._jobs.rules.timeout_s - waited
        if done:
            rest_s = min(rest_s, waited * (total - done) / done)
        left = f"{'about' if done else 'at most'} {max(1, round(rest_s / 60))} min left"
        jobs = f"{len(states)} batch job{'' if len(states) == 1 else 's'}"
        return f"{self._embedder.provider}: {jobs}, {done:,} of {total:,} texts done, {left}"
