"""The sockets of a store: one small role for each way in which an index is used."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self, TypeAlias

from mdrecall.errors import StoreUnavailable
from mdrecall.types import (
    ContentSizes,
    Document,
    Embedding,
    Holder,
    IndexedChunk,
    Job,
    KnownDocument,
    Match,
    PendingChunk,
    SourceCount,
    SourceName,
    Space,
    StoredChunk,
    StoredDocument,
    StoredSpace,
    Term,
    Transcript,
)

#: Documents with their chunks.
Indexed: TypeAlias = Sequence[tuple[Document, Iterable[IndexedChunk]]]


class Lock(Protocol):
    """Held by one process at a time; the others can read which one that is."""

    @property
    def is_held(self) -> bool:
        """True while this process holds the lock. A lock on a server can be lost: check before what costs something."""
        ...

    def acquire(self, wait_s: float, doing: str) -> bool:
        """Take the lock within ``wait_s``; False if another process holds it. ``doing`` tells others what for."""
        ...

    def record(self, more: Mapping[str, object]) -> None:
        """Publish more about the work of the holder for others to read, as JSON values."""
        ...

    def holder(self) -> Holder | None:
        """Return the process that holds the lock; None if it is free."""
        ...

    def release(self) -> None:
        """Release the lock. Idempotent; the lock of a process that ends is released by itself."""
        ...


class DocumentWriter(Protocol):
    """The documents and transcripts of an index: what is indexed of each, and how that changes.

    Each method is atomic: a document goes in or out with all its chunks, terms and vectors, or not at all.
    Putting a document that is already there replaces it, so repeating a write whose outcome is unknown is harmless.
    """

    def commit(self, write: Callable[[], object]) -> None:
        """Commit everything that ``write`` writes to any role at once, or nothing if it raises an error.

        Reads of this thread inside see its writes. May be nested. A store that others disturb may call it again.
        """
        ...

    def index_format(self) -> str:
        """Return the format of all documents: empty without any, ``?`` if they were written in several formats."""
        ...

    def masks(self) -> str:
        """Return what stands for the forgotten texts that all documents are free of; ``?`` if they differ."""
        ...

    def mark_masked(self, masks: str) -> None:
        """Record that all documents are free of some forgotten texts."""
        ...

    def hashes(self, source: SourceName) -> Mapping[str, bytes]:
        """Return every file of a source with a hash of its indexed content."""
        ...

    def known_stamps(self, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        """Return every document of a source with the stamp that it was read at. The mapping never changes.

        The stamp is empty if it proves nothing, because the file had changed less than ``settle_ns`` before it was
        read. The call is cheap while nothing has changed: it runs before every search.
        """
        ...

    def known_document(self, source: SourceName, path: str) -> KnownDocument | None:
        """Return the hash and format of an indexed document; None if it is not indexed."""
        ...

    def put(self, items: Indexed, index_format: str, masks: str = "") -> None:
        """Add or replace documents; ``masks`` stands for the forgotten texts that they are free of.

        Every chunk gets a number that no chunk of this index has ever had. Chunks are taken one by one, so that those
        of a long document need not be in memory together.
        """
        ...

    def remove(self, source: SourceName, paths: Iterable[str]) -> None:
        """Remove documents with their chunks and vectors. A path that is not indexed is ignored."""
        ...

    def find_gone(self, source: SourceName, missing: Sequence[str]) -> list[str]:
        """Return which indexed files that are missing on the disk may leave the index.

        All of them, unless several machines share it: then those that this machine has had, if the notes are here. An
        empty folder on another machine is no decision to forget everything.
        """
        ...

    def refresh_stamps(self, items: Iterable[Document]) -> None:
        """Store the new stamps of documents whose content is still the indexed one; ignore all others."""
        ...

    def transcripts(self) -> Mapping[str, Transcript]:
        """Return how far each transcript has been indexed, by path."""
        ...

    def put_transcript(self, state: Transcript, keep: int, parts: Indexed, index_format: str, masks: str = "") -> None:
        """Keep the first parts of a transcript, replace the rest by others, and store how far it was read."""
        ...

    def remove_transcripts(self, paths: Iterable[str]) -> None:
        """Remove transcripts with all their parts."""
        ...


class ChunkReader(Protocol):
    """The chunks of an index, for searching."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Let every read of this thread inside, through any role, see the same state of the index."""
        ...

    def count(self) -> int:
        """Return the number of chunks."""
        ...

    def count_by_source(self) -> tuple[SourceCount, ...]:
        """Return the number of files and chunks of each source."""
        ...

    def chunks_of_projects(self) -> Mapping[int, str]:
        """Return the chunks whose marks name a project, each with its projects. The mapping never changes.

        The call is cheap: it runs before every search.
        """
        ...

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        """Return chunks by number, in the given order. A chunk that no longer exists is left out."""
        ...

    def list_documents(self) -> list[StoredDocument]:
        """Return every document, in no particular order."""
        ...

    def documents_of_days(self, ranges: Sequence[tuple[int, int]]) -> list[StoredDocument]:
        """Return the documents that are about a day of any of the ranges, which include both ends, in no order.

        Unlike ``list_documents`` it takes no longer the more documents there are.
        """
        ...

    def chunks_of(self, documents: Iterable[int]) -> list[int]:
        """Return the numbers of the chunks of documents, in the given order and then in that of reading."""
        ...

    def sources_of(self, ids: Sequence[int]) -> Mapping[int, SourceName]:
        """Return the source of each chunk. A chunk that no longer exists is left out."""
        ...

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        """Return the chunks that each term occurs in, in the order of the terms.

        Saturations depend on the number and length of all chunks in the same state of the index.
        """
        ...


