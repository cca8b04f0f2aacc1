"""When qmd's index is brought up to date with the files, and what is done when that fails."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.errors import (
    BackendUnavailable,
    ProgramBusy,
    ProgramFailed,
    ProgramStopped,
    ProgramTimedOut,
    ProgramUnreadable,
    told,
)
from mdrecall.qmd.collections import Collections
from mdrecall.qmd.embedding import Embedding
from mdrecall.qmd.export import SessionExport
from mdrecall.qmd.listing import Listed
from mdrecall.qmd.repair import is_damage, is_damaged, is_null_byte, is_twice, set_aside
from mdrecall.qmd.runs import Ran, Runs
from mdrecall.qmd.stamps import digest
from mdrecall.qmd.state import draft, load, save
from mdrecall.qmd.turns import Turns
from mdrecall.store.lock import FileLock, named
from mdrecall.types import Issue, Progress, ProgressCallback, Stop, never

_BOOT_PAUSES_S = (0.5, 1.0)
_LOOK_S = 0.1
_CLOSE_S = 10.0
_SKIPPED = "⚠ Skipped "


class UpdateRules(NamedTuple):
    """When to update and to embed, and how long that may take."""

    interval_s: float
    debounce_s: float
    on_boot: bool
    wait_for_boot: bool
    update_timeout_s: float

    @classmethod
    def of(cls, settings: Settings) -> "UpdateRules":
        """The rules in an agent's settings."""
        update = settings.memory.qmd.update
        return cls(
            update.interval / 1000,
            update.debounce_ms / 1000,
            update.on_boot,
            update.wait_for_boot_sync,
            update.update_timeout_ms / 1000,
        )


class UpdateReport(NamedTuple):
    """What an update did."""

    reason: str
    skipped: str = ""
    """Why there was none: ``closed``, ``debounced``, ``unchanged`` or ``lost``; empty if there was one."""
    embedded: bool = False
    issues: tuple[Issue, ...] = ()
    """What was left out or went wrong beside it."""


