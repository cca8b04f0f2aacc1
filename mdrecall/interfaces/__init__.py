"""The sockets: what each replaceable part promises to the rest."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

from mdrecall.errors import StoreUnavailable
from mdrecall.types.documents import (
    Document,
    Embedding,
    EmbedInput,
    IndexedChunk,
    Issue,
    Job,
    Listing,
    PendingChunk,
    SourceName,
    Space,
    Stamp,
    StoredChunk,
    StoredDocument,
    StoredSpace,
    Traits,
)
from mdrecall.types.search import Match, SearchAnswer, SearchRequest, Term
from mdrecall.types.sync import (
    ContentSizes,
    Holder,
    Probe,
    ProgressCallback,
    SourceStatus,
    Status,
    Stop,
    SyncReport,
    WatchEvent,
)
from mdrecall.types.transcripts import Conversation, Transcript, TranscriptRecord

if TYPE_CHECKING:
    from mdrecall.types.documents import NearNote


#: Documents with their chunks; None for the chunks if only the stamp of a document is new.
Indexed: TypeAlias = Sequence[tuple[Document, Iterable[IndexedChunk] | None]]


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

    def counts(self) -> tuple[SourceStatus, ...]:
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
        """Leave nothing in the index of what was forgotten.

        False if something is left for another time, because another process uses it.
        """

    def probe_embedding(self) -> Probe:
        """Check that texts can be embedded."""

    def probe_vectors(self) -> bool:
        """True if vectors can be searched."""

    def find_text(self, path: str) -> str | None:
        """Return the text of a note that is on another machine; None if the index does not have it."""

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
        waits_for_encoder: bool = False,
    ) -> SyncReport:
        """Bring the index up to date with the files; with ``force``, build it again."""

    def status(self) -> Status:
        """Return the whole record of the backend; nothing is indexed."""

    def close(self) -> None:
        """End everything that is in progress; may be called twice."""


class IndexedBackend(Backend, Protocol):
    """A backend together with the indexes that it keeps."""

    def indexes(self) -> Iterator[Index]:
        """Yield each index, the one that answers now first."""


class Lock(Protocol):
    """Held by one process at a time; the others can read which one that is."""

    def acquire(self, wait_s: float, doing: str) -> bool:
        """Take the lock within ``wait_s``; False if another process holds it. ``doing`` tells others what for."""

    def record(self, more: Mapping[str, object]) -> None:
        """Publish more about the work of the holder for others to read, as JSON values."""

    def holder(self) -> Holder | None:
        """Return the process that holds the lock; None if it is free."""

    def release(self) -> None:
        """Release the lock. Idempotent; the lock of a process that ends is released by itself."""


class DocumentWriter(Protocol):
    """The documents and transcripts of an index: what is indexed of each, and how that changes.

    Each method is atomic: a document goes in or out with all its chunks, terms and vectors, or not at all.
    Putting a document that is already there replaces it, so repeating a write whose outcome is unknown is harmless.
    """

    def commit(self, write: Callable[[], object]) -> None:
        """Commit everything that ``write`` writes to any role at once, or nothing if it raises an error.

        Reads of this thread inside see its writes. May be nested. A store that others disturb may call it again.
        """

    def state(self) -> tuple[str, str, bool]:
        """Return the format of all documents, the masks that they share, and True if their notes are on this machine.

        The format is empty without any document, and ``?`` if they were written in several formats. The masks stand
        for the forgotten texts that all documents are free of; ``?`` if they differ. Only where the notes are may an
        index be built again from them: another machine may have them.
        """

    def known_stamps(self, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        """Return every document of a source with the stamp that it was read at. The mapping never changes.

        The stamp is empty if it proves nothing, because the file had changed less than ``settle_ns`` before it was
        read. The call is cheap while nothing has changed: it runs before every search.
        """

    def known_documents(self, source: SourceName, paths: Sequence[str] | None = ...) -> Mapping[str, tuple[str, str]]:
        """Return the hash and the format of each document of a source, or of those of some paths, by path."""

    def transcripts(self) -> Mapping[str, Transcript]:
        """Return how far each transcript has been indexed, by path."""

    def put(
        self, items: Indexed, index_format: str, masks: str = ..., *, state: Transcript | None = ..., keep: int = ...
    ) -> Sequence[int] | None:
        """Add or replace documents; ``masks`` stands for the forgotten texts that they are free of.

        Every chunk gets a number that no chunk of this index has ever had; a store may return them in order. Chunks are
        taken one by one, so that those of a long document need not be in memory together. A document without chunks
        gets its new stamp if its content is still the indexed one, and is ignored otherwise. With ``state``, which says
        how far a transcript was read, its first ``keep`` parts are kept, and these documents replace the rest.
        """

    def remove(self, gone: Mapping[SourceName, Iterable[str]], masks: str | None = ...) -> None:
        """Remove notes and whole transcripts with their chunks and vectors. A path that is not indexed is ignored.

        With ``masks``, record that all other documents are free of the forgotten texts that it stands for.
        """

    def find_gone(self, source: SourceName, missing: Sequence[str]) -> list[str]:
        """Return which indexed files that are missing on the disk may leave the index.

        All of them, unless several machines share it: then those that this machine has had, if the notes are here. An
        empty folder on another machine is not a decision to forget everything.
        """


class ChunkReader(Protocol):
    """The chunks of an index, for searching."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Let every read of this thread inside, through any role, see the same state of the index."""

    def count(self, space: int | None = ...) -> int:
        """Return the number of chunks, or of those with a vector in a space: 0 if the space was dropped."""

    def count_by_source(self) -> tuple[SourceStatus, ...]:
        """Return the number of files and chunks of each source."""

    def chunks_of_projects(self) -> Mapping[int, str]:
        """Return the chunks whose marks name a project, each with its projects; cheap, as every search asks for it."""

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        """Return chunks by number, in the given order. A chunk that no longer exists is left out."""

    def list_documents(self, days: Sequence[tuple[int, int]] | None = ...) -> list[StoredDocument]:
        """Return every document, or those about a day of any range, which includes both ends, in no order.

        With ``days`` it takes no longer the more documents there are.
        """

    def chunks_of(self, chosen: Iterable[int] | SourceName) -> list[int]:
        """Return the numbers of the chunks of documents, in the given order and then in that of reading.

        Those of a source are in any order; this is cheap, as every search asks for it.
        """

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        """Return the chunks that each term occurs in, in the order of the terms.

        Saturations depend on the number and length of all chunks in the same state of the index.
        """


