"""The sockets: what each replaceable part promises to the rest."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from mdrecall.types import (
    Document,
    IndexedChunk,
    Issue,
    KnownDocument,
    Listing,
    Probe,
    ProgressCallback,
    ReadResult,
    SearchAnswer,
    SourceCount,
    SourceName,
    Status,
    StoredChunk,
    SyncReport,
)


class Source(Protocol):
    """Gives documents."""

    @property
    def name(self) -> SourceName: ...

    def scan(self) -> Listing: ...

    def read(self, path: str, listing: Listing) -> Document: ...


class Store(Protocol):
    """Keeps documents, chunks and terms, and finds chunks by their terms."""

    @property
    def path(self) -> str: ...

    @property
    def set_aside(self) -> str: ...

    def open(self) -> None: ...

    def begin_anew(self) -> None: ...

    def close(self) -> None: ...

    def check(self) -> tuple[str, ...]: ...

    def snapshot(self) -> AbstractContextManager[None]: ...

    def known_stamps(self, source: SourceName, recipe: str, settle_ns: int) -> Mapping[str, tuple[int, ...]]: ...

    def known_document(self, source: SourceName, path: str) -> KnownDocument | None: ...

    def count_chunks(self) -> int: ...

    def count_by_source(self) -> tuple[SourceCount, ...]: ...

    def load_chunks(self, ids: Sequence[int]) -> list[StoredChunk]: ...

    def match_terms(self, terms: Sequence[Any], chunk_count: int) -> list[Any]: ...

    def put_documents(self, items: Sequence[tuple[Document, Sequence[IndexedChunk]]], recipe: str) -> None: ...

    def remove_documents(self, source: SourceName, paths: Iterable[str]) -> None: ...

    def refresh_stamps(self, items: Iterable[Document]) -> None: ...


class Backend(Protocol):
    """Answers for one memory: what OpenClaw calls a MemorySearchManager."""

    def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        explain: bool = False,
        progress: ProgressCallback | None = None,
    ) -> SearchAnswer: ...

    def read_file(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult: ...

    def status(self) -> Status: ...

    def counts(self) -> tuple[SourceCount, ...]: ...

    def issues(self) -> tuple[Issue, ...]: ...

    def check(self) -> tuple[str, ...]: ...

    def sync(self, *, force: bool = False, progress: ProgressCallback | None = None) -> SyncReport: ...

    def probe_embedding(self) -> Probe: ...

    def probe_vectors(self) -> bool: ...

    def close(self) -> None: ...
