"""One update of qmd's index: collections, transcripts, then ``qmd update``, with repairs and retries."""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mdrecall.errors import (
    BackendUnavailable,
    ProgramBusy,
    ProgramFailed,
    ProgramStopped,
    ProgramTimedOut,
    ProgramUnreadable,
)
from mdrecall.locks import FileLock, describe_holder
from mdrecall.patterns import NOTE_ENDING, is_note_file
from mdrecall.qmd.collection_plan import Collection
from mdrecall.qmd.collections import Collections
from mdrecall.qmd.database import has_broken_paths, is_damaged, quarantine
from mdrecall.qmd.listing import ListedCollection
from mdrecall.qmd.process import CommandRunner, Output
from mdrecall.state_files import draft, load, make_private_folder, save
from mdrecall.types import Issue, Stop

if TYPE_CHECKING:
    from mdrecall.qmd.export import SessionExport

# At start another process may still hold the database, so an update is tried three times with these pauses.
_BOOT_PAUSES_S = (0.5, 1.0)
# How long it takes to end a program that hangs, with plenty to spare.
_ENDING_S = 0.5
# How often a wait for another process checks that it should stop.
_POLL_S = 0.1
_SKIPPED = "⚠ Skipped "
# Folders that qmd never enters, besides those whose name begins with a dot.
_IGNORED_FOLDERS = frozenset({"node_modules", "vendor", "dist", "build"})


def find_boot_limit(timeout_s: float) -> float:
    """Return how many seconds an update at the start takes at most, if each attempt ends after ``timeout_s``."""
    return (len(_BOOT_PAUSES_S) + 1) * (timeout_s + _ENDING_S) + sum(_BOOT_PAUSES_S)


class IndexUpdate:
    """Lets qmd read the files and records on disk which files those were. One process at a time."""

    def __init__(
        self,
        program: CommandRunner,
        collections: Collections,
        export: "SessionExport | None",
        *,
        state_dir: str,
        timeout_s: float,
        with_config: Callable[[str], CommandRunner] | None = None,
        now: Callable[[], float] = time.time,
        pause: Callable[[float], Any] = time.sleep,
    ) -> None:
        """``with_config`` returns the program with its configuration in another folder."""
        self._program = program
        self._collections = collections
        self._export = export
        self._state_dir = state_dir
        self._state_path = os.path.join(state_dir, "update.json")
        self._timeout_s = timeout_s
        self._with_config = with_config
        self._now = now
        self._pause = pause
        self._is_repaired = False
        self.missing: tuple[ListedCollection, ...] = ()
        """The collections whose folder was missing at the last update."""

    def is_behind(self) -> bool:
        """True if files have changed since qmd last read them, whichever process made it do so."""
        return not self._collections.database.exists() or load(self._state_path).get("digest") != self._digest()

    def completed_at(self) -> float | None:
        """Return when qmd last read the files, in seconds since 1970."""
        at = load(self._state_path).get("at")
        return at if isinstance(at, float) else None

    def run(self, issues: list[Issue], *, force: bool, patient: bool, stop: Stop) -> str:
        """Let qmd read the files. Return why it did not: ``unchanged``, ``lost``, or empty if it did.

        With ``patient`` a locked database and a timeout are retried twice.
        """
        with self._lock_out_others(stop) as has_waited:
            if has_waited and not force and not self.is_behind():
                return "unchanged"
            issues += self._collections.ensure(stop=stop)
            if self._export:
                issues += self._export.run(stop).issues
            current = self._digest()
            skipped = self._update_with_retries(patient, issues, stop)
            if not skipped:
                self._record(current, issues)
        return skipped

    def _update_with_retries(self, patient: bool, issues: list[Issue], stop: Stop) -> str:
        for pause_s in _BOOT_PAUSES_S if patient else ():
            try:
                return self._update_or_repair(issues, stop)
            except (ProgramBusy, ProgramTimedOut):
                self._pause(pause_s)
        return self._update_or_repair(issues, stop)

    def _update_or_repair(self, issues: list[Issue], stop: Stop) -> str:
        try:
            return self._update(issues, stop)
        except (ProgramFailed, ProgramUnreadable) as error:
            if not self._repair(error, issues, stop):
                raise
        return self._update(issues, stop)

    def _update(self, issues: list[Issue], stop: Stop) -> str:
        self.missing = self._collections.missing_folders()
        if self.missing:
            return self._update_without(self.missing, issues, stop)
        issues += _find_skipped_files(self._program.run(["update"], timeout_s=self._timeout_s, quiet=True, stop=stop))
        return ""

    def _update_without(self, missing: tuple[ListedCollection, ...], issues: list[Issue], stop: Stop) -> str:
        """Update with a configuration that leaves out missing folders: qmd would drop every file in them."""
        issues += [Issue(entry.path or "", "is missing; what qmd has indexed from it is kept") for entry in missing]
        config = self._collections.config_without({entry.name for entry in missing})
        if config is None or self._with_config is None:
            return "lost"
        folder = os.path.join(self._state_dir, "partial")
        _write(os.path.join(folder, "index.yml"), config)
        program = self._with_config(folder)
        try:
            issues += _find_skipped_files(program.run(["update"], timeout_s=self._timeout_s, quiet=True, stop=stop))
        finally:
            # Any command with the full configuration makes qmd aware of all collections again.
            self._program.run(["collection", "list"], timeout_s=self._timeout_s, quiet=True, stop=stop, check=False)
        return ""

    def _repair(self, error: ProgramFailed | ProgramUnreadable, issues: list[Issue], stop: Stop) -> bool:
        """Rebuild what made qmd fail, once. True if the update should be tried again."""
        if self._is_repaired or not (has_broken_paths(error) or is_damaged(error)):
            return False
        self._is_repaired = True
        if has_broken_paths(error):
            issues += self._collections.rebuild(stop=stop)
            return True
        if moved_to := quarantine(self._collections.database):
            issues.append(Issue(self._collections.database.path, f"was damaged and has been moved to {moved_to}"))
        return bool(moved_to)

    @contextmanager
    def _lock_out_others(self, stop: Stop) -> Iterator[bool]:
        """Keep other processes from updating at the same time. Yield True if one of them had to be waited for."""
        lock = FileLock(os.path.join(self._state_dir, "update.lock"))
        has_waited = False
        until = time.monotonic() + self._timeout_s
        try:
            make_private_folder(self._state_dir)
            while not lock.acquire(_POLL_S, "updating qmd"):
                has_waited = True
                if stop():
                    raise ProgramStopped("The update was stopped while it waited for another process.")
                if time.monotonic() >= until:
                    raise ProgramBusy(
                        f"qmd is being updated by {describe_holder(lock.holder())}.", hint="Try again later."
                    )
        except OSError as error:
            raise BackendUnavailable(f"Cannot lock {lock.path}: {error.strerror}.") from error
        try:
            yield has_waited
        finally:
            lock.release()

    def _digest(self) -> str:
        return digest_files(self._collections.planned, self._export.stamps() if self._export else {})

    def _record(self, current: str, issues: list[Issue]) -> None:
        try:
            save(self._state_path, {"digest": current, "at": self._now()})
        except OSError as error:
            issues.append(Issue(self._state_path, f"cannot be written: {error.strerror}"))


