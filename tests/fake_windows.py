"""Runs a Python program on this system as if it were Windows, as far as that can be imitated.

``python -m tests.fake_windows -m MODULE ARGUMENT…`` or ``-c CODE``. What Windows does not have is gone: modules,
functions and flags of ``os``, ``signal`` and ``select``, file descriptors of folders. What it has instead are small
fakes of ``msvcrt`` and of the functions of the system that ``mdrecall.windows`` calls. Paths stay those of this system.
"""

import ctypes
import errno
import fcntl
import importlib.abc
import os
import runpy
import select
import signal
import struct
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

#: They choose their functions by the system when they are loaded; here they must have those that work.
_LOADED_BEFORE = (
    "apsw", "asyncio", "concurrent.futures", "ctypes.util", "ctypes.wintypes", "getpass", "hashlib", "http.client",
    "json", "logging", "numpy", "pathlib", "pyjson5", "random", "shutil", "socket", "sqlite_vec", "ssl", "tempfile",
    "tomllib", "tomlkit", "urllib.request", "uuid", "zoneinfo",
)  # fmt: skip
_NO_MODULES = ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty")
_NO_NAMES = {
    os: "O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_CLOEXEC O_NOCTTY O_SYNC mkfifo mknod getuid geteuid getgid getegid setsid"
    " killpg getpgid nice uname fchmod fchown fchdir chown lchown pread pwrite preadv set_blocking statvfs sysconf",
    signal: "SIGKILL SIGHUP SIGALRM alarm pause setitimer",
    select: "poll epoll PIPE_BUF POLLIN POLLOUT POLLERR POLLHUP",
}
_IS_LINK, _LINK_TAG = 0x400, 0xA000_000C
_last_error = 0


class _Status:
    """The status of a file with what Windows says about it."""

    def __init__(self, found: os.stat_result, *, is_listed: bool = False) -> None:
        is_link = found.st_mode & 0o170000 == 0o120000
        self._found = found
        self.st_file_attributes, self.st_reparse_tag = _IS_LINK * is_link, _LINK_TAG * is_link
        self.st_ctime_ns = found.st_mtime_ns
        self.st_ino, self.st_dev = (0, 0) if is_listed else (found.st_ino, found.st_dev)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


class _Entry:
    def __init__(self, entry: os.DirEntry[str]) -> None:
        self.name, self.path, self._entry = entry.name, entry.path, entry
        self.is_dir, self.is_file, self.is_symlink = entry.is_dir, entry.is_file, entry.is_symlink

    def stat(self, *, follow_symlinks: bool = True) -> _Status:
        return _Status(self._entry.stat(follow_symlinks=follow_symlinks), is_listed=not follow_symlinks)


class _Entries:
    def __init__(self, folder: Any) -> None:
        self._entries = _real["scandir"](folder)
        self.close = self._entries.close

    def __iter__(self) -> Iterator[_Entry]:
        return map(_Entry, self._entries)

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_real = {name: getattr(os, name) for name in ("scandir", "open", "stat", "lstat", "fstat", "listdir", "kill")}