class VectorIndex(Protocol):
    """The vectors of chunks, one embedding space beside the other, so that an old one serves while a new one fills.

    A space is named by its number, which stays the same when the index is rebuilt. Writing to a space that another
    process has dropped raises ``StoreBusy``, and searching it ``StoreUnavailable``. A chunk has one vector in a space,
    or one for each of its passages, of which the best counts. Cosines are exact and rounded to 5 decimal places; equal
    ones are ordered by the number of the chunk.
    """

    def spaces(self) -> list[StoredSpace]:
        """Return every space that can hold vectors, the newest first."""

    def ensure_space(self, space: Space) -> StoredSpace:
        """Return a space, which is created if it does not exist."""

    def pending(self, space: int | None, after: int, limit: int) -> list[PendingChunk]:
        """Return the next chunks whose number is greater than ``after`` and that have no vector in a space, in order.

        Without a space, return chunks with a vector or without.
        """

    def put(self, space: int, items: Sequence[tuple[int, Embedding]]) -> None:
        """Store the vectors of chunks. A chunk that no longer exists is ignored."""

    def mark_filled(self, space: int, texts: int, *, keep: str = ...) -> None:
        """Record that every chunk up to the text counter ``texts`` has a vector, and drop the other spaces.

        Spaces of the provider ``keep`` are not dropped.
        """

    def record_failure(self, fingerprint: str, error: str) -> None:
        """Keep why an embedder failed, for the processes that come later; an empty error forgets it."""

    def last_failure(self, fingerprint: str) -> str:
        """Return why an embedder failed the last time, in whichever process; empty if it worked since."""

    def engine(self, space: StoredSpace) -> tuple[str, str]:
        """Return the name of the engine that searches a space, after checking that it loads.

        It comes with the reason if another engine is preferred; empty if this is the preferred one.
        """

    def nearest(self, space: StoredSpace, query: bytes, limit: int) -> list[tuple[int, float]]:
        """Return the chunks with the largest cosines, best first."""

    def mean_cosine(self, space: StoredSpace, query: bytes) -> tuple[float, int]:
        """Return the mean cosine of all chunks, 0 without any, and the number of chunks with a vector."""

    def cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, float]:
        """Return the cosines of chunks. A chunk without a vector is left out."""

    def vector_cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, Sequence[float]]:
        """Return the cosines of all vectors of each chunk, in order. A chunk without a vector is left out."""

    def vectors_of(self, space: StoredSpace, ids: Sequence[int]) -> Mapping[int, bytes]:
        """Return the vectors of chunks as signed bytes. A chunk without one is left out."""

    def passage_cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, Sequence[float]]:
        """Return the cosines of the passages of each chunk, in order. A chunk without any is left out."""