class VectorIndex(Protocol):
    """The vectors of chunks, one embedding space beside the other, so that an old one serves while a new one fills.

    A space is named by its number, which stays the same when the index is rebuilt. Writing to a space that another
    process has dropped raises ``StoreBusy``, and searching it ``StoreUnavailable``. Cosines are exact and rounded to 5
    decimal places; equal ones are ordered by the number of the chunk.
    """

    def spaces(self) -> list[StoredSpace]:
        """Return every space that can hold vectors, the newest first."""
        ...

    def ensure_space(self, space: Space) -> int:
        """Return the number of a space, which is created if it does not exist."""
        ...

    def text_counter(self) -> int:
        """Return a number that grows whenever chunks are added: a space is filled up to such a number."""
        ...

    def pending(self, space: int, after: int, limit: int) -> list[PendingChunk]:
        """Return the next chunks without a vector whose number is greater than ``after``, in order."""
        ...

    def texts(self, after: int, limit: int) -> list[PendingChunk]:
        """Return the next chunks, with a vector or without, whose number is greater than ``after``, in order."""
        ...

    def put(self, space: int, items: Sequence[tuple[int, Embedding]]) -> None:
        """Store the vectors of chunks. A chunk that no longer exists is ignored."""
        ...

    def mark_filled(self, space: int, texts: int, *, keep: str = ...) -> None:
        """Record that every chunk up to the text counter ``texts`` has a vector, and drop the other spaces.

        Spaces of the provider ``keep`` are not dropped.
        """
        ...

    def count(self, space: int) -> int:
        """Return the number of chunks with a vector in a space; 0 for a space that was dropped."""
        ...

    def record_failure(self, fingerprint: str, error: str) -> None:
        """Keep why an embedder failed, for the processes that come later; an empty error forgets it."""
        ...

    def last_failure(self, fingerprint: str) -> str:
        """Return why an embedder failed the last time, in whichever process; empty if it worked since."""
        ...

    def engine(self, space: StoredSpace) -> str:
        """Return the name of the engine that searches a space, after checking that it loads."""
        ...

    def engine_problem(self) -> str:
        """Return why another engine than the preferred one searches; empty if the preferred one does."""
        ...

    def nearest(self, space: StoredSpace, query: bytes, limit: int) -> list[tuple[int, float]]:
        """Return the chunks with the largest cosines, best first."""
        ...

    def mean_cosine(self, space: StoredSpace, query: bytes) -> float:
        """Return the mean cosine of all chunks; 0 without any."""
        ...

    def cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, float]:
        """Return the cosines of chunks. A chunk without a vector is left out."""
        ...

    def vectors_of(self, space: StoredSpace, ids: Sequence[int]) -> Mapping[int, bytes]:
        """Return the vectors of chunks as signed bytes. A chunk without one is left out."""
        ...

    def passage_cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, Sequence[float]]:
        """Return the cosines of the passages of each chunk, in order. A chunk without any is left out."""
        ...


