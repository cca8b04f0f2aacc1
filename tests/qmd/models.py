"""Three small models that let the real qmd embed, rerank and expand without a download.

The first knows the words of :mod:`tests.embed.tiny_gguf`. The second gives every text the same rank. The third says the
same short line to everything, from which qmd takes nothing.
"""

import struct
from collections.abc import Mapping
from pathlib import Path

from tests.embed.tiny_gguf import (
    BOOL,
    F32,
    I32,
    RANK,
    STRING,
    Tensor,
    Tiny,
    filled,
    gguf_bytes,
    gguf_list,
    gguf_string,
    gguf_text,
    gguf_u32,
    model_parts,
    write_tiny,
)

_SIZE = 64
_END = 2
_NEWLINE = 3 + 0x0A
_UNKNOWN, _CONTROL, _BYTE, _NORMAL = 2, 3, 6, 1
_VOCABULARY = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "lex", ":", "\u2581a"]


def write_models(folder: Path) -> dict[str, str]:
    """Write the models; the environment that makes qmd use them at its first start."""
    embed = write_tiny(folder / "embed.gguf", Tiny(context=2048))
    rerank, generate = folder / "rerank.gguf", folder / "generate.gguf"
    rerank.write_bytes(_ranker())
    generate.write_bytes(_speaker())
    return {"QMD_EMBED_MODEL": str(embed), "QMD_RERANK_MODEL": str(rerank), "QMD_GENERATE_MODEL": str(generate)}


def _ranker() -> bytes:
    tiny = Tiny(context=4096, pooling=RANK)
    entries, tensors = model_parts(tiny)
    head = {
        "cls.weight": filled(0.0, tiny.size, tiny.size),
        "cls.bias": filled(0.0, tiny.size),
        "cls.output.weight": filled(0.1, tiny.size, 1),
        "cls.output.bias": filled(0.0, 1),
    }
    return gguf_bytes(entries, {**tensors, **head})


def _speaker() -> bytes:
    """A model without attention: the next token follows from the last one alone, along one chain to the end."""
    numbers = {token: number for number, token in enumerate(_VOCABULARY)}
    chain = [numbers["lex"], numbers[":"], numbers["\u2581a"], _NEWLINE, _END]
    everything = range(len(_VOCABULARY))
    # A token of the chain points in a direction of its own, any other one in the first; there lies the one to follow.
    embedding = [_direction(chain.index(token) + 1 if token in chain[:-1] else 0) for token in everything]
    output = [_direction(chain.index(token), 8.0) if token in chain else [0.0] * _SIZE for token in everything]
    tensors = {
        "token_embd.weight": _rows(embedding),
        "output.weight": _rows(output),
        "output_norm.weight": filled(1.0, _SIZE),
        **{f"blk.0.{name}.weight": filled(1.0, _SIZE) for name in ("attn_norm", "ffn_norm")},
    }
    parts = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    return gguf_bytes(_entries(), {**tensors, **{f"blk.0.{part}.weight": filled(0.0, _SIZE, _SIZE) for part in parts}})


def _entries() -> Mapping[str, bytes]:
    kinds = [_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * 256, *[_NORMAL] * 4]
    scores = [0.0] * 259 + [-1.0, -2.0, -3.0, -4.0]
    numbers = {
        "llama.context_length": 4096,
        "llama.embedding_length": _SIZE,
        "llama.block_count": 1,
        "llama.feed_forward_length": _SIZE,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 2,
        "llama.rope.dimension_count": _SIZE // 2,
        "llama.vocab_size": len(_VOCABULARY),
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": _END,
    }
    return {
        "general.architecture": gguf_string("llama"),
        "general.name": gguf_string("speaker"),
        "llama.attention.layer_norm_rms_epsilon": struct.pack("<If", F32, 1e-5),
        "tokenizer.ggml.model": gguf_string("llama"),
        "tokenizer.ggml.tokens": gguf_list(STRING, map(gguf_text, _VOCABULARY)),
        "tokenizer.ggml.scores": gguf_list(F32, (struct.pack("<f", score) for score in scores)),
        "tokenizer.ggml.token_type": gguf_list(I32, (struct.pack("<i", kind) for kind in kinds)),
        "tokenizer.ggml.add_bos_token": struct.pack("<I?", BOOL, True),
        **{name: gguf_u32(number) for name, number in numbers.items()},
    }


def _direction(place: int, length: float = 1.0) -> list[float]:
    return [length if number == place else 0.0 for number in range(_SIZE)]


def _rows(rows: list[list[float]]) -> Tensor:
    return Tensor((_SIZE, len(rows)), [number for row in rows for number in row])
