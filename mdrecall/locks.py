"""A lock between processes: a file that the system locks for its holder, and that says who that is.

The lock dies with its process, however that ends. The file goes when the lock is released; one that a killed process
left behind goes at the next ``sweep``, and never keeps anybody out.
"""

import fcntl
import os
import time
from contextlib import suppress
from typing import Any

from mdrecall.types import Holder

_EVERY_S = 0.01
_LEAST_S = 0.03
# On a machine that stalls, somebody who only asks may have the lock for longer than an instant.
_LONGEST_ASKING_S = 1.0
_MOST_BYTES = 4096


class FileLock:
    """One holder of the lock at a path, or somebody who would like to be. Not for several threads at once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: int | None = None
        self._pid = 0
        self._since_s = 0.0
        self._doing = ""

    @property
    def is_held(self) -> bool:
        """Whether this process holds it; a child that was forked does not, though it has the file open."""
        return self._file is not None and self._pid == os.getpid()

    def acquire(self, wait_s: float, doing: str) -> bool:
        """Take the lock, waiting at most so long; an ``OSError`` says that there can be no lock at this path."""
        until = time.monotonic() + max(wait_s, _LEAST_S)
        while not self._try():
            late = time.monotonic() - until
            if late >= _LONGEST_ASKING_S or (late >= 0 and self._is_told_of()):
                return False
            time.sleep(_EVERY_S)
        self._since_s, self._doing = time.time(), doing
        self.tell({})
        return True

    def tell(self, more: dict[str, Any]) -> None:
        """Write down who holds the lock, and what else others may want to know; on a full disk nothing is said."""
        if self._file is not None and self.is_held:
            said = f'{{"pid": {os.getpid()}, "doing": "{self._doing}", "since": {self._since_s:.3f}'
            if more:
                import json

                said += f', "more": {json.dumps(more)}'
            with suppress(OSError):
                os.pwrite(self._file, f"{said}}}".encode().ljust(_MOST_BYTES), 0)

    def holder(self) -> Holder | None:
        """Who holds the lock now; nobody, if it is free or whoever holds it has not said."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
        except OSError:
            return _read(file)
        finally:
            os.close(file)

    def release(self) -> None:
        """Let go of the lock; may be called twice."""
        if self._file is not None:
            with suppress(OSError):
                if self.is_held and os.path.samestat(os.fstat(self._file), os.stat(self.path)):
                    os.unlink(self.path)
            os.close(self._file)
            self._file = None

    def sweep(self) -> None:
        """Remove the file if nobody holds the lock."""
        if self._file is None and os.path.lexists(self.path):
            with suppress(OSError):
                if self._try():
                    self.release()

    def _is_told_of(self) -> bool:
        """Whether a holder has said who he is; who only asks after him has the lock for an instant, and does not."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            holder = _read(file)
            return holder is not None and _is_alive(holder.pid)
        finally:
            os.close(file)

    def _try(self) -> bool:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held the lock before may have removed the file since it was opened here.
            if os.path.samestat(os.fstat(file), os.stat(self.path)):
                self._file, self._pid = file, os.getpid()
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        return False


def named(holder: Holder | None) -> str:
    """A holder in words."""
    if holder is None:
        return "another process"
    since = time.strftime("%H:%M:%S", time.localtime(holder.since_s))
    return f"process {holder.pid}, which has been {holder.doing} since {since}"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _read(file: int) -> Holder | None:
    import json

    try:
        known = json.loads(os.pread(file, _MOST_BYTES, 0))
        return Holder(int(known["pid"]), str(known["doing"]), float(known["since"]), dict(known.get("more", {})))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
