"""The encoder's arithmetic: a small transformer in numpy, on one thread.

The layers are unpacked at the first text; of the words, only the rows that a text needs.
"""

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, groupby
from typing import Any, NamedTuple

import numpy

from mdrecall.embed.offline.encoder_file import EncoderFile
from mdrecall.errors import EmbedderUnavailable
from mdrecall.types.sync import Stop, never

# Bounds the memory of a batch. With twice as many, embedding took no less time.
_BATCH_TOKENS = 1024
# OpenBLAS makes a product of fewer multiplications on the thread that asks for it. Of larger ones two threads took ten
# times the CPU time, most of it waiting for each other. If it has one thread, whole products take a fifth less time.
_HAS_ONE_THREAD = os.environ.get("OPENBLAS_NUM_THREADS") == "1"
_PRODUCT_AT_ONCE = 1 << 62 if _HAS_ONE_THREAD else (1 << 19) - 1
# Rows of a product; with 48 columns of 384 numbers each, it is about that large. Half as many, with products half as
# large, took a tenth longer.
_ROWS_AT_ONCE = 1 << 31 if _HAS_ONE_THREAD else 28


class _Layer(NamedTuple):
    """The matrices of a layer, and the gains and biases of its two normalisations."""

    qkv: "Linear"
    out: "Linear"
    up: "Linear"
    down: "Linear"
    attention: tuple[Any, Any]
    norm: tuple[Any, Any]


