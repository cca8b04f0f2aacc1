"""Write notes of a workspace: which note a name means, appending to it, and new notes in ``memory/``.

A memory flush appends to the note of the day and to nothing else.
"""

import errno
import os
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from typing import NamedTuple

from mdrecall import platform
from mdrecall.errors import FileBusy, NothingToWrite, PathRefused, ReadError
from mdrecall.notes.editing import append_to, open_folder, write_beside, write_error
from mdrecall.notes.files import AGENT_FILES, MEMORY_FOLDER, ROOT_FILES, find_daily_note
from mdrecall.notes.opening import decode, read_below
from mdrecall.patterns import NOTE_ENDING, compile_later, host_of, is_note_file
from mdrecall.types.documents import Appended

_DAY = compile_later(r"\d{4}-\d{2}-\d{2}")
#: A number after a point, as in ``release 1.2``, is not a file ending.
OTHER_ENDING = compile_later(r"\.[A-Za-z]\w{0,9}\Z")
#: The longest file name that common file systems accept.
_MAX_NAME_BYTES = 255
#: After this many names that are taken, another name must be given: a loop that never ends helps nobody.
_MAX_NAMES = 1000
#: Control characters, half characters, line and paragraph separators.
_BAD_CATEGORIES = frozenset(("Cc", "Cs", "Zl", "Zp"))
#: Invisible characters and changes of direction, which make a name look like another one.
_INVISIBLE = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u00ad\u061c\u200b\u200e\u200f\u2060\ufeff"
_HINT = (
    "Give a day as YYYY-MM-DD, the name of a note in memory/ such as people/priya, or MEMORY.md; without a file it is"
    " today's note."
)
#: Deeper than anybody sorts notes; it keeps a path within what file systems accept.
_MAX_FOLDERS = 8
#: How many notes of days are read for the marks in them. Claude Code deletes a transcript after 30 days.
_MAX_DAYS = 31


