"""A backup: notes, long-term memories, settings and what cannot be made again, in one zip archive with their hashes.

If notes change while the archive is written, it is written again, so that they fit together. The index is left out,
because it is made from the notes, and so are secrets in the settings.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import chain
from typing import IO, Any, Literal, NamedTuple, TypeAlias

import mdrecall
from mdrecall.config.files import read_config
from mdrecall.config.settings import Settings
from mdrecall.errors import (
    FileMissing,
    FileTooLarge,
    FileUnreadable,
    FileUnwritable,
    NotAFile,
    NothingToWrite,
    ReadError,
    RecallError,
)
from mdrecall.locks import try_flock
from mdrecall.notes.editing import hash_content, replace_content
from mdrecall.notes.files import AGENT_FILES, ROOT_FILES, MemoryFiles
from mdrecall.notes.notes import create_file
from mdrecall.notes.opening import decode, read_below
from mdrecall.notes.tombstones import open_tombstones, parse_lines
from mdrecall.patterns import is_note_file
from mdrecall.state_files import draft
from mdrecall.text.tombstones import Tombstones
from mdrecall.types import Stamp

#: The version of the archive. One with a higher number is refused, because it may hold what is not known here.
FORMAT = 1
MANIFEST = "manifest.json"
NOTES = "notes/"
SESSIONS = "sessions/"
MEMORIES = "memories.jsonl"
SETTINGS = "settings/mdrecall.json"
STATE = "state/"
#: What is kept beside the index and cannot be made from notes: what was recalled and promoted.
STATE_FILES = {"recalls": ".recalls"}
#: What was forgotten.
FORGOTTEN = "state/forgotten.jsonl"
#: A larger file is no note, and no transcript that anybody wants to carry; it is named and left out.
MAX_FILE_BYTES = 256 << 20
#: How often the archive is written while notes change; after that it says which of them did.
_ROUNDS = 3
#: An archive that was being written when its process was killed.
_LEFTOVER = re.compile(r"\..{1,60}\.[0-9a-f]{16}\.tmp")
#: A process locks its archive right after it has made it.
_UNLOCKED_S = 2.0
_SECRET_NAME = re.compile(r"(?:.*(?:key|secret|password|passwd|authorization|credential|token))s?", re.IGNORECASE)
_REFERENCE = re.compile(r"(?:Bearer )?\$\{[A-Za-z_][A-Za-z0-9_]*\}")
#: All that is read of one file or archive member, unpacked. The largest exports that people report have 1 GB.
MAX_BYTES = 4 << 30
#: Text as JSON is packed to a fifth; a hundredth is a bomb, unless the file is small.
_MAX_RATIO = 100
_SMALL_BYTES = 16 << 20
#: More files than any export has; each costs memory before it can be looked at.
_MAX_MEMBERS = 200_000
Action: TypeAlias = Literal["new", "same", "differs", "forgotten", "refused", "failed"]

#: A manifest names every file with its hash: a hundred thousand notes have 20 MB.
_MAX_MANIFEST_BYTES = 64 << 20
#: More than anybody has of notes and conversations; it bounds how long the check of a hostile archive takes.
_MAX_TOTAL_BYTES = 16 << 30
_READ_BYTES = 1 << 20
# What no name of a note has: control characters, backslashes, and what a terminal would not show.
_BAD_NAME = re.compile("[\x00-\x1f\x7f-\x9f\\\\\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SESSION = re.compile(r"sessions\.json|[\w][\w.:@+-]*\.jsonl[\w.:@+-]*")


class BackupRequest(NamedTuple):
    """What to save."""

    settings: Settings
    home: str
    env: Mapping[str, str]
    config_path: str | None
    """mdrecall's own configuration file."""
    memories: Sequence[Mapping[str, Any]]
    """The long-term memories."""
    redact: Callable[[str], str]
    now: datetime
    with_sessions: bool = False


