"""Build the ONNX graph of all-MiniLM-L6-v2 from its weights, quantised to 8-bit integers.

Each token's activations are quantised by their own largest value, so a vector does not depend on what else is in its
batch. Weights are quantised per output channel to -64..64: a processor that adds pairs of products in 16 bits (AVX2)
then cannot overflow, and every machine gives the same sums. Before that, input channels are balanced: the few that
carry large activations are divided by a factor, and the weights that read them are multiplied by it.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

_DIMENSIONS = 384
_HEADS = 12
_LAYERS = 6
_EPSILON = 1e-12

# No sum of two products of an activation (0..255) and a weight leaves 16 bits: 2 * 255 * 64 < 2**15.
_WEIGHT_MAX = 64
_ZERO_POINT = 128
# GELU is never below -0.17, so nearly all of the 256 steps can lie above zero.
_GELU_ZERO_POINT = 9
_GELU_LEAST = 0.17
# A normalised activation seldom lies further than this many deviations from its mean.
_DEVIATIONS = 3.0

_OPSET = 20
_IR_VERSION = 9

Array: TypeAlias = NDArray[Any]
Weights: TypeAlias = Mapping[str, Array]


def build(safetensors: bytes, token_limit: int) -> bytes:
    """Return the graph from ``ids`` (texts x tokens, without padding) to ``vectors`` (texts x 384) of unit length."""
    return _Builder(_read(safetensors), token_limit).model()


def _read(data: bytes) -> Weights:
    """Read the tensors of a safetensors file: the header's length, the header as JSON, the numbers."""
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            first, last = entry["data_offsets"]
            tensors[name] = np.frombuffer(data[begin + first : begin + last], "<f4").reshape(entry["shape"])
    return tensors


