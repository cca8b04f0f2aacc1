"""Text to vectors by a provider's server; nothing is sent before the first text."""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mdrecall.embed.prompts import RECIPE_VERSION, Prompts, prompts_for
from mdrecall.embed.remote.providers import Provider
from mdrecall.embed.remote.server import Address, Patience, Server
from mdrecall.embed.remote.shapes import Misshapen, Shape, Wish
from mdrecall.errors import EmbedderError, InputRefused, NotThere, WrongAnswer
from mdrecall.types import Embedding, EmbedInput, ProgressCallback, Traits

_QUERY_S = 60.0
_BULK = Patience(seconds=120.0, retries=3)
_QUERY_RETRIES = 2
_PING_S = 10.0
#: The search gives up after its whole time; what knows the reason has to tell it before.
_QUERY_SHARE = 0.9
_SECRET_NAMES = ("auth", "key", "token", "secret", "cookie", "password")
_PING = "ping"


class _NoDirection(WrongAnswer):
    """A vector that points nowhere; it may be the text, which has none in this model."""


class RemoteEmbedder:
    """The embedder of one provider. It may be used from several threads."""

    def __init__(
        self,
        provider: Provider,
        model: str,
        address: Address,
        *,
        dimensions: int | None = None,
        concurrency: int = 1,
        query_s: float = _QUERY_S,
    ) -> None:
        """``dimensions`` is the length of vector to ask for; ``query_s``, how long a search waits for its query."""
        self.provider = provider.name
        self.model = provider.model_name(model)
        self.server = Server(address, provider.shape.auth, concurrency=concurrency, model=self.model)
        self._row = provider
        self._shape = provider.shape
        self._prompts = prompts_for(self.model) if provider.prompts else Prompts()
        self._wanted = dimensions
        self._concurrency = concurrency
        seconds = _QUERY_S if provider.waits_for_model else query_s * _QUERY_SHARE
        self._query = Patience(seconds, _QUERY_RETRIES, in_all=True)
        self._dimensions = 0
        self._most_inputs = provider.request_inputs
        self._is_well = False
        self._lock = threading.Lock()

    @property
    def dimensions(self) -> int:
        """How long the vectors are; 0 before the first one has come."""
        return self._dimensions

    @property
    def wanted_dimensions(self) -> int | None:
        """The length of vector that is asked for, if the model is not to choose."""
        return self._wanted

    @property
    def fingerprint(self) -> str:
        """Vectors with the same fingerprint can be compared with each other."""
        address = self.server.address
        told = sorted((name.lower(), value.reveal()) for name, value in address.headers.items() if not _is_secret(name))
        parts = [
            self.provider,
            address.url.partition("?")[0],
            self.model,
            told,
            self._wanted,
            RECIPE_VERSION,
        ]
        return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()

    @property
    def traits(self) -> Traits:
        """What the provider takes; less than at first, if it has proved to take less."""
        return Traits(
            measured=True,
            input_bytes=self._row.input_limit(self.model),
            request_bytes=self._row.request_bytes,
            request_inputs=self._most_inputs,
            at_once=self._concurrency,
            host=self.server.address.host,
        )

    @property
    def shape(self) -> Shape:
        """How the provider is asked."""
        return self._shape

    def prepare(self, stored: int, progress: ProgressCallback | None = None) -> None:
        """Take vectors of no other length than the stored ones; without any, learn which length they have."""
        self._dimensions = stored
        if not stored:
            self._ask([_PING], is_query=False, patience=_BULK)

    def ping(self) -> bytes:
        """The vector of a word; asked for once, and not waited for as long as real work is."""
        seconds = min(_BULK.seconds, _QUERY_S if self._row.waits_for_model else _PING_S)
        return self._ask([_PING], is_query=False, patience=Patience(seconds, retries=0))[0]

    def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
        """The vector of a query. Words cannot be weighed here."""
        return self._ask([_clean(self._prompts.of_query(text))], is_query=True, patience=self._query)[0]

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        """The vectors of chunks, titles first."""
        if not passages:
            return []
        texts = [self.text_of(passage) for passage in passages]
        try:
            return [Embedding(vector) for vector in self._ask(texts, is_query=False, patience=_BULK)]
        except (InputRefused, _NoDirection) as refusal:
            self._check_well(refusal)
            if len(texts) > 1:
                self._most_inputs = max(1, min(self._most_inputs, (len(texts) + 1) // 2))
            raise InputRefused(str(refusal)) from refusal

    def interrupt(self) -> None:
        """End whatever is under way."""
        self.server.interrupt()

    def close(self) -> None:
        """Let go of the connections; a later call makes new ones."""
        self.server.close()

    def text_of(self, passage: EmbedInput) -> str:
        """A passage as it is sent."""
        return _clean(self._prompts.of_passage(passage))

    def vector(self, row: Any) -> bytes:
        """A vector of unit length from the numbers that a server has given."""
        return self._vectors([row], is_query=False)[0]

    def _check_well(self, refusal: EmbedderError) -> None:
        """Raise unless it is the texts that are at fault: then a plain word is taken, now as ever."""
        try:
            self._ask([_PING], is_query=False, patience=_BULK)
        except (InputRefused, _NoDirection):
            error = WrongAnswer if isinstance(refusal, _NoDirection) else EmbedderError
            raise error(str(refusal), hint=refusal.hint) from None

    def _ask(self, texts: Sequence[str], *, is_query: bool, patience: Patience) -> list[bytes]:
        wish = Wish(self.model, texts, is_query, self._wanted)
        shape = self._shape
        try:
            vectors = self._asked(shape, wish, patience)
        except NotThere:
            if self._row.older is None or shape is self._row.older or self._is_well:
                raise
            vectors = self._asked(self._row.older, wish, patience)
            self._shape = self._row.older
        self._is_well = True
        return vectors

    def _asked(self, shape: Shape, wish: Wish, patience: Patience) -> list[bytes]:
        groups = [[text] for text in wish.texts] if shape.one_at_a_time else [wish.texts]
        rows: list[Any] = []
        for group in groups:
            found = self._rows(shape, wish._replace(texts=group), patience)
            if isinstance(found, WrongAnswer):
                raise found
            if len(found) != len(group):
                raise self.server.wrong(f"with {len(found)} vectors for {len(group)} texts")
            rows += found
        return self._vectors(rows, is_query=wish.is_query)

    def _rows(self, shape: Shape, wish: Wish, patience: Patience) -> list[Any] | WrongAnswer:
        """The vectors of one answer, or what is wrong with it; raised from here, a traceback would hold the answer."""
        path, body = shape.ask(wish)
        answer = self.server.ask("POST", path, body, patience=patience, bulk=not wish.is_query)
        try:
            return shape.rows(answer)
        except Misshapen as error:
            return self.server.misshapen(error, answer)

    def _vectors(self, rows: Sequence[Any], *, is_query: bool) -> list[bytes]:
        """Rows of numbers as vectors of unit length; anything else is an error, and none is taken."""
        import numpy

        lengths = {len(row) if isinstance(row, list) else 0 for row in rows}
        if lengths == {0} or not all(isinstance(row, list) and set(map(type, row)) <= {int, float} for row in rows):
            raise self.server.wrong("with something that is no vector of numbers")
        if len(lengths) > 1:
            raise self.server.wrong(f"with vectors of {min(lengths)} and of {max(lengths)} numbers")
        if not is_query:
            self._learn(lengths.pop())
        try:
            found = numpy.array(rows, dtype=numpy.float64)
        except OverflowError:
            raise self._none("with a vector that holds something else than finite numbers") from None
        with numpy.errstate(over="ignore", invalid="ignore"):
            sizes = numpy.sqrt(numpy.einsum("ij,ij->i", found, found))
        if not numpy.isfinite(sizes).all():
            raise self._none("with a vector that holds something else than finite numbers")
        if not (sizes > 1e-10).all():
            raise self._none("with a vector of nothing but zeros")
        return [row.tobytes() for row in (found / sizes[:, None]).astype("<f4")]

    def _none(self, what: str) -> "_NoDirection":
        wrong = self.server.wrong(what)
        return _NoDirection(str(wrong), hint=wrong.hint)

    def _learn(self, length: int) -> None:
        """All vectors of chunks are as long as the first; whether a query's fits is for those who compare to say."""
        with self._lock:
            if not self._dimensions:
                self._dimensions = length
            elif length != self._dimensions:
                error = self.server.wrong(f"with vectors of {length} numbers, not {self._dimensions} as before")
                error.hint = "If the model behind the address has changed, `mdrecall index --force` embeds all anew."
                raise error


def _is_secret(name: str) -> bool:
    return any(part in name.lower() for part in _SECRET_NAMES)


def _clean(text: str) -> str:
    """A text that every server takes: none is empty, and half a surrogate pair is no character."""
    return text.encode("utf-8", "replace").decode() if text.strip() else "."