class BackupReport(NamedTuple):
    """What an archive holds."""

    files: Mapping[str, Mapping[str, Any]]
    """Size, hash and time of every file by its name in the archive."""
    bytes: int
    left_out: tuple[str, ...]
    changing: tuple[str, ...]
    """Notes that changed again and again while they were saved; each is whole, but they may not fit together."""
    secrets: tuple[str, ...]
    """The settings that were left out because they are secret."""

    def count(self, prefix: str) -> int:
        """Return how many files have a name with this prefix."""
        return sum(name.startswith(prefix) for name in self.files)


#: The name of a file in the archive, its content, and when it was changed, in nanoseconds.
_Part: TypeAlias = tuple[str, bytes, int]


def write_backup(request: BackupRequest, target: str, *, overwrite: bool = False) -> BackupReport:
    """Write the archive ``target``, whole or not at all, readable by its owner only."""
    if os.path.lexists(target) and not overwrite:
        raise FileUnwritable(f"{target} already exists.", path=target, hint="Give another name.")
    _remove_leftovers(os.path.dirname(target), request.now.timestamp())
    for last in (*(False,) * (_ROUNDS - 1), True):
        try:
            with draft(target) as file:
                # What is locked is no leftover.
                try_flock(file.file.fileno())
                report = _write(request, file.file)
                if not report.files:
                    message = f"There is nothing to save in {request.settings.workspace}."
                    raise NothingToWrite(message, path=target, hint="Choose the folder with the notes.")
                if last or not report.changing:
                    file.file.flush()
                    os.fsync(file.file.fileno())
                    size = file.file.tell()
                    file.publish()
                    return report._replace(bytes=size)
        except OSError as error:
            hint = "Nothing was saved. Check the disk and the permissions."
            raise FileUnwritable(
                f"Cannot write {target}: {error.strerror or error}.", path=target, hint=hint
            ) from error
    raise AssertionError("unreachable")


def _remove_leftovers(folder: str, now_s: float) -> None:
    """Remove the archives that killed processes have begun in a folder. They are as private as the notes, and large."""
    with suppress(OSError):
        for name in filter(_LEFTOVER.fullmatch, os.listdir(folder)):
            path = os.path.join(folder, name)
            with suppress(OSError), open(path, "rb") as file:
                is_old = now_s - os.fstat(file.fileno()).st_mtime > _UNLOCKED_S
                if is_old and try_flock(file.fileno()):
                    os.unlink(path)


def _write(request: BackupRequest, file: IO[bytes]) -> BackupReport:
    files: dict[str, dict[str, Any]] = {}
    left_out: list[str] = []
    notes = _scan(request)
    settings, secrets = _read_settings(request)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        parts = chain(_read_notes(request, notes, left_out), _read_others(request, left_out), settings)
        for name, data, changed_ns in parts:
            archive.writestr(_member(name), data)
            files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "changedNs": changed_ns}
        after = _scan(request)
        changing = tuple(sorted(path for path in {*notes, *after} if notes.get(path) != after.get(path)))
        manifest = {
            "format": FORMAT,
            "program": f"mdrecall {mdrecall.__version__}",
            "created": request.now.isoformat(timespec="seconds"),
            "workspace": os.path.basename(request.settings.workspace),
            "agent": request.settings.agent_id,
            "leftOut": left_out,
            "changing": changing,
            "files": files,
        }
        archive.writestr(_member(MANIFEST), json.dumps(manifest, ensure_ascii=False, indent=1))
    return BackupReport(files, 0, tuple(left_out), changing, secrets)


def _scan(request: BackupRequest) -> dict[str, Stamp]:
    """Return the notes with their stamps."""
    return dict(MemoryFiles(request.settings, request.home).scan().stamps)


