"""The vector leg of a search: which stored vectors answer, with which embedder, and within which time."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mdrecall.core.fusion import Likeness, latin_share, likeness
from mdrecall.errors import EmbedderError, StoreUnavailable, told
from mdrecall.interfaces import Embedder, Store
from mdrecall.types import Space, StoredSpace, Traits

_MOST_AT_ONCE = 8
_RETRY_AFTER_S = 30.0
_MOST_TIES = 4


class Unavailable(Exception):
    """Meaning cannot be searched just now, and why."""


class Asked(NamedTuple):
    """A query as the embedder sees it."""

    space: StoredSpace
    vector: bytes
    traits: Traits
    trust: float
    """How much of the query means something to the embedder, 0 to 1."""


class MeaningLeg:
    """Finds chunks by meaning."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        older: Mapping[str, Callable[[], Embedder]],
        seconds: float,
    ) -> None:
        """``older`` makes embedders by provider, for spaces that were filled before the settings changed."""
        self._store = store
        self._embedder = embedder
        self._older = older
        self._seconds = seconds
        self._made: dict[str, Embedder] = {}
        self._at_once = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._hung_at: float | None = None

    @property
    def is_instant(self) -> bool:
        """Whether asking takes no time, so that it can wait until the weights of the words are known."""
        return self._embedder.traits.instant

    def ask(self, query: str, weights: Mapping[str, float]) -> Asked:
        """Embed a query with the embedder whose vectors serve; raises ``Unavailable`` if there is nothing to ask."""
        space, embedder = self._serving()
        trust = latin_share(query) if embedder.traits.latin_only else 1.0
        vector = self._embedded(embedder, query, weights)
        if len(vector) != 4 * space.space.dimensions:
            raise Unavailable(
                f"{embedder.provider} gave a vector of {len(vector) // 4} numbers, not {space.space.dimensions}"
            )
        if not any(vector):
            trust = 0.0
        return Asked(space, vector, embedder.traits, trust)

    def nearest(self, asked: Asked, limit: int) -> list[tuple[int, float]]:
        """The chunks closest in meaning as wholes, with their cosines, and more of those as close as the last."""
        try:
            found = self._store.nearest(asked.space, asked.vector, (1 + _MOST_TIES) * limit)
        except StoreUnavailable as error:
            raise Unavailable(told(error)) from error
        # Which of them was indexed first must not decide.
        return [entry for place, entry in enumerate(found) if place < limit or entry[1] == found[limit - 1][1]]

    def cosines(self, asked: Asked, ids: Sequence[int]) -> Mapping[int, float]:
        """The cosines of some chunks."""
        return self._store.cosines(asked.space, asked.vector, ids)

    def likenesses(self, asked: Asked, cosines: Mapping[int, float]) -> dict[int, tuple[Likeness, int | None]]:
        """How alike each chunk is, its windows looked at too; with the number of the best window."""
        best = self._store.best_windows(asked.space, asked.vector, list(cosines))
        found: dict[int, tuple[Likeness, int | None]] = {}
        for chunk_id, cosine in cosines.items():
            window, place = best.get(chunk_id, (None, None))
            found[chunk_id] = likeness(cosine, window, asked.traits), place
        return found

    def _serving(self) -> tuple[StoredSpace, Embedder]:
        """The space to search: the embedder's own once it is filled; until then one that was filled before."""
        embedder = self._embedder
        own = Space(embedder.provider, embedder.model, embedder.fingerprint, embedder.dimensions)
        stored = self._store.spaces()
        current = next((space for space in stored if space.space.key == own.key), None)
        if current and current.was_filled:
            return current, embedder
        for space in stored:
            if space.was_filled and (older := self._embedder_of(space.space, own)):
                return space, older
        if current and self._store.count_vectors(current.id):
            return current, embedder
        raise Unavailable("no chunk has a vector yet")

    def _embedder_of(self, space: Space, own: Space) -> Embedder | None:
        """An embedder whose queries can be compared with a stored space: the same model, even at another address."""
        same_model = (space.model, space.provider, space.dimensions) == (own.model, own.provider, own.dimensions)
        if same_model and not self._embedder.traits.instant:
            return self._embedder
        if space.provider in self._older:
            if space.provider not in self._made:
                self._made[space.provider] = self._older[space.provider]()
            made = self._made[space.provider]
            if (made.fingerprint, made.dimensions) == (space.fingerprint, space.dimensions):
                return made
        return None

    def _embedded(self, embedder: Embedder, query: str, weights: Mapping[str, float]) -> bytes:
        try:
            if embedder.traits.instant:
                return embedder.embed_query(query, weights)
            return self._in_time(embedder, query, weights)
        except EmbedderError as error:
            raise Unavailable(told(error)) from error

    def _in_time(self, embedder: Embedder, query: str, weights: Mapping[str, float]) -> bytes:
        """What the embedder answers within the deadline. One that hangs is left alone for a while."""
        if self._hung_at is not None and time.monotonic() - self._hung_at < _RETRY_AFTER_S:
            raise Unavailable(f"{embedder.provider} has not answered an earlier query yet")
        if not self._at_once.acquire(timeout=self._seconds):
            raise Unavailable(f"{embedder.provider} is busy with earlier queries")
        answered: list[bytes | BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                answered.append(embedder.embed_query(query, weights))
            except BaseException as error:
                answered.append(error)
            finally:
                self._at_once.release()
                done.set()
                self._hung_at = None

        threading.Thread(target=work, name="mdrecall-embed-query", daemon=True).start()
        if not done.wait(self._seconds):
            self._hung_at = time.monotonic()
            if done.is_set():
                self._hung_at = None
            raise Unavailable(f"{embedder.provider} did not answer within {self._seconds:g} s")
        answer = answered[0]
        if isinstance(answer, BaseException):
            raise answer if isinstance(answer, EmbedderError) else Unavailable(f"{embedder.provider} failed: {answer}")
        return answer
