"""The map of notes: each at a place by the mean of its vectors, so that notes of similar meaning lie together."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mdrecall.errors import FileMissing
from mdrecall.interfaces import Store
from mdrecall.patterns import drop_ending
from mdrecall.text.markdown import heading_title, read_lines
from mdrecall.text.words import fold
from mdrecall.types.documents import StoredChunk, StoredDocument, StoredSpace
from mdrecall.types.note_map import NearNote, NoteMap, NotePoint

#: More points than this only cover each other. With 2,000 notes of 1,536 numbers their means take 12 MB.
_MOST_POINTS = 2_000
#: Chunks are read by as many at once, so that memory does not grow with the index.
_CHUNKS_AT_ONCE = 1_000
#: A subspace of a few more directions than are wanted finds the first two in a few rounds.
_DIRECTIONS, _ROUNDS = 8, 12
#: How many chunks are looked at for each note that is wanted: of some notes several are near, and transcripts too.
_CHUNKS_A_NOTE = 100
#: A longer list of tags is not read.
_MOST_TAGS = 20
_NO_VECTORS = "The notes have no vectors yet."
_UNCHECKED = "Something was forgotten since the notes were indexed. Index them again."


class NoteMapper:
    """Draws the map of an index, again only when the index has changed."""

    def __init__(
        self,
        store: Store,
        find_space: Callable[[], StoredSpace | None],
        reason: str = "",
        is_unchecked: Callable[[], bool] = bool,
    ) -> None:
        """``find_space`` returns the embedding space that is searched; ``reason`` says why there may be none.

        ``is_unchecked`` says that the index may hold what was forgotten; then nothing of it is drawn.
        """
        self._store = store
        self._find_space = find_space
        self._reason = reason or _NO_VECTORS
        self._is_unchecked = is_unchecked
        self._drawn: tuple[object, NoteMap] | None = None

    def draw(self) -> NoteMap:
        """Return the notes with their places, and their tags."""
        store = self._store
        with store.chunks.snapshot():
            if self._is_unchecked():
                return NoteMap((), 0, (), _UNCHECKED)
            space = self._find_space()
            count = store.chunks.count(space.id) if space else 0
            state = space, count, store.chunks.count()
            if self._drawn is None or self._drawn[0] != state:
                self._drawn = state, self._draw(space if count else None)
            return self._drawn[1]

    def near(self, path: str, count: int) -> tuple[NearNote, ...]:
        """Return the notes that are most similar to a note, best first; none if it has no vectors."""
        store = self._store
        with store.chunks.snapshot():
            own = [each for each in self._documents() if each.path == path]
            if not own:
                hint = "Give the path of a note that is searched."
                raise FileMissing(f"{path} is not indexed.", path=path, hint=hint)
            space = self._find_space()
            means, _ = self._read(space, own)
            if space is None or not means.any():
                return ()
            query = means[0].astype("<f4").tobytes()
            cosines = dict(store.vectors.nearest(space, query, (count + 1) * _CHUNKS_A_NOTE))
            best: dict[str, float] = {}
            for chunk in store.chunks.load(list(cosines)):
                if chunk.source == "memory" and chunk.path != path:
                    best.setdefault(chunk.path, cosines[chunk.id])
            return tuple(NearNote(*entry) for entry in list(best.items())[:count])

    def _documents(self) -> list[StoredDocument]:
        return [each for each in self._store.chunks.list_documents() if each.source == "memory"]

    def _draw(self, space: StoredSpace | None) -> NoteMap:
        documents = sorted(self._documents(), key=lambda each: each.path)
        most = min(len(documents), _MOST_POINTS)
        chosen = [documents[number * len(documents) // most] for number in range(most)]
        means, headings = self._read(space, chosen)
        places_of_drawn = means.any(axis=1).nonzero()[0].tolist()
        drawn = [chosen[place] for place in places_of_drawn]
        places = project(means[places_of_drawn]) if drawn else ()
        points = tuple(
            NotePoint(each.path, each.fields.title or headings.get(each.path) or _stem(each.path), float(x), float(y))
            for each, (x, y) in zip(drawn, places, strict=True)
        )
        return NoteMap(points, len(documents), _count_tags(documents), "" if points else self._reason)

    def _read(self, space: StoredSpace | None, documents: Sequence[StoredDocument]) -> tuple[Any, dict[str, str]]:
        """Return the mean vector of each note, zero if it has none, and its first heading."""
        import numpy

        rows = {each.path: row for row, each in enumerate(documents)}
        sums = numpy.zeros((len(documents), space.space.dimensions if space else 1), numpy.float32)
        headings: dict[str, str] = {}
        ids = self._store.chunks.chunks_of([each.id for each in documents])
        for start in range(0, len(ids), _CHUNKS_AT_ONCE):
            chunks = self._store.chunks.load(ids[start : start + _CHUNKS_AT_ONCE])
            vectors = self._store.vectors.vectors_of(space, [chunk.id for chunk in chunks]) if space else {}
            for chunk in chunks:
                headings[chunk.path] = headings.get(chunk.path) or next(_headings_of(chunk), "")
                if chunk.id in vectors:
                    vector = numpy.frombuffer(vectors[chunk.id], numpy.int8).astype(numpy.float32)
                    sums[rows[chunk.path]] += vector / (numpy.linalg.norm(vector) or 1.0)
        return sums / numpy.maximum(numpy.linalg.norm(sums, axis=1, keepdims=True), 1e-9), headings


def project(rows: Any) -> Any:
    """Return two numbers from 0 to 1 for each row: its first two principal components.

    The directions are found by repeated products with a few vectors, which needs no matrix of all dimensions.
    """
    import numpy

    centred = rows - rows.mean(axis=0)
    count = min(_DIRECTIONS, *centred.shape)
    basis = numpy.random.default_rng(0).standard_normal((centred.shape[1], count)).astype(numpy.float32)
    for _ in range(_ROUNDS):
        basis, _ = numpy.linalg.qr(centred.T @ (centred @ basis))
    _, _, turned = numpy.linalg.svd(centred @ basis, full_matrices=False)
    axes = basis @ turned[:2].T
    # A direction is as good as its opposite; the largest number decides, so that the map stays the way up it was.
    axes *= numpy.sign(axes[numpy.abs(axes).argmax(axis=0), range(axes.shape[1])]) + (axes == 0).all(axis=0)
    places = centred @ axes
    if places.shape[1] < 2:
        places = numpy.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    spread = places.max(axis=0) - places.min(axis=0)
    return numpy.where(spread > 1e-6, (places - places.min(axis=0)) / numpy.maximum(spread, 1e-6), 0.5)


def _count_tags(documents: Sequence[StoredDocument]) -> tuple[tuple[str, int], ...]:
    """Return the commonest tags with their numbers of notes; two that differ only in case are one."""
    counts: Counter[str] = Counter()
    shown: dict[str, str] = {}
    for document in documents:
        own = {fold(tag): tag for tag in document.fields.tags}
        counts.update(own.keys())
        shown = own | shown
    common = sorted(counts, key=lambda key: (-counts[key], key))[:_MOST_TAGS]
    return tuple((shown[key], counts[key]) for key in common)


def _stem(path: str) -> str:
    return drop_ending(path.rpartition("/")[2])


def _headings_of(chunk: StoredChunk) -> Iterator[str]:
    yield from (heading_title(heading) for heading in chunk.trail if heading.startswith("#"))
    if "#" in chunk.text or "\n==" in chunk.text or "\n--" in chunk.text:
        yield from (heading_title(line.heading) for line in read_lines(chunk.text.split("\n")) if line.level)
