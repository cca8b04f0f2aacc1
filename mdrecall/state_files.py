"""Small files that say what was done, written so that nobody ever sees half of one."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple


class Draft(NamedTuple):
    """A file in the making."""

    file: IO[bytes]
    place: str
    path: str

    def publish(self) -> None:
        """Let it take its place."""
        self.file.flush()
        os.replace(self.place, self.path)


@contextmanager
def draft(path: str) -> Iterator[Draft]:
    """A file for its owner only, beside the path that it is for; it goes when this ends, unless it was published.

    Its name begins with a dot, so that nobody who lists the folder meanwhile takes it for a note.
    """
    import tempfile

    folder, name = os.path.split(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    number, place = tempfile.mkstemp(prefix=f".{name[:60]}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(number, "wb") as file:
            yield Draft(file, place, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(place)


def load(path: str) -> dict[str, Any]:
    """What a state file says; nothing if there is none, or none that can be read."""
    try:
        with open(path, "rb") as file:
            kept = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def save(path: str, kept: dict[str, Any]) -> None:
    """Write a state file; an ``OSError`` says that it could not be."""
    with draft(path) as made:
        made.file.write(json.dumps(kept, separators=(",", ":")).encode())
        made.publish()
