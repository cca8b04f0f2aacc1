"""A lock that both OpenClaw and mdrecall respect: a file that must not exist before, and that names its process.

OpenClaw goes by the file alone. Among mdrecall's own processes the operating system's lock on it decides, so that one
that a killed process left behind keeps nobody waiting.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mdrecall.errors import SessionsError

_EVERY_S = 0.01
# OpenClaw holds a lock for moments; an older one was left behind, whatever process has its number by now.
_STALE_S = 30.0
# Whoever makes the file writes its number into it at once, unless it is killed first.
_BLANK_STALE_S = 2.0


@contextmanager
def lock_file(path: str, wait_s: float) -> Iterator[None]:
    """Hold the lock at a path, waiting at most so long for it."""
    until = time.monotonic() + wait_s
    while (file := _try(path)) is None:
        if time.monotonic() >= until:
            message = f"Another process has kept {path} for {wait_s:g} seconds."
            raise SessionsError(message, hint="Try again; nothing was changed.")
        time.sleep(_EVERY_S)
    try:
        yield
    finally:
        with suppress(OSError):
            if os.path.samestat(os.fstat(file), os.stat(path)):
                os.unlink(path)
        os.close(file)


def _try(path: str) -> int | None:
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        _remove_stale(path)
        return None
    try:
        # Nobody but who looks whether it is stale can have it, and only for an instant.
        fcntl.flock(file, fcntl.LOCK_EX)
        said = {"pid": os.getpid(), "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())}
        os.write(file, json.dumps(said).encode())
        if os.path.samestat(os.fstat(file), os.stat(path)):
            return file
    except FileNotFoundError:
        pass
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        os.close(file)
        raise
    os.close(file)
    return None


def _remove_stale(path: str) -> None:
    """Remove a lock file that nobody holds any more."""
    with suppress(OSError):
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_stale(file) and os.path.samestat(os.fstat(file), os.stat(path)):
                os.unlink(path)
        finally:
            os.close(file)


def _is_stale(file: int) -> bool:
    age_s = time.time() - os.fstat(file).st_mtime
    try:
        os.kill(int(json.loads(os.pread(file, 4096, 0))["pid"]), 0)
    except ProcessLookupError:
        return True
    except (ValueError, KeyError, TypeError, OverflowError):
        return age_s > _BLANK_STALE_S
    except OSError:
        pass
    return age_s > _STALE_S
