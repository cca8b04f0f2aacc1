"""Give every chunk its vector: from the cache, or from the embedder in well-filled requests, stored as they arrive."""

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mdrecall.core.text.chunk import title_text
from mdrecall.core.text.headings import titles
from mdrecall.engine.requests import embedded, packed
from mdrecall.errors import EmbedderError, message_with_hint
from mdrecall.interfaces import Embedder, Store
from mdrecall.types import (
    Embedding,
    EmbedInput,
    PendingChunk,
    Progress,
    ProgressCallback,
    Space,
    Stop,
    StoredSpace,
    never,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mdrecall.engine.jobs import Jobs

_CHUNKS_AT_ONCE = 500
_REST_S = 30.0
_TURN_S = 0.5


class Caching(NamedTuple):
    """Whether embeddings are kept for texts that come again, and how many."""

    enabled: bool
    most: int | None


class EmbedReport(NamedTuple):
    """What a filling has done."""

    embedded: int = 0
    from_cache: int = 0
    refused: int = 0
    """Chunks that the embedder does not take; they lie nowhere, and are found by their words."""
    is_complete: bool = True
    error: str = ""
    """Why the filling stopped early, or somebody else had to do it."""
    is_waiting: bool = False
    """Whether it stopped only because a provider works on the rest."""


class EmbedsChunks(Protocol):
    """Gives chunks their vectors."""

    @property
    def is_instant(self) -> bool: ...

    @property
    def is_resting(self) -> bool: ...

    @property
    def last_error(self) -> str: ...

    @property
    def space(self) -> Space: ...

    def on(self, store: Store, *, cache: Store) -> "EmbedsChunks": ...

    def is_complete(self) -> bool: ...

    def missing(self) -> int: ...

    def fill(self, *, progress: ProgressCallback | None = None, stop: Stop = never) -> EmbedReport: ...


class Waiting(NamedTuple):
    """A text that is to be embedded, and the chunks that have it."""

    passage: EmbedInput
    chunks: list[int]


class ChunkEmbedder:
    """Fills the space of one embedder. Interrupted at any instant, it goes on where it stopped."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        caching: Caching,
        *,
        cache: Store | None = None,
        jobs: "Jobs | None" = None,
        keep: str = "",
    ) -> None:
        """``cache`` is the store whose kept embeddings and jobs are used and added to, if that is another one.

        ``keep`` is the provider whose spaces are not dropped when this one is filled.
        """
        self._store = store
        self._embedder = embedder
        self._caching = caching
        self._cache = cache or store
        self._jobs = jobs
        self._keep = keep
        self.last_error = ""
        self._failed_at: float | None = None

    def on(self, store: Store, *, cache: Store) -> "ChunkEmbedder":
        """The same for another store."""
        return ChunkEmbedder(store, self._embedder, self._caching, cache=cache, jobs=self._jobs, keep=self._keep)

    @property
    def is_instant(self) -> bool:
        """Whether filling takes about as long as reading the texts."""
        return self._embedder.traits.never_waits

    @property
    def is_resting(self) -> bool:
        """Whether the embedder has failed so lately that nobody should bother it without being told to."""
        return self._failed_at is not None and time.monotonic() - self._failed_at < _REST_S

    @property
    def space(self) -> Space:
        embedder = self._embedder
        return Space(embedder.provider, embedder.model, embedder.fingerprint, embedder.dimensions)

    def stored(self) -> StoredSpace | None:
        """What the store has of the embedder's space."""
        return self.space.among(self._store.vectors.spaces())

    def is_complete(self) -> bool:
        """Whether every chunk has its vector already."""
        stored = self.stored()
        return stored is not None and stored.is_filled

    def missing(self) -> int:
        """How many chunks have no vector yet."""
        if stored := self.stored():
            return 0 if stored.is_filled else self._store.chunks.count() - self._store.vectors.count(stored.id)
        return self._store.chunks.count()

    def fill(self, *, progress: ProgressCallback | None = None, stop: Stop = never) -> EmbedReport:
        """Embed the chunks that have no vector yet; ``stop`` is asked between requests."""
        if self.is_complete():
            return EmbedReport()
        if self.is_instant:
            filling = _EmbedRun(self._store, self._cache, self._embedder, self._caching, progress, stop)
            return filling.instantly(self._keep)
        lock = self._cache.filling
        while not lock.acquire(_TURN_S, "embedding"):
            if self._cache is not self._store:
                return self._fill_from_cache(progress, stop)
            if stop():
                return EmbedReport(is_complete=False)
        try:
            return self._fill_slowly(progress, stop)
        finally:
            lock.release()

    def _fill_from_cache(self, progress: ProgressCallback | None, stop: Stop) -> EmbedReport:
        """Only what is kept from before, because somebody else is embedding: nobody is asked for the same twice."""
        known = self.space.among(self._cache.vectors.spaces())
        if known is None:
            return EmbedReport(is_complete=False)
        self._embedder.prepare(known.space.dimensions)
        filling = _EmbedRun(self._store, self._cache, self._embedder, self._caching, progress, stop)
        return filling.from_cache()

    def _fill_slowly(self, progress: ProgressCallback | None, stop: Stop) -> EmbedReport:
        """The same where it takes time or money: one process at a time, and nothing is asked for twice."""
        if self.is_complete():
            return EmbedReport()
        self._failed_at, self.last_error = None, ""
        filling = None
        if progress:
            count = self._store.chunks.count()
            progress(Progress(count - self.missing(), count, f"Waiting for {self._embedder.provider}"))
        try:
            self._embedder.prepare(self._stored_length(), progress)
            filling = _EmbedRun(self._store, self._cache, self._embedder, self._caching, progress, stop)
            return filling.slowly(self._jobs, self._keep)
        except EmbedderError as error:
            self._failed_at, self.last_error = time.monotonic(), message_with_hint(error)
            done = filling.done if filling else EmbedReport()
            return done._replace(is_complete=False, error=message_with_hint(error))

    def _stored_length(self) -> int:
        """How long the stored vectors are; 0 without any, because a single strange answer may have made the space."""
        stored = self.stored()
        has_any = stored is not None and self._store.vectors.count(stored.id) > 0
        return stored.space.dimensions if stored and has_any else 0


class _EmbedRun:
    """One run of a filler."""

    def __init__(
        self,
        store: Store,
        cache: Store,
        embedder: Embedder,
        caching: Caching,
        progress: ProgressCallback | None,
        stop: Stop,
    ) -> None:
        self.done = EmbedReport()
        self._store = store
        self._cache = cache
        self._embedder = embedder
        self._caching = caching
        self._progress = progress
        self._stop = stop
        space = Space(embedder.provider, embedder.model, embedder.fingerprint, embedder.dimensions)
        self._space = store.vectors.ensure_space(space)
        self._kept_as = (
            self._space if cache is store or embedder.traits.never_waits else cache.vectors.ensure_space(space)
        )
        self._texts = store.vectors.text_counter()
        self._total = store.chunks.count()
        self._count = store.vectors.count(self._space) if progress else 0

    def instantly(self, keep: str) -> EmbedReport:
        """With an embedder that never waits."""
        for chunks in self._pages():
            passages = {chunk.id: _passage(chunk) for chunk in chunks}
            try:
                made = embedded(self._embedder, list(passages.values()))
            except EmbedderError as error:
                return self.done._replace(is_complete=False, error=message_with_hint(error))
            if self._stop():
                return self.done._replace(is_complete=False)
            self._put(dict(zip(passages, made, strict=True)))
        self._store.vectors.mark_filled(self._space, self._texts, keep=keep)
        return self.done

    def slowly(self, jobs: "Jobs | None", keep: str) -> EmbedReport:
        """With one that takes time: what is kept from before comes first, and the rest in well-filled requests."""
        if jobs is not None and not self._by_jobs(jobs):
            return self.done._replace(is_complete=False, error=jobs.said, is_waiting=True)
        traits = self._embedder.traits
        for waiting in self._windows(traits.request_inputs * traits.at_once):
            if not self._stop():
                self._ask(waiting)
            if self._stop():
                return self.done._replace(is_complete=False)
        self._store.vectors.mark_filled(self._space, self._texts, keep=keep)
        return self.done

    def _by_jobs(self, jobs: "Jobs") -> bool:
        """Through batch jobs; whether what is left is to be embedded directly. Old jobs are collected in any case."""
        has_run = False
        for waiting in self._windows(jobs.most_texts):
            has_run = True
            if not jobs.run(self._cache.jobs, self._embedder, waiting, self._arrived, self._told, self._stop):
                return False
        return has_run or jobs.run(self._cache.jobs, self._embedder, {}, self._arrived, self._told, self._stop)

    def from_cache(self) -> EmbedReport:
        """Only what is kept from before."""
        for _ in self._windows(_CHUNKS_AT_ONCE):
            if self._stop():
                break
        return self.done._replace(is_complete=False)

    def _pages(self) -> Iterator[list[PendingChunk]]:
        after = 0
        while chunks := self._store.vectors.pending(self._space, after, _CHUNKS_AT_ONCE):
            after = chunks[-1].id
            yield chunks

    def _windows(self, most: int) -> Iterator[dict[bytes, Waiting]]:
        """Texts that have no embedding anywhere, at most so many at once; chunks of known texts get theirs."""
        waiting: dict[bytes, Waiting] = {}
        for chunks in self._pages():
            digests = {chunk.id: _hash(_passage(chunk)) for chunk in chunks}
            known = self._known(set(digests.values()))
            self._put({number: known[digest] for number, digest in digests.items() if digest in known}, from_cache=True)
            for chunk in chunks:
                digest = digests[chunk.id]
                if digest not in known:
                    waiting.setdefault(digest, Waiting(_passage(chunk), [])).chunks.append(chunk.id)
            while len(waiting) >= most:
                first = [digest for digest, _ in zip(waiting, range(most), strict=False)]
                yield {digest: waiting.pop(digest) for digest in first}
        if waiting:
            yield waiting

    def _known(self, digests: set[bytes]) -> Mapping[bytes, Embedding]:
        if not self._caching.enabled:
            return {}
        known = self._cache.cache.get(self._kept_as, digests)
        if known:
            self._cache.cache.put(self._kept_as, {}, known, self._caching.most)
        return known

    def _ask(self, waiting: Mapping[bytes, Waiting]) -> None:
        """Embed texts, as many requests at once as the embedder allows; each is stored when it is answered."""
        traits = self._embedder.traits
        groups = packed({digest: entry.passage for digest, entry in waiting.items()}, traits)
        if traits.at_once == 1:
            for group in groups:
                self._arrived(self._request(group), waiting)
                if self._stop():
                    return
            return
        self._ask_at_once(list(groups), waiting, traits.at_once)

    def _ask_at_once(self, groups: list[dict[bytes, EmbedInput]], waiting: Mapping[bytes, Waiting], most: int) -> None:
        """The same with several threads. Once a request has failed none is begun, and those under way are kept."""
        from concurrent.futures import ThreadPoolExecutor, as_completed

        ended = threading.Event()

        def request(group: Mapping[bytes, EmbedInput]) -> dict[bytes, Embedding | None]:
            try:
                return {} if ended.is_set() or self._stop() else self._request(group)
            except BaseException:
                ended.set()
                raise

        problems: list[EmbedderError] = []
        with ThreadPoolExecutor(most, "mdrecall-embed") as pool:
            try:
                for answered in as_completed([pool.submit(request, group) for group in groups]):
                    try:
                        self._arrived(answered.result(), waiting)
                    except EmbedderError as problem:
                        problems.append(problem)
            finally:
                ended.set()
        if problems:
            raise problems[0]

    def _request(self, group: Mapping[bytes, EmbedInput]) -> dict[bytes, Embedding | None]:
        return dict(zip(group, embedded(self._embedder, list(group.values())), strict=True))

    def _arrived(self, answered: Mapping[bytes, Embedding | None], waiting: Mapping[bytes, Waiting]) -> None:
        """Keep what was paid for, and give it to the chunks that wait for it."""
        made = {digest: found for digest, found in answered.items() if found}
        if self._caching.enabled and made:
            self._cache.cache.put(self._kept_as, made, (), self._caching.most)
        here = {digest: found for digest, found in answered.items() if digest in waiting}
        self._put({number: found for digest, found in here.items() for number in waiting[digest].chunks})

    def _put(self, made: Mapping[int, Embedding | None], *, from_cache: bool = False) -> None:
        if not made:
            return
        nothing = Embedding(bytes(4 * self._embedder.dimensions))
        self._store.vectors.put(self._space, [(number, found or nothing) for number, found in made.items()])
        refused = sum(found is None for found in made.values())
        done, new = self.done, len(made) - refused
        self.done = done._replace(
            embedded=done.embedded + (0 if from_cache else new),
            from_cache=done.from_cache + (new if from_cache else 0),
            refused=done.refused + refused,
        )
        self._count += len(made)
        self._told("vectors")

    def _told(self, label: str) -> None:
        if self._progress:
            self._progress(Progress(self._count, max(self._count, self._total), label))


def _cancel(requests: "Sequence[Future[dict[bytes, Embedding | None]]]") -> None:
    for request in requests:
        request.cancel()


def _passage(chunk: PendingChunk) -> EmbedInput:
    name = chunk.path.rsplit("/", 1)[-1].removesuffix(".md")
    named = [title_text(name)] if name else []
    return EmbedInput("\n".join([*named, *titles(chunk.trail)]), chunk.text)


def _hash(passage: EmbedInput) -> bytes:
    return hashlib.sha256("\0".join(passage).encode("utf-8", "surrogatepass")).digest()
