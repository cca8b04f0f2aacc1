"""Change notes for a person: replace, create, move and delete them, each whole or not at all.

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
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from mdrecall.errors import FileMissing, FileUnwritable, PathRefused, ReadError
from mdrecall.memory import Memory
from mdrecall.notes.clock import user_time
from mdrecall.notes.editing import change_error, find_codec, hash_content, remove_note, replace_content
from mdrecall.notes.files import MemoryFiles
from mdrecall.notes.notes import create_file, resolve_note
from mdrecall.notes.opening import open_below, open_parent, read_below
from mdrecall.notes.reader import find_candidates

DELETED_FOLDER = ".trash"
_ENDING = ".deleted"
_RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
#: Half characters, which stand for bytes that are not text, and zero bytes, which a form loses.
_UNSHOWABLE = re.compile("[\0\ud800-\udfff]")
_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class NotePlace(NamedTuple):
    """Where a note is."""

    path: str
    """As results show it."""
    root: str
    inside: str
    """The path inside of the trusted folder ``root``."""
    found: os.stat_result


class NoteContent(NamedTuple):
    """The bytes of a note, and where it is."""

    place: NotePlace
    data: bytes

    @property
    def hash(self) -> str:
        return hash_content(self.data)

    @property
    def text(self) -> str:
        """The text as a form shows it."""
        return "".join(text + ("\n" if end else "") for text, end, _, _ in _split(self.data))


class DeletedNote(NamedTuple):
    """A note in the trash."""

    inside: str
    """Its path in the workspace, by which it is chosen."""
    path: str
    """Where it was."""
    at: str
    """When it was deleted, as ISO 8601."""
    bytes: int


#: What a form shows of a line, its line end, its bytes, and True if the text is all of it.
_Line: TypeAlias = tuple[str, str, bytes, bool]


class Curator:
    """Changes the notes of one memory."""

    def __init__(self, memory: Memory) -> None:
        self._settings = memory.settings
        self._files = MemoryFiles(memory.settings, memory.loaded.home if memory.loaded else os.sep)

    def locate(self, path: str) -> NotePlace:
        """Return where a note is; raise a ``ReadError`` if it is not one that is searched."""
        refused: ReadError = FileMissing(f"There is no note {path}.", path=path)
        for root, inside, shown in find_candidates(self._files, self._settings.workspace, path):
            try:
                return NotePlace(shown, root.folder, inside, _find_status(root.folder, inside, shown))
            except ReadError as error:
                refused = error
        raise refused

    def read(self, path: str) -> NoteContent:
        """Return the content of a note as it is on the disk."""
        place = self.locate(path)
        max_bytes = self._settings.mdrecall.max_file_bytes
        return NoteContent(place, read_below(place.root, place.inside, shown=place.path, max_bytes=max_bytes).data)

    def save(self, path: str, text: str, expected_hash: str) -> None:
        """Replace the text of a note. Raise ``FileChanged`` if it is not the one that the hash stands for."""
        note = self._read_expected(path, expected_hash)
        content = merge_text(note.data, text, path)
        self._check_size(content, path)
        replace_content(note.place.root, note.place.inside, content, expected_hash)

    def create(self, path: str, text: str, now: datetime) -> str:
        """Write a new note and return its path. Raise ``FileBusy`` if there is one."""
        place = self._place_new(path, now)
        content = "".join(f"{shown}\n" for shown, _, _, _ in _split(text.encode())).encode()
        self._check_size(content, place.path)
        create_file(place.root, place.inside, content, shown=place.path)
        return place.path

    def move(self, path: str, target: str, expected_hash: str, now: datetime) -> str:
        """Move a note and return its new path. It is written there first, so that it is never nowhere."""
        note = self._read_expected(path, expected_hash)
        place = self._place_new(target, now, beside=note.place)
        create_file(place.root, place.inside, note.data, like=note.place.found, shown=place.path)
        try:
            remove_note(note.place.root, note.place.inside, expected_hash)
        except BaseException:
            remove_note(place.root, place.inside, note.hash)
            raise
        return place.path

    def delete(self, path: str, expected_hash: str, now: datetime) -> DeletedNote:
        """Move a note into the trash of the workspace, from where it can be restored."""
        note = self._read_expected(path, expected_hash)
        deleted = put_into_deleted(self._settings.workspace, note.place.path, note.data, note.place.found, now)
        try:
            remove_note(note.place.root, note.place.inside, expected_hash)
        except BaseException:
            remove_deleted(self._settings.workspace, deleted)
            raise
        return deleted

    def restore(self, id: str) -> str:
        """Put a deleted note back where it was and return its path. Raise ``FileBusy`` if there is another one."""
        workspace = self._settings.workspace
        deleted = find_deleted(workspace, id)
        for root, inside, shown in find_candidates(self._files, workspace, deleted.path):
            max_bytes = self._settings.mdrecall.max_file_bytes
            opened = read_below(workspace, deleted.inside, shown=shown, max_bytes=max_bytes)
            found = _find_status(workspace, deleted.inside, shown)
            create_file(root.folder, inside, opened.data, like=found, shown=shown)
            remove_deleted(workspace, deleted)
            return shown
        raise AssertionError("find_candidates raises if there is none")

    def _read_expected(self, path: str, expected_hash: str) -> NoteContent:
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

    def _place_new(self, path: str, now: datetime, beside: NotePlace | None = None) -> NotePlace:
        """Return where a new note of a name goes; a bare name goes ``beside`` another note."""
        today = user_time(now, None, self._settings.defaults.user_timezone).date().isoformat()
        listing, ignored = self._files.scan(), self._settings.mdrecall.ignore
        is_plain = self._files.is_plain_folder() and bool(listing.stamps)
        asked = path.strip().removeprefix("./")
        folder = asked.rpartition("/")[0]
        if beside is not None and not folder:
            name = resolve_note(f"memory/{asked or '.'}", today=today, ignored=ignored).name
            return self._require_searched(os.path.join(os.path.dirname(beside.path), name), path)
        note = resolve_note(asked, today=today, is_plain=is_plain, ignored=ignored)
        if folder and folder in listing.places and not folder.startswith(".."):
            # The folder has notes already, so it is meant as it is written.
            return self._require_searched(f"{folder}/{note.name}", path)
        return self._require_searched(note.shown, path)

    def _require_searched(self, shown: str, asked: str) -> NotePlace:
        """Return where a path is, if a note there would be searched."""
        with suppress(ReadError):
            for root, inside, path in find_candidates(self._files, self._settings.workspace, shown):
                return NotePlace(path, root.folder, inside, os.stat(root.folder))
        hint = "Give a folder whose notes are searched, such as memory/."
        raise PathRefused(f"A note at {asked.strip()[:80]!r} would not be searched.", path=asked, hint=hint)


def _find_status(root: str, inside: str, shown: str) -> os.stat_result:
    file = open_below(root, inside, shown=shown)
    try:
        return os.fstat(file)
    finally:
        os.close(file)


def merge_text(data: bytes, text: str, path: str) -> bytes:
    """Return a file's content with the text of a form. Lines before and after the change stay byte for byte.

    Raise ``FileUnwritable`` if a line was changed that holds bytes which a form cannot show.
    """
    old, new = list(_split(data)), list(_split(text.encode("utf-8", "replace")))
    shown = [(text, bool(end)) for text, end, _, _ in old]
    given = [(text, bool(end)) for text, end, _, _ in new]
    first = count_same(shown, given)
    last = count_same(shown[first:][::-1], given[first:][::-1])
    changed = old[first : len(old) - last]
    if bad := next((number for number, line in enumerate(changed, first + 1) if not line[3]), 0):
        message = f"Line {bad} of {path} holds bytes that are not text, which a form would lose."
        raise FileUnwritable(message, path=path, hint="Nothing was written. Change that line with an editor.")
    codec = find_codec(data)
    end = (old[0][1] if old else "") or "\n"
    middle = [(said + (end if is_ended else "")).encode(codec) for said, is_ended in given[first : len(new) - last]]
    raw = [line[2] for line in old]
    bom = data[: len(data) - sum(map(len, raw))]
    return b"".join((bom, *raw[:first], *middle, *raw[len(raw) - last :]))


def count_same(one: Sequence[object], two: Sequence[object]) -> int:
    """Return how many items two sequences have in common at their beginning."""
    most = min(len(one), len(two))
    return next((number for number in range(most) if one[number] != two[number]), most)


def _split(data: bytes) -> Iterator[_Line]:
    """Yield the lines of a file without its byte order mark."""
    codec = find_codec(data)
    mark = "\ufeff".encode(codec)
    # Bytes that are not text become half characters, which no form can send, and back.
    errors = "surrogateescape" if codec == "utf-8" else "surrogatepass"
    try:
        text = data.removeprefix(mark).decode(codec, errors)
    except UnicodeError as error:
        message = f"The file is not {codec.upper()}, as its first bytes say."
        raise FileUnwritable(message, path="", hint="Save it as UTF-8.") from error
    for line in _LINES.findall(text):
        bare = line.rstrip("\r\n")
        end = line[len(bare) :]
        shown = _UNSHOWABLE.sub("\ufffd", bare)
        yield shown, end, line.encode(codec, errors), shown == bare


def put_into_deleted(workspace: str, path: str, data: bytes, found: os.stat_result, now: datetime) -> DeletedNote:
    """Write a copy of a note into the trash; the caller removes the note itself."""
    run = f"{now:%Y%m%dT%H%M%SZ}-{os.urandom(4).hex()}"
    inside = "/".join((DELETED_FOLDER, run, *map(_encode, path.split("/")))) + _ENDING
    create_file(workspace, inside, data, like=found)
    return DeletedNote(inside, path, f"{now:%Y-%m-%dT%H:%M:%SZ}", len(data))


def list_deleted(workspace: str) -> list[DeletedNote]:
    """Return the notes in the trash, the one that was deleted last first."""
    found = (_describe(workspace, inside) for inside in list_trash_files(workspace))
    return sorted((note for note in found if note), key=lambda note: (note.at, note.path), reverse=True)


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
            os.unlink(name, dir_fd=parent)
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


def _describe(workspace: str, inside: str) -> DeletedNote | None:
    path = original_path(inside)
    if not path:
        return None
    run = inside.split("/")[1]
    day, time = run[:8], run[9:15]
    at = f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}Z"
    with suppress(OSError):
        return DeletedNote(inside, path, at, os.lstat(os.path.join(workspace, inside)).st_size)
    return None


def _encode(part: str) -> str:
    """Return a part of a path as the name of a file or folder, from which it can be read again."""
    return "%2E%2E" if part == ".." else part.replace("%", "%25")
