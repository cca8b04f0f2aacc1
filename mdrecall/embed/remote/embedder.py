"""Embeddings from a remote provider; nothing is sent before the first text."""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mdrecall.embed.models import RECIPE_VERSION, Prompts, prompts_for
from mdrecall.embed.remote.client import Endpoint, ProviderClient, RetryPolicy
from mdrecall.embed.remote.providers import EmbedRequest, Provider
from mdrecall.errors import EmbedderError, InputRefused, WrongAnswer
from mdrecall.types.documents import Embedding, EmbedInput, Traits
from mdrecall.types.sync import ProgressCallback

#: A server may load a model of several gigabytes before its first answer.
_QUERY_S = 60.0
#: A request of 64 long texts takes seconds; two minutes allow for a slow server that computes on its processor.
_BULK = RetryPolicy(seconds=120.0, retries=3)
_QUERY_RETRIES = 2
#: A query ends before the search's own deadline, so that the search can report the reason instead of a timeout.
_QUERY_SHARE = 0.9
#: Headers with these words in their names change with the key, and must not change the embedding space.
_SECRET_NAMES = ("auth", "key", "token", "secret", "cookie", "password")
_PING = "ping"


class _NoDirection(WrongAnswer):
    """A vector without direction; perhaps this model has none for the text."""


