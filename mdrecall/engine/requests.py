"""Passages into well-filled requests, and out of them exactly one embedding each, whatever the embedder refuses."""

from collections.abc import Iterator, Mapping, Sequence

from mdrecall.errors import EmbedderError, InputRefused
from mdrecall.interfaces import Embedder
from mdrecall.types import Embedding, EmbedInput, Traits

_LEAST_CHARS = 16


def packed(wanted: Mapping[bytes, EmbedInput], traits: Traits) -> Iterator[dict[bytes, EmbedInput]]:
    """Passages in groups, each as much as goes into one request; one that is more than that stands alone."""
    group: dict[bytes, EmbedInput] = {}
    size = inputs = 0
    for digest, passage in wanted.items():
        pieces = _pieces(passage, traits.input_bytes)
        length = sum(_size(piece) for piece in pieces)
        if group and (size + length > traits.request_bytes or inputs + len(pieces) > traits.request_inputs):
            yield group
            group, size, inputs = {}, 0, 0
        group[digest] = passage
        size += length
        inputs += len(pieces)
    if group:
        yield group


def embedded(embedder: Embedder, passages: Sequence[EmbedInput]) -> list[Embedding | None]:
    """Embeddings in the order of the passages, of a long one the mean of its pieces; None where all are refused."""
    most = embedder.traits.input_bytes
    pieces = [[passage] if embedder.traits.never_waits else _pieces(passage, most) for passage in passages]
    made = iter(_embedded(embedder, [piece for group in pieces for piece in group]))
    return [_mean([(len(piece.text), next(made)) for piece in group]) for group in pieces]


def fits(embedder: Embedder, made: Embedding) -> bool:
    """Whether an embedding is one of the embedder's."""
    size = embedder.dimensions
    return len(made.vector) == 4 * size and len(made.windows) % size == 0


def _embedded(embedder: Embedder, passages: Sequence[EmbedInput]) -> list[Embedding | None]:
    """The same for passages of which none is known to be too long; a refused request is halved."""
    if not passages:
        return []
    try:
        return list(_checked(embedder, embedder.embed_chunks(passages), len(passages)))
    except InputRefused:
        if len(passages) > 1:
            middle = len(passages) // 2
            return _embedded(embedder, passages[:middle]) + _embedded(embedder, passages[middle:])
        halves = _halves(passages[0])
        parts = [(len(half.text), _embedded(embedder, [half])[0]) for half in halves]
        return [_mean(parts)]


def _checked(embedder: Embedder, made: Sequence[Embedding], count: int) -> Sequence[Embedding]:
    """What the embedder made, if it is what it promised; anything else must not get into the index."""
    if len(made) != count:
        raise EmbedderError(f"{embedder.provider} gave {len(made)} vectors for {count} texts.")
    for entry in made:
        if not fits(embedder, entry):
            length = len(entry.vector) // 4
            raise EmbedderError(f"{embedder.provider} gave a vector of {length} numbers, not {embedder.dimensions}.")
    return made


def _size(passage: EmbedInput) -> int:
    return sum(len(part.encode("utf-8", "replace")) for part in passage)


def _pieces(passage: EmbedInput, most_bytes: int) -> list[EmbedInput]:
    """A passage, or if it is too long, its pieces under the same title."""
    if _size(passage) <= most_bytes or not (halves := _halves(passage)):
        return [passage]
    return [piece for half in halves for piece in _pieces(half, most_bytes)]


def _halves(passage: EmbedInput) -> list[EmbedInput]:
    """Nothing, if they would be too short to mean anything."""
    if len(passage.text) < 2 * _LEAST_CHARS:
        return []
    middle = len(passage.text) // 2
    return [passage._replace(text=text) for text in (passage.text[:middle], passage.text[middle:])]


def _mean(parts: Sequence[tuple[int, Embedding | None]]) -> Embedding | None:
    """The mean of vectors by weight, of unit length again; their windows stand end to end."""
    from array import array

    made = [(weight, part) for weight, part in parts if part]
    if len(made) <= 1:
        return made[0][1] if made else None
    total = [0.0] * (len(made[0][1].vector) // 4)
    for weight, part in made:
        total = [value + weight * number for value, number in zip(total, array("f", part.vector), strict=True)]
    length = sum(value * value for value in total) ** 0.5
    vector = array("f", (value / length if length else 0.0 for value in total)).tobytes()
    return Embedding(vector, b"".join(part.windows for _, part in made))
