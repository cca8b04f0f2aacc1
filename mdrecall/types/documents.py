"""Notes as files, as text, as chunks and as vectors; embedders and their batch jobs, and API keys."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from mdrecall.patterns import is_note_file

T = TypeVar("T")
SourceName: TypeAlias = Literal["memory", "sessions"]

# The size, modification time, change time (both in ns) and inode of a file: while they stay the same, so does its
# content. Only stamps from the same machine can be compared. A plain tuple, as thousands are made before every search.
Stamp: TypeAlias = tuple[int, int, int, int]

#: Separates a transcript's path from the number of a part in the path of a document. No file name can contain it.
PART_MARK = "\0"


class Issue(NamedTuple):
    """A problem that did not stop the work, but that a person may want to know."""

    path: str
    problem: str


class Stamps(dict[str, T]):
    """Stamps by path in a mapping that nobody changes, and how it differs from the one that it was made of."""

    def __init__(
        self, base: Mapping[str, T], removed: Sequence[str] = (), newer: Mapping[str, T] = MappingProxyType({})
    ) -> None:
        """Copy a mapping without some paths, and with other stamps of others."""
        super().__init__(base)
        for path in removed:
            self.pop(path, None)
        self.update(newer)
        self._version = object()
        # Not the mapping itself, which would hold its memory.
        self._base = base._version if isinstance(base, Stamps) else None
        self._changed = frozenset((*removed, *newer))

    def find_changed(self, before: Mapping[str, object]) -> frozenset[str] | None:
        """Return the paths by which it may differ from another mapping; None if that is not known."""
        if before is self:
            return frozenset()
        is_base = isinstance(before, Stamps) and before._version is self._base
        return self._changed if is_base else None


class Listing(NamedTuple):
    """The documents of a source at one moment."""

    stamps: Mapping[str, Stamp]
    """The stamp of every document, by path."""
    issues: tuple[Issue, ...]
    lost: tuple[str, ...]
    """Path prefixes of folders that could not be read; nothing is known of what is in them."""
    places: Mapping[str, tuple[str, str]]
    """For every folder of documents, the trusted folder to open them from, and its own path prefix."""
    folders: tuple[str, ...] = ()
    """The absolute path of every folder that has documents, or may get some."""
    forgotten: frozenset[str] = frozenset()
    """Paths of what the program that the documents belong to was told to forget."""

    def locate(self, path: str) -> tuple[str, str]:
        """Return the trusted folder to open a document from, and its path in it."""
        folder, prefix = self.places[path.rpartition("/")[0]]
        return folder, path[len(prefix) + 1 :] if prefix else path


class NearNote(NamedTuple):
    """A note that is similar in meaning to another one."""

    path: str
    similarity: float
    """The cosine of its closest part and the mean of the other note, -1 to 1."""


class NoteFile(NamedTuple):
    """A note as a list of notes shows it."""

    path: str
    bytes: int
    changed_s: float
    """When its content changed last, in seconds since 1970."""


class Link(NamedTuple):
    """A link from a line of a note to another note."""

    line: int
    target: str
    """As it is written: ``target#heading|alias``, or a part of it."""


class Fields(NamedTuple):
    """What a note says about itself."""

    title: str = ""
    """The title in its front matter."""
    tags: tuple[str, ...] = ()
    """The tags in its front matter and in its text, without ``#``."""
    aliases: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()


NO_FIELDS = Fields()


class Collection(NamedTuple):
    """A named part of the notes."""

    name: str
    place: str
    """Its folder or file, as results show paths; empty for the whole workspace."""
    pattern: str | None = None
    """A glob, relative to the folder, that its notes match."""
    weight: float = 1.0
    """What the odds that its notes answer a query are multiplied by."""


class Document(NamedTuple):
    """A file as text, with its hash and stamp to notice changes."""

    source: SourceName
    path: str
    text: str
    hash: str
    stamp: Stamp
    seen_ns: int
    """When the stamp was taken."""
    fields: Fields = NO_FIELDS
    marks: "Marks | None" = None
    """The marks of the whole document, whatever its lines say."""


#: Who wrote a text; empty if that is not known.
Origin: TypeAlias = Literal["owner", "agent", "flush", "digest", "import", "system", "untrusted", ""]


