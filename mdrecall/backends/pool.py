"""One backend for all who open the same memory in a process: the same agent, with the same settings.

For doors that stay open and serve many. Whoever takes a backend closes it; the last one to do so ends it.
"""

import json
import threading
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

from mdrecall.backends.open import open_backend
from mdrecall.config.load import Loaded
from mdrecall.interfaces import Backend
from mdrecall.wire import to_json


class _Held(NamedTuple):
    backend: Backend
    holders: int


class BackendPool:
    """The backends that are open, each with how many have it."""

    def __init__(self, make: Callable[[Loaded], Backend] = open_backend) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}

    def acquire(self, loaded: Loaded) -> tuple[Backend, Callable[[], None]]:
        """The backend for these settings, and what lets go of it again; letting go twice is letting go once."""
        key = key_of(loaded)
        with self._lock:
            held = self._held.get(key) or _Held(self._make(loaded), 0)
            self._held[key] = held._replace(holders=held.holders + 1)
        gone = threading.Event()

        def let_go() -> None:
            if not gone.is_set():
                gone.set()
                self._release(key)

        return held.backend, let_go

    def _release(self, key: str) -> None:
        with self._lock:
            held = self._held[key]
            if held.holders > 1:
                self._held[key] = held._replace(holders=held.holders - 1)
                return
            del self._held[key]
        held.backend.close()


def key_of(loaded: Loaded) -> str:
    """The same for the same agent, settings and environment, in whatever order these were written; without secrets."""
    everything: Any = [to_json(loaded.settings), dict(loaded.environment)]
    text = json.dumps(everything, sort_keys=True, default=lambda value: value.reveal())
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
