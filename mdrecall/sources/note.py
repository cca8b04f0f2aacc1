"""Which note a name means, and appending to it: a day's, one by its name in ``memory/``, or ``MEMORY.md``."""

import os
import re
import unicodedata
from datetime import date
from typing import NamedTuple

from mdrecall.errors import NothingToWrite, PathRefused
from mdrecall.sources.appending import Entry, append_in, folder_of, refused
from mdrecall.sources.files import MEMORY_FOLDER, ROOT_FILES
from mdrecall.types import Appended

_ENDING = ".md"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
#: A number after a point, as in ``release 1.2``, is no ending.
_OTHER_ENDING = re.compile(r"\.[A-Za-z]\w{0,9}\Z")
_MOST_BYTES = 255
_NO_CATEGORY = frozenset(("Cc", "Cs", "Zl", "Zp"))
#: They make a name look like another one.
_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u00ad\u061c\u200b\u200e\u200f\u2060\ufeff")
#: What agents begin with in a folder of their own: OpenClaw's, and those of coding agents.
_FOR_AGENTS = frozenset(
    f"{name}{_ENDING}"
    for name in ("agents", "bootstrap", "claude", "gemini", "heartbeat", "identity", "skill", "soul", "tools", "user")
)
_HINT = "Give a day as YYYY-MM-DD, the name of a note in memory/, or MEMORY.md; without a file it is today's note."


class Place(NamedTuple):
    """Where a note is, or will be."""

    folder: str
    """``memory``, or nothing for the workspace itself."""
    name: str

    @property
    def shown(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def is_lasting(self) -> bool:
        """Whether it is ``MEMORY.md``, which is read at the beginning of every private conversation."""
        return not self.folder and self.name in ROOT_FILES


def place_of(file: str, *, today: str, is_plain: bool = False) -> Place:
    """The place that a name means; in a plain folder of Markdown notes stand beside the others, without ``memory/``.

    A first ``memory/`` or ``MEMORY.md`` would end that all notes of a plain folder are searched, so it is refused.
    """
    asked = file.strip().removeprefix("./")
    *folders, name = (asked or today).split("/")
    in_memory = [folder.casefold() for folder in folders] == [MEMORY_FOLDER]
    is_lasting = not folders and name.casefold() in (MEMORY_FOLDER, MEMORY_FOLDER + _ENDING)
    if folders and not in_memory:
        raise PathRefused(f"{_cut(asked)} is not a note that may be written.", path=file, hint=_HINT)
    if is_plain and (in_memory or is_lasting):
        hint = "Give a name without memory/; or make the folder memory/ yourself, and only what is in it is searched."
        message = f"{_cut(asked)} is not written: all notes of this folder are searched because it has no memory/."
        raise PathRefused(message, path=file, hint=hint)
    if is_lasting:
        return Place("", name if name in ROOT_FILES else ROOT_FILES[0])
    found = Place("" if is_plain else MEMORY_FOLDER, _note_name(name, file))
    if is_plain and found.name.casefold() in _FOR_AGENTS:
        hint = "Agents take what stands there for instructions. Give another name, or write it with an editor."
        raise PathRefused(f"{_cut(asked)} is not a note that may be written.", path=file, hint=hint)
    return found


def append_note(workspace: str, text: str, place: Place, *, max_bytes: int) -> Appended:
    """Append a text to a note, after a blank line; the note is made if it is not there."""
    if not text.strip():
        raise NothingToWrite(f"There is nothing to append to {place.shown}.", path=place.shown, hint="Give some text.")
    try:
        with folder_of(workspace, place.folder) as folder:
            found = place._replace(name=_spelled(place, os.listdir(folder)))
            return append_in(folder, found.name, found.shown, Entry(text, max_bytes, is_apart=True))
    except OSError as error:
        raise refused(error, workspace, place.shown) from error


def _note_name(name: str, file: str) -> str:
    """A name as a file has it: composed, with its ending, and nothing that hides or leads elsewhere."""
    name = unicodedata.normalize("NFC", name.strip())
    stem = name[: -len(_ENDING)] if name.casefold().endswith(_ENDING) else name
    if not stem.strip() or stem.startswith("."):
        raise PathRefused(f"{_cut(file)} is not the name of a note.", path=file, hint=_HINT)
    if "\\" in stem or any(char in _TURNS or unicodedata.category(char) in _NO_CATEGORY for char in stem):
        hint = "Leave out control characters and backslashes."
        raise PathRefused(f"{_cut(file)} is not the name of a note.", path=file, hint=hint)
    if stem is name and _OTHER_ENDING.search(name):
        raise PathRefused(f"{_cut(file)} is not a Markdown file (.md).", path=file, hint="Only .md files are written.")
    if len((stem + _ENDING).encode()) > _MOST_BYTES:
        raise PathRefused(f"The name {_cut(file)} is too long.", path=file, hint="Give a shorter one.")
    if _DAY.fullmatch(stem) and not _is_day(stem):
        raise PathRefused(f"{stem} is not a day.", path=file, hint="Give it as YYYY-MM-DD.")
    return stem + _ENDING


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _spelled(place: Place, names: list[str]) -> str:
    """The name under which a note is there already: two that differ only in case are one file on many disks."""
    if place.name in names:
        return place.name
    if place.is_lasting:
        return next((name for name in ROOT_FILES if name in names), ROOT_FILES[0])
    same = sorted(name for name in names if _folded(name) == _folded(place.name) and name.endswith(_ENDING))
    return same[0] if same else place.name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _cut(file: str) -> str:
    return repr(file.strip()[:80])
