"""Reads memory files and nothing else: the lines that the tool memory_get returns, and the links between notes."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate

from mdrecall.errors import FileMissing, NotMarkdown, PathOutside, ReadError, SymlinkRefused
from mdrecall.notes.files import MemoryFiles, Root
from mdrecall.notes.opening import decode, read_below
from mdrecall.notes.tombstones import TombstoneFiles
from mdrecall.patterns import drop_ending, host_of, is_note_file
from mdrecall.text.markdown import cut_units, utf16_units
from mdrecall.text.notes import LinkTable, NoteLinks, read_fields
from mdrecall.types.documents import Fields, Stamp
from mdrecall.types.search import ReadResult

#: How much is returned at once, in UTF-16 units as OpenClaw counts: more would fill a model's context.
MAX_READ_UNITS = 50_000
#: More would hide the one that is meant.
_MAX_SUGGESTIONS = 3
_NOT_FOUND = "Search for it, or take a path from an earlier result."
_OUTSIDE = (
    "Only MEMORY.md, USER.md, memory/ and the files below extraPaths can be read. To read this file, add its folder to"
    " extraPaths."
)


def read_memory_file(
    files: MemoryFiles, workspace: str, path: str, *, max_bytes: int, mask: Callable[[str, str], str]
) -> tuple[str, str]:
    """Return the path of one memory file as results show it, and its text; a ``ReadError`` says why it is refused.

    ``mask`` is given the text and the path, and returns the text without what was forgotten.
    """
    refused: ReadError | None = None
    for root, inside, shown in find_candidates(files, workspace, path):
        try:
            data = read_below(root.folder, inside, shown=shown, max_bytes=max_bytes)
        except FileMissing as missing:
            hint = partial(_suggest, files, shown, default=_NOT_FOUND)
            refused = refused or FileMissing(str(missing), path=shown, hint=hint)
        except SymlinkRefused as link:
            refused = refused or link
        else:
            return shown, mask(files.clean(shown, root.folder, inside, decode(data))[0], shown)
    if refused is None:
        hint = partial(_suggest, files, path, default=_OUTSIDE, is_exact=True)
        refused = PathOutside(f"{path.strip()} is not one of the memory files.", path=path, hint=hint)
    raise refused


def select_lines(
    path: str, text: str, from_line: int | None, lines: int | None, max_chars: int, from_char: int = 0
) -> ReadResult:
    """Return a range of lines without the first characters of its first line.

    More than ``max_chars`` UTF-16 units are cut at a line end, and a single line that is longer inside the line.
    """
    all_lines = text.split("\n")
    if len(all_lines) > 1 and all_lines[-1] == "":
        all_lines.pop()
    first, skipped = max(1, from_line or 1), max(0, from_char)
    wanted = all_lines[first - 1 : first - 1 + max(1, lines)] if lines else all_lines[first - 1 :]
    if wanted and skipped:
        wanted[0] = wanted[0][skipped:]
    # As many lines as fit; at least one, if there is one.
    used = accumulate(utf16_units(line[: max_chars + 1]) + 1 for line in wanted)
    taken = next((number for number, units in enumerate(used) if number and units > max_chars + 1), len(wanted))
    kept = wanted[:taken]
    cut = taken == 1 and utf16_units(kept[0][: max_chars + 1]) > max_chars
    shown = cut_units(kept[0], max_chars) if cut else "\n".join(kept)
    after = first + taken
    more = after <= len(all_lines)
    whole = first == 1 and not more and not cut and text.endswith("\n")
    return ReadResult(
        path=path,
        text=shown + "\n" if whole else shown,
        from_line=first,
        line_count=taken,
        total_lines=len(all_lines),
        truncated=cut or taken < len(wanted),
        next_from=after if more else None,
        next_char=skipped + len(shown) if cut else None,
    )


def find_candidates(files: MemoryFiles, workspace: str, path: str) -> Iterator[tuple[Root, str, str]]:
    """Yield every root that a path lies in, with the path inside it and the path as results show it."""
    if not path.strip() or "\0" in path or any("\ud800" <= char <= "\udfff" for char in path):
        raise PathOutside(f"{path!r} is not a path.", path=path, hint="Give a path such as memory/2026-02-10.md.")
    asked = path if os.path.lexists(os.path.join(workspace, path)) else path.strip()
    target = os.path.normpath(os.path.join(workspace, asked))
    for found in files.find_covering(target):
        if not is_note_file(target):
            hint = partial(_suggest, files, asked, default="Only .md files are read.", is_exact=True)
            raise NotMarkdown(f"{asked} is not a Markdown file (.md).", path=asked, hint=hint)
        yield found


def _suggest(files: MemoryFiles, asked: str, *, default: str, is_exact: bool = False) -> str:
    """Return a hint that names the notes that have the name of a path in another folder, else a similar name."""
    from difflib import get_close_matches

    named: dict[str, list[str]] = {}
    # The names of projects that coding agents know are nobody else's business.
    for path in sorted(path for path in files.scan().stamps if not host_of(path)):
        named.setdefault(_bare_name(path), []).append(path)
    name = _bare_name(asked.strip())
    close = [name] if name in named or is_exact else get_close_matches(name, named, n=_MAX_SUGGESTIONS)
    found = [path for each in close for path in named.get(each, ())][:_MAX_SUGGESTIONS]
    return f"Did you mean {', '.join(found)}?" if found else default


def _bare_name(path: str) -> str:
    return drop_ending(path.rpartition("/")[2]).casefold()


class LinkedNotes:
    """The notes of a workspace with their links."""

    def __init__(self, files: MemoryFiles, tombstones: TombstoneFiles) -> None:
        self._files = files
        self._tombstones = tombstones
        self._known: dict[str, tuple[Stamp, str, Fields]] = {}

    def links_of(self, name: str) -> NoteLinks:
        """Return the links from and to a note, which is named by its path, file name, alias or title."""
        table = LinkTable((path, fields) for path, (_, _, fields) in self._read().items())
        path = table.find(name.strip())
        if path is None:
            asked = name.strip()[:80]
            default = "Give the path of a note, its name, or an alias of it."
            hint = partial(_suggest, self._files, asked, default=default)
            raise FileMissing(f"There is no note {asked!r}.", path=name, hint=hint)
        return table.links_of(path)

    def find(self, name: str) -> str | None:
        """Return the path of the note that somebody calls by its path, file name, alias or title; None if none is.

        The names of files come first: then no note has to be read.
        """
        files = LinkTable((path, Fields()) for path in self._files.scan().stamps)
        return files.find(name) or LinkTable((path, known[2]) for path, known in self._read().items()).find(name)

    def _read(self) -> dict[str, tuple[Stamp, str, Fields]]:
        """Return what is known of each note as it is now."""
        listing, forgotten = self._files.scan(), self._tombstones.load()
        fresh: dict[str, tuple[Stamp, str, Fields]] = {}
        for path, stamp in listing.stamps.items():
            known = self._known.get(path)
            if known is None or known[:2] != (stamp, forgotten.fingerprint):
                try:
                    text = self._files.read(path, listing).text
                except ReadError:
                    text = ""
                known = stamp, forgotten.fingerprint, read_fields(forgotten.mask(text, path))
            fresh[path] = known
        self._known = fresh
        return fresh
