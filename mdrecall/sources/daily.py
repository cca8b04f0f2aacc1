"""Append to the daily note of a workspace and to nothing else, or write a new note into ``memory/``."""

import os
import re
from contextlib import suppress

from mdrecall.errors import FileBusy, NothingToWrite, PathRefused
from mdrecall.sources.appending import (
    NEW_FILE,
    WAIT_S,
    Entry,
    append_in,
    folder_of,
    refused,
    sync_folder,
    write_at_end,
)
from mdrecall.types import Appended

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOST_NAMES = 1000


def append_daily(
    workspace: str, text: str, day: str, *, path: str | None = None, max_bytes: int, wait_s: float = WAIT_S
) -> Appended:
    """Append a text to ``memory/<day>.md``; ``path`` is where the caller means it to go, which must be there."""
    shown = f"memory/{day}.md"
    if not _DAY.fullmatch(day):
        raise PathRefused(f"{day!r} is not a day.", path=shown, hint="Give it as YYYY-MM-DD.")
    if path is not None and not _means(path, workspace, shown):
        hint = f"Write to {shown}; it is the only file that a memory flush may append to."
        raise PathRefused(f"{path.strip()!r} is not the file of the day.", path=shown, hint=hint)
    if not text.strip():
        raise NothingToWrite(f"There is nothing to append to {shown}.", path=shown, hint="Give some text.")
    try:
        with folder_of(workspace) as folder:
            return append_in(folder, f"{day}.md", shown, Entry(text, max_bytes, wait_s))
    except OSError as error:
        raise refused(error, workspace, shown) from error


def create_note(workspace: str, name: str, text: str) -> str:
    """Write a new note into ``memory/``, under another name if there is one of this name; gives its path."""
    stem, _, ending = name.rpartition(".")
    try:
        with folder_of(workspace) as folder:
            for number in range(1, _MOST_NAMES):
                free = name if number == 1 else f"{stem}-{number}.{ending}"
                with suppress(FileExistsError):
                    file = os.open(free, NEW_FILE, 0o644, dir_fd=folder)
                    break
            else:
                raise FileBusy(f"memory/{name} and its like are all there.", path=name, hint="Give another name.")
            try:
                write_at_end(file, text.encode("utf-8", "replace"), 0)
                sync_folder(folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(free, dir_fd=folder)
                raise
            finally:
                os.close(file)
    except OSError as error:
        raise refused(error, workspace, f"memory/{name}") from error
    return f"memory/{free}"


def _means(path: str, workspace: str, shown: str) -> bool:
    bare = path.strip().removeprefix("@")
    if bare.lower().startswith("file:"):
        from urllib.parse import unquote, urlsplit

        parts = urlsplit(bare)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            return False
        bare = unquote(parts.path)
    if not bare or "\0" in bare:
        return False
    roots = (os.path.abspath(workspace), os.path.realpath(workspace))
    targets = {os.path.normpath(os.path.join(root, bare)) for root in roots}
    return not targets.isdisjoint(os.path.join(root, shown) for root in roots)
