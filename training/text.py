"""Passages and pairs as token ids, laid end to end."""

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
        """The ids of some rows, end to end, and for each the row it belongs to."""
        lengths = self.lengths[rows]
        owners = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), lengths)
        first = torch.cumsum(lengths, 0) - lengths
        inside = torch.arange(len(owners), device=rows.device) - first[owners]
        return self.flat[self.starts[rows][owners] + inside], owners


class Corpus(NamedTuple):
    """What is learned from: passages, and questions with the passage that answers each."""

    passages: Bags
    questions: Bags
    answers: Bags


def read_corpus(folder: Path, tokenizer: Tokenizer, most_passages: int, longest: int) -> Corpus:
    """``passages.jsonl`` {t} and ``pairs.jsonl`` {q, p}, tokenised."""
    passages = _tokenised(
        (entry["t"] for entry in _entries(folder / "passages.jsonl", most_passages)), tokenizer, longest
    )
    pairs = [(entry["q"], entry["p"]) for entry in _entries(folder / "pairs.jsonl", most_passages)]
    questions = _tokenised((question for question, _ in pairs), tokenizer, longest)
    answers = _tokenised((answer for _, answer in pairs), tokenizer, longest)
    return Corpus(passages, questions, answers)


def tokenised(texts: Iterable[str], tokenizer: Tokenizer, longest: int) -> Bags:
    return _tokenised(iter(texts), tokenizer, longest)


def _entries(path: Path, most: int) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        for line in islice(file, most):
            yield json.loads(line)


def _tokenised(texts: Iterator[str], tokenizer: Tokenizer, longest: int) -> Bags:
    runs: list[Sequence[int]] = []
    while some := list(islice(texts, _AT_ONCE)):
        runs += [encoding.ids[:longest] or [100] for encoding in tokenizer.encode_batch(some, add_special_tokens=False)]
    lengths = torch.tensor([len(run) for run in runs])
    flat = torch.tensor([token for run in runs for token in run], dtype=torch.int32)
    return Bags(flat, torch.cumsum(lengths, 0) - lengths, lengths)
