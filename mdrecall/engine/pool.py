"""One backend for all memories of a process that have the same agent and the same settings.

For servers that stay open for many clients. Each client releases its backend, and the last release closes it.
"""

import json
import threading
from collections.abc import Callable
from hashlib import sha256

from mdrecall.config.load import Loaded
from mdrecall.engine.open import open_backend
from mdrecall.interfaces import IndexedBackend


class BackendPool:
    """The open backends, each with the number of its users."""

    def __init__(self, make: Callable[[Loaded], IndexedBackend] = open_backend) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._open: dict[str, tuple[IndexedBackend, int]] = {}

    def acquire(self, loaded: Loaded) -> tuple[IndexedBackend, Callable[[], None]]:
        """Return the backend for these settings, and a function that releases it; a second release does nothing."""
        key = key_of(loaded)
        with self._lock:
            backend, users = self._open.get(key) or (self._make(loaded), 0)
            self._open[key] = backend, users + 1
        released = threading.Event()

        def release() -> None:
            if not released.is_set():
                released.set()
                self._release(key)

        return backend, release

    def _release(self, key: str) -> None:
        with self._lock:
            backend, users = self._open.pop(key)
            if users > 1:
                self._open[key] = backend, users - 1
                return
        backend.close()


def key_of(loaded: Loaded) -> str:
    """Return a key without secrets: the same for the same agent, settings and environment, in whatever order."""
    parts = [loaded.settings, dict(loaded.environment)]
    text = json.dumps(parts, sort_keys=True, default=lambda it: it._asdict() if hasattr(it, "_asdict") else it.reveal())
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
