"""A backup: notes, long-term memories and what was forgotten, in one zip archive with their hashes.

The index is left out, because it is made from the notes, and so are settings, which may hold secrets.

A backup is put back, on this machine or another, file by file after all of it was checked. Nothing that differs is
replaced unless the caller says so, and what was forgotten here or there does not come back. An archive may come from
anywhere: only notes are written to the workspace, and none that agents read as instructions.
"""

import hashlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import IO, Any, Literal, NamedTuple, TypeAlias

import mdrecall
from mdrecall import errors, platform
from mdrecall.config.settings import Settings
from mdrecall.notes.editing import hash_content, replace_content
from mdrecall.notes.files import AGENT_FILES, ROOT_FILES, MemoryFiles
from mdrecall.notes.notes import create_file
from mdrecall.notes.opening import decode, read_below, read_stamped
from mdrecall.notes.tombstones import open_tombstones, parse_lines
from mdrecall.patterns import is_note_file
from mdrecall.state_files import draft
from mdrecall.text.tombstones import Tombstones

#: The version of the archive. One with a higher number is refused, because it may hold what is not known here.
FORMAT = 1
MANIFEST = "manifest.json"
NOTES = "notes/"
MEMORIES = "memories.jsonl"
FORGOTTEN = "state/forgotten.jsonl"
#: A larger file is not a note; it is named and left out.
MAX_FILE_BYTES = 256 << 20
#: An archive that was being written when its process was killed.
_LEFTOVER = re.compile(r"\..{1,60}\.[0-9a-f]{16}\.tmp")
#: A process locks its archive right after it has made it.
_UNLOCKED_S = 2.0
#: All that is read of one file or archive member, unpacked. The largest exports that people report have 1 GB.
MAX_BYTES = 4 << 30
#: Text as JSON is packed to a fifth; a hundredth is a bomb, unless the file is small.
_MAX_RATIO = 100
_SMALL_BYTES = 16 << 20
#: More files than any export has; each costs memory before it can be looked at.
_MAX_MEMBERS = 200_000
#: A manifest names every file with its hash: a hundred thousand notes have 20 MB.
_MAX_MANIFEST_BYTES = 64 << 20
#: More than anybody has of notes; it bounds how long the check of a hostile archive takes.
_MAX_TOTAL_BYTES = 16 << 30
# What no name of a note has: control characters, backslashes, and what a terminal would not show.
_BAD_NAME = re.compile("[\x00-\x1f\x7f-\x9f\\\\\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
Action: TypeAlias = Literal["new", "same", "differs", "forgotten", "refused", "failed"]


class BackupReport(NamedTuple):
    """What an archive holds."""

    notes: int
    bytes: int
    left_out: tuple[str, ...]
    changing: tuple[str, ...]
    """Notes that changed while they were saved; each is whole, but they may not fit together."""


class Restored(NamedTuple):
    """What becomes of a file of a backup."""

    name: str
    """Its name in the archive."""
    path: str
    """Where it belongs."""
    action: Action
    problem: str = ""
    """Why it is not written."""


class Backup(NamedTuple):
    """An open archive whose hashes have been checked."""

    path: str
    archive: zipfile.ZipFile
    files: Mapping[str, Mapping[str, Any]]

    def read(self, name: str) -> bytes:
        """Return the content of a file; empty if there is no such file."""
        if name not in self.files:
            return b""
        # A note that repeats itself may be packed to next to nothing; its size is bounded.
        with open_member(self.archive, name, self.path, max_bytes=MAX_FILE_BYTES, max_ratio=MAX_FILE_BYTES) as raw:
            return raw.read()


def write_backup(
    target: str,
    settings: Settings,
    home: str,
    memories: Sequence[Mapping[str, Any]],
    now: datetime,
    *,
    overwrite: bool = False,
) -> BackupReport:
    """Write the archive ``target``, whole or not at all, readable by its owner only."""
    if os.path.lexists(target) and not overwrite:
        raise errors.FileUnwritable(f"{target} already exists.", path=target, hint="Give another name.")
    _remove_leftovers(os.path.dirname(target), now.timestamp())
    try:
        with draft(target, is_durable=True) as (file, publish):
            # What is locked is not a leftover.
            platform.try_lock(file.fileno())
            report = _write(file, settings, home, memories, now)
            publish()
            return report
    except OSError as error:
        message, hint = f"Cannot write {target}: {error.strerror or error}.", "Check the disk and the permissions."
        raise errors.FileUnwritable(message, path=target, hint=f"Nothing was saved. {hint}") from error


def _remove_leftovers(folder: str, now_s: float) -> None:
    """Remove the archives that killed processes have begun in a folder. They are as private as the notes, and large."""
    with suppress(OSError):
        for name in filter(_LEFTOVER.fullmatch, os.listdir(folder)):
            path = os.path.join(folder, name)
            with suppress(OSError), open(path, "rb") as file:
                is_old = now_s - os.fstat(file.fileno()).st_mtime > _UNLOCKED_S
                if is_old and platform.try_lock(file.fileno()):
                    os.unlink(path)


def _write(
    file: IO[bytes], settings: Settings, home: str, memories: Sequence[Mapping[str, Any]], now: datetime
) -> BackupReport:
    files: dict[str, dict[str, Any]] = {}
    left_out: list[str] = []
    source = MemoryFiles(settings, home)
    notes = source.scan().stamps
    # The notes of extra paths elsewhere belong to another folder.
    inside = sorted(path for path in notes if not path.startswith("../") and not os.path.isabs(path))
    if len(inside) < len(notes):
        left_out.append(f"{len(notes) - len(inside):,} notes of extra paths outside the workspace are not in it")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, data: bytes, changed_ns: int = 0) -> None:
            archive.writestr(name, data)
            files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "changedNs": changed_ns}

        for path in inside:
            try:
                data, stamp = read_stamped(settings.workspace, path, shown=path, max_bytes=MAX_FILE_BYTES)
                add(NOTES + path, data, stamp[1])
            except errors.FileMissing:
                continue
            except errors.ReadError as error:
                left_out.append(str(error))
        saved = len(files)
        if memories:
            lines = (json.dumps(memory, ensure_ascii=False, separators=(",", ":")) for memory in memories)
            add(MEMORIES, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        if forgotten := open_tombstones(settings).merge(b""):
            add(FORGOTTEN, forgotten)
        if not files:
            message = f"There is nothing to save in {settings.workspace}."
            raise errors.NothingToWrite(message, path=settings.workspace, hint="Choose the folder with the notes.")
        after = source.scan().stamps
        changing = tuple(sorted(path for path in {*notes, *after} if notes.get(path) != after.get(path)))
        manifest = {
            "format": FORMAT,
            "program": f"mdrecall {mdrecall.__version__}",
            "created": now.isoformat(timespec="seconds"),
            "workspace": os.path.basename(settings.workspace),
            "agent": settings.agent_id,
            "leftOut": left_out,
            "changing": changing,
            "files": files,
        }
        archive.writestr(MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1))
    return BackupReport(saved, file.tell(), tuple(left_out), changing)


