"""When qmd makes vectors of what it has indexed: seldom, one process at a time, and ever less often while it fails."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from mdrecall.errors import BackendUnavailable, ProgramStopped, ProgramTimedOut, message_with_hint
from mdrecall.locks import FileLock
from mdrecall.qmd.process import CommandRunner
from mdrecall.state_files import load, save
from mdrecall.types import Issue, Stop

_BUSY = "Another embed process is already running"
_FIRST_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3600.0
_LOOK_S = 0.1


class EmbedState(NamedTuple):
    """What came of embedding so far; times in seconds since 1970."""

    at: float = 0.0
    """When it was last finished; 0 if never."""
    failures: int = 0
    """How often it has failed since then."""
    next_try: float = 0.0
    error: str = ""


class Embedding:
    """The runs of ``qmd embed``; what came of them is kept on disk, so that no new process begins with a failure."""

    def __init__(
        self,
        program: CommandRunner,
        *,
        state_path: str,
        lock_path: str,
        interval_s: float,
        timeout_s: float,
        pending: Callable[[], int | None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._program = program
        self._state_path = state_path
        self._lock_path = lock_path
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._pending = pending
        self._now = now

    def run_if_due(self, force: bool, issues: list[Issue], stop: Stop) -> bool:
        """Embed if it is time; whether it was done. A failure is told and tried again later, and stops nobody."""
        if not self._is_due(force):
            return False
        lock = FileLock(self._lock_path)
        before = self._count()
        try:
            if not self._acquired(lock, stop):
                return False
            said = self._program.run(["embed"], timeout_s=self._timeout_s, quiet=True, stop=stop)
        except ProgramStopped:
            return False
        except ProgramTimedOut as error:
            self._timed_out(error, before, issues)
            return False
        except (BackendUnavailable, OSError) as error:
            self._failed(error, issues)
            return False
        finally:
            lock.release()
        if _BUSY in said.stdout:
            return False
        self._keep(EmbedState(at=self._now()))
        return True

    def state(self) -> EmbedState:
        """What came of the last runs."""
        kept = load(self._state_path)
        try:
            return EmbedState(float(kept["at"]), int(kept["failures"]), float(kept["nextTry"]), str(kept["error"]))
        except (KeyError, TypeError, ValueError):
            return EmbedState()

    def _is_due(self, force: bool) -> bool:
        state, now = self.state(), self._now()
        # A clock that was set back must not keep it waiting for longer than the longest pause.
        if now < state.next_try <= now + _LONGEST_PAUSE_S:
            return False
        if force or not state.at or state.failures:
            return True
        return self._interval_s > 0 and not state.at <= now < state.at + self._interval_s

    def _acquired(self, lock: FileLock, stop: Stop) -> bool:
        """Wait for others on this machine, each of whom has a model in memory, no longer than embedding may take."""
        os.makedirs(os.path.dirname(self._lock_path), exist_ok=True)
        until = time.monotonic() + self._timeout_s
        while not lock.acquire(_LOOK_S, "embedding with qmd"):
            if stop() or time.monotonic() >= until:
                return False
        return True

    def _timed_out(self, error: ProgramTimedOut, before: int | None, issues: list[Issue]) -> None:
        """What was embedded until then stays; as long as it gets further, the next update goes on with it."""
        after = self._count()
        if before is None or after is None or after >= before:
            self._failed(error, issues)
        else:
            self._keep(EmbedState())
            issues.append(Issue("qmd embed", f"is not finished: {after} of {before} texts have no vector yet"))

    def _count(self) -> int | None:
        try:
            return self._pending()
        except BackendUnavailable:
            return None

    def _failed(self, error: BackendUnavailable | OSError, issues: list[Issue]) -> None:
        state = self.state()
        failures = state.failures + 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10))
        why = message_with_hint(error) if isinstance(error, BackendUnavailable) else str(error.strerror)
        self._keep(EmbedState(state.at, failures, self._now() + pause_s, why))
        issues.append(Issue("qmd embed", f"failed, so meaning is searched without the newest notes: {why}"))

    def _keep(self, state: EmbedState) -> None:
        kept = {"at": state.at, "failures": state.failures, "nextTry": state.next_try, "error": state.error}
        # On a full disk it is only forgotten when the next try is.
        with suppress(OSError):
            save(self._state_path, kept)
