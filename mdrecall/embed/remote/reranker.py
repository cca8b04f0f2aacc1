"""Reranking by a remote provider: its model reads the query with each text and says how well the text answers it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from mdrecall.embed.models import ScoreScale, read_scores
from mdrecall.embed.remote.client import Endpoint, ProviderClient, RetryPolicy
from mdrecall.embed.remote.providers import bearer_header

#: A search is waiting, so one more attempt must do.
_RETRIES = 1
#: The request ends before the search's own deadline, so that the search can report the reason instead of a timeout.
_TIMEOUT_SHARE = 0.9


class RerankProvider(NamedTuple):
    """One kind of rerank API."""

    name: str
    url: str
    model: str
    """The default model; empty if the server has only one."""
    count_as: str
    """The field of a request with how many texts to rank: all of them."""
    rows_at: str
    """The field of the answer with one row for each text."""
    needs_key: bool
    is_bounded: bool
    """True if its scores are from 0 to 1; a model that is trained by cosines may go a little below 0."""
    more: Mapping[str, object] = {}
    """What else a request has."""

    def tidy_url(self, url: str) -> str:
        """Return the address below which ``/rerank`` lies; the default one if the given one is blank."""
        return (url.strip() or self.url).rstrip("/").removesuffix("/rerank")

    def is_own_host(self, url: str) -> bool:
        """True if the address is on the provider's own host, so that the provider's key may be sent there."""
        return urlsplit(url).hostname == urlsplit(self.url).hostname


class RemoteReranker:
    """The reranker of one provider. Safe to use from several threads."""

    def __init__(self, provider: RerankProvider, model: str, endpoint: Endpoint, *, timeout_s: float) -> None:
        """``timeout_s`` is how long a search waits for it."""
        self._provider = provider
        self._model = model or provider.model
        self._client = ProviderClient(endpoint, bearer_header, model=self._model, setting="mdrecall.rerank")
        self._policy = RetryPolicy(timeout_s * _TIMEOUT_SHARE, _RETRIES, is_total=True)
        self._scale = ScoreScale(-1.0 if provider.is_bounded else 0.0)

    @property
    def name(self) -> str:
        """The provider and its model, for results."""
        return f"{self._provider.name}/{self._model}" if self._model else self._provider.name

    @property
    def place(self) -> str:
        """The provider and its host, for messages."""
        return self._client.endpoint.place

    def rerank(self, query: str, texts: Sequence[str]) -> list[float | None]:
        """Return how probable it is that each text answers the query; None for a text that the answer leaves out."""
        body = {"query": query, "documents": list(texts), self._provider.count_as: len(texts), **self._provider.more}
        body |= {"model": self._model} if self._model else {}
        read = partial(read_scores, rows_at=self._provider.rows_at, count=len(texts))
        return self._scale.to_probabilities(self._client.ask("/rerank", body, read, policy=self._policy))

    def interrupt(self) -> None:
        """Cancel every request in progress."""
        self._client.interrupt()

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._client.close()


RERANK_PROVIDERS: Mapping[str, RerankProvider] = {
    row.name: row
    for row in (
        RerankProvider("cohere", "https://api.cohere.com/v2", "rerank-v3.5", "top_n", "results",
                       needs_key=True, is_bounded=True),
        RerankProvider("jina", "https://api.jina.ai/v1", "jina-reranker-v2-base-multilingual",
                       "top_n", "results", needs_key=True, is_bounded=True, more={"return_documents": False}),
        RerankProvider("voyage", "https://api.voyageai.com/v1", "rerank-2.5",
                       "top_k", "data", needs_key=True, is_bounded=True, more={"return_documents": False}),
        RerankProvider("llama.cpp", "http://127.0.0.1:8080/v1", "", "top_n", "results",
                       needs_key=False, is_bounded=False),
    )
}  # fmt: skip
