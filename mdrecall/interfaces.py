"""The sockets: what each replaceable part promises to the rest."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from mdrecall.errors import StoreUnavailable
from mdrecall.types import (
    Conversation,
    Document,
    Embedding,
    Happened,
    Holder,
    IndexedChunk,
    Issue,
    Job,
    JobState,
    KnownDocument,
    Listing,
    Mode,
    Passage,
    PendingChunk,
    Probe,
    ProgressCallback,
    ReadResult,
    SearchAnswer,
    SourceCount,
    SourceName,
    Space,
    Stamp,
    Status,
    Stop,
    StoredChunk,
    StoredSpace,
    SyncReport,
    Traits,
    Transcript,
)


class Source(Protocol):
    """Gives documents."""

    @property
    def name(self) -> SourceName: ...

    def scan(self) -> Listing: ...

    def read(self, path: str, listing: Listing) -> Document: ...


class OpenedTranscript(Protocol):
    """The file of a conversation while it is open."""

    @property
    def stamp(self) -> Stamp: ...

    def between(self, start: int, end: int) -> bytes: ...

    def lines(self, start: int) -> Iterator[tuple[int, bytes]]:
        """Each complete line from a point on, with where it ends; last, with -1, what has no line end yet."""
        ...


class TranscriptSource(Protocol):
    """Gives conversations, which grow at their end."""

    @property
    def name(self) -> SourceName: ...

    def scan(self) -> Listing: ...

    def open(self, path: str) -> AbstractContextManager[OpenedTranscript]: ...


class Lock(Protocol):
    """Held by one process at a time, which others can ask after."""

    @property
    def is_held(self) -> bool: ...

    def acquire(self, wait_s: float, doing: str) -> bool: ...

    def tell(self, more: dict[str, Any]) -> None: ...

    def holder(self) -> Holder | None: ...

    def release(self) -> None: ...


class Store(Protocol):
    """Keeps documents, chunks and terms, and finds chunks by their terms."""

    @property
    def path(self) -> str: ...

    @property
    def set_aside(self) -> str:
        """Where a damaged index was moved to; empty if none was."""
        ...

    @property
    def hindrance(self) -> str:
        """Why the index at its path is not written, so that what is there is read as it is; empty if it is."""
        ...

    @property
    def watching(self) -> "Lock":
        """Held by the process that follows the files of this index."""
        ...

    @property
    def filling(self) -> "Lock":
        """Held by the process that has vectors made where that takes time or money."""
        ...

    def require_written(self) -> None: ...

    def stand_in(self, problem: StoreUnavailable) -> bool: ...

    def open(self) -> None: ...

    def begin_anew(self) -> None: ...

    def close(self) -> None: ...

    def files(self) -> list[tuple[str, int]]: ...

    def destroy(self) -> None: ...

    def check(self) -> tuple[str, ...]: ...

    def snapshot(self) -> AbstractContextManager[None]: ...

    def turn(self, doing: str, wait_s: float = ...) -> AbstractContextManager[None]: ...

    def changing(self) -> AbstractContextManager[None]: ...

    def rebuilding(self, text_bytes: int) -> AbstractContextManager[Any]: ...

    def publish(self, fresh: Any) -> None: ...

    def recipe(self) -> str: ...

    def hashes(self, source: SourceName) -> Mapping[str, bytes]: ...

    def known_stamps(self, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]: ...

    def known_document(self, source: SourceName, path: str) -> KnownDocument | None: ...

    def count_chunks(self) -> int: ...

    def count_by_source(self) -> tuple[SourceCount, ...]: ...

    def load_chunks(self, ids: Sequence[int]) -> list[StoredChunk]: ...

    def match_terms(self, terms: Sequence[Any], chunk_count: int) -> list[Any]: ...

    def transcripts(self) -> Mapping[str, Transcript]: ...

    def put_transcript(
        self,
        state: Transcript,
        keep: int,
        parts: Sequence[tuple[Document, Sequence[IndexedChunk]]],
        recipe: str,
    ) -> None: ...

    def remove_transcripts(self, paths: Iterable[str]) -> None: ...

    def spaces(self) -> list[StoredSpace]: ...

    def ensure_space(self, space: Space) -> int: ...

    def text_counter(self) -> int: ...

    def pending_chunks(self, space: int, after: int, limit: int) -> list[PendingChunk]: ...

    def put_vectors(self, space: int, items: Sequence[tuple[int, Embedding]]) -> None: ...

    def mark_filled(self, space: int, texts: int, *, keep: str = ...) -> None: ...

    def jobs(self, fingerprint: str) -> list[Job]: ...

    def count_jobs(self, fingerprint: str) -> tuple[int, int]: ...

    def put_job(self, job: Job) -> None: ...

    def drop_job(self, tag: str) -> None: ...

    def count_vectors(self, space: int) -> int: ...

    def cached_embeddings(self, space: int, hashes: Iterable[bytes]) -> Mapping[bytes, Embedding]: ...

    def cache_embeddings(
        self, space: int, fresh: Mapping[bytes, Embedding], used: Iterable[bytes], most: int | None
    ) -> None: ...

    def count_cached(self) -> int: ...

    def vector_engine(self, space: StoredSpace) -> str: ...

    def nearest(self, space: StoredSpace, query: bytes, limit: int) -> list[tuple[int, float]]: ...

    def mean_cosine(self, space: StoredSpace, query: bytes) -> float: ...

    def cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, float]: ...

    def best_windows(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, tuple[float, int]]: ...

    def put_documents(self, items: Sequence[tuple[Document, Sequence[IndexedChunk]]], recipe: str) -> None: ...

    def remove_documents(self, source: SourceName, paths: Iterable[str]) -> None: ...

    def refresh_stamps(self, items: Iterable[Document]) -> None: ...


class Embedder(Protocol):
    """Turns texts into vectors: little-endian 32-bit floats of unit length."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def dimensions(self) -> int:
        """How long the vectors are; 0 as long as that is not known."""
        ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def traits(self) -> Traits: ...

    def prepare(self, stored: int, progress: ProgressCallback | None = ...) -> None:
        """Get ready, so that the length of the vectors is known: it is that of the stored ones, or 0 without any."""
        ...

    def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
        """The vector of a query; ``weights`` says how much its folded words count, to those who can weigh words."""
        ...

    def embed_chunks(self, passages: Sequence[Passage]) -> list[Embedding]: ...

    def interrupt(self) -> None:
        """End whatever is under way, because the memory closes."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Pings(Protocol):
    """An embedder that can be asked for a sign of life, for those who will not wait as long as for real work."""

    def ping(self) -> bytes:
        """The vector of a word, soon, or an ``EmbedderError``."""
        ...


class BatchApi(Protocol):
    """A provider's way to embed many texts for less money and at its leisure."""

    @property
    def most_texts(self) -> int:
        """How many go into one job."""
        ...

    def upload(self, tag: str, passages: Mapping[str, Passage]) -> str:
        """Hand over texts by their names; gives what the provider calls them together."""
        ...

    def create(self, tag: str, file: str) -> JobState: ...

    def find(self, tag: str, file: str) -> JobState | None:
        """The job that was made of uploaded texts, if there is one: its creation may not have been heard of."""
        ...

    def state(self, job: str) -> JobState: ...

    def results(self, state: JobState) -> Iterator[tuple[str, Embedding | str]]:
        """What has come of each text, by its name: its embedding, or what is wrong with it."""
        ...

    def cancel(self, job: str) -> None: ...


class Backend(Protocol):
    """Answers for one memory: what OpenClaw calls a MemorySearchManager."""

    def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        mode: Mode | None = None,
        explain: bool = False,
        session_key: str = "",
        progress: ProgressCallback | None = None,
    ) -> SearchAnswer: ...

    def read_file(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult: ...

    def sessions(self) -> list[Conversation]: ...

    def compacted(self, session: str) -> SyncReport: ...

    def read_session(self, session: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult: ...

    def status(self) -> Status: ...

    def counts(self) -> tuple[SourceCount, ...]: ...

    def issues(self) -> tuple[Issue, ...]: ...

    def check(self) -> tuple[str, ...]: ...

    def sync(
        self, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = ...
    ) -> SyncReport: ...

    def watch(self) -> None: ...

    def follow(self, tell: Callable[[Happened], None]) -> None: ...

    def stop_following(self) -> None: ...

    def index_files(self) -> list[tuple[str, int]]: ...

    def reset(self) -> None: ...

    def probe_embedding(self) -> Probe: ...

    def probe_vectors(self) -> bool: ...

    def close(self) -> None: ...
