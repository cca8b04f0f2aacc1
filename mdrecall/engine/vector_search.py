"""The vector leg of a search: which stored vectors answer, with which embedder, and within which time."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mdrecall.core.ranking.fusion import Likeness, latin_share, likeness, measured
from mdrecall.errors import EmbedderError, InputRefused, StoreUnavailable, message_with_hint
from mdrecall.interfaces import Embedder, Store
from mdrecall.types import Space, StoredSpace, Traits

_MOST_AT_ONCE = 8
_RETRY_AFTER_S = 30.0
_MOST_TIES = 4
_OFTEN = 3


class Unavailable(Exception):
    """Meaning cannot be searched just now, and why."""


class EmbeddedQuery(NamedTuple):
    """A query as the embedder sees it."""

    space: StoredSpace
    vector: bytes
    traits: Traits
    trust: float
    """How much of the query means something to the embedder, 0 to 1."""
    instead: str = ""
    """Why it is not the first embedder that was asked; empty if it is."""


class VectorSearcher:
    """Finds chunks by meaning."""

    def __init__(
        self,
        store: Store,
        embedders: Sequence[Embedder],
        *,
        older: Mapping[str, Callable[[], Embedder]],
        seconds: float,
        instead: str = "",
        why_empty: Callable[[], str] = lambda: "",
    ) -> None:
        """Of the embedders the first that can be asked is asked; ``instead`` says why it is not the one wanted.

        ``older`` makes embedders by provider, for spaces that were filled before the settings changed. ``why_empty``
        says why there are no vectors.
        """
        self._store = store
        self._askers = [_Asker(embedder, seconds) for embedder in embedders]
        self._older = older
        self._seconds = seconds
        self._instead = instead
        self._why_empty = why_empty
        self._made: dict[str, _Asker] = {}

    @property
    def is_instant(self) -> bool:
        """Whether asking takes no time, so that it can wait until the weights of the words are known."""
        return self._askers[0].embedder.traits.never_waits

    def ask(self, query: str, weights: Mapping[str, float]) -> EmbeddedQuery:
        """Embed a query with an embedder whose vectors serve; raises ``Unavailable`` if there is nothing to ask."""
        problems: list[str] = []
        for space, asker in self._serving():
            try:
                return self._asked(space, asker, query, weights, "; ".join(problems))
            except Unavailable as problem:
                problems.append(str(problem))
        if not problems:
            problems = list(filter(None, ["no chunk has a vector yet", self._why_empty()]))
        raise Unavailable("; ".join(dict.fromkeys(problems)))

    def failing(self) -> str:
        """Why the first embedder has not answered the last queries; empty if it does, or fails only now and then."""
        first = self._askers[0]
        return first.problem if first.failures >= _OFTEN else ""

    def serving(self) -> tuple[StoredSpace, Embedder] | None:
        """The space that a query would be looked up in, as far as can be told without asking, and its embedder."""
        able = list(self._serving())
        able.sort(key=lambda entry: entry[1].failures >= _OFTEN)
        return (able[0][0], able[0][1].embedder) if able else None

    def forgive(self) -> None:
        """The first embedder has proved to work again."""
        self._askers[0].failures = 0

    def _asked(
        self, space: StoredSpace, asker: "_Asker", query: str, weights: Mapping[str, float], instead: str
    ) -> EmbeddedQuery:
        embedder = asker.embedder
        vector = asker.ask(query, weights)
        if len(vector) != 4 * space.space.dimensions:
            lengths = f"{len(vector) // 4} numbers now, not {space.space.dimensions} as before"
            remedy = "if the model has changed, `mdrecall index --force` embeds all anew"
            raise Unavailable(f"{_named(embedder)} gives vectors of {lengths}: {remedy}")
        trust = latin_share(query) if embedder.traits.latin_only else 1.0
        if not any(vector):
            trust = 0.0
        if asker is self._askers[0]:
            instead = self._instead
        elif not instead:
            instead = f"the vectors of {self._askers[0].embedder.provider} are not there yet"
        return EmbeddedQuery(space, vector, self._traits(space, embedder, vector), trust, instead)

    def _traits(self, space: StoredSpace, embedder: Embedder, vector: bytes) -> Traits:
        traits = embedder.traits
        if not traits.measured:
            return traits
        try:
            mean = self._store.mean_cosine(space, vector)
        except StoreUnavailable as error:
            raise Unavailable(message_with_hint(error)) from error
        return measured(traits, mean, self._store.count_vectors(space.id))

    def nearest(self, asked: EmbeddedQuery, limit: int) -> list[tuple[int, float]]:
        """The chunks closest in meaning as wholes, with their cosines, and more of those as close as the last."""
        try:
            found = self._store.nearest(asked.space, asked.vector, (1 + _MOST_TIES) * limit)
        except StoreUnavailable as error:
            raise Unavailable(message_with_hint(error)) from error
        # Which of them was indexed first must not decide.
        return [entry for place, entry in enumerate(found) if place < limit or entry[1] == found[limit - 1][1]]

    def cosines(self, asked: EmbeddedQuery, ids: Sequence[int]) -> Mapping[int, float]:
        """The cosines of some chunks."""
        return self._store.cosines(asked.space, asked.vector, ids)

    def likenesses(self, asked: EmbeddedQuery, cosines: Mapping[int, float]) -> dict[int, tuple[Likeness, int | None]]:
        """How alike each chunk is, its windows looked at too; with the number of the best window."""
        best = self._store.best_windows(asked.space, asked.vector, list(cosines))
        found: dict[int, tuple[Likeness, int | None]] = {}
        for chunk_id, cosine in cosines.items():
            window, place = best.get(chunk_id, (None, None))
            found[chunk_id] = likeness(cosine, window, asked.traits), place
        return found

    def _serving(self) -> Iterator[tuple[StoredSpace, "_Asker"]]:
        """What can answer, best first: filled spaces of the embedders, those filled before, those begun."""
        stored = self._store.spaces()
        own = [(asker, _own_space(asker.embedder, stored)) for asker in self._askers]
        for asker, space in own:
            if space and space.was_filled:
                yield space, asker
        for space in stored:
            if space.was_filled and all(space != mine for _, mine in own) and (asked := self._asker_of(space.space)):
                yield space, asked
        for asker, space in own:
            if space and not space.was_filled and self._store.count_vectors(space.id):
                yield space, asker

    def _asker_of(self, space: Space) -> "_Asker | None":
        """Who can be asked about a stored space that is nobody's now: the same model, even at another address."""
        for asker in self._askers:
            embedder = asker.embedder
            same = (space.model, space.provider) == (embedder.model, embedder.provider)
            if same and embedder.dimensions in (0, space.dimensions) and not embedder.traits.never_waits:
                return asker
        if space.provider in self._older:
            if space.provider not in self._made:
                self._made[space.provider] = _Asker(self._older[space.provider](), self._seconds)
            made = self._made[space.provider]
            if (made.embedder.fingerprint, made.embedder.dimensions) == space.key:
                return made
        return None