class _Builder:
    """Collects nodes and constants; every method that adds a node returns the name of its output."""

    def __init__(self, weights: Weights, token_limit: int) -> None:
        self._weights = weights
        self._token_limit = token_limit
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def model(self) -> bytes:
        self._pool(self._encode())
        graph = helper.make_graph(
            self._nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["texts", "tokens"])],
            [helper.make_tensor_value_info("vectors", onnx.TensorProto.FLOAT, ["texts", _DIMENSIONS])],
            self._constants,
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="mdrecall")
        return bytes(model.SerializeToString())

    def _op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self._ops(kind, 1, *inputs, **attributes)[0]

    def _ops(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [f"{kind}_{len(self._nodes)}_{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names

    def _const(self, array: Array) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _number(self, value: float) -> str:
        return self._const(np.array(value, np.float32))

    def _ints(self, *values: int) -> str:
        return self._const(np.array(values, np.int64))

    def _encode(self) -> str:
        """Add all layers; between them the activations have the shape (texts * tokens) x channels."""
        shape = self._op("Shape", "ids")
        split = self._op("Concat", shape, self._ints(_HEADS, _DIMENSIONS // _HEADS), axis=0)
        x, norm = self._embed(shape), "embeddings.LayerNorm"
        for number in range(_LAYERS):
            layer = f"encoder.layer.{number}"
            x = self._normalise(self._op("Add", x, self._attend(x, layer, norm, split)), _norm_of(layer, 0))
            x = self._normalise(self._op("Add", x, self._feed(x, layer)), norm := _norm_of(layer, 1))
        return self._op("Reshape", x, self._op("Concat", shape, self._ints(_DIMENSIONS), axis=0))

    def _embed(self, shape: str) -> str:
        """Add the word embeddings as 8-bit rows with a scale each, and the positions, which include the segment."""
        words = self._weights["embeddings.word_embeddings.weight"]
        scale = np.maximum(np.abs(words).max(1, keepdims=True) / 127, _EPSILON).astype(np.float32)
        rows = self._op("Gather", self._const(np.round(words / scale).astype(np.int8)), "ids")
        rows = self._op("Cast", rows, to=onnx.TensorProto.FLOAT)
        x = self._op("Mul", rows, self._op("Gather", self._const(scale), "ids"))
        positions = self._weights["embeddings.position_embeddings.weight"][: self._token_limit]
        positions = positions + self._weights["embeddings.token_type_embeddings.weight"][0]
        tokens = self._op("Gather", shape, self._ints(1))
        used = self._op("Slice", self._const(positions), self._ints(0), tokens, self._ints(0))
        x = self._normalise(self._op("Add", x, used), "embeddings.LayerNorm")
        return self._op("Reshape", x, self._ints(-1, _DIMENSIONS))

    def _attend(self, x: str, layer: str, norm: str, split: str) -> str:
        """Add self-attention; the division by the root of a head's size is part of the queries' weights."""
        shrink = np.array([(_DIMENSIONS / _HEADS) ** -0.5, 1, 1], np.float32)
        parts = [f"{layer}.attention.self.{name}" for name in ("query", "key", "value")]
        weight = np.concatenate([self._weights[f"{p}.weight"] * s for p, s in zip(parts, shrink, strict=True)])
        bias = np.concatenate([self._weights[f"{p}.bias"] * s for p, s in zip(parts, shrink, strict=True)])
        joined = self._linear_after_norm(x, norm, weight, bias)
        heads = [
            self._op("Reshape", part, split)
            for part in self._ops("Split", 3, joined, self._ints(_DIMENSIONS, _DIMENSIONS, _DIMENSIONS), axis=1)
        ]
        query, value = (self._op("Transpose", heads[number], perm=[0, 2, 1, 3]) for number in (0, 2))
        key = self._op("Transpose", heads[1], perm=[0, 2, 3, 1])
        shares = self._op("Softmax", self._op("MatMul", query, key), axis=-1)
        seen = self._op("Transpose", self._op("MatMul", shares, value), perm=[0, 2, 1, 3])
        seen = self._op("Reshape", seen, self._ints(-1, _DIMENSIONS))
        dense = f"{layer}.attention.output.dense"
        return self._linear(seen, self._weights[f"{dense}.weight"], self._weights[f"{dense}.bias"])

    def _feed(self, x: str, layer: str) -> str:
        """Add the two dense layers with GELU between them."""
        wide, narrow = f"{layer}.intermediate.dense", f"{layer}.output.dense"
        norm = _norm_of(layer, 0)
        h = self._linear_after_norm(x, norm, self._weights[f"{wide}.weight"], self._weights[f"{wide}.bias"])
        h = self._op("Gelu", h)
        return self._linear(h, self._weights[f"{narrow}.weight"], self._weights[f"{narrow}.bias"], after_gelu=True)

    def _normalise(self, x: str, norm: str) -> str:
        weight, bias = (self._const(self._weights[f"{norm}.{name}"]) for name in ("weight", "bias"))
        return self._op("LayerNormalization", x, weight, bias, axis=-1, epsilon=_EPSILON)

    def _linear_after_norm(self, x: str, norm: str, weight: Array, bias: Array) -> str:
        """Add a dense layer whose input channels are balanced by the sizes that the preceding normalisation implies."""
        reach = np.abs(self._weights[f"{norm}.weight"]) * _DEVIATIONS + np.abs(self._weights[f"{norm}.bias"])
        factor = np.sqrt(np.maximum(reach, _EPSILON) / np.maximum(np.abs(weight).max(0), _EPSILON)).astype(np.float32)
        return self._linear(self._op("Mul", x, self._const(1 / factor)), weight * factor, bias)

    def _linear(self, x: str, weight: Array, bias: Array, *, after_gelu: bool = False) -> str:
        """Add a dense layer in integers.

        The two scales are multiplied in one after the other: their product as one factor is a pattern that
        onnxruntime replaces by a kernel which takes a single scale for all tokens.
        """
        scale = np.maximum(np.abs(weight).max(1) / _WEIGHT_MAX, _EPSILON).astype(np.float32)
        whole = np.round(weight / scale[:, None]).clip(-_WEIGHT_MAX, _WEIGHT_MAX).astype(np.int8)
        zero = _GELU_ZERO_POINT if after_gelu else _ZERO_POINT
        step = self._gelu_step(x) if after_gelu else self._step(x)
        zeros = self._op("Expand", self._const(np.array(zero, np.uint8)), self._op("Shape", step))
        short = self._op("QuantizeLinear", x, step, zeros, axis=0)
        zero_points = (self._const(np.array(zero, np.uint8)), self._const(np.array(0, np.int8)))
        sums = self._op("MatMulInteger", short, self._const(whole.T), *zero_points)
        sums = self._op("Cast", sums, to=onnx.TensorProto.FLOAT)
        sums = self._op("Mul", sums, self._op("Unsqueeze", step, self._ints(-1)))
        return self._op("Add", self._op("Mul", sums, self._const(scale)), self._const(bias))

    def _step(self, x: str) -> str:
        """Add the quantisation step of each token: 1/127 of its largest activation."""
        largest = self._op("ReduceMax", self._op("Abs", x), self._ints(-1), keepdims=0)
        return self._op("Max", self._op("Mul", largest, self._number(1 / 127)), self._number(_EPSILON))

    def _gelu_step(self, x: str) -> str:
        largest = self._op("ReduceMax", x, self._ints(-1), keepdims=0)
        step = self._op("Mul", largest, self._number(1 / (255 - _GELU_ZERO_POINT)))
        return self._op("Max", step, self._number(_GELU_LEAST / _GELU_ZERO_POINT))

    def _pool(self, x: str) -> None:
        """Add the mean over a text's tokens at unit length, for which their sum is enough."""
        total = self._op("ReduceSum", x, self._ints(1), keepdims=0)
        length = self._op("ReduceL2", total, self._ints(-1), keepdims=1)
        self._nodes.append(helper.make_node("Div", [total, length], ["vectors"]))


def _norm_of(layer: str, number: int) -> str:
    """Return the name of a layer's first or second normalisation."""
    return f"{layer}.attention.output.LayerNorm" if number == 0 else f"{layer}.output.LayerNorm"
