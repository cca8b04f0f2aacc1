"""A backend with a fallback: when the primary backend cannot answer, the same call is repeated on the other one.

Only a ``BackendUnavailable`` leads to the fallback; any other error is a bug that must be seen. After a failed search
the primary is left alone for a while (``breaker``) and then tried in the background, so that no search waits for the
attempt. A search that takes long starts on the fallback too (``hedge``), so that its answer is there in time. The
primary is not waited for any longer than that, whatever holds it up.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol, TypeVar

from mdrecall.backends.breaker import Breaker, Outage, format_time
from mdrecall.engine.background import DaemonPool, HedgedCall
from mdrecall.errors import (
    BackendNotReady,
    BackendUnavailable,
    ProgramMissing,
    ProgramStopped,
    ProgramTimedOut,
    RecallError,
    ScopeDenied,
    message_with_hint,
)
from mdrecall.interfaces import Backend, BackendMap, BackendWatch
from mdrecall.types import (
    Conversation,
    FallbackNotice,
    Issue,
    MessagePage,
    Probe,
    ProgressCallback,
    ReadResult,
    SearchAnswer,
    SearchRequest,
    SourceCount,
    Status,
    Stop,
    SyncReport,
    never,
)

_T = TypeVar("_T")
# How long closing waits for calls that are in progress.
_CLOSING_S = 5.0
# The fallback always gets this much time: it usually is about to answer when the time limit is reached.
_MIN_WAIT_S = 0.05


class ProbedBackend(Backend, Protocol):
    """A backend that is started and tried without a caller waiting for it."""

    def start(self) -> None:
        """Start what takes long, so that the first search need not wait for it; no failure is raised."""
        ...

    def probe_search(self) -> None:
        """Run a search; raise ``BackendUnavailable`` if it fails."""
        ...


class StandbyBackend(Backend, Protocol):
    """A backend that is kept ready to answer."""

    def warm(self) -> None:
        """Index what changed, as far as that costs nothing."""
        ...

    def cancel_pending(self) -> None:
        """End what is in progress without waiting for it, because the backend is about to be closed."""
        ...


class FallbackBackend:
    """Answers with the primary backend, or with the fallback while the primary cannot answer."""

    def __init__(
        self,
        name: str,
        primary: ProbedBackend,
        open_fallback: Callable[[], StandbyBackend],
        breaker: Breaker,
        *,
        deny: Callable[[str], SearchAnswer | None] = lambda key: None,
        hedge_s: float = 2.0,
        within_s: float | None = None,
        one_shot: bool = False,
        waits_for_start: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``name`` is the primary's. ``deny`` returns the answer to a session that may not search, else None.

        After ``hedge_s`` seconds a search starts on the fallback too; after ``within_s`` the primary is given up.
        """
        self._name = name
        self._primary = primary
        self._open_fallback = open_fallback
        self._breaker = breaker
        self._deny = deny
        self._hedge_s = hedge_s
        self._within_s = within_s
        self._one_shot = one_shot
        self._waits_for_start = waits_for_start
        self._now = now
        self._lock = threading.Lock()
        self._opened: StandbyBackend | None = None
        self._closing = threading.Event()
        self._pool = DaemonPool(f"mdrecall-{name}-or-fallback")
        self._retrying: Future[None] | None = None
        self._not_ready_since_s: float | None = None
        self.sessions = _FallbackSessions(self)
        self.admin = _FallbackAdmin(self)

    @property
    def map(self) -> BackendMap:
        """The map of the backend that answers now."""
        return self.choose_active().map

    @property
    def watch(self) -> BackendWatch:
        """The primary's watcher."""
        return self._primary.watch

    @property
    def primary(self) -> Backend:
        """The backend that the settings ask for."""
        return self._primary

    def start(self) -> None:
        """Start the primary and get the fallback ready, both in the background; not in a process that answers once.

        With ``waits_for_start`` this returns when the primary is ready.
        """
        if not self._one_shot:
            self._pool.start(self._warm_fallback)
            if self._waits_for_start:
                self._primary.start()
            else:
                self._pool.start(self._primary.start)
            if self._breaker.outage:
                self._retry_later()

    def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the primary's answer, or the fallback's with a notice that says why."""
        if (denial := self._deny(request.session_key)) is not None:
            return denial
        until = None if self._within_s is None else time.monotonic() + self._within_s
        outage = self._breaker.outage
        if outage and not self._can_ask(outage):
            call = self._hedge(request, request)
            return self._fall_back(call, None, until, outage.notice(self._name))
        # The progress of two searches at once would be confusing.
        call = self._hedge(request, request._replace(progress=None))
        try:
            answer = call.wait_for_first(self._hedge_s, until)
        except (BackendNotReady, ProgramStopped) as error:
            self._raise_if_closing(error)
            return self._fall_back(call, error, until, self._describe_not_ready(error))
        except BackendUnavailable as error:
            self._raise_if_closing(error)
            outage = self._breaker.record_failure(error)
            return self._fall_back(call, error, until, outage.notice(self._name))
        self._not_ready_since_s = None
        if outage:
            self._breaker.record_recovery()
        return answer

    def require_allowed(self, session_key: str, path: str) -> None:
        """Raise ``ScopeDenied`` if a conversation may not search."""
        if (denial := self._deny(session_key)) is not None:
            raise ScopeDenied(f"{path} cannot be read in this conversation.", path=path, hint=denial.action)

    def read(
        self,
        path: str,
        *,
        from_line: int | None = None,
        lines: int | None = None,
        from_char: int = 0,
        max_chars: int | None = None,
    ) -> ReadResult:
        """Return lines of a file."""
        return self.call(
            lambda backend: backend.read(
                path, from_line=from_line, lines=lines, from_char=from_char, max_chars=max_chars
            )
        )

    def sync(self, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never) -> SyncReport:
        """Bring the index up to date; if that fails, bring the fallback's up to date and report the failure."""
        return self.sync_with(lambda backend: backend.sync(force=force, progress=progress, stop=stop))

    def status(self) -> Status:
        """Return the status of the backend that answers now; ``fallback`` describes an outage of the primary."""
        outage = self._breaker.outage
        if outage is None:
            return self.call(lambda backend: backend.status())
        notice = outage.notice(self._name)
        fallback = {"from": self._name, "reason": notice.reason, "since": notice.since, "nextTry": notice.next_try}
        status = self.ensure_fallback().status()
        custom = {**status.custom, "fallback": {"disabled": True, "reason": outage.reason}}
        if status.fallback:
            custom["embeddingFallback"] = status.fallback
        own = None
        # A server that is away has no status.
        with suppress(BackendUnavailable):
            own = self._primary.status().custom.get(self._name)
        return status._replace(fallback=fallback, custom=custom if own is None else {**custom, self._name: own})

    def close(self) -> None:
        """End everything that is in progress in both backends; may be called twice."""
        self._closing.set()
        if self._opened is not None:
            self._opened.cancel_pending()
        self._primary.close()
        self._pool.drain(_CLOSING_S)
        self._pool.release()
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def ensure_fallback(self) -> StandbyBackend:
        """Return the fallback, opened when it is first needed."""
        with self._lock:
            if self._opened is None:
                if self._closing.is_set():
                    raise BackendUnavailable("The memory is closed.")
                self._opened = self._open_fallback()
            return self._opened

    def choose_active(self) -> Backend:
        """Return the backend that answers searches now."""
        return self.ensure_fallback() if self._breaker.outage else self._primary

    def call(self, act: Callable[[Backend], _T]) -> _T:
        """Call the primary, or the fallback if the primary is unavailable."""
        try:
            return act(self._primary)
        except BackendUnavailable:
            return act(self.ensure_fallback())

    def sync_with(self, act: Callable[[Backend], SyncReport]) -> SyncReport:
        """Update the primary's index, or the fallback's if that fails; the report then names the failure."""
        try:
            report = act(self._primary)
            if self._one_shot and self._breaker.outage:
                self._probe_primary()
            return report
        except BackendUnavailable as error:
            if isinstance(error, ProgramMissing):
                # No search can be answered either, whatever is indexed.
                self._breaker.record_failure(error)
                self._retry_later()
            report = act(self.ensure_fallback())
            problem = f"could not update its index; the builtin index was updated: {message_with_hint(error)}"
            return report._replace(failed=(*report.failed, Issue(self._name, problem)))

    def forget_outage(self) -> None:
        """Use the primary again at once."""
        self._breaker.record_recovery()

    def _hedge(self, request: SearchRequest, fallback_request: SearchRequest) -> HedgedCall[SearchAnswer]:
        return HedgedCall(
            self._pool,
            (self._name, "builtin"),
            lambda: self._primary.search(request),
            lambda: self.ensure_fallback().search(fallback_request),
        )

    def _can_ask(self, outage: Outage) -> bool:
        """True if this search tries the failed primary itself, because the process has no background to do it in."""
        return self._one_shot and (self._breaker.is_due() or not outage.costly)

    def _fall_back(
        self,
        call: HedgedCall[SearchAnswer],
        error: BackendUnavailable | None,
        until: float | None,
        notice: FallbackNotice,
    ) -> SearchAnswer:
        try:
            answer = self._ask_fallback(call, error, until)
        finally:
            # Last, so that it uses a thread that is idle again.
            self._retry_later()
        return answer.replace(backend="builtin", answered_for=notice)

    def _ask_fallback(
        self, call: HedgedCall[SearchAnswer], error: BackendUnavailable | None, until: float | None
    ) -> SearchAnswer:
        """Return the fallback's answer within the time limit; a process that answers once waits as long as it takes."""
        try:
            is_limited = until is not None and not self._one_shot
            return call.wait_for_second(max(until, time.monotonic() + _MIN_WAIT_S) if until and is_limited else None)
        except ProgramTimedOut:
            action = "The builtin index is not ready to answer yet. Ask again in a moment."
            return SearchAnswer((), reason="index_empty", action=action, stale="notes are being indexed")
        except RecallError as failure:
            if error is None:
                raise
            raise error from failure

    def _describe_not_ready(self, error: BackendUnavailable) -> FallbackNotice:
        since_s = self._not_ready_since_s = self._not_ready_since_s or self._now()
        return FallbackNotice(self._name, message_with_hint(error), format_time(since_s), format_time(self._now()))

    def _raise_if_closing(self, error: BackendUnavailable) -> None:
        """Raise an error that closing caused: it is no failure of the primary."""
        if self._closing.is_set():
            raise error

    def _warm_fallback(self) -> None:
        try:
            self.ensure_fallback().warm()
        except RecallError:
            return  # the search that needs the fallback reports it

    def _retry_later(self) -> None:
        """Try the primary when it is due, again and again, until it answers."""
        with self._lock:
            is_retrying = self._retrying is not None and not self._retrying.done()
            if self._one_shot or is_retrying or self._closing.is_set() or not self._breaker.outage:
                return
            self._retrying = self._pool.start(self._retry)

    def _retry(self) -> None:
        while self._breaker.outage and not self._closing.wait(self._breaker.seconds_left()):
            if self._breaker.is_due():
                self._probe_primary()

    def _probe_primary(self) -> None:
        try:
            self._primary.probe_search()
        except BackendUnavailable as error:
            if not self._closing.is_set():
                self._breaker.record_failure(error)
        else:
            self._breaker.record_recovery()


