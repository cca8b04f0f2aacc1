"""Exact search over vectors held in memory: loaded once, then kept current by revision."""

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from mdrecall.store.sqlite import vectors

#: Both engines round alike, so that what is equal in one is equal in the other.
PLACES = 5
_ROUNDED_AWAY = 10.0**-PLACES


def best_of(cosines: Sequence[float]) -> tuple[float, int]:
    """The largest, rounded, and its place; the first among equals."""
    rounded = [round(cosine, PLACES) for cosine in cosines]
    best = max(rounded)
    return best, rounded.index(best)


class MatrixEngine:
    """One matrix for one space, shared by all threads."""

    name = "matrix"

    def __init__(self, space: int, dimensions: int) -> None:
        import numpy

        self._numpy = numpy
        self._space = space
        self._seen = -1
        self._lock = threading.Lock()
        self._count = 0
        self._ids = numpy.empty(0, numpy.int64)
        self._rows = numpy.empty((0, dimensions), numpy.float32)
        self._place: dict[int, int] = {}

    def nearest(self, db: apsw.Connection, query: bytes, limit: int) -> list[tuple[int, float]]:
        """The chunks with the largest cosines, best first."""
        numpy = self._numpy
        with self._lock:
            self._refresh(db)
            if not self._count:
                return []
            cosines = self._rows[: self._count] @ numpy.frombuffer(query, "<f4")
            if limit < self._count:
                least = numpy.partition(cosines, self._count - limit)[self._count - limit]
                chosen = numpy.flatnonzero(cosines >= least - _ROUNDED_AWAY)
            else:
                chosen = numpy.arange(self._count)
            found = list(zip(self._ids[chosen].tolist(), cosines[chosen].tolist(), strict=True))
        rounded = [(chunk_id, round(cosine, PLACES)) for chunk_id, cosine in found]
        return sorted(rounded, key=lambda entry: (-entry[1], entry[0]))[:limit]

    def mean_cosine(self, db: apsw.Connection, query: bytes) -> float:
        """The mean over all chunks."""
        with self._lock:
            self._refresh(db)
            if not self._count:
                return 0.0
            return float((self._rows[: self._count] @ self._numpy.frombuffer(query, "<f4")).mean())

    def cosines(self, db: apsw.Connection, query: bytes, ids: Iterable[int]) -> dict[int, float]:
        """The cosines of some chunks; one without a vector is left out."""
        numpy = self._numpy
        with self._lock:
            self._refresh(db)
            known = [chunk_id for chunk_id in ids if chunk_id in self._place]
            if not known:
                return {}
            rows = self._rows[[self._place[chunk_id] for chunk_id in known]]
        found = rows @ numpy.frombuffer(query, "<f4")
        return {chunk_id: round(cosine, PLACES) for chunk_id, cosine in zip(known, found.tolist(), strict=True)}

    def best_windows(self, db: apsw.Connection, query: bytes, ids: Sequence[int]) -> dict[int, tuple[float, int]]:
        """The largest cosine among the windows of each chunk, and which window has it."""
        numpy = self._numpy
        blobs = vectors.windows_of(db, self._space, ids)
        if not blobs:
            return {}
        wanted = numpy.frombuffer(query, "<f4")
        rows = numpy.frombuffer(b"".join(blobs.values()), numpy.int8).reshape(-1, len(wanted)).astype(numpy.float32)
        lengths = numpy.sqrt(numpy.einsum("ij,ij->i", rows, rows))
        cosines = (rows @ wanted / numpy.maximum(lengths, 1e-12)).tolist()
        found: dict[int, tuple[float, int]] = {}
        start = 0
        for chunk_id, blob in blobs.items():
            end = start + len(blob) // len(wanted)
            found[chunk_id] = best_of(cosines[start:end])
            start = end
        return found

    def _refresh(self, db: apsw.Connection) -> None:
        if self._seen == vectors.revision(db):
            return
        now, removed, newer = vectors.changes_since(db, self._space, self._seen)
        if now < self._seen:
            return
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
        """The last row takes the place of the one that goes."""
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
            room = max(end, len(self._ids) * 5 // 4)
            grown = numpy.empty((room, self._rows.shape[1]), numpy.float32)
            grown[: self._count] = self._rows[: self._count]
            self._rows = grown
            self._ids = numpy.concatenate([self._ids[: self._count], numpy.empty(room - self._count, numpy.int64)])
        self._rows[self._count : end] = rows
        self._ids[self._count : end] = ids
        self._place.update(zip(ids, range(self._count, end), strict=True))
        self._count = end
