"""The scores of rerankers: read from an answer that may be wrong, and brought to probabilities."""

import math
from collections.abc import Sequence
from typing import Any


class UnexpectedScores(Exception):
    """An answer has no scores where they should be, or wrong ones."""


class ScoreScale:
    """The scale of one reranker's scores, as far as they have shown it: logits, or probabilities."""

    def __init__(self, least: float = 0.0) -> None:
        """``least`` is the lowest score that is no logit: a model that was trained by cosines goes below 0."""
        self._least = least
        self._is_logits = False

    def to_probabilities(self, scores: Sequence[float | None]) -> list[float | None]:
        """Return scores as probabilities. If one is beyond them, all are logits, and so are those of later answers."""
        if any(score is not None and not self._least <= score <= 1 for score in scores):
            # Remembered, because the logits of another query may all lie between 0 and 1 by chance.
            self._is_logits = True
        convert = sigmoid if self._is_logits else _clip
        return [None if score is None else convert(score) for score in scores]


def _clip(score: float) -> float:
    return max(0.0, score)


def sigmoid(logit: float) -> float:
    """Return the probability of a logit."""
    return 0.5 * (1 + math.tanh(logit / 2))


def read_scores(answer: Any, rows_at: str, count: int) -> list[float | None]:
    """Return the score of each text; raise ``UnexpectedScores`` if any row cannot be trusted."""
    rows = answer.get(rows_at) if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnexpectedScores(f"no list of {rows_at}")
    scores: list[float | None] = [None] * count
    for row in rows:
        index, score = row.get("index"), row.get("relevance_score", row.get("score"))
        if type(index) is not int or not 0 <= index < count:
            raise UnexpectedScores(f"an index that is not one of {count} texts")
        if scores[index] is not None:
            raise UnexpectedScores(f"the index {index} twice")
        if type(score) not in (int, float) or not math.isfinite(score):
            raise UnexpectedScores("a score that is not a finite number")
        scores[index] = float(score)
    if not any(score is not None for score in scores):
        raise UnexpectedScores("no scores")
    return scores