class Marks(NamedTuple):
    """What annotations and comments say about a chunk; nothing of it is part of the text."""

    triggers: tuple[str, ...] = ()
    """Phrases of a message that should bring this entry to mind."""
    importance: int | None = None
    """1 to 10, as somebody wrote it; None if nobody did."""
    project: str = ""
    """The projects that it belongs to, joined with ``; ``; ``?`` if they cannot be read; empty if it is for all."""
    superseded_by: str = ""
    """The path or citation of what replaces it."""
    is_superseded: bool = False
    superseded_on: str = ""
    """The day when it was replaced, as ``YYYY-MM-DD``."""
    origin: Origin = ""
    """Who wrote it; of several, the least trusted."""
    speaker: str = ""
    """Who says its beginning, if the chunk begins inside a message of a conversation."""
    written: str = ""
    """The day when an entry of a curated file was written, as ``YYYY-MM-DD``; empty if that is not known."""


NO_MARKS = Marks()


class Chunk(NamedTuple):
    """A line range of a document, with the text of exactly those lines."""

    start_line: int
    end_line: int
    text: str
    overlap: int
    """How many leading characters of ``text`` are also the end of the chunk before."""
    trail: tuple[str, ...]
    """The Markdown headings above this chunk, outermost first; last the code fence, if it begins inside one."""
    records: tuple[int, ...] = ()
    """In a transcript, the number of the record that each line comes from; empty in a note."""
    marks: Marks = NO_MARKS


class IndexedChunk(NamedTuple):
    """A chunk with the terms that it is found by."""

    chunk: Chunk
    words: str
    names: str
    title: str
    """Terms of the file name, its date and the headings above."""


class StoredDocument(NamedTuple):
    """A document as it is stored, without its text."""

    id: int
    """Its number, which holds only within one snapshot of the index."""
    source: SourceName
    path: str
    """The path of its file."""
    mtime_ns: int
    """When the file was changed; for a part of a transcript, when its last message was written."""
    head: str
    """The beginning of a note that has front matter; else empty."""
    fields: Fields = NO_FIELDS


class StoredChunk(NamedTuple):
    """A chunk as it is stored."""

    id: int
    source: SourceName
    path: str
    start_line: int
    end_line: int
    text: str
    trail: tuple[str, ...]
    mtime_ns: int = 0
    records: tuple[int, ...] = ()
    marks: Marks = NO_MARKS

    def line(self, number: int) -> int:
        """Return the line of the file, or the record, that a line of the text comes from; lines count from 0."""
        return self.records[min(number, len(self.records) - 1)] if self.records else self.start_line + number


class Appended(NamedTuple):
    """The result of an append."""

    path: str
    """The path relative to the workspace."""
    bytes: int
    skipped: tuple[str, ...] = ()
    """The first line of each section that the file already had."""
    start_line: int | None = None
    end_line: int | None = None

    @property
    def citation(self) -> str:
        """``path#L3`` or ``path#L3-L9``; the path alone if nothing was written."""
        return format_citation(self.path, self.start_line, self.end_line)


def format_citation(path: str, start_line: int | None, end_line: int | None) -> str:
    """Return a citation of lines: ``path#L3`` or ``path#L3-L9``."""
    if start_line is None:
        return path
    return f"{path}#L{start_line}" + (f"-L{end_line}" if end_line != start_line else "")


def parse_citation(citation: str) -> tuple[str, int | None, int | None]:
    """Return the path, the first line and the number of lines of a citation; only the text if it cites no lines.

    Lines of a note may also be cited as compilers and ``grep`` do: ``path.md:3`` or ``path.md:3-9``.
    """
    path, _, lines = citation.rpartition("#L")
    first, mark, last = lines.partition("-L")
    if not path:
        path, _, lines = citation.rpartition(":")
        first, mark, last = lines.partition("-")
        path = path if is_note_file(path) else ""
    if not path or not _is_line(first) or (mark and not _is_line(last)):
        return citation, None, None
    return path, int(first), max(1, int(last or first) - int(first) + 1)


def _is_line(number: str) -> bool:
    # No file has more lines, and int() refuses thousands of digits.
    return number.isascii() and number.isdigit() and len(number) <= 9 and number.strip("0") != ""


def part_path(path: str, number: int) -> str:
    """Return the path of the document that holds one part of a transcript."""
    return f"{path}{PART_MARK}{number:09d}"


