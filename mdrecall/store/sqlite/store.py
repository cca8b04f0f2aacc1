"""The Store socket on SQLite."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager

from mdrecall.errors import StoreUnavailable
from mdrecall.locks import FileLock
from mdrecall.store.sqlite import documents, jobs, keyword, publish, transcripts, vectors, write
from mdrecall.store.sqlite import sidecar_files as beside
from mdrecall.store.sqlite.connect import Owner, Place
from mdrecall.store.sqlite.engines import Engines, VectorSearch
from mdrecall.store.sqlite.errors import translated
from mdrecall.store.sqlite.file import WAIT_S, IndexFile
from mdrecall.store.sqlite.rows import rows
from mdrecall.store.sqlite.stamps import Stamps
from mdrecall.types import (
    Document,
    Embedding,
    IndexedChunk,
    Job,
    KnownDocument,
    Match,
    PendingChunk,
    SourceCount,
    SourceName,
    Space,
    StoredChunk,
    StoredSpace,
    Term,
    Transcript,
)

_USUAL = VectorSearch()


class SqliteStore:
    """An index in one file. It can be deleted at any time: everything in it comes from the documents."""

    def __init__(
        self,
        path: str,
        *,
        is_ours: bool,
        owner: Owner,
        search: VectorSearch = _USUAL,
        disposable: bool = False,
    ) -> None:
        self.place = self.file_path = path
        self.watching = FileLock(path + beside.WATCH_LOCK)
        self.filling = FileLock(path + beside.FILL_LOCK)
        self._owner = owner
        self._search = search
        self._engines = Engines(search)
        self._stamps = Stamps()
        self._file = IndexFile(Place(path, is_ours, owner, disposable), on_change=self._forget)
        self._reading = self._file.reading
        self._writing_to = self._file.writing

    def _forget(self) -> None:
        """Let go of what is held in memory of an index that does not answer any more."""
        self._engines.clear()
        self._stamps.clear()

    @property
    def quarantined_path(self) -> str:
        return self._file.quarantined_path

    @property
    def write_problem(self) -> str:
        return self._file.write_problem

    def require_writable(self) -> None:
        self._file.require_writable()

    def use_temporary(self, problem: StoreUnavailable) -> bool:
        return self._file.use_temporary(problem)

    def open(self) -> None:
        self._file.open()

    def recreate(self) -> None:
        self._file.recreate()

    def close(self) -> None:
        self._file.close()

    def sizes(self) -> list[tuple[str, int]]:
        return beside.sizes(self.file_path)

    def destroy(self) -> None:
        self._file.destroy()

    def write_lock(self, doing: str, wait_s: float = WAIT_S) -> AbstractContextManager[None]:
        return self._file.write_lock(doing, wait_s)

    def transaction(self) -> AbstractContextManager[None]:
        return self._file.transaction()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one state of the index, whatever is written meanwhile."""
        with self._reading() as db:
            db.execute("BEGIN")
            try:
                yield
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def rebuilding(self, expected_bytes: int) -> "Iterator[SqliteStore]":
        """An empty index beside this one, to be filled with so much text and published; afterwards it is gone."""
        self.open()
        self.require_writable()
        beside.check_room(self.file_path, expected_bytes)
        path = self.file_path + beside.FRESH
        fresh = SqliteStore(path, is_ours=True, owner=self._owner, search=self._search, disposable=True)
        with self._file.rebuild_lock("rebuilding the index"):
            beside.remove(path)
            try:
                with self._reading() as live, fresh._writing_to() as db:
                    publish.begin(db, live)
                yield fresh
            finally:
                fresh.close()
                beside.remove(path)

    def publish(self, fresh: "SqliteStore") -> None:
        """Let a rebuilt index take the place of this one, all at once; open readers see the old or the new."""
        with self._writing_to() as live, fresh._writing_to() as db, translated(self.file_path):
            publish.carry_over(db, self.file_path)
            publish.publish(live, db)
        self._file.renew_writer()

    def index_format(self) -> str:
        with self._reading() as db:
            return documents.index_format(db)

    def hashes(self, source: SourceName) -> Mapping[str, bytes]:
        with self._reading() as db:
            return documents.hashes(db, source)

    def known_stamps(self, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        with self._reading() as db:
            return self._stamps.of(db, source, settle_ns)

    def known_document(self, source: SourceName, path: str) -> KnownDocument | None:
        with self._reading() as db:
            return documents.known_document(db, source, path)

    def check(self) -> tuple[str, ...]:
        # On a connection of its own: the full-text index is checked against what a connection remembers of it.
        self.open()
        with translated(self.file_path), closing(self._file.connection()) as db:
            return tuple(text for (text,) in rows(db, "PRAGMA integrity_check(20)") if text != "ok")

    def count_chunks(self) -> int:
        with self._reading() as db:
            return documents.count_chunks(db)

    def count_by_source(self) -> tuple[SourceCount, ...]:
        with self._reading() as db:
            return documents.count_by_source(db)

    def load_chunks(self, ids: Sequence[int]) -> list[StoredChunk]:
        with self._reading() as db:
            return documents.load_chunks(db, ids)

    def sources_of(self, ids: Sequence[int]) -> Mapping[int, SourceName]:
        with self._reading() as db:
            return documents.sources_of(db, ids)

    def match_terms(self, terms: Sequence[Term], chunk_count: int) -> list[Match]:
        with self._reading() as db:
            return keyword.match_terms(db, terms, chunk_count)

    def put_documents(self, items: Sequence[tuple[Document, Sequence[IndexedChunk]]], index_format: str) -> None:
        with self._writing_to() as db:
            write.put_documents(db, items, index_format)

    def remove_documents(self, source: SourceName, paths: Iterable[str]) -> None:
        with self._writing_to() as db:
            write.remove_documents(db, source, paths)

    def refresh_stamps(self, items: Iterable[Document]) -> None:
        with self._writing_to() as db:
            write.refresh_stamps(db, items)

    def transcripts(self) -> Mapping[str, Transcript]:
        with self._reading() as db:
            return transcripts.transcripts(db)

    def put_transcript(
        self,
        state: Transcript,
        keep: int,
        parts: Sequence[tuple[Document, Sequence[IndexedChunk]]],
        index_format: str,
    ) -> None:
        with self._writing_to() as db:
            transcripts.put(db, state, keep, parts, index_format)

    def remove_transcripts(self, paths: Iterable[str]) -> None:
        with self._writing_to() as db:
            transcripts.remove(db, paths)

    def spaces(self) -> list[StoredSpace]:
        with self._reading() as db:
            return vectors.spaces(db)

    def ensure_space(self, space: Space) -> int:
        with self._writing_to() as db:
            return vectors.ensure_space(db, space)

    def text_counter(self) -> int:
        with self._reading() as db:
            return vectors.text_counter(db)

    def pending_chunks(self, space: int, after: int, limit: int) -> list[PendingChunk]:
        with self._reading() as db:
            return vectors.pending(db, space, after, limit)

    def put_vectors(self, space: int, items: Sequence[tuple[int, Embedding]]) -> None:
        with self._writing_to() as db:
            vectors.put(db, space, items)

    def mark_filled(self, space: int, texts: int, *, keep: str = "") -> None:
        with self._writing_to() as db:
            vectors.mark_filled(db, space, texts, keep)

    def jobs(self, fingerprint: str) -> list[Job]:
        with self._reading() as db:
            return jobs.jobs(db, fingerprint)

    def count_jobs(self, fingerprint: str) -> tuple[int, int]:
        with self._reading() as db:
            return jobs.count(db, fingerprint)

    def put_job(self, job: Job) -> None:
        with self._writing_to() as db:
            jobs.put(db, job)

    def drop_job(self, tag: str) -> None:
        with self._writing_to() as db:
            jobs.drop(db, tag)

    def count_vectors(self, space: int) -> int:
        with self._reading() as db:
            return vectors.count(db, space)

    def cached_embeddings(self, space: int, hashes: Iterable[bytes]) -> Mapping[bytes, Embedding]:
        with self._reading() as db:
            return vectors.cached(db, space, hashes)

    def cache_embeddings(
        self, space: int, fresh: Mapping[bytes, Embedding], used: Iterable[bytes], most: int | None
    ) -> None:
        with self._writing_to() as db:
            vectors.remember(db, space, fresh, used, most)

    def count_cached(self) -> int:
        with self._reading() as db:
            return vectors.cache_entries(db)

    def vector_engine(self, space: StoredSpace) -> str:
        with self._reading() as db:
            return self._engines.working(db, space)

    def nearest(self, space: StoredSpace, query: bytes, limit: int) -> list[tuple[int, float]]:
        with self._reading() as db:
            return self._engines.of(db, space).nearest(db, query, limit)

    def mean_cosine(self, space: StoredSpace, query: bytes) -> float:
        with self._reading() as db:
            return self._engines.of(db, space).mean_cosine(db, query)

    def cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, float]:
        with self._reading() as db:
            return self._engines.of(db, space).cosines(db, query, ids)

    def best_windows(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, tuple[float, int]]:
        with self._reading() as db:
            return self._engines.of(db, space).best_windows(db, query, ids)
