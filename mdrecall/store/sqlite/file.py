"""The file of an index, and the connections to it: one that writes, and one to read for each thread.

The file is created, upgraded or repaired at the first use, and again when it has been deleted. A file that cannot be
written is opened read-only. Where no file can be read or created, a temporary one is used until that changes.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import apsw

from mdrecall.errors import CorruptIndex, NewerIndex, StoreBusy, StoreError, StoreUnavailable
from mdrecall.locks import FileLock, describe_holder
from mdrecall.store.sqlite import connect, sidecar_files, tables
from mdrecall.store.sqlite.tables import bump, current_revision, explain_error, rows, transaction, translate_errors
from mdrecall.types.sync import ContentSizes

#: How long a writer waits for another one before it reports who that is.
WAIT_S = 5.0
# How long a read-only or temporary index is used before the index itself is tried again: each try takes its lock.
_RETRY_S = 10.0
# A search waits for it. Creating or repairing an index is quick; only a process that keeps the lock makes it slow.
_CREATE_S = 1.0
_TEXT_BYTES = """
    SELECT source, sum(octet_length(text)) FROM chunks JOIN documents ON documents.id = document_id
        JOIN texts ON texts.id = text_id WHERE at = 0 GROUP BY source
"""
_T = TypeVar("_T")
_CACHE_BYTES = "SELECT coalesce(sum(octet_length(vector) + octet_length(windows)), 0), count(*) FROM embedding_cache"


class IndexFile:
    """The index at one path: the role ``IndexAdmin``, and connections for the others."""

    def __init__(
        self,
        location: connect.IndexLocation,
        on_change: Callable[[], None],
        check_contents: Callable[[apsw.Connection], None],
    ) -> None:
        """``on_change`` is called whenever a different file is used.

        ``check_contents`` raises if something is damaged that SQLite itself does not check.
        """
        self.place = self.path = location.path
        self._quarantined_path = ""
        self._location = self._home = location
        self._on_change = on_change
        self._check_contents = check_contents
        self._problem: StoreUnavailable | None = None
        self._thread_lock = threading.RLock()
        self._file_lock = FileLock(location.path + sidecar_files.LOCKS["write"])
        self._open_lock = threading.RLock()
        self._opened: tuple[int, int] | None = None
        self._shared_bytes = 0
        self._generation = 0
        self._read_only = False
        self._scratch = ""
        self._retry_at = 0.0
        self._writer: apsw.Connection | None = None
        self._writer_of = -1
        self._local = _OfThread()
        self._reading = _Reading(self)
        self._readers: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()

    def health(self) -> tuple[str, StoreUnavailable | None]:
        problem = self._problem
        if problem is not None and self._scratch:
            hint = f"{problem.hint} Until then a temporary index is used.".lstrip()
            problem = StoreUnavailable(str(problem), hint=hint)
        return self._quarantined_path, problem

    def require_writable(self) -> None:
        """Raise ``StoreUnavailable`` if the index is read-only right now."""
        if self._problem is not None:
            raise StoreUnavailable(str(self._problem), hint=self._problem.hint)

    def open(self, wait_s: float = _CREATE_S) -> None:
        """Make sure that there is an index to answer from; wait for a process that writes if it must be created."""
        if self._is_open():
            return
        try:
            if self._problem is not None:
                if not self._can_write_again():
                    self._renew_fallback(self._problem)
                    return
                self._leave_fallback()
            if os.path.lexists(self.path) and self._open_existing():
                return
            with self.write_lock("creating or repairing the index", wait_s):
                self._create_or_repair()
        except StoreUnavailable as problem:
            self._fall_back(problem)

    def _is_open(self) -> bool:
        if self._opened is None or (self._problem and time.monotonic() >= self._retry_at):
            return False
        if _identity(self._location.path) != self._opened:
            return False
        try:
            shared_bytes = os.stat(f"{self._location.path}-shm").st_size
        except OSError:
            return True
        if shared_bytes < self._shared_bytes:
            connect.restore_length(self._location.path, self._shared_bytes)
        self._shared_bytes = max(shared_bytes, self._shared_bytes)
        return True

    def _record_identity(self) -> None:
        now = _identity(self._location.path)
        if now != self._opened:
            self._opened = now
            self._shared_bytes = 0
            self._generation += 1
            self._on_change()

    def _open_existing(self) -> bool:
        """Open the index if there is a sound one; False if it must be created or repaired."""
        with self._open_lock:
            if self._is_open():
                return True
            sidecar_files.fix_permissions(self.path)
            if not self._home.disposable:
                sidecar_files.sweep(self.path)
            try:
                connect.prepare(self._home, create=False)
            except CorruptIndex:
                return False
            except StoreUnavailable:
                if os.path.lexists(self.path):
                    raise
                return False
            self._record_identity()
            return True

    def _create_or_repair(self) -> None:
        """Create the index, moving a damaged one out of the way. Needs the write lock."""
        with self._open_lock:
            if self._is_open():
                return
            # A new file may get the inode of the one that is gone.
            self._opened = None
            if not os.path.lexists(self.path):
                # SQLite would apply the changes in the side files of the old database to the new one.
                sidecar_files.remove(self.path)
            try:
                connect.prepare(self._home, create=True)
            except CorruptIndex:
                self._quarantined_path = sidecar_files.quarantine(self.path)
                connect.prepare(self._home, create=True)
            self._record_identity()

    def recreate(self, problem: StoreUnavailable | None = None) -> bool:
        """Quarantine a damaged index and start an empty one, unless another process has already done so.

        With ``problem``, which keeps this index from being written, use a temporary one; False if one is in use.
        """
        if problem is not None:
            with self._open_lock:
                if self._scratch:
                    return False
                self._close_writer()
                self._read_only = False
                self._use_temporary(problem)
                return True
        with self.write_lock("repairing the index", _CREATE_S), self._open_lock:
            damaged, self._opened = self._opened, None
            self._generation += 1
            self._close_writer()
            self._close_own_reader()
            if not self._scratch and (damaged is None or _identity(self.path) == damaged):
                self._quarantined_path = sidecar_files.quarantine(self.path)
            elif self._scratch:
                sidecar_files.remove(self._location.path)
            connect.prepare(self._location, create=True)
            self._record_identity()
        return True

    def _fall_back(self, problem: StoreUnavailable) -> None:
        """Open the index read-only because it cannot be written, or use a temporary one if there is nothing to read."""
        with self._open_lock:
            if self._problem is not None and self._is_open():
                return
            try:
                connect.close(connect.connect_unwritable(self._home))
                self._read_only = True
                self._record_problem(problem)
            except (StoreError, apsw.Error):
                self._use_temporary(problem)

    def _renew_fallback(self, problem: StoreUnavailable) -> None:
        """Fall back again if the fallback is gone: temporary folders are cleaned, and disks are unmounted."""
        with self._open_lock:
            if _identity(self._location.path) != self._opened:
                self._read_only = False
                self._opened = None
                self._fall_back(problem)

    def _record_problem(self, problem: StoreUnavailable) -> None:
        self._problem = problem
        self._retry_at = time.monotonic() + _RETRY_S
        self._record_identity()

    def _use_temporary(self, problem: StoreUnavailable) -> None:
        try:
            scratch = sidecar_files.make_temporary_folder(self)
            location = self._home._replace(path=os.path.join(scratch, "index.sqlite"), is_ours=True, disposable=True)
            sidecar_files.copy(self.path, location.path)
            try:
                connect.prepare(location, create=True)
            except CorruptIndex:
                sidecar_files.remove(location.path)
                connect.prepare(location, create=True)
        except (OSError, StoreError):
            raise problem from None
        self._scratch, self._location = scratch, location
        self._record_problem(problem)

    def _can_write_again(self) -> bool:
        """True if the index can be written again; if not, the next try is due later."""
        self._retry_at = time.monotonic() + _RETRY_S
        lock = FileLock(self._file_lock.path)
        try:
            sidecar_files.make_folder(self.path)
            if not lock.acquire(0, "opening the index"):
                return False
            connect.prepare(self._home, create=True)
            opened = connect.closing(connect.connect(self._home, writable=True))
            with translate_errors(self.path), opened as db, transaction(db):
                bump(db, "cache")
        except (OSError, StoreError):
            return False
        finally:
            lock.release()
        return True

    def _leave_fallback(self) -> None:
        with self._open_lock:
            self._close_writer()
            scratch, self._scratch, self._location = self._scratch, "", self._home
            self._opened, self._read_only, self._problem = None, False, None
            self._generation += 1
        if scratch:
            sidecar_files.remove_folder(scratch)

    def close(self) -> None:
        with self._open_lock:
            readers, self._readers = list(self._readers), weakref.WeakSet()
            self._close_writer()
            self._generation += 1
        for connection in readers:
            # A connection that another thread is using right now is closed when that thread releases it.
            with suppress(apsw.ThreadingViolationError):
                connect.close(connection)
        self._leave_fallback()

    def _close_writer(self) -> None:
        """Close the connection that writes; one that another thread is writing with goes when that thread is done."""
        writer, self._writer = self._writer, None
        if writer is not None and self._thread_lock.acquire(blocking=False):
            self._thread_lock.release()
            connect.close(writer)

    def _close_own_reader(self) -> None:
        if (db := self._local.db) is not None:
            self._local.db = None
            connect.close(db)

    def renew_writer(self) -> None:
        """Make the next write use a new connection, which has nothing cached."""
        with self._open_lock:
            self._close_writer()

    @contextmanager
    def write_lock(self, doing: str, wait_s: float = WAIT_S) -> Iterator[None]:
        until = time.monotonic() + wait_s
        if not self._thread_lock.acquire(timeout=wait_s):
            # That thread may itself be waiting for another process.
            holder = None if self._file_lock.is_held or self._location.disposable else self._file_lock.holder()
            raise self._explain_busy(describe_holder(holder) if holder else "another thread")
        took = False
        try:
            if not (self._file_lock.is_held or self._location.disposable):
                self._take(self._file_lock, doing, max(0.0, until - time.monotonic()))
                took = True
            yield
        finally:
            if took:
                self._file_lock.release()
            self._thread_lock.release()

    @contextmanager
    def rebuild_lock(self, doing: str) -> Iterator[None]:
        """Hold the right to build a new index beside this one, which one process has at a time."""
        lock = FileLock(self.path + sidecar_files.LOCKS["rebuild"])
        self._take(lock, doing, WAIT_S)
        try:
            yield
        finally:
            lock.release()

    def _take(self, lock: FileLock, doing: str, wait_s: float) -> None:
        sidecar_files.make_folder(self.path)
        try:
            taken = lock.acquire(wait_s, doing)
        except OSError as error:
            hint = "Fix the permissions, or set MDRECALL_STATE_DIR to a writable folder."
            message = f"Cannot write beside the index {self.path}: {error.strerror}."
            raise StoreUnavailable(message, hint=hint) from error
        if not taken:
            raise self._explain_busy(describe_holder(lock.holder()))

    def _explain_busy(self, who: str) -> StoreBusy:
        return StoreBusy(f"The index {self.path} is locked by {who}.", hint="Try again when it has finished.")

    def reading(self) -> AbstractContextManager[apsw.Connection]:
        """Give this thread's connection; inside ``transaction``, the one that sees what has been written so far."""
        return self._reading

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._reading as db:
            db.execute("BEGIN")
            try:
                version = tables.single(db, "PRAGMA data_version")
                if version != self._local.version:
                    self._local.version, self._local.known = version, {}
                self._local.snapshot = db
                yield
            finally:
                self._local.snapshot = None
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def recall(self, db: apsw.Connection, read: Callable[[apsw.Connection], _T]) -> _T:
        """Return what a function reads; in a snapshot, what it read in this thread before, if nothing has changed."""
        if self._local.snapshot is not db:
            return read(db)
        known: dict[object, _T] = self._local.known
        return known[read] if read in known else known.setdefault(read, read(db))

    def revision(self, db: apsw.Connection) -> int:
        return self.recall(db, current_revision)

    def find_connection(self) -> apsw.Connection:
        """Return the connection of this thread that sees what it has written."""
        if self._local.inside is not None:
            return self._local.inside
        if (db := self._local.db) is not None:
            if _is_in_use(db) or (self._is_open() and self._local.generation == self._generation):
                return db
            self._close_own_reader()
        try:
            self.open(wait_s=0)
            generation, db = self._generation, self.connection()
        except StoreBusy:
            # A process that is writing will create it. Until then, there is nothing in it.
            generation, db = -1, connect.connect_empty(self._home)
        with self._open_lock:
            self._readers.add(db)
        self._local.db, self._local.generation, self._local.at_end = db, generation, _CloseAtEnd(db)
        # What other connections write changes the version that this one sees, and it writes nothing itself.
        self._local.version, self._local.known = -1, {}
        return db

    def connection(self) -> apsw.Connection:
        """Return a new connection to read."""
        if not self._read_only:
            try:
                return self._connect(writable=False)
            except StoreUnavailable as problem:
                if self._scratch:
                    raise
                with self._open_lock:
                    self._opened = None
                self._fall_back(problem)
            if not self._read_only:
                return connect.connect(self._location, writable=False)
        return connect.connect_unwritable(self._location)

    def _connect(self, *, writable: bool) -> apsw.Connection:
        """Return a new connection; an index that was deleted since it was opened is created again."""
        for _ in range(3):
            with suppress(StoreUnavailable):
                return connect.connect(self._location, writable=writable)
            self.open(wait_s=0)
        return connect.connect(self._location, writable=writable)

    def latest(self) -> AbstractContextManager[apsw.Connection]:
        """Give a new connection, which sees the last state of the index; this thread may see an earlier one."""
        return connect.closing(self.connection())

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """Give the connection that writes, and hold the write lock."""
        if self._local.inside is not None:
            yield self._local.inside
            return
        self.open()
        with self.write_lock("writing"):
            if self._writer is None or not self._is_open() or self._writer_of != self._generation:
                self.open()
                if self._read_only:
                    self.require_writable()
                with self._open_lock:
                    self._close_writer()
                    self._writer, self._writer_of = self._connect(writable=True), self._generation
            # A temporary index needs no lock; if the index itself has replaced it meanwhile, that one does.
            with self.write_lock("writing"), translate_errors(self.path):
                yield self._writer

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything that this thread writes inside at once, or nothing; its reads inside see its writes."""
        if self._local.inside is not None:
            yield
            return
        with self.writing() as db, transaction(db):
            self._local.inside = db
            try:
                yield
            finally:
                self._local.inside = None

    def check(self) -> tuple[str, ...]:
        # On a connection of its own: the full-text index is checked against what a connection remembers of it.
        self.open()
        with translate_errors(self.path), self.latest() as db:
            problems = tuple(text for (text,) in rows(db, "PRAGMA integrity_check(20)") if text != "ok")
            if not problems:
                self._check_contents(db)
            return problems

    def scrub(self, cached: Collection[bytes] | None) -> bool:
        """Remove what earlier states of the index have left in its files; False if a reader still uses one of them.

        A damaged index that was kept is deleted, the tables are written again, and the write-ahead log is emptied.
        """
        sidecar_files.delete_quarantined(self.path)
        sidecar_files.sweep_temporary_folders()
        with self.writing() as db:
            with transaction(db):
                if cached is not None:
                    db.execute("CREATE TEMP TABLE kept(hash BLOB PRIMARY KEY) WITHOUT ROWID")
                    db.executemany("INSERT OR IGNORE INTO temp.kept VALUES(?)", ((digest,) for digest in cached))
                    db.execute("DELETE FROM embedding_cache WHERE hash NOT IN (SELECT hash FROM temp.kept)")
                    db.execute("DROP TABLE temp.kept")
                # Caches in memory load everything again.
                db.execute("DELETE FROM history; DELETE FROM removed; DELETE FROM gone")
                tables.start_revision(db)
                db.execute("INSERT INTO keyword(keyword) VALUES('optimize')")
            # In memory, the copy that SQLite makes would take as much as the index.
            db.execute("PRAGMA temp_store=FILE; VACUUM; PRAGMA temp_store=MEMORY")
            ((is_busy, *_),) = rows(db, "PRAGMA wal_checkpoint(TRUNCATE)")
        return not is_busy

    def sizes(self) -> list[tuple[str, int]]:
        return sidecar_files.sizes(self.path)

    def content_sizes(self) -> ContentSizes:
        with self.reading() as db:
            ((cache, cached),) = rows(db, _CACHE_BYTES)
            ((page,),), ((free,),) = rows(db, "PRAGMA page_size"), rows(db, "PRAGMA freelist_count")
            return ContentSizes(dict(rows(db, _TEXT_BYTES)), cache, cached, page * free)

    def exchange_forgotten(self, merge: Callable[[bytes], bytes]) -> None:
        """Do nothing: no other machine uses an index in a file."""

    def destroy(self) -> None:
        """Delete the index and everything that belongs to it; never a file that is not an index."""
        if os.path.lexists(self.path):
            with suppress(CorruptIndex, NewerIndex, StoreUnavailable):
                connect.prepare(self._home, create=False)
        with self.write_lock("deleting the index"), self.rebuild_lock("deleting the index"):
            self.close()
            sidecar_files.delete_all(self.path)
        sidecar_files.sweep(self.path)
        connect.sweep(self.path)


class _OfThread(threading.local):
    """The connections of a thread: to read, to write in a transaction, and to read in a snapshot."""

    db: apsw.Connection | None = None
    inside: apsw.Connection | None = None
    snapshot: apsw.Connection | None = None
    at_end: "_CloseAtEnd"
    generation = version = -1
    known: dict[Any, Any]  # What was read of this version, by what has read it.


class _Reading:
    """Gives the connection of a thread that reads, and translates the errors of SQLite."""

    def __init__(self, file: IndexFile) -> None:
        self._file = weakref.proxy(file)

    def __enter__(self) -> apsw.Connection:
        db: apsw.Connection = self._file.find_connection()
        return db

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error | UnicodeError):
            raise explain_error(error, self._file.path) from error


def _identity(path: str) -> tuple[int, int] | None:
    """Return what distinguishes a file from a later one at the same path; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _CloseAtEnd:
    """Closes the connection of a thread when the thread ends, and with it the SQLite files beside the index."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def __del__(self) -> None:
        with suppress(apsw.Error, StoreError):
            connect.close(self._db)


def _is_in_use(db: apsw.Connection) -> bool:
    """True if a connection is inside a transaction; one that another thread has closed is not."""
    try:
        return db.in_transaction
    except apsw.ConnectionClosedError:
        return False
