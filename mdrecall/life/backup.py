"""A backup: notes, long-term memories, settings and what cannot be made again, in one zip archive with their hashes.

If notes change while the archive is written, it is written again, so that they fit together. The index is left out,
because it is made from the notes, and so are secrets in the settings.
"""

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain
from typing import IO, Any, NamedTuple

import mdrecall
from mdrecall.config.files import read_config
from mdrecall.config.settings import Settings
from mdrecall.errors import FileMissing, FileUnwritable, NothingToWrite, ReadError
from mdrecall.locks import try_flock
from mdrecall.sources.files import MemoryFiles
from mdrecall.sources.opening import read_below
from mdrecall.sources.tombstones import open_tombstones
from mdrecall.state_files import draft
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


class _Part(NamedTuple):
    name: str
    data: bytes
    changed_ns: int = 0


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
        for part in chain(_read_notes(request, notes, left_out), _read_others(request, left_out), settings):
            archive.writestr(_member(part.name), part.data)
            digest = hashlib.sha256(part.data).hexdigest()
            files[part.name] = {"bytes": len(part.data), "sha256": digest, "changedNs": part.changed_ns}
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
        yield _Part(MEMORIES, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    if forgotten := open_tombstones(request.settings).merge(b""):
        yield _Part(FORGOTTEN, forgotten)
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
    yield _Part(name, opened.data, opened.stamp[1])


def _read_settings(request: BackupRequest) -> tuple[list[_Part], tuple[str, ...]]:
    """Return mdrecall's own settings without secrets, and which those were."""
    if not request.config_path or not os.path.isfile(request.config_path):
        return [], ()
    secrets: list[str] = []
    values = _drop_secrets(read_config(request.config_path, request.env), "", request.redact, secrets)
    data = json.dumps(values, ensure_ascii=False, indent=2).encode("utf-8", "replace")
    return [_Part(SETTINGS, data, os.stat(request.config_path).st_mtime_ns)], tuple(secrets)


def _drop_secrets(value: Any, at: str, redact: Callable[[str], str], secrets: list[str]) -> Any:
    """Return a value of the settings without the texts that are secret, whose places are added to ``secrets``."""
    if isinstance(value, dict):
        inner = {name: f"{at}.{name}".lstrip(".") for name in value}
        kept = [name for name in value if not _is_secret(value[name], inner[name], redact, secrets)]
        return {name: _drop_secrets(value[name], inner[name], redact, secrets) for name in kept}
    if isinstance(value, list):
        items = [(item, f"{at}[{number}]") for number, item in enumerate(value)]
        kept_items = [(item, place) for item, place in items if not _is_secret(item, place, redact, secrets)]
        return [_drop_secrets(item, place, redact, secrets) for item, place in kept_items]
    return value


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
