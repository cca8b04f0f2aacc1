"""Asks the reranker of a search within a time limit; a search never fails because of it."""

from collections.abc import Callable, Sequence

from mdrecall.engine.background import DeadlineCalls, Unavailable
from mdrecall.interfaces import Reranker
from mdrecall.search.stages import Rerank

# A passage with its headings is far shorter; this bounds what one long line of a note makes a provider read.
_MAX_TEXT_CHARS = 4_000


class RerankCaller:
    """Calls one reranker. Safe to use from several threads."""

    def __init__(
        self, reranker: Reranker, *, top_n: int, timeout_s: float, redact: Callable[[str], str] | None = None
    ) -> None:
        """``top_n`` is how many of the best candidates the reranker reads; ``redact`` masks secrets in what is sent."""
        self.name = reranker.name
        self.top_n = top_n
        self.interrupt = reranker.interrupt
        self.close = reranker.close
        self._reranker = reranker
        self._redact = redact or str
        self._calls = DeadlineCalls(timeout_s, "mdrecall.rerank.timeoutMs", rests=True)

    def prepare(self, query: str, problems: list[str]) -> Rerank:
        """Return the reranking of one search; ``problems`` gets why the results are not reranked."""

        def score(texts: Sequence[str]) -> Sequence[float | None]:
            try:
                return self.score(query, texts)
            except Unavailable as problem:
                problems.append(str(problem))
                return ()

        return Rerank(self.name, self.top_n, score)

    def score(self, query: str, texts: Sequence[str]) -> list[float | None]:
        """Return how probable it is that each text answers; raise ``Unavailable`` with the reason if that fails."""
        sent = [self._redact(text[:_MAX_TEXT_CHARS]) for text in texts]
        asked = self._redact(query)
        return self._calls.run(self._reranker.place, lambda: self._reranker.rerank(asked, sent))
