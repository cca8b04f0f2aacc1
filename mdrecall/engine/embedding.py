"""Give every chunk its vector: from the cache, or from the embedder in well-filled requests, stored as they arrive."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mdrecall.core.headings import titles
from mdrecall.core.title import title_text
from mdrecall.errors import EmbedderError, InputRefused, told
from mdrecall.interfaces import Embedder, Store
from mdrecall.types import Embedding, Passage, PendingChunk, Progress, ProgressCallback, Space, Stop, never

_CHUNKS_AT_ONCE = 500
_SLOW_CHUNKS_AT_ONCE = 64
_LEAST_CHARS = 16


class Caching(NamedTuple):
    """Whether embeddings are kept for texts that come again, and how many."""

    enabled: bool
    most: int | None


class Filled(NamedTuple):
    """What a filling has done."""

    embedded: int = 0
    from_cache: int = 0
    refused: int = 0
    """Chunks that the embedder does not take; they lie nowhere, and are found by their words."""
    is_complete: bool = True
    error: str = ""
    """Why the filling stopped early."""


class Filler:
    """Fills the space of one embedder. Interrupted at any instant, it goes on where it stopped."""

    def __init__(self, store: Store, embedder: Embedder, caching: Caching, *, cache: Store | None = None) -> None:
        """``cache`` is the store whose kept embeddings are used and added to, if that is another one."""
        self._store = store
        self._embedder = embedder
        self._caching = caching
        self._cache = cache or store

    def on(self, store: Store, *, cache: Store) -> "Filler":
        """The same for another store."""
        return Filler(store, self._embedder, self._caching, cache=cache)

    @property
    def is_instant(self) -> bool:
        """Whether filling takes about as long as reading the texts."""
        return self._embedder.traits.instant

    @property
    def space(self) -> Space:
        embedder = self._embedder
        return Space(embedder.provider, embedder.model, embedder.fingerprint, embedder.dimensions)

    def is_complete(self) -> bool:
        """Whether every chunk has its vector already."""
        return any(stored.space.key == self.space.key and stored.is_filled for stored in self._store.spaces())

    def missing(self) -> int:
        """How many chunks have no vector yet."""
        for stored in self._store.spaces():
            if stored.space.key == self.space.key:
                return 0 if stored.is_filled else self._store.count_chunks() - self._store.count_vectors(stored.id)
        return self._store.count_chunks()

    def fill(self, *, progress: ProgressCallback | None = None, stop: Stop = never) -> Filled:
        """Embed the chunks that have no vector yet; ``stop`` is asked between requests."""
        if self.is_complete():
            return Filled()
        number = self._store.ensure_space(self.space)
        kept_as = number if self._cache is self._store or self.is_instant else self._cache.ensure_space(self.space)
        texts = self._store.text_counter()
        instant = self._embedder.traits.instant
        total = self._store.count_chunks()
        done = self._store.count_vectors(number) if progress else 0
        embedded = from_cache = refused = after = 0
        while chunks := self._store.pending_chunks(number, after, _CHUNKS_AT_ONCE if instant else _SLOW_CHUNKS_AT_ONCE):
            after = chunks[-1].id
            try:
                made, reused = self._embed(kept_as, chunks)
            except EmbedderError as error:
                return Filled(embedded, from_cache, refused, is_complete=False, error=told(error))
            if stop():
                return Filled(embedded, from_cache, refused, is_complete=False)
            nothing = Embedding(bytes(4 * self._embedder.dimensions))
            left_out = {chunk.id for chunk in chunks} - {chunk_id for chunk_id, _ in made}
            self._store.put_vectors(number, [*made, *((chunk_id, nothing) for chunk_id in sorted(left_out))])
            embedded += len(made) - reused
            from_cache += reused
            refused += len(chunks) - len(made)
            done += len(chunks)
            if progress:
                progress(Progress(done, max(done, total), "vectors"))
        self._store.mark_filled(number, texts)
        return Filled(embedded, from_cache, refused)

    def _embed(self, space: int, chunks: Sequence[PendingChunk]) -> tuple[list[tuple[int, Embedding]], int]:
        """The chunks' embeddings, and how many of them came from the cache."""
        passages = {chunk.id: Passage(_title(chunk), chunk.text) for chunk in chunks}
        if self._embedder.traits.instant:
            made = self._request(list(passages.values()))
            return [(chunk_id, found) for chunk_id, found in zip(passages, made, strict=True) if found], 0
        hashes = {chunk_id: _hash(passage) for chunk_id, passage in passages.items()}
        keeps = self._caching.enabled
        known = dict(self._cache.cached_embeddings(space, set(hashes.values()))) if keeps else {}
        wanted = {hashes[chunk_id]: passages[chunk_id] for chunk_id in passages if hashes[chunk_id] not in known}
        fresh: dict[bytes, Embedding] = {}
        for group in _packed(list(wanted.items()), self._embedder.traits.request_bytes):
            answered = self._request([passage for _, passage in group])
            arrived = {digest: found for (digest, _), found in zip(group, answered, strict=True) if found}
            if keeps:
                self._cache.cache_embeddings(space, arrived, (), self._caching.most)
            fresh |= arrived
        if known:
            self._cache.cache_embeddings(space, {}, known, self._caching.most)
        everything = known | fresh
        there = [(chunk_id, everything[digest]) for chunk_id, digest in hashes.items() if digest in everything]
        return there, sum(digest in known for digest in hashes.values())

    def _request(self, passages: Sequence[Passage]) -> list[Embedding | None]:
        """Embeddings in the order of the passages; a refused request is halved until the one at fault is alone."""
        traits = self._embedder.traits
        if not traits.instant and any(_size(passage) > traits.input_bytes for passage in passages):
            return [self._one(passage) for passage in passages]
        try:
            return list(self._checked(self._embedder.embed_chunks(passages), len(passages)))
        except InputRefused:
            if len(passages) == 1:
                return [self._one(passages[0], refused=True)]
            middle = len(passages) // 2
            return self._request(passages[:middle]) + self._request(passages[middle:])

    def _checked(self, made: Sequence[Embedding], count: int) -> Sequence[Embedding]:
        """What the embedder made, if it is what it promised; anything else must not get into the index."""
        provider, size = self._embedder.provider, self._embedder.dimensions
        if len(made) != count:
            raise EmbedderError(f"{provider} gave {len(made)} vectors for {count} texts.")
        for vector, windows in made:
            if len(vector) != 4 * size or len(windows) % size:
                raise EmbedderError(f"{provider} gave a vector of {len(vector) // 4} numbers, not {size}.")
        return made

    def _one(self, passage: Passage, *, refused: bool = False) -> Embedding | None:
        """The embedding of one passage; if it is too long, the mean of its parts."""
        if not refused and _size(passage) <= self._embedder.traits.input_bytes:
            return self._request([passage])[0]
        if len(passage.text) < 2 * _LEAST_CHARS:
            return None
        middle = len(passage.text) // 2
        halves = [passage._replace(text=text) for text in (passage.text[:middle], passage.text[middle:])]
        parts = [(half, self._one(half)) for half in halves]
        return _mean([(len(half.text), found) for half, found in parts if found])


