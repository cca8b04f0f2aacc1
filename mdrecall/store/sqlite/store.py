"""The Store socket on SQLite: one writing connection, one reading connection for each thread."""

import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import apsw

from mdrecall.core.keyword import Match
from mdrecall.core.query import Term
from mdrecall.errors import CorruptIndex, StoreBusy, StoreError, StoreUnavailable, told
from mdrecall.store.lock import FileLock, named
from mdrecall.store.sqlite import beside, documents, keyword, publish, vectors, write
from mdrecall.store.sqlite.connect import Owner, Place, check_owner, connect, connect_unwritable, identity, prepare
from mdrecall.store.sqlite.engines import Engines, VectorSearch
from mdrecall.store.sqlite.errors import translated
from mdrecall.store.sqlite.rows import rows, single, transaction
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
_WAIT_S = 5.0
_RETRY_S = 10.0


class SqliteStore:
    """An index in one file. It can be deleted at any time: everything in it comes from the documents.

    The file is created, upgraded or repaired at the first use, and again when it has been deleted. One that cannot be
    written is read as it is; where there is none and none can be made, one in a temporary folder stands in.
    """

    def __init__(
        self,
        path: str,
        *,
        is_ours: bool,
        owner: Owner,
        search: VectorSearch = _USUAL,
        vfs: str = "",
        disposable: bool = False,
    ) -> None:
        self.path = path
        self.set_aside = ""
        self.hindrance = ""
        self._home = self._place = Place(path, is_ours, owner, vfs, disposable)
        self._search = search
        self._engines = Engines(search)
        self._turn = threading.RLock()
        self._lock = FileLock(path + beside.WRITE_LOCK)
        self.watching = FileLock(path + beside.WATCH_LOCK)
        self._opening = threading.RLock()
        self._opened: tuple[int, int] | None = None
        self._read_only = False
        self._scratch = ""
        self._retry_at = 0.0
        self._writer: apsw.Connection | None = None
        self._writer_of: tuple[int, int] | None = None
        self._local = threading.local()
        self._readers: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()

    def open(self) -> None:
        """Create, upgrade or repair the file; a damaged one is moved away and begun anew."""
        if self._is_open():
            return
        if self.hindrance:
            if not self._is_mended():
                return
            self.close()
        if os.path.lexists(self.path):
            self._open()
            return
        try:
            with self.turn("creating the index"):
                beside.drop_strays(self.path)
                self._open()
        except StoreUnavailable as problem:
            self._make_do(problem)

    def _is_open(self) -> bool:
        if self._opened is None or (self.hindrance and time.monotonic() >= self._retry_at):
            return False
        return identity(self._place.path) == self._opened

    def _is_mended(self) -> bool:
        """Whether the index at its path can be written again; if not, it is tried again later."""
        self._retry_at = time.monotonic() + _RETRY_S
        try:
            beside.make_folder(self.path)
            if not self._lock.acquire(0, "opening the index"):
                return False
            try:
                prepare(self._home)
            finally:
                self._lock.release()
        except (OSError, StoreError):
            return False
        return True

    def _open(self) -> None:
        with self._opening:
            if self._is_open():
                return
            beside.mend_permissions(self.path)
            try:
                if not self._home.disposable:
                    beside.sweep(self.path)
                prepare(self._home)
            except CorruptIndex:
                self._replace_damaged()
            except StoreUnavailable as problem:
                self._make_do(problem)
                return
            self._opened = identity(self.path)

    def _make_do(self, problem: StoreUnavailable) -> None:
        """The index cannot be written: read what is there, or keep one in a temporary folder for the time being."""
        with self._opening:
            try:
                connect_unwritable(self._home).close()
                self._read_only = True
                self.hindrance = told(problem)
            except (StoreError, apsw.Error):
                self._stand_in(problem)
            self._retry_at = time.monotonic() + _RETRY_S
            self._opened = identity(self._place.path)

    def _stand_in(self, problem: StoreUnavailable) -> None:
        from tempfile import mkdtemp

        try:
            scratch = mkdtemp(prefix="mdrecall-")
            place = self._home._replace(path=os.path.join(scratch, "index.sqlite"), is_ours=True, disposable=True)
            prepare(place)
        except (OSError, StoreError):
            raise problem from None
        self._scratch, self._place = scratch, place
        self.hindrance = f"{told(problem)} Until then an index in a temporary folder answers."

    def begin_anew(self) -> None:
        """Set a damaged index aside and start an empty one; ``set_aside`` keeps the old one's name."""
        with self.turn("repairing the index"), self._opening:
            damaged = self._opened
            self.close()
            if damaged is None or identity(self.path) == damaged:
                self._replace_damaged()
                self._opened = identity(self.path)

    def _replace_damaged(self) -> None:
        self._engines.clear()
        self.set_aside = beside.set_aside(self.path)
        prepare(self._home)

    def close(self) -> None:
        """Close every connection; the store may be used again afterwards."""
        with self._opening:
            is_other = self._opened is not None and identity(self._place.path) != self._opened
            connections = [*self._readers, *([self._writer] if self._writer else [])]
            self._readers, self._writer, self._local = weakref.WeakSet(), None, threading.local()
            scratch, self._scratch, self._place = self._scratch, "", self._home
            self._opened, self._read_only, self.hindrance = None, False, ""
        for connection in connections:
            # One that another thread is using right now is closed when that thread lets go of it.
            with suppress(apsw.ThreadingViolationError):
                _close(connection, is_other=is_other)
        if scratch:
            from shutil import rmtree

            rmtree(scratch, ignore_errors=True)

    def files(self) -> list[tuple[str, int]]:
        """Every file that belongs to the index, with its size in bytes; nothing is opened or made."""
        return [(name, os.lstat(name).st_size) for name in beside.all_files(self.path)]

    def destroy(self) -> None:
        """Delete the index and everything that belongs to it; a file that is not an index is left as it is."""
        with suppress(CorruptIndex):
            check_owner(self._home)
        with self.turn("deleting the index"), self._rebuild_lock("deleting the index"):
            self.close()
            for name in beside.all_files(self.path):
                if not name.endswith(beside.LOCKS):
                    os.unlink(name)
        beside.sweep(self.path)

    @contextmanager
    def _rebuild_lock(self, doing: str) -> Iterator[None]:
        lock = FileLock(self.path + beside.REBUILD_LOCK)
        if not lock.acquire(_WAIT_S, doing):
            raise self._busy(lock)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def turn(self, doing: str, wait_s: float = _WAIT_S) -> Iterator[None]:
        """The right to write, which one thread of one process has at a time; ``StoreBusy`` names who has it."""
        until = time.monotonic() + wait_s
        if not self._turn.acquire(timeout=wait_s):
            raise StoreBusy(f"The index {self.path} is being written.", hint="Try again when that has finished.")
        took = False
        try:
            if not (self._lock.is_held or self._place.disposable):
                took = self._take_lock(doing, max(0.0, until - time.monotonic()))
            yield
        finally:
            if took:
                self._lock.release()
            self._turn.release()

    def _take_lock(self, doing: str, wait_s: float) -> bool:
        beside.make_folder(self.path)
        try:
            if self._lock.acquire(wait_s, doing):
                return True
        except OSError as error:
            hint = "Mend the permissions, or set MDRECALL_STATE_DIR to a folder that can be written."
            message = f"Cannot write beside the index {self.path}: {error.strerror}."
            raise StoreUnavailable(message, hint=hint) from error
        raise self._busy(self._lock)

    def _busy(self, lock: FileLock) -> StoreBusy:
        who = named(lock.holder())
        return StoreBusy(f"The index {self.path} is in the hands of {who}.", hint="Try again when it has finished.")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Whatever this thread writes inside is written at once or not at all; what it reads inside includes it."""
        with self._writing_to() as db, transaction(db):
            self._local.changing = db
            try:
                yield
            finally:
                self._local.changing = None

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
    def rebuilding(self, text_bytes: int) -> "Iterator[SqliteStore]":
        """An empty index beside this one, to be filled with so much text and published; afterwards it is gone."""
        self.open()
        if self.hindrance:
            raise StoreUnavailable(self.hindrance)
        beside.check_room(self.path, text_bytes)
        path = self.path + beside.FRESH
        fresh = SqliteStore(
            path, is_ours=True, owner=self._home.owner, search=self._search, vfs=self._home.vfs, disposable=True
        )
        with self._rebuild_lock("rebuilding the index"):
            beside.remove(path)
            try:
                with fresh._writing_to() as db:
                    publish.begin(db, self._place)
                yield fresh
            finally:
                fresh.close()
                beside.remove(path)

    def publish(self, fresh: "SqliteStore") -> None:
        """Let a rebuilt index take the place of this one, all at once; open readers see the old or the new."""
        with self._writing_to() as live, fresh._writing_to() as db:
            publish.carry_over(db, self._place)
            publish.publish(live, db)
            live.close()
            self._writer = None

    def recipe(self) -> str:
        with self._reading() as db:
            return documents.recipe(db)

    def hashes(self, source: SourceName) -> Mapping[str, bytes]:
        with self._reading() as db:
            return documents.hashes(db, source)

    def known_stamps(self, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        with self._reading() as db:
            # SQLite's data version changes when any other connection, the writer's too, has changed the index.
            version = single(db, "PRAGMA data_version")
            wanted = (db, source, settle_ns, version)
            if getattr(self._local, "stamps_for", None) != wanted:
                self._local.stamps = documents.known_stamps(db, source, settle_ns)
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
        db = getattr(self._local, "changing", None) or self._reader()
        with translated(self.path):
            yield db

    def _reader(self) -> apsw.Connection:
        """This thread's connection, to the file that stands at the path now."""
        db: apsw.Connection | None = getattr(self._local, "db", None)
        if db is not None:
            if db.in_transaction or (self._is_open() and self._local.opened == self._opened):
                return db
            _close(db, is_other=True)
        self.open()
        fresh = connect_unwritable(self._place) if self._read_only else connect(self._place, writable=False)
        with self._opening:
            self._local.db, self._local.opened = fresh, self._opened
            self._readers.add(fresh)
        return fresh

    @contextmanager
    def _writing_to(self) -> Iterator[apsw.Connection]:
        with self.turn("writing"):
            if self._writer is None or not self._is_open() or self._writer_of != self._opened:
                self.open()
                if self._read_only:
                    raise StoreUnavailable(self.hindrance)
                with self._opening:
                    if self._writer:
                        _close(self._writer, is_other=True)
                    self._writer, self._writer_of = connect(self._place, writable=True), self._opened
            with translated(self.path):
                yield self._writer


def _close(connection: apsw.Connection, *, is_other: bool) -> None:
    """Close a connection; if another file stands at its path by now, without removing what SQLite keeps beside that."""
    if is_other:
        with suppress(apsw.ConnectionClosedError):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()