class NotePath(NamedTuple):
    """Where a note is, or will be."""

    folder: str
    """``memory``, a folder below it such as ``memory/people``, or empty for the workspace itself."""
    name: str

    @property
    def shown(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def is_long_term(self) -> bool:
        """True if it is ``MEMORY.md``, which is read at the beginning of every private conversation."""
        return not self.folder and self.name in ROOT_FILES


def resolve_note(file: str, *, today: str, is_plain: bool = False, ignored: Container[str] = frozenset()) -> NotePath:
    """Return the note that a name means: ``people/priya`` is ``memory/people/priya.md``.

    In a plain folder of Markdown, a bare name is not in ``memory/``. ``ignored`` are folders that are never searched.
    """
    asked = file.strip().removeprefix("./")
    *folders, name = (asked or today).split("/")
    if not folders and name.casefold() in (MEMORY_FOLDER, MEMORY_FOLDER + NOTE_ENDING):
        return NotePath("", name if name in ROOT_FILES else ROOT_FILES[0])
    if is_plain and not folders:
        return NotePath("", _refuse_agent_file(_note_name(name, file), file))
    if folders and folders[0].casefold() == MEMORY_FOLDER:
        folders = folders[1:]
    if not _are_good_folders(folders, ignored) or host_of(asked):
        raise PathRefused(f"{_quote(asked)} is not a note that may be written.", path=file, hint=_HINT)
    found = _note_name(name, file)
    return NotePath("/".join((MEMORY_FOLDER, *folders)), _refuse_agent_file(found, file) if folders else found)


def resolve_daily(workspace: str, day: str, ignored: Container[str]) -> NotePath | None:
    """Return the note that Obsidian has for a day; None without Obsidian, or if no note may be written there."""
    is_day = _DAY.fullmatch(day) and _is_day(day)
    *folders, name = (find_daily_note(workspace, day) if is_day else "").split("/")
    with suppress(PathRefused):
        if name and _are_good_folders(folders, ignored):
            return NotePath("/".join(folders), _refuse_agent_file(_note_name(name, name), name))
    return None


def find_existing(workspace: str, name: str, new: NotePath, find: Callable[[str], str | None]) -> NotePath:
    """Return the note of the workspace that has a name; ``new`` if it exists, or if no note has the name.

    ``find`` returns the path of a note as links mean it. Files that agents read as instructions do not count.
    """
    if new.is_long_term or os.path.lexists(os.path.join(workspace, new.shown)):
        return new
    folder, _, file = (find(name) or "").rpartition("/")
    is_elsewhere = folder.split("/")[0] in ("..", "") and bool(folder)
    return new if not file or is_elsewhere or file.casefold() in AGENT_FILES else NotePath(folder, file)


def _are_good_folders(folders: Sequence[str], ignored: Container[str]) -> bool:
    """True if notes may be written into folders of these names: none is hidden, misleading or never searched."""
    return len(folders) <= _MAX_FOLDERS and all(
        name.strip() == name != ""
        and not name.startswith((".", "~"))
        and not name.endswith((".", ":"))
        and not has_bad_characters(name)
        and name.lower() not in ignored
        and len(name.encode()) <= _MAX_NAME_BYTES
        for name in folders
    )


def _refuse_agent_file(name: str, file: str) -> str:
    if name.casefold() in AGENT_FILES:
        hint = "Agents read this file as instructions. Give another name, or write it with an editor."
        raise PathRefused(f"{_quote(file)} is not a note that may be written.", path=file, hint=hint)
    return name


def append_note(
    workspace: str,
    text: str,
    note: NotePath,
    *,
    max_bytes: int,
    author: str = "",
    after_blank_line: bool = True,
    finishes: bool = False,
) -> Appended:
    """Append a text to a note, by default after a blank line, with its author. A note that does not exist is created.

    ``finishes`` completes a text whose beginning is at the end of the note, left there by a process that was killed.
    """
    if not text.strip():
        raise NothingToWrite(f"There is nothing to append to {note.shown}.", path=note.shown, hint="Give some text.")
    note = note._replace(folder=_existing_folder(workspace, note.folder))
    try:
        with open_folder(workspace, note.folder) as folder:
            found = note._replace(name=_existing_name(note, platform.listdir(folder)))
            return append_to(
                folder, found.name, found.shown, text, max_bytes=max_bytes, after_blank_line=after_blank_line,
                author=author, finishes=finishes,
            )  # fmt: skip
    except OSError as error:
        raise write_error(error, workspace, note.shown) from error


def append_daily(
    workspace: str, text: str, day: str, *, path: str | None = None, max_bytes: int, author: str = ""
) -> Appended:
    """Append a text to ``memory/<day>.md``. ``path`` is where the model means to write, and must be that note."""
    note = NotePath(MEMORY_FOLDER, f"{day}{NOTE_ENDING}")
    shown = note.shown
    if not _DAY.fullmatch(day):
        raise PathRefused(f"{day!r} is not a day.", path=shown, hint="Give it as YYYY-MM-DD.")
    if path is not None and not _is_same_file(path, workspace, shown):
        hint = f"Write to {shown}; it is the only file that a memory flush may append to."
        raise PathRefused(f"{path.strip()!r} is not the file of the day.", path=shown, hint=hint)
    return append_note(workspace, text, note, max_bytes=max_bytes, author=author, after_blank_line=False)


def list_days(workspace: str) -> list[str]:
    """Return the paths of the notes of days, the oldest first."""
    try:
        names = sorted(os.listdir(os.path.join(workspace, MEMORY_FOLDER)))
    except OSError:
        return []
    return [f"{MEMORY_FOLDER}/{name}" for name in names if _DAY.fullmatch(name.removesuffix(NOTE_ENDING))]


def read_days(workspace: str, since: str, *, max_bytes: int) -> Iterator[str]:
    """Yield the texts of the last notes of days, from a day on; one that cannot be read is left out."""
    days = [path for path in list_days(workspace) if path >= f"{MEMORY_FOLDER}/{since}"]
    for shown in days[-_MAX_DAYS:]:
        with suppress(ReadError):
            yield decode(read_below(workspace, shown, shown=shown, max_bytes=max_bytes))


def create_note(workspace: str, name: str, text: str) -> str:
    """Write a new note into ``memory/``, with a number in its name if the name is taken. Return its path."""
    stem, _, ending = name.rpartition(".")
    for number in range(1, _MAX_NAMES):
        path = f"memory/{name}" if number == 1 else f"memory/{stem}-{number}.{ending}"
        with suppress(FileBusy):
            create_file(workspace, path, text.encode("utf-8", "replace"))
            return path
    raise FileBusy(f"memory/{name} and the same names with numbers exist.", path=name, hint="Give another name.")


def create_file(
    workspace: str, path: str, content: bytes, *, like: os.stat_result | None = None, shown: str = ""
) -> None:
    """Write a new file below the workspace, whole or not at all. Raise ``FileBusy`` if there is one.

    ``like`` is the file that it is a copy of, whose permissions and times it gets. Messages call it ``shown``.
    """
    folder_name, _, name = path.rpartition("/")
    shown = shown or path
    try:
        with open_folder(workspace, folder_name) as folder, write_beside(folder, name, content, like) as temporary:
            if like is not None:
                platform.utime(temporary, ns=(like.st_atime_ns, like.st_mtime_ns), dir_fd=folder, follow_symlinks=False)
            _give_name(folder, temporary, name)
    except FileExistsError as error:
        hint = "Nothing was written. Choose another name, add to that note instead, or move or delete it first."
        raise FileBusy(f"{shown} already exists.", path=shown, hint=hint) from error
    except OSError as error:
        raise write_error(error, workspace, shown, verb="write") from error


def _give_name(folder: int, temporary: str, name: str) -> None:
    """Give a file its name, unless another file has it."""
    try:
        # Unlike a rename, a link never replaces what somebody else has put there meanwhile.
        platform.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        # Some file systems, such as that of a memory card, have no links.
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS) or name in platform.listdir(folder):
            raise
        platform.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _note_name(name: str, file: str) -> str:
    """Return the file name of a note: composed characters, the ending ``.md``, nothing hidden or misleading."""
    name = unicodedata.normalize("NFC", name.strip())
    stem = name[: -len(NOTE_ENDING)] if name.casefold().endswith(NOTE_ENDING) else name
    problem, hint = f"{_quote(file)} is not the name of a note.", ""
    if not stem.strip() or stem.startswith("."):
        hint = _HINT
    elif has_bad_characters(stem):
        hint = "Leave out control characters and backslashes."
    elif stem is name and OTHER_ENDING.search(name):
        problem, hint = f"{_quote(file)} is not a Markdown file (.md).", "Only .md files are written."
    elif len((stem + NOTE_ENDING).encode()) > _MAX_NAME_BYTES:
        problem, hint = f"The name {_quote(file)} is too long.", "Give a shorter one."
    elif _DAY.fullmatch(stem) and not _is_day(stem):
        problem, hint = f"{stem} is not a day.", "Give it as YYYY-MM-DD."
    if hint:
        raise PathRefused(problem, path=file, hint=hint)
    return stem + NOTE_ENDING


