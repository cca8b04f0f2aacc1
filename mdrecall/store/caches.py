"""Caches for any store that numbers its changes: vectors, searched exactly, and the stamps of all documents.

Each is loaded once and then kept current by reading what has changed since: see ``VectorChanges`` and ``StampChanges``.
All threads share it.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from mdrecall.types import SourceName

#: Every engine rounds to as many places, so that equal cosines are equal in all of them.
PLACES = 5
_ROUNDED_AWAY = 10.0**-PLACES
# Divides vectors of length 0, whose cosine is then 0 and not undefined.
_LEAST_LENGTH = 1e-12


class ChangedVectors(NamedTuple):
    """How the vectors of a space have changed."""

    revision: int
    """The number of the last change."""
    removed: Sequence[int] | None
    """The chunks that were removed; None if that is no longer known, and ``newer`` is everything."""
    newer: Iterable[tuple[int, bytes]]
    """Chunks with vectors that are new or have changed."""


class VectorChanges(Protocol):
    """One space of a store, as one thread sees it at one moment."""

    def revision(self) -> int:
        """Return the number of the last change. It becomes smaller if an earlier state of the index is restored."""
        ...

    def changes_since(self, seen: int) -> ChangedVectors | None:
        """Return what has changed after the revision ``seen``; everything if that is unknown or too long ago.

        None if the thread sees an earlier state, while others already see the one that ``seen`` belongs to.
        """
        ...

    def passages_of(self, ids: Iterable[int]) -> Mapping[int, bytes]:
        """Return the vectors of the passages of chunks, end to end. A chunk without any is left out."""
        ...


class MatrixEngine:
    """One matrix for one space, shared by all threads."""

    name = "matrix"

    def __init__(self, dimensions: int) -> None:
        import numpy

        self._numpy = numpy
        self._seen = -1
        self._lock = threading.Lock()
        self._count = 0
        self._ids = numpy.empty(0, numpy.int64)
        self._rows = numpy.empty((0, dimensions), numpy.float32)
        self._place: dict[int, int] = {}

    def nearest(self, space: VectorChanges, query: bytes, limit: int) -> list[tuple[int, float]]:
        """Return the chunks with the largest cosines, best first."""
        numpy = self._numpy
        with self._lock:
            self._refresh(space)
            if not self._count:
                return []
            cosines = self._multiply(self._rows[: self._count], query)
            if limit < self._count:
                least = numpy.partition(cosines, self._count - limit)[self._count - limit]
                chosen = numpy.flatnonzero(cosines >= least - _ROUNDED_AWAY)
            else:
                chosen = numpy.arange(self._count)
            found = list(zip(self._ids[chosen].tolist(), cosines[chosen].tolist(), strict=True))
        rounded = [(chunk_id, round(cosine, PLACES)) for chunk_id, cosine in found]
        return sorted(rounded, key=lambda entry: (-entry[1], entry[0]))[:limit]

    def mean_cosine(self, space: VectorChanges, query: bytes) -> float:
        """Return the mean over all chunks; 0 without any."""
        with self._lock:
            self._refresh(space)
            if not self._count:
                return 0.0
            return float(self._multiply(self._rows[: self._count], query).mean())

    def cosines(self, space: VectorChanges, query: bytes, ids: Iterable[int]) -> dict[int, float]:
        """Return the cosines of chunks. A chunk without a vector is left out."""
        with self._lock:
            self._refresh(space)
            known = [chunk_id for chunk_id in ids if chunk_id in self._place]
            if not known:
                return {}
            rows = self._rows[[self._place[chunk_id] for chunk_id in known]]
        found = self._multiply(rows, query)
        return {chunk_id: round(cosine, PLACES) for chunk_id, cosine in zip(known, found.tolist(), strict=True)}

    def passage_cosines(self, space: VectorChanges, query: bytes, ids: Sequence[int]) -> dict[int, list[float]]:
        """Return the cosines of the passages of each chunk, in order."""
        numpy = self._numpy
        blobs = space.passages_of(ids)
        if not blobs:
            return {}
        dimensions = len(query) // 4
        rows = numpy.frombuffer(b"".join(blobs.values()), numpy.int8).reshape(-1, dimensions).astype(numpy.float32)
        lengths = numpy.sqrt(numpy.einsum("ij,ij->i", rows, rows))
        products = self._multiply(rows, query)
        cosines = (products / numpy.maximum(lengths, _LEAST_LENGTH)).round(PLACES).tolist()
        found: dict[int, list[float]] = {}
        start = 0
        for chunk_id, blob in blobs.items():
            end = start + len(blob) // dimensions
            found[chunk_id] = cosines[start:end]
            start = end
        return found

    def _multiply(self, rows: Any, query: bytes) -> Any:
        """Return the product of each row and the query.

        ``rows @ query`` would wake a second thread of the linear algebra library even for a few hundred rows, and
        waiting for it costs many times what the product does.
        """
        return self._numpy.einsum("ij,j->i", rows, self._numpy.frombuffer(query, "<f4"))

    def _refresh(self, space: VectorChanges) -> None:
        if self._seen == space.revision():
            return
        changed = space.changes_since(self._seen)
        if changed is None:
            return
        now, removed, newer = changed
        if removed is None:
            self._count, self._place = 0, {}
        for chunk_id in removed or ():
            self._take_out(chunk_id)
        numpy = self._numpy
        fresh = list(newer)
        if fresh:
            for chunk_id, _ in fresh:
                self._take_out(chunk_id)
            rows = numpy.frombuffer(b"".join(vector for _, vector in fresh), "<f4").reshape(len(fresh), -1)
            self._append([chunk_id for chunk_id, _ in fresh], rows)
        self._seen = now

    def _take_out(self, chunk_id: int) -> None:
        """Remove a row by moving the last one into its place."""
        place = self._place.pop(chunk_id, None)
        if place is None:
            return
        self._count -= 1
        if place != self._count:
            moved = int(self._ids[self._count])
            self._ids[place], self._rows[place] = moved, self._rows[self._count]
            self._place[moved] = place

    def _append(self, ids: list[int], rows: Any) -> None:
        numpy = self._numpy
        end = self._count + len(ids)
        if end > len(self._ids):
            # A quarter more than there was, so that adding one chunk at a time does not copy the matrix each time.
            room = max(end, len(self._ids) * 5 // 4)
            grown = numpy.empty((room, self._rows.shape[1]), numpy.float32)
            grown[: self._count] = self._rows[: self._count]
            self._rows = grown
            self._ids = numpy.concatenate([self._ids[: self._count], numpy.empty(room - self._count, numpy.int64)])
        self._rows[self._count : end] = rows
        self._ids[self._count : end] = ids
        self._place.update(zip(ids, range(self._count, end), strict=True))
        self._count = end


class ChangedStamps(NamedTuple):
    """How the stamps of a source have changed."""

    removed: Iterable[str] | None
    """The paths of removed documents; None if that is no longer known, and ``newer`` is everything."""
    newer: Iterable[tuple[str, tuple[int, ...]]]
    """Paths with stamps that are new or have changed."""


class StampChanges(Protocol):
    """The documents of a store, as one thread sees them at one moment."""

    def revision(self) -> int:
        """Return the number of the last change."""
        ...

    def changes_since(self, seen: int, now: int, source: SourceName, settle_ns: int) -> ChangedStamps:
        """Return what has changed between two revisions; everything if ``seen`` is below 0, too long ago or ahead."""
        ...


class StampCache:
    """The stamps of each source."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[SourceName, int], tuple[int, Mapping[str, tuple[int, ...]]]] = {}

    def get(self, documents: StampChanges, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
        """Return the stamp of every document of a source in a mapping that never changes."""
        with self._lock:
            seen, known = self._known.get((source, settle_ns), (-1, {}))
            now = documents.revision()
            if now != seen:
                known = _apply(documents.changes_since(seen, now, source, settle_ns), known)
                self._known[source, settle_ns] = now, known
            return known

    def clear(self) -> None:
        """Forget everything, because another index answers from now on."""
        with self._lock:
            self._known.clear()


def _apply(changed: ChangedStamps, known: Mapping[str, tuple[int, ...]]) -> Mapping[str, tuple[int, ...]]:
    if changed.removed is None:
        return dict(changed.newer)
    current = dict(known)
    for path in changed.removed:
        current.pop(path, None)
    current.update(changed.newer)
    return current