def _title(chunk: PendingChunk) -> str:
    name = chunk.path.rsplit("/", 1)[-1].removesuffix(".md")
    return "\n".join((title_text(name), *titles(chunk.trail)))


def _hash(passage: Passage) -> bytes:
    return hashlib.sha256("\0".join(passage).encode("utf-8", "surrogatepass")).digest()


def _size(passage: Passage) -> int:
    return sum(len(part.encode("utf-8", "replace")) for part in passage)


def _packed(items: Sequence[tuple[bytes, Passage]], most_bytes: int) -> Iterator[list[tuple[bytes, Passage]]]:
    """Items in groups of at most so many bytes of text; a longer one stands alone."""
    group: list[tuple[bytes, Passage]] = []
    size = 0
    for item in items:
        length = _size(item[1])
        if group and size + length > most_bytes:
            yield group
            group, size = [], 0
        group.append(item)
        size += length
    if group:
        yield group


def _mean(parts: Sequence[tuple[int, Embedding]]) -> Embedding | None:
    """The mean of vectors by weight, of unit length again; their windows stand end to end."""
    from array import array

    if not parts:
        return None
    total = [0.0] * (len(parts[0][1].vector) // 4)
    for weight, made in parts:
        total = [value + weight * part for value, part in zip(total, array("f", made.vector), strict=True)]
    length = sum(value * value for value in total) ** 0.5
    vector = array("f", (value / length if length else 0.0 for value in total)).tobytes()
    return Embedding(vector, b"".join(made.windows for _, made in parts))
