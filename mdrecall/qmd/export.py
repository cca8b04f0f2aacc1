"""Export transcripts as Markdown files that qmd can index: one message per line, without secrets.

The export remembers how far it has read each transcript, and which record each exported line comes from. A transcript
that has not changed is not opened, one that has grown is read from where it ended before, and a hit in an exported file
is cited as a place in its transcript.
"""

import filecmp
import os
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import IO, NamedTuple

from mdrecall.config.load import Loaded
from mdrecall.core.redact import Redactor
from mdrecall.errors import RecallError, message_with_hint
from mdrecall.interfaces import OpenTranscript, TranscriptReader
from mdrecall.patterns import NOTE_ENDING, drop_ending
from mdrecall.qmd.collections import export_dir
from mdrecall.qmd.process import state_dir_of
from mdrecall.sources.tombstones import Masks, open_masks
from mdrecall.sources.transcripts.readers import open_transcripts
from mdrecall.state_files import draft, load, make_private_folder, save
from mdrecall.types import Issue, Listing, Stop, never

#: The heading of an exported file and the blank line after it.
_HEAD_LINES = 2
#: How much of an exported file is copied at once, so that a long one is never held in memory as a whole.
_BLOCK_BYTES = 1 << 20
_DAY_S = 86_400


class ExportReport(NamedTuple):
    """What an export did."""

    written: int = 0
    removed: int = 0
    unchanged: int = 0
    issues: tuple[Issue, ...] = ()


class _ExportState(NamedTuple):
    """What is remembered about one transcript and its exported file."""

    stamp: tuple[int, ...]
    file: tuple[int, int]
    """The size and the time of the file when it was written."""
    until: int = 0
    """The offset up to which every complete record of the transcript is in the file."""
    records: int = 0
    kept_bytes: int = 0
    """How much of the file these records take up; what follows is from a record that was not complete."""
    kept_lines: int = 0
    seal: str = ""
    """A digest that changes if the transcript before ``until`` is no longer the same."""


