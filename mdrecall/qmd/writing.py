"""Small files that are there whole or not at all."""

import contextlib
import json
import os
import tempfile
from typing import Any


def write_json(path: str, what: dict[str, Any]) -> None:
    """Put a file in its place at once, so that nobody reads half of it."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=folder, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(what, file, indent=2)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