class EmbeddingCache(Protocol):
    """Embeddings kept by the hash of their text, so that no text is paid for twice. A rebuild keeps them."""

    def get(self, space: int, hashes: Iterable[bytes]) -> Mapping[bytes, Embedding]:
        """Return the cached embeddings. A hash that is not cached is left out."""
        ...

    def put(self, space: int, fresh: Mapping[bytes, Embedding], used: Iterable[bytes], most: int | None) -> None:
        """Add embeddings, mark others as used, and drop the least recently used beyond ``most`` entries."""
        ...

    def count(self) -> int:
        """Return the number of cached embeddings in all spaces."""
        ...


class JobJournal(Protocol):
    """Batch jobs at a provider that have not been collected yet. A rebuild keeps them.

    A job is recorded before it can cost anything and removed once its results are stored, so that a crash in between
    costs nothing twice.
    """

    def pending(self, fingerprint: str) -> list[Job]:
        """Return the jobs of an embedder, the oldest first."""
        ...

    def count(self, fingerprint: str) -> tuple[int, int]:
        """Return the number of jobs of an embedder, and of the texts in them."""
        ...

    def put(self, job: Job) -> None:
        """Record a job, or replace what is recorded under its tag."""
        ...

    def drop(self, tag: str) -> None:
        """Forget a job; do nothing if it is not recorded."""
        ...


class IndexAdmin(Protocol):
    """The index as a whole."""

    @property
    def place(self) -> str:
        """The index as people know it: a file path, or a server and a workspace; never a password."""
        ...

    def open(self) -> None:
        """Make sure that there is an index to answer from. Idempotent; every other call opens the index by itself."""
        ...

    def close(self) -> None:
        """Release every connection. Idempotent; the index can be used again afterwards."""
        ...

    def recreate(self) -> None:
        """Replace a damaged index by an empty one, unless another process has already done so."""
        ...

    def check(self) -> tuple[str, ...]:
        """Return the problems that a check of the whole index finds; empty if it is sound."""
        ...

    def sizes(self) -> list[tuple[str, int]]:
        """Return the parts of the index, such as its files, with their sizes in bytes."""
        ...

    def content_sizes(self) -> ContentSizes:
        """Return how much texts and cached embeddings take, and how much space is free for more."""
        ...

    def scrub(self) -> bool:
        """Remove what earlier states of the index have left behind; False if a reader still uses one of them."""
        ...

    def exchange_forgotten(self, merge: Callable[[bytes], bytes]) -> None:
        """Give ``merge`` what other machines with this index have forgotten, and keep what it returns for them."""
        ...

    def may_remove(self) -> bool:
        """True if the index may be built again from the notes of this machine; another one may have its notes."""
        ...

    def destroy(self) -> None:
        """Delete the index and everything that belongs to it, and nothing else."""
        ...

    def write_lock(self, doing: str, wait_s: float = ...) -> AbstractContextManager[None]:
        """Hold the right to write, which one thread of one process has at a time. May be nested.

        Raises ``StoreBusy`` with the name of the holder if it is not free within ``wait_s``.
        """
        ...


class IndexHealth(Protocol):
    """What happens to an index that is damaged or cannot be written. A store without files answers with nothing."""

    @property
    def quarantined_path(self) -> str:
        """The path that a damaged index was moved to; empty if none was."""
        ...

    @property
    def write_problem(self) -> str:
        """Why the index is read-only right now; empty if it is writable."""
        ...

    def require_writable(self) -> None:
        """Raise ``StoreUnavailable`` if the index is read-only right now."""
        ...

    def use_temporary(self, problem: StoreUnavailable) -> bool:
        """Answer from a temporary index until this one can be written again; False if there is nothing to switch to."""
        ...


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
    def jobs(self) -> JobJournal: ...

    @property
    def admin(self) -> IndexAdmin: ...

    @property
    def health(self) -> IndexHealth: ...

    @property
    def watching(self) -> Lock:
        """Held by the process that watches the files of this index."""
        ...

    @property
    def filling(self) -> Lock:
        """Held by the process that embeds chunks where that takes time or money."""
        ...

    def rebuilding(self, expected_bytes: int) -> AbstractContextManager[Self]:
        """Give an empty index beside this one, to be filled with about this much text and published.

        This index goes on answering. Numbers of spaces are the same in both; numbers of chunks are
        never used in both. What has not been published at the end is discarded.
        """
        ...

    def publish(self, fresh: Self, *, cached: Iterable[bytes] | None = None) -> None:
        """Replace this index by a rebuilt one in one step. Open snapshots go on seeing the old one.

        ``cached`` are the hashes of the texts whose cached embeddings stay; None for all of them.
        """
        ...
