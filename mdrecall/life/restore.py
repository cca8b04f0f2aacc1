"""Put a backup back, on this machine or another: checked as a whole first, then file by file.

Nothing that differs is replaced unless the caller says so, and what was forgotten here or there does not come back. An
archive may come from anywhere: only notes are written to the workspace, and none that agents read as instructions.
"""

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Literal, NamedTuple, TypeAlias

from mdrecall.config.settings import Settings
from mdrecall.core.life.tombstones import Tombstones
from mdrecall.errors import FileMissing, FileUnreadable, NotAFile, ReadError, RecallError
from mdrecall.life import backup
from mdrecall.life.imports.exports import LimitedBytes, open_archive, open_member
from mdrecall.patterns import is_note_file
from mdrecall.sources.editing import hash_content, replace_content
from mdrecall.sources.files import AGENT_FILES, ROOT_FILES
from mdrecall.sources.notes import create_file
from mdrecall.sources.opening import decode, read_below
from mdrecall.sources.tombstones import open_tombstones, parse_lines
from mdrecall.state_files import draft

Action: TypeAlias = Literal["new", "same", "differs", "forgotten", "refused", "failed"]

#: A manifest names every file with its hash: a hundred thousand notes have 20 MB.
_MAX_MANIFEST_BYTES = 64 << 20
#: More than anybody has of notes and conversations; it bounds how long the check of a hostile archive takes.
_MAX_TOTAL_BYTES = 16 << 30
_READ_BYTES = 1 << 20
# What no name of a note has: control characters, backslashes, and what a terminal would not show.
_BAD_NAME = re.compile("[\x00-\x1f\x7f-\x9f\\\\\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SESSION = re.compile(r"sessions\.json|[\w][\w.:@+-]*\.jsonl[\w.:@+-]*")


class Restored(NamedTuple):
    """What becomes of a file of a backup."""

    name: str
    """Its name in the archive."""
    path: str
    """Where it belongs: a note's path in the workspace, else a file on this machine."""
    action: Action
    problem: str = ""
    """Why it is not written."""


class Backup(NamedTuple):
    """An open archive whose hashes have been checked."""

    path: str
    archive: zipfile.ZipFile
    files: Mapping[str, Mapping[str, Any]]
    about: Mapping[str, Any]

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with _open(self.archive, name, self.path) as raw:
            return raw.read()


class RestoreTarget(NamedTuple):
    """Where a backup is put."""

    settings: Settings
    config_path: str
    """mdrecall's own configuration file, which need not be there."""
    with_settings: bool = False
    overwrite: bool = False


@contextmanager
def open_backup(path: str) -> Iterator[Backup]:
    """Open a backup and check every file of it. Raise ``ReadError`` if it is none, or is damaged."""
    if not os.path.isfile(path):
        raise FileMissing(f"There is no file {path}.", path=path, hint="Check the path.")
    with open_archive(path) as archive:
        about = _read_manifest(archive, path)
        files = about["files"]
        names = archive.namelist()
        if len(names) != len(set(names)) or set(names) - {backup.MANIFEST} != set(files):
            raise _damage_error(path, "its files are not those of its manifest")
        if sum(info.file_size for info in archive.infolist()) > _MAX_TOTAL_BYTES:
            raise _damage_error(path, f"it would unpack to more than {_MAX_TOTAL_BYTES:,} bytes")
        for name, known in files.items():
            _check(archive, path, name, known)
        yield Backup(path, archive, files, about)


def _read_manifest(archive: zipfile.ZipFile, path: str) -> dict[str, Any]:
    hint = "Name an archive that an export has written."
    if backup.MANIFEST not in archive.namelist() or archive.getinfo(backup.MANIFEST).file_size > _MAX_MANIFEST_BYTES:
        raise NotAFile(f"{path} is not a backup of mdrecall.", path=path, hint=hint)
    with open_member(archive, backup.MANIFEST, path) as raw:
        data = raw.read()
    try:
        about = json.loads(data)
        is_valid = isinstance(about["format"], int) and isinstance(about["files"], dict)
        is_valid = is_valid and all(isinstance(known, dict) for known in about["files"].values())
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotAFile(f"{path} is not a backup of mdrecall.", path=path, hint=hint) from error
    if not is_valid:
        raise NotAFile(f"{path} is not a backup of mdrecall.", path=path, hint=hint)
    if about["format"] > backup.FORMAT:
        message = f"{path} was written by a later version of mdrecall."
        raise NotAFile(message, path=path, hint="Update mdrecall.")
    return dict(about)


def _check(archive: zipfile.ZipFile, path: str, name: str, known: Mapping[str, Any]) -> None:
    digest = hashlib.sha256()
    with _open(archive, name, path) as raw:
        while part := raw.read(_READ_BYTES):
            digest.update(part)
    if digest.hexdigest() != known.get("sha256"):
        raise _damage_error(path, f"{name} is not what was saved")


def _open(archive: zipfile.ZipFile, name: str, path: str) -> AbstractContextManager[LimitedBytes]:
    """Open a file of a backup. A note that repeats itself may be packed to next to nothing; its size is bounded."""
    return open_member(archive, name, path, max_bytes=backup.MAX_FILE_BYTES, max_ratio=backup.MAX_FILE_BYTES)


def _damage_error(path: str, what: str) -> FileUnreadable:
    hint = "Nothing was restored. Copy the archive again, or take another one."
    return FileUnreadable(f"{path} is damaged: {what}.", path=path, hint=hint)


def restore(found: Backup, target: RestoreTarget, *, apply: bool) -> list[Restored]:
    """Return what becomes of each file of a backup, and do it if ``apply`` says so; memories are left to the caller.

    What was forgotten comes first, so that no note brings it back.
    """
    forgotten = _restore_forgotten(found, target, apply=apply)
    theirs, ours = parse_lines(_read_forgotten(found), found.path), open_tombstones(target.settings).load()
    done = [] if forgotten is None else [forgotten]
    for name in sorted(found.files):
        if name.startswith(backup.NOTES):
            done.append(_restore_note(found, target, name, (ours, theirs), apply=apply))
        elif name not in (backup.MEMORIES, backup.FORGOTTEN):
            done.append(_restore_file(found, target, name, apply=apply))
    return done


def _restore_note(
    found: Backup, target: RestoreTarget, name: str, tombstones: tuple[Tombstones, ...], *, apply: bool
) -> Restored:
    path = name.removeprefix(backup.NOTES)
    if problem := _explain_refusal(path):
        return Restored(name, path, "refused", problem)
    content = _mask(found.read(name), path, tombstones)
    if content is None:
        return Restored(name, path, "forgotten", "it was forgotten")
    workspace = target.settings.workspace
    try:
        old = read_below(workspace, path, shown=path, max_bytes=backup.MAX_FILE_BYTES).data
    except FileMissing:
        old = None
    except ReadError as error:
        return Restored(name, path, "failed", str(error))
    action: Action = "new" if old is None else "same" if old == content else "differs"
    if apply and (action == "new" or (action == "differs" and target.overwrite)):
        try:
            if old is None:
                create_file(workspace, path, content)
            else:
                replace_content(workspace, path, content, hash_content(old))
            _set_time(os.path.join(workspace, path), found.files[name])
        except RecallError as error:
            return Restored(name, path, "failed", str(error))
    return Restored(name, path, action)


def _mask(data: bytes, path: str, tombstones: tuple[Tombstones, ...]) -> bytes | None:
    """Return a note without what was forgotten; None if nothing is left of it."""
    masked = text = decode(data)
    for each in tombstones:
        masked = each.mask(masked, path)
    if masked == text:
        return data
    return masked.encode() if masked.strip() else None


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
            os.utime(path, ns=(changed_ns, changed_ns), follow_symlinks=False)


def _restore_file(found: Backup, target: RestoreTarget, name: str, *, apply: bool) -> Restored:
    """Restore the settings, a file of the state or a transcript."""
    path, problem = _find_place(target, name)
    if problem:
        return Restored(name, path, "refused", problem)
    data = found.read(name)
    try:
        with open(path, "rb") as file:
            old = file.read(backup.MAX_FILE_BYTES)
    except FileNotFoundError:
        old = None
    except OSError as error:
        return Restored(name, path, "failed", f"it cannot be read: {error.strerror}")
    action: Action = "new" if old is None else "same" if old == data else "differs"
    if apply and (action == "new" or (action == "differs" and target.overwrite)):
        try:
            with draft(path) as new:
                new.file.write(data)
                new.publish()
            _set_time(path, found.files[name])
        except OSError as error:
            return Restored(name, path, "failed", f"it cannot be written: {error.strerror}")
    return Restored(name, path, action)


def _find_place(target: RestoreTarget, name: str) -> tuple[str, str]:
    """Return where a file belongs, and why it is not put there; empty if it is."""
    settings = target.settings
    if name == backup.SETTINGS:
        # Settings say where texts are sent: nobody gets them from an archive without asking.
        return target.config_path, "" if target.with_settings else "settings are restored only on request"
    kind = name.removeprefix(backup.STATE)
    if name.startswith(backup.STATE) and kind in backup.STATE_FILES:
        return settings.index_path + backup.STATE_FILES[kind], ""
    session = name.removeprefix(backup.SESSIONS)
    if name.startswith(backup.SESSIONS) and _SESSION.fullmatch(session):
        path = os.path.join(settings.sessions_dir, session)
        return path, "" if settings.standalone else "conversations of OpenClaw are written by OpenClaw only"
    return name, "this version of mdrecall does not know it"


def _restore_forgotten(found: Backup, target: RestoreTarget, *, apply: bool) -> Restored | None:
    """Add what was forgotten there to what was forgotten here; None if that is nothing."""
    data = _read_forgotten(found)
    theirs, files = parse_lines(data, found.path), open_tombstones(target.settings)
    if not theirs:
        return None
    known = {(entry.salt, entry.id) for entry in files.load().entries}
    is_new = any((entry.salt, entry.id) not in known for entry in theirs.entries)
    if apply and is_new:
        files.merge(data)
    return Restored(backup.FORGOTTEN, target.settings.workspace, "new" if is_new else "same")


def _read_forgotten(found: Backup) -> bytes:
    return found.read(backup.FORGOTTEN) if backup.FORGOTTEN in found.files else b""


def read_memories(found: Backup) -> Iterator[dict[str, Any]]:
    """Yield the long-term memories of a backup."""
    if backup.MEMORIES in found.files:
        for line in found.read(backup.MEMORIES).splitlines():
            with suppress(ValueError, RecursionError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value
