"""Runs ``qmd embed``: rarely, in one process at a time, and with growing pauses while it fails."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from mdrecall.errors import BackendUnavailable, ProgramStopped, ProgramTimedOut, message_with_hint
from mdrecall.locks import FileLock
from mdrecall.qmd.process import CommandRunner
from mdrecall.state_files import load, make_private_folder, save
from mdrecall.types import Issue, Stop

_BUSY = "Another embed process is already running"
# After a failure; doubled with each further one. A missing model does not come back within seconds, and every try
# loads one.
_FIRST_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3600.0
# How often a wait for another process checks that it should stop.
_POLL_S = 0.1


class EmbedState(NamedTuple):
    """The outcome of the runs so far. Times are in seconds since 1970."""

    at: float = 0.0
    """When embedding last finished; 0 if never."""
    failures: int = 0
    """How often it has failed since then."""
    next_try: float = 0.0
    error: str = ""


class Embedding:
    """The runs of ``qmd embed``. Their outcome is stored, so that a new process does not repeat a recent failure."""

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
        """Embed if it is due. True if it was done. A failure becomes an issue, and is tried again later."""
        if not self.is_due(force=force):
            return False
        lock = FileLock(self._lock_path)
        before = self._count_pending()
        try:
            if not self._acquire(lock, stop):
                return False
            output = self._program.run(["embed"], timeout_s=self._timeout_s, quiet=True, stop=stop)
        except ProgramStopped:
            return False
        except ProgramTimedOut as error:
            self._record_timeout(error, before, issues)
            return False
        except (BackendUnavailable, OSError) as error:
            self._record_failure(error, issues)
            return False
        finally:
            lock.release()
        if _BUSY in output.stdout:
            return False
        self._save(EmbedState(at=self._now()))
        return True

    def state(self) -> EmbedState:
        """Return the outcome of the last runs."""
        saved = load(self._state_path)
        try:
            return EmbedState(float(saved["at"]), int(saved["failures"]), float(saved["nextTry"]), str(saved["error"]))
        except (KeyError, TypeError, ValueError):
            return EmbedState()

    def is_due(self, *, force: bool = False) -> bool:
        """True if it is time to embed; with ``force`` it is, except during the pause after a failure."""
        state, now = self.state(), self._now()
        # After the clock was set back, the pause must still not exceed the longest one.
        if now < state.next_try <= now + _LONGEST_PAUSE_S:
            return False
        if force or not state.at or state.failures:
            return True
        return self._interval_s > 0 and not state.at <= now < state.at + self._interval_s

    def _acquire(self, lock: FileLock, stop: Stop) -> bool:
        """Wait for other processes on this machine, no longer than embedding may take: each has a model in memory."""
        make_private_folder(os.path.dirname(self._lock_path))
        until = time.monotonic() + self._timeout_s
        while not lock.acquire(_POLL_S, "embedding with qmd"):
            if stop() or time.monotonic() >= until:
                return False
        return True

    def _record_timeout(self, error: ProgramTimedOut, before: int | None, issues: list[Issue]) -> None:
        """Keep what was embedded. If there was progress, the next update continues without a pause."""
        after = self._count_pending()
        if before is None or after is None or after >= before:
            self._record_failure(error, issues)
        else:
            self._save(EmbedState())
            issues.append(Issue("qmd embed", f"timed out: {after} of {before} texts have no vector yet"))

    def _count_pending(self) -> int | None:
        try:
            return self._pending()
        except BackendUnavailable:
            return None

    def _record_failure(self, error: BackendUnavailable | OSError, issues: list[Issue]) -> None:
        state = self.state()
        failures = state.failures + 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10))
        why = message_with_hint(error) if isinstance(error, BackendUnavailable) else str(error.strerror)
        self._save(EmbedState(state.at, failures, self._now() + pause_s, why))
        issues.append(Issue("qmd embed", f"failed, so vector search does not find the newest notes: {why}"))

    def _save(self, state: EmbedState) -> None:
        values = {"at": state.at, "failures": state.failures, "nextTry": state.next_try, "error": state.error}
        # On a full disk only the time of the next try is lost.
        with suppress(OSError):
            save(self._state_path, values)