def digest_files(collections: Sequence[Collection], more: Mapping[str, Sequence[int]]) -> str:
    """Return one value for the names, sizes and times of all files, and for the stamps in ``more``.

    It is computed before every search, so it does little. A file that the pattern excludes may count, which at worst
    causes one update too many.
    """
    seen = hashlib.blake2b(digest_size=16)
    for entry in collections:
        seen.update("\0".join((entry.name, entry.root, entry.pattern)).encode("utf-8", "surrogatepass"))
        if entry.kind != "sessions":
            lines = sorted(_stamps(entry))
            seen.update("\n".join(lines).encode("utf-8", "surrogateescape"))
        seen.update(b"\1")
    for name, stamp in sorted(more.items()):
        seen.update(f"{name}\0{tuple(stamp)}".encode("utf-8", "surrogateescape"))
    return seen.hexdigest()


def _stamps(entry: Collection) -> Iterator[str]:
    if entry.file:
        path = os.path.join(entry.root, entry.file)
        try:
            yield _stamp(path, os.lstat(path))
        except OSError:
            yield f"{path} is not there"
        return
    ending = NOTE_ENDING if is_note_file(entry.pattern) and "," not in entry.pattern else ""
    folders = [entry.root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            yield f"{folder} cannot be listed"
            continue
        for found in entries:
            name = found.name
            if name.startswith("."):
                continue
            if name.endswith(ending) and found.is_file(follow_symlinks=False):
                with suppress(OSError):
                    yield _stamp(found.path, found.stat(follow_symlinks=False))
            elif found.is_dir(follow_symlinks=False) and name not in _IGNORED_FOLDERS:
                folders.append(found.path)


def _stamp(path: str, found: os.stat_result) -> str:
    return f"{path}\0{found.st_size} {found.st_mtime_ns}"


def _write(path: str, text: str) -> None:
    try:
        with draft(path) as made:
            made.file.write(text.encode())
            made.publish()
    except OSError as error:
        raise BackendUnavailable(f"Cannot write {path}: {error.strerror}.") from error


def _find_skipped_files(output: Output) -> list[Issue]:
    """Return the files that qmd reports as unreadable."""
    lines = [line.removeprefix(_SKIPPED) for line in output.stderr.splitlines() if line.startswith(_SKIPPED)]
    return [Issue(path, f"was skipped by qmd: {why}") for why, _, path in (line.partition(": ") for line in lines)]
