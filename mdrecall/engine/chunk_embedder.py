"""Embed the chunks that have no vector: from the cache, or by the embedder in well-filled requests.

While an embedder fails, its fallback fills an embedding space of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, compress, islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mdrecall.engine.vector_search import VectorSearcher, space_of
from mdrecall.errors import BUGS, EmbedderError, InputRefused, StoreError, message_with_hint
from mdrecall.patterns import drop_ending, host_of
from mdrecall.text.chunk import title_text
from mdrecall.text.markdown import titles
from mdrecall.types.documents import Embedding, EmbedInput, PendingChunk, Space, StoredSpace, Traits
from mdrecall.types.sync import Progress, ProgressCallback, Stop, never

if TYPE_CHECKING:
    from mdrecall.engine.jobs import Jobs
    from mdrecall.interfaces import Embedder, Store

# Chunks are read in pages, so that memory does not grow with the index.
_PAGE_CHUNKS = 500
# How long an embedder that has just failed is not asked again in the background.
_REST_S = 30.0
# How long to wait for another process that embeds before checking again whether to stop.
_LOCK_WAIT_S = 0.5
# A refused text is halved until it is accepted; pieces shorter than this say too little to be embedded.
_LEAST_CHARS = 16

#: Texts to embed by their hashes, each with the chunks that have it.
Waiting: TypeAlias = "dict[bytes, tuple[EmbedInput, list[int]]]"


class EmbedReport(NamedTuple):
    """What an embedding run has done."""

    embedded: int = 0
    from_cache: int = 0
    refused: int = 0
    """Chunks that the embedder refuses. Their vector is zero, and only keyword search finds them."""
    is_complete: bool = True
    error: str = ""
    """Why the run stopped early, or the fallback was used."""
    is_waiting: bool = False
    """True if it stopped only because a batch job at the provider is still running."""


class ChunkEmbedder:
    """Fills the space of one embedder. A run that is interrupted at any point is continued by the next one."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        most_cached: int | None = None,
        cache: Store | None = None,
        jobs: Jobs | None = None,
        keep: str = "",
        keeps_conversations: bool = False,
    ) -> None:
        """``most_cached`` is the number of entries that the cache keeps: None for no limit, 0 for no cache.

        ``cache`` is the store whose cache and batch jobs are used, if it is not ``store`` itself. ``keep`` is the
        provider whose spaces are not dropped when this one is filled. With ``keeps_conversations``, a server gets
        notes only.
        """
        self.store = store
        self.embedder = embedder
        self.most_cached = most_cached
        self.cache = cache or store
        self._jobs = jobs
        self._keep = keep
        self.skips_conversations = keeps_conversations and bool(embedder.traits.host)
        self.last_error = ""
        self._failed_at: float | None = None

    def for_store(self, store: Store, *, cache: Store) -> ChunkEmbedder:
        """Return the same for another store."""
        most, jobs, keep = self.most_cached, self._jobs, self._keep
        kept = self.skips_conversations
        return ChunkEmbedder(
            store, self.embedder, most_cached=most, cache=cache, jobs=jobs, keep=keep, keeps_conversations=kept
        )

    @property
    def is_instant(self) -> bool:
        """True if embedding takes about as long as reading the texts."""
        return self.embedder.traits.never_waits

    @property
    def is_resting(self) -> bool:
        """True if the embedder has just failed, so that it should only be asked on request."""
        return self._failed_at is not None and time.monotonic() - self._failed_at < _REST_S

    def last_failure(self) -> str:
        """Return why embedding failed the last time, in whichever process; empty if it has worked since."""
        return self.last_error or self.store.vectors.last_failure(self.embedder.fingerprint)

    @property
    def space(self) -> Space:
        """The space of the embedder; its dimensions are 0 while they are not known."""
        return space_of(self.embedder)

    def find_space(self) -> StoredSpace | None:
        """Return the embedder's space as it is stored; None if it is not."""
        return self.space.find_in(self.store.vectors.spaces())

    def is_complete(self) -> bool:
        """True if every chunk has a vector."""
        stored = self.find_space()
        return stored is not None and stored.is_filled

    def count_missing(self) -> int:
        """Return the number of chunks without a vector."""
        stored, chunks = self.find_space(), self.store.chunks
        if stored and stored.is_filled:
            return 0
        return chunks.count() - (chunks.count(stored.id) if stored else 0)

    def fill(
        self, fresh: Sequence[PendingChunk] = (), *, progress: ProgressCallback | None = None, stop: Stop = never
    ) -> EmbedReport:
        """Embed the chunks that have no vector; ``fresh`` ones were just written, and are not read from the index."""
        if self.is_complete():
            return EmbedReport()
        if self.is_instant:
            return EmbedRun(self, progress, stop).embed_instantly(self._keep, fresh)
        lock = self.cache.lock("fill")
        while not lock.acquire(_LOCK_WAIT_S, "embedding"):
            if self.cache is not self.store and (known := self.space.find_in(self.cache.vectors.spaces())):
                # Another process is embedding, and no text is paid for twice.
                self.embedder.prepare(known.space.dimensions)
                return EmbedRun(self, progress, stop).use_cache()
            if self.cache is not self.store or stop():
                return EmbedReport(is_complete=False)
            self._report_start(progress)
        try:
            return self._fill_slowly(progress, stop)
        finally:
            lock.release()

    def _report_start(self, progress: ProgressCallback | None) -> None:
        """Report how many chunks have a vector before this process makes any."""
        if progress:
            count = self.store.chunks.count()
            progress(Progress(count - self.count_missing(), count, f"Waiting for {self.embedder.provider}"))

    def _fill_slowly(self, progress: ProgressCallback | None, stop: Stop) -> EmbedReport:
        """Embed where that takes time or money: one process at a time, so that no text is paid for twice."""
        stored, run = self.find_space(), None
        if stored and stored.is_filled:
            return EmbedReport()
        self._report_start(progress)
        self._failed_at, self.last_error = None, ""
        try:
            # A wrong answer may have made a space without vectors: its dimensions prove nothing.
            self.embedder.prepare(stored.space.dimensions if stored and stored.has_vectors else 0, progress)
            run = EmbedRun(self, progress, stop)
            done = run.embed_slowly(self._jobs, self._keep)
        except EmbedderError as error:
            problem = message_with_hint(error)
            done = (run.done if run else EmbedReport())._replace(is_complete=False, error=problem)
            if stop():
                # It was interrupted, which says nothing about it.
                return done
            self._failed_at, self.last_error = time.monotonic(), problem
        vectors, fingerprint = self.store.vectors, self.embedder.fingerprint
        # Where nothing can be written, only this process knows the error.
        with suppress(StoreError):
            if vectors.last_failure(fingerprint) != self.last_error:
                vectors.record_failure(fingerprint, self.last_error)
        return done