class SessionExport:
    """Exports the transcripts of one agent to one folder. Only files that it wrote itself are ever removed."""

    def __init__(
        self,
        reader: TranscriptReader,
        redactor: Redactor | Masks,
        *,
        folder: str,
        state_dir: str,
        retention_days: int = 0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self._reader = reader
        self._redactor = redactor
        self._state_dir = state_dir
        self._retention_days = retention_days
        self._now = now

    def run(self, stop: Stop = never) -> ExportReport:
        """Write what has changed, and remove the files of transcripts that are gone or too old."""
        listing = self._reader.scan()
        issues = list(listing.issues)
        try:
            make_private_folder(self.folder)
        except OSError as error:
            return ExportReport(issues=(*issues, Issue(self.folder, f"cannot be created: {error.strerror}")))
        known = self._load()
        before = dict(known)
        try:
            return self._export_changed(listing, known, issues, stop)
        finally:
            if known != before:
                self._save(known)

    def stamps(self) -> dict[str, tuple[int, ...]]:
        """Return the present stamp of every transcript."""
        return dict(self._reader.scan().stamps)

    def find_origin(self, path: str, start_line: int, end_line: int) -> tuple[str, int, int] | None:
        """Return the transcript, first and last record that lines of an exported file are from; None for others."""
        transcript = self.path_of_transcript(path)
        numbers = self._load_numbers(drop_ending(path)) if transcript else ()
        if not transcript or not numbers:
            return None
        first, last = (min(max(line - 1 - _HEAD_LINES, 0), len(numbers) - 1) for line in (start_line, end_line))
        return transcript, numbers[first], numbers[last]

    def path_of_transcript(self, path: str) -> str | None:
        """Return the path of the transcript that an exported file was made from; None for any other file."""
        name = drop_ending(path)
        return None if "/" in name or name == path else self._reader.path_of_export(name)

    def _export_changed(
        self, listing: Listing, known: dict[str, _ExportState], issues: list[Issue], stop: Stop
    ) -> ExportReport:
        since_ns = (self._now() - self._retention_days * _DAY_S) * 1e9 if self._retention_days else 0
        current = {path: stamp for path, stamp in listing.stamps.items() if stamp[1] >= since_ns}
        written = unchanged = removed = 0
        for path, stamp in sorted(current.items()):
            if stop():
                return ExportReport(written, 0, unchanged, tuple(issues))
            entry = known.get(path)
            if entry and entry.stamp == stamp and entry.file == _file_stamp(self._target(path)):
                unchanged += 1
            elif self._export(path, entry, known, issues):
                written += 1
        if not listing.lost:
            removed = self._remove_stale(known, set(current), issues)
        return ExportReport(written, removed, unchanged, tuple(issues))

    def _export(
        self, path: str, entry: _ExportState | None, known: dict[str, _ExportState], issues: list[Issue]
    ) -> bool:
        """Bring one file up to date. Return True if it was written; what cannot be read or written is an issue."""
        target = self._target(path)
        try:
            if entry is None and not _may_replace(target, _heading(self._reader.export_name(path))):
                issues.append(Issue(target, f"is not from {path}, so that transcript is not exported"))
                return False
            with self._reader.open(path) as opened:
                try:
                    known[path], wrote = self._write(path, opened, entry)
                except OSError as error:
                    # The exported file is at fault, not the transcript, which the source would blame.
                    issues.append(Issue(target, f"cannot be written: {error.strerror}"))
                    return False
            return wrote
        except RecallError as error:
            issues.append(Issue(path, f"is not exported: {message_with_hint(error)}"))
        except OSError as error:
            issues.append(Issue(path, f"is not exported: {error.strerror}"))
        return False

    def _write(self, path: str, opened: OpenTranscript, entry: _ExportState | None) -> tuple[_ExportState, bool]:
        target, name = self._target(path), self._reader.export_name(path)
        numbers = self._load_numbers(name)
        can_continue = (
            entry is not None and entry.kept_lines <= len(numbers) and self._can_continue(entry, target, opened)
        )
        state = entry if entry and can_continue else _ExportState((), (0, 0))
        numbers = numbers[: state.kept_lines]
        with draft(target) as made:
            if can_continue:
                _copy(target, made.file, state.kept_bytes)
            else:
                made.file.write(_heading(name))
                state = state._replace(kept_bytes=made.file.tell())
            state = self._append(opened, made.file, numbers, state)
            if not numbers:
                made.file.write(b"(empty)\n")
            made.file.flush()
            same = os.path.isfile(target) and filecmp.cmp(made.temporary_path, target, shallow=False)
            with draft(self._numbers_path(name)) as beside:
                beside.file.write(numbers.tobytes())
                beside.publish()
            if not same:
                made.publish()
        seal = opened.seal(state.until, thorough=True).hex()
        return state._replace(stamp=tuple(opened.stamp), file=_file_stamp(target) or (0, 0), seal=seal), not same

    def _append(
        self, opened: OpenTranscript, output: IO[bytes], numbers: "array[int]", state: _ExportState
    ) -> _ExportState:
        for record in opened.records(state.until, state.records + 1):
            if record.is_message:
                output.write(f"{record.redact_text(self._redactor.redact).line}\n".encode())
                numbers.append(record.number)
            if record.end is not None:
                state = state._replace(
                    until=record.end, records=record.number, kept_bytes=output.tell(), kept_lines=len(numbers)
                )
        return state

    def _can_continue(self, entry: _ExportState, target: str, opened: OpenTranscript) -> bool:
        """True if a transcript has only grown and nobody has changed its exported file."""
        grown = opened.bytes_after(entry.until) >= 0 and entry.stamp[3:] == tuple(opened.stamp[3:])
        is_ours = grown and entry.file == _file_stamp(target)
        return is_ours and entry.seal == opened.seal(entry.until, thorough=True).hex()

    def _remove_stale(self, known: dict[str, _ExportState], current: set[str], issues: list[Issue]) -> int:
        removed = 0
        for path in [path for path in known if path not in current]:
            try:
                with suppress(FileNotFoundError):
                    os.unlink(self._target(path))
                    removed += 1
                with suppress(FileNotFoundError):
                    os.unlink(self._numbers_path(self._reader.export_name(path)))
                del known[path]
            except OSError as error:
                issues.append(Issue(self._target(path), f"cannot be removed: {error.strerror}"))
        return removed

    def _load_numbers(self, name: str) -> "array[int]":
        numbers = array("Q")
        with suppress(OSError, ValueError), open(self._numbers_path(name), "rb") as file:
            numbers.frombytes(file.read())
        return numbers

    def _load(self) -> dict[str, _ExportState]:
        saved = load(self._state_path())
        if saved.get("masks") != self._redactor.fingerprint or saved.get("folder") != self.folder:
            # Masked differently, or for another folder: every file is written again, and is known to be ours.
            files = saved.get("files", {}) if saved.get("folder") == self.folder else ()
            return {path: _ExportState((), (0, 0)) for path in files if self._reader.owns(path)}
        files = {}
        for path, values in saved.get("files", {}).items():
            with suppress(TypeError, ValueError):
                if not self._reader.owns(path):
                    continue
                stamp, file, *rest = values
                files[path] = _ExportState(tuple(stamp), (file[0], file[1]), *rest)
        return files

    def _save(self, known: dict[str, _ExportState]) -> None:
        # If the disk is full, the next export only does more work than it needs to.
        with suppress(OSError):
            save(self._state_path(), {"masks": self._redactor.fingerprint, "folder": self.folder, "files": known})

    def _target(self, path: str) -> str:
        return os.path.join(self.folder, self._reader.export_name(path) + NOTE_ENDING)

    def _numbers_path(self, name: str) -> str:
        return os.path.join(self._state_dir, "export", f"{name}.lines")

    def _state_path(self) -> str:
        return os.path.join(self._state_dir, "export.json")


def open_export(loaded: Loaded) -> SessionExport | None:
    """Return what exports the transcripts, if they are to be exported."""
    settings = loaded.settings
    if not settings.memory.qmd.sessions.enabled:
        return None
    return SessionExport(
        open_transcripts(settings),
        open_masks(settings),
        folder=export_dir(settings, loaded.home),
        state_dir=state_dir_of(settings),
        retention_days=settings.memory.qmd.sessions.retention_days,
    )


def _heading(name: str) -> bytes:
    return f"# Session {name}\n\n".encode()


def _may_replace(target: str, heading: bytes) -> bool:
    """True if there is no file at a path, or one that another program exported from the same session."""
    try:
        with open(target, "rb") as file:
            return file.read(len(heading)) == heading
    except FileNotFoundError:
        return True


def _file_stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _copy(source: str, output: IO[bytes], size: int) -> None:
    with open(source, "rb") as file:
        while size > 0 and (block := file.read(min(size, _BLOCK_BYTES))):
            output.write(block)
            size -= len(block)
