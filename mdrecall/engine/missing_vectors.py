"""Embeds the chunks that have no vector yet: at once where that costs nothing, else in the background."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from mdrecall.engine.chunk_embedder import EmbedsChunks
from mdrecall.errors import CorruptIndex, StoreBusy
from mdrecall.interfaces import Store
from mdrecall.types import Issue, ProgressCallback, Stop, never


class MissingVectors:
    """Decides when missing vectors are made, and by which thread."""

    def __init__(
        self,
        store: Store,
        embedder: EmbedsChunks | None,
        embed: Callable[[ProgressCallback | None, Stop], tuple[Issue, ...]],
        *,
        one_shot: bool,
    ) -> None:
        """``embed`` makes the vectors that are missing and returns the problems it met.

        A process that answers once (``one_shot``) leaves nothing to a thread, which would end with it.
        """
        self._store = store
        self._embedder = embedder
        self._embed = embed
        self._one_shot = one_shot
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # Held while the thread is started: one that is not running yet cannot be waited for.
        self._starting = threading.Lock()
        self._issues: tuple[Issue, ...] = ()

    def is_complete(self) -> bool:
        """True if no vector is missing, or none can be made."""
        return self._embedder is None or self._embedder.is_complete()

    def embed(self, progress: ProgressCallback | None = None, stop: Stop = never) -> tuple[Issue, ...]:
        """Make all vectors that are missing, and return the problems."""
        with self._lock:
            self._issues = self._embed(progress, lambda: stop() or self._closing.is_set())
            return self._issues

    def embed_if_instant(self) -> None:
        """Make the vectors that are missing if that costs neither time nor money."""
        if self._embedder and self._embedder.is_instant:
            self.embed()

    def embed_for_search(self, progress: ProgressCallback | None, until: float) -> tuple[Issue, ...]:
        """Make vectors until the monotonic clock reaches ``until``, leave the rest to a thread, and return problems."""
        if self._embedder is None or self._embedder.is_complete():
            return ()
        if self._embedder.is_instant:
            with suppress(StoreBusy), self._store.admin.write_lock("indexing", max(0.0, until - time.monotonic())):
                issues = self._embed(progress, lambda: time.monotonic() >= until)
                if issues or self._embedder.is_complete():
                    return issues
        if not self._one_shot:
            self._start_thread()
        missing = self._embedder.count_missing()
        if not missing:
            return self._issues
        provider = self._embedder.space.provider
        problem = f"has {missing} chunk{'' if missing == 1 else 's'} without a vector of {provider} yet"
        hint = "; index again to add them" if self._one_shot else ""
        return (*self._issues, Issue(self._store.admin.place, problem + hint))

    def embed_in_background(self) -> None:
        """Make the vectors that are missing in a thread, if that takes time."""
        if self._embedder and not self._embedder.is_instant and not self._embedder.is_complete():
            self._start_thread()

    def cancel(self) -> None:
        """End the work in progress where it can be resumed, without waiting for it."""
        self._closing.set()

    def close(self, timeout_s: float) -> None:
        """End the work in progress; may be called twice."""
        self.cancel()
        with self._starting:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _start_thread(self) -> None:
        is_resting = self._embedder is not None and self._embedder.is_resting
        with self._starting:
            if not is_resting and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._work, name="mdrecall-embed-missing", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        try:
            self.embed()
        except CorruptIndex as damage:
            self._issues = (Issue(self._store.admin.place, str(damage)),)