class Transformer:
    """Turns token numbers into vectors."""

    def __init__(self, file: EncoderFile) -> None:
        self._file = file
        self._header = file.header

    def embed(self, texts: Sequence[Sequence[int]], stop: Stop = never) -> Any:
        """Return the vectors of texts, given as token numbers, one unit long each; an error if it should stop."""
        vectors = numpy.empty((len(texts), self._header.dimensions), numpy.float32)
        for batch in _group_by_length(texts):
            if stop():
                raise EmbedderUnavailable("The encoder was interrupted because the memory is closing.")
            vectors[batch] = self._embed_batch([texts[number] for number in batch])
        return vectors

    def _embed_batch(self, texts: Sequence[Sequence[int]]) -> Any:
        """Return the vectors of texts in the order of their lengths; without padding, the batch makes no difference."""
        lengths = numpy.array(list(map(len, texts)))
        begins = lengths.cumsum() - lengths
        states = self._unpack("words", list(chain.from_iterable(texts)))
        states += self._positions[list(chain.from_iterable(map(range, lengths)))]
        self._normalise(states, self._norm("norm"))
        for layer in self._layers:
            inner, found = layer.qkv.apply(states), numpy.empty_like(states)
            for length, begin, count in zip(*numpy.unique(lengths, return_index=True, return_counts=True), strict=True):
                some = slice(begins[begin], begins[begin] + count * length)
                self._attend(inner[some].reshape(count, length, 3, self._header.heads, -1), found[some])
            states += layer.out.apply(found)
            self._normalise(states, layer.attention)
            inner = layer.up.apply(states)
            gate = inner * numpy.float32(0.3)
            gate += numpy.float32(0.5)
            inner *= numpy.clip(gate, 0, 1, out=gate)
            states += layer.down.apply(inner)
            self._normalise(states, layer.norm)
        return _unit(self._axes.apply(_unit(numpy.add.reduceat(states, begins))))

    def _attend(self, states: Any, into: Any) -> None:
        """Write what each token takes over from the others; ``states`` are its query, key and value by head."""
        queries, keys, values = states.transpose(2, 0, 3, 1, 4)
        queries = queries * numpy.float32(queries.shape[-1] ** -0.5)
        count, heads, length, width = values.shape
        found = into.reshape(count, length, heads, width).swapaxes(1, 2)
        step = max(1, _PRODUCT_AT_ONCE // (length * width))
        for start in range(0, length, step):
            shares = numpy.matmul(queries[:, :, start : start + step], keys.swapaxes(2, 3))
            shares -= shares.max(-1, keepdims=True)
            numpy.exp(shares, out=shares)
            shares /= shares.sum(-1, keepdims=True)
            numpy.matmul(shares, values, out=found[:, :, start : start + step])

    def _normalise(self, states: Any, norm: tuple[Any, Any]) -> None:
        """Bring each row to mean 0 and variance 1, then to the gain and bias of the layer."""
        states -= states.mean(1, keepdims=True)
        variances = numpy.einsum("ij,ij->i", states, states) / numpy.float32(states.shape[1])
        states *= (1 / numpy.sqrt(variances + numpy.float32(self._header.epsilon)))[:, None]
        states *= norm[0]
        states += norm[1]

    @cached_property
    def _layers(self) -> list[_Layer]:
        return [self._read_layer(number) for number in range(self._header.layers)]

    def _read_layer(self, number: int) -> _Layer:
        linear = {
            name: Linear.of(self._unpack(f"{number}.{name}"), self._read(f"{number}.{name}.bias"))
            for name in ("qkv", "out", "up", "down")
        }
        return _Layer(**linear, attention=self._norm(f"{number}.attention"), norm=self._norm(f"{number}.norm"))

    @cached_property
    def _positions(self) -> Any:
        return self._read("positions")

    @cached_property
    def _axes(self) -> Any:
        return Linear.of(self._read("axes"))

    def _norm(self, name: str) -> tuple[Any, Any]:
        return self._read(f"{name}.gain"), self._read(f"{name}.bias")

    def _part(self, name: str, kind: Any) -> Any:
        """Return the numbers of a part as they are in the file."""
        return numpy.frombuffer(self._file.part(name), kind)

    def _read(self, name: str) -> Any:
        return self._part(name, "<f2").astype(numpy.float32).reshape(self._header.parts[name]["shape"])

    def _unpack(self, name: str, chosen: Any = slice(None)) -> Any:
        """Return the chosen rows of a matrix that is packed to a few bits a number, the highest bits first."""
        part = self._header.parts[name]
        rows, columns = part["shape"]
        planes = self._part(name, numpy.uint8).reshape(rows, -1, columns // 8)[chosen]
        bits = numpy.unpackbits(planes, axis=2)
        codes: Any = bits[:, 0]
        for plane in range(1, bits.shape[1]):
            codes = codes << 1 | bits[:, plane]
        matrix = codes.astype(numpy.float32)
        matrix -= numpy.float32(2 ** (bits.shape[1] - 1) - 0.5)
        matrix *= self._part(f"{name}.scale", "<f2")[chosen].astype(numpy.float32)[:, None]
        return matrix


def _group_by_length(texts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the places of texts in batches, the shortest texts first."""
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    ends = accumulate(len(texts[number]) for number in order)
    for _, batch in groupby(zip(order, ends, strict=True), key=lambda each: each[1] // _BATCH_TOKENS):
        yield [number for number, _ in batch]


class Linear(NamedTuple):
    """A matrix in blocks of columns, and its bias."""

    blocks: Any
    bias: Any = None

    @classmethod
    def of(cls, matrix: Any, bias: Any = None) -> "Linear":
        """Cut a matrix, whose rows are what its results are made of, into blocks for products on one thread."""
        columns, width = matrix.shape
        most = max(1, _PRODUCT_AT_ONCE // (_ROWS_AT_ONCE * width))
        step = next(size for size in range(min(most, columns), 0, -1) if columns % size == 0)
        return cls(numpy.ascontiguousarray(matrix.reshape(-1, step, width).swapaxes(1, 2)), bias)

    def apply(self, rows: Any) -> Any:
        """Return the product of each row with the matrix, plus the bias."""
        count, width = rows.shape
        blocks, _, step = self.blocks.shape
        found = numpy.empty((count, blocks * step), numpy.float32)
        whole = count - count % _ROWS_AT_ONCE
        for start, end, size in ((0, whole, _ROWS_AT_ONCE), (whole, count, count - whole)):
            if end > start:
                into = found[start:end].reshape(-1, size, blocks, step).swapaxes(1, 2)
                numpy.matmul(rows[start:end].reshape(-1, 1, size, width), self.blocks, out=into)
        if self.bias is not None:
            found += self.bias
        return found


def _unit(rows: Any) -> Any:
    """Return rows scaled to unit length."""
    lengths = numpy.sqrt(numpy.einsum("ij,ij->i", rows, rows))
    return rows / numpy.maximum(lengths, numpy.float32(1e-12))[:, None]


def to_int8(rows: Any) -> Any:
    """Return rows as signed bytes, which keep only their directions."""
    return numpy.rint(rows * (127 / numpy.abs(rows).max(1, initial=1e-12, keepdims=True))).astype(numpy.int8)
