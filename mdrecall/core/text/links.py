"""Links between notes: which note a link means, and which notes link to a note.

A link names a note by its path, by its file name with or without ``.md``, by an alias, or by its title. A path may
leave out the first folders. Of several notes of one name, the one nearest to the linking note is meant.
"""

import posixpath
from collections.abc import Iterable
from typing import NamedTuple

from mdrecall.core.text.words import fold
from mdrecall.types import Fields, Link


class NoteLink(NamedTuple):
    """A link from one note to another."""

    path: str
    """The note that the link is in."""
    line: int
    target: str
    """The note that it means; as it is written, if there is no such note."""
    heading: str = ""
    """The heading of that note that it points to."""
    alias: str = ""
    """What is shown instead of the name of the note."""
    is_broken: bool = False
    """True if there is no such note."""


class NoteLinks(NamedTuple):
    """The links of one note."""

    path: str
    links: tuple[NoteLink, ...]
    """From the note to others, in reading order."""
    backlinks: tuple[NoteLink, ...]
    """From others to the note, by their path."""


class LinkTable:
    """The notes of a workspace, by everything that a link may call them."""

    def __init__(self, notes: Iterable[tuple[str, Fields]]) -> None:
        self._notes = dict(notes)
        self._by_name: dict[str, list[str]] = {}
        for path, fields in self._notes.items():
            parts = fold(path.removesuffix(".md")).split("/")
            endings = ("/".join(parts[start:]) for start in range(len(parts)))
            for name in dict.fromkeys((*endings, *map(fold, fields.aliases), fold(fields.title))):
                self._by_name.setdefault(name, []).append(path)

    def links_of(self, path: str) -> NoteLinks:
        """Return the links from and to a note."""
        own = tuple(self._resolve(path, link) for link in self._notes[path].links)
        others = (
            self._resolve(other, link)
            for other, fields in sorted(self._notes.items())
            if other != path
            for link in fields.links
        )
        return NoteLinks(path, own, tuple(link for link in others if link.target == path and not link.is_broken))

    def find(self, name: str) -> str | None:
        """Return the path of the note that somebody calls by a name; None if there is none."""
        return self._choose(name.removesuffix(".md"), "") if name.strip() else None

    def _resolve(self, path: str, link: Link) -> NoteLink:
        place, _, alias = link.target.partition("|")
        name, _, heading = place.partition("#")
        # ``[[#Heading]]`` points into the note itself. ``^block`` marks are no headings.
        name, heading = name.strip(), heading.rsplit("#", 1)[-1].strip().lstrip("^")
        target = self._choose(name.removesuffix(".md"), path) if name else path
        return NoteLink(path, link.line, target or name, heading, alias.strip(), target is None)

    def _choose(self, name: str, source: str) -> str | None:
        folder = posixpath.dirname(source)
        relative = posixpath.normpath(posixpath.join(folder, name)) + ".md"
        if relative in self._notes:
            return relative
        found = self._by_name.get(fold(name.removeprefix("./").lstrip("/")), ())
        return min(found, key=lambda path: (-_shared_folders(path, source), path.count("/"), path), default=None)


def _shared_folders(path: str, other: str) -> int:
    """Return how many folders two paths have in common."""
    pairs = zip(path.split("/")[:-1], other.split("/")[:-1], strict=False)
    return next((count for count, (one, two) in enumerate(pairs) if one != two), min(path.count("/"), other.count("/")))
