"""The trash: lines that were removed from notes, for those who asked for it, until a day.

Without the trash nothing is kept of what was forgotten. What is in it can be put back as it was, or at the end of its
note if the note has changed since.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall import state_files
from mdrecall.errors import FileChanged, FileMissing, ReadError
from mdrecall.sources.opening import read_below

if TYPE_CHECKING:
    from mdrecall.sources.editing import LineEdit

_ENDING = ".json"


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


def trash_folder(index_path: str) -> str:
    """Return the folder of the trash, beside the index."""
    return f"{index_path}.trash"


def put_into_trash(index_path: str, name: str, until: str, removed: Sequence[RemovedText]) -> None:
    """Keep what is about to be removed until a day (``YYYY-MM-DD``); raise ``OSError`` if that fails."""
    notes = [
        entry._asdict() | {"edits": list(entry.edits), "content": entry.content.decode("utf-8", "surrogateescape")}
        for entry in removed
    ]
    state_files.save(trash_path(index_path, name), {"until": until, "notes": notes})


def find_in_trash(index_path: str, name: str) -> tuple[RemovedText, ...] | None:
    """Return what is kept under a name; None if nothing is."""
    content = state_files.load(trash_path(index_path, name))
    return tuple(_read(entry) for entry in content["notes"]) if content else None


def list_trash(index_path: str) -> Iterator[tuple[str, str]]:
    """Yield each name in the trash, and the day until which it is kept."""
    folder = trash_folder(index_path)
    with suppress(OSError):
        for file in sorted(os.listdir(folder)):
            if file.endswith(_ENDING) and not file.startswith("."):
                yield file.removesuffix(_ENDING), str(state_files.load(os.path.join(folder, file)).get("until", ""))


def drop_from_trash(index_path: str, name: str) -> None:
    """Delete what is kept under a name."""
    with suppress(FileNotFoundError):
        os.unlink(trash_path(index_path, name))
    with suppress(OSError):
        os.rmdir(trash_folder(index_path))


def empty_expired(index_path: str, today: str) -> None:
    """Delete what was to be kept until a day before today."""
    for name, until in list(list_trash(index_path)):
        if until < today:
            drop_from_trash(index_path, name)


def restore_text(removed: RemovedText, max_bytes: int) -> str:
    """Put back what was removed from one note. Return how: ``restored``, or ``appended`` if the note has changed."""
    # Every `mdrecall index` looks into the trash, and hardly ever is there anything to write.
    from mdrecall.sources.editing import LineEdit, hash_content, replace_lines
    from mdrecall.sources.notes import create_file

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


def trash_path(index_path: str, name: str) -> str:
    """Return the file of what is kept under a name."""
    return os.path.join(trash_folder(index_path), os.path.basename(name) + _ENDING)


def _read(entry: dict[str, Any]) -> RemovedText:
    from mdrecall.sources.editing import LineEdit

    edits = tuple(LineEdit(first, last, tuple(lines)) for first, last, lines in entry["edits"])
    content = entry["content"].encode("utf-8", "surrogateescape")
    return RemovedText(entry["root"], entry["inside"], entry["after"], edits, content)
