"""Whether qmd's index is still the file that it was: a server that stays goes on with a file that was taken away."""

import os


def identity(path: str) -> tuple[int, int] | None:
    """What no other file has as long as somebody keeps this one open; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
