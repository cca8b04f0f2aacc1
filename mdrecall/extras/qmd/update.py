"""Keeps qmd's index up to date: when it is updated and embedded, one update with repairs and retries, one embedding.

An update runs at start, at intervals, before a search and on request. Embedding is rare: one process at a time, with
growing pauses while it fails.
"""

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mdrecall import errors
from mdrecall.config.settings import QmdUpdate
from mdrecall.engine.background import SingleFlight, run_in_background
from mdrecall.engine.fallback import format_time
from mdrecall.engine.refresh import RefreshResult
from mdrecall.extras.qmd.collections import Collection, Collections
from mdrecall.extras.qmd.database import is_damaged, quarantine
from mdrecall.extras.qmd.process import Program
from mdrecall.locks import FileLock, describe_holder
from mdrecall.patterns import NOTE_ENDING, is_note_file
from mdrecall.state_files import load, make_private_folder, save
from mdrecall.types.documents import Issue
from mdrecall.types.sync import Progress, ProgressCallback, Stop, never

if TYPE_CHECKING:
    from mdrecall.extras.qmd.export import SessionExport

# How long closing waits for an update in progress: its processes are killed at once.
_CLOSING_S = 10.0
# At start another process may still hold the database, so an update is tried three times with these pauses.
_BOOT_PAUSES_S = (0.5, 1.0)
# How long it takes to end a program that hangs, with plenty to spare.
_ENDING_S = 0.5
_SKIPPED = "⚠ Skipped "
# Folders that qmd never enters, besides those whose name begins with a dot.
_IGNORED_FOLDERS = frozenset({"node_modules", "vendor", "dist", "build"})
_EMBED_BUSY = "Another embed process is already running"
# After a failed embedding; doubled with each further one. A missing model does not come back within seconds, and every
# try loads one.
_FIRST_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3600.0
_Clock: TypeAlias = Callable[[], float]


def find_boot_limit(timeout_s: float) -> float:
    """Return how many seconds an update at the start takes at most, if each attempt ends after ``timeout_s``."""
    return (len(_BOOT_PAUSES_S) + 1) * (timeout_s + _ENDING_S) + sum(_BOOT_PAUSES_S)


class IndexUpdate:
    """Lets qmd read the files and records on disk which files those were. One process at a time."""

    def __init__(
        self,
        program: Program,
        collections: Collections,
        export: "SessionExport | None",
        *,
        state_dir: str,
        timeout_s: float,
        now: _Clock = time.time,
        pause: Callable[[float], Any] = time.sleep,
    ) -> None:
        self._program = program
        self._collections = collections
        self._export = export
        self._state_dir = state_dir
        self._state_path = os.path.join(state_dir, "update.json")
        self._timeout_s = timeout_s
        self._now = now
        self._pause = pause
        self._is_repaired = False

    def is_behind(self) -> bool:
        """True if files have changed since qmd last read them, whichever process made it do so."""
        return not self._collections.database.exists() or load(self._state_path).get("digest") != self._digest()

    def completed_at(self) -> float | None:
        """Return when qmd last read the files, in seconds since 1970."""
        at = load(self._state_path).get("at")
        return at if isinstance(at, float) else None

    def run(self, issues: list[Issue], *, force: bool, patient: bool, stop: Stop) -> str:
        """Let qmd read the files. Return why it did not: ``unchanged``, or empty if it did.

        With ``patient`` a locked database and a timeout are retried twice.
        """
        with self._lock_out_others(stop) as has_waited:
            if has_waited and not force and not self.is_behind():
                return "unchanged"
            issues += self._collections.ensure(stop=stop)
            if self._export:
                issues += self._export.run(stop)
            current = self._digest()
            self._update_with_retries(patient, issues, stop)
            try:
                save(self._state_path, {"digest": current, "at": self._now()})
            except OSError as error:
                issues.append(Issue(self._state_path, f"cannot be written: {error.strerror}"))
        return ""

    def _update_with_retries(self, patient: bool, issues: list[Issue], stop: Stop) -> None:
        for pause_s in _BOOT_PAUSES_S if patient else ():
            try:
                return self._update_or_repair(issues, stop)
            except (errors.ProgramBusy, errors.ProgramTimedOut):
                self._pause(pause_s)
        return self._update_or_repair(issues, stop)

    def _update_or_repair(self, issues: list[Issue], stop: Stop) -> None:
        try:
            self._update(issues, stop)
        except (errors.ProgramFailed, errors.ProgramUnreadable) as error:
            if self._is_repaired or not is_damaged(error):
                raise
            # Once: a qmd that damages its index again would do so for ever.
            self._is_repaired = True
            if not quarantine(self._collections.database, issues):
                raise
            self._update(issues, stop)

    def _update(self, issues: list[Issue], stop: Stop) -> None:
        output = self._program.run(["update"], timeout_s=self._timeout_s, quiet=True, stop=stop)
        lines = [line.removeprefix(_SKIPPED) for line in output.stderr.splitlines() if line.startswith(_SKIPPED)]
        for why, _, path in (line.partition(": ") for line in lines):
            issues.append(Issue(path, f"was skipped by qmd: {why}"))

    @contextmanager
    def _lock_out_others(self, stop: Stop) -> Iterator[bool]:
        """Keep other processes from updating at the same time. Yield True if one of them had to be waited for."""
        lock = FileLock(os.path.join(self._state_dir, "update.lock"))
        try:
            make_private_folder(self._state_dir)
            has_waited = not lock.acquire(0, "updating qmd")
            if has_waited and not lock.acquire(self._timeout_s, "updating qmd", stop):
                if stop():
                    raise errors.ProgramStopped("The update was stopped while it waited for another process.")
                message = f"qmd is being updated by {describe_holder(lock.holder())}."
                raise errors.ProgramBusy(message, hint="Try again later.")
        except OSError as error:
            raise errors.BackendUnavailable(f"Cannot lock {lock.path}: {error.strerror}.") from error
        try:
            yield has_waited
        finally:
            lock.release()

    def _digest(self) -> str:
        """Return one value for the names, sizes and times of all files and transcripts.

        It is computed before every search, so it does little. A file that the pattern excludes may count, which at
        worst causes one update too many.
        """
        seen = hashlib.blake2b(digest_size=16)
        for entry in self._collections.planned:
            seen.update("\0".join((entry.name, entry.root, entry.pattern)).encode("utf-8", "surrogatepass"))
            if entry.kind != "sessions":
                seen.update("\n".join(sorted(_stamps(entry))).encode("utf-8", "surrogateescape"))
            seen.update(b"\1")
        for name, stamp in sorted(self._export.stamps().items() if self._export else ()):
            seen.update(f"{name}\0{tuple(stamp)}".encode("utf-8", "surrogateescape"))
        return seen.hexdigest()


