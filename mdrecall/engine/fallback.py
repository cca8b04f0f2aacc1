"""Two fillers: where the first fails, the second gives the chunks vectors of its own, in a space of its own."""

from mdrecall.engine.chunk_embedder import ChunkEmbedder, EmbedReport
from mdrecall.engine.vector_search import VectorSearcher
from mdrecall.interfaces import Store
from mdrecall.types import ProgressCallback, Space, Stop, never


class FallbackEmbedder:
    """Fills the first space; while that cannot be done, the second. Vectors of the two are never mixed."""

    is_instant = False

    def __init__(self, first: ChunkEmbedder, second: ChunkEmbedder, leg: VectorSearcher) -> None:
        """``leg`` knows whether the first answers queries."""
        self._first = first
        self._second = second
        self._leg = leg

    def on(self, store: Store, *, cache: Store) -> "FallbackEmbedder":
        """The same for another store."""
        first, second = (filler.on(store, cache=cache) for filler in (self._first, self._second))
        return FallbackEmbedder(first, second, self._leg)

    @property
    def is_resting(self) -> bool:
        """Whether all that is left to do has failed lately."""
        return self._second.is_resting and (self._first.is_resting or self._first.is_complete())

    @property
    def last_error(self) -> str:
        """Why the first does not work; empty if it does."""
        return self._first.last_error or self._leg.failure()

    @property
    def space(self) -> Space:
        """The space that is to be filled in the end."""
        return self._first.space

    def is_complete(self) -> bool:
        """Whether every chunk has its vector; while the first fails, that of the second."""
        if self._first.is_complete():
            return not self._leg.failure() or self._second.is_complete()
        return self._first.is_resting and self._second.is_complete()

    def missing(self) -> int:
        """How many chunks have no vector yet of the one that is nearer to the end."""
        return min(self._first.missing(), self._second.missing())

    def fill(self, *, progress: ProgressCallback | None = None, stop: Stop = never) -> EmbedReport:
        """Embed with the first; if it fails, or leaves queries without an answer, with the second, and say so."""
        problem = self._leg.failure() if self._first.is_complete() else ""
        filled = self._first.fill(progress=progress, stop=stop)
        problem = filled.error or problem
        if filled.embedded and not problem:
            self._leg.reset_failures()
        if not problem or filled.is_waiting or stop():
            return filled
        other = self._second.fill(progress=progress, stop=stop)
        problem, name = problem.rstrip("."), self._second.space.provider
        if other.error:
            return other._replace(error=f"{problem}. The fallback {name} fails too: {other.error}")
        return other._replace(error=f"{problem}. {name} stands in for {self._first.space.provider}.")
