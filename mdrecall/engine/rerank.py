"""Asks the reranker of a search within a time limit; a search never fails because of it."""

from collections.abc import Sequence
from typing import NamedTuple

from mdrecall.engine.deadline import DeadlineCalls, Unavailable
from mdrecall.errors import EmbedderError, message_with_hint
from mdrecall.interfaces import Reranker

# A passage with its headings is far shorter; this bounds what one long line of a note makes a provider read.
_MAX_TEXT_CHARS = 4_000


class RerankScores(NamedTuple):
    """The reranker's answer to one search."""

    scores: Sequence[float | None] = ()
    """The probability of each text; None where it has none. Empty if there is no answer."""
    problem: str = ""
    """Why there is no answer."""


class RerankCaller:
    """Calls one reranker. Safe to use from several threads."""

    def __init__(self, reranker: Reranker, *, top_n: int, timeout_s: float) -> None:
        """``top_n`` is how many of the best candidates the reranker reads."""
        self.name = reranker.name
        self.top_n = top_n
        self._reranker = reranker
        self._calls = DeadlineCalls(timeout_s, "mdrecall.rerank.timeoutMs")

    def score(self, query: str, texts: Sequence[str]) -> RerankScores:
        """Return how probable it is that each text answers the query, or why that is not known."""
        bounded = [text[:_MAX_TEXT_CHARS] for text in texts]
        try:
            return RerankScores(self._calls.run(self._reranker.place, lambda: self._reranker.rerank(query, bounded)))
        except EmbedderError as error:
            return RerankScores(problem=message_with_hint(error))
        except Unavailable as problem:
            return RerankScores(problem=str(problem))

    def interrupt(self) -> None:
        """Cancel every request in progress."""
        self._reranker.interrupt()

    def close(self) -> None:
        self._reranker.close()
