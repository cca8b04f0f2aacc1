"""Two fillers: where the first fails, the second gives the chunks vectors of its own, in a space of its own."""

from mdrecall.engine.embedding import Filled, Filler
from mdrecall.interfaces import Store
from mdrecall.types import ProgressCallback, Space, Stop, never


class FillerWithFallback:
    """Fills the first space; while that cannot be done, the second. Vectors of the two are never mixed."""

    is_instant = False

    def __init__(self, first: Filler, second: Filler) -> None:
        self._first = first
        self._second = second

    def on(self, store: Store, *, cache: Store) -> "FillerWithFallback":
        """The same for another store."""
        return FillerWithFallback(self._first.on(store, cache=cache), self._second.on(store, cache=cache))

    @property
    def is_resting(self) -> bool:
        """Whether both have failed lately."""
        return self._first.is_resting and self._second.is_resting

    @property
    def last_error(self) -> str:
        """Why the first does not work; empty if it does."""
        return self._first.last_error

    @property
    def space(self) -> Space:
        """The space that is to be filled in the end."""
        return self._first.space

    def is_complete(self) -> bool:
        """Whether every chunk has its vector; for a while after a failure, that of the second."""
        return self._first.is_complete() or (self._first.is_resting and self._second.is_complete())

    def missing(self) -> int:
        """How many chunks have no vector yet of the one that is nearer to the end."""
        return min(self._first.missing(), self._second.missing())

    def fill(self, *, progress: ProgressCallback | None = None, stop: Stop = never) -> Filled:
        """Embed with the first; if it fails, with the second, and say so."""
        filled = self._first.fill(progress=progress, stop=stop)
        if not filled.error or filled.is_waiting or stop():
            return filled
        other = self._second.fill(progress=progress, stop=stop)
        said = f"{filled.error} {self._second.space.provider} stands in for {self._first.space.provider}."
        return other._replace(error=f"{said} {other.error}".strip())