class EmbedRun:
    """One run of a ``ChunkEmbedder``."""

    def __init__(self, filler: ChunkEmbedder, progress: ProgressCallback | None, stop: Stop) -> None:
        self.done = EmbedReport()
        self.embedder = filler.embedder
        self.stop = stop
        self._store = store = filler.store
        self.cache = filler.cache.cache
        self._most_cached = filler.most_cached
        self._skips_conversations = filler.skips_conversations
        self._progress = progress
        stored = store.vectors.ensure_space(filler.space)
        self._space = self._cache_space = stored.id
        self._texts = stored.texts
        if filler.cache is not store and not filler.is_instant:
            self._cache_space = filler.cache.vectors.ensure_space(filler.space).id
        self._total = store.chunks.count()
        self._count = store.chunks.count(self._space) if progress else 0

    def embed_instantly(self, keep: str, fresh: Sequence[PendingChunk]) -> EmbedReport:
        """Embed with an embedder that never waits, without the cache; one page of chunks, however late it is."""
        pages = (fresh[start : start + _PAGE_CHUNKS] for start in range(0, len(fresh), _PAGE_CHUNKS))
        for page, chunks in enumerate(chain(pages, _read_pages(self._store, self._space))):
            if page and self.stop():
                return self.done._replace(is_complete=False)
            inputs = {chunk.id: _embed_input(chunk) for chunk in chunks}
            try:
                made = embed_inputs(self.embedder, list(inputs.values()))
            except EmbedderError as error:
                return self.done._replace(is_complete=False, error=message_with_hint(error))
            self._store_vectors(dict(zip(inputs, made, strict=True)))
        self._store.vectors.mark_filled(self._space, self._texts, keep=keep)
        return self.done

    def embed_slowly(self, jobs: Jobs | None, keep: str) -> EmbedReport:
        """Embed with an embedder that takes time: cached texts first, the rest in well-filled requests."""
        if jobs is not None and not self._run_jobs(jobs):
            return self.done._replace(is_complete=False, error=jobs.waiting_message, is_waiting=True)
        traits = self.embedder.traits
        for waiting in self._read_uncached(traits.request_inputs * traits.at_once):
            if not self.stop():
                self._request_all(waiting)
            if self.stop():
                return self.done._replace(is_complete=False)
        self._store.vectors.mark_filled(self._space, self._texts, keep=keep)
        return self.done

    def _run_jobs(self, jobs: Jobs) -> bool:
        """Embed by batch jobs; True if the rest is to be embedded directly. Old jobs are collected in any case."""
        has_run = False
        for waiting in self._read_uncached(jobs.most_texts):
            has_run = True
            if not jobs.run(self, waiting):
                return False
        return has_run or jobs.run(self, {})

    def use_cache(self) -> EmbedReport:
        """Give chunks the vectors of cached texts only."""
        for _ in self._read_uncached(_PAGE_CHUNKS):
            if self.stop():
                break
        return self.done._replace(is_complete=False)

    def _read_uncached(self, most: int) -> Iterator[Waiting]:
        """Give texts that are not cached, at most ``most`` at once; store the vectors of those that are."""
        waiting: Waiting = {}
        for chunks in _read_pages(self._store, self._space):
            # Only notes have a path. Those that a coding agent keeps came with its conversations.
            is_sent = [bool(chunk.path) and not host_of(chunk.path) for chunk in chunks]
            sent = list(compress(chunks, is_sent)) if self._skips_conversations else chunks
            texts = {chunk.id: _embed_input(chunk) for chunk in sent}
            digests = {number: _hash(text) for number, text in texts.items()}
            known = self._look_up(set(digests.values()))
            cached = {number: known[digest] for number, digest in digests.items() if digest in known}
            self._store_vectors(cached, from_cache=True)
            for number, digest in digests.items():
                if digest not in known:
                    waiting.setdefault(digest, (texts[number], []))[1].append(number)
            while len(waiting) >= most:
                yield {digest: waiting.pop(digest) for digest in list(islice(waiting, most))}
        if waiting:
            yield waiting

    def _look_up(self, digests: set[bytes]) -> Mapping[bytes, Embedding]:
        known = self.cache.get(self._cache_space, digests) if self._most_cached != 0 else {}
        if known:
            self.cache.put(self._cache_space, {}, known, self._most_cached)
        return known

    def _request_all(self, waiting: Waiting) -> None:
        """Embed texts with as many requests at once as the embedder allows, and store each answer as it arrives."""
        traits = self.embedder.traits
        groups = pack_requests({digest: text for digest, (text, _) in waiting.items()}, traits)
        if traits.at_once > 1:
            self._request_in_threads(list(groups), waiting, traits.at_once)
            return
        for group in groups:
            self.store_answers(self._request(group), waiting)
            if self.stop():
                return

    def _request_in_threads(self, groups: list[dict[bytes, EmbedInput]], waiting: Waiting, most: int) -> None:
        """Send several requests at once. After a failure none is sent, and answers under way are still stored."""
        from concurrent.futures import ThreadPoolExecutor, as_completed

        ended = threading.Event()

        def request(group: Mapping[bytes, EmbedInput]) -> dict[bytes, Embedding | None]:
            try:
                return {} if ended.is_set() or self.stop() else self._request(group)
            except BaseException:
                ended.set()
                raise

        problems: list[EmbedderError] = []
        with ThreadPoolExecutor(most, "mdrecall-embed") as pool:
            try:
                for answered in as_completed([pool.submit(request, group) for group in groups]):
                    try:
                        self.store_answers(answered.result(), waiting)
                    except EmbedderError as problem:
                        problems.append(problem)
            finally:
                ended.set()
        if problems:
            raise problems[0]

    def _request(self, group: Mapping[bytes, EmbedInput]) -> dict[bytes, Embedding | None]:
        return dict(zip(group, embed_inputs(self.embedder, list(group.values())), strict=True))

    def store_answers(self, answered: Mapping[bytes, Embedding | None], waiting: Waiting) -> None:
        """Cache what was paid for, and store the vectors of the chunks that have these texts."""
        made = {digest: found for digest, found in answered.items() if found}
        if self._most_cached != 0 and made:
            self.cache.put(self._cache_space, made, (), self._most_cached)
        here = {digest: found for digest, found in answered.items() if digest in waiting}
        self._store_vectors({number: found for digest, found in here.items() for number in waiting[digest][1]})

    def _store_vectors(self, made: Mapping[int, Embedding | None], *, from_cache: bool = False) -> None:
        if not made:
            return
        nothing = Embedding(bytes(4 * self.embedder.dimensions))
        self._store.vectors.put(self._space, [(number, found or nothing) for number, found in made.items()])
        done, refused = self.done, sum(found is None for found in made.values())
        if from_cache:
            self.done = done._replace(from_cache=done.from_cache + len(made))
        else:
            self.done = done._replace(embedded=done.embedded + len(made) - refused, refused=done.refused + refused)
        self._count += len(made)
        self.report("vectors")

    def report(self, label: str) -> None:
        if self._progress:
            self._progress(Progress(self._count, max(self._count, self._total), label))


