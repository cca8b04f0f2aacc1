"""An embedder with a fallback: while the first fails, the second fills an embedding space of its own."""

from mdrecall.engine.chunk_embedder import ChunkEmbedder, EmbedReport
from mdrecall.engine.vector_search import VectorSearcher
from mdrecall.interfaces import Store
from mdrecall.types import ProgressCallback, Space, Stop, never


class FallbackEmbedder:
    """Fills the space of the first embedder; while that fails, of the second. Their vectors are never mixed."""

    is_instant = False

    def __init__(self, first: ChunkEmbedder, second: ChunkEmbedder, searcher: VectorSearcher) -> None:
        """``searcher`` tells when the first embedder does not answer queries."""
        self._first = first
        self._second = second
        self._searcher = searcher

    def for_store(self, store: Store, *, cache: Store) -> "FallbackEmbedder":
        """Return the same for another store."""
        first, second = (embedder.for_store(store, cache=cache) for embedder in (self._first, self._second))
        return FallbackEmbedder(first, second, self._searcher)

    @property
    def is_resting(self) -> bool:
        """True if every embedder that is not finished has just failed."""
        return self._second.is_resting and (self._first.is_resting or self._first.is_complete())

    @property
    def last_error(self) -> str:
        """Why the first embedder does not work; empty if it does."""
        return self._first.last_error or self._searcher.failure()

    def last_failure(self) -> str:
        """Return why the first embedder failed the last time, in whichever process."""
        return self.last_error or self._first.last_failure()

    @property
    def space(self) -> Space:
        """The space of the first embedder."""
        return self._first.space

    def is_complete(self) -> bool:
        """True if every chunk has a vector of the first embedder; while that fails, of the second."""
        if self._first.is_complete():
            return not self._searcher.failure() or self._second.is_complete()
        return self._first.is_resting and self._second.is_complete()

    def count_missing(self) -> int:
        """Return the number of chunks without a vector in the space that is closer to complete."""
        return min(self._first.count_missing(), self._second.count_missing())

    def fill(self, *, progress: ProgressCallback | None = None, stop: Stop = never) -> EmbedReport:
        """Embed with the first; if it fails, or does not answer queries, with the second, and report why."""
        problem = self._searcher.failure() if self._first.is_complete() else ""
        filled = self._first.fill(progress=progress, stop=stop)
        problem = filled.error or problem
        if filled.embedded and not problem:
            self._searcher.reset_failures()
        if not problem or filled.is_waiting or stop():
            return filled
        other = self._second.fill(progress=progress, stop=stop)
        problem, name = problem.rstrip("."), self._second.space.provider
        if other.error:
            return other._replace(error=f"{problem}. The fallback {name} fails too: {other.error}")
        return other._replace(error=f"{problem}. {name} is used instead of {self._first.space.provider}.")