def _member(name: str) -> zipfile.ZipInfo:
    """Return the entry of a file: its own time stands in the manifest, so the same files make the same entries."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    return info


def _read_notes(request: BackupRequest, notes: Mapping[str, Stamp], left_out: list[str]) -> Iterator[_Part]:
    """Yield the notes in the workspace; those of extra paths elsewhere belong to another folder."""
    inside = sorted(path for path in notes if not path.startswith("../") and not os.path.isabs(path))
    if len(inside) < len(notes):
        left_out.append(f"{len(notes) - len(inside):,} notes of extra paths outside the workspace are not in it")
    for path in inside:
        yield from _try_read(request.settings.workspace, path, NOTES + path, left_out)


def _read_others(request: BackupRequest, left_out: list[str]) -> Iterator[_Part]:
    """Yield the memories, the state and the conversations."""
    if request.memories:
        lines = [json.dumps(memory, ensure_ascii=False, separators=(",", ":")) for memory in request.memories]
        yield MEMORIES, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"), 0
    if forgotten := open_tombstones(request.settings).merge(b""):
        yield FORGOTTEN, forgotten, 0
    folder, index = os.path.split(request.settings.index_path)
    for name, ending in STATE_FILES.items():
        yield from _try_read(folder, index + ending, STATE + name, left_out)
    sessions = request.settings.sessions_dir
    if request.with_sessions and os.path.isdir(sessions):
        for name in sorted(os.listdir(sessions)):
            if name == "sessions.json" or ".jsonl" in name:
                yield from _try_read(sessions, name, SESSIONS + name, left_out)


def _try_read(folder: str, path: str, name: str, left_out: list[str]) -> Iterator[_Part]:
    """Yield a file, unless it is gone; one that cannot be read is named."""
    try:
        opened = read_below(folder, path, shown=path, max_bytes=MAX_FILE_BYTES)
    except FileMissing:
        return
    except ReadError as error:
        left_out.append(str(error))
        return
    yield name, opened.data, opened.stamp[1]


def _read_settings(request: BackupRequest) -> tuple[list[_Part], tuple[str, ...]]:
    """Return mdrecall's own settings without secrets, and which those were."""
    if not request.config_path or not os.path.isfile(request.config_path):
        return [], ()
    secrets: list[str] = []
    values = _drop_secrets(read_config(request.config_path, request.env), "", request.redact, secrets)
    data = json.dumps(values, ensure_ascii=False, indent=2).encode("utf-8", "replace")
    return [(SETTINGS, data, os.stat(request.config_path).st_mtime_ns)], tuple(secrets)


def _drop_secrets(value: Any, at: str, redact: Callable[[str], str], secrets: list[str]) -> Any:
    """Return a value of the settings without the texts that are secret, whose places are added to ``secrets``."""
    if not isinstance(value, dict | list):
        return value
    inner = {name: f"{at}.{name}".lstrip(".") for name in value} if isinstance(value, dict) else {}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    kept = {
        name: _drop_secrets(item, place, redact, secrets)
        for name, item in items
        if not _is_secret(item, place := inner.get(name, f"{at}[{name}]"), redact, secrets)
    }
    return kept if isinstance(value, dict) else list(kept.values())


def _is_secret(value: Any, at: str, redact: Callable[[str], str], secrets: list[str]) -> bool:
    """True for a text that looks like a secret, or stands where one does; what only refers to a variable is none."""
    if not isinstance(value, str) or not value or _REFERENCE.fullmatch(value):
        return False
    names = at.split(".")
    is_place = _SECRET_NAME.fullmatch(names[-1]) or "headers" in names or names[0] == "env"
    if is_place or redact(value) != value:
        secrets.append(at)
        return True
    return False


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
        files = _read_files(archive, path)
        names = archive.namelist()
        if len(names) != len(set(names)) or set(names) - {MANIFEST} != set(files):
            raise _damage_error(path, "its files are not those of its manifest")
        if sum(info.file_size for info in archive.infolist()) > _MAX_TOTAL_BYTES:
            raise _damage_error(path, f"it would unpack to more than {_MAX_TOTAL_BYTES:,} bytes")
        for name, known in files.items():
            _check(archive, path, name, known)
        yield Backup(path, archive, files)


