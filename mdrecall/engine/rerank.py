"""Asks the reranker of a search within a time limit; a search never fails because of it."""

import time
from collections.abc import Callable, Sequence

from mdrecall.engine.background import DeadlineCalls, Unavailable
from mdrecall.errors import EmbedderError, InputRefused, message_with_hint
from mdrecall.interfaces import Reranker
from mdrecall.search.stages import Rerank

# A passage with its headings is far shorter; this bounds what one long line of a note makes a provider read.
_MAX_TEXT_CHARS = 4_000
# After a failure later searches do not ask again for this long: each would wait in vain for what it can do without.
_REST_S = 30.0


class RerankCaller:
    """Calls one reranker. Safe to use from several threads."""

    def __init__(
        self, reranker: Reranker, *, top_n: int, timeout_s: float, redact: Callable[[str], str] | None = None
    ) -> None:
        """``top_n`` is how many of the best candidates the reranker reads; ``redact`` masks secrets in what is sent."""
        self.name = reranker.name
        self.top_n = top_n
        self._reranker = reranker
        self._redact = redact or str
        self._calls = DeadlineCalls(timeout_s, "mdrecall.rerank.timeoutMs")
        self._failed_at: float | None = None
        self._problem = ""

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
        if self._failed_at is not None and time.monotonic() - self._failed_at < _REST_S:
            raise Unavailable(f"{self._problem} It is asked again half a minute after it failed.")
        sent = [self._redact(text[:_MAX_TEXT_CHARS]) for text in texts]
        asked = self._redact(query)
        try:
            scores = self._calls.run(self._reranker.place, lambda: self._reranker.rerank(asked, sent))
        except InputRefused as error:
            raise Unavailable(message_with_hint(error)) from error
        except (EmbedderError, Unavailable) as error:
            self._problem = message_with_hint(error) if isinstance(error, EmbedderError) else str(error)
            self._failed_at = time.monotonic()
            raise Unavailable(self._problem) from error
        self._failed_at = None
        return scores

    def interrupt(self) -> None:
        """Cancel every request in progress."""
        self._reranker.interrupt()

    def close(self) -> None:
        self._reranker.close()