class EmbeddingCache(Protocol):
    """What was paid for: embeddings kept by the hash of their text, and open batch jobs. A rebuild keeps both.

    A job is recorded before it can cost anything and removed once its results are stored, so that a crash in between
    costs nothing twice.
    """

    def get(self, space: int, hashes: Iterable[bytes]) -> Mapping[bytes, Embedding]:
        """Return the cached embeddings. A hash that is not cached is left out."""

    def put(self, space: int, fresh: Mapping[bytes, Embedding], used: Iterable[bytes], most: int | None) -> None:
        """Add embeddings, mark others as used, and drop the least recently used beyond ``most`` entries."""

    def jobs(self, fingerprint: str) -> list[Job]:
        """Return the open batch jobs of an embedder, the oldest first."""

    def put_job(self, tag: str, job: Job | None) -> None:
        """Record a job under its tag in the place of an earlier one; None forgets it."""


class IndexAdmin(Protocol):
    """The index as a whole. Every call, of any role, opens it by itself."""

    @property
    def place(self) -> str:
        """The index as people know it: a file path, or a server and a workspace; never a password."""

    def health(self) -> tuple[str, StoreUnavailable | None]:
        """Return the path that a damaged index was moved to, or nothing, and why the index is read-only right now."""

    def close(self) -> None:
        """Release every connection. Idempotent; the index can be used again afterwards."""

    def recreate(self, problem: StoreUnavailable | None = ...) -> bool:
        """Start an empty index in the place of a damaged one, unless another process has already done so.

        With ``problem``, which keeps an empty index from being written, a temporary one answers until it can be
        written again. Return False if there is nothing to switch to.
        """

    def check(self) -> tuple[str, ...]:
        """Return the problems that a check of the whole index finds; empty if it is sound."""

    def sizes(self) -> list[tuple[str, int]]:
        """Return the parts of the index, such as its files, with their sizes in bytes."""

    def content_sizes(self) -> ContentSizes:
        """Return how much texts and cached embeddings take, and how much space is free for more."""

    def scrub(self, cached: Collection[bytes] | None) -> bool:
        """Remove what earlier states of the index have left behind; False if a reader still uses one of them.

        ``cached`` are the hashes of the texts whose cached embeddings stay, or None for all of them.
        """

    def exchange_forgotten(self, merge: Callable[[bytes], bytes]) -> None:
        """Give ``merge`` what other machines with this index have forgotten, and keep what it returns for them."""

    def destroy(self) -> None:
        """Delete the index and everything that belongs to it, and nothing else."""

    def write_lock(self, doing: str, wait_s: float = ...) -> AbstractContextManager[None]:
        """Hold the right to write, which one thread of one process has at a time. May be nested.

        Raises ``StoreBusy`` with the name of the holder if it is not free within ``wait_s``.
        """


class Store(Protocol):
    """An index, by its roles. All of them work on the same data; most callers need only one or two."""

    @property
    def documents(self) -> DocumentWriter: ...

    @property
    def chunks(self) -> ChunkReader: ...

    @property
    def vectors(self) -> VectorIndex: ...

    @property
    def cache(self) -> EmbeddingCache: ...

    @property
    def admin(self) -> IndexAdmin: ...

    def lock(self, kind: Literal["watch", "fill"]) -> Lock:
        """Return the lock of the process that watches the files of this index, or embeds chunks for time or money."""

    def rebuild(self) -> AbstractContextManager[tuple[Self, Callable[[], None]]]:
        """Give an empty index beside this one, and a function to publish it.

        This index goes on answering. Numbers of spaces are the same in both; numbers of chunks are never used in both.
        Publishing replaces this index in one step; open snapshots go on seeing the old one. What has not been published
        at the end is discarded.
        """
