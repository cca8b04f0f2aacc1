"""The vector search: which stored vectors answer a query, embedded by which embedder, within which time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.engine.background import DeadlineCalls
from mdrecall.engine.background import Unavailable as Unavailable
from mdrecall.errors import EmbedderError, StoreUnavailable, message_with_hint
from mdrecall.text.words import is_mostly_unspaced, is_unspaced_text, script_share
from mdrecall.types.documents import Space, StoredChunk, StoredSpace, Traits
from mdrecall.types.search import Mode

# The ranking is imported where a query is answered: the state of the vectors is known without it.
if TYPE_CHECKING:
    from mdrecall.interfaces import Embedder, VectorIndex
    from mdrecall.search.score import Similarity

# How many chunks exactly as close as the last one may come on top of the limit, in multiples of it.
_MAX_TIES = 4
# One failed query may be bad luck; from this many in a row on, the embedder is reported as failing.
_FAILURES_TO_REPORT = 3


class EmbeddedQuery(NamedTuple):
    """A query as a vector, with the stored vectors that it can be compared with."""

    space: StoredSpace
    vector: bytes
    traits: Traits
    trust: float
    """The share of the query that the embedder understands, 0 to 1."""
    fallback_reason: str = ""
    """Why the configured embedder was not used; empty if it was."""
    translate: Callable[[Sequence[str]], Sequence[float]] | None = None
    """Returns the share of the query's words that each text holds in another language, if the embedder can tell."""
    is_unspaced: bool = False
    """True if the query is mostly in a script without spaces between words."""
    beside: EmbeddedQuery | None = None
    """The same query by the embedder beside this one, whose similarities are mixed in."""

    def mix(self, own: float, beside: float | None) -> float:
        """Return the mean of two cosines by their trust, the second in the range of the first; 0 means no vector."""
        if self.beside is None or not beside:
            return own
        mine, other = self.traits, self.beside.traits
        share = (beside - other.unrelated) / (other.related - other.unrelated)
        brought = mine.unrelated + share * (mine.related - mine.unrelated)
        return (self.trust * own + self.beside.trust * brought) / (self.trust + self.beside.trust)


