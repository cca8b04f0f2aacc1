"""Notes that are Markdown already: OpenClaw's workspace, basic-memory's folder, memsearch's days.

mdrecall could read such a folder where it is. An import copies it into the workspace, with a mark that says from where.
"""

import os
import re
from collections.abc import Callable, Iterator

from mdrecall.core.life.imported import Item
from mdrecall.core.text.notes import read_front_matter
from mdrecall.errors import FileMissing, FileUnreadable, NotAFile, ReadError
from mdrecall.life.imports.reading import Read, Request, Skipped
from mdrecall.patterns import drop_ending, is_note_file
from mdrecall.sources.files import AGENT_FILES
from mdrecall.sources.opening import decode, read_below

#: More notes than any person has; a folder with more is not a folder of notes.
_MAX_FILES = 100_000
_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})(?=$|[-_ ])")
#: What memsearch puts above each entry to find its transcript again.
_ANCHOR = re.compile(r"^<!-- (?:session|turn|transcript|db|rollout):.*-->\n?", re.MULTILINE)


def read_openclaw(request: Request) -> Iterator[Read]:
    """Yield the memory files of one of OpenClaw's workspaces: MEMORY.md, USER.md and everything below memory/."""
    _require_folder(request.path)
    files = [name for name in ("MEMORY.md", "USER.md") if os.path.isfile(os.path.join(request.path, name))]
    has_folder = os.path.isdir(os.path.join(request.path, "memory"))
    notes = [f"memory/{name}" for name in _list_notes(os.path.join(request.path, "memory"))] if has_folder else []
    if not files and not notes:
        hint = "Name the folder with MEMORY.md and memory/, usually ~/.openclaw/workspace."
        raise NotAFile(f"{request.path} has neither MEMORY.md nor memory/.", path=request.path, hint=hint)
    renamed = {"MEMORY.md": "long-term", "USER.md": "about-the-user"}
    for name in (*files, *notes):
        path = renamed.get(name) or drop_ending(name.removeprefix("memory/"))
        yield _read(request, request.path, name, path)


def read_basic_memory(request: Request) -> Iterator[Read]:
    """Yield the notes of a folder of basic-memory, whose observations and relations are Markdown already."""
    for name in _list_notes(request.path):
        yield _read(request, request.path, name, drop_ending(name), key="permalink")


def read_memsearch(request: Request) -> Iterator[Read]:
    """Yield the notes of memsearch: of the folder itself, or of the project that it belongs to."""
    inner = os.path.join(request.path, ".memsearch", "memory")
    folder = inner if os.path.isdir(inner) else request.path
    above = os.path.dirname(folder) if folder.endswith(os.path.join(".memsearch", "memory")) else ""
    # What it makes of the notes, if that is switched on.
    for name, path in (("PROJECT.md", "about-the-project"), ("USER.md", "about-the-user")):
        if above and os.path.isfile(os.path.join(above, name)):
            yield _read(request, above, name, path)
    for name in _list_notes(folder):
        yield _read(request, folder, name, drop_ending(name), change=lambda text: _ANCHOR.sub("", text))


def _require_folder(folder: str) -> None:
    if not os.path.isdir(folder):
        is_there = os.path.lexists(folder)
        message = f"{folder} is not a folder." if is_there else f"There is no folder {folder}."
        error = NotAFile if is_there else FileMissing
        raise error(message, path=folder, hint="Name the folder with the notes.")


def _list_notes(folder: str) -> list[str]:
    """Return the Markdown files of a folder, with the folders below it that are not hidden."""
    _require_folder(folder)
    found: list[str] = []
    for place, folders, names in os.walk(folder, onerror=_raise_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = os.path.relpath(place, folder).replace(os.sep, "/")
        above = "" if inside == "." else f"{inside}/"
        found += [above + name for name in sorted(names) if is_note_file(name) and not name.startswith(".")]
        if len(found) > _MAX_FILES:
            message = f"{folder} has more than {_MAX_FILES:,} Markdown files."
            raise NotAFile(message, path=folder, hint="Name the folder with the notes alone.")
    if not found:
        raise NotAFile(f"There are no Markdown files in {folder}.", path=folder, hint="Name the folder with the notes.")
    return found


def _raise_unreadable(error: OSError) -> None:
    path = str(error.filename)
    raise FileUnreadable(f"Cannot list {path}: {error.strerror}.", path=path) from error


def _read(
    request: Request, folder: str, name: str, path: str, *, key: str = "", change: Callable[[str], str] = str
) -> Read:
    stem = drop_ending(name.rpartition("/")[2])
    if name.rpartition("/")[2].casefold() in AGENT_FILES and name != "USER.md":
        return Skipped(name, "agents read a file of this name as instructions")
    try:
        opened = read_below(folder, name, shown=name, max_bytes=request.max_bytes)
    except ReadError as error:
        return Skipped(name, str(error))
    text = change(decode(opened.data).replace("\r\n", "\n"))
    fields, front_lines = read_front_matter(text)
    body = "\n".join(text.split("\n")[front_lines:])
    if not body.strip():
        return Skipped(name, "it is empty")
    first = {field: values[0] for field, values in fields.items() if values}
    tags = [tag.strip().lstrip("#") for value in fields.get("tags", ()) for tag in value.split(",")]
    in_name = _DAY.match(stem)
    days = [first.get(field, "")[:10] for field in ("date", "created", "created_at")]
    day = in_name[1] if in_name else next((one for one in days if _DAY.fullmatch(one)), "")
    return Item(
        first.get(key, "") or name, first.get("title", ""), body, day, path=path,
        tags=tuple(dict.fromkeys(filter(None, tags))), version=opened.stamp[1] / 1e9,
    )  # fmt: skip
