"""The functions of ``platform`` on Windows, with the arguments that those of ``os`` have elsewhere.

An open folder is a handle. While it is open, nobody can rename or replace the folder, so that a name in it may be
looked up by the path that the handle has at that moment. A file is opened so that others may rename and remove it.
"""

import ctypes
import errno
import msvcrt
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from ctypes import wintypes
from typing import Any, TypeVar

assert sys.platform == "win32"

#: Bits that no flag of ``os.open`` has.
NO_FOLLOW, FOLDER, NO_WAIT = 1 << 24, 1 << 25, 0
KNOWS_INODES = False
#: Nobody sees it. Closing that of the host would end the process.
OWN_CONSOLE = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
#: Less than what the pipe of any host holds.
PIPE_BYTES = 4096
POLLIN, POLLOUT, POLLERR, POLLHUP = 1, 4, 8, 16

_READ, _WRITE = 0x8000_0000, 0x4000_0000
_SHARE, _SHARE_REMOVAL = 0x1 | 0x2, 0x4
_OPEN_LINK, _OPEN_FOLDER = 0x0020_0000, 0x0200_0000
_CREATE_NEW, _CREATE_ALWAYS, _OPEN_EXISTING, _OPEN_ALWAYS, _TRUNCATE = 1, 2, 3, 4, 5
_IS_LINK, _IS_NAME_OF_OTHER = 0x400, 0x2000_0000
_DENIED, _SHARED_OTHERWISE, _LOCKED, _BROKEN_PIPE, _BEING_REMOVED = 5, 32, 33, 109, 0xC000_0056
_IGNORE_ATTRIBUTES = 0x2 | 0x4
_STILL_ACTIVE, _QUERY_PROCESS = 259, 0x1000
#: Virus scanners and indexers open what was just written, for an instant.
_BUSY_S, _RETRY_S = 1.0, 0.01
#: Where no file has a byte: others can read what is locked here, unlike elsewhere on Windows.
_LOCK_AT = 1 << 40
#: How often a pipe is looked at, because there is nothing to wait for: soon, and then more and more rarely.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.001, 0.02

_NOT_IN_NAMES = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
_RESERVED = re.compile(
    r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9\u00b9\u00b2\u00b3])[ ]*(?:\..*)?", re.I | re.S
)

_system, _kernel = ctypes.WinDLL("ntdll"), ctypes.WinDLL("kernel32", use_last_error=True)
_HANDLE, _NUMBER, _TEXT, _POINTER = wintypes.HANDLE, wintypes.DWORD, wintypes.LPCWSTR, wintypes.LPVOID
for _function, *_types in (
    (_kernel.CreateFileW, _TEXT, _NUMBER, _NUMBER, _POINTER, _NUMBER, _NUMBER, _HANDLE),
    (_kernel.GetFinalPathNameByHandleW, _HANDLE, wintypes.LPWSTR, _NUMBER, _NUMBER),
    (_kernel.PeekNamedPipe, _HANDLE, _POINTER, _NUMBER, _POINTER, _POINTER, _POINTER),
    (_kernel.ReplaceFileW, _TEXT, _TEXT, _TEXT, _NUMBER, _POINTER, _POINTER),
    (_kernel.GetExitCodeProcess, _HANDLE, _POINTER),
    (_kernel.LockFile, _HANDLE, _NUMBER, _NUMBER, _NUMBER, _NUMBER),
    (_kernel.CloseHandle, _HANDLE),
):
    _function.argtypes = _types  # type: ignore[assignment]
_kernel.CreateFileW.restype = _kernel.OpenProcess.restype = _HANDLE

#: The place in a file belongs to all threads that have it open.
_seeking = threading.Lock()
_T = TypeVar("_T")


def open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    place = _place(path, dir_fd)
    file = _retry(lambda: _open(place, flags), _SHARED_OTHERWISE)
    try:
        found = os.fstat(file)
        if found.st_file_attributes & _IS_LINK and flags & NO_FOLLOW:
            if is_junction(os.lstat(place)):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            # It is a file that is compressed, or kept in a cloud.
            again = _retry(lambda: _open(place, flags & ~NO_FOLLOW), _SHARED_OTHERWISE)
            os.close(file)
            file = again
        is_folder = (found.st_mode & 0o170000) == 0o040000
        if flags & FOLDER and not is_folder:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if is_folder and flags & (os.O_WRONLY | os.O_RDWR):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    except BaseException:
        os.close(file)
        raise
    return file