class _Asker:
    """Asks one embedder, within a time."""

    def __init__(self, embedder: Embedder, seconds: float) -> None:
        self.embedder = embedder
        self.seconds = seconds
        self.failures = 0
        """How many queries in a row were not answered, although nothing was wrong with them."""
        self.problem = ""
        self._at_once = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._hung_at: float | None = None

    def ask(self, query: str, weights: Mapping[str, float]) -> bytes:
        """The vector of a query; raises ``Unavailable`` with the reason if there is none."""
        try:
            vector = self._asked(query, weights)
        except Unavailable as problem:
            if not isinstance(problem.__cause__, InputRefused):
                self.problem = str(problem)
                self.failures += 1
            raise
        self.failures = 0
        return vector

    def _asked(self, query: str, weights: Mapping[str, float]) -> bytes:
        try:
            if self.embedder.traits.never_waits:
                return self.embedder.embed_query(query, weights)
            return self._in_time(query, weights)
        except EmbedderError as error:
            raise Unavailable(message_with_hint(error)) from error

    def _in_time(self, query: str, weights: Mapping[str, float]) -> bytes:
        """What the embedder answers within the deadline. One that hangs is left alone for a while."""
        name = _named(self.embedder)
        if self._hung_at is not None and time.monotonic() - self._hung_at < _RETRY_AFTER_S:
            raise Unavailable(f"{name} has not answered an earlier query yet")
        if not self._at_once.acquire(timeout=self.seconds):
            raise Unavailable(f"{name} is busy with earlier queries")
        answered: list[bytes | BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                answered.append(self.embedder.embed_query(query, weights))
            except BaseException as error:
                answered.append(error)
            finally:
                self._at_once.release()
                done.set()
                self._hung_at = None

        threading.Thread(target=work, name="mdrecall-embed-query", daemon=True).start()
        if not done.wait(self.seconds):
            self._hung_at = time.monotonic()
            if done.is_set():
                self._hung_at = None
            hint = "Check that it is up, or raise mdrecall.queryTimeoutMs."
            raise Unavailable(f"{name} did not answer within {self.seconds:g} s. {hint}")
        answer = answered[0]
        if isinstance(answer, BaseException):
            raise answer if isinstance(answer, EmbedderError) else Unavailable(f"{name} failed: {answer}")
        return answer


def _named(embedder: Embedder) -> str:
    host = embedder.traits.host
    return f"{embedder.provider} at {host}" if host else embedder.provider


def _own_space(embedder: Embedder, stored: Sequence[StoredSpace]) -> StoredSpace | None:
    own = Space(embedder.provider, embedder.model, embedder.fingerprint, embedder.dimensions)
    return own.among(stored)
