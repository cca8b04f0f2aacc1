"""Export transcripts as Markdown files that qmd can index: one message per line, without secrets.

The export remembers which record each line comes from, so that a hit in an exported file is cited as a place in its
transcript. A transcript that has not changed is not opened.
"""

import filecmp
import os
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from mdrecall.config.load import Loaded
from mdrecall.errors import RecallError, message_with_hint
from mdrecall.extras.qmd.collections import export_dir
from mdrecall.extras.qmd.process import state_dir_of
from mdrecall.interfaces import OpenTranscript, TranscriptReader
from mdrecall.notes.tombstones import Masks, open_masks
from mdrecall.patterns import NOTE_ENDING, drop_ending
from mdrecall.sessions.host_conversations import export_name
from mdrecall.sessions.readers import open_transcripts
from mdrecall.state_files import draft, load, make_private_folder, save
from mdrecall.types.documents import Issue, Listing
from mdrecall.types.sync import Stop, never

#: The heading of an exported file and the blank line after it.
_HEAD_LINES = 2
_DAY_S = 86_400
#: By the path of a transcript: its stamp, and the size and time of its exported file when that was written.
_Known: TypeAlias = dict[str, tuple[tuple[int, ...], tuple[int, int]]]


class SessionExport:
    """Exports the transcripts of one agent to one folder. Only files that it wrote itself are ever removed."""

    def __init__(
        self,
        reader: TranscriptReader,
        masks: Masks,
        *,
        folder: str,
        state_dir: str,
        retention_days: int = 0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self._reader = reader
        self._masks = masks
        self._state_dir = state_dir
        self._state_path = os.path.join(state_dir, "export.json")
        self._retention_days = retention_days
        self._now = now
        self._origins: tuple[object, dict[str, str]] = (None, {})

    def run(self, stop: Stop = never) -> list[Issue]:
        """Write what has changed, remove the files of transcripts that are gone or too old, and return problems."""
        listing = self._reader.scan()
        issues = list(listing.issues)
        try:
            make_private_folder(self.folder)
        except OSError as error:
            return [*issues, Issue(self.folder, f"cannot be created: {error.strerror}")]
        known = self._load()
        before = dict(known)
        try:
            self._export_changed(listing, known, issues, stop)
        finally:
            # If the disk is full, the next export only does more work than it needs to.
            if known != before:
                with suppress(OSError):
                    state = {"masks": self._masks.fingerprint, "folder": self.folder, "files": known}
                    save(self._state_path, state)
        return issues

    def stamps(self) -> dict[str, tuple[int, ...]]:
        """Return the present stamp of every transcript."""
        return dict(self._reader.scan().stamps)

    def find_origin(self, path: str, start_line: int, end_line: int) -> tuple[str, int, int] | None:
        """Return the transcript, first and last record that lines of an exported file are from; None for others."""
        transcript = self.path_of_transcript(path)
        numbers = array("Q")
        if transcript:
            with suppress(OSError, ValueError), open(self._numbers_path(drop_ending(path)), "rb") as file:
                numbers.frombytes(file.read())
        if not transcript or not numbers:
            return None
        first, last = (min(max(line - 1 - _HEAD_LINES, 0), len(numbers) - 1) for line in (start_line, end_line))
        return transcript, numbers[first], numbers[last]

    def path_of_transcript(self, path: str) -> str | None:
        """Return the path of the transcript that an exported file was made from; None for any other file."""
        name = drop_ending(path)
        if "/" in name or name == path:
            return None
        if self._origins[0] != (stamp := _file_stamp(self._state_path)):
            self._origins = stamp, {export_name(known): known for known in self._load()}
        return self._origins[1].get(name)

    def _export_changed(self, listing: Listing, known: _Known, issues: list[Issue], stop: Stop) -> None:
        since_ns = (self._now() - self._retention_days * _DAY_S) * 1e9 if self._retention_days else 0
        current = {path: stamp for path, stamp in listing.stamps.items() if stamp[1] >= since_ns}
        for path, stamp in sorted(current.items()):
            if stop():
                return
            if known.get(path) != (tuple(stamp), _file_stamp(self._target(path))):
                self._export(path, known, issues)
        if not listing.lost:
            self._remove_stale(known, set(current), issues)

    def _export(self, path: str, known: _Known, issues: list[Issue]) -> None:
        """Bring one file up to date; what cannot be read or written is an issue."""
        target, name = self._target(path), export_name(path)
        try:
            if path not in known and not _may_replace(target, _heading(name)):
                issues.append(Issue(target, f"is not from {path}, so that transcript is not exported"))
                return
            with self._reader.open(path) as opened:
                try:
                    self._write(target, name, opened)
                    known[path] = tuple(opened.stamp), _file_stamp(target) or (0, 0)
                except OSError as error:
                    # The exported file is at fault, not the transcript, which the source would blame.
                    issues.append(Issue(target, f"cannot be written: {error.strerror}"))
        except (RecallError, OSError) as error:
            why = message_with_hint(error) if isinstance(error, RecallError) else error.strerror
            issues.append(Issue(path, f"is not exported: {why}"))

    def _write(self, target: str, name: str, opened: OpenTranscript) -> None:
        """Write a transcript to a file, unless the file was the same already."""
        numbers = array("Q")
        with draft(target) as (made, publish):
            made.write(_heading(name))
            for record in opened.records():
                if record.is_message:
                    made.write(f"{record.redact_text(self._masks.redact).line}\n".encode())
                    numbers.append(record.number)
            if not numbers:
                made.write(b"(empty)\n")
            made.flush()
            is_same = os.path.isfile(target) and filecmp.cmp(made.name, target, shallow=False)
            with draft(self._numbers_path(name)) as (beside, publish_numbers):
                beside.write(numbers.tobytes())
                publish_numbers()
            if not is_same or os.path.islink(target):
                publish()

    def _remove_stale(self, known: _Known, current: set[str], issues: list[Issue]) -> None:
        for path in [path for path in known if path not in current]:
            try:
                for file in (self._target(path), self._numbers_path(export_name(path))):
                    with suppress(FileNotFoundError):
                        os.unlink(file)
                del known[path]
            except OSError as error:
                issues.append(Issue(self._target(path), f"cannot be removed: {error.strerror}"))

    def _load(self) -> _Known:
        saved = load(self._state_path)
        if saved.get("folder") != self.folder:
            return {}
        known: _Known = {}
        for path, values in saved.get("files", {}).items():
            if self._reader.owns(path):
                known[path] = (), (0, 0)
                # Masked differently, every file is written again, and is known to be ours.
                if saved.get("masks") == self._masks.fingerprint:
                    with suppress(TypeError, ValueError, IndexError):
                        known[path] = tuple(values[0]), (values[1][0], values[1][1])
        return known

    def _target(self, path: str) -> str:
        return os.path.join(self.folder, export_name(path) + NOTE_ENDING)

    def _numbers_path(self, name: str) -> str:
        return os.path.join(self._state_dir, "export", f"{name}.lines")


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
    with suppress(OSError):
        found = os.lstat(path)
        return found.st_size, found.st_mtime_ns
    return None
