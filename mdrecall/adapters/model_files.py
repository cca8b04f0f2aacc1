"""The files that a model keeps for itself: six commands on one folder of the workspace, as Anthropic's memory tool has.

A model's ``/memories`` is that folder, and it reaches nothing else. Every file in it is a note, so a file whose name
does not end with ``.md`` gets that ending on the disk: ``plan.txt`` is ``plan.txt.md``. Where that name would be the
one of another file of the model, or one that agents read as instructions, it ends with ``~.md``: ``plan`` is
``plan~.md``. The model sees its own names. What others put there under another ending is neither shown nor changed.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

from mdrecall import platform
from mdrecall.adapters._shared import try_again
from mdrecall.errors import ArgumentError, FileBusy, FileChanged, RecallError, SymlinkRefused
from mdrecall.life.curate import Curator
from mdrecall.memory import Memory
from mdrecall.notes.editing import hash_content, open_folder, remove_note, replace_content, sync_folder, write_error
from mdrecall.notes.files import AGENT_FILES
from mdrecall.notes.notes import create_file
from mdrecall.notes.opening import find_status, list_folder, open_parent, read_below
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.patterns import NOTE_ENDING
from mdrecall.sync.soon import start_soon
from mdrecall.text.annotations import MODEL_FOLDER
from mdrecall.tools.toolset import message_with_action, to_valid_text

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
#: A number after a point, as in ``release 1.2``, is not a file ending.
_OTHER_ENDING = re.compile(r"\.[A-Za-z]\w{0,9}\Z")
_ESCAPE = re.compile(r"\\|%2e|%2f|%5c", re.IGNORECASE)
_FORGOTTEN = "The user had some of this forgotten: it is stored as [forgotten]."
_UNITS = ("B", "K", "M", "G")


class ModelFiles:
    """The six commands for the files of a model: ``view``, ``create``, ``str_replace``, ``insert``, ``delete``,
    ``rename``."""

    def __init__(self, memory: Memory) -> None:
        self._settings = memory.settings
        self._workspace = memory.settings.workspace
        self._curator = Curator(memory)
        self._forgotten = open_tombstones(memory.settings)
        self._commands: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._replace,
            "insert": self._insert,
            "delete": self._delete,
            "rename": self._rename,
        }

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
        self._trash(MODEL_FOLDER)
        start_soon(self._settings)
        return "All memory cleared"

    def _view(self, command: Mapping[str, Any]) -> str:
        path = _read_text(command, "path")
        inside, found = self._find(path)
        if not inside:
            raise _refuse(f"The path {path} does not exist. Please provide a valid path.")
        if found is None or stat.S_ISDIR(found.st_mode):
            return self._view_folder(path, inside, found)
        lines = self._read(path, inside)[1].split("\n")
        if len(lines) > _MAX_LINES:
            raise _refuse(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first, last = _read_range(command.get("view_range"), len(lines))
        return f"Here's the content of {path} with line numbers:\n{_number(lines, first, last)}"

    def _view_folder(self, path: str, inside: str, found: os.stat_result | None) -> str:
        rows = [f"{_format_size(found.st_size if found else 0)}\t{path}"]
        for name, disk_name, about in self._list(inside):
            is_folder = stat.S_ISDIR(about.st_mode)
            rows.append(f"{_format_size(about.st_size)}\t{path}/{name}{'/' * is_folder}")
            for below, _, status in self._list(f"{inside}/{disk_name}") if is_folder else ():
                end = "/" * stat.S_ISDIR(status.st_mode)
                rows.append(f"{_format_size(status.st_size)}\t{path}/{name}/{below}{end}")
        about_all = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        return "\n".join([about_all, *rows])

    def _create(self, command: Mapping[str, Any]) -> str:
        path, text = _read_text(command, "path"), _read_text(command, "file_text")
        parts = _split(path)
        if not parts or self._find(path)[0]:
            raise _refuse(f"File {path} already exists")
        self._require_folders(parts)
        inside = self._place(parts)
        masked = self._mask(text, inside)
        self._check_room(path, len(masked.encode()), is_new=True)
        try:
            create_file(self._workspace, inside, masked.encode(), shown=path)
        except FileBusy as error:
            raise _refuse(f"File {path} already exists") from error
        return _say(f"File created successfully at: {path}", masked != text)

    def _replace(self, command: Mapping[str, Any]) -> str:
        path, old, new = (_read_text(command, name) for name in ("path", "old_str", "new_str"))
        place = 0

        def replace(text: str) -> str:
            nonlocal place
            place = text.find(old)
            if place < 0:
                message = f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
                raise _refuse(message)
            if text.count(old) > 1:
                # Places that overlap count each.
                places = islice(re.finditer(f"(?={re.escape(old)})", text), _MAX_NAMED_LINES)
                lines = ", ".join(str(text.count("\n", 0, each.start()) + 1) for each in places)
                message = f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}."
                raise _refuse(f"{message} Please ensure it is unique")
            return text[:place] + new + text[place + len(old) :]

        text, is_masked = self._edit(path, replace)
        lines, changed = text.split("\n"), text.count("\n", 0, place)
        said = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return _say(f"{said}\n{_number(lines, max(0, changed - 2), changed + 3)}", is_masked)

    def _insert(self, command: Mapping[str, Any]) -> str:
        path, new = _read_text(command, "path"), _read_text(command, "insert_text")
        at = _read_number(command.get("insert_line"), "insert_line")

        def insert(text: str) -> str:
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()
            if not 0 <= at <= len(lines):
                message = f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
                raise _refuse(message)
            lines.insert(at, new.rstrip("\n"))
            joined = "\n".join(lines)
            return joined if joined.endswith("\n") else f"{joined}\n"

        _, is_masked = self._edit(path, insert)
        return _say(f"The file {path} has been edited.", is_masked)

    def _delete(self, command: Mapping[str, Any]) -> str:
        path = _read_text(command, "path")
        if not _split(path):
            raise _refuse(f"Cannot delete the {_ROOT} directory itself")
        inside, found = self._find(path)
        if not found:
            raise _refuse(f"The path {path} does not exist")
        is_left = self._trash(inside)
        left = " It holds other files, which were left there." if is_left else ""
        return f"Successfully deleted {path}{'.' if left else ''}{left}"

    def _rename(self, command: Mapping[str, Any]) -> str:
        old, new = _read_text(command, "old_path"), _read_text(command, "new_path")
        parts, new_parts = _split(old), _split(new)
        if not parts:
            raise _refuse(f"Cannot rename the {_ROOT} directory itself")
        if not new_parts or self._find(new)[0]:
            raise _refuse(f"The destination {new} already exists")
        inside, found = self._find(old)
        if not found:
            raise _refuse(f"The path {old} does not exist")
        self._require_folders(new_parts)
        said, is_masked = f"Successfully renamed {old} to {new}", False
        if not stat.S_ISDIR(found.st_mode):
            is_masked = self._move_file(old, inside, new, self._place(new_parts), found)
        elif new_parts[: len(parts)] == parts:
            raise _refuse(f"The path {old} cannot be moved into itself")
        else:
            self._move_folder(inside, new, self._place(new_parts, is_folder=True))
        return _say(said, is_masked)

    def _move_file(self, old: str, inside: str, new: str, target: str, found: os.stat_result) -> bool:
        """Move a file to a new name; True if what was forgotten in it is masked now."""

        def move() -> bool:
            data, text = self._read(old, inside)
            masked = self._mask(text, target).encode()
            try:
                create_file(self._workspace, target, masked, like=found, shown=new)
                remove_note(self._workspace, inside, hash_content(data))
            except FileBusy as error:
                raise _refuse(f"The destination {new} already exists") from error
            except FileChanged:
                remove_note(self._workspace, target, hash_content(masked))
                raise
            return masked != data

        return try_again(old, move)

    def _move_folder(self, inside: str, new: str, target: str) -> None:
        longest = max((len(path) for path, _ in self._walk(inside)), default=0)
        if longest - len(inside) + len(target) > _MAX_PATH:
            raise _refuse(f"The paths of some files in {new} would be longer than {_MAX_PATH:,} characters")
        above, name = open_parent(self._workspace, inside, shown=new)
        try:
            with open_folder(self._workspace, target.rpartition("/")[0]) as folder:
                platform.rename(name, target.rpartition("/")[2], src_dir_fd=above, dst_dir_fd=folder)
                sync_folder(folder)
        finally:
            os.close(above)

    def _edit(self, path: str, change: Callable[[str], str]) -> tuple[str, bool]:
        """Change the text of a file; return what it is now, and True if some of that is masked."""
        inside, found = self._find(path)
        if not inside:
            raise _refuse(f"The path {path} does not exist. Please provide a valid path.")
        if found is None or stat.S_ISDIR(found.st_mode):
            raise _refuse(f"The path {path} is not a file.")

        def edit() -> tuple[str, bool]:
            data, text = self._read(path, inside)
            changed = change(text)
            masked = self._mask(changed, inside)
            self._check_room(path, len(masked.encode()), len(data))
            replace_content(self._workspace, inside, masked.encode(), hash_content(data))
            return masked, masked != changed

        return try_again(path, edit)

    def _read(self, path: str, inside: str) -> tuple[bytes, str]:
        """Return the content of a file, and its text without what was forgotten."""
        max_bytes = self._settings.mdrecall.max_file_bytes
        data = read_below(self._workspace, inside, shown=path, max_bytes=max_bytes).data
        try:
            return data, self._mask(data.decode(), inside)
        except UnicodeDecodeError as error:
            raise _refuse(f"The file {path} is not UTF-8 text.") from error

    def _mask(self, text: str, inside: str) -> str:
        return self._forgotten.load().mask(text, inside)

    def _trash(self, inside: str) -> bool:
        """Move a file, or all that a folder holds, into the trash; True if something else is left in the folder."""
        found = find_status(self._workspace, inside)
        for path, about in reversed([(inside, found), *self._walk(inside)] if found else []):
            if not stat.S_ISDIR(about.st_mode):
                try_again(path, partial(self._trash_file, path))
                continue
            above, name = open_parent(self._workspace, path, shown=path)
            # It is not empty if others keep something in it.
            with suppress(OSError):
                platform.rmdir(name, dir_fd=above)
            os.close(above)
        return find_status(self._workspace, inside) is not None

    def _trash_file(self, inside: str) -> None:
        self._curator.delete(inside, self._curator.read(inside).hash, datetime.now(UTC))

    def _check_room(self, path: str, size: int, before: int = 0, *, is_new: bool = False) -> None:
        """Refuse a file that is too large, or one more than the folder may hold."""
        most = self._settings.mdrecall.max_file_bytes
        if size > most:
            raise _refuse(f"File {path} would have more than {most:,} bytes. Nothing was written; split it.")
        entries, total = int(is_new), size - before
        for _, about in self._walk(MODEL_FOLDER):
            entries += 1
            total += 0 if stat.S_ISDIR(about.st_mode) else about.st_size
            if entries > MAX_ENTRIES and is_new:
                raise _refuse(f"{_ROOT} has {MAX_ENTRIES:,} files and folders; delete some first. Nothing was written.")
            if total > MAX_BYTES and size > before:
                raise _refuse(f"{_ROOT} would have more than {MAX_BYTES:,} bytes; delete some files first.")

    def _find(self, path: str) -> tuple[str, os.stat_result | None]:
        """Return the place of a file or folder in the workspace, empty if there is none, and its status."""
        parts = _split(path)
        for is_kind, is_folder in ((stat.S_ISDIR, True), (stat.S_ISREG, False)):
            inside = self._place(parts, is_folder=is_folder)
            try:
                found = find_status(self._workspace, inside)
            except SymlinkRefused as error:
                raise _escape(path) from error
            if found and stat.S_ISLNK(found.st_mode):
                raise _escape(path)
            if found and is_kind(found.st_mode):
                return inside, found
            if not parts:
                # It counts as a folder before anything is in it.
                return MODEL_FOLDER, None
        return "", None

    def _require_folders(self, parts: Sequence[str]) -> None:
        """Refuse a path that leads through a file."""
        for count in range(1, len(parts)):
            above = "/".join((_ROOT, *parts[:count]))
            _, found = self._find(above)
            if found and not stat.S_ISDIR(found.st_mode):
                raise _refuse(f"The path {above} is not a directory")

    def _place(self, parts: Sequence[str], *, is_folder: bool = False) -> str:
        """Return the path in the workspace of what a model calls by these names."""
        names = [MODEL_FOLDER, *map(self._folder_name, parts)]
        return "/".join(names if is_folder else [*names[:-1], _file_name(parts[-1])])

    def _folder_name(self, shown: str) -> str:
        is_marked = shown.endswith(_MARK) or shown.lower() in self._settings.mdrecall.ignore
        return shown + _MARK * is_marked

    def _list(self, inside: str) -> list[tuple[str, str, os.stat_result]]:
        """Return what a folder holds, by the model's names: each with the name on the disk and the status."""
        found = list_folder(self._workspace, inside)
        named = [(self._shown_name(name, about), name, about) for name, about in found]
        return sorted((each for each in named if each[0]), key=lambda each: each[0])

    def _shown_name(self, name: str, about: os.stat_result) -> str:
        """Return how a model calls a file or folder; empty if it is not one of the model's."""
        if name.startswith(".") or to_valid_text(name) != name:
            return ""
        if stat.S_ISDIR(about.st_mode):
            shown = name.removesuffix(_MARK)
            return shown if self._folder_name(shown) == name else ""
        shown = _file_shown(name) if stat.S_ISREG(about.st_mode) and name.endswith(NOTE_ENDING) else ""
        return shown if shown and _file_name(shown) == name else ""

    def _walk(self, inside: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield every file and folder of the model below a folder, a folder before what it holds."""
        waiting = [inside]
        while waiting:
            above = waiting.pop()
            for _, name, about in self._list(above):
                yield f"{above}/{name}", about
                waiting += [f"{above}/{name}"] if stat.S_ISDIR(about.st_mode) else []


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
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in path):
        raise _refuse(f"Path {path!r} has a character that no name may have")
    return parts


def _file_name(shown: str) -> str:
    """Return the name on the disk of a file that the model calls like this."""
    name = shown if shown.endswith(NOTE_ENDING) else shown + NOTE_ENDING
    is_plain = _file_shown(name) == shown and name.casefold() not in AGENT_FILES
    return name if is_plain else f"{shown}{_MARK}{NOTE_ENDING}"


def _file_shown(name: str) -> str:
    """Return how the model calls a file of this name."""
    stem = name.removesuffix(NOTE_ENDING)
    is_own = stem.endswith(_MARK) or _OTHER_ENDING.search(stem)
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
    unit = min(max(0, size.bit_length() - 1) // 10, len(_UNITS) - 1)
    scaled = size / 1024**unit
    return f"{int(scaled) if scaled == int(scaled) else format(scaled, '.1f')}{_UNITS[unit]}"


def _say(text: str, is_masked: bool) -> str:
    return f"{text}\n{_FORGOTTEN}" if is_masked else text


def _escape(path: str) -> ArgumentError:
    return _refuse(f"Path {path} would escape {_ROOT} directory")


def _refuse(text: str) -> ArgumentError:
    return ArgumentError(text, name="command")
