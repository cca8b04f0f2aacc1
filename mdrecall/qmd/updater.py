"""When qmd's index is brought up to date with the files: at the start, every so often, and when asked."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.errors import BackendUnavailable, ProgramStopped, message_with_hint
from mdrecall.qmd.collections import Collections
from mdrecall.qmd.embedding import Embedding
from mdrecall.qmd.index_update import IndexUpdate
from mdrecall.qmd.turns import Turns
from mdrecall.types import Issue, Progress, ProgressCallback, Stop, never

_CLOSE_S = 10.0


class UpdateRules(NamedTuple):
    """When to update."""

    interval_s: float
    debounce_s: float
    on_boot: bool
    wait_for_boot: bool

    @classmethod
    def of(cls, settings: Settings) -> "UpdateRules":
        """The rules in an agent's settings."""
        update = settings.memory.qmd.update
        return cls(update.interval / 1000, update.debounce_ms / 1000, update.on_boot, update.wait_for_boot_sync)


class UpdateReport(NamedTuple):
    """What an update did."""

    reason: str
    skipped: str = ""
    """Why there was none: ``closed``, ``debounced``, ``unchanged`` or ``lost``; empty if there was one."""
    embedded: bool = False
    issues: tuple[Issue, ...] = ()
    """What was left out or went wrong beside it."""


class Updater:
    """The updates of one qmd; may be used from several threads."""

    def __init__(
        self,
        collections: Collections,
        reading: IndexUpdate,
        embedding: Embedding | None,
        rules: UpdateRules,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collections = collections
        self._reading = reading
        self._embedding = embedding
        self._rules = rules
        self._clock = clock
        self._closing = threading.Event()
        self._turns: Turns[UpdateReport] = Turns()
        self._changed = threading.Condition()
        self._updating = False
        self._completed: float | None = None
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._error = ""

    def start(self, *, one_shot: bool = False) -> tuple[Issue, ...]:
        """Bind the collections and begin to update; a process that answers once does the first only."""
        issues = self._collections.ensure(stop=self._closing.is_set)
        if one_shot or self._thread is not None:
            return issues
        boots = self._rules.on_boot
        if boots and self._rules.wait_for_boot:
            self._run_quietly("boot", force=True)
            boots = False
        if boots or self._rules.interval_s > 0:
            self._thread = threading.Thread(target=self._keep_updating, args=(boots,), name="qmd-update", daemon=True)
            self._thread.start()
        return issues

    def run(
        self, reason: str, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never
    ) -> UpdateReport:
        """Update, or join the update that runs; ``force``, if only one that begins now or later will do.

        Raises ``BackendUnavailable``, also to those who joined.
        """
        if progress:
            progress(Progress(0, 1, "qmd update"))
        if self._closing.is_set():
            report = UpdateReport(reason, "closed")
        elif not force and self._turns.idle() and self._is_young():
            report = UpdateReport(reason, "debounced")
        else:
            report = self._take_turn(reason, force, stop)
        if progress:
            progress(Progress(1, 1, "qmd update"))
        return report

    @property
    def waiting(self) -> int:
        """How many have asked for an update and wait for it."""
        return self._turns.asking

    def is_behind(self) -> bool:
        """Whether the files have changed since qmd last read them, whichever process had it do so."""
        return self._reading.is_behind()

    def is_updating(self) -> bool:
        """Whether qmd is reading the files."""
        return self._updating

    def wait(self, seconds: float) -> bool:
        """Wait for qmd to have read the files, at most so long; whether it is not reading any now."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._updating, seconds)

    def status(self) -> dict[str, Any]:
        """When it last worked, and what did not."""
        said: dict[str, Any] = {
            "updating": self._updating,
            "lastUpdateAt": _iso(self._reading.completed_at()),
            "updateFailures": self._failures,
            "lastUpdateError": self._error,
            "lost": [entry.path for entry in self._reading.missing],
        }
        if self._embedding:
            embed = self._embedding.state()
            said["lastEmbedAt"] = _iso(embed.at)
            said["embedFailures"] = embed.failures
            said["lastEmbedError"] = embed.error
            said["nextEmbedTry"] = _iso(embed.next_try)
        return said

    def close(self) -> None:
        """Stop the timer, drop what waits, and end what runs."""
        self._closing.set()
        self._turns.close()
        if self._thread is not None:
            self._thread.join()
        self._turns.drain(_CLOSE_S)

    def _is_young(self) -> bool:
        return self._completed is not None and self._clock() - self._completed < self._rules.debounce_s

    def _take_turn(self, reason: str, force: bool, stop: Stop) -> UpdateReport:
        def stopped() -> bool:
            return stop() or self._closing.is_set()

        try:
            return self._turns.take(
                lambda: self._update(reason, force, stopped),
                lambda: self._update(f"{reason}:queued", True, stopped),
                anew=force,
                stop=stopped,
            )
        except ProgramStopped:
            if self._closing.is_set():
                return UpdateReport(reason, "closed")
            raise

    def _keep_updating(self, boots: bool) -> None:
        if boots:
            self._run_quietly("boot", force=True)
        while self._rules.interval_s > 0 and not self._closing.wait(self._rules.interval_s):
            self._run_quietly("interval")

    def _run_quietly(self, reason: str, *, force: bool = False) -> None:
        """Nobody waits for it; the status tells what went wrong."""
        try:
            self.run(reason, force=force)
        except BackendUnavailable:
            return

    def _update(self, reason: str, force: bool, stop: Stop) -> UpdateReport:
        issues: list[Issue] = []
        with self._told():
            if reason == "interval" and not self._reading.is_behind():
                # qmd would throw away what its models have answered, for nothing.
                skipped = "unchanged"
            else:
                patient = reason == "boot" or reason.startswith("boot:")
                skipped = self._reading.run(issues, force=force, patient=patient, stop=stop)
        embedded = self._embedding.run_if_due(force, issues, stop) if self._embedding else False
        return UpdateReport(reason, skipped, embedded, tuple(dict.fromkeys(issues)))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Let others know that qmd reads the files, and what came of it."""
        with self._changed:
            self._updating = True
        try:
            yield
            self._completed, self._failures, self._error = self._clock(), 0, ""
        except ProgramStopped:
            raise
        except BackendUnavailable as error:
            self._failures += 1
            self._error = message_with_hint(error)
            raise
        finally:
            with self._changed:
                self._updating = False
                self._changed.notify_all()


def _iso(seconds: float | None) -> str | None:
    if not seconds:
        return None
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
