"""The files that a model keeps for itself: the six commands of Anthropic's memory tool, on one folder of the workspace.

The model calls that folder ``/memories`` and can reach nothing else. Every file in it is a note, so its name on the
disk ends with ``.md``: ``plan.txt`` is ``plan.txt.md``. If another file of the model may have that name, or agents
read files of that name as instructions, it ends with ``~.md``: ``plan`` is ``plan~.md``. The model sees only its own
names. Files that others put there under another ending are neither shown nor changed.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

from mdrecall import platform
from mdrecall.adapters._shared import try_again
from mdrecall.errors import ArgumentError, FileChanged, RecallError, SymlinkRefused
from mdrecall.life.curate import Curator
from mdrecall.memory import Memory
from mdrecall.notes.editing import hash_content, open_folder, remove_note, replace_content, sync_folder, write_error
from mdrecall.notes.files import AGENT_FILES
from mdrecall.notes.notes import OTHER_ENDING, create_file, has_bad_characters
from mdrecall.notes.opening import find_status, list_folder, open_parent, read_below
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.patterns import NOTE_ENDING
from mdrecall.sync.soon import start_soon
from mdrecall.text.annotations import MODEL_FOLDER
from mdrecall.tools.toolset import message_with_action, to_valid_text

_COMMANDS = ("view", "create", "str_replace", "insert", "delete", "rename")
_ROOT = "/memories"
#: Files and folders. A model lists them all before it works, and each of them makes every search a little slower.
MAX_ENTRIES = 1000
#: All files together: more than a thousand notes of a person have.
MAX_BYTES = 64 * 1024 * 1024
#: The system takes 4,096 bytes, which are 1,000 characters of any script with room for the path of the workspace.
_MAX_PATH = 1000
#: More lines than this do not help to make a text unique.
_MAX_NAMED_LINES = 1000
_MAX_LINES = 999_999
#: A marker at the end of the name on the disk, which is not part of the model's name.
_MARK = "~"
_ESCAPE = re.compile(r"\\|%2e|%2f|%5c", re.IGNORECASE)
_FORGOTTEN = "The user asked to forget some of this; it is stored as [forgotten]."


class ModelFiles:
    """The commands for the files of a model."""

    def __init__(self, memory: Memory) -> None:
        self._settings = memory.settings
        self._workspace = memory.settings.workspace
        self._curator = Curator(memory)
        self._forgotten = open_tombstones(memory.settings)
        calls = (self._view, self._create, self._replace, self._insert, self._delete, self._rename)
        self._commands = dict(zip(_COMMANDS, calls, strict=True))

    def run(self, command: Mapping[str, Any]) -> tuple[str, bool]:
        """Run a command and return the text for the model, and True if that is an error; nothing is raised."""
        name = command.get("command") if isinstance(command, Mapping) else None
        try:
            call = self._commands.get(name) if isinstance(name, str) else None
            if call is None:
                raise _refuse(f"Unknown command: {name}. There are: {', '.join(self._commands)}.")
            text = call(command)
            if name != "view":
                start_soon(self._settings)
        except (RecallError, OSError) as error:
            if isinstance(error, OSError):
                shown = str(command.get("new_path") or command.get("path"))[:80]
                error = write_error(error, self._workspace, shown, verb="change")
            return str(to_valid_text(message_with_action(error))), True
        return text, False

    def clear(self) -> str:
        """Move every file into the trash."""
        self._trash(MODEL_FOLDER, is_folder=True)
        start_soon(self._settings)
        return "All memory cleared"

    def _view(self, command: Mapping[str, Any]) -> str:
        path = _read_text(command, "path")
        inside, is_folder = self._find_existing(path)
        if is_folder:
            return self._view_folder(path, inside)
        lines = self._read(path, inside)[1].split("\n")
        if len(lines) > _MAX_LINES:
            raise _refuse(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first, last = _read_range(command.get("view_range"), len(lines))
        return f"Here's the content of {path} with line numbers:\n{_number(lines, first, last)}"

    def _view_folder(self, path: str, inside: str) -> str:
        found = find_status(self._workspace, inside)
        rows = [f"{_format_size(found.st_size if found else 0)}\t{path}"]
        for shown, _, about in self._walk(path, inside, levels=2):
            rows.append(f"{_format_size(about.st_size)}\t{shown}{'/' * stat.S_ISDIR(about.st_mode)}")
        about_all = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        return "\n".join([about_all, *rows])

    def _create(self, command: Mapping[str, Any]) -> str:
        path, text = _read_text(command, "path"), _read_text(command, "file_text")
        if self._find(path)[0]:
            raise _refuse(f"File {path} already exists")
        inside = self._place_new(path)
        masked = self._mask(text, inside)
        self._check_room(path, len(masked.encode()), is_new=True)
        create_file(self._workspace, inside, masked.encode(), shown=path)
        return _say(f"File created successfully at: {path}", masked != text)

    def _replace(self, command: Mapping[str, Any]) -> str:
        path, old, new = (_read_text(command, name) for name in ("path", "old_str", "new_str"))

        def replace(text: str) -> tuple[str, int]:
            count = text.count(old)
            if not count:
                message = f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
                raise _refuse(message)
            if count > 1:
                # Places that overlap count each.
                places = islice(re.finditer(f"(?={re.escape(old)})", text), _MAX_NAMED_LINES)
                lines = ", ".join(str(text.count("\n", 0, each.start()) + 1) for each in places)
                message = f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}."
                raise _refuse(f"{message} Please ensure it is unique")
            return text.replace(old, new), text.count("\n", 0, text.find(old))

        text, changed, is_masked = self._edit(path, replace)
        said = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        lines = text.split("\n")
        return _say(f"{said}\n{_number(lines, max(0, changed - 2), changed + 3)}", is_masked)

    def _insert(self, command: Mapping[str, Any]) -> str:
        path, new = _read_text(command, "path"), _read_text(command, "insert_text")
        at = _read_number(command.get("insert_line"), "insert_line")

        def insert(text: str) -> tuple[str, int]:
            lines = text.removesuffix("\n").split("\n") if text else []
            if not 0 <= at <= len(lines):
                message = f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
                raise _refuse(message)
            lines.insert(at, new.rstrip("\n"))
            return "\n".join(lines).removesuffix("\n") + "\n", at

        *_, is_masked = self._edit(path, insert)
        return _say(f"The file {path} has been edited.", is_masked)

    def _delete(self, command: Mapping[str, Any]) -> str:
        path = _read_text(command, "path")
        if not _split(path):
            raise _refuse(f"Cannot delete the {_ROOT} directory itself")
        inside, is_folder = self._find_existing(path, advice="")
        self._trash(inside, is_folder=is_folder)
        left = ". It holds other files, which were left there." if find_status(self._workspace, inside) else ""
        return f"Successfully deleted {path}{left}"

    def _rename(self, command: Mapping[str, Any]) -> str:
        old, new = _read_text(command, "old_path"), _read_text(command, "new_path")
        parts, taken = _split(old), self._find(new)[0]
        if not parts:
            raise _refuse(f"Cannot rename the {_ROOT} directory itself")
        if taken:
            raise _refuse(f"The destination {new} already exists")
        inside, is_folder = self._find_existing(old, advice="")
        target, is_masked = self._place_new(new, is_folder=is_folder), False
        if not is_folder:
            is_masked = try_again(old, partial(self._move_file, old, inside, new, target))
        elif target.startswith(f"{inside}/"):
            raise _refuse(f"The path {old} cannot be moved into itself")
        else:
            self._move_folder(inside, new, target)
        return _say(f"Successfully renamed {old} to {new}", is_masked)

    def _move_file(self, old: str, inside: str, new: str, target: str) -> bool:
        """Move a file to a new name; True if what was forgotten in it is masked now."""
        data, text = self._read(old, inside)
        masked = self._mask(text, target).encode()
        create_file(self._workspace, target, masked, like=find_status(self._workspace, inside), shown=new)
        try:
            remove_note(self._workspace, inside, hash_content(data))
        except FileChanged:
            remove_note(self._workspace, target, hash_content(masked))
            raise
        return masked != data

    def _move_folder(self, inside: str, new: str, target: str) -> None:
        above, name = open_parent(self._workspace, inside, shown=new)
        try:
            with open_folder(self._workspace, target.rpartition("/")[0]) as folder:
                platform.rename(name, target.rpartition("/")[2], src_dir_fd=above, dst_dir_fd=folder)
                sync_folder(folder)
        finally:
            os.close(above)

    def _edit(self, path: str, change: Callable[[str], tuple[str, int]]) -> tuple[str, int, bool]:
        """Change the text of a file. Return what it is now, the changed line, and True if some of it is masked.

        ``change`` returns the new text and that line.
        """
        inside, is_folder = self._find_existing(path)
        if is_folder:
            raise _refuse(f"The path {path} is not a file.")

        def edit() -> tuple[str, int, bool]:
            data, text = self._read(path, inside)
            changed, line = change(text)
            masked = self._mask(changed, inside)
            self._check_room(path, len(masked.encode()), len(data))
            replace_content(self._workspace, inside, masked.encode(), hash_content(data))
            return masked, line, masked != changed

        return try_again(path, edit)

    def _read(self, path: str, inside: str) -> tuple[bytes, str]:
        """Return the content of a file, and its text without what was forgotten."""
        max_bytes = self._settings.mdrecall.max_file_bytes
        data = read_below(self._workspace, inside, shown=path, max_bytes=max_bytes)
        try:
            return data, self._mask(data.decode(), inside)
        except UnicodeDecodeError as error:
            raise _refuse(f"The file {path} is not UTF-8 text.") from error

    def _mask(self, text: str, inside: str) -> str:
        return self._forgotten.load().mask(text, inside)

    def _trash(self, inside: str, *, is_folder: bool) -> None:
        """Move a file, or all that a folder holds, into the trash. A folder that holds files of others stays."""
        if not is_folder:
            try_again(inside, lambda: self._curator.delete(inside, self._curator.read(inside).hash, datetime.now(UTC)))
            return
        for _, path, about in self._walk("", inside, levels=1):
            self._trash(path, is_folder=stat.S_ISDIR(about.st_mode))
        with suppress(OSError):
            os.rmdir(os.path.join(self._workspace, inside))

    def _check_room(self, path: str, size: int, before: int = 0, *, is_new: bool = False) -> None:
        """Refuse a file that is too large, or one more than the folder may hold."""
        most = self._settings.mdrecall.max_file_bytes
        if size > most:
            raise _refuse(f"File {path} would have more than {most:,} bytes. Nothing was written; split it.")
        entries = [about for *_, about in self._walk(_ROOT, MODEL_FOLDER)]
        if is_new and len(entries) >= MAX_ENTRIES:
            raise _refuse(f"{_ROOT} has {MAX_ENTRIES:,} files and folders; delete some first. Nothing was written.")
        total = size - before + sum(about.st_size for about in entries if stat.S_ISREG(about.st_mode))
        if total > MAX_BYTES and size > before:
            raise _refuse(f"{_ROOT} would have more than {MAX_BYTES:,} bytes; delete some files first.")

    def _find_existing(self, path: str, *, advice: str = ". Please provide a valid path.") -> tuple[str, bool]:
        inside, is_folder = self._find(path)
        if not inside:
            raise _refuse(f"The path {path} does not exist{advice}")
        return inside, is_folder

    def _find(self, path: str) -> tuple[str, bool]:
        """Return where a file or folder is in the workspace, empty if there is none, and True for a folder."""
        parts = _split(path)
        if not parts:
            # It counts as a folder before anything is in it.
            return MODEL_FOLDER, True
        for is_folder, is_kind in ((True, stat.S_ISDIR), (False, stat.S_ISREG)):
            inside = self._place(parts, is_folder=is_folder)
            try:
                found = find_status(self._workspace, inside)
            except SymlinkRefused as error:
                raise _escape(path) from error
            if found and stat.S_ISLNK(found.st_mode):
                raise _escape(path)
            if found and is_kind(found.st_mode):
                return inside, is_folder
        return "", False

    def _place_new(self, path: str, *, is_folder: bool = False) -> str:
        """Return where a new file or folder goes; refuse a path that leads through a file."""
        parts = _split(path)
        for count in range(1, len(parts)):
            above = "/".join((_ROOT, *parts[:count]))
            inside, leads_on = self._find(above)
            if inside and not leads_on:
                raise _refuse(f"The path {above} is not a directory")
        return self._place(parts, is_folder=is_folder)

    def _place(self, parts: Sequence[str], *, is_folder: bool) -> str:
        """Return the path in the workspace of what a model calls by these names."""
        *above, last = parts
        name = self._folder_name(last) if is_folder else _file_name(last)
        return "/".join((MODEL_FOLDER, *map(self._folder_name, above), name))

    def _folder_name(self, shown: str) -> str:
        """Return the name on the disk of a folder that the model calls like this."""
        is_marked = shown.endswith(_MARK) or shown.lower() in self._settings.mdrecall.ignore
        return shown + _MARK * is_marked

    def _shown_name(self, name: str, about: os.stat_result) -> str:
        """Return how a model calls a file or folder; empty if it is not one of the model's."""
        if name.startswith(".") or to_valid_text(name) != name:
            return ""
        if stat.S_ISDIR(about.st_mode):
            shown = name.removesuffix(_MARK)
            return shown if self._folder_name(shown) == name else ""
        shown = _file_shown(name) if stat.S_ISREG(about.st_mode) and name.endswith(NOTE_ENDING) else ""
        return shown if shown and _file_name(shown) == name else ""

    def _walk(self, path: str, inside: str, levels: int = _MAX_PATH // 2) -> Iterator[tuple[str, str, os.stat_result]]:
        """Yield what the model has in a folder, in the order of names, each before what it holds.

        Each comes with its path for the model, its path in the workspace, and its status.
        """
        found = [(self._shown_name(name, about), name, about) for name, about in list_folder(self._workspace, inside)]
        for shown, name, about in sorted(found, key=itemgetter(0)):
            if shown:
                yield f"{path}/{shown}", f"{inside}/{name}", about
            if shown and levels > 1 and stat.S_ISDIR(about.st_mode):
                yield from self._walk(f"{path}/{shown}", f"{inside}/{name}", levels - 1)


def _split(path: str) -> list[str]:
    """Return the names in a path of the model; raise ``ArgumentError`` if it could lead out of the folder."""
    if path != _ROOT and not path.startswith(f"{_ROOT}/"):
        raise _refuse(f"Path must start with {_ROOT}, got: {path}")
    if len(path) > _MAX_PATH:
        raise _refuse(f"Path {path[:80]}… has more than {_MAX_PATH:,} characters")
    parts: list[str] = []
    for part in path.removeprefix(_ROOT).split("/"):
        if part == ".." and parts:
            parts.pop()
        elif (part.startswith(".") and part != ".") or _ESCAPE.search(part):
            raise _escape(path)
        elif part not in ("", "."):
            parts.append(part)
    if has_bad_characters(path):
        raise _refuse(f"Path {path!r} has a character that no name may have")
    return parts


def _file_name(shown: str) -> str:
    """Return the name on the disk of a file that the model calls like this."""
    name = shown if shown.endswith(NOTE_ENDING) else shown + NOTE_ENDING
    is_plain = _file_shown(name) == shown and name.casefold() not in AGENT_FILES
    return name if is_plain else f"{shown}{_MARK}{NOTE_ENDING}"


def _file_shown(name: str) -> str:
    """Return the name by which the model knows a file."""
    stem = name.removesuffix(NOTE_ENDING)
    is_own = stem.endswith(_MARK) or OTHER_ENDING.search(stem)
    return stem.removesuffix(_MARK) if is_own else name


def _number(lines: Sequence[str], first: int, last: int) -> str:
    """Return a slice of lines with their numbers."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines[first:last], start=first + 1))


def _read_range(value: Any, count: int) -> tuple[int, int]:
    """Return the slice of lines that a model asks for: by default all."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return 0, count
    first, last = (_read_number(each, "view_range") for each in value)
    return max(1, first) - 1, count if last == -1 else last


def _read_number(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise _refuse(f"{name} must be a whole number")
    return int(value)


def _read_text(command: Mapping[str, Any], name: str) -> str:
    value = command.get(name)
    if not isinstance(value, str) or to_valid_text(value) != value:
        raise _refuse(f"{name} must be a text")
    return value


def _format_size(size: int) -> str:
    """Return a size as the tool shows it: ``0B``, ``28B``, ``1.5K``, ``4K``."""
    unit = min(max(0, size.bit_length() - 1) // 10, 3)
    scaled = size / 1024**unit
    return f"{int(scaled) if scaled == int(scaled) else format(scaled, '.1f')}{'BKMG'[unit]}"


def _say(text: str, is_masked: bool) -> str:
    return f"{text}\n{_FORGOTTEN}" if is_masked else text


def _escape(path: str) -> ArgumentError:
    return _refuse(f"Path {path} would escape {_ROOT} directory")


def _refuse(text: str) -> ArgumentError:
    return ArgumentError(text, name="command")