def file_path(path: str) -> str:
    """Return the path of a document's file: its own, or for a part of a transcript that of the transcript."""
    return path.partition(PART_MARK)[0]


def title_path(path: str) -> str:
    """Return the path of a note, whose words describe it; empty for a transcript, whose name is only an id."""
    return "" if PART_MARK in path else path


class Secret:
    """A text that only ``reveal`` shows: it is never printed, logged or pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self, spec: str = "") -> str:
        return "***"

    __format__ = __repr__

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce_ex__(self, protocol: object) -> str:
        raise TypeError("A Secret cannot be pickled.")


class Embedding(NamedTuple):
    """The vectors of a text in the space of an embedder."""

    vector: bytes
    """Little-endian 32-bit floats of unit length; all zero if the embedder knows no word of the text.

    Empty if the passages alone have vectors, which are then searched instead.
    """
    passages: bytes = b""
    """The vectors of the text's passages, one signed byte per number, end to end; empty if there are none."""


class Space(NamedTuple):
    """An embedding space: vectors can be compared only within one."""

    provider: str
    model: str
    fingerprint: str
    dimensions: int

    @property
    def key(self) -> tuple[str, int]:
        """What identifies a space; provider and model may be renamed."""
        return self.fingerprint, self.dimensions

    def find_in(self, stored: Sequence["StoredSpace"]) -> "StoredSpace | None":
        """Return the stored space that is this one, preferring equal dimensions and a filled one; None without any.

        An embedder may not know its dimensions yet, and a server may change them one day: queries are still compared
        with what is stored.
        """
        own = [entry for entry in stored if entry.space.fingerprint == self.fingerprint]
        own.sort(key=lambda entry: (entry.space.dimensions != self.dimensions, not entry.was_filled))
        return own[0] if own else None


class StoredSpace(NamedTuple):
    """A space that a store has vectors of."""

    id: int
    space: Space
    is_filled: bool
    """True if every chunk has a vector."""
    was_filled: bool
    """True if every chunk has had a vector at some time."""
    texts: int = 0
    """A number that grows whenever chunks are added: a space is filled up to such a number."""
    has_vectors: bool = True
    """True if some chunk has or has had one."""


class Job(NamedTuple):
    """A batch job that was submitted to a provider."""

    tag: str
    """Our own name for the job, by which it can be found at the provider."""
    fingerprint: str
    file: str
    """The provider's name for the uploaded texts."""
    id: str
    """The provider's name for the job; empty until the provider has confirmed it."""
    created_at: float
    digests: tuple[bytes, ...]
    """The hashes of its texts, in order."""


class JobState(NamedTuple):
    """The state of a batch job, as its provider reports it."""

    id: str
    status: Literal["running", "done", "failed"]
    completed: int = 0
    total: int = 0
    error: str = ""
    """Why it failed."""
    outputs: tuple[str, ...] = ()
    """The files with its results; a job that failed half way may have some too."""


class PendingChunk(NamedTuple):
    """A chunk that has no vector yet."""

    id: int
    path: str
    """The path of its note; empty in a transcript."""
    trail: tuple[str, ...]
    text: str


class EmbedInput(NamedTuple):
    """A text to embed, with the title it belongs to."""

    title: str
    text: str


class Traits(NamedTuple):
    """How an embedder behaves, and how its vectors are to be read."""

    never_waits: bool = False
    """True if it never waits for anything, so that it needs neither a deadline nor a cache."""
    scripts: tuple[str, ...] | None = None
    """The scripts whose words it knows, such as ``latin``; None if it knows all."""
    unrelated: float = 0.0
    """The typical cosine of a query and an unrelated chunk; up to here a chunk counts as not similar."""
    related: float = 1.0
    """The typical cosine of a query and a chunk that answers it; from here on a chunk counts as fully similar."""
    unspaced_trust: float = 1.0
    """The share of a Chinese or Japanese query that it understands."""
    measured: bool = False
    """True if these two are not known beforehand, and are measured on the stored vectors."""
    input_bytes: int = 8_000
    """Longer texts are split, and their vector is the mean of the pieces."""
    request_bytes: int = 8_000
    """How much text fits into one request."""
    request_inputs: int = 64
    """How many texts fit into one request."""
    at_once: int = 1
    """How many requests may run at the same time."""
    host: str = ""
    """The server that embeds; empty if it is this machine."""
