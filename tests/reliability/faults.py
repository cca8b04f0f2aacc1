"""A disk that fails under an index: SQLite's own file functions, with an error at a chosen operation.

They are wrapped where SQLite calls them, below apsw. A VFS in Python, which apsw offers, would not do: it raises at the
caller what SQLite itself passes over, such as a checkpoint that fails while a connection closes, and the memory that
processes share (``-shm``) is not among its functions.
"""

import ctypes
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import apsw

Operation: TypeAlias = Literal["open", "read", "write", "truncate", "sync", "delete", "share"]
Kind: TypeAlias = Literal["error", "unreadable", "full", "torn", "killed", "torn and killed", "power cut"]

_ERRORS: dict[Operation, int] = {
    "open": apsw.SQLITE_CANTOPEN,
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "delete": apsw.SQLITE_IOERR_DELETE,
    "share": apsw.SQLITE_IOERR_SHMSIZE,
}
_AT: dict[Kind, tuple[Operation, ...]] = {
    "error": ("open", "write", "truncate", "sync", "delete", "share"),
    "unreadable": ("read",),
    "full": ("write", "share"),
    "torn": ("write",),
    "killed": ("write", "truncate", "delete"),
    "torn and killed": ("write",),
    "power cut": ("write", "truncate", "sync", "delete"),
}
# Who has met this many errors does not stop trying.
_MOST_ERRORS = 5_000


class Point(NamedTuple):
    """A moment at which a disk can fail."""

    operation: Operation
    file: str
    """What the name has more than that of the index: ``-wal``; nothing for the index itself."""


class Fault(NamedTuple):
    """What happens: an error, a full disk, half a write; or the process, or the machine, is gone from then on."""

    kind: Kind
    lasting: bool = False
    """Whether nothing can be written any more afterwards; what is there can still be read."""

    def can_hit(self, point: Point) -> bool:
        """Whether it is another fault there than at a point that comes later."""
        return point.operation in _AT[self.kind]

    @property
    def is_the_end(self) -> bool:
        """Whether nothing is done after it."""
        return self.kind in ("killed", "torn and killed", "power cut")

    def __str__(self) -> str:
        return f"lasting {self.kind}" if self.lasting else self.kind


#: Every way to fail.
FAULTS: tuple[Fault, ...] = (
    Fault("error"),
    Fault("error", lasting=True),
    Fault("full", lasting=True),
    Fault("torn"),
    Fault("unreadable"),
    Fault("killed"),
    Fault("torn and killed"),
    Fault("power cut"),
)