class Updater:
    """Updates of one qmd: at the start, every so often, and when asked. May be used from several threads."""

    def __init__(
        self,
        program: Runs,
        collections: Collections,
        export: SessionExport | None,
        embedding: Embedding | None,
        rules: UpdateRules,
        *,
        state_dir: str,
        without: Callable[[str], Runs] | None = None,
        after: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        pause: Callable[[float], Any] | None = None,
    ) -> None:
        self._program = program
        self._collections = collections
        self._export = export
        self._embedding = embedding
        self._rules = rules
        self._state_dir = state_dir
        self._without = without
        self._after = after
        self._clock = clock
        self._now = now
        self._closing = threading.Event()
        self._pause = pause or self._closing.wait
        self._turns: Turns[UpdateReport] = Turns()
        self._changed = threading.Condition()
        self._updating = False
        self._completed: float | None = None
        self._thread: threading.Thread | None = None
        self._mended: set[str] = set()
        self._failures = 0
        self._error = ""
        self._lost: tuple[Listed, ...] = ()

    def start(self, *, one_shot: bool = False) -> tuple[Issue, ...]:
        """Bind the collections and begin to update; a process that answers once only does the first."""
        issues = self._collections.ensure(stop=self._closing.is_set)
        if one_shot or self._thread is not None:
            return issues
        waits = self._rules.on_boot and self._rules.wait_for_boot
        if waits:
            self._run_quietly("boot", force=True)
        if self._rules.interval_s > 0 or (self._rules.on_boot and not waits):
            boots = self._rules.on_boot and not waits
            self._thread = threading.Thread(target=self._keep_updating, args=(boots,), name="qmd-update", daemon=True)
            self._thread.start()
        return issues

    def run(
        self, reason: str, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never
    ) -> UpdateReport:
        """Update, or join the update that runs; ``force``, if only one that begins now or later will do.

        Raises ``BackendUnavailable``, also to those who joined.
        """
        if self._closing.is_set():
            return UpdateReport(reason, "closed")
        if progress:
            progress(Progress(0, 1, "qmd update"))
        if not force and self._turns.idle() and self._is_young():
            report = UpdateReport(reason, "debounced")
        else:
            report = self._take_turn(reason, force, stop)
        if progress:
            progress(Progress(1, 1, "qmd update"))
        return report

    def behind(self) -> bool:
        """Whether the files have changed since qmd last read them, whichever process had it do so."""
        return not self._collections.database.exists() or load(self._state_path).get("digest") != self._digest()

    def running(self) -> bool:
        """Whether qmd is reading the files."""
        return self._updating

    def wait(self, seconds: float) -> bool:
        """Wait for qmd to have read the files, at most so long; whether it is not reading any now."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._updating, seconds)

    def status(self) -> dict[str, Any]:
        """When it last worked, and what did not."""
        kept = load(self._state_path)
        said: dict[str, Any] = {
            "updating": self._updating,
            "lastUpdateAt": _iso(kept.get("at")),
            "updateFailures": self._failures,
            "lastUpdateError": self._error,
            "lost": [entry.path for entry in self._lost],
        }
        if self._embedding:
            embed = self._embedding.status()
            said |= {
                "lastEmbedAt": _iso(embed["at"]),
                "embedFailures": embed["failures"],
                "lastEmbedError": embed["error"],
                "nextEmbedTry": _iso(embed["nextTry"]),
            }
        return said

    def close(self) -> None:
        """Stop the timer, drop what waits, and kill what runs."""
        self._closing.set()
        self._turns.close()
        if self._thread is not None:
            self._thread.join()
        self._turns.drain(_CLOSE_S)

    @property
    def _state_path(self) -> str:
        return os.path.join(self._state_dir, "update.json")

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
        with self._reading():
            try:
                skipped = self._read_files(reason, force, issues, stop)
                self._failures, self._error = 0, ""
            except ProgramStopped:
                raise
            except BackendUnavailable as error:
                self._failures += 1
                self._error = told(error)
                raise
        embedded = self._embedding.run_if_due(force, issues, stop) if self._embedding else False
        return UpdateReport(reason, skipped, embedded, tuple(issues))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._changed:
            self._updating = True
        try:
            yield
        finally:
            with self._changed:
                self._updating = False
                self._changed.notify_all()

    def _read_files(self, reason: str, force: bool, issues: list[Issue], stop: Stop) -> str:
        """Have qmd read the files; gives why it did not have to."""
        if reason == "interval" and not self.behind():
            self._completed = self._clock()
            return "unchanged"
        with self._alone(stop) as waited:
            if waited and not force and not self.behind():
                self._completed = self._clock()
                return "unchanged"
            issues += self._collections.ensure(stop=stop)
            if self._export:
                issues += self._export.run(stop).issues
            current = self._digest()
            skipped = self._read_with_retries(reason, issues, stop)
            if not skipped:
                self._completed = self._clock()
                self._remember(current, issues)
        if self._after:
            self._after()
        return skipped

    def _read_with_retries(self, reason: str, issues: list[Issue], stop: Stop) -> str:
        pauses = _BOOT_PAUSES_S if reason == "boot" or reason.startswith("boot:") else ()
        for pause_s in pauses:
            try:
                return self._read_once(issues, stop)
            except (ProgramBusy, ProgramTimedOut):
                self._pause(pause_s)
        return self._read_once(issues, stop)

    def _read_once(self, issues: list[Issue], stop: Stop) -> str:
        try:
            return self._qmd_update(issues, stop)
        except (ProgramFailed, ProgramUnreadable) as error:
            if not self._mend(error, issues, stop):
                raise
        return self._qmd_update(issues, stop)

    def _qmd_update(self, issues: list[Issue], stop: Stop) -> str:
        self._lost = self._collections.lost()
        if self._lost:
            return self._update_without(self._lost, issues, stop)
        said = self._program.run(["update"], timeout_s=self._rules.update_timeout_s, quiet=True, stop=stop)
        issues += _skipped_files(said)
        return ""

    def _update_without(self, lost: tuple[Listed, ...], issues: list[Issue], stop: Stop) -> str:
        """Update all but what has gone, by a configuration that does not name it: qmd would forget every file in it."""
        issues += [Issue(entry.path or "", "is not there; what qmd has indexed from it is kept") for entry in lost]
        config = self._collections.config_without({entry.name for entry in lost})
        if config is None or self._without is None:
            return "lost"
        folder = os.path.join(self._state_dir, "partial")
        with _written(os.path.join(folder, "index.yml"), config):
            program = self._without(folder)
            said = program.run(["update"], timeout_s=self._rules.update_timeout_s, quiet=True, stop=stop)
        issues += _skipped_files(said)
        # Any command with the whole configuration lets qmd know again what it was not told of.
        self._program.run(["collection", "list"], timeout_s=self._rules.update_timeout_s, quiet=True, stop=stop)
        return ""

    def _mend(self, error: ProgramFailed | ProgramUnreadable, issues: list[Issue], stop: Stop) -> bool:
        """Build anew what has made qmd fail, each kind once; whether it is worth another try."""
        kind = _kind(error)
        if not kind or kind in self._mended:
            return False
        self._mended.add(kind)
        if kind != "damaged":
            issues += self._collections.rebuild(stop=stop)
            return True
        aside = _moved_aside(self._collections)
        issues.append(Issue(self._collections.database.path, f"was damaged and has been set aside as {aside}"))
        return bool(aside)

    @contextmanager
    def _alone(self, stop: Stop) -> Iterator[bool]:
        """Hold off other processes, which would only wait for qmd's lock; gives whether one had to be waited for."""
        lock = FileLock(os.path.join(self._state_dir, "update.lock"))
        waited = False
        until = time.monotonic() + self._rules.update_timeout_s
        try:
            os.makedirs(self._state_dir, mode=0o700, exist_ok=True)
            while not lock.acquire(_LOOK_S, "updating qmd"):
                waited = True
                if stop():
                    raise ProgramStopped("The update was stopped while it waited for another process.")
                if time.monotonic() >= until:
                    raise ProgramBusy(f"qmd is being updated by {named(lock.holder())}.", hint="Try again later.")
        except OSError as error:
            raise BackendUnavailable(f"No lock at {lock.path}: {error.strerror}.") from error
        try:
            yield waited
        finally:
            lock.release()

    def _digest(self) -> str:
        return digest(self._collections.wanted, self._export.stamps() if self._export else {})

    def _remember(self, current: str, issues: list[Issue]) -> None:
        try:
            save(self._state_path, {"digest": current, "at": self._now()})
        except OSError as error:
            issues.append(Issue(self._state_path, f"cannot be written: {error.strerror}"))