class FallbackEmbedder(NamedTuple):
    """Fills the space of the first embedder; while that fails, of the second. Their vectors are never mixed."""

    first: ChunkEmbedder
    second: ChunkEmbedder
    searcher: VectorSearcher
    """Tells when the first embedder does not answer queries."""
    is_instant: bool = False

    def for_store(self, store: Store, *, cache: Store) -> FallbackEmbedder:
        first, second = (embedder.for_store(store, cache=cache) for embedder in (self.first, self.second))
        return FallbackEmbedder(first, second, self.searcher)

    @property
    def is_resting(self) -> bool:
        """True if every embedder that is not finished has just failed."""
        return self.second.is_resting and (self.first.is_resting or self.first.is_complete())

    @property
    def last_error(self) -> str:
        """Why the first embedder does not work; empty if it does."""
        return self.first.last_error or self.searcher.failure()

    def last_failure(self) -> str:
        """Return why the first embedder failed the last time, in whichever process."""
        return self.last_error or self.first.last_failure()

    @property
    def space(self) -> Space:
        return self.first.space

    def is_complete(self) -> bool:
        """True if every chunk has a vector of the first embedder; while that fails, of the second."""
        if self.first.is_complete():
            return not self.searcher.failure() or self.second.is_complete()
        return self.first.is_resting and self.second.is_complete()

    def count_missing(self) -> int:
        """Return the number of chunks without a vector in the space that is closer to complete."""
        return min(self.first.count_missing(), self.second.count_missing())

    def fill(self, *, progress: ProgressCallback | None = None, stop: Stop = never) -> EmbedReport:
        """Embed with the first; if it fails, or does not answer queries, with the second, and report why."""
        problem = self.searcher.failure() if self.first.is_complete() else ""
        filled = self.first.fill(progress=progress, stop=stop)
        problem = filled.error or problem
        if filled.embedded and not problem:
            self.searcher.reset_failures()
        if not problem or filled.is_waiting or stop():
            return filled
        other = self.second.fill(progress=progress, stop=stop)
        problem, name = problem.rstrip("."), self.second.space.provider
        if other.error:
            return other._replace(error=f"{problem}. The fallback {name} fails too: {other.error}")
        return other._replace(error=f"{problem}. {name} is used instead of {self.first.space.provider}.")


