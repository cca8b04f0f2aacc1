"""Change notes for a person: replace, create and delete them, each whole or not at all.

Only notes that are searched are changed, and only if they are still what that person has read. A deleted note is in
the folder ``.trash`` of the workspace, from which it can be restored: ``memory/people/priya.md`` becomes
``.trash/20261116T081500Z-1f2e3d4c/memory/people/priya.md.deleted``. With that ending no program takes it for a note.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple
from urllib.parse import unquote

from mdrecall import platform
from mdrecall.errors import FileMissing, FileUnwritable, PathRefused, ReadError
from mdrecall.memory import Memory
from mdrecall.notes.clock import user_time
from mdrecall.notes.editing import change_error, hash_content, remove_note, replace_content
from mdrecall.notes.files import MemoryFiles
from mdrecall.notes.notes import create_file, resolve_note
from mdrecall.notes.opening import open_below, open_parent, read_below
from mdrecall.notes.reader import find_candidates

DELETED_FOLDER = ".trash"
_ENDING = ".deleted"
_RUN = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-[0-9a-f]{8}")
_BOM = "\ufeff"
_LINE_END = re.compile(r"\r\n|\r|\n")
_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Note(NamedTuple):
    """A note that may be changed."""

    path: str
    """As results show it."""
    root: str
    inside: str
    """The path inside of the trusted folder ``root``."""
    found: os.stat_result
    data: bytes = b""
    """Its content, once it was read."""

    @property
    def hash(self) -> str:
        return hash_content(self.data)

    @property
    def text(self) -> str:
        """The text as a form shows it. Raise ``FileUnwritable`` if a form would lose something."""
        return _LINE_END.sub("\n", _decode(self.data, self.path).removeprefix(_BOM))


class DeletedNote(NamedTuple):
    """A note in the trash."""

    inside: str
    """Its path in the workspace, by which it is chosen."""
    path: str
    """Where it was."""
    at: str
    """When it was deleted, as ISO 8601."""
    bytes: int


class Curator:
    """Changes the notes of one memory."""

    def __init__(self, memory: Memory) -> None:
        self._settings = memory.settings
        self._files = MemoryFiles(memory.settings, memory.loaded.home if memory.loaded else os.sep)

    def locate(self, path: str) -> Note:
        """Return where a note is; raise a ``ReadError`` if it is not one that is searched."""
        refused: ReadError = FileMissing(f"There is no note {path}.", path=path)
        for root, inside, shown in find_candidates(self._files, self._settings.workspace, path):
            try:
                return Note(shown, root.folder, inside, _find_status(root.folder, inside, shown))
            except ReadError as error:
                refused = error
        raise refused

    def read(self, path: str) -> Note:
        """Return a note with its content as it is on the disk."""
        note, max_bytes = self.locate(path), self._settings.mdrecall.max_file_bytes
        return note._replace(data=read_below(note.root, note.inside, shown=note.path, max_bytes=max_bytes))

    def save(self, path: str, text: str, expected_hash: str) -> None:
        """Replace the text of a note. Raise ``FileChanged`` if it is not the one that the hash stands for."""
        note = self._read_expected(path, expected_hash)
        content = merge_text(note.data, text, path)
        self._check_size(content, path)
        replace_content(note.root, note.inside, content, expected_hash)

    def create(self, path: str, text: str, now: datetime) -> str:
        """Write a new note and return its path. Raise ``FileBusy`` if there is one."""
        new = self._place_new(path, now)
        content = "".join(line.rstrip("\r\n") + "\n" for line in _LINES.findall(text)).encode("utf-8", "replace")
        self._check_size(content, new.path)
        create_file(new.root, new.inside, content, shown=new.path)
        return new.path

    def delete(self, path: str, expected_hash: str, now: datetime) -> DeletedNote:
        """Move a note into the trash of the workspace, from where it can be restored."""
        note = self._read_expected(path, expected_hash)
        deleted = put_into_deleted(self._settings.workspace, note.path, note.data, note.found, now)
        try:
            remove_note(note.root, note.inside, expected_hash)
        except BaseException:
            remove_deleted(self._settings.workspace, deleted)
            raise
        return deleted

    def restore(self, id: str) -> str:
        """Put a deleted note back where it was and return its path. Raise ``FileBusy`` if there is another one."""
        workspace = self._settings.workspace
        deleted = find_deleted(workspace, id)
        root, inside, shown = next(iter(find_candidates(self._files, workspace, deleted.path)))
        max_bytes = self._settings.mdrecall.max_file_bytes
        data = read_below(workspace, deleted.inside, shown=shown, max_bytes=max_bytes)
        create_file(root.folder, inside, data, like=_find_status(workspace, deleted.inside, shown), shown=shown)
        remove_deleted(workspace, deleted)
        return shown

    def _read_expected(self, path: str, expected_hash: str) -> Note:
        """Return a note as it was shown. What it has become meanwhile must not be written in its place."""
        note = self.read(path)
        if note.hash != expected_hash:
            raise change_error(path)
        return note

    def _check_size(self, content: bytes, path: str) -> None:
        if len(content) > self._settings.mdrecall.max_file_bytes:
            message = f"{path} would have more than {self._settings.mdrecall.max_file_bytes:,} bytes."
            hint = "Nothing was written. Split the note, or raise mdrecall.maxFileBytes."
            raise FileUnwritable(message, path=path, hint=hint)

    def _place_new(self, path: str, now: datetime) -> Note:
        """Return where a new note of a name goes, if it would be searched there."""
        today = user_time(now, None, self._settings.defaults.user_timezone).date().isoformat()
        listing = self._files.scan()
        is_plain = self._files.is_plain_folder() and bool(listing.stamps)
        asked = path.strip().removeprefix("./")
        folder = asked.rpartition("/")[0]
        note = resolve_note(asked, today=today, is_plain=is_plain, ignored=self._settings.mdrecall.ignore)
        if folder and folder in listing.places and not folder.startswith(".."):
            # The folder has notes already, so it is meant as it is written.
            note = note._replace(folder=folder)
        with suppress(ReadError):
            for root, inside, shown in find_candidates(self._files, self._settings.workspace, note.shown):
                return Note(shown, root.folder, inside, os.stat(root.folder))
        hint = "Give a folder whose notes are searched, such as memory/."
        raise PathRefused(f"A note at {path.strip()[:80]!r} would not be searched.", path=path, hint=hint)


def _find_status(root: str, inside: str, shown: str) -> os.stat_result:
    file = open_below(root, inside, shown=shown)
    try:
        return os.fstat(file)
    finally:
        os.close(file)


def merge_text(data: bytes, text: str, path: str) -> bytes:
    """Return a file's content with the text of a form, other lines byte for byte; raise ``FileUnwritable``."""
    before = _decode(data, path)
    bom = _BOM if before.startswith(_BOM) else ""
    old, new = _LINES.findall(before.removeprefix(_BOM)), _LINES.findall(text)
    shown, given = ([_LINE_END.sub("\n", line) for line in lines] for lines in (old, new))
    first = _count_same(shown, given)
    last = _count_same(shown[first:][::-1], given[first:][::-1])
    end = _LINE_END.search(old[0]) if old else None
    middle = [line.replace("\n", end[0] if end else "\n") for line in given[first : len(new) - last]]
    return "".join((bom, *old[:first], *middle, *old[len(old) - last :])).encode("utf-8", "replace")