def _stamps(entry: Collection) -> Iterator[str]:
    if entry.file:
        yield _stamp(os.path.join(entry.root, entry.file)) or f"{entry.file} is not there"
        return
    ending = NOTE_ENDING if is_note_file(entry.pattern) and "," not in entry.pattern else ""
    for folder, folders, names in os.walk(entry.root):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _IGNORED_FOLDERS]
        paths = (os.path.join(folder, name) for name in names if name.endswith(ending) and not name.startswith("."))
        yield from filter(None, map(_stamp, paths))


def _stamp(path: str) -> str:
    """Return the path, size and time of a file; empty for anything else, such as a link, which qmd does not follow."""
    try:
        found = os.lstat(path)
    except OSError:
        return ""
    return f"{path}\0{found.st_size} {found.st_mtime_ns}" if stat.S_ISREG(found.st_mode) else ""


class Embedding:
    """The runs of ``qmd embed``. Their outcome is stored, so that a new process does not repeat a recent failure."""

    def __init__(
        self, program: Program, rules: QmdUpdate, *, state_path: str, lock_path: str, now: _Clock = time.time
    ) -> None:
        self._program = program
        self._state_path = state_path
        self._lock_path = lock_path
        self._interval_s = rules.embed_interval / 1000
        self._timeout_s = rules.embed_timeout_ms / 1000
        self._now = now

    def run_if_due(self, force: bool, issues: list[Issue], stop: Stop) -> bool:
        """Embed if it is due. True if it was done. A failure becomes an issue, and is tried again later."""
        if not self.is_due(force=force):
            return False
        lock = FileLock(self._lock_path)
        try:
            make_private_folder(os.path.dirname(self._lock_path))
            # Each process on this machine has a model in memory.
            if not lock.acquire(self._timeout_s, "embedding with qmd", stop):
                return False
            output = self._program.run(["embed"], timeout_s=self._timeout_s, quiet=True, stop=stop)
        except errors.ProgramStopped:
            return False
        except (errors.BackendUnavailable, OSError) as error:
            self._record_failure(error, issues)
            return False
        finally:
            lock.release()
        if _EMBED_BUSY in output.stdout:
            return False
        self._save(self._now())
        return True

    def state(self) -> tuple[float, int, float, str]:
        """Return when embedding last finished, its failures since, when it is tried again, and the last error."""
        saved = load(self._state_path)
        try:
            return float(saved["at"]), int(saved["failures"]), float(saved["nextTry"]), str(saved["error"])
        except (KeyError, TypeError, ValueError):
            return 0.0, 0, 0.0, ""

    def is_due(self, *, force: bool = False) -> bool:
        """True if it is time to embed; with ``force`` it is, except during the pause after a failure."""
        now = self._now()
        at, failures, next_try, _ = self.state()
        # After the clock was set back, the pause must still not exceed the longest one.
        if now < next_try <= now + _LONGEST_PAUSE_S:
            return False
        if force or not at or failures:
            return True
        return self._interval_s > 0 and not at <= now < at + self._interval_s

    def _record_failure(self, error: errors.BackendUnavailable | OSError, issues: list[Issue]) -> None:
        at, failures, *_ = self.state()
        # A first embedding takes longer than one run may: what was embedded stays, and the next run soon goes on.
        failures = 1 if isinstance(error, errors.ProgramTimedOut) else failures + 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10))
        why = errors.message_with_hint(error) if isinstance(error, errors.BackendUnavailable) else str(error.strerror)
        self._save(at, failures, self._now() + pause_s, why)
        issues.append(Issue("qmd embed", f"failed, so vector search does not find the newest notes: {why}"))

    def _save(self, at: float, failures: int = 0, next_try: float = 0.0, error: str = "") -> None:
        # On a full disk only the time of the next try is lost.
        with suppress(OSError):
            save(self._state_path, {"at": at, "failures": failures, "nextTry": next_try, "error": error})