class Disk:
    """The disk under one index. It notes what is done to it, and fails at one of the points that its fault can hit.

    ``failed_at`` is where it did. If that was the end of the process, ``frozen`` is a copy of the folder of the index
    as it was left.
    """

    def __init__(self, index: Path, fault: Fault | None = None, at: int = 0) -> None:
        """``at`` says which of those points it is; the first is 0."""
        self.points: list[Point] = []
        self.failed_at: Point | None = None
        self.frozen: Path | None = None
        self._index = index
        self._fault = fault
        self._at = at
        self._still = at
        self._is_broken = False
        self._errors = 0
        self._remembers = fault is not None and fault.kind == "power cut"
        self._safe: dict[str, bytes] = {}
        self._at_risk: dict[str, list[tuple[int, bytes | None]]] = {}

    @contextmanager
    def inserted(self) -> Iterator["Disk"]:
        """All that SQLite does to the index meanwhile goes through this disk."""
        global _disk
        assert _disk is None, "one disk at a time"
        if self._remembers:
            self._safe = {str(path): path.read_bytes() for path in self._index.parent.iterdir()}
        vfs = _default_vfs()
        opening, deleting = vfs.xOpen, vfs.xDelete
        _real["open"], _real["delete"] = _Open(opening), _Delete(deleting)
        _disk = self
        vfs.xOpen, vfs.xDelete = _address(_OPEN), _address(_DELETE)
        try:
            yield self
        finally:
            vfs.xOpen, vfs.xDelete = opening, deleting
            _disk = None
            errors = list(_errors_met)
            _errors_met.clear()
        assert not errors, errors

    @property
    def is_unreadable(self) -> bool:
        """Whether it fails in such a way that a search may have nothing to answer from."""
        return self._fault is not None and self._fault.kind == "unreadable"

    def holds(self, path: str) -> bool:
        """Whether a file belongs to the index."""
        return path.startswith(str(self._index))

    def verdict(self, operation: Operation, path: str) -> int | None:
        """What SQLite is told: nothing, if the operation may be done, or an error; 0 stands for half a write."""
        if self._is_broken:
            return self._refusal(operation) if self._refuses(operation, path) else None
        point = Point(operation, path.removeprefix(str(self._index)))
        self.points.append(point)
        if self._fault is None or self.failed_at or not self._fault.can_hit(point):
            return None
        self._still -= 1
        if self._still >= 0:
            return None
        self.failed_at = point
        if self._fault.kind.startswith("torn"):
            return 0
        return self._fail(operation)

    def after_half_a_write(self) -> int:
        """What SQLite is told once half of it is done."""
        return self._fail("write")

    def _fail(self, operation: Operation) -> int:
        assert self._fault is not None
        self._is_broken = self._fault.lasting or self._fault.is_the_end
        if self._fault.is_the_end:
            self._freeze(may_lose_writes=self._fault.kind == "power cut")
        return self._refusal(operation)

    def _refuses(self, operation: Operation, path: str) -> bool:
        """A broken disk can be read; one that is full can also be cleared."""
        if operation in ("open", "read"):
            return operation == "open" and not os.path.exists(path)
        return operation in ("write", "share") or not self._is_full()

    def _refusal(self, operation: Operation) -> int:
        self._errors += 1
        assert self._errors < _MOST_ERRORS, "it does not stop trying"
        return apsw.SQLITE_FULL if operation == "write" and self._is_full() else _ERRORS[operation]

    def _is_full(self) -> bool:
        return self._fault is not None and self._fault.kind in ("full", "torn")

    def has_written(self, path: str, offset: int, data: bytes | None) -> None:
        """A write, or (without data) a new length, is at risk until the next sync."""
        if self._remembers:
            self._at_risk.setdefault(path, []).append((offset, data))

    def has_synced(self, path: str) -> None:
        if self._remembers:
            self._safe[path] = _with_writes(self._safe.get(path, b""), self._at_risk.pop(path, []))

    def has_deleted(self, path: str) -> None:
        self._safe.pop(path, None)
        self._at_risk.pop(path, None)

    def _freeze(self, *, may_lose_writes: bool) -> None:
        folder = self._index.parent
        self.frozen = folder.with_name(folder.name + "-frozen")
        shutil.copytree(folder, self.frozen)
        if not may_lose_writes:
            return
        luck = random.Random(self._at)
        for path, writes in self._at_risk.items():
            kept = [write for write in writes if luck.random() < 0.5]
            copy = self.frozen / Path(path).name
            if path in self._safe or kept:
                copy.write_bytes(_with_writes(self._safe.get(path, b""), kept))
            else:
                copy.unlink(missing_ok=True)
        for shared in self.frozen.glob("*-shm"):
            shared.unlink()


def _with_writes(content: bytes, writes: list[tuple[int, bytes | None]]) -> bytes:
    made = bytearray(content)
    for offset, data in writes:
        if data is None:
            del made[offset:]
        made.extend(bytes(max(0, offset - len(made))))
        if data is not None:
            made[offset : offset + len(data)] = data
    return bytes(made)


# What follows is SQLite's C interface: sqlite3_vfs, sqlite3_file and sqlite3_io_methods.

_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
_Delete = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
_Read = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)
_Share = CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int, c_void_p)


class _Vfs(Structure):
    """The beginning of a sqlite3_vfs."""

    _fields_ = (
        *((name, c_int) for name in ("iVersion", "szOsFile", "mxPathname")),
        *((name, c_void_p) for name in ("pNext", "zName", "pAppData", "xOpen", "xDelete")),
    )


class _File(Structure):
    """The beginning of a sqlite3_file."""

    _fields_ = (("pMethods", c_void_p),)


class _Methods(Structure):
    """A sqlite3_io_methods, version 3."""

    _fields_ = (
        ("iVersion", c_int),
        *((name, c_void_p) for name in ("xClose", "xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock")),
        *((name, c_void_p) for name in ("xUnlock", "xCheckReservedLock", "xFileControl", "xSectorSize")),
        *((name, c_void_p) for name in ("xDeviceCharacteristics", "xShmMap", "xShmLock", "xShmBarrier")),
        *((name, c_void_p) for name in ("xShmUnmap", "xFetch", "xUnfetch")),
    )


