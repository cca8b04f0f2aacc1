"""Deleted notes: the folder ``.trash`` in a workspace, from which a note can be restored.

A note that was ``memory/people/priya.md`` is ``.trash/20261116T081500Z-1f2e3d4c/memory/people/priya.md.deleted``. With
that ending no program takes it for a note.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple
from urllib.parse import unquote

from mdrecall.errors import FileMissing
from mdrecall.sources.notes import create_file
from mdrecall.sources.opening import open_parent

DELETED_FOLDER = ".trash"
_ENDING = ".deleted"
_RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


class DeletedNote(NamedTuple):
    """A note in the trash."""

    inside: str
    """Its path in the workspace, by which it is chosen."""
    path: str
    """Where it was."""
    at: str
    """When it was deleted, as ISO 8601."""
    bytes: int


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