class UpdateReport(NamedTuple):
    """The outcome of an update."""

    skipped: str = ""
    """Why there was no update: ``closed``, ``debounced`` or ``unchanged``; empty if there was one."""
    embedded: bool = False
    issues: tuple[Issue, ...] = ()
    """What was left out or failed without ending the update."""


class Updater:
    """Updates the index of one qmd. Safe to use from several threads."""

    def __init__(
        self,
        collections: Collections,
        update: IndexUpdate,
        embedding: Embedding | None,
        rules: QmdUpdate,
        *,
        debounces_keywords: bool = False,
        clock: _Clock = time.monotonic,
    ) -> None:
        """``debounces_keywords`` puts off the update before a keyword search too, which is quick."""
        self._collections = collections
        self._update = update
        self.is_behind = update.is_behind
        self._embedding = embedding
        self._rules = rules
        self._debounces_keywords = debounces_keywords
        self._clock = clock
        self._closing = threading.Event()
        self._flight = SingleFlight(self._run_shared, stopped=errors.ProgramStopped)
        self._lock = threading.Lock()
        self._search_update: Future[UpdateReport] | None = None
        self._timer: threading.Thread | None = None
        self.is_updating = False
        """True while qmd reads the files; embedding does not count."""
        self._completed: float | None = None
        self._failures = 0
        self._error = ""
        self.search_error: errors.BackendUnavailable | None = None
        """Why the last update before a search failed."""

    def start(self, *, one_shot: bool = False) -> tuple[Issue, ...]:
        """Add the collections and start the timer; a process that answers once needs no timer."""
        try:
            return self._collections.ensure(stop=self._closing.is_set)
        finally:
            # A qmd that fails now is updated when it works again.
            if not one_shot and self._timer is None:
                self._start_timer()

    def _start_timer(self) -> None:
        if self._rules.waits_at_start:
            self._run_unattended("boot")
        needs_boot = self._rules.on_boot and not self._rules.wait_for_boot_sync
        if needs_boot or self._rules.interval > 0:
            timer = threading.Thread(target=self._run_timer, args=(needs_boot,), name="qmd-update", daemon=True)
            # Another thread may close the updater meanwhile, and cannot wait for a timer that is not running yet.
            timer.start()
            self._timer = timer

    def run(
        self, reason: str, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never
    ) -> UpdateReport:
        """Update, or share the update in progress. With ``force`` only one that begins after this call will do.

        Raise ``BackendUnavailable`` in every caller that shares a failed update.
        """
        if progress:
            progress(Progress(0, 1, "qmd update"))
        if not force and self._flight.is_idle and self._is_recent() and not self._closing.is_set():
            report = UpdateReport("debounced")
        else:
            report = self._run_or_share(reason, force, stop)
        if progress:
            progress(Progress(1, 1, "qmd update"))
        return report

    def catch_up(self, within_s: float, progress: ProgressCallback | None, *, reason: str = "search") -> RefreshResult:
        """Update after changes, waiting at most ``within_s``. An update that takes longer goes on in the background."""
        if not self.is_behind():
            return RefreshResult()
        future = self._start_search_update(reason, progress)
        if not wait([future], max(0.0, within_s)).done:
            return RefreshResult((), "changed files are being indexed by qmd")
        self.search_error = None
        try:
            report = future.result()
        except errors.ProgramStopped:
            return RefreshResult()
        except errors.BackendUnavailable as error:
            self.search_error = error
            if isinstance(error, errors.ProgramMissing):
                raise
            issue = Issue("qmd", f"could not update its index: {errors.message_with_hint(error)}")
            return RefreshResult((issue,), "changed files could not be indexed by qmd")
        if report.skipped == "debounced":
            return RefreshResult((), "files changed a moment ago; qmd indexes them with the next update")
        return RefreshResult(report.issues)

    def is_current(self) -> bool:
        """True if the last update is recent, no file has changed since, and nothing is left to embed."""
        if not self._flight.is_idle or not self._is_recent():
            return False
        return not self.is_behind() and not (self._embedding and self._embedding.is_due())

    def status(self) -> dict[str, Any]:
        """Return when the last update was, and what failed."""
        found: dict[str, Any] = {
            "updating": self.is_updating,
            "lastUpdateAt": _format_time(self._update.completed_at()),
            "updateFailures": self._failures,
            "lastUpdateError": self._error,
        }
        if self._embedding:
            at, failures, next_try, error = self._embedding.state()
            found |= {"lastEmbedAt": _format_time(at), "embedFailures": failures, "lastEmbedError": error}
            found["nextEmbedTry"] = _format_time(next_try)
        return found

    def close(self) -> None:
        """Stop the timer, drop queued updates and end the one in progress; may be called twice."""
        self._closing.set()
        self._flight.close()
        if self._timer is not None:
            self._timer.join()
        self._flight.close(_CLOSING_S)
        if self._search_update is not None:
            wait([self._search_update], _CLOSING_S)

    def _start_search_update(self, reason: str, progress: ProgressCallback | None) -> "Future[UpdateReport]":
        force = self._embedding is None and not self._debounces_keywords
        with self._lock:
            if self._search_update is None or self._search_update.done():
                self._search_update = run_in_background(
                    lambda: self.run(reason, force=force, progress=progress), name="mdrecall-qmd-update"
                )
            return self._search_update

    def _is_recent(self) -> bool:
        return self._completed is not None and self._clock() - self._completed < self._rules.debounce_ms / 1000

    def _run_or_share(self, reason: str, force: bool, stop: Stop) -> UpdateReport:
        def is_stopped() -> bool:
            return stop() or self._closing.is_set()

        try:
            # Only a wait with a limit has no result.
            return self._flight.run((reason, force, is_stopped), fresh=force, stop=is_stopped) or UpdateReport()
        except errors.ProgramStopped:
            if self._closing.is_set():
                return UpdateReport("closed")
            raise

    def _run_timer(self, needs_boot: bool) -> None:
        if needs_boot:
            self._run_unattended("boot")
        while self._rules.interval > 0 and not self._closing.wait(self._rules.interval / 1000):
            self._run_unattended("interval")

    def _run_unattended(self, reason: str) -> None:
        """Update without a caller that waits for it. The status shows what failed."""
        with suppress(errors.BackendUnavailable):
            self.run(reason, force=reason == "boot")

    def _run_shared(self, requests: Sequence[tuple[str, bool, Stop]], is_queued: bool) -> UpdateReport:
        reason, force, stop = requests[0]
        force = force or is_queued
        issues: list[Issue] = []
        self.is_updating = True
        try:
            if reason == "interval" and not is_queued and not self.is_behind():
                # An update would make qmd discard the cached answers of its models for nothing.
                skipped = "unchanged"
            else:
                skipped = self._update.run(issues, force=force, patient=reason == "boot", stop=stop)
            self._completed, self._failures, self._error = self._clock(), 0, ""
        except errors.BackendUnavailable as error:
            if not isinstance(error, errors.ProgramStopped):
                self._failures, self._error = self._failures + 1, errors.message_with_hint(error)
            raise
        finally:
            self.is_updating = False
        embedded = self._embedding.run_if_due(force, issues, stop) if self._embedding else False
        return UpdateReport(skipped, embedded, tuple(dict.fromkeys(issues)))


def _format_time(seconds: float | None) -> str | None:
    return format_time(seconds) if seconds else None
