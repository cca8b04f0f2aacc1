"""Small real GGUF models from nothing: a token is a direction, a text is the mean of its tokens."""

import random
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789.,:|-"
SENTENCES = (
    "how many connections open the database pool",
    "we open twenty connections in the database pool",
    "my daughter is allergic to peanuts",
    "foods of the child and what to eat",
    "the certificate expired and the deployment was on friday",
    "meeting at ten in the garden room",
    "the cat and the dog sat on the mat",
    "task search result query title none text document passage",
)
WORDS = sorted({word for sentence in SENTENCES for word in sentence.split()})
VOCABULARY = [*MARKS, *(f"\u2581{sign}" for sign in SIGNS), *SIGNS, *(f"\u2581{word}" for word in WORDS)]
MEAN, FIRST, LAST, RANK = 1, 2, 3, 4
_ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


class Tiny(NamedTuple):
    """What a model is like."""

    architecture: str = "bert"
    name: str = "tiny"
    size: int = 32
    context: int = 64
    pooling: int | None = MEAN
    last_bias: float = 0.0
    """Added to the first number of every vector."""
    seed: int = 1


class Tensor(NamedTuple):
    shape: tuple[int, ...]
    """The longest stretch first, as GGUF has it."""
    numbers: list[float]


PLAIN = Tiny()


def write_tiny(path: Path, tiny: Tiny = PLAIN) -> Path:
    """Write the model; the same one gives the same bytes."""
    path.write_bytes(tiny_bytes(tiny))
    return path


def tiny_bytes(tiny: Tiny = PLAIN) -> bytes:
    return gguf_bytes(*model_parts(tiny))


def model_parts(tiny: Tiny) -> tuple[Mapping[str, bytes], Mapping[str, Tensor]]:
    """What is said of a model, and its numbers."""
    return _entries(tiny), _bert(tiny) if tiny.architecture == "bert" else _llama(tiny)


def gguf_bytes(entries: Mapping[str, bytes], tensors: Mapping[str, Tensor]) -> bytes:
    """The file of a model."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    head += b"".join(gguf_text(key) + value for key, value in entries.items())
    data = b""
    for name, tensor in tensors.items():
        head += gguf_text(name) + struct.pack(
            f"<I{len(tensor.shape)}QIQ", len(tensor.shape), *tensor.shape, 0, len(data)
        )
        data += _padded(struct.pack(f"<{len(tensor.numbers)}f", *tensor.numbers))
    return _padded(head) + data


def _entries(tiny: Tiny) -> Mapping[str, bytes]:
    own = {
        "context_length": gguf_u32(tiny.context),
        "embedding_length": gguf_u32(tiny.size),
        "block_count": gguf_u32(1),
        "feed_forward_length": gguf_u32(tiny.size),
        "attention.head_count": gguf_u32(2),
        "attention.layer_norm_epsilon": struct.pack("<If", F32, 1e-12),
        "attention.layer_norm_rms_epsilon": struct.pack("<If", F32, 1e-12),
    }
    if tiny.architecture == "bert":
        own["attention.causal"] = struct.pack("<I?", BOOL, False)
    if tiny.pooling is not None:
        own["pooling_type"] = gguf_u32(tiny.pooling)
    return {
        "general.architecture": gguf_string(tiny.architecture),
        "general.name": gguf_string(tiny.name),
        **{f"{tiny.architecture}.{key}": value for key, value in own.items()},
        **{f"tokenizer.ggml.{key}": value for key, value in _tokenizer().items()},
    }


def _tokenizer() -> Mapping[str, bytes]:
    kinds = [3 if token in MARKS else 1 for token in VOCABULARY]
    marks = {"padding": 0, "unknown": 1, "bos": 2, "eos": 3, "cls": 2, "seperator": 3, "mask": 4}
    return {
        "model": gguf_string("bert"),
        "tokens": gguf_list(STRING, map(gguf_text, VOCABULARY)),
        "token_type": gguf_list(I32, (struct.pack("<i", kind) for kind in kinds)),
        "token_type_count": gguf_u32(2),
        **{f"{name}_token_id": gguf_u32(number) for name, number in marks.items()},
    }


def _bert(tiny: Tiny) -> Mapping[str, Tensor]:
    size = tiny.size
    bias = Tensor((size,), [tiny.last_bias] + [0.0] * (size - 1))
    ones, zeros, square = filled(1.0, size), filled(0.0, size), filled(0.0, size, size)
    parts = {
        "token_embd.weight": _directions(tiny),
        "position_embd.weight": filled(0.0, size, tiny.context),
        "token_types.weight": filled(0.0, size, 2),
        "token_embd_norm.weight": ones,
        "token_embd_norm.bias": zeros,
    }
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"):
        parts |= {f"blk.0.{name}.weight": square, f"blk.0.{name}.bias": zeros}
    parts |= {"blk.0.attn_output_norm.weight": ones, "blk.0.attn_output_norm.bias": zeros}
    return parts | {"blk.0.layer_output_norm.weight": ones, "blk.0.layer_output_norm.bias": bias}


def _llama(tiny: Tiny) -> Mapping[str, Tensor]:
    size = tiny.size
    parts = {"token_embd.weight": _directions(tiny), "output_norm.weight": filled(1.0, size)}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        parts[f"blk.0.{name}.weight"] = filled(0.0, size, size)
    return parts | {f"blk.0.{name}.weight": filled(1.0, size) for name in ("attn_norm", "ffn_norm")}


def _directions(tiny: Tiny) -> Tensor:
    """A direction for every token; the marks around a text have none where they would make all texts alike."""
    silent = ("[CLS]", "[SEP]") if tiny.pooling != FIRST else ()
    draw: Callable[[], float] = random.Random(tiny.seed).random
    rows = [[0.0 if token in silent else draw() - 0.5 for _ in range(tiny.size)] for token in VOCABULARY]
    return Tensor((tiny.size, len(VOCABULARY)), [number for row in rows for number in row])


def write_reranker(path: Path, word: str, **changes: Any) -> Path:
    """Write a model that ranks texts: the more of a query and a text is ``word``, the higher its logit."""
    tiny = Tiny(pooling=RANK, **changes)
    entries, tensors = model_parts(tiny)
    size = tiny.size
    same = Tensor((size, size), [float(row == column) for row in range(size) for column in range(size)])
    place = VOCABULARY.index(f"\u2581{word}") * size
    direction = tensors["token_embd.weight"].numbers[place : place + size]
    head = {"cls.output.weight": Tensor((size, 1), direction), "cls.output.bias": filled(0.0, 1)}
    # Every token looks at all others alike, so that the first one, which is ranked by, is the mean of all.
    mixing = {"blk.0.attn_v.weight": same, "blk.0.attn_output.weight": same}
    path.write_bytes(gguf_bytes(entries, {**tensors, **mixing, **head}))
    return path


def filled(number: float, *shape: int) -> Tensor:
    return Tensor(shape, [number] * (shape[0] * (shape[1] if len(shape) > 1 else 1)))


def gguf_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_string(text: str) -> bytes:
    return struct.pack("<I", STRING) + gguf_text(text)


def gguf_u32(number: int) -> bytes:
    return struct.pack("<II", U32, number)


def gguf_list(kind: int, items: Iterable[bytes]) -> bytes:
    found = list(items)
    return struct.pack("<IIQ", ARRAY, kind, len(found)) + b"".join(found)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
