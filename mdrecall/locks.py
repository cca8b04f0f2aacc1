"""Locks between processes. The operating system releases them when a process ends, however it ends.

``FileLock`` is mdrecall's own lock: a file that also says which process holds it. ``openclaw_lock`` is a lock file that
OpenClaw respects too.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from mdrecall import platform
from mdrecall.errors import SessionsError
from mdrecall.types.sync import Holder, Stop, never

# How often a waiting process tries again.
_RETRY_S = 0.01
# ``acquire`` waits at least this long: a process that only asks for the holder has the lock for an instant.
_MIN_WAIT_S = 0.03
# On a machine that stalls, such a process may have the lock for longer than an instant.
_MAX_INSPECTION_S = 1.0
# The record of a lock has a fixed size, so that a reader never sees half of it.
_RECORD_BYTES = 4096
# OpenClaw holds a lock for moments; an older lock file was left behind, even if its process number is in use again.
_STALE_S = 30.0
# A process writes its number into a new lock file at once, unless it is killed first.
_BLANK_STALE_S = 2.0


class FileLock:
    """A lock at a path. The file goes when the lock is released, or at the next ``sweep`` after its process was killed.

    Only one thread may use an object at a time, except for ``holder``.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: int | None = None
        self._pid = 0
        self._since_s = 0.0
        self._doing = ""

    @property
    def is_held(self) -> bool:
        """True if this process holds the lock; a forked child does not, though it has the file open."""
        return self._file is not None and self._pid == os.getpid()

    def acquire(self, wait_s: float, doing: str, stop: Stop = never) -> bool:
        """Take the lock, waiting at most ``wait_s`` or until it should ``stop``; ``OSError`` if none can be there."""
        until = time.monotonic() + max(wait_s, _MIN_WAIT_S)
        while not self._try_lock():
            late_s = time.monotonic() - until
            if stop() or late_s >= _MAX_INSPECTION_S or (late_s >= 0 and self._has_live_holder()):
                return False
            time.sleep(_RETRY_S)
        self._since_s, self._doing = time.time(), doing
        self.record({})
        return True

    def record(self, more: Mapping[str, object]) -> None:
        """Write down which process holds the lock, and more for others to read; a full disk is ignored."""
        if self._file is not None and self.is_held:
            known = {
                "pid": os.getpid(),
                "doing": self._doing,
                "since": round(self._since_s, 3),
                "host": platform.host_name(),
            }
            record = json.dumps({**known, "more": more} if more else known)
            with suppress(OSError):
                platform.pwrite(self._file, record.encode().ljust(_RECORD_BYTES), 0)

    def holder(self) -> Holder | None:
        """Return the process that holds the lock; None if it is free, or its holder wrote nothing down."""
        with suppress(OSError), os.fdopen(platform.open(self.path, os.O_RDWR), "rb") as file:
            try:
                return None if platform.try_lock(file.fileno()) else _read_holder(file.fileno())
            except OSError:
                return _read_holder(file.fileno())
        return None

    def release(self) -> None:
        """Release the lock; may be called twice."""
        if self._file is not None:
            with suppress(OSError):
                if self.is_held and os.path.samestat(os.fstat(self._file), os.stat(self.path)):
                    platform.unlink(self.path)
            os.close(self._file)
            self._file = None

    def sweep(self) -> None:
        """Remove the file if nobody holds the lock."""
        if self._file is None and os.path.lexists(self.path):
            with suppress(OSError):
                if self._try_lock():
                    self.release()

    def _has_live_holder(self) -> bool:
        """True if a process that lives has written down that it holds the lock; one that only inspects it has not."""
        flags = os.O_RDONLY | platform.NO_FOLLOW
        with suppress(OSError), os.fdopen(platform.open(self.path, flags), "rb") as file:
            holder = _read_holder(file.fileno())
            return holder is not None and platform.is_alive(holder.pid)
        return False

    def _try_lock(self) -> bool:
        file = platform.open(self.path, os.O_RDWR | os.O_CREAT | platform.NO_FOLLOW, 0o600)
        try:
            # The process that held the lock before may have removed the file since it was opened here.
            if platform.try_lock(file) and os.path.samestat(os.fstat(file), os.stat(self.path)):
                self._file, self._pid = file, os.getpid()
                return True
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        return False


def describe_holder(holder: Holder | None) -> str:
    """Return the holder of a lock in words."""
    if holder is None:
        return "another process"
    since = time.strftime("%H:%M:%S", time.localtime(holder.since_s))
    where = f" on {holder.host}" if holder.host not in ("", platform.host_name()) else ""
    return f"process {holder.pid}{where}, which has been {holder.doing} since {since}"


@contextmanager
def openclaw_lock(path: str, wait_s: float) -> Iterator[None]:
    """Hold a lock that OpenClaw respects too: a file that must not exist before, and that names its process.

    OpenClaw goes by the file alone. Among mdrecall's processes the system's lock on it decides, so that a file that
    a killed process left behind keeps nobody waiting.
    """
    until = time.monotonic() + wait_s
    while (file := _create_locked(path)) is None:
        if time.monotonic() >= until:
            message = f"Another process has kept {path} for {wait_s:g} seconds."
            raise SessionsError(message, hint="Try again; nothing was changed.")
        time.sleep(_RETRY_S)
    try:
        yield
    finally:
        with suppress(OSError):
            if os.path.samestat(os.fstat(file), os.stat(path)):
                platform.unlink(path)
        os.close(file)


def _create_locked(path: str) -> int | None:
    try:
        file = platform.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | platform.NO_FOLLOW, 0o600)
    except FileExistsError:
        _remove_stale(path)
        return None
    try:
        # Only a process that checks for a stale file can have locked it, for an instant.
        while not platform.try_lock(file):
            time.sleep(_RETRY_S)
        record = {"pid": os.getpid(), "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())}
        os.write(file, json.dumps(record).encode())
        if os.path.samestat(os.fstat(file), os.stat(path)):
            return file
    except FileNotFoundError:
        pass
    except BaseException:
        with suppress(OSError):
            platform.unlink(path)
        os.close(file)
        raise
    os.close(file)
    return None


def _remove_stale(path: str) -> None:
    """Remove a lock file that nobody holds any more."""
    flags = os.O_RDWR | platform.NO_FOLLOW
    with suppress(OSError), os.fdopen(platform.open(path, flags), "rb") as opened:
        file = opened.fileno()
        if platform.try_lock(file) and _is_stale(file) and os.path.samestat(os.fstat(file), os.stat(path)):
            platform.unlink(path)


def _is_stale(file: int) -> bool:
    age_s = time.time() - os.fstat(file).st_mtime
    try:
        pid = int(json.loads(platform.pread(file, _RECORD_BYTES, 0))["pid"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return age_s > _BLANK_STALE_S
    return age_s > _STALE_S or not platform.is_alive(pid)


def _read_holder(file: int) -> Holder | None:
    try:
        known = json.loads(platform.pread(file, _RECORD_BYTES, 0))
        more, host = dict(known.get("more", {})), str(known.get("host", ""))
        return Holder(int(known["pid"]), str(known["doing"]), float(known["since"]), more, host)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
