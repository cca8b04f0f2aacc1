"""A backend with another one that stands in for it: the same call is repeated there when the first cannot answer.

Only a ``BackendUnavailable`` makes the other one answer; anything else is a mistake that nobody would hear of. After a
failed search the first one is left alone for a while (``breaker``), and then tried in the background, so that nobody
waits for the trial. A search that takes long is begun on the other one too, so that its answer is there in time; the
first one is not waited for any longer than that, whatever holds it up.
"""

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from mdrecall.backends.breaker import Breaker, Outage, iso
from mdrecall.backends.hedge import HedgedCall
from mdrecall.errors import (
    BackendNotReady,
    BackendUnavailable,
    ProgramMissing,
    ProgramStopped,
    ProgramTimedOut,
    RecallError,
    message_with_hint,
)
from mdrecall.interfaces import Backend
from mdrecall.types import (
    Conversation,
    FallbackNotice,
    Issue,
    Probe,
    ProgressCallback,
    ReadResult,
    SearchAnswer,
    SearchRequest,
    SourceCount,
    Status,
    Stop,
    SyncReport,
    WatchEvent,
    never,
)

_T = TypeVar("_T")
_CLOSING_S = 5.0
#: So long is waited for the other one in any case: it is about to answer.
_LEAST_S = 0.05


class ProbedBackend(Backend, Protocol):
    """A backend that can be tried out."""

    def try_out(self) -> None:
        """Answer a search that nobody waits for; raises ``BackendUnavailable``."""
        ...


class StandbyBackend(Backend, Protocol):
    """A backend that is kept ready to answer."""

    def warm(self) -> None:
        """Index what has changed, as far as that costs nothing."""
        ...

    def cancel_pending(self) -> None:
        """End what is under way, without waiting for it: it is about to be closed."""
        ...


