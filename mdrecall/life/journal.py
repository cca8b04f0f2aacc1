"""The journal of edits: what takes an edit of notes back, or finishes it, in a folder beside the index.

Each entry is a file. ``forget`` keeps removed lines until a day, for those who ask for it; without that nothing is kept
of a forgotten text. A promotion keeps a size and two hashes, and no text. A replacement keeps hashes for as long as it
takes, so that a process that was killed halfway is finished by the next one.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall import state_files
from mdrecall.errors import FileBusy, FileChanged, FileMissing, ReadError
from mdrecall.locks import FileLock
from mdrecall.notes.opening import read_below

if TYPE_CHECKING:
    from mdrecall.notes.editing import LineEdit

_ENDING = ".json"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
#: The entry of the replacement that is under way.
_REPLACEMENT = "replacing"
#: Longer than a note and a mark take; after that the other process hangs.
_WAIT_S = 10.0


class RemovedText(NamedTuple):
    """What was removed from one note."""

    root: str
    """The folder that the note is in, or in a folder of it."""
    inside: str
    after: str
    """The hash of the note's content without it; empty if the whole note was removed."""
    edits: "tuple[LineEdit, ...]" = ()
    """The edits that put it back."""
    content: bytes = b""
    """The content of a note that was removed as a whole."""

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(line for edit in self.edits for line in edit.lines)


def journal_folder(index_path: str) -> str:
    """Return the folder of the journal, beside the index."""
    return f"{index_path}.trash"


def list_entries(index_path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each entry with its name, in the order of the names."""
    with suppress(OSError):
        for file in sorted(os.listdir(journal_folder(index_path))):
            if file.endswith(_ENDING) and not file.startswith("."):
                yield file.removesuffix(_ENDING), state_files.load(os.path.join(journal_folder(index_path), file))


def save_entry(index_path: str, name: str, content: dict[str, Any]) -> None:
    """Write an entry, whole or not at all; raise ``OSError`` if that fails."""
    state_files.save(_path_of(index_path, name), content)


def load_entry(index_path: str, name: str) -> dict[str, Any]:
    """Return an entry; empty if there is none."""
    return state_files.load(_path_of(index_path, name))


def drop_entry(index_path: str, name: str) -> None:
    """Delete an entry, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(_path_of(index_path, name))
    with suppress(OSError):
        os.rmdir(journal_folder(index_path))


def _path_of(index_path: str, name: str) -> str:
    return os.path.join(journal_folder(index_path), os.path.basename(name) + _ENDING)


def keep_removed(index_path: str, name: str, until: str, removed: Sequence[RemovedText]) -> None:
    """Keep what is about to be removed until a day (``YYYY-MM-DD``); raise ``OSError`` if that fails."""
    notes = [
        entry._asdict() | {"edits": list(entry.edits), "content": entry.content.decode("utf-8", "surrogateescape")}
        for entry in removed
    ]
    save_entry(index_path, name, {"until": until, "notes": notes})


def find_removed(index_path: str, name: str) -> tuple[RemovedText, ...] | None:
    """Return the texts that were removed under a name; None if they were not kept."""
    content = load_entry(index_path, name)
    return tuple(_read_removed(entry) for entry in content["notes"]) if "notes" in content else None


def _read_removed(entry: dict[str, Any]) -> RemovedText:
    from mdrecall.notes.editing import LineEdit

    edits = tuple(LineEdit(first, last, tuple(lines)) for first, last, lines in entry["edits"])
    content = entry["content"].encode("utf-8", "surrogateescape")
    return RemovedText(entry["root"], entry["inside"], entry["after"], edits, content)


def empty_expired(index_path: str, today: str) -> None:
    """Delete every entry that was to be kept until a day before today."""
    for name, content in list(list_entries(index_path)):
        if "until" in content and str(content["until"]) < today:
            drop_entry(index_path, name)


def restore_text(removed: RemovedText, max_bytes: int) -> str:
    """Put back what was removed from one note. Return how: ``restored``, or ``appended`` if the note has changed."""
    # Every `mdrecall index` looks into the journal, and hardly ever is there anything to write.
    from mdrecall.notes.editing import LineEdit, hash_content, replace_lines
    from mdrecall.notes.notes import create_file

    root, inside, after, edits, content = removed
    try:
        now = read_below(root, inside, shown=inside, max_bytes=max_bytes).data
    except FileMissing:
        create_file(root, inside, content or "\n".join((*removed.lines, "")).encode())
        return "restored" if content else "appended"
    except ReadError as error:
        raise FileChanged(str(error), path=inside, hint=error.hint) from error
    if hash_content(now) == after:
        replace_lines(root, inside, edits, after)
        return "restored"
    count = now.count(b"\n") + 1
    lines = removed.lines or tuple(content.decode("utf-8", "replace").rstrip("\n").split("\n"))
    replace_lines(root, inside, [LineEdit(count, count - 1, lines)], hash_content(now))
    return "appended"


def hash_line(line: str) -> str:
    """Return what stands for a line, without the blanks around it."""
    return hashlib.sha256(line.strip().encode("utf-8", "replace")).hexdigest()


def find_lines(hashes: Sequence[str], lines: Sequence[str]) -> range | None:
    """Return where a file, counted from 1, holds the lines of these hashes; None if it does not hold all of them."""
    places = {hash_line(line): place for place, line in enumerate(lines, start=1)}
    found = [places.get(line, 0) for line in hashes]
    return range(min(found), max(found) + 1) if found and all(found) else None


@contextmanager
def keep_replacement(index_path: str, path: str, line: int, old: str, new: str) -> Iterator[None]:
    """Note down which line is about to be replaced by which text, for as long as it takes.

    Where the folder of the index cannot be written there is no entry, which is no reason to refuse a note.
    """
    lock = FileLock(_lock_path(index_path))
    lines = [hash_line(one) for one in new.splitlines() if one.strip()]
    try:
        with suppress(OSError):
            state_files.make_private_folder(journal_folder(index_path))
            if not lock.acquire(_WAIT_S, "replacing a line"):
                message = "Another process has been replacing a line for too long."
                raise FileBusy(message, path=path, hint="Try again; nothing was written.")
            # Half an entry is none: the note is added after it is written. A temporary file would outlive a kill.
            file = os.open(_path_of(index_path, _REPLACEMENT), _CREATE, 0o600)
            with open(file, "w", encoding="utf-8") as opened:
                json.dump({"path": path, "line": line, "old": hash_line(old), "new": lines}, opened)
        yield
    finally:
        if lock.is_held:
            drop_entry(index_path, _REPLACEMENT)
        lock.release()


@contextmanager
def take_unfinished(index_path: str) -> Iterator[Mapping[str, Any] | None]:
    """Give the replacement that a killed process has left unfinished, if any. Drop it unless an error is raised."""
    lock = FileLock(_lock_path(index_path))
    if not os.path.lexists(_path_of(index_path, _REPLACEMENT)):
        lock.sweep()
        yield None
        return
    try:
        is_taken = lock.acquire(0, "finishing what was broken off")
    except OSError:
        is_taken = False
    try:
        content = load_entry(index_path, _REPLACEMENT) if is_taken else {}
        yield content if content.keys() >= {"path", "line", "old", "new"} else None
        if is_taken:
            drop_entry(index_path, _REPLACEMENT)
    finally:
        lock.release()


def _lock_path(index_path: str) -> str:
    return f"{index_path}.replacing.lock"
