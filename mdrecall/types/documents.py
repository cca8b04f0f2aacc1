"""The notes as files, as text and as chunks."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

SourceName: TypeAlias = Literal["memory", "sessions"]

# Size, time of the last change to the content and to the entry (both in ns), and number of a file: while these stay
# the same, so does what is in it. A plain tuple, because thousands are made before every search.
Stamp: TypeAlias = tuple[int, int, int, int]


class Issue(NamedTuple):
    """Something about the files that a person may want to know; nothing stopped because of it."""

    path: str
    problem: str


class Listing(NamedTuple):
    """What a source has at one moment."""

    stamps: Mapping[str, Stamp]
    """Every document's path with its stamp."""
    issues: tuple[Issue, ...]
    lost: tuple[str, ...]
    """Path prefixes that could not be looked at; nothing is known of what is below them."""
    places: Mapping[str, tuple[str, str]]
    """For every folder that documents are in: the trusted folder to open them from, and its own path prefix."""
    folders: tuple[str, ...] = ()
    """Every folder that documents are or might come to be in, as the system names it."""


class Document(NamedTuple):
    """A file as text, with what is needed to notice that it changed."""

    source: SourceName
    path: str
    text: str
    hash: str
    stamp: Stamp
    seen_ns: int
    """When the stamp was taken."""


class Chunk(NamedTuple):
    """A line range of a document, with the text of exactly those lines."""

    start_line: int
    end_line: int
    text: str
    overlap: int
    """How many leading characters of ``text`` are also the end of the chunk before."""
    trail: tuple[str, ...]
    """The Markdown heading lines this chunk stands under, outermost first; last the fence, if it begins inside one."""
    records: tuple[int, ...] = ()
    """In a transcript, the number of the record that each line of the text is from; empty in a note."""


class IndexedChunk(NamedTuple):
    """A chunk with the terms it is found by."""

    chunk: Chunk
    words: str
    names: str
    title: str
    """Terms of the file name, the date in it and the headings above."""


class KnownDocument(NamedTuple):
    """What the store remembers of a document."""

    hash: str
    index_format: str


class StoredChunk(NamedTuple):
    """A chunk as the store gives it back."""

    id: int
    source: SourceName
    path: str
    start_line: int
    end_line: int
    text: str
    trail: tuple[str, ...]
    mtime_ns: int = 0
    records: tuple[int, ...] = ()

    def line(self, number: int) -> int:
        """Where the line with a number, from 0, of the text stands in the file."""
        return self.records[min(number, len(self.records) - 1)] if self.records else self.start_line + number


class Appended(NamedTuple):
    """What was written where."""

    path: str
    """Relative to the workspace."""
    bytes: int
    skipped: tuple[str, ...] = ()
    """The first line of every section that the file had already."""
    start_line: int | None = None
    end_line: int | None = None

    @property
    def citation(self) -> str:
        """``path#L3`` or ``path#L3-L9``; the path alone if nothing was written."""
        return cited(self.path, self.start_line, self.end_line)


def cited(path: str, start_line: int | None, end_line: int | None) -> str:
    """Lines of a file as answers name them: ``path#L3`` or ``path#L3-L9``."""
    if start_line is None:
        return path
    return f"{path}#L{start_line}" + (f"-L{end_line}" if end_line != start_line else "")