class FallbackBackend:
    """Answers with ``primary``, or with ``other`` while that cannot."""

    def __init__(
        self,
        name: str,
        primary: ProbedBackend,
        other: Callable[[], StandbyBackend],
        breaker: Breaker,
        *,
        denied: Callable[[str], SearchAnswer | None] = lambda key: None,
        hedge_s: float = 2.0,
        within_s: float | None = None,
        one_shot: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``denied`` gives the answer to a session that may not search.

        After ``hedge_s`` seconds ``other`` begins too, and after ``within_s`` nobody waits for ``primary`` any more.
        """
        self._name = name
        self._primary = primary
        self._make_other = other
        self._breaker = breaker
        self._denied = denied
        self._hedge_s = hedge_s
        self._within_s = within_s
        self._one_shot = one_shot
        self._now = now
        self._lock = threading.Lock()
        self._other: StandbyBackend | None = None
        self._closing = threading.Event()
        self._retrying: threading.Thread | None = None
        self._threads: list[threading.Thread] = []
        self._not_ready_since_s: float | None = None

    def start(self) -> None:
        """Make the other one ready in the background; a process that answers once does without."""
        if not self._one_shot:
            self._in_background("mdrecall-stand-in", self._warm)
            if self._breaker.outage:
                self._retry_later()

    def search(self, request: SearchRequest) -> SearchAnswer:
        """The answer of the first, else of the other one, which then says why; a denied search is asked of neither."""
        if (refusal := self._denied(request.session_key)) is not None:
            return refusal
        until = None if self._within_s is None else time.monotonic() + self._within_s
        outage = self._breaker.outage
        if outage and not self._may_ask(outage):
            self._retry_later()
            other = self._sent("builtin", lambda: self.stand_in().search(request))
            return self._marked(self._instead(other, None, until), outage.stand_in(self._name))
        other = self._sent("builtin", lambda: self.stand_in().search(request._replace(progress=None)), self._hedge_s)
        first = self._sent(self._name, lambda: self._primary.search(request))
        try:
            answer = first.result(until)
        except (BackendNotReady, ProgramStopped) as error:
            if self._closing.is_set():
                raise
            return self._marked(self._instead(other, error, until), self._not_ready(error))
        except BackendUnavailable as error:
            if self._closing.is_set():
                raise
            outage = self._breaker.failed(error)
            self._retry_later()
            return self._marked(self._instead(other, error, until), outage.stand_in(self._name))
        finally:
            self._remember(first, other)
        self._not_ready_since_s = None
        if outage:
            self._breaker.recovered()
        return answer

    def _sent(self, who: str, act: Callable[[], SearchAnswer], after_s: float = 0.0) -> HedgedCall[SearchAnswer]:
        errand = HedgedCall(who, act, after_s)
        errand.start()
        return errand

    def _remember(self, *errands: HedgedCall[SearchAnswer]) -> None:
        """Keep those that are still at work, for the closing to wait for."""
        threads = [thread for errand in errands for thread in errand.let_go()]
        with self._lock:
            self._threads = [thread for thread in (*self._threads, *threads) if thread.is_alive()]

    def _may_ask(self, outage: Outage) -> bool:
        """Whether a failed backend is asked again by this very call: only where there is no background to do it in."""
        return self._one_shot and (self._breaker.is_due() or not outage.costly)

    def _instead(
        self, other: HedgedCall[SearchAnswer], error: BackendUnavailable | None, until: float | None
    ) -> SearchAnswer:
        """The answer of the other one, or what is wrong with the first; a process that answers once can wait for it."""
        try:
            return other.result(None if self._one_shot or until is None else max(until, time.monotonic() + _LEAST_S))
        except ProgramTimedOut:
            action = "The builtin index is not ready to stand in yet. Ask again in a moment."
            return SearchAnswer((), reason="index_empty", action=action, stale="notes are being indexed")
        except RecallError as failure:
            if error is None:
                raise
            raise error from failure
        finally:
            self._remember(other)

    def _not_ready(self, error: BackendUnavailable) -> FallbackNotice:
        since_s = self._not_ready_since_s = self._not_ready_since_s or self._now()
        return FallbackNotice(self._name, message_with_hint(error), iso(since_s), iso(self._now()))

    def _marked(self, answer: SearchAnswer, instead: FallbackNotice) -> SearchAnswer:
        return answer.replace(backend="builtin", answered_for=instead)

    def read_file(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        """Lines of a file."""
        return self._either(lambda backend: backend.read_file(path, from_line=from_line, lines=lines))

    def sessions(self) -> list[Conversation]:
        """The transcripts of this agent."""
        return self._either(lambda backend: backend.sessions())

    def compacted(self, session: str) -> SyncReport:
        """Index a transcript whose conversation was just compacted."""
        return self._synced(lambda backend: backend.compacted(session))

    def read_session(self, session: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        """What is said in a transcript."""
        return self._either(lambda backend: backend.read_session(session, from_line=from_line, lines=lines))

    def sync(self, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never) -> SyncReport:
        """Bring the index up to date; if that of the first cannot be, that of the other one, which is told."""
        return self._synced(lambda backend: backend.sync(force=force, progress=progress, stop=stop))

    def _synced(self, act: Callable[[Backend], SyncReport]) -> SyncReport:
        try:
            report = act(self._primary)
            if self._one_shot and self._breaker.outage:
                self._try_again()
            return report
        except BackendUnavailable as error:
            if isinstance(error, ProgramMissing):
                # No search can be answered either, whatever is indexed.
                self._breaker.failed(error)
                self._retry_later()
            report = act(self.stand_in())
            failed = Issue(
                self._name, f"could not update its index; the builtin index was updated: {message_with_hint(error)}"
            )
            return report._replace(failed=(*report.failed, failed))

    def watch(self) -> None:
        """Follow the files in the background."""
        self._primary.watch()

    def follow(self, tell: Callable[[WatchEvent], None]) -> None:
        """Follow the files in this thread."""
        self._primary.follow(tell)

    def stop_following(self) -> None:
        """End ``follow``."""
        self._primary.stop_following()

    def status(self) -> Status:
        """Of the one that answers; ``fallback`` says which that is not, why, since when, and until when."""
        outage = self._breaker.outage
        if outage is None:
            return self._either(lambda backend: backend.status())
        told_to = outage.stand_in(self._name)
        fallback = {"from": self._name, "reason": told_to.reason, "since": told_to.since, "nextTry": told_to.next_try}
        status = self.stand_in().status()
        custom = {**status.custom, "fallback": {"disabled": True, "reason": outage.reason}}
        if status.fallback:
            custom["embeddingFallback"] = status.fallback
        own = self._primary.status().custom.get(self._name)
        return status._replace(fallback=fallback, custom=custom if own is None else {**custom, self._name: own})

    def counts(self) -> tuple[SourceCount, ...]:
        """How many files and chunks of each source are indexed, by the one that answers."""
        return self._answering().counts()

    def issues(self) -> tuple[Issue, ...]:
        """What there is to say about the files."""
        return self._either(lambda backend: backend.issues())

    def check(self) -> tuple[str, ...]:
        """What is wrong with the index of the one that answers."""
        return self._answering().check()

    def index_files(self) -> list[tuple[str, int]]:
        """Every file of both indexes."""
        return [*self._primary.index_files(), *self.stand_in().index_files()]

    def reset(self) -> None:
        """Delete both indexes, and what is remembered of failures."""
        self._breaker.recovered()
        self._primary.reset()
        self.stand_in().reset()

    def probe_embedding(self) -> Probe:
        """Whether embeddings can be made, by the one that answers."""
        return self._answering().probe_embedding()

    def probe_vectors(self) -> bool:
        """Whether vectors can be searched, by the one that answers."""
        return self._answering().probe_vectors()

    def close(self) -> None:
        """End everything that is under way, in both; may be called twice."""
        self._closing.set()
        if self._other is not None:
            self._other.cancel_pending()
        self._primary.close()
        for thread in [*self._threads, *([self._retrying] if self._retrying else [])]:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(_CLOSING_S)
        with self._lock:
            other, self._other = self._other, None
        if other is not None:
            other.close()

    def _answering(self) -> Backend:
        return self.stand_in() if self._breaker.outage else self._primary

    def stand_in(self) -> StandbyBackend:
        """The other one, opened when it is first needed."""
        with self._lock:
            if self._other is None:
                if self._closing.is_set():
                    raise BackendUnavailable("The memory is closed.")
                self._other = self._make_other()
            return self._other

    def _either(self, act: Callable[[Backend], _T]) -> _T:
        try:
            return act(self._primary)
        except BackendUnavailable:
            return act(self.stand_in())

    def _warm(self) -> None:
        """What goes wrong here is told by the search that needs it."""
        try:
            self.stand_in().warm()
        except RecallError:
            return

    def _retry_later(self) -> None:
        """Try the first one at the time that is set, again and again, until it answers."""
        with self._lock:
            is_under_way = self._retrying is not None and self._retrying.is_alive()
            if self._one_shot or is_under_way or self._closing.is_set():
                return
            self._retrying = threading.Thread(target=self._retry, name=f"mdrecall-retry-{self._name}", daemon=True)
            self._retrying.start()

    def _retry(self) -> None:
        while self._breaker.outage and not self._closing.wait(self._breaker.seconds_left()):
            if not self._breaker.is_due():
                continue
            self._try_again()

    def _try_again(self) -> None:
        try:
            self._primary.try_out()
        except BackendUnavailable as error:
            if not self._closing.is_set():
                self._breaker.failed(error)
        else:
            self._breaker.recovered()

    def _in_background(self, name: str, act: Callable[[], None]) -> None:
        thread = threading.Thread(target=act, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
