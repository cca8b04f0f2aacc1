"""One update of qmd's index: collections, transcripts, then ``qmd update``, mended and repeated where that helps."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mdrecall.errors import (
    BackendUnavailable,
    ProgramBusy,
    ProgramFailed,
    ProgramStopped,
    ProgramTimedOut,
    ProgramUnreadable,
)
from mdrecall.locks import FileLock, named
from mdrecall.qmd.collections import Collections
from mdrecall.qmd.database import (
    has_null_byte_path,
    is_damage_error,
    is_damage_report,
    is_duplicate_document,
    quarantine,
)
from mdrecall.qmd.listing import ListedCollection
from mdrecall.qmd.process import CommandRunner, Output
from mdrecall.state_files import draft, load, save
from mdrecall.types import Issue, Stop

if TYPE_CHECKING:
    from mdrecall.qmd.export import SessionExport

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress

from mdrecall.qmd.collection_plan import Collection

_BOOT_PAUSES_S = (0.5, 1.0)
_LOOK_S = 0.1
_SKIPPED = "⚠ Skipped "


class IndexUpdate:
    """Has qmd read the files, and remembers on disk which those were. One at a time, in whatever process."""

    def __init__(
        self,
        program: CommandRunner,
        collections: Collections,
        export: "SessionExport | None",
        *,
        state_dir: str,
        timeout_s: float,
        without: Callable[[str], CommandRunner] | None = None,
        now: Callable[[], float] = time.time,
        pause: Callable[[float], Any] = time.sleep,
    ) -> None:
        self._program = program
        self._collections = collections
        self._export = export
        self._state_dir = state_dir
        self._state_path = os.path.join(state_dir, "update.json")
        self._timeout_s = timeout_s
        self._without = without
        self._now = now
        self._pause = pause
        self._mended: set[str] = set()
        self.lost: tuple[ListedCollection, ...] = ()

    def is_behind(self) -> bool:
        """Whether the files have changed since qmd last read them, whichever process had it do so."""
        return not self._collections.database.exists() or load(self._state_path).get("digest") != self._digest()

    def completed_at(self) -> float | None:
        """When qmd last read the files, in seconds since 1970."""
        at = load(self._state_path).get("at")
        return at if isinstance(at, float) else None

    def run(self, issues: list[Issue], *, force: bool, patient: bool, stop: Stop) -> str:
        """Have qmd read the files; gives why it did not have to, or could not: ``unchanged`` or ``lost``.

        ``patient``, if a database that is locked or a time that has run out is worth two more tries.
        """
        with self._alone(stop) as waited:
            if waited and not force and not self.is_behind():
                return "unchanged"
            issues += self._collections.ensure(stop=stop)
            if self._export:
                issues += self._export.run(stop).issues
            current = self._digest()
            skipped = self._read_with_retries(patient, issues, stop)
            if not skipped:
                self._remember(current, issues)
        return skipped

    def _read_with_retries(self, patient: bool, issues: list[Issue], stop: Stop) -> str:
        for pause_s in _BOOT_PAUSES_S if patient else ():
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
        self.lost = self._collections.lost()
        if self.lost:
            return self._update_without(self.lost, issues, stop)
        issues += _skipped_files(self._program.run(["update"], timeout_s=self._timeout_s, quiet=True, stop=stop))
        return ""

    def _update_without(self, lost: tuple[ListedCollection, ...], issues: list[Issue], stop: Stop) -> str:
        """Update all but what has gone, by a configuration that does not name it: qmd would forget every file in it."""
        issues += [Issue(entry.path or "", "is not there; what qmd has indexed from it is kept") for entry in lost]
        config = self._collections.drop_collections({entry.name for entry in lost})
        if config is None or self._without is None:
            return "lost"
        folder = os.path.join(self._state_dir, "partial")
        _write(os.path.join(folder, "index.yml"), config)
        program = self._without(folder)
        try:
            issues += _skipped_files(program.run(["update"], timeout_s=self._timeout_s, quiet=True, stop=stop))
        finally:
            # Any command with the whole configuration lets qmd know again what it was not told of.
            self._program.run(["collection", "list"], timeout_s=self._timeout_s, quiet=True, stop=stop, check=False)
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
        if aside:
            issues.append(Issue(self._collections.database.path, f"was damaged and has been set aside as {aside}"))
        return bool(aside)

    @contextmanager
    def _alone(self, stop: Stop) -> Iterator[bool]:
        """Hold off other processes, which would only wait for qmd's lock; gives whether one had to be waited for."""
        lock = FileLock(os.path.join(self._state_dir, "update.lock"))
        waited = False
        until = time.monotonic() + self._timeout_s
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
        return digest_files(self._collections.planned, self._export.stamps() if self._export else {})

    def _remember(self, current: str, issues: list[Issue]) -> None:
        try:
            save(self._state_path, {"digest": current, "at": self._now()})
        except OSError as error:
            issues.append(Issue(self._state_path, f"cannot be written: {error.strerror}"))


def _kind(error: ProgramFailed | ProgramUnreadable) -> str:
    """Which of the failures that can be mended it is."""
    if isinstance(error, ProgramUnreadable):
        return "damaged" if is_damage_error(error.__cause__) else ""
    kinds = {"null byte": has_null_byte_path, "twice": is_duplicate_document, "damaged": is_damage_report}
    return next((kind for kind, fits in kinds.items() if fits(error)), "")


def _moved_aside(collections: Collections) -> str:
    try:
        return quarantine(collections.database)
    except OSError as error:
        path = collections.database.path
        raise BackendUnavailable(f"The damaged {path} cannot be moved: {error.strerror}.", hint="Remove it.") from error


def _write(path: str, text: str) -> None:
    try:
        with draft(path) as made:
            made.file.write(text.encode())
            made.publish()
    except OSError as error:
        raise BackendUnavailable(f"Cannot write {path}: {error.strerror}.") from error


def _skipped_files(said: Output) -> list[Issue]:
    """The files that qmd says it could not read."""
    lines = [line.removeprefix(_SKIPPED) for line in said.stderr.splitlines() if line.startswith(_SKIPPED)]
    return [Issue(path, f"was skipped by qmd: {why}") for why, _, path in (line.partition(": ") for line in lines)]


# Folders that qmd never looks into; nor does it look at anything whose name begins with a dot.
_LEFT_OUT = frozenset({"node_modules", "vendor", "dist", "build"})


def digest_files(collections: Sequence[Collection], more: Mapping[str, Sequence[int]]) -> str:
    """One value for the names, sizes and times of all files; ``more`` is what else counts.

    It runs before every search, so it does little: a file that the pattern leaves out may count, which at worst has
    qmd look at its files once more than it must.
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
    ending = ".md" if entry.pattern.endswith(".md") and "," not in entry.pattern else ""
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
            elif found.is_dir(follow_symlinks=False) and name not in _LEFT_OUT:
                folders.append(found.path)


def _stamp(path: str, found: os.stat_result) -> str:
    return f"{path}\0{found.st_size} {found.st_mtime_ns}"