def _count_same(one: Sequence[str], two: Sequence[str]) -> int:
    """Return how many items two sequences have in common at their beginning."""
    most = min(len(one), len(two))
    return next((number for number in range(most) if one[number] != two[number]), most)


def _decode(data: bytes, path: str) -> str:
    """Return the text of a note that a form can show and send back."""
    with suppress(UnicodeDecodeError):
        if "\0" not in (text := data.decode()):
            return text
    hint = "Nothing was written. Save it as UTF-8, or change it with an editor."
    raise FileUnwritable(f"{path} holds bytes that are not text, which a form would lose.", path=path, hint=hint)


def put_into_deleted(workspace: str, path: str, data: bytes, found: os.stat_result, now: datetime) -> DeletedNote:
    """Write a copy of a note into the trash; the caller removes the note itself."""
    run = f"{now:%Y%m%dT%H%M%SZ}-{os.urandom(4).hex()}"
    inside = "/".join((DELETED_FOLDER, run, *map(_encode, path.split("/")))) + _ENDING
    create_file(workspace, inside, data, like=found)
    return DeletedNote(inside, path, f"{now:%Y-%m-%dT%H:%M:%SZ}", len(data))


def list_deleted(workspace: str) -> list[DeletedNote]:
    """Return the notes in the trash, the one that was deleted last first."""
    notes = []
    for inside in list_trash_files(workspace):
        if path := original_path(inside):
            at = _RUN.sub(r"\1-\2-\3T\4:\5:\6Z", inside.split("/")[1])
            with suppress(OSError):
                notes.append(DeletedNote(inside, path, at, os.lstat(os.path.join(workspace, inside)).st_size))
    return sorted(notes, key=lambda note: (note.at, note.path), reverse=True)


def find_deleted(workspace: str, inside: str) -> DeletedNote:
    """Return a note in the trash by its path there; raise ``FileMissing`` if it is not in it."""
    for note in list_deleted(workspace):
        if note.inside == inside:
            return note
    raise FileMissing("It is not in the trash.", path=inside, hint="Take one from the list of deleted notes.")


def remove_deleted(workspace: str, note: DeletedNote) -> None:
    """Remove a note from the trash for good."""
    parent, name = open_parent(workspace, note.inside, shown=note.inside)
    try:
        with suppress(FileNotFoundError):
            platform.unlink(name, dir_fd=parent)
    finally:
        os.close(parent)
    remove_empty_folders(workspace, note.inside)


def remove_empty_folders(workspace: str, inside: str) -> None:
    """Remove the folders of a file in the trash that is gone, as far as they are empty, and the trash itself."""
    folder = os.path.dirname(inside)
    with suppress(OSError):
        while folder:
            os.rmdir(os.path.join(workspace, folder))
            folder = os.path.dirname(folder)


def list_trash_files(workspace: str) -> Iterator[str]:
    """Yield the path of every file in the trash, also of those that another program has put there."""
    waiting = [DELETED_FOLDER]
    while waiting:
        folder = waiting.pop()
        with suppress(OSError):
            if stat.S_ISLNK(os.lstat(os.path.join(workspace, folder)).st_mode):
                continue
            for entry in sorted(os.scandir(os.path.join(workspace, folder)), key=lambda entry: entry.name):
                inside = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(inside)
                elif entry.is_file(follow_symlinks=False):
                    yield inside


def original_path(inside: str) -> str:
    """Return where a file in the trash was; empty if that cannot be told."""
    _, run, *parts = inside.split("/")
    if not _RUN.fullmatch(run) or not parts or not inside.endswith(_ENDING):
        return ""
    return "/".join(map(unquote, parts)).removesuffix(_ENDING)


def _encode(part: str) -> str:
    """Return a part of a path as the name of a file or folder, from which it can be read again."""
    return "%2E%2E" if part == ".." else part.replace("%", "%25")
