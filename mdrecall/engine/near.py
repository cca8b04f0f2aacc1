"""The notes that are most similar in meaning to a note, by the mean of its vectors."""

from mdrecall.engine.embedders import Embedding
from mdrecall.errors import FileMissing
from mdrecall.interfaces import Store
from mdrecall.types.documents import NearNote

#: How many chunks are looked at for each note that is wanted: of some notes several are near, and transcripts too.
_CHUNKS_A_NOTE = 100


def find_near(store: Store, embedding: Embedding, path: str, count: int) -> tuple[NearNote, ...]:
    """Return the notes that are most similar to a note, best first; none if it has no vectors."""
    import numpy

    chunks = store.chunks
    with chunks.snapshot():
        own = [each.id for each in chunks.list_documents() if each.source == "memory" and each.path == path]
        if not own:
            raise FileMissing(f"{path} is not indexed.", path=path, hint="Give the path of a note that is searched.")
        space = found[0] if (found := embedding.find_space()) else None
        vectors = store.vectors.vectors_of(space, chunks.chunks_of(own)) if space else {}
        if space is None or not vectors:
            return ()
        rows = numpy.array([numpy.frombuffer(vector, numpy.int8) for vector in vectors.values()], numpy.float32)
        mean = (rows / numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-9)).sum(axis=0)
        query = (mean / max(float(numpy.linalg.norm(mean)), 1e-9)).astype("<f4").tobytes()
        cosines = dict(store.vectors.nearest(space, query, (count + 1) * _CHUNKS_A_NOTE))
        best: dict[str, float] = {}
        for chunk in chunks.load(list(cosines)):
            if chunk.source == "memory" and chunk.path != path:
                best.setdefault(chunk.path, cosines[chunk.id])
        return tuple(NearNote(*entry) for entry in list(best.items())[:count])
