"""How far the digests of a workspace's sessions have come: a small file per session, one for the section being written.

A session's file is a hint that saves reading a transcript again. What a note says about itself counts more
(``find_mark``), so a lost or outdated file loses nothing and writes nothing twice.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import NamedTuple, TypeVar

from mdrecall import state_files
from mdrecall.config.settings import Settings
from mdrecall.core.conversation.digest import safe_name
from mdrecall.locks import FileLock

_FOLDER = "mdrecall-hosts"
_ENDING = ".json"
#: Claude Code deletes a transcript after 30 days; what has not been touched since will not be needed again.
_KEEP_S = 31 * 24 * 3600
#: How long to wait for another process; it needs a fraction of this, or its disk hangs.
_WAIT_S = 2.0
#: How much of a transcript is read at once: six seconds of work if it is all messages, a tenth of one if it is output.
MAX_BYTES = 16 << 20


class Progress(NamedTuple):
    """How far the digests of a session have come."""

    host: str = ""
    session: str = ""
    transcript: str = ""
    folder: str = ""
    place: str = ""
    number: int = 0
    """The last record that was read."""
    offset: int = 0
    """Where to read on in the transcript."""
    seen: str = ""
    """The stamp of the transcript when all of it had been read."""
    day: str = ""
    """The day of the last note that was written."""


class Pending(NamedTuple):
    """A section that is about to be written. There is at most one in a workspace, so the next one can complete it."""

    text: str = ""
    """Empty if there is none."""
    day: str = ""
    """The day of the note."""
    file: str = ""
    """The name of the session's file."""
    number: int = 0
    """The last record that the section covers."""
    offset: int = 0
    seen: str = ""


_T = TypeVar("_T", Progress, Pending)


def progress_folder(settings: Settings) -> str:
    """Return the folder with the files of all sessions of a workspace."""
    return os.path.join(settings.state_dir, _FOLDER)


def progress_path(settings: Settings, host: str, session: str) -> str:
    """Return the path of a session's file."""
    return os.path.join(progress_folder(settings), f"{safe_name(host)}-{safe_name(session)}{_ENDING}")


def stamp_of_transcript(name: str) -> str:
    """Return a text that changes with a transcript; empty if it is gone.

    A transcript is a file, or ``<database>#<session>``, whose changes may stand in the log beside the database. Times
    alone are not enough: the kernel's clock stands still for milliseconds.
    """
    path = name if os.path.exists(name) else name.rpartition("#")[0]
    stamps = []
    for file in (path, f"{path}-wal"):
        with suppress(OSError, ValueError):
            found = os.stat(file)
            stamps.append(f"{found.st_mtime_ns}-{found.st_size}")
    return " ".join(stamps)


def list_progress(settings: Settings, limit: int, now: datetime) -> list[str]:
    """Return the paths of the sessions that were active last, the last one first. Old files are removed."""
    found: list[tuple[float, str]] = []
    with suppress(OSError), os.scandir(progress_folder(settings)) as entries:
        for entry in entries:
            with suppress(OSError):
                changed_s = entry.stat(follow_symlinks=False).st_mtime
                if changed_s < now.timestamp() - _KEEP_S:
                    os.unlink(entry.path)
                elif entry.name.endswith(_ENDING):
                    found.append((changed_s, entry.path))
    return [path for _, path in sorted(found, reverse=True)[:limit]]


def load_progress(path: str) -> Progress:
    """Return how far a session has come; what its file does not say is as in a new session."""
    return _load(path, Progress())


def save_progress(path: str, progress: Progress) -> None:
    """Write a session's file; raise ``OSError`` if that fails."""
    state_files.save(path, progress._asdict())


def load_pending(settings: Settings) -> Pending:
    """Return the section that is being written, or that a killed process has left behind."""
    return _load(_pending_path(settings), Pending())


def save_pending(settings: Settings, pending: Pending) -> None:
    """Write down a section before it is written to its note; raise ``OSError`` if that fails."""
    state_files.save(_pending_path(settings), pending._asdict())


def drop_pending(settings: Settings) -> None:
    """Remove the section that was written, or could not be."""
    with suppress(FileNotFoundError):
        os.unlink(_pending_path(settings))


@contextmanager
def lock_progress(settings: Settings, name: str = "lock", wait_s: float = _WAIT_S) -> Iterator[bool]:
    """Hold the lock on all these files of a workspace, or another one. Yield False if another process has it."""
    folder = progress_folder(settings)
    state_files.make_private_folder(folder)
    lock = FileLock(os.path.join(folder, name))
    is_ours = lock.acquire(wait_s, "writing a digest")
    try:
        yield is_ours
    finally:
        lock.release()


def _pending_path(settings: Settings) -> str:
    return os.path.join(progress_folder(settings), "pending")


def _load(path: str, new: _T) -> _T:
    found = state_files.load(path)
    known = {name: found[name] for name, value in new._asdict().items() if type(found.get(name)) is type(value)}
    return new._replace(**known)
