"""The links between the notes on the disk. A file is read again only when it has changed."""

from mdrecall.core.text.fields import read_fields
from mdrecall.core.text.links import LinkTable, NoteLinks
from mdrecall.errors import FileMissing, ReadError
from mdrecall.sources.files import MemoryFiles
from mdrecall.sources.tombstones import TombstoneFiles
from mdrecall.types import Fields, Stamp


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
            from difflib import get_close_matches

            asked = name.strip()[:80]
            names = {known.rsplit("/", 1)[-1].removesuffix(".md"): known for known in self._known}
            near = ", ".join(names[close] for close in get_close_matches(asked, names, n=3))
            hint = f"Did you mean {near}?" if near else "Give the path of a note, its name, or an alias of it."
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