class _Wrapped:
    """A table of file functions with some of them replaced, and what they replace."""

    def __init__(self, address: int) -> None:
        table = _Methods.from_address(address)
        self.read, self.write = _Read(table.xRead), _Write(table.xWrite)
        self.truncate, self.sync = _Truncate(table.xTruncate), _Sync(table.xSync)
        self.share = _Share(table.xShmMap) if table.xShmMap else None
        self.table = _Methods.from_buffer_copy(table)
        self.table.xRead, self.table.xWrite = _address(_READ), _address(_WRITE)
        self.table.xTruncate, self.table.xSync = _address(_TRUNCATE), _address(_SYNC)
        self.table.xShmMap = _address(_SHARE) if self.share else None


_disk: Disk | None = None
_errors_met: list[BaseException] = []
_real: dict[str, Any] = {}
# By their address; a file that is still open when its disk is taken away goes on through them.
_wrapped: dict[int, _Wrapped] = {}
_names: dict[int, str] = {}


def _address(function: Any) -> int | None:
    return ctypes.cast(function, c_void_p).value


@cache
def _default_vfs() -> _Vfs:
    found = c_void_p()
    db = apsw.Connection(":memory:")
    try:
        assert db.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(found))
    finally:
        db.close()
    assert found.value
    return _Vfs.from_address(found.value)


def _verdict(operation: Operation, path: str) -> tuple[Disk | None, int | None]:
    """The disk that the file is on, if it is watched, and what to tell SQLite before the operation is done."""
    disk = _disk if _disk is not None and _disk.holds(path) else None
    if disk is None:
        return None, None
    try:
        return disk, disk.verdict(operation, path)
    except BaseException as error:
        # C calls this: an exception would go no further.
        _errors_met.append(error)
        return disk, apsw.SQLITE_INTERNAL


def _on_open(vfs: int, name: int | None, file: int, flags: int, out: Any) -> int:
    path = os.fsdecode(ctypes.string_at(name)) if name else ""
    disk, code = _verdict("open", path)
    handle = _File.from_address(file)
    if code:
        handle.pMethods = None
        return code
    result: int = _real["open"](vfs, name, file, flags, out)
    if disk and handle.pMethods:
        if handle.pMethods not in _wrapped:
            _wrapped[handle.pMethods] = _Wrapped(handle.pMethods)
        wrapped = _wrapped[handle.pMethods]
        own = ctypes.addressof(wrapped.table)
        _wrapped[own] = wrapped
        _names[file] = path
        handle.pMethods = own
    return result


def _methods(file: int) -> _Wrapped:
    return _wrapped[_File.from_address(file).pMethods]


def _on_delete(vfs: int, name: int, sync_folder: int) -> int:
    path = os.fsdecode(ctypes.string_at(name))
    disk, code = _verdict("delete", path)
    result: int = code or _real["delete"](vfs, name, sync_folder)
    if disk and not result:
        disk.has_deleted(path)
    return result


def _on_read(file: int, data: int, size: int, offset: int) -> int:
    _, code = _verdict("read", _names[file])
    result: int = code or _methods(file).read(file, data, size, offset)
    return result


def _on_write(file: int, data: int, size: int, offset: int) -> int:
    disk, code = _verdict("write", _names[file])
    if code:
        return code
    length = size if code is None else size // 2
    result: int = _methods(file).write(file, data, length, offset)
    if disk and not result:
        disk.has_written(_names[file], offset, ctypes.string_at(data, length))
        if length < size:
            return disk.after_half_a_write()
    return result


def _on_truncate(file: int, size: int) -> int:
    disk, code = _verdict("truncate", _names[file])
    result: int = code or _methods(file).truncate(file, size)
    if disk and not result:
        disk.has_written(_names[file], size, None)
    return result


def _on_sync(file: int, flags: int) -> int:
    disk, code = _verdict("sync", _names[file])
    if disk is None:
        result: int = _methods(file).sync(file, flags)
        return result
    # The machine stays on: what the disk would have to be asked for, it has in mind.
    if not code:
        disk.has_synced(_names[file])
    return code or 0


def _on_share(file: int, region: int, size: int, may_grow: int, out: int) -> int:
    _, code = _verdict("share", _names[file]) if may_grow else (None, None)
    share = _methods(file).share
    assert share
    result: int = code or share(file, region, size, may_grow, out)
    return result


_OPEN, _DELETE = _Open(_on_open), _Delete(_on_delete)
_READ, _WRITE, _TRUNCATE = _Read(_on_read), _Write(_on_write), _Truncate(_on_truncate)
_SYNC, _SHARE = _Sync(_on_sync), _Share(_on_share)
