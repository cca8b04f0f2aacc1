"""What models are sent and return: the prompts that embedders were trained with, and the scores of rerankers."""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from mdrecall.types.documents import EmbedInput

RECIPE_VERSION = 1
"""Raise it whenever the same model would give different vectors: other prompts, other pooling, other limits."""


class UnexpectedAnswer(Exception):
    """An answer has no vectors or scores where they should be."""


class Prompts(NamedTuple):
    """Templates with ``{text}``, and perhaps ``{title}``, in them."""

    query: str = "{text}"
    document: str = "{text}"

    def of_query(self, text: str) -> str:
        """Return a query in the model's format."""
        return self.query.format(text=text)

    def of_passage(self, passage: EmbedInput) -> str:
        """Return a text in the model's format: with its title in the template's place, or above the text."""
        if "{title}" not in self.document:
            return self.document.format(text=join_title(passage))
        return self.document.format(title=" › ".join(passage.title.splitlines()) or "none", text=passage.text)


def join_title(passage: EmbedInput) -> str:
    """Return the text under its title, for models without prompts."""
    return f"{passage.title}\n\n{passage.text}" if passage.title else passage.text


_INSTRUCTED = Prompts(
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: {text}"
)
_GEMMA = Prompts("task: search result | query: {text}", "title: {title} | text: {text}")
_TABLE = (
    (r"gemma-?embedding|embedding-?gemma", _GEMMA),
    (r"nomic-(embed|bert)", Prompts("search_query: {text}", "search_document: {text}")),
    (r"qwen3-embedding|\be5-.*instruct", _INSTRUCTED),
    (r"\be5-(small|base|large)", Prompts("query: {text}", "passage: {text}")),
    (
        r"\b(bge-(small|base|large)-en|mxbai-embed-large)",
        Prompts("Represent this sentence for searching relevant passages: {text}"),
    ),
)


def prompts_for(*names: str) -> Prompts:
    """Return the prompts of the first model in the table that matches a name; plain texts if none does."""
    folded = [re.sub(r"[\s_]+", "-", name.lower()) for name in names]
    for pattern, prompts in _TABLE:
        if any(re.search(pattern, name) for name in folded):
            return prompts
    return Prompts()


class ScoreScale:
    """The scale of a reranker's scores, logits or probabilities, by those seen so far."""

    def __init__(self, least: float = 0.0) -> None:
        """``least`` is the lowest score that is not a logit: a model that was trained by cosines goes below 0."""
        self._least = least
        self._is_logits = False

    def to_probabilities(self, scores: Sequence[float | None]) -> list[float | None]:
        """Return scores as probabilities. Once one is no probability, all are taken for logits, later ones too."""
        if any(score is not None and not self._least <= score <= 1 for score in scores):
            # Remembered, because the logits of another query may all lie between 0 and 1 by chance.
            self._is_logits = True
        return [None if score is None else sigmoid(score) if self._is_logits else max(0.0, score) for score in scores]


def sigmoid(logit: float) -> float:
    """Return the probability of a logit."""
    return 0.5 * (1 + math.tanh(logit / 2))


def read_scores(answer: Any, rows_at: str, count: int) -> list[float | None]:
    """Return the score of each text; raise ``UnexpectedAnswer`` if any row cannot be trusted."""
    rows = answer.get(rows_at) if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnexpectedAnswer(f"no list of {rows_at}")
    scores: list[float | None] = [None] * count
    for row in rows:
        index, score = row.get("index"), row.get("relevance_score", row.get("score"))
        if type(index) is not int or not 0 <= index < count:
            raise UnexpectedAnswer(f"an index that is not one of {count} texts")
        if scores[index] is not None:
            raise UnexpectedAnswer(f"the index {index} twice")
        if type(score) not in (int, float) or not math.isfinite(score):
            raise UnexpectedAnswer("a score that is not a finite number")
        scores[index] = float(score)
    if not any(score is not None for score in scores):
        raise UnexpectedAnswer("no scores")
    return scores
