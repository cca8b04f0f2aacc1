"""The sockets: what each replaceable part promises to the rest."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from mdrecall.interfaces.store import (
    ChunkReader,
    DocumentWriter,
    EmbeddingCache,
    IndexAdmin,
    Lock,
    Store,
    VectorIndex,
)
from mdrecall.types import (
    Conversation,
    Document,
    Embedding,
    EmbedInput,
    Issue,
    Listing,
    Probe,
    ProgressCallback,
    SearchAnswer,
    SearchRequest,
    SourceCount,
    SourceName,
    Stamp,
    Status,
    Stop,
    SyncReport,
    Traits,
    TranscriptRecord,
    WatchEvent,
)

if TYPE_CHECKING:
    from mdrecall.types.note_map import NearNote, NoteMap


class Source(Protocol):
    """Gives documents."""

    @property
    def name(self) -> SourceName: ...

    def scan(self) -> Listing: ...

    def read(self, path: str, listing: Listing) -> Document: ...


class OpenTranscript(Protocol):
    """A transcript while it is open.

    Offsets are opaque: 0 is the beginning, and every other one is the ``end`` of a record. A file may count bytes, a
    table rows.
    """

    @property
    def stamp(self) -> Stamp: ...

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        """Yield every record from an offset on; ``number`` is the number of the first one."""

    def bytes_after(self, offset: int) -> int:
        """Return about how many bytes follow an offset."""

    def records_after(self, offset: int) -> int:
        """Return how many complete records follow an offset."""

    def seal(self, offset: int) -> bytes:
        """Return a digest that changes if what precedes an offset has been rewritten.

        It may look at samples, but covers the transcript as it was when it was opened.
        """


class TranscriptReader(Protocol):
    """Reads the transcripts of one format, and knows where they are and what they are called.

    The path of a transcript begins with ``sessions/``. It is what results cite, and need not be a path on the disk.
    """

    @property
    def name(self) -> SourceName: ...

    def scan(self) -> Listing:
        """List every transcript by its path. A stamp starts with the size in bytes and the time of the last change."""

    def owns(self, path: str) -> bool:
        """True if a path is that of a transcript of this reader; a note in a folder ``sessions`` is not."""

    def find(self, session: str, listing: Listing) -> str | None:
        """Return the path of a session given by its id, file name or path; None if it is not listed."""

    def describe(self, path: str, stamp: Stamp) -> Conversation:
        """Return what ``sessions list`` shows about a transcript."""

    def open(self, path: str, *, with_tools: bool = False) -> AbstractContextManager[OpenTranscript]:
        """Open a transcript by its path. Raise a ``ReadError`` if that is impossible.

        ``with_tools`` also gives the calls of tools and their results, as messages, if the reader can.
        """


class Embedder(Protocol):
    """Turns texts into vectors: little-endian 32-bit floats of unit length."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def dimensions(self) -> int:
        """The length of the vectors; 0 until it is known."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def traits(self) -> Traits: ...

    def prepare(self, stored: int, progress: ProgressCallback | None = ...) -> None:
        """Get ready to embed, so that ``dimensions`` is known. ``stored`` is the length of the stored vectors, or 0."""

    def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
        """Return the vector of a query. ``weights`` says how much each folded word counts, if the embedder uses it."""

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        """Return one embedding for each text, in order; ``InputRefused`` if any of them is not accepted."""

    def interrupt(self) -> None:
        """Abort the requests in progress because the memory is closing."""

    def close(self) -> None: ...


class Reranker(Protocol):
    """Judges how well texts answer a query by reading both together."""

    @property
    def name(self) -> str:
        """The provider and its model, for results."""

    @property
    def place(self) -> str:
        """The provider and where it runs, for messages."""

    def rerank(self, query: str, texts: Sequence[str]) -> list[float | None]:
        """Return how probable it is that each text answers the query, 0 to 1; None for a text that was left out.

        Raise an ``EmbedderError`` if there is no usable answer.
        """

    def interrupt(self) -> None:
        """Cancel every request in progress."""

    def close(self) -> None: ...


class BackendWatch(Protocol):
    """Keeps the index up to date while the files change."""

    def start(self) -> None:
        """Watch in the background until the backend is closed, if the settings want it."""

    def run(self, notify: Callable[[WatchEvent], None]) -> None:
        """Watch in this thread until ``stop``; ``StoreBusy`` names another process that already watches."""

    def stop(self) -> None:
        """End ``run``, from another thread or a signal handler; may be called twice."""


class Index(Protocol):
    """The index that a backend keeps, for those who inspect and maintain it."""

    def counts(self) -> tuple[SourceCount, ...]:
        """Return how many files and chunks of each source are indexed."""

    def issues(self) -> tuple[Issue, ...]:
        """Return the problems that a scan of the files finds."""

    def check(self) -> tuple[str, ...]:
        """Return what is damaged in the index; empty if it is sound."""

    def sizes(self) -> list[tuple[str, int]]:
        """Return each file of the index with its size in bytes."""

    def reset(self) -> None:
        """Delete the index and nothing else."""

    def purge(self, progress: ProgressCallback | None = None) -> bool:
        """Build the index again, so that nothing is left in it of what was forgotten.

        False if something is left for another time, because another process uses it.
        """

    def probe_embedding(self) -> Probe:
        """Check that texts can be embedded."""

    def probe_vectors(self) -> bool:
        """True if vectors can be searched."""

    def find_text(self, path: str) -> str | None:
        """Return the text of a note that is on another machine; None if the index does not have it."""

    def draw_map(self) -> "NoteMap":
        """Return the notes with their places on a map, and what they are about."""

    def find_near(self, path: str, count: int) -> "tuple[NearNote, ...]":
        """Return the notes that are most similar to a note, best first."""


class Backend(Protocol):
    """Answers for one memory: what OpenClaw calls a MemorySearchManager."""

    @property
    def watch(self) -> BackendWatch: ...

    def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the best passages for a query."""

    def sync(
        self,
        *,
        force: bool = False,
        progress: ProgressCallback | None = None,
        stop: Stop = ...,
        session: str = "",
        waits: bool = True,
    ) -> SyncReport:
        """Bring the index up to date with the files; with ``force``, build it again.

        With ``session`` only that conversation is indexed, which was just compacted; unless the caller ``waits``, this
        goes on in the background.
        """

    def status(self) -> Status:
        """Return the whole record of the backend; nothing is indexed."""

    def close(self) -> None:
        """End everything that is in progress; may be called twice."""


class IndexedBackend(Backend, Protocol):
    """A backend together with the indexes that it keeps."""

    def indexes(self) -> Iterator[Index]:
        """Yield each index, the one that answers now first."""