class RemoteEmbedder:
    """The embedder of one provider. Safe to use from several threads."""

    def __init__(
        self,
        provider: Provider,
        model: str,
        endpoint: Endpoint,
        *,
        dimensions: int | None = None,
        input_types: tuple[str, str] = ("", ""),
        concurrency: int = 1,
        query_s: float = _QUERY_S,
    ) -> None:
        """``dimensions`` is the vector length to request; ``query_s`` is how long a search waits for its query.

        ``input_types`` are what an asymmetric model is told about queries and notes; empty where nothing is configured.
        """
        self.provider = provider.name
        self.model = provider.model_name(model)
        self.client = ProviderClient(endpoint, provider.shape.auth, model=self.model)
        self.requested_dimensions = dimensions
        self._row = provider
        # A server that is told the type of its input adds the prompts itself.
        adds_prompts = provider.uses_prompts and not any(input_types)
        self._prompts = prompts_for(self.model) if adds_prompts else Prompts()
        self._input_types = input_types
        self._concurrency = concurrency
        seconds = _QUERY_S if provider.waits_for_model else query_s * _QUERY_SHARE
        self._query = RetryPolicy(seconds, _QUERY_RETRIES, is_total=True)
        self.dimensions = 0
        """The length of the vectors; 0 before the first answer."""
        self._max_inputs = provider.request_inputs
        self._lock = threading.Lock()

    def make_request(self, texts: Sequence[str], *, is_query: bool = False) -> EmbedRequest:
        """Return the request for some texts, with everything that is configured for it."""
        input_type = self._input_types[0 if is_query else 1]
        return EmbedRequest(self.model, texts, is_query, self.requested_dimensions, input_type)

    @property
    def fingerprint(self) -> str:
        """Identifies the embedding space: vectors with the same fingerprint can be compared."""
        endpoint = self.client.endpoint
        headers = [(name.lower(), value.reveal()) for name, value in endpoint.headers.items()]
        public = sorted(header for header in headers if not any(part in header[0] for part in _SECRET_NAMES))
        parts = [
            self.provider,
            endpoint.url.partition("?")[0],
            self.model,
            public,
            self.requested_dimensions,
            RECIPE_VERSION,
            *([list(self._input_types)] if any(self._input_types) else []),
        ]
        return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()

    @property
    def traits(self) -> Traits:
        """The provider's limits, lowered where it has refused larger requests."""
        return Traits(
            measured=True,
            input_bytes=self._row.input_limit(self.model),
            request_bytes=self._row.request_bytes,
            request_inputs=self._max_inputs,
            at_once=self._concurrency,
            host=self.client.endpoint.host,
        )

    def prepare(self, stored: int, progress: ProgressCallback | None = None) -> None:
        """Accept only vectors of the stored length; without stored ones, send a request to learn the length."""
        self.dimensions = stored
        if not stored:
            self._ask([_PING], is_query=False, policy=_BULK)

    def ping(self) -> bytes:
        """Return the vector of a word, asked for once."""
        return self._ask([_PING], is_query=False, policy=self._query._replace(retries=0))[0]

    def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
        """Return the vector of a query; word weights are not supported."""
        return self._ask([_clean(self._prompts.of_query(text))], is_query=True, policy=self._query)[0]

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        """Return the vectors of chunks, each embedded with its title."""
        if not passages:
            return []
        texts = [self.render_text(passage) for passage in passages]
        try:
            return [Embedding(vector) for vector in self._ask(texts, is_query=False, policy=_BULK)]
        except (InputRefused, _NoDirection) as refusal:
            self._require_healthy(refusal)
            if len(texts) > 1:
                self._max_inputs = max(1, min(self._max_inputs, (len(texts) + 1) // 2))
            raise InputRefused(str(refusal)) from refusal

    def interrupt(self) -> None:
        """Cancel every request in progress."""
        self.client.interrupt()

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self.client.close()

    def render_text(self, passage: EmbedInput) -> str:
        """Return a text with its title as it is sent."""
        return _clean(self._prompts.of_passage(passage))

    def to_vector(self, row: Any) -> bytes:
        """Return the vector of unit length for a row of numbers from an answer."""
        return self._vectors([row], is_query=False)[0]

    def _require_healthy(self, refusal: EmbedderError) -> None:
        """Raise unless the texts are at fault, that is, unless the provider still embeds a plain word."""
        try:
            self._ask([_PING], is_query=False, policy=_BULK)
        except (InputRefused, _NoDirection):
            error = WrongAnswer if isinstance(refusal, _NoDirection) else EmbedderError
            raise error(str(refusal), hint=refusal.hint) from None

    def _ask(self, texts: Sequence[str], *, is_query: bool, policy: RetryPolicy) -> list[bytes]:
        path, body = self._row.shape.build(self.make_request(texts, is_query=is_query))
        rows = self.client.ask(path, body, self._row.shape.read_rows, policy=policy)
        if len(rows) != len(texts):
            raise self.client.wrong_answer(f"{len(rows)} vectors for {len(texts)} texts")
        return self._vectors(rows, is_query=is_query)

    def _vectors(self, rows: Sequence[Any], *, is_query: bool) -> list[bytes]:
        """Return rows of numbers as vectors of unit length; raise ``WrongAnswer`` if any row is not usable."""
        import numpy

        lengths = {len(row) if isinstance(row, list) else 0 for row in rows}
        if lengths == {0} or not all(isinstance(row, list) and set(map(type, row)) <= {int, float} for row in rows):
            raise self.client.wrong_answer("a row that is not a vector of numbers")
        if len(lengths) > 1:
            raise self.client.wrong_answer(f"vectors of both {min(lengths)} and {max(lengths)} numbers")
        if not is_query:
            self._learn_dimensions(lengths.pop())
        problem = "a vector with numbers that are not finite"
        with suppress(OverflowError), numpy.errstate(over="ignore", invalid="ignore"):
            found = numpy.array(rows, dtype=numpy.float64)
            sizes = numpy.sqrt(numpy.einsum("ij,ij->i", found, found))
            if numpy.isfinite(sizes).all():
                if (sizes > 1e-10).all():
                    return [row.tobytes() for row in (found / sizes[:, None]).astype("<f4")]
                problem = "a vector of zeros"
        wrong = self.client.wrong_answer(problem)
        raise _NoDirection(str(wrong), hint=wrong.hint)

    def _learn_dimensions(self, length: int) -> None:
        """Require the same length for all vectors of chunks; a query's length is checked where it is compared."""
        with self._lock:
            if not self.dimensions:
                self.dimensions = length
            elif length != self.dimensions:
                problem = f"vectors of {length} numbers instead of {self.dimensions} as before"
                hint = "If the model at this address has changed, index again with force."
                raise self.client.wrong_answer(problem, hint=hint)


def _clean(text: str) -> str:
    """Return a text that every server accepts: not blank, and without halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode() if text.strip() else "."
