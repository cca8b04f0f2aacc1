"""The file of an index, and the connections to it: one that writes, and one to read for each thread.

The file is created, upgraded or repaired at the first use, and again when it has been deleted. One that cannot be
written is read as it is; where there is none and none can be made, one in a temporary folder stands in.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import apsw

from mdrecall.errors import CorruptIndex, NewerIndex, StoreBusy, StoreError, StoreUnavailable, message_with_hint
from mdrecall.locks import FileLock, describe_holder
from mdrecall.store.sqlite import sidecar_files as beside
from mdrecall.store.sqlite.connect import Place, connect, connect_unwritable, identity, prepare
from mdrecall.store.sqlite.errors import translated
from mdrecall.store.sqlite.rows import transaction
from mdrecall.store.sqlite.vectors import bump

WAIT_S = 5.0
_RETRY_S = 10.0
# A search waits for it, and making an index is quick; only a process that holds on to the lock makes it long.
_CREATE_S = 1.0


class IndexFile:
    """What stands at one path, or in its stead."""

    def __init__(self, place: Place, on_change: Callable[[], None]) -> None:
        """``on_change`` is called whenever another file than before is going to answer."""
        self.path = place.path
        self.quarantined_path = ""
        self.place = self._home = place
        self._on_change = on_change
        self._problem: StoreUnavailable | None = None
        self._turn = threading.RLock()
        self._lock = FileLock(place.path + beside.WRITE_LOCK)
        self._opening = threading.RLock()
        self._opened: tuple[int, int] | None = None
        self._generation = 0
        self._read_only = False
        self._scratch = ""
        self._retry_at = 0.0
        self._writer: apsw.Connection | None = None
        self._writer_of = -1
        self._local = threading.local()
        self._readers: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()

    @property
    def write_problem(self) -> str:
        """Why the index at its path is not written; empty if it is."""
        if self._problem is None:
            return ""
        stands_in = " Until then an index in a temporary folder answers." if self._scratch else ""
        return message_with_hint(self._problem) + stands_in

    def require_writable(self) -> None:
        """Raise if the index at its path is not written."""
        if self._problem is not None:
            raise StoreUnavailable(str(self._problem), hint=self._problem.hint)

    def open(self) -> None:
        """Make sure that there is an index to answer from."""
        if self._is_open():
            return
        try:
            if self._problem is not None:
                if not self._is_mended():
                    self._keep_making_do(self._problem)
                    return
                self._drop_stand_in()
            if os.path.lexists(self.path) and self._open_what_is_there():
                return
            with self.write_lock("creating or repairing the index", _CREATE_S):
                self._create_or_repair()
        except StoreUnavailable as problem:
            self._make_do(problem)

    def _is_open(self) -> bool:
        if self._opened is None or (self._problem and time.monotonic() >= self._retry_at):
            return False
        return identity(self.place.path) == self._opened

    def _now_open(self) -> None:
        now = identity(self.place.path)
        if now != self._opened:
            self._opened = now
            self._generation += 1
            self._on_change()

    def _open_what_is_there(self) -> bool:
        """Open a sound index; whether there was one."""
        with self._opening:
            if self._is_open():
                return True
            beside.mend_permissions(self.path)
            if not self._home.disposable:
                beside.sweep(self.path)
            try:
                prepare(self._home, create=False)
            except CorruptIndex:
                return False
            except StoreUnavailable:
                if os.path.lexists(self.path):
                    raise
                return False
            self._now_open()
            return True

    def _create_or_repair(self) -> None:
        """Make a new index where there is none, or a damaged one. Only with the right to write."""
        with self._opening:
            if self._is_open():
                return
            # A new file may get the inode of the one that is gone.
            self._opened = None
            beside.drop_strays(self.path)
            try:
                prepare(self._home, create=True)
            except CorruptIndex:
                self.quarantined_path = beside.quarantine(self.path)
                prepare(self._home, create=True)
            self._now_open()

    def recreate(self) -> None:
        """Set a damaged index aside and start an empty one, unless another process has done so by now."""
        with self.write_lock("repairing the index"), self._opening:
            damaged, self._opened = self._opened, None
            self._generation += 1
            self._close_writer()
            self._close_own_reader(is_other=identity(self.place.path) != damaged)
            if not self._scratch and (damaged is None or identity(self.path) == damaged):
                self.quarantined_path = beside.quarantine(self.path)
            elif self._scratch:
                beside.remove(self.place.path)
            prepare(self.place, create=True)
            self._now_open()

    def _make_do(self, problem: StoreUnavailable) -> None:
        """The index cannot be written: read what is there, or keep one in a temporary folder for the time being."""
        with self._opening:
            if self._problem is not None and self._is_open():
                return
            try:
                connect_unwritable(self._home).close()
                self._read_only = True
            except (StoreError, apsw.Error):
                self._move_in(problem)
            self._made_do(problem)

    def _keep_making_do(self, problem: StoreUnavailable) -> None:
        """What stood in may be gone: temporary folders are cleaned, and a disk may be taken away."""
        with self._opening:
            if identity(self.place.path) != self._opened:
                self._read_only = False
                self._opened = None
                self._make_do(problem)

    def use_temporary(self, problem: StoreUnavailable) -> bool:
        """Keep an index in a temporary folder, because this one cannot be written and is empty; whether that is new."""
        with self._opening:
            if self._scratch:
                return False
            self._close_writer()
            self._read_only = False
            self._move_in(problem)
            self._made_do(problem)
            return True

    def _made_do(self, problem: StoreUnavailable) -> None:
        self._problem = problem
        self._retry_at = time.monotonic() + _RETRY_S
        self._now_open()

    def _move_in(self, problem: StoreUnavailable) -> None:
        try:
            scratch = beside.make_scratch(self)
            place = self._home._replace(path=os.path.join(scratch, "index.sqlite"), is_ours=True, disposable=True)
            beside.copy(self.path, place.path)
            try:
                prepare(place, create=True)
            except CorruptIndex:
                beside.remove(place.path)
                prepare(place, create=True)
        except (OSError, StoreError):
            raise problem from None
        self._scratch, self.place = scratch, place

    def _is_mended(self) -> bool:
        """Whether the index at its path can be written again; if not, it is tried again later."""
        self._retry_at = time.monotonic() + _RETRY_S
        lock = FileLock(self._lock.path)
        try:
            beside.make_folder(self.path)
            if not lock.acquire(0, "opening the index"):
                return False
            prepare(self._home, create=True)
            with translated(self.path), closing(connect(self._home, writable=True)) as db, transaction(db):
                bump(db, "cache")
        except (OSError, StoreError):
            return False
        finally:
            lock.release()
        return True

    def _drop_stand_in(self) -> None:
        with self._opening:
            self._close_writer()
            scratch, self._scratch, self.place = self._scratch, "", self._home
            self._opened, self._read_only, self._problem = None, False, None
            self._generation += 1
        if scratch:
            beside.remove_folder(scratch)

    def close(self) -> None:
        """Close every connection; the index may be used again afterwards."""
        with self._opening:
            is_other = self._opened is not None and identity(self.place.path) != self._opened
            readers, self._readers = list(self._readers), weakref.WeakSet()
            self._close_writer()
            self._generation += 1
        for connection in readers:
            # One that another thread is using right now is closed when that thread lets go of it.
            with suppress(apsw.ThreadingViolationError):
                _close(connection, is_other=is_other)
        self._drop_stand_in()

    def _close_writer(self) -> None:
        if self._writer is not None:
            with suppress(apsw.ThreadingViolationError):
                _close(self._writer, is_other=identity(self.place.path) != self._opened)
            self._writer = None

    def _close_own_reader(self, *, is_other: bool) -> None:
        db: apsw.Connection | None = getattr(self._local, "db", None)
        if db is not None:
            self._local.db = None
            _close(db, is_other=is_other)

    def renew_writer(self) -> None:
        """Let the next writing begin with a new connection, which remembers nothing."""
        with self._opening:
            self._close_writer()

    @contextmanager
    def write_lock(self, doing: str, wait_s: float = WAIT_S) -> Iterator[None]:
        """The right to write, which one thread of one process has at a time; ``StoreBusy`` names who has it."""
        until = time.monotonic() + wait_s
        if not self._turn.acquire(timeout=wait_s):
            raise StoreBusy(f"The index {self.path} is being written.", hint="Try again when that has finished.")
        took = False
        try:
            if not (self._lock.is_held or self.place.disposable):
                self._take(self._lock, doing, max(0.0, until - time.monotonic()))
                took = True
            yield
        finally:
            if took:
                self._lock.release()
            self._turn.release()

    @contextmanager
    def rebuild_lock(self, doing: str) -> Iterator[None]:
        """The right to build a new index beside this one, which one process has at a time."""
        lock = FileLock(self.path + beside.REBUILD_LOCK)
        self._take(lock, doing, WAIT_S)
        try:
            yield
        finally:
            lock.release()

    def _take(self, lock: FileLock, doing: str, wait_s: float) -> None:
        beside.make_folder(self.path)
        try:
            taken = lock.acquire(wait_s, doing)
        except OSError as error:
            hint = "Mend the permissions, or set MDRECALL_STATE_DIR to a folder that can be written."
            message = f"Cannot write beside the index {self.path}: {error.strerror}."
            raise StoreUnavailable(message, hint=hint) from error
        if not taken:
            who = describe_holder(lock.holder())
            raise StoreBusy(f"The index {self.path} is in the hands of {who}.", hint="Try again when it has finished.")

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """This thread's connection; inside ``transaction``, the one that sees what has been changed so far."""
        db = getattr(self._local, "inside", None) or self._reader()
        with translated(self.path):
            yield db

    def _reader(self) -> apsw.Connection:
        db: apsw.Connection | None = getattr(self._local, "db", None)
        if db is not None:
            if _is_in_use(db) or (self._is_open() and self._local.generation == self._generation):
                return db
            self._close_own_reader(is_other=True)
        self.open()
        generation = self._generation
        db = self.connection()
        with self._opening:
            self._readers.add(db)
        self._local.db, self._local.generation = db, generation
        return db

    def connection(self) -> apsw.Connection:
        """A new connection to read."""
        if not self._read_only:
            try:
                return connect(self.place, writable=False)
            except StoreUnavailable as problem:
                if self._scratch:
                    raise
                with self._opening:
                    self._opened = None
                self._make_do(problem)
        return connect_unwritable(self.place) if self._read_only else connect(self.place, writable=False)

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """The connection that writes, with the right to."""
        inside: apsw.Connection | None = getattr(self._local, "inside", None)
        if inside is not None:
            yield inside
            return
        self.open()
        with self.write_lock("writing"):
            if self._writer is None or not self._is_open() or self._writer_of != self._generation:
                self.open()
                if self._read_only:
                    self.require_writable()
                with self._opening:
                    self._close_writer()
                    self._writer, self._writer_of = connect(self.place, writable=True), self._generation
            # What stood in when the turn began may have given way to the index itself, which needs the lock.
            with self.write_lock("writing"), translated(self.path):
                yield self._writer

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Whatever this thread writes inside is written at once or not at all; what it reads inside includes it."""
        with self.writing() as db, transaction(db):
            self._local.inside = db
            try:
                yield
            finally:
                self._local.inside = None

    def destroy(self) -> None:
        """Delete the index and everything that belongs to it; a file that is not an index is left as it is."""
        if os.path.lexists(self.path):
            with suppress(CorruptIndex, NewerIndex, StoreUnavailable):
                prepare(self._home, create=False)
        with self.write_lock("deleting the index"), self.rebuild_lock("deleting the index"):
            self.close()
            beside.delete_all(self.path)
        beside.sweep(self.path)


def _is_in_use(db: apsw.Connection) -> bool:
    """Whether a connection is in the middle of a transaction; one that was closed under its thread is not."""
    try:
        return db.in_transaction
    except apsw.ConnectionClosedError:
        return False


def _close(connection: apsw.Connection, *, is_other: bool) -> None:
    """Close a connection; if another file stands at its path by now, without removing what SQLite keeps beside that."""
    if is_other:
        with suppress(apsw.ConnectionClosedError):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()
