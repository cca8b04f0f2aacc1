"""Passages and pairs as token ids in one long row."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor

_AT_ONCE = 50_000


class Bags(NamedTuple):
    """Texts as runs of token ids inside one long row."""

    flat: Tensor
    starts: Tensor
    lengths: Tensor

    def to(self, device: torch.device) -> "Bags":
        return Bags(*(part.to(device) for part in self))

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of some rows, concatenated, and the row that each belongs to."""
        lengths = self.lengths[rows]
        owners = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), lengths)
        first = torch.cumsum(lengths, 0) - lengths
        inside = torch.arange(len(owners), device=rows.device) - first[owners]
        return self.flat[self.starts[rows][owners] + inside], owners


class Corpus(NamedTuple):
    """The training data: passages, and questions with the passage that answers each."""

    passages: Bags
    questions: Bags
    answers: Bags


def read_corpus(folder: Path, tokenizer: Tokenizer, most_passages: int, longest: int) -> Corpus:
    """Read and tokenise ``passages.jsonl`` {t} and ``pairs.jsonl`` {q, p}."""
    passages = _tokenise(
        (entry["t"] for entry in _entries(folder / "passages.jsonl", most_passages)), tokenizer, longest
    )
    pairs = [(entry["q"], entry["p"]) for entry in _entries(folder / "pairs.jsonl", most_passages)]
    questions = _tokenise((question for question, _ in pairs), tokenizer, longest)
    answers = _tokenise((answer for _, answer in pairs), tokenizer, longest)
    return Corpus(passages, questions, answers)


def tokenise(texts: Iterable[str], tokenizer: Tokenizer, longest: int) -> Bags:
    return _tokenise(iter(texts), tokenizer, longest)


def _entries(path: Path, most: int) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        for line in islice(file, most):
            yield json.loads(line)


def _tokenise(texts: Iterator[str], tokenizer: Tokenizer, longest: int) -> Bags:
    runs: list[Sequence[int]] = []
    while some := list(islice(texts, _AT_ONCE)):
        runs += [encoding.ids[:longest] or [100] for encoding in tokenizer.encode_batch(some, add_special_tokens=False)]
    lengths = torch.tensor([len(run) for run in runs])
    flat = torch.tensor([token for run in runs for token in run], dtype=torch.int32)
    return Bags(flat, torch.cumsum(lengths, 0) - lengths, lengths)
