"""The files of what was forgotten, so that no sync, rebuild, import, digest or capture brings it back.

They lie in the workspace, because they belong to the memory and not to an index: ``.mdrecall/forgotten/<salt>.jsonl``,
one file for each machine, which adds lines to its own and reads those of all. The first line has the salt. Any other
one is something that was forgotten, or names the id of something that is done or may come back. Nothing is changed or
removed, so that files can be joined line by line. They hold hashes only, and may come from anybody: what is wrong in
them is skipped, links are not followed, and sizes are bounded.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias

from mdrecall import platform
from mdrecall.config.settings import Settings
from mdrecall.errors import FileMissing, NotAFile, ReadError, StoreUnavailable, SymlinkRefused
from mdrecall.notes.opening import open_parent, read_below
from mdrecall.text.tombstones import MAX_UNITS, Days, Entry, Tombstones, build_tombstones, make_entry
from mdrecall.types.documents import StoredChunk

_FOLDER = ".mdrecall/forgotten"
_ENDING = ".jsonl"
#: The name of the file in the state folder with the salt of this machine.
_MACHINE = "mdrecall-machine"
#: All files together: about 400,000 hashes. With more, reading them would slow every search.
MAX_BYTES = 16 * 1024 * 1024
#: More machines than a person or a small team has: each costs one more hash for every word.
_MAX_FILES = 64
_VERSION = 2
SALT_BYTES = 16
#: The first line is shorter.
_HEAD_BYTES = 200
#: What lines say about an entry by its id.
_KINDS = ("forget", "done", "undo")
#: What comes of reading a line that somebody else has made.
_UNUSABLE = (StopIteration, ValueError, KeyError, TypeError, IndexError, RecursionError, OverflowError)
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | platform.NO_FOLLOW | platform.NO_WAIT

#: The lines of each salt, every one once, in their order.
_Lines: TypeAlias = dict[bytes, dict[bytes, None]]


class TombstoneFiles:
    """The tombstones of a workspace; they are read again only when a file has changed."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._stamp: tuple[object, ...] | None = None
        """None until they have been looked at."""
        self._loaded = Tombstones()

    def load(self) -> Tombstones:
        """Return what is forgotten now. While the folder cannot be read, what was read last holds.

        Raise ``StoreUnavailable`` if it was never read: what was forgotten would come back.
        """
        try:
            stamp = tuple(self._list())
            if stamp != self._stamp:
                self._loaded = parse_lines(self._read())
                self._stamp = stamp
        except (OSError, ReadError) as error:
            if self._stamp is None:
                raise _make_unreadable(os.path.join(self._workspace, _FOLDER), str(error)) from error
        return self._loaded

    @property
    def last(self) -> Tombstones:
        """What was forgotten when it was loaded last, for those who read many files after that."""
        return self._loaded if self._stamp is not None else self.load()

    def hide(self, chunks: list[StoredChunk], masks: str) -> list[StoredChunk]:
        """Return chunks without those that hold a forgotten text; ``masks`` stands for what their index is free of."""
        forgotten = self.load()
        if masks == forgotten.fingerprint:
            return chunks
        return [each for each in chunks if not forgotten.is_in(each.source, each.path, each.text, days_of([each]))]

    def add_own(self, state_dir: str, lines: Sequence[bytes], salt: bytes = b"") -> None:
        """Append lines to the file of this machine, by default that of its salt; raise ``StoreUnavailable``."""
        own = salt or read_machine(state_dir) or os.urandom(SALT_BYTES)
        if lines:
            self.add(own, lines)
            keep_machine(state_dir, own)

    def add(self, salt: bytes, lines: Iterable[bytes]) -> None:
        """Append lines to the file of a salt so that they outlast a crash; raise ``StoreUnavailable``."""
        from mdrecall.notes.editing import open_folder, sync_folder, write_at_end

        shown, data = f"{_FOLDER}/{salt.hex()}{_ENDING}", b"".join(line + b"\n" for line in lines)
        if sum(size for _, _, size, _ in self._list()) + len(data) > MAX_BYTES:
            message = f"Too much would be forgotten by its text: {_FOLDER} would have more than {MAX_BYTES:,} bytes."
            raise StoreUnavailable(message, hint="Forget whole sessions, or delete the notes and rebuild the index.")
        try:
            with open_folder(self._workspace, _FOLDER) as folder:
                file = platform.open(os.path.basename(shown), _APPEND, 0o600, dir_fd=folder)
                try:
                    found = os.fstat(file)
                    if not stat.S_ISREG(found.st_mode):
                        raise NotAFile(f"{shown} is not a regular file.", path=shown)
                    head = b"" if b"\n" in platform.pread(file, _HEAD_BYTES, 0) else _dump_head(salt)
                    # A machine that lost its power may have left half a line, which nobody reads.
                    is_broken = found.st_size and platform.pread(file, 1, found.st_size - 1) != b"\n"
                    write_at_end(file, b"\n" * bool(is_broken) + head + data, found.st_size)
                finally:
                    os.close(file)
                sync_folder(folder)
        except (OSError, ReadError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            message = f"What was forgotten is kept in the workspace, and {shown} cannot be written there: {why}."
            hint = f"Nothing was forgotten. Check the disk, and who may write to {self._workspace}."
            raise StoreUnavailable(message, hint=hint) from error

    def merge(self, data: bytes) -> bytes:
        """Add the lines of other files that are not here yet, and return all lines, those of the others first.

        Raise ``StoreUnavailable`` if they cannot be added.
        """
        theirs, ours = split_lines(data, "another machine"), split_lines(self._read())
        for salt, lines in theirs.items():
            if missing := [line for line in lines if line not in ours.get(salt, {}) and _parse_line(line, salt)]:
                self.add(salt, missing)
        salts = sorted({*theirs, *ours})
        merged = {salt: theirs.get(salt, {}) | ours.get(salt, {}) for salt in salts}
        return b"".join(_dump_head(salt) + b"".join(line + b"\n" for line in merged[salt]) for salt in salts)

    def _list(self) -> list[tuple[str, int, int, int]]:
        """Return name, time, size and inode of each file; a folder or a file that is a link counts as absent."""
        try:
            # Nearly everybody has none, and is asked before every search.
            os.lstat(os.path.join(self._workspace, ".mdrecall"))
            folder, _ = open_parent(self._workspace, f"{_FOLDER}/x", shown=_FOLDER)
        except (FileMissing, SymlinkRefused, FileNotFoundError, NotADirectoryError):
            return []
        found: list[tuple[str, int, int, int]] = []
        try:
            with platform.scandir(folder) as entries:
                for count, entry in enumerate(entries):
                    if entry.name.endswith(_ENDING) and entry.is_file(follow_symlinks=False):
                        about = entry.stat(follow_symlinks=False)
                        found.append((entry.name, about.st_mtime_ns, about.st_size, about.st_ino))
                    if max(count, len(found)) > _MAX_FILES or sum(each[2] for each in found) > MAX_BYTES:
                        why = f"it has more than {_MAX_FILES} files, or {MAX_BYTES:,} bytes"
                        raise _make_unreadable(os.path.join(self._workspace, _FOLDER), why)
        finally:
            os.close(folder)
        return sorted(found)

    def _read(self) -> bytes:
        """Return the content of all files, one after the other."""
        parts = []
        for name, *_ in self._list():
            shown = f"{_FOLDER}/{name}"
            with suppress(FileMissing, NotAFile, SymlinkRefused):
                data = read_below(self._workspace, shown, shown=shown, max_bytes=MAX_BYTES)
                split_lines(data, os.path.join(self._workspace, shown))
                parts.append(data)
        return b"\n".join(parts)


def days_of(chunks: Iterable[StoredChunk]) -> set[str]:
    """Return the days on which parts of a transcript were said."""
    return {heading.removeprefix("# ") for chunk in chunks for heading in chunk.trail if chunk.source == "sessions"}


def open_tombstones(settings: Settings) -> TombstoneFiles:
    """Return the tombstones of a workspace."""
    return TombstoneFiles(settings.workspace)


def forget_session(settings: Settings, session: str, now: datetime, *, is_kept: bool) -> None:
    """Keep a session out of the memory, or take that back; raise ``StoreUnavailable``."""
    files, state_dir = open_tombstones(settings), settings.state_dir
    alone = (each for each in files.load().entries if len(each.sessions) == 1 and not (each.phrases or each.paths))
    known = [each.id for each in alone if build_tombstones([each]).is_forgotten_session(session)]
    salt = read_machine(state_dir) or os.urandom(SALT_BYTES)
    if is_kept:
        files.add_own(state_dir, [mark_line("undo", id) for id in known], salt)
    elif not known:
        at = f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        entry = make_entry(salt, os.urandom(4).hex(), at, (), {session: Days()}, {})._replace(agent=settings.agent_id)
        files.add_own(state_dir, [entry_line(entry), mark_line("done", entry.id)], salt)


def read_machine(state_dir: str) -> bytes:
    """Return the salt that stands for this machine; empty if it has none yet."""
    with suppress(OSError, ValueError), open(os.path.join(state_dir, _MACHINE), "rb") as file:
        salt = bytes.fromhex(file.read(2 * SALT_BYTES + 1).decode().strip())
        return salt if len(salt) == SALT_BYTES else b""
    return b""


def keep_machine(state_dir: str, salt: bytes) -> None:
    """Keep the salt of this machine, unless it has one. If that fails, the next run begins another file."""
    from mdrecall.state_files import draft

    if not read_machine(state_dir):
        with suppress(OSError), draft(os.path.join(state_dir, _MACHINE)) as (target, publish):
            target.write(f"{salt.hex()}\n".encode())
            publish()


def entry_line(entry: Entry) -> bytes:
    """Return the line of something that was forgotten."""
    fields: dict[str, Any] = {"phrases": entry.phrases, "sessions": entry.sessions, "paths": entry.paths}
    fields |= {"agent": entry.agent, "masked": entry.is_masked, "trash": entry.keeps_trash}
    return _dump({"forget": entry.id, "at": entry.at} | {name: value for name, value in fields.items() if value})


def mark_line(kind: Literal["done", "undo"], id: str) -> bytes:
    """Return the line that says that every place was cleared of something, or that it may come back."""
    return _dump({kind: id})


def split_lines(data: bytes, shown: str = "") -> _Lines:
    """Return the lines below each line with a salt; raise ``StoreUnavailable`` if none has one."""
    found: _Lines = {}
    own: dict[bytes, None] = {}
    for line in data.split(b"\n"):
        if b'"salt"' in line and (salt := _read_salt(line, shown)):
            own = found.setdefault(salt, {})
        elif line.strip():
            own[line] = None
    # Without the end of a line, it is what a machine that lost its power has left of the first one.
    if not found and b"\n" in data.strip(b"\n"):
        raise _make_unreadable(shown, "no line has a salt")
    return found


def parse_lines(data: bytes, shown: str = "") -> Tombstones:
    """Return the tombstones of some lines, which errors call ``shown``. A line that is none of them is skipped."""
    lines = ((salt, line) for salt, below in split_lines(data, shown).items() for line in below)
    found = [parsed for salt, line in lines if (parsed := _parse_line(line, salt))]
    done, undone = ({id for kind, id, _ in found if kind == wanted} for wanted in ("done", "undo"))
    kept = (entry._replace(is_done=id in done) for _, id, entry in found if entry and id not in undone)
    return build_tombstones(sorted(kept, key=lambda entry: entry.at))


class Masks:
    """Redaction of secrets, and of what was forgotten: every text that leaves its file passes through it."""

    def __init__(self, patterns: Sequence[str], forgotten: TombstoneFiles) -> None:
        """``patterns`` are the user's own; ``problems`` says which of them cannot be used, and why."""
        from mdrecall.text.redact import compile_patterns, make_fingerprint, redact

        usable, self.problems = compile_patterns(patterns)
        self._redact_secrets = partial(redact, more=usable)
        self._forgotten = forgotten
        self.of_secrets = make_fingerprint(patterns)

    @property
    def fingerprint(self) -> str:
        """A text that changes if a text would be masked differently."""
        return self.of_secrets + self._forgotten.load().fingerprint

    def redact(self, text: str) -> str:
        """Return a text without secrets and without what was forgotten; its lines are kept."""
        return self._redact_secrets(self._forgotten.load().mask(text))


def open_masks(settings: Settings) -> Masks:
    """Return what masks the texts of an agent."""
    return Masks(settings.logging.redact_patterns, open_tombstones(settings))


def _read_salt(line: bytes, shown: str) -> bytes:
    """Return the salt of a first line; empty if it is none."""
    with suppress(*_UNUSABLE):
        content = json.loads(line)
        if int(content["version"]) > _VERSION:
            raise _make_unreadable(shown, "it was written by a later version of mdrecall")
        salt = bytes.fromhex(content["salt"])
        return salt if len(salt) == SALT_BYTES else b""
    return b""


def _parse_line(line: bytes, salt: bytes) -> tuple[str, str, Entry | None] | None:
    """Return what a line says, about which id, with the entry if it says what was forgotten; None for another line."""
    with suppress(*_UNUSABLE):
        content = json.loads(line)
        if isinstance(content, dict):
            kind = next(kind for kind in _KINDS if kind in content)
            return kind, str(content[kind]), _read_entry(content, salt) if kind == "forget" else None
    return None


def _read_entry(content: Any, salt: bytes) -> Entry:
    phrases = tuple((str(first), int(count), str(phrase)) for first, count, phrase in content.get("phrases", ()))
    if any(not 1 <= count <= MAX_UNITS for _, count, _ in phrases):
        raise ValueError("A phrase has at least one word, and not too many.")
    return Entry(
        str(content["forget"]), str(content["at"]), salt, phrases,
        tuple((str(session), str(since), str(until)) for session, since, until in content.get("sessions", ())),
        tuple((str(path), tuple(map(str, lines))) for path, lines in content.get("paths", ())),
        str(content.get("agent", "")), bool(content.get("masked")), bool(content.get("trash")),
    )  # fmt: skip


def _dump_head(salt: bytes) -> bytes:
    return _dump({"version": _VERSION, "salt": salt.hex()}) + b"\n"


def _dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _make_unreadable(path: str, why: str) -> StoreUnavailable:
    hint = "Restore it. Without it, forgotten text would come back from your files. Delete it if it is not yours."
    return StoreUnavailable(f"What was forgotten cannot be read from {path}: {why}.", hint=hint)
