"""The teacher: all-MiniLM-L6-v2, six layers of BERT, written out so that only its weights are needed."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

#: Of ``model.safetensors``; any other file is refused.
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WIDTH = 384
LAYERS = 6
HEADS = 12
MOST_TOKENS = 256
CLS, SEP, PAD = 101, 102, 0


class Teacher:
    """Mean-pooled, normalised sentence vectors."""

    def __init__(self, weights: dict[str, Tensor], device: torch.device, kind: torch.dtype | None = None) -> None:
        kind = kind or (torch.bfloat16 if device.type == "cuda" else torch.float32)
        self._weights = {name: value.to(device, kind) for name, value in weights.items() if value.is_floating_point()}
        self._device = device

    @torch.no_grad()
    def embed(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return vectors of unit length for rows of token ids with the special tokens at both ends."""
        return pool(self.states(ids, mask), mask)

    @torch.no_grad()
    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return what the last layer says about every token."""
        return self.layers(ids, mask)[-1][0]

    @torch.no_grad()
    def layers(self, ids: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return what each layer says about every token, and the activity of its feed-forward neurons."""
        weights = self._weights
        positions = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kinds = weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._norm(weights["embeddings.word_embeddings.weight"][ids] + positions + kinds, "embeddings")
        seen = mask[:, None, None, :].bool()
        found = []
        for layer in range(LAYERS):
            found.append(self._layer(hidden, seen, f"encoder.layer.{layer}"))
            hidden = found[-1][0]
        return found

    def _layer(self, hidden: Tensor, seen: Tensor, name: str) -> tuple[Tensor, Tensor]:
        rows, length, _ = hidden.shape

        def heads(part: str) -> Tensor:
            projected = self._linear(hidden, f"{name}.attention.self.{part}")
            return projected.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)

        mixed = functional.scaled_dot_product_attention(heads("query"), heads("key"), heads("value"), attn_mask=seen)
        mixed = mixed.transpose(1, 2).reshape(rows, length, WIDTH)
        hidden = self._norm(hidden + self._linear(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output")
        inner = functional.gelu(self._linear(hidden, f"{name}.intermediate.dense"))
        return self._norm(hidden + self._linear(inner, f"{name}.output.dense"), f"{name}.output"), inner

    def _linear(self, hidden: Tensor, name: str) -> Tensor:
        return functional.linear(hidden, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, hidden: Tensor, name: str) -> Tensor:
        scale, shift = self._weights[f"{name}.LayerNorm.weight"], self._weights[f"{name}.LayerNorm.bias"]
        return functional.layer_norm(hidden, (WIDTH,), scale, shift, eps=1e-12)


def pool(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the tokens that the mask marks, as vectors of unit length."""
    return functional.normalize((hidden.float() * mask[..., None]).sum(1), dim=-1)


def load(folder: Path, device: torch.device) -> tuple[Teacher, Tokenizer, list[str]]:
    """Load the teacher, its tokenizer and its vocabulary from the folder of a published copy."""
    check(folder)
    return Teacher(load_file(folder / "model.safetensors"), device), tokenizer(folder), vocabulary(folder)


def check(folder: Path) -> None:
    """Stop if the folder's ``model.safetensors`` is not the published one."""
    weights = folder / "model.safetensors"
    found = hashlib.sha256(weights.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{weights} is not the expected all-MiniLM-L6-v2: its SHA-256 is {found}.")


def tokenizer(folder: Path) -> Tokenizer:
    """Return the word-piece tokenizer, without padding and with the teacher's limit."""
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.no_padding()
    made.no_truncation()
    return made


def vocabulary(folder: Path) -> list[str]:
    """Return the word pieces in the order of their ids."""
    vocab = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    return sorted(vocab, key=vocab.__getitem__)


def batches(lengths: Tensor, tokens: int) -> Iterator[Tensor]:
    """Yield row numbers in groups of similar length, each with at most ``most`` tokens when padded."""
    order = torch.argsort(lengths)
    widths = (lengths[order] + 2).tolist()
    start = 0
    for end, width in enumerate(widths):
        if end > start and (end - start + 1) * width > tokens:
            yield order[start:end]
            start = end
    if start < len(order):
        yield order[start:]


def pad(starts: Tensor, lengths: Tensor, flat: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows of ids with special tokens, padded, and their mask; a row is cut at the teacher's limit."""
    kept = lengths.clamp(max=MOST_TOKENS - 2)
    width = int(kept.max())
    column = torch.arange(width, device=flat.device)
    inside = column[None] < kept[:, None]
    body = torch.where(inside, flat[(starts[:, None] + column[None]).clamp(max=len(flat) - 1)], PAD)
    ids = torch.full((len(starts), width + 2), PAD, device=flat.device, dtype=body.dtype)
    ids[:, 0] = CLS
    ids[:, 1:-1] = body
    ids[torch.arange(len(starts), device=flat.device), kept + 1] = SEP
    mask = torch.arange(width + 2, device=flat.device)[None] < (kept + 2)[:, None]
    return ids, mask