def _read_files(archive: zipfile.ZipFile, path: str) -> dict[str, dict[str, Any]]:
    """Return what the manifest says about each file."""
    hint = "Name an archive that an export has written."
    if MANIFEST not in archive.namelist() or archive.getinfo(MANIFEST).file_size > _MAX_MANIFEST_BYTES:
        raise NotAFile(f"{path} is not a backup of mdrecall.", path=path, hint=hint)
    with open_member(archive, MANIFEST, path) as raw:
        data = raw.read()
    try:
        about = json.loads(data)
        is_valid = isinstance(about["format"], int) and isinstance(about["files"], dict)
        is_valid = is_valid and all(isinstance(known, dict) for known in about["files"].values())
    except (ValueError, KeyError, TypeError, RecursionError):
        is_valid = False
    if not is_valid:
        raise NotAFile(f"{path} is not a backup of mdrecall.", path=path, hint=hint)
    if about["format"] > FORMAT:
        message = f"{path} was written by a later version of mdrecall."
        raise NotAFile(message, path=path, hint="Update mdrecall.")
    return dict(about["files"])


def _check(archive: zipfile.ZipFile, path: str, name: str, known: Mapping[str, Any]) -> None:
    digest = hashlib.sha256()
    with _open(archive, name, path) as raw:
        while part := raw.read(_READ_BYTES):
            digest.update(part)
    if digest.hexdigest() != known.get("sha256"):
        raise _damage_error(path, f"{name} is not what was saved")


def _open(archive: zipfile.ZipFile, name: str, path: str) -> IO[bytes]:
    """Open a file of a backup. A note that repeats itself may be packed to next to nothing; its size is bounded."""
    return open_member(archive, name, path, max_bytes=MAX_FILE_BYTES, max_ratio=MAX_FILE_BYTES)


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
        if name.startswith(NOTES):
            done.append(_restore_note(found, target, name, (ours, theirs), apply=apply))
        elif name not in (MEMORIES, FORGOTTEN):
            done.append(_restore_file(found, target, name, apply=apply))
    return done


def _restore_note(
    found: Backup, target: RestoreTarget, name: str, tombstones: tuple[Tombstones, ...], *, apply: bool
) -> Restored:
    path = name.removeprefix(NOTES)
    if problem := _explain_refusal(path):
        return Restored(name, path, "refused", problem)
    content = _mask(found.read(name), path, tombstones)
    if content is None:
        return Restored(name, path, "forgotten", "it was forgotten")
    workspace = target.settings.workspace
    try:
        old = read_below(workspace, path, shown=path, max_bytes=MAX_FILE_BYTES).data
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
            old = file.read(MAX_FILE_BYTES)
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
    if name == SETTINGS:
        # Settings say where texts are sent: nobody gets them from an archive without asking.
        return target.config_path, "" if target.with_settings else "settings are restored only on request"
    kind = name.removeprefix(STATE)
    if name.startswith(STATE) and kind in STATE_FILES:
        return settings.index_path + STATE_FILES[kind], ""
    session = name.removeprefix(SESSIONS)
    if name.startswith(SESSIONS) and _SESSION.fullmatch(session):
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
    return Restored(FORGOTTEN, target.settings.workspace, "new" if is_new else "same")


def _read_forgotten(found: Backup) -> bytes:
    return found.read(FORGOTTEN) if FORGOTTEN in found.files else b""


def read_memories(found: Backup) -> Iterator[dict[str, Any]]:
    """Yield the long-term memories of a backup."""
    if MEMORIES in found.files:
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
                raise FileTooLarge(message, path=path, hint="Unpack what is needed of it.")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        # What zipfile raises for a damaged archive, an encrypted one, and a packing that it does not know.
        reason = getattr(error, "strerror", None) or str(error).rstrip(".") or type(error).__name__
        hint = "Download it again, or unpack it and name the folder."
        raise FileUnreadable(f"Cannot read {path}: {reason}.", path=path, hint=hint) from error


def open_member(
    archive: zipfile.ZipFile, name: str, path: str, *, max_bytes: int = MAX_BYTES, max_ratio: int = _MAX_RATIO
) -> IO[bytes]:
    """Open a file of an archive, unless it would unpack to far more than it should; no more bytes than it says come."""
    info = archive.getinfo(name)
    is_bomb = info.file_size > _SMALL_BYTES and info.file_size > max_ratio * max(1, info.compress_size)
    if is_bomb or info.file_size > max_bytes:
        message = f"{name} in {path} would unpack to {info.file_size:,} bytes."
        raise FileTooLarge(message, path=path, hint="If it is yours, unpack it and name the file.")
    return archive.open(info)
