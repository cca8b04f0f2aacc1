"""What is being added in place of which line, so that a process that was killed halfway is finished by the next one.

The journal is written before the note, and removed when the old line is marked. It holds paths and hashes, no text.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from mdrecall.errors import FileBusy
from mdrecall.locks import FileLock
from mdrecall.state_files import load, make_private_folder

#: Longer than a note and a mark take; after that the other process hangs.
_WAIT_S = 10.0


class Replacement(NamedTuple):
    """A note that was being added in place of a line."""

    path: str
    line: int
    old: str
    """The hash of the line."""
    new: tuple[str, ...]
    """The hashes of the lines of the note."""

    def find_new(self, lines: Sequence[str]) -> range | None:
        """Return the lines, counted from 1, where a file holds the note; None if it does not hold all of it."""
        places = {hash_line(line): place for place, line in enumerate(lines, start=1)}
        found = [places.get(line, 0) for line in self.new]
        return range(min(found), max(found) + 1) if found and all(found) else None


def hash_line(line: str) -> str:
    """Return what stands for a line, without the blanks around it."""
    return hashlib.sha256(line.strip().encode("utf-8", "replace")).hexdigest()


@contextmanager
def keep_journal(index_path: str, path: str, line: int, old: str, new: str) -> Iterator[None]:
    """Note down what is about to happen, for as long as it takes.

    Where the folder of the index cannot be written there is no journal, which is no reason to refuse a note.
    """
    lock = FileLock(_lock_path(index_path))
    content = {"path": path, "line": line, "old": hash_line(old), "new": [hash_line(one) for one in _lines(new)]}
    try:
        with suppress(OSError):
            make_private_folder(os.path.dirname(index_path))
            if not lock.acquire(_WAIT_S, "replacing a line"):
                message = "Another process has been replacing a line for too long."
                raise FileBusy(message, path=path, hint="Try again; nothing was written.")
            # Half a journal is none: the note is added after it is written.
            file = os.open(_journal_path(index_path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(file, "w", encoding="utf-8") as journal:
                json.dump(content, journal)
        yield
    finally:
        if lock.is_held:
            _remove(index_path)
        lock.release()


@contextmanager
def take_unfinished(index_path: str) -> Iterator[Replacement | None]:
    """Give what a killed process has left unfinished, and forget it unless an error is raised; None if nothing is."""
    lock = FileLock(_lock_path(index_path))
    if not os.path.lexists(_journal_path(index_path)):
        lock.sweep()
        yield None
        return
    try:
        is_taken = lock.acquire(0, "finishing what was broken off")
    except OSError:
        is_taken = False
    try:
        yield _read(index_path) if is_taken else None
        if is_taken:
            _remove(index_path)
    finally:
        lock.release()


def _read(index_path: str) -> Replacement | None:
    content = load(_journal_path(index_path))
    try:
        new = tuple(str(line) for line in content["new"])
        return Replacement(str(content["path"]), int(content["line"]), str(content["old"]), new)
    except (KeyError, TypeError, ValueError):
        return None


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _remove(index_path: str) -> None:
    with suppress(OSError):
        os.unlink(_journal_path(index_path))


def _journal_path(index_path: str) -> str:
    return f"{index_path}.replacing"


def _lock_path(index_path: str) -> str:
    return f"{index_path}.replacing.lock"
