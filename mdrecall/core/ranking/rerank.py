"""The stage that lets a reranker have the last word on the order of the best candidates."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

_T = TypeVar("_T")


class Reranks(Protocol):
    """Judges the texts of one search. It may take time and may fail; the stage below is pure but for this call."""

    @property
    def name(self) -> str:
        """The provider and its model, for results."""
        ...

    @property
    def top_n(self) -> int:
        """How many of the best candidates it reads, if that many are not wanted anyway."""
        ...

    def score(self, texts: Sequence[str]) -> Sequence[float | None]:
        """Return how probable it is that each text answers; None where that is not known, empty if it failed."""
        ...


class Reranked(NamedTuple):
    """The reranker's score of a candidate."""

    score: float
    by: str
    """The provider and its model."""


def reorder(entries: Sequence[_T], scores: Sequence[float | None]) -> list[tuple[_T, float | None]]:
    """Return entries with their scores, best first; those without a score come after the others in their old order."""
    pairs = list(zip(entries, scores, strict=True))
    known = [(entry, score) for entry, score in pairs if score is not None]
    return [*sorted(known, key=lambda pair: -pair[1]), *(pair for pair in pairs if pair[1] is None)]
