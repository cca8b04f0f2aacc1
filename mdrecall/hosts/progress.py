"""How far the digests of a host's session have come: one small file per session, and a lock while it is used.

The file is a hint that saves reading a transcript again. What a note says about itself counts more (``find_mark``), so
a lost or outdated file loses nothing and writes nothing twice.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mdrecall import state_files
from mdrecall.config.settings import Settings
from mdrecall.core.conversation.digest import safe_name
from mdrecall.locks import FileLock

_FOLDER = "mdrecall-hosts"
_ENDING = ".json"
#: How long to wait for another process at the same session; it needs a fraction of this, or its disk hangs.
_WAIT_S = 2.0


class Progress(NamedTuple):
    """How far the digests of a session have come."""

    host: str = ""
    session: str = ""
    transcript: str = ""
    folder: str = ""
    place: str = ""
    since: str = ""
    """Earlier records belong to the session that this one was forked from; empty if it was not."""
    number: int = 0
    """The last record that was read."""
    offset: int = 0
    """Where to read on in the transcript."""
    seen: str = ""
    """The stamp of the transcript when all of it had been read."""
    day: str = ""
    """The day of the last note that was written."""
    pending: str = ""
    """A section that is about to be written to the note of ``pending_day``; empty if none is."""
    pending_day: str = ""
    pending_number: int = 0
    pending_offset: int = 0


def progress_folder(settings: Settings) -> str:
    """Return the folder with the files of all sessions of a workspace."""
    return os.path.join(settings.state_dir, _FOLDER)


def progress_path(settings: Settings, host: str, session: str) -> str:
    """Return the path of a session's file."""
    return os.path.join(progress_folder(settings), f"{safe_name(host)}-{safe_name(session)}{_ENDING}")


def stamp_of_file(path: str) -> str:
    """Return a text that changes with a file; empty if the file is gone.

    The time alone is not enough: the kernel's clock stands still for milliseconds.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{found.st_mtime_ns}-{found.st_size}"


def list_progress(settings: Settings, limit: int) -> list[str]:
    """Return the paths of the sessions that were active last, the last one first."""
    try:
        with os.scandir(progress_folder(settings)) as entries:
            found = [(entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.name.endswith(_ENDING)]
    except OSError:
        return []
    return [path for _, path in sorted(found, reverse=True)[:limit]]


def load_progress(path: str) -> Progress:
    """Return what a file says; what is missing or of another kind is as in a new session."""
    new = Progress()
    found = state_files.load(path)
    return new._replace(
        **{name: found[name] for name, value in new._asdict().items() if type(found.get(name)) is type(value)}
    )


def save_progress(path: str, progress: Progress) -> None:
    """Write a session's file; raise ``OSError`` if that fails."""
    state_files.save(path, progress._asdict())


@contextmanager
def lock_session(path: str) -> Iterator[bool]:
    """Hold the lock of a session. Yield False if another process has it and goes on."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    lock = FileLock(f"{path}.lock")
    is_ours = lock.acquire(_WAIT_S, "writing a digest")
    try:
        yield is_ours
    finally:
        lock.release()