class VectorSearcher:
    """Finds chunks by the similarity of their vectors to the query's."""

    def __init__(
        self,
        vectors: VectorIndex,
        embedders: Sequence[Embedder],
        *,
        older: Mapping[str, Callable[[], Embedder]],
        timeout_s: float,
        fallback_reason: str = "",
        why_empty: Callable[[], str] = lambda: "",
        note: str = "",
        beside: Embedder | None = None,
    ) -> None:
        """Search with the first of the embedders that can answer.

        ``older`` makes embedders by provider, for embedding spaces that were filled before the settings changed.
        ``fallback_reason`` says why the first embedder is not the configured one. ``why_empty`` says why there are no
        vectors, ``note`` which settings are not used, such as the fallback. ``beside`` is a slower embedder: where all
        chunks have its vectors too, they count as much as those of the first.
        """
        self._vectors = vectors
        self._embedders = [_QueryEmbedder(embedder, timeout_s) for embedder in embedders]
        self._older = older
        self._older_embedders: dict[str, _QueryEmbedder] = {}
        self._timeout_s = timeout_s
        self._fallback_reason = fallback_reason
        self._why_empty = why_empty
        self._note = note
        self._beside = _QueryEmbedder(beside, timeout_s) if beside else None

    @property
    def never_waits(self) -> bool:
        """True if embedding a query takes no time, so that it can be done when the weights of its words are known."""
        return self._embedders[0].embedder.traits.never_waits

    @property
    def is_remote(self) -> bool:
        """True if a server embeds the queries."""
        return any(each.embedder.traits.host for each in self._embedders)

    def embed_query(self, query: str, weights: Mapping[str, float], *, asks_beside: bool = True) -> EmbeddedQuery:
        """Embed a query with the first embedder that has vectors to search; raise ``Unavailable`` if none has.

        The embedder beside it takes longer, so ``asks_beside`` says if it is worth that.
        """
        problems: list[str] = []
        for space, embedder in self._candidates():
            try:
                found = self._embed_for(space, embedder, query, weights, "; ".join(problems))
                is_first = embedder is self._embedders[0]
                asks = asks_beside and is_first and found.trust
                return found._replace(beside=self._embed_beside(query)) if asks else found
            except Unavailable as problem:
                problems.append(str(problem))
        problems = problems or ["no chunk has a vector yet", self._why_empty()]
        raise Unavailable("; ".join(dict.fromkeys(filter(None, [*problems, self._note]))))

    def failure(self) -> str:
        """Return why the first embedder keeps failing; empty unless the last few queries all went unanswered."""
        calls = self._embedders[0].calls
        return calls.problem if calls.failures >= _FAILURES_TO_REPORT else ""

    def reset_failures(self) -> None:
        """Forget the failed queries of the first embedder, because it has just proved to work."""
        self._embedders[0].calls.failures = 0

    def current_space(self) -> tuple[StoredSpace, Embedder] | None:
        """Return the embedding space that the next query will probably search, and its embedder."""
        candidates = list(self._candidates())
        candidates.sort(key=lambda candidate: candidate[1].calls.failures >= _FAILURES_TO_REPORT)
        return (candidates[0][0], candidates[0][1].embedder) if candidates else None

    def nearest(self, query: EmbeddedQuery, limit: int) -> list[tuple[int, float]]:
        """Return the chunks most similar as a whole, with their cosines, and those that tie with the last one."""
        own = self._nearest(query, limit)
        if query.beside is None:
            return own
        either = dict.fromkeys(chunk_id for chunk_id, _ in (*own, *self._nearest(query.beside, limit)))
        mixed = self.cosines(query, list(either))
        return sorted(mixed.items(), key=lambda entry: (-entry[1], entry[0]))

    def _nearest(self, query: EmbeddedQuery, limit: int) -> list[tuple[int, float]]:
        try:
            found = self._vectors.nearest(query.space, query.vector, limit + 1)
            if len(found) > limit and found[limit][1] == found[limit - 1][1]:
                found = self._vectors.nearest(query.space, query.vector, (1 + _MAX_TIES) * limit)
        except StoreUnavailable as error:
            raise Unavailable(message_with_hint(error)) from error
        # Ties are kept because the order in which chunks were indexed must not decide.
        return [entry for place, entry in enumerate(found) if place < limit or entry[1] == found[limit - 1][1]]

    def cosines(self, query: EmbeddedQuery, ids: Sequence[int]) -> Mapping[int, float]:
        """Return the cosines of these chunks, mixed with those beside; one without a vector is left out."""
        own = self._vectors.cosines(query.space, query.vector, ids)
        if query.beside is None:
            return own
        beside = self._vectors.cosines(query.beside.space, query.beside.vector, ids)
        return {chunk_id: query.mix(cosine, beside.get(chunk_id)) for chunk_id, cosine in own.items()}

    def similarities(
        self, query: EmbeddedQuery, cosines: Mapping[int, float]
    ) -> dict[int, tuple[Similarity, Sequence[float]]]:
        """Return how similar each chunk is, with the cosines of its passages."""
        from mdrecall.search.score import similarities

        by_passage = self._vectors.passage_cosines(query.space, query.vector, list(cosines))
        if query.beside:
            beside = self._vectors.vector_cosines(query.beside.space, query.beside.vector, list(cosines))
            # One vector of a whole chunk stands for each of its passages.
            by_passage = {
                chunk_id: list(map(query.mix, own, others if len(others) > 1 else repeat(others[0])))
                if (others := beside.get(chunk_id))
                else own
                for chunk_id, own in by_passage.items()
            }
        return similarities(cosines, by_passage, query.traits)

    def _embed_beside(self, query: str) -> EmbeddedQuery | None:
        """Embed a query with the embedder beside; None if it lacks vectors, knows no word, or fails just now."""
        if self._beside is None or not _find_trust(query, self._beside.embedder.traits):
            return None
        stored = [space for space in self._vectors.spaces() if space.space.provider == self._beside.embedder.provider]
        # Its file is opened only where there is something to compare.
        space = space_of(self._beside.embedder).find_in(stored) if stored else None
        with suppress(Unavailable):
            # Chunks that it has no vector of yet count by the first embedder alone.
            if space and space.has_vectors and (found := self._embed_for(space, self._beside, query, {}, "")).trust:
                return found
        return None

    def _embed_for(
        self,
        space: StoredSpace,
        embedder: _QueryEmbedder,
        query: str,
        weights: Mapping[str, float],
        fallback_reason: str,
    ) -> EmbeddedQuery:
        vector = embedder.embed(query, weights)
        if len(vector) != 4 * space.space.dimensions:
            raise Unavailable(
                f"{embedder.name} returned a vector of {len(vector) // 4} dimensions, but the index holds vectors of"
                f" {space.space.dimensions}: if the model has changed, index again with force"
            )
        first, traits = self._embedders[0], embedder.embedder.traits
        if embedder is first:
            fallback_reason = self._fallback_reason
        elif not fallback_reason:
            missing = f"there are no vectors from {first.embedder.provider} yet"
            fallback_reason = ": ".join(filter(None, (missing, self._why_empty())))
        trust = _find_trust(query, traits) if any(vector) else 0.0
        # The offline embedder knows the words of several languages.
        shares = getattr(embedder.embedder, "translated_shares", None)
        translate = partial(shares, query) if shares else None
        traits = self._measure(space, traits, vector)
        return EmbeddedQuery(space, vector, traits, trust, fallback_reason, translate, is_unspaced_text(query))

    def _measure(self, space: StoredSpace, traits: Traits, vector: bytes) -> Traits:
        if not traits.measured:
            return traits
        from mdrecall.search.score import measure_traits

        try:
            mean, count = self._vectors.mean_cosine(space, vector)
        except StoreUnavailable as error:
            raise Unavailable(message_with_hint(error)) from error
        return measure_traits(traits, mean, count)

    def _candidates(self) -> Iterator[tuple[StoredSpace, _QueryEmbedder]]:
        """Yield what can answer, best first: complete spaces of the embedders, older complete ones, incomplete ones."""
        stored = self._vectors.spaces()
        own = [(embedder, space_of(embedder.embedder).find_in(stored)) for embedder in self._embedders]
        yield from ((space, embedder) for embedder, space in own if space and space.was_filled)
        for other in stored:
            is_own = any(other == mine for _, mine in own)
            if other.was_filled and not is_own and (older := self._embedder_for(other.space)):
                yield other, older
        for embedder, space in own:
            if space and not space.was_filled and space.has_vectors:
                yield space, embedder

    def _embedder_for(self, space: Space) -> _QueryEmbedder | None:
        """Return an embedder for a space of older settings: the same model, even at another address."""
        for candidate in self._embedders:
            embedder = candidate.embedder
            same = (space.model, space.provider) == (embedder.model, embedder.provider)
            if same and embedder.dimensions in (0, space.dimensions) and not embedder.traits.never_waits:
                return candidate
        if space.provider not in self._older:
            return None
        if (older := self._older_embedders.get(space.provider)) is None:
            older = _QueryEmbedder(self._older[space.provider](), self._timeout_s)
            self._older_embedders[space.provider] = older
        return older if (older.embedder.fingerprint, older.embedder.dimensions) == space.key else None


