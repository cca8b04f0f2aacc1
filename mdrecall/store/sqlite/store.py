"""The Store socket on SQLite: one writing connection, one reading connection for each thread."""

import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import apsw

from mdrecall.core.keyword import Match
from mdrecall.core.query import Term
from mdrecall.errors import CorruptIndex
from mdrecall.store.sqlite import documents, keyword, vectors, write
from mdrecall.store.sqlite.connect import Owner, connect, prepare, set_aside
from mdrecall.store.sqlite.engines import Engines, VectorSearch
from mdrecall.store.sqlite.errors import translated
from mdrecall.store.sqlite.rows import rows, single
from mdrecall.types import (
    Document,
    Embedding,
    IndexedChunk,
    KnownDocument,
    PendingChunk,
    SourceCount,
    SourceName,
    Space,
    StoredChunk,
    StoredSpace,
)

_USUAL = VectorSearch()


class SqliteStore:
    """An index in one file. It can be deleted at any time: everything in it comes from the documents.

    The file is created, upgraded or repaired at the first use.
    """

    def __init__(self, path: str, *, is_ours: bool, owner: Owner, search: VectorSearch = _USUAL) -> None:
        self.path = path
        self._engines = Engines(search)
        self.set_aside = ""
        self._is_ours = is_ours
        self._owner = owner
        self._writing = threading.RLock()
        self._prepared = False
        self._writer: apsw.Connection | None = None
        self._local = threading.local()
        self._readers: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()

    def open(self) -> None:
        """Create, upgrade or repair the file; a damaged one is moved away and begun anew."""
        with self._writing:
            if self._prepared and os.path.exists(self.path):
                return
            try:
                prepare(self.path, is_ours=self._is_ours, owner=self._owner)
            except CorruptIndex:
                self.begin_anew()
            self._prepared = True

    def begin_anew(self) -> None:
        """Set a damaged index aside and start an empty one; ``set_aside`` keeps the old one's name."""
        with self._writing:
            self.close()
            self._engines.clear()
            self.set_aside = set_aside(self.path)
            prepare(self.path, is_ours=self._is_ours, owner=self._owner)
            self._prepared = True

    def close(self) -> None:
        """Close every connection; the store may be used again afterwards."""
        with self._writing:
            connections = [*self._readers, *([self._writer] if self._writer else [])]
            self._readers, self._writer, self._local = weakref.WeakSet(), None, threading.local()
            self._prepared = False
        for connection in connections:
            # One that another thread is using right now is closed when that thread lets go of it.
            with suppress(apsw.ThreadingViolationError):
                connection.close()

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

    def known_stamps(self, source: SourceName, recipe: str, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        with self._reading() as db:
            # SQLite's data version changes when any other connection, the writer's too, has changed the index.
            version = single(db, "PRAGMA data_version")
            wanted = (source, recipe, settle_ns, version)
            if getattr(self._local, "stamps_for", None) != wanted:
                self._local.stamps = documents.known_stamps(db, source, recipe, settle_ns)
                self._local.stamps_for = wanted
            stamps: Mapping[str, tuple[int, ...]] = self._local.stamps
            return stamps

    def known_document(self, source: SourceName, path: str) -> KnownDocument | None:
        with self._reading() as db:
            return documents.known_document(db, source, path)

    def check(self) -> tuple[str, ...]:
        with self._reading() as db:
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

    def match_terms(self, terms: Sequence[Term], chunk_count: int) -> list[Match]:
        with self._reading() as db:
            return keyword.match_terms(db, terms, chunk_count)

    def put_documents(self, items: Sequence[tuple[Document, Sequence[IndexedChunk]]], recipe: str) -> None:
        with self._writing_to() as db:
            write.put_documents(db, items, recipe)

    def remove_documents(self, source: SourceName, paths: Iterable[str]) -> None:
        with self._writing_to() as db:
            write.remove_documents(db, source, paths)

    def refresh_stamps(self, items: Iterable[Document]) -> None:
        with self._writing_to() as db:
            write.refresh_stamps(db, items)

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

    def mark_filled(self, space: int, texts: int) -> None:
        with self._writing_to() as db:
            vectors.mark_filled(db, space, texts)

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

    def cosines(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, float]:
        with self._reading() as db:
            return self._engines.of(db, space).cosines(db, query, ids)

    def best_windows(self, space: StoredSpace, query: bytes, ids: Sequence[int]) -> Mapping[int, tuple[float, int]]:
        with self._reading() as db:
            return self._engines.of(db, space).best_windows(db, query, ids)

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        db = getattr(self._local, "db", None)
        if db is None:
            self.open()
            db = connect(self.path, writable=False)
            self._local.db = db
            self._readers.add(db)
        with translated(self.path):
            yield db

    @contextmanager
    def _writing_to(self) -> Iterator[apsw.Connection]:
        with self._writing:
            if self._writer is None:
                self.open()
                self._writer = connect(self.path, writable=True)
            with translated(self.path):
                yield self._writer