EmbedsChunks: TypeAlias = ChunkEmbedder | FallbackEmbedder


def digest_chunks(store: Store) -> Iterator[bytes]:
    """Yield the hash of each chunk's text, by which its embedding is cached."""
    return (_hash(_embed_input(chunk)) for chunks in _read_pages(store, None) for chunk in chunks)


def _read_pages(store: Store, space: int | None) -> Iterator[list[PendingChunk]]:
    """Yield the chunks without a vector in a space, or all chunks."""
    after, count = 0, _PAGE_CHUNKS
    while count == _PAGE_CHUNKS and (chunks := store.vectors.pending(space, after, _PAGE_CHUNKS)):
        after, count = chunks[-1].id, len(chunks)
        yield chunks


def _embed_input(chunk: PendingChunk) -> EmbedInput:
    name = drop_ending(chunk.path.rsplit("/", 1)[-1])
    return EmbedInput("\n".join([*([title_text(name)] if name else ()), *titles(chunk.trail)]), chunk.text)


def _hash(text: EmbedInput) -> bytes:
    # A search that embeds nothing does not load OpenSSL.
    import hashlib

    return hashlib.sha256("\0".join(text).encode("utf-8", "surrogatepass")).digest()


def pack_requests(wanted: Mapping[bytes, EmbedInput], traits: Traits) -> Iterator[dict[bytes, EmbedInput]]:
    """Group texts, each group as much as fits into one request. A text larger than that has a group of its own."""
    group: dict[bytes, EmbedInput] = {}
    size = inputs = 0
    for digest, text in wanted.items():
        lengths = [_size(piece) for piece in _split(text, traits.input_bytes)]
        size, inputs = size + sum(lengths), inputs + len(lengths)
        if group and (size > traits.request_bytes or inputs > traits.request_inputs):
            yield group
            group, size, inputs = {}, sum(lengths), len(lengths)
        group[digest] = text
    if group:
        yield group