class _QueryEmbedder:
    """Embeds queries with one embedder, each within a time limit."""

    def __init__(self, embedder: Embedder, timeout_s: float) -> None:
        self.embedder = embedder
        self.calls = DeadlineCalls(timeout_s, "mdrecall.queryTimeoutMs")

    @property
    def name(self) -> str:
        """The provider, and its host if it is not this machine."""
        host = self.embedder.traits.host
        return f"{self.embedder.provider} at {host}" if host else self.embedder.provider

    def embed(self, query: str, weights: Mapping[str, float]) -> bytes:
        """Return the vector of a query; raise ``Unavailable`` with the reason if there is none."""
        embed = partial(self.embedder.embed_query, query, weights)
        if not self.embedder.traits.never_waits:
            return self.calls.run(self.name, embed)
        try:
            return embed()
        except EmbedderError as error:
            raise Unavailable(message_with_hint(error)) from error


def _find_trust(query: str, traits: Traits) -> float:
    """Return the share of a query that the embedder understands."""
    share = 1.0 if traits.scripts is None else script_share(query, traits.scripts)
    return share * traits.unspaced_trust if traits.unspaced_trust < 1 and is_mostly_unspaced(query) else share


def space_of(embedder: Embedder) -> Space:
    return Space(embedder.provider, embedder.model, embedder.fingerprint, embedder.dimensions)


def find_translated(embedded: EmbeddedQuery | None, chunks: Sequence[StoredChunk]) -> dict[int, float]:
    """Return the share of the query's words that each chunk in another script holds; no other chunk is in it."""
    if embedded is None:
        return {}
    others = [chunk for chunk in chunks if is_unspaced_text(chunk.text) != embedded.is_unspaced]
    if not others or embedded.translate is None:
        return dict.fromkeys((chunk.id for chunk in others), 0.0)
    shares = embedded.translate([chunk.text for chunk in others])
    return {chunk.id: share for chunk, share in zip(others, shares, strict=True)}


def try_embed(
    vectors: VectorSearcher, query: str, mode: Mode, weights: Mapping[str, float], *, asks_beside: bool = True
) -> tuple[EmbeddedQuery | None, str]:
    """Return the embedded query, or why there is none; a script that the embedder cannot read is no failure."""
    try:
        embedded = vectors.embed_query(query, weights, asks_beside=asks_beside)
    except Unavailable as reason:
        return None, str(reason)
    if embedded.trust:
        return embedded, ""
    return None, "the embedder knows no word of this query" if mode == "vector" else ""
