"""Small files that keep state, written so that a reader never sees half of one."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from mdrecall import platform


def make_private_folder(path: str) -> None:
    """Create a folder, and each missing one above it, for this user alone. ``makedirs`` leaves those to the umask."""
    path = os.path.abspath(path)
    if not os.path.isdir(path):
        if not os.path.exists(os.path.dirname(path)):
            make_private_folder(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            # Another process was faster, or something else has this name.
            if not os.path.isdir(path):
                raise


@contextmanager
def draft(path: str, *, is_durable: bool = False) -> Iterator[tuple[IO[bytes], Callable[[], None]]]:
    """Open a file beside ``path`` that only its owner can read, and yield it with what moves it there.

    Unless it was moved, it is removed at the end; a durable one outlasts a power cut. Its dot hides it from scans.
    """
    folder, name = os.path.split(path)
    make_private_folder(folder)
    # Importing tempfile takes 10 ms, which every hook would pay. Nobody has a file with this name by chance.
    temporary_path = os.path.join(folder, f".{name[:60]}.{os.urandom(8).hex()}.tmp")
    number = platform.open(temporary_path, os.O_RDWR | os.O_CREAT | os.O_EXCL | platform.NO_FOLLOW, 0o600)
    try:
        with open(temporary_path, "wb", opener=lambda *_: number) as file:

            def publish() -> None:
                file.flush()
                if is_durable:
                    os.fsync(file.fileno())
                os.replace(temporary_path, path)

            yield file, publish
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary_path)


def append_line(path: str, line: str, max_bytes: int) -> None:
    """Add a line to a log, of which the newer half stays when it is full; raise ``OSError`` if that fails.

    Several processes may do so at once. A new line begins after what a killed process has left of one.
    """
    make_private_folder(os.path.dirname(path))
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | platform.NO_FOLLOW
    with os.fdopen(platform.open(path, flags, 0o600), "r+b", 0) as file:
        size = file.seek(0, os.SEEK_END)
        is_broken = size and platform.pread(file.fileno(), 1, size - 1) != b"\n"
        file.write(b"\n" * bool(is_broken) + line.encode() + b"\n")
        if file.tell() <= max_bytes:
            return
        file.seek(-max_bytes // 2, os.SEEK_END)
        _, _, newer = file.read().partition(b"\n")
    with draft(path) as (target, publish):
        target.write(newer)
        publish()


def load(path: str) -> dict[str, Any]:
    """Return the content of a state file; empty if there is none, or it cannot be read."""
    with suppress(OSError, ValueError, RecursionError), open(path, "rb") as file:
        content = json.loads(file.read())
        return content if isinstance(content, dict) else {}
    return {}


def save(path: str, content: dict[str, Any], *, is_durable: bool = False) -> None:
    """Write a state file; raise ``OSError`` if that fails."""
    with draft(path, is_durable=is_durable) as (file, publish):
        file.write(json.dumps(content, separators=(",", ":")).encode())
        publish()
