"""The student: one vector and one weight per word piece; a text is the weighted sum of its pieces."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.teacher import CLS, SEP, WIDTH, Teacher
from training.text import Bags

# How fast the weight of a frequent piece falls: a / (a + share of the text).
_SMOOTH = 1e-3


class Student(nn.Module):
    """A table and its weights; ``lift`` takes its space to the teacher's and is thrown away afterwards.

    Only the pieces that ``known`` marks count; the other rows are nothing.
    """

    known: Tensor

    def __init__(self, table: Tensor, weights: Tensor, back: Tensor, known: Tensor) -> None:
        super().__init__()
        self.register_buffer("known", known)
        self.table = nn.Parameter(table)
        self.log_weights = nn.Parameter(weights.log())
        self.lift = nn.Linear(table.shape[1], WIDTH, bias=False)
        with torch.no_grad():
            self.lift.weight.copy_(back)

    def sums(self, ids: Tensor, owners: Tensor, count: int, keep: Tensor | None = None) -> Tensor:
        """Return rows of summed pieces, not yet of unit length."""
        weights = self.log_weights[ids].exp() * self.known[ids]
        if keep is not None:
            weights = weights * keep
        first = torch.searchsorted(owners, torch.arange(count, device=ids.device))
        return functional.embedding_bag(ids, self.table, first, mode="sum", per_sample_weights=weights)

    def with_weights(self) -> Tensor:
        """Return the table with its weights multiplied in, which is all that ships."""
        return (self.table * (self.log_weights.exp() * self.known)[:, None]).detach()


def is_known(piece: str) -> bool:
    """True if the table has a row for a piece: letters a to z and digits, which the teacher understands."""
    body = piece.removeprefix("##")
    return body.isascii() and body.isalnum()


def begin(teacher: Teacher, vocabulary: list[str], dimensions: int, corpus: Bags, device: torch.device) -> Student:
    """Return the teacher's vector of every piece, centred and on its principal axes, and weights by rarity."""
    size = len(vocabulary)
    pieces = torch.arange(size, device=device)
    known = torch.tensor([is_known(piece) for piece in vocabulary], dtype=torch.float32)
    vectors = []
    for some in pieces.split(4096):
        ids = torch.stack([torch.full_like(some, CLS), some, torch.full_like(some, SEP)], 1)
        vectors.append(teacher.embed(ids, torch.ones_like(ids)))
    centred = torch.cat(vectors)
    centred = centred - centred.mean(0)
    _, _, axes = torch.linalg.svd(centred.double().T @ centred.double())
    axes = axes[:dimensions].float()
    shares = torch.bincount(corpus.flat.long(), minlength=size).float() / len(corpus.flat)
    return Student(centred @ axes.T, _SMOOTH / (_SMOOTH + shares), axes.T.contiguous(), known).to(device)


def learning_rate(step: int, steps: int) -> float:
    """Return the share of the peak rate at a step: a short warm-up, then half a cosine down."""
    warm = max(1, steps // 20)
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