def _open(place: str, flags: int) -> int:
    access = _READ | _WRITE if flags & os.O_RDWR else _WRITE if flags & os.O_WRONLY else _READ
    if flags & os.O_CREAT:
        how = _CREATE_NEW if flags & os.O_EXCL else _CREATE_ALWAYS if flags & os.O_TRUNC else _OPEN_ALWAYS
    else:
        how = _TRUNCATE if flags & os.O_TRUNC else _OPEN_EXISTING
    share = _SHARE if flags & FOLDER else _SHARE | _SHARE_REMOVAL
    kind = _OPEN_FOLDER | (_OPEN_LINK if flags & NO_FOLLOW else 0)
    handle = _kernel.CreateFileW(place, access, share, None, how, kind, None)
    if handle == _HANDLE(-1).value:
        # A file that is being removed cannot be opened, nor made again, until the last program has closed it.
        is_going = _system.RtlGetLastNtStatus() & 0xFFFF_FFFF == _BEING_REMOVED
        raise ctypes.WinError(_SHARED_OTHERWISE if is_going else ctypes.get_last_error())
    return msvcrt.open_osfhandle(handle, flags & (os.O_APPEND | os.O_RDWR | os.O_WRONLY))


def _place(path: str, folder: int | None) -> str:
    """Return the path of a name in an open folder. It has a prefix that lets it be of any length."""
    if folder is None:
        return path
    if why := explain_bad_name(path):
        raise OSError(errno.EINVAL, why, path)
    return os.path.join(_path_of(folder), path)


def _path_of(folder: int) -> str:
    buffer = ctypes.create_unicode_buffer(1 << 15)
    if not _kernel.GetFinalPathNameByHandleW(msvcrt.get_osfhandle(folder), buffer, len(buffer), 0):
        raise ctypes.WinError(ctypes.get_last_error())
    return buffer.value.rstrip("\\")