class _FallbackSessions:
    """The sessions, read by the primary or else by the fallback."""

    def __init__(self, backend: FallbackBackend) -> None:
        self._backend = backend

    def list_all(self, session_key: str = "") -> list[Conversation]:
        return self._backend.call(lambda backend: backend.sessions.list_all(session_key))

    def read(
        self,
        session: str,
        *,
        from_line: int | None = None,
        lines: int | None = None,
        from_char: int = 0,
        session_key: str = "",
    ) -> ReadResult:
        self._backend.require_allowed(session_key, session)
        return self._backend.call(
            lambda backend: backend.sessions.read(
                session, from_line=from_line, lines=lines, from_char=from_char, session_key=session_key
            )
        )

    def read_messages(
        self,
        session: str,
        *,
        limit: int,
        offset: int = 0,
        record: int | None = None,
        session_id: str = "",
        session_key: str = "",
        with_tools: bool = False,
    ) -> MessagePage:
        self._backend.require_allowed(session_key, session)
        return self._backend.call(
            lambda backend: backend.sessions.read_messages(
                session,
                limit=limit,
                offset=offset,
                record=record,
                session_id=session_id,
                session_key=session_key,
                with_tools=with_tools,
            )
        )

    def note_compaction(self, session: str) -> SyncReport:
        return self._backend.sync_with(lambda backend: backend.sessions.note_compaction(session))


class _FallbackAdmin:
    """The administration of the backend that answers now; sizes and reset are of both."""

    def __init__(self, backend: FallbackBackend) -> None:
        self._backend = backend

    def counts(self) -> tuple[SourceCount, ...]:
        return self._backend.choose_active().admin.counts()

    def issues(self) -> tuple[Issue, ...]:
        return self._backend.call(lambda backend: backend.admin.issues())

    def check(self) -> tuple[str, ...]:
        return self._backend.choose_active().admin.check()

    def index_sizes(self) -> list[tuple[str, int]]:
        return [*self._backend.primary.admin.index_sizes(), *self._backend.ensure_fallback().admin.index_sizes()]

    def reset(self) -> None:
        self._backend.forget_outage()
        self._backend.primary.admin.reset()
        self._backend.ensure_fallback().admin.reset()

    def purge(self, progress: ProgressCallback | None = None) -> bool:
        is_done = self._backend.primary.admin.purge(progress)
        return self._backend.ensure_fallback().admin.purge(progress) and is_done

    def probe_embedding(self) -> Probe:
        return self._backend.choose_active().admin.probe_embedding()

    def probe_vectors(self) -> bool:
        return self._backend.choose_active().admin.probe_vectors()