def embed_inputs(embedder: Embedder, inputs: Sequence[EmbedInput]) -> list[Embedding | None]:
    """Return embeddings in the order of the texts, of a long one the mean of its pieces; None where all are refused."""
    if embedder.traits.never_waits:
        return _embed_pieces(embedder, inputs)
    pieces = [_split(text, embedder.traits.input_bytes) for text in inputs]
    made = iter(_embed_pieces(embedder, [piece for group in pieces for piece in group]))
    return [_mean([(len(piece.text), next(made)) for piece in group]) for group in pieces]


def has_right_size(size: int, embedding: Embedding) -> bool:
    """True if an embedding has as many dimensions as are expected."""
    has_vector = len(embedding.vector) == 4 * size or (not embedding.vector and bool(embedding.passages))
    return has_vector and len(embedding.passages) % size == 0


def _embed_pieces(embedder: Embedder, inputs: Sequence[EmbedInput]) -> list[Embedding | None]:
    """Embed texts in one request; halve it if it is refused."""
    if not inputs:
        return []
    try:
        return list(_check(embedder, _request(embedder, inputs), len(inputs)))
    except InputRefused:
        if len(inputs) > 1:
            middle = len(inputs) // 2
            return _embed_pieces(embedder, inputs[:middle]) + _embed_pieces(embedder, inputs[middle:])
        return [_mean([(len(half.text), _embed_pieces(embedder, [half])[0]) for half in _halves(inputs[0])])]


def _request(embedder: Embedder, inputs: Sequence[EmbedInput]) -> list[Embedding]:
    """Return the vectors of texts. A bug of an embedder on this machine is a refusal: it costs those texts alone.

    A bug in talking to a server may hold for every text, and halving a request would be paid for again and again.
    """
    try:
        return embedder.embed_chunks(inputs)
    except BUGS as error:
        problem = f"{embedder.provider} failed, which is a bug: {type(error).__name__}: {error}."
        raise (EmbedderError(problem) if embedder.traits.host else InputRefused(problem)) from error


def _check(embedder: Embedder, made: Sequence[Embedding], count: int) -> Sequence[Embedding]:
    """Return the embeddings if there is one of the right size for each text; nothing else may get into the index."""
    if len(made) != count:
        raise EmbedderError(f"{embedder.provider} returned {len(made)} vectors for {count} texts.")
    for entry in made:
        if not has_right_size(embedder.dimensions, entry):
            message = f"{embedder.provider} returned a vector of {len(entry.vector) // 4} numbers"
            raise EmbedderError(f"{message}, not {embedder.dimensions}.")
    return made


def _size(text: EmbedInput) -> int:
    return sum(len(part.encode("utf-8", "replace")) for part in text)


def _split(text: EmbedInput, most_bytes: int) -> list[EmbedInput]:
    """Return a text, or if it is too long, its pieces under the same title."""
    if _size(text) <= most_bytes or not (halves := _halves(text)):
        return [text]
    return [piece for half in halves for piece in _split(half, most_bytes)]


def _halves(text: EmbedInput) -> list[EmbedInput]:
    """Return both halves of a text; nothing if they would be too short to mean anything."""
    if len(text.text) < 2 * _LEAST_CHARS:
        return []
    middle = len(text.text) // 2
    return [text._replace(text=half) for half in (text.text[:middle], text.text[middle:])]


def _mean(parts: Sequence[tuple[int, Embedding | None]]) -> Embedding | None:
    """Return the weighted mean of vectors, scaled to unit length, with the passages of all of them."""
    from array import array

    made = [(weight, part) for weight, part in parts if part]
    if len(made) <= 1:
        return made[0][1] if made else None
    total = [0.0] * (len(made[0][1].vector) // 4)
    for weight, part in made:
        total = [value + weight * number for value, number in zip(total, array("f", part.vector), strict=True)]
    length = sum(value * value for value in total) ** 0.5
    vector = array("f", (value / length if length else 0.0 for value in total)).tobytes()
    return Embedding(vector, b"".join(part.passages for _, part in made))