def _retry(act: Callable[[], _T], *codes: int) -> _T:
    """Return the result of ``act``, which is tried again while another program has the file for itself."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            return act()
        except PermissionError as error:
            if error.winerror not in codes or time.monotonic() >= until:
                raise
        time.sleep(_RETRY_S)


def explain_bad_name(name: str) -> str:
    """Return why no file can have a name; empty if one can."""
    if _NOT_IN_NAMES.search(name):
        return "Windows does not allow one of its characters in a name"
    if name[-1:] in (".", " "):
        return "on Windows no name ends with a dot or a space"
    return "Windows reserves this name for a device" if _RESERVED.fullmatch(name) else ""


def _below(act: Callable[..., _T]) -> Callable[..., _T]:
    """Return a function that does something with a path, or with a name in an open folder."""
    return lambda path, *more, dir_fd=None, **options: act(_place(path, dir_fd), *more, **options)


scandir, listdir = (lambda folder: os.scandir(_path_of(folder))), (lambda folder: os.listdir(_path_of(folder)))
stat, mkdir, rmdir = _below(os.stat), _below(os.mkdir), _below(os.rmdir)
utime = _below(lambda place, *, ns, follow_symlinks=True: os.utime(place, ns=ns))
unlink = _below(lambda place: _retry(lambda: os.unlink(place), _SHARED_OTHERWISE))


def link(source: str, to: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None, **_: bool) -> None:
    os.link(_place(source, src_dir_fd), _place(to, dst_dir_fd))


def rename(source: str, to: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
    """Rename a file; one that has the name is replaced, even while it is open."""
    old, new = _place(source, src_dir_fd), _place(to, dst_dir_fd)

    def replace() -> None:
        try:
            os.replace(old, new)
        except PermissionError:
            # An open file cannot be replaced by a move on every Windows. It can be exchanged, or at least moved away.
            if not os.path.isfile(new):
                raise
            if not _kernel.ReplaceFileW(new, old, None, _IGNORE_ATTRIBUTES, None, None):
                away = f"{new}.{os.urandom(8).hex()}.old"
                os.replace(new, away)
                try:
                    os.replace(old, new)
                except BaseException:
                    os.replace(away, new)
                    raise
                os.unlink(away)

    _retry(replace, _SHARED_OTHERWISE, _DENIED)


def _do_nothing(*_: Any) -> None:
    """A file has the permissions of its folder, a pipe always waits, and nobody tells who else has a file open."""


fchmod = fchown = set_blocking = lower_priority = make_pipe = is_open_elsewhere = _do_nothing
is_own = bool


def pread(file: int, length: int, at: int) -> bytes:
    return _at(file, at, lambda: os.read(file, length))


def pwrite(file: int, data: bytes, at: int) -> int:
    return _at(file, at, lambda: os.write(file, data))


def _at(file: int, at: int, act: Callable[[], _T]) -> _T:
    """Return the result of ``act`` at a position in a file, and restore the position."""
    with _seeking:
        before = os.lseek(file, 0, os.SEEK_CUR)
        try:
            os.lseek(file, at, os.SEEK_SET)
            return act()
        finally:
            os.lseek(file, before, os.SEEK_SET)


def try_lock(file: int) -> bool:
    if _kernel.LockFile(msvcrt.get_osfhandle(file), 0, _LOCK_AT >> 32, 1, 0):
        return True
    if ctypes.get_last_error() != _LOCKED:
        raise ctypes.WinError(ctypes.get_last_error())
    return False


class poll:
    """Waits for pipes and sockets as ``select.poll`` does; a pipe can always be written."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Any, int]] = {}

    def register(self, file: Any, events: int = POLLIN | POLLOUT) -> None:
        self._waiting[file if isinstance(file, int) else file.fileno()] = file, events

    def poll(self, wait_ms: float | None = None) -> list[tuple[int, int]]:
        until = None if wait_ms is None or wait_ms < 0 else time.monotonic() + wait_ms / 1000
        pause_s = _FIRST_LOOK_S
        while not (found := [(number, what) for number in self._waiting if (what := self._look_at(number))]):
            if until is not None and time.monotonic() >= until:
                break
            time.sleep(pause_s if until is None else max(0.0, min(pause_s, until - time.monotonic())))
            pause_s = min(2 * pause_s, _LAST_LOOK_S)
        return found

    def _look_at(self, number: int) -> int:
        """Return which of the events have happened."""
        file, events = self._waiting[number]
        if hasattr(file, "getsockname"):
            reading, writing, _ = select.select([number] * (events & POLLIN), [number] * (events & POLLOUT), [], 0)
            return POLLIN * bool(reading) | POLLOUT * bool(writing)
        waiting = wintypes.DWORD()
        if _kernel.PeekNamedPipe(msvcrt.get_osfhandle(number), None, 0, None, ctypes.byref(waiting), None):
            return events & (POLLOUT | (POLLIN if waiting.value else 0))
        if ctypes.get_last_error() == _BROKEN_PIPE:
            return POLLHUP | (events & POLLIN)
        # The end for writing cannot be looked at, and anything but a pipe never waits.
        return events & (POLLOUT | POLLIN)


def is_junction(found: os.stat_result) -> bool:
    """True for a symbolic link as well."""
    return bool(found.st_reparse_tag & _IS_NAME_OF_OTHER)


def is_alive(pid: int) -> bool:
    process = _kernel.OpenProcess(_QUERY_PROCESS, False, pid & 0xFFFF_FFFF)
    if not process:
        return ctypes.get_last_error() == _DENIED
    code = wintypes.DWORD()
    _kernel.GetExitCodeProcess(process, ctypes.byref(code))
    _kernel.CloseHandle(process)
    return code.value == _STILL_ACTIVE


def kill_group(pid: int) -> None:
    system = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
    with suppress(OSError):
        subprocess.run([system, "/F", "/T", "/PID", str(pid)], capture_output=True, check=False)


def end_after(seconds: int) -> None:
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


def host_name() -> str:
    return os.environ.get("COMPUTERNAME", "")


def has_terminal() -> bool:
    try:
        os.close(os.open("CONIN$", os.O_RDWR))
    except OSError:
        return False
    return True