@contextmanager
def open_backup(path: str) -> Iterator[Backup]:
    """Open a backup and check every file of it. Raise ``ReadError`` if it is none, or is damaged."""
    if not os.path.isfile(path):
        raise errors.FileMissing(f"There is no file {path}.", path=path, hint="Check the path.")
    with open_archive(path) as archive:
        found = Backup(path, archive, _read_files(archive, path))
        names = archive.namelist()
        if len(names) != len(set(names)) or set(names) - {MANIFEST} != set(found.files):
            raise _damage_error(path, "its files are not those of its manifest")
        if sum(info.file_size for info in archive.infolist()) > _MAX_TOTAL_BYTES:
            raise _damage_error(path, f"it would unpack to more than {_MAX_TOTAL_BYTES:,} bytes")
        for name, known in found.files.items():
            if hashlib.sha256(found.read(name)).hexdigest() != known.get("sha256"):
                raise _damage_error(path, f"{name} is not what was saved")
        yield found


def _read_files(archive: zipfile.ZipFile, path: str) -> dict[str, dict[str, Any]]:
    """Return what the manifest says about each file."""
    hint = "Name an archive that an export has written."
    foreign = errors.NotAFile(f"{path} is not a backup of mdrecall.", path=path, hint=hint)
    if MANIFEST not in archive.namelist() or archive.getinfo(MANIFEST).file_size > _MAX_MANIFEST_BYTES:
        raise foreign
    with open_member(archive, MANIFEST, path) as raw:
        data = raw.read()
    try:
        about = json.loads(data)
        is_later = about["format"] > FORMAT
        files = {name: {**known} for name, known in about["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise foreign from None
    if is_later:
        message = f"{path} was written by a later version of mdrecall."
        raise errors.NotAFile(message, path=path, hint="Update mdrecall.")
    return files


def _damage_error(path: str, what: str) -> errors.FileUnreadable:
    hint = "Nothing was restored. Copy the archive again, or take another one."
    return errors.FileUnreadable(f"{path} is damaged: {what}.", path=path, hint=hint)


def restore(found: Backup, settings: Settings, *, overwrite: bool, apply: bool) -> list[Restored]:
    """Return what becomes of each file of a backup, and do it if ``apply`` says so; memories are left to the caller.

    What was forgotten comes first, so that no note brings it back.
    """
    done = []
    data, own = found.read(FORGOTTEN), open_tombstones(settings)
    ours, theirs = own.load(), parse_lines(data, found.path)
    if theirs:
        known = {(entry.salt, entry.id) for entry in ours.entries}
        is_new = any((entry.salt, entry.id) not in known for entry in theirs.entries)
        done.append(Restored(FORGOTTEN, settings.workspace, "new" if is_new else "same"))
        if apply and is_new:
            own.merge(data)
    for name in sorted(found.files):
        if name.startswith(NOTES):
            path = name.removeprefix(NOTES)
            try:
                action, problem = _restore_note(found, settings, path, (ours, theirs), overwrite=overwrite, apply=apply)
            except errors.RecallError as error:
                action, problem = "failed", str(error)
            done.append(Restored(name, path, action, problem))
        elif name not in (MEMORIES, FORGOTTEN):
            done.append(Restored(name, name, "refused", "this version of mdrecall does not know it"))
    return done


def _restore_note(
    found: Backup, settings: Settings, path: str, tombstones: Sequence[Tombstones], *, overwrite: bool, apply: bool
) -> tuple[Action, str]:
    """Return what becomes of a note, and why it is not written; write it if ``apply`` says so."""
    if problem := _explain_refusal(path):
        return "refused", problem
    content = found.read(NOTES + path)
    masked = text = decode(content)
    for each in tombstones:
        masked = each.mask(masked, path)
    if masked != text:
        content = masked.encode()
        if not masked.strip():
            return "forgotten", "it was forgotten"
    workspace, old = settings.workspace, None
    with suppress(errors.FileMissing):
        old = read_below(workspace, path, shown=path, max_bytes=MAX_FILE_BYTES)
    if old == content:
        return "same", ""
    if apply and (old is None or overwrite):
        if old is None:
            create_file(workspace, path, content)
        else:
            replace_content(workspace, path, content, hash_content(old))
        _set_time(os.path.join(workspace, path), found.files[NOTES + path])
    return "new" if old is None else "differs", ""


def _explain_refusal(path: str) -> str:
    """Return why a file of this name is not written to a workspace; empty if it may be."""
    parts = path.split("/")
    if not is_note_file(path) or _BAD_NAME.search(path) or any(part in ("", ".", "..") for part in parts):
        return "it is not the path of a note"
    if parts[0] != "memory" and any(part.startswith(".") for part in parts):
        return "it is in a hidden folder"
    if ".git" in parts:
        return "it is in a folder of Git"
    if parts[-1].casefold() in AGENT_FILES and path not in (*ROOT_FILES, "USER.md"):
        return "agents read a file of this name as instructions"
    return ""


def _set_time(path: str, known: Mapping[str, Any]) -> None:
    """Give a file the time that it had, which dates a note whose name has no day."""
    changed_ns = known.get("changedNs")
    if isinstance(changed_ns, int) and 0 < changed_ns < 2**63:
        with suppress(OSError, OverflowError):
            platform.utime(path, ns=(changed_ns, changed_ns), follow_symlinks=False)


def read_memories(found: Backup) -> Iterator[dict[str, Any]]:
    """Yield the long-term memories of a backup."""
    for line in found.read(MEMORIES).splitlines():
        with suppress(ValueError, RecursionError):
            value = json.loads(line)
            if isinstance(value, dict):
                yield value


@contextmanager
def open_archive(path: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive. Raise ``FileUnreadable`` if it is damaged, also while it is being read."""
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > _MAX_MEMBERS:
                message = f"{path} holds more than {_MAX_MEMBERS:,} files."
                raise errors.FileTooLarge(message, path=path, hint="Unpack what is needed of it.")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        # What zipfile raises for a damaged archive, an encrypted one, and a packing that it does not know.
        reason = getattr(error, "strerror", None) or str(error).rstrip(".") or type(error).__name__
        hint = "Download it again, or unpack it and name the folder."
        raise errors.FileUnreadable(f"Cannot read {path}: {reason}.", path=path, hint=hint) from error


def open_member(
    archive: zipfile.ZipFile, name: str, path: str, *, max_bytes: int = MAX_BYTES, max_ratio: int = _MAX_RATIO
) -> IO[bytes]:
    """Open a file of an archive, unless it would unpack to far more than it should; no more bytes than it says come."""
    info = archive.getinfo(name)
    is_bomb = info.file_size > _SMALL_BYTES and info.file_size > max_ratio * max(1, info.compress_size)
    if is_bomb or info.file_size > max_bytes:
        message = f"{name} in {path} would unpack to {info.file_size:,} bytes."
        raise errors.FileTooLarge(message, path=path, hint="If it is yours, unpack it and name the file.")
    return archive.open(info)