def has_bad_characters(name: str) -> bool:
    """True if a name has a backslash, or a character that breaks a line, hides, or changes how the name is read."""
    return "\\" in name or any(char in _INVISIBLE or unicodedata.category(char) in _BAD_CATEGORIES for char in name)


def _is_day(text: str) -> bool:
    with suppress(ValueError):
        return bool(date.fromisoformat(text))
    return False


def _existing_folder(workspace: str, folder: str) -> str:
    """Return the path of a folder below ``memory/`` as the disk spells it."""
    spelled: list[str] = []
    for name in folder.split("/"):
        names: list[str] = []
        with suppress(OSError):
            names = os.listdir(os.path.join(workspace, *spelled)) if spelled else []
        spelled.append(_spell(name, names))
    return "/".join(spelled)


def _spell(name: str, names: Iterable[str]) -> str:
    """Return a name as the disk spells it: two names that differ only in case are one on many disks."""
    same = sorted(each for each in names if _fold(each) == _fold(name))
    return name if name in same or not same else same[0]


def _existing_name(note: NotePath, names: list[str]) -> str:
    """Return the name of a note as the folder spells it."""
    if note.is_long_term and note.name not in names:
        return next((name for name in ROOT_FILES if name in names), ROOT_FILES[0])
    return _spell(note.name, filter(is_note_file, names))


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _quote(file: str) -> str:
    return repr(file.strip()[:80])


def _is_same_file(path: str, workspace: str, shown: str) -> bool:
    """True if a path, as a model may write it, is the file ``shown`` of the workspace."""
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