def _change_os() -> None:
    def refuse(name: str) -> Any:
        call = getattr(os, name)

        def run(*arguments: Any, **options: Any) -> Any:
            if any(options.get(name) is not None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
                raise NotImplementedError("Windows has no descriptors of folders")
            if name in ("rename", "link") and os.path.lexists(arguments[1]):
                raise FileExistsError(errno.EEXIST, "Windows replaces nothing", arguments[1])
            if name in ("scandir", "listdir") and arguments and isinstance(arguments[0], int):
                raise TypeError("Windows lists no descriptors")
            if name == "utime" and not options.get("follow_symlinks", True):
                raise NotImplementedError("Windows follows links here")
            return call(*arguments, **options)

        return run

    for name in ("stat", "lstat", "fstat"):
        setattr(os, name, lambda *given, _call=_real[name], **options: _Status(_call(*given, **options)))
    os.scandir = lambda folder=".": _Entries(folder)  # type: ignore[assignment]
    for name in ("scandir", "listdir", "mkdir", "rmdir", "unlink", "rename", "link", "utime", "stat"):
        setattr(os, name, refuse(name))
    os.kill = lambda pid, number: (_ for _ in ()).throw(AssertionError("on Windows that ends the process"))


def _fail(code: int) -> int:
    global _last_error
    _last_error = code
    return 0


_CODES = {errno.ENOENT: 2, errno.ENOTDIR: 3, errno.EACCES: 5, errno.EEXIST: 80, errno.EISDIR: 5}
_ERRORS = {2: errno.ENOENT, 3: errno.ENOENT, 5: errno.EACCES, 32: errno.EACCES, 80: errno.EEXIST}


def _make_error(code: int) -> OSError:
    number = _ERRORS.get(code, errno.EINVAL)
    error = OSError(number, os.strerror(number))
    error.winerror = code  # type: ignore[attr-defined]
    return error


class _Kernel:
    """The functions of the system. A handle is a descriptor."""

    def CreateFileW(self, path: str, access: int, _: int, __: None, how: int, kind: int, ___: None) -> int:
        flags = {0xC000_0000: os.O_RDWR, 0x4000_0000: os.O_WRONLY}.get(access, os.O_RDONLY)
        flags |= {1: os.O_CREAT | os.O_EXCL, 2: os.O_CREAT | os.O_TRUNC, 4: os.O_CREAT, 5: os.O_TRUNC}.get(how, 0)
        try:
            if kind & 0x0020_0000 and os.path.islink(path):
                # The link itself is opened.
                return int(_real["open"](path, 0o10000000 | 0o400000))
            if os.path.isdir(path):
                flags = os.O_RDONLY
            return int(_real["open"](path, flags | 0o4000, 0o600))
        except OSError as error:
            _fail(_CODES.get(error.errno or 0, 87))
            return ctypes.c_void_p(-1).value or 0

    def GetFinalPathNameByHandleW(self, handle: int, buffer: Any, *_: int) -> int:
        buffer.value = os.readlink(f"/proc/self/fd/{handle}")
        return len(buffer.value)

    def LockFile(self, handle: int, low: int, high: int, length: int, _: int) -> bool:
        # A lock of an open file, as those of Windows are, and not of a process, as others of POSIX are.
        wanted = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, low | high << 32, length, 0)
        try:
            fcntl.fcntl(handle, 37, wanted)
        except (BlockingIOError, PermissionError):
            return bool(_fail(33))
        return True

    def ReplaceFileW(self, *_: Any) -> bool:
        raise AssertionError("only needed where the system refuses a move")

    def OpenProcess(self, _: int, __: bool, pid: int) -> int:
        return pid if os.path.isdir(f"/proc/{pid}") else _fail(87)

    def GetExitCodeProcess(self, _: int, code: Any) -> bool:
        code._obj.value = 259
        return True

    def CloseHandle(self, _: int) -> bool:
        return True

    def PeekNamedPipe(self, handle: int, _: None, __: int, ___: None, waiting: Any, ____: None) -> bool:
        if _real["fstat"](handle).st_mode & 0o170000 != 0o010000:
            return bool(_fail(1))
        ready = dict(_poll_once(handle)).get(handle, 0)
        size = bytearray(4)
        fcntl.ioctl(handle, 0x541B, size)
        waiting._obj.value = int.from_bytes(size, sys.byteorder)
        return bool(waiting._obj.value or not ready & _HUNG_UP) or bool(_fail(109))


_make_poll, _HUNG_UP, _READABLE = select.poll, select.POLLHUP, select.POLLIN


def _poll_once(handle: int) -> list[tuple[int, int]]:
    poll = _make_poll()
    poll.register(handle, _READABLE)
    return poll.poll(0)


def _open_handle(handle: int, flags: int) -> int:
    if flags & os.O_APPEND:
        fcntl.fcntl(handle, fcntl.F_SETFL, os.O_APPEND)
    return handle


class _Function:
    """A function of a library, which may be given types."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)


class _Library:
    def __init__(self, *_: str, **__: bool) -> None:
        kernel = _Kernel()
        for name in filter(str.isalnum, dir(kernel)):
            setattr(self, name, _Function(getattr(kernel, name)))
        self.RtlGetLastNtStatus = lambda: 0


class _Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, *_: Any) -> None:
        if name in _NO_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def become_windows() -> None:
    """Take away what Windows has not got, and add what it has."""
    for name in _LOADED_BEFORE:
        __import__(name)
    _change_os()
    for module, names in _NO_NAMES.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in _NO_MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing())
    msvcrt = types.ModuleType("msvcrt")
    vars(msvcrt).update(open_osfhandle=_open_handle, get_osfhandle=lambda file: file)
    sys.modules["msvcrt"] = msvcrt
    vars(ctypes).update(WinDLL=_Library, WinError=_make_error, get_last_error=lambda: _last_error)
    vars(subprocess).update(CREATE_NO_WINDOW=0, CREATE_NEW_PROCESS_GROUP=0)
    sys.platform = "win32"


if __name__ == "__main__":
    kind, what, *sys.argv[1:] = sys.argv[1:]
    become_windows()
    if kind == "-c":
        exec(what, {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)