def _kind(error: ProgramFailed | ProgramUnreadable) -> str:
    """Which of the failures that can be mended it is."""
    if isinstance(error, ProgramUnreadable):
        return "damaged" if is_damage(error.__cause__) else ""
    kinds = {"null byte": is_null_byte, "twice": is_twice, "damaged": is_damaged}
    return next((kind for kind, fits in kinds.items() if fits(error)), "")


def _moved_aside(collections: Collections) -> str:
    try:
        return set_aside(collections.database)
    except OSError as error:
        path = collections.database.path
        raise BackendUnavailable(f"The damaged {path} cannot be moved: {error.strerror}.", hint="Remove it.") from error


@contextmanager
def _written(path: str, text: str) -> Iterator[None]:
    try:
        with draft(path) as made:
            made.file.write(text.encode())
            made.publish()
    except OSError as error:
        raise BackendUnavailable(f"Cannot write {path}: {error.strerror}.") from error
    yield


def _skipped_files(said: Ran) -> list[Issue]:
    """The files that qmd says it could not read."""
    lines = [line.removeprefix(_SKIPPED) for line in said.stderr.splitlines() if line.startswith(_SKIPPED)]
    return [Issue(path, f"was skipped by qmd: {why}") for why, _, path in (line.partition(": ") for line in lines)]


def _iso(seconds: Any) -> str | None:
    if not isinstance(seconds, int | float) or not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
