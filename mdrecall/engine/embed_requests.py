"""Texts into well-filled requests, and one embedding for each of them, whatever the embedder refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mdrecall.errors import BUGS, EmbedderError, InputRefused
from mdrecall.types import Embedding, EmbedInput, Traits

if TYPE_CHECKING:
    from mdrecall.interfaces import Embedder

# A refused text is halved until it is accepted; pieces shorter than this say too little to be embedded.
_LEAST_CHARS = 16


def pack_requests(wanted: Mapping[bytes, EmbedInput], traits: Traits) -> Iterator[dict[bytes, EmbedInput]]:
    """Group texts, each group as much as fits into one request. A text larger than that has a group of its own."""
    group: dict[bytes, EmbedInput] = {}
    size = inputs = 0
    for digest, text in wanted.items():
        pieces = _split(text, traits.input_bytes)
        length = sum(_size(piece) for piece in pieces)
        if group and (size + length > traits.request_bytes or inputs + len(pieces) > traits.request_inputs):
            yield group
            group, size, inputs = {}, 0, 0
        group[digest] = text
        size += length
        inputs += len(pieces)
    if group:
        yield group


def embed_inputs(embedder: Embedder, inputs: Sequence[EmbedInput]) -> list[Embedding | None]:
    """Return embeddings in the order of the texts, of a long one the mean of its pieces; None where all are refused."""
    most = embedder.traits.input_bytes
    pieces = [[text] if embedder.traits.never_waits else _split(text, most) for text in inputs]
    made = iter(_embed_pieces(embedder, [piece for group in pieces for piece in group]))
    return [_mean([(len(piece.text), next(made)) for piece in group]) for group in pieces]


def has_right_size(embedder: Embedder, embedding: Embedding) -> bool:
    """True if an embedding has as many dimensions as the embedder's."""
    size = embedder.dimensions
    return len(embedding.vector) == 4 * size and len(embedding.passages) % size == 0


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
        halves = _halves(inputs[0])
        parts = [(len(half.text), _embed_pieces(embedder, [half])[0]) for half in halves]
        return [_mean(parts)]


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
        if not has_right_size(embedder, entry):
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
