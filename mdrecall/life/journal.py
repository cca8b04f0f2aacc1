"""The journal of edits: what takes an edit of notes back, in a folder beside the index.

Each entry is a file. ``forget`` keeps removed lines until a day, for those who ask for it; without that nothing is kept
of a forgotten text. A promotion keeps a size and two hashes, and no text.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall import state_files
from mdrecall.errors import FileChanged, FileMissing, ReadError
from mdrecall.notes.opening import read_below

if TYPE_CHECKING:
    from mdrecall.notes.editing import LineEdit

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


def journal_folder(index_path: str) -> str:
    """Return the folder of the journal, beside the index."""
    return f"{index_path}.trash"


def list_entries(index_path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each entry with its name, in the order of the names."""
    with suppress(OSError):
        for file in sorted(os.listdir(journal_folder(index_path))):
            if file.endswith(_ENDING) and not file.startswith("."):
                yield file.removesuffix(_ENDING), state_files.load(os.path.join(journal_folder(index_path), file))


def entry_file(index_path: str, name: str) -> str:
    """Return the file of an entry, which ``state_files`` loads and saves."""
    return os.path.join(journal_folder(index_path), os.path.basename(name) + _ENDING)


def drop_entry(index_path: str, name: str) -> None:
    """Delete an entry, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(entry_file(index_path, name))
    with suppress(OSError):
        os.rmdir(journal_folder(index_path))


def keep_removed(index_path: str, name: str, until: str, removed: Sequence[RemovedText]) -> None:
    """Keep what is about to be removed until a day (``YYYY-MM-DD``); raise ``OSError`` if that fails."""
    notes = [
        entry._asdict() | {"edits": list(entry.edits), "content": entry.content.decode("utf-8", "surrogateescape")}
        for entry in removed
    ]
    state_files.save(entry_file(index_path, name), {"until": until, "notes": notes})


def find_removed(index_path: str, name: str) -> tuple[RemovedText, ...] | None:
    """Return the texts that were removed under a name; None if they were not kept."""
    from mdrecall.notes.editing import LineEdit

    kept = state_files.load(entry_file(index_path, name)).get("notes")
    return None if kept is None else tuple(
        RemovedText(**note | {
            "edits": tuple(LineEdit(first, last, tuple(lines)) for first, last, lines in note["edits"]),
            "content": note["content"].encode("utf-8", "surrogateescape"),
        })
        for note in kept
    )  # fmt: skip


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
        now = read_below(root, inside, shown=inside, max_bytes=max_bytes)
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
